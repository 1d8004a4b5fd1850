//! QEMU's command line for a boot.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    process::Command,
};

use super::options::Options;

/// The emulator's program.
pub(crate) const PROGRAM: &str = "qemu-system-aarch64";

/// The arguments that boot `image` as `options` ask. A person's own arguments come last, so that they win.
pub(crate) fn arguments(options: &Options, image: &Path) -> Vec<OsString> {
    let mut words = machine_arguments(options);
    words.extend(["-kernel".into(), image.into(), "-append".into(), kernel_command_line(options).into()]);
    words.extend(options.qemu.iter().cloned());
    words
}

/// The machine without anything to boot, and without a person's own arguments.
pub(crate) fn machine_arguments(options: &Options) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |pair: [&dyn AsRef<OsStr>; 2]| words.extend(pair.map(|word| word.as_ref().to_os_string()));
    let machine = match (options.machine.as_str(), options.icount) {
        (virt, false) if options.is_virt() => format!("{virt},gic-version=3"),
        (virt, true) if options.is_virt() => format!("{virt},gic-version=3,dtb-randomness=off"),
        (other, _) => other.to_string(),
    };
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

/// What the kernel is told.
pub(crate) fn kernel_command_line(options: &Options) -> String {
    let mut line = String::from("vellum.exit=semihosting");
    if let Some(size) = options.page_size {
        line.push_str(&format!(" arm64.pagesize={size}"));
    }
    for text in &options.append {
        line.push(' ');
        line.push_str(text);
    }
    line
}

/// A command as a person would type it.
pub(crate) fn typed(command: &Command) -> String {
    let words: Vec<String> = std::iter::once(command.get_program()).chain(command.get_args()).map(quoted).collect();
    words.join(" ")
}

/// A word, in single quotes where a shell would take it apart.
pub(crate) fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=,./:+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::options::{Asked, parse};

    fn line(words: &str) -> String {
        let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        let Ok(Asked::Run(options)) = parse(&words) else { panic!("{words:?} refused") };
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

    #[test]
    fn words_a_shell_would_split_are_quoted() {
        assert_eq!(quoted("-smp".as_ref()), "-smp");
        assert_eq!(quoted("a b".as_ref()), "'a b'");
        assert_eq!(quoted("it's".as_ref()), r"'it'\''s'");
        assert_eq!(quoted("".as_ref()), "''");
    }
}
