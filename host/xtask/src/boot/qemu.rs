//! QEMU's command line for a boot.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use super::{init, options::Options};

/// The arguments that boot `image` as `options` ask. A person's own arguments come last, so that they win.
pub(crate) fn arguments(options: &Options, image: &Path) -> Vec<OsString> {
    arguments_with(options, image, &kernel_command_line(options))
}

/// The same with another command line than the kernel's alone.
pub(crate) fn arguments_with(options: &Options, image: &Path, command_line: &str) -> Vec<OsString> {
    let mut words = machine_arguments(options);
    words.extend(["-kernel".into(), image.into(), "-append".into(), command_line.into()]);
    if let Some(initrd) = &options.initrd {
        words.extend(["-initrd".into(), initrd.into()]);
    }
    words.extend(options.qemu.iter().cloned());
    words
}

/// The machine without anything to boot, and without a person's own arguments.
pub(crate) fn machine_arguments(options: &Options) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |pair: [&dyn AsRef<OsStr>; 2]| words.extend(pair.map(|word| word.as_ref().to_os_string()));
    let mut machine = options.machine.clone();
    if options.is_virt() {
        machine.push_str(",gic-version=3");
    }
    if options.is_virt() && options.icount {
        machine.push_str(",dtb-randomness=off");
    }
    if options.monitor {
        machine.push_str(",virtualization=on");
    }
    add([&"-M", &machine]);
    if options.is_virt() {
        // Other machines have CPUs of their own.
        add([&"-cpu", &cpu(&options.cpu)]);
    }
    add([&"-smp", &options.cpus.to_string()]);
    add([&"-m", &format!("{}M", options.memory_mib)]);
    add([&"-display", &"none"]);
    add([&"-monitor", &"none"]);
    add([&"-serial", &"stdio"]);
    add([&"-nic", &"none"]);
    add([&"-semihosting-config", &"enable=on,target=native"]);
    if options.icount {
        // Of the host's time and randomness nothing may reach the guest: not by its clock, not by its seed, and (above)
        // not by its device tree.
        add([&"-icount", &"shift=0,sleep=off"]);
        add([&"-seed", &"1"]);
        add([&"-rtc", &"base=2026-01-01,clock=vm"]);
    }
    if options.gdb {
        words.extend(["-s".into(), "-S".into()]);
    }
    words
}

/// `max` computes its pointer authentication with a slow cipher unless told otherwise: half of a boot's time.
fn cpu(model: &str) -> String {
    let (name, properties) = model.split_once(',').unwrap_or((model, ""));
    if name == "max" && !properties.contains("pauth") { format!("{model},pauth-impdef=on") } else { model.to_string() }
}

/// What the kernel is told; another one than ours only what a person says.
pub(crate) fn kernel_command_line(options: &Options) -> String {
    let mut words = Vec::new();
    match (&options.kernel, options.monitor) {
        (Some(_), _) => {}
        (None, false) => words.push("vellum.exit=semihosting".to_string()),
        // The monitor is told, so that its report comes before the end.
        (None, true) => words.push("vellum.exit=monitor".to_string()),
    }
    words.extend((options.json && options.kernel.is_none()).then(|| "vellum.report=json".to_string()));
    words.extend(options.page_size.map(|size| format!("arm64.pagesize={size}")));
    words.extend(options.init.iter().map(|text| init::word(text)));
    words.extend(options.append.iter().cloned());
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{boot::options::parse, terminal::quoted};

    fn line(words: &str) -> String {
        let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        let options = parse(&words).expect("options");
        let arguments = arguments(&options, Path::new("Image"));
        arguments.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_plain_boot() {
        assert_eq!(
            line(""),
            "-M virt,gic-version=3 -cpu max,pauth-impdef=on -smp 4 -m 2048M -display none -monitor none \
             -serial stdio -nic none -semihosting-config enable=on,target=native -kernel Image \
             -append vellum.exit=semihosting"
        );
    }

    #[test]
    fn a_persons_arguments_come_last() {
        let line = line("--page-size 64k --append x=1 --append y -- -M virtualization=on -smp 9");
        assert!(
            line.ends_with("-append 'vellum.exit=semihosting arm64.pagesize=64k x=1 y' -M virtualization=on -smp 9"),
            "{line}"
        );
    }

    #[test]
    fn a_deterministic_run_takes_nothing_from_the_host() {
        let line = line("--icount");
        for part in [
            "-M virt,gic-version=3,dtb-randomness=off ",
            "-icount shift=0,sleep=off -seed 1 -rtc base=2026-01-01,clock=vm ",
        ] {
            assert!(line.contains(part), "{line}");
        }
    }

    #[test]
    fn another_kernel_is_told_what_a_person_says() {
        let line = line("--kernel vmlinuz --initrd rootfs --append quiet");
        assert!(line.ends_with("-kernel Image -append quiet -initrd rootfs"), "{line}");
    }

    #[test]
    fn a_debugger_finds_the_machine_stopped() {
        assert!(line("--gdb").contains(" -s -S "));
    }

    #[test]
    fn only_max_without_a_choice_of_its_own_gets_the_fast_pointer_authentication() {
        assert_eq!(cpu("max"), "max,pauth-impdef=on");
        assert_eq!(cpu("max,lpa2=off"), "max,lpa2=off,pauth-impdef=on");
        assert_eq!(cpu("max,pauth=off"), "max,pauth=off");
        assert_eq!(cpu("cortex-a72"), "cortex-a72");
    }
}
