// data: the boots that must be green, as `cargo xtask run` would be asked for them.
//! The table of boot tests.

mod init;
mod matrix;
mod mismatched;
mod monitored;
mod rows;
mod stressed;
mod trees;

use std::ffi::OsString;

use super::{
    expect::{Expect, Expect::*, Words},
    table::Place,
};
use crate::outcome::Status;

/// One boot test.
#[derive(Clone, Debug)]
pub(crate) struct Boot {
    pub(crate) name: String,
    /// What follows `cargo xtask run`.
    pub(crate) options: String,
    pub(crate) ends: Status,
    /// Words of the warnings that must come, in order. There may be no others.
    pub(crate) warnings: Vec<Words>,
    pub(crate) expect: Vec<Expect>,
    /// Where README's table tells of it.
    pub(crate) place: Option<Place>,
}

/// The page sizes: the columns of README's table.
pub(crate) const PAGE_SIZES: [&str; 3] = ["4k", "16k", "64k"];

/// The boots of a default run, or the whole matrix.
pub(crate) fn all(is_whole_matrix: bool) -> Vec<Boot> {
    let mut boots = Vec::new();
    for size in PAGE_SIZES {
        for cpus in [1, 4] {
            boots.push(plain(size, cpus, 1, "2G"));
        }
        boots.push(plain(size, 4, 2, "2G"));
        boots.push(bounded(size));
    }
    boots.push(plain("4k", 4, 1, "8G"));
    boots.push(Boot {
        name: "boot, page size the CPU lacks".into(),
        options: "--cpu cortex-a72 --page-size 16k".into(),
        warnings: vec![&["arm64.pagesize", "16k"]],
        expect: vec![PageSize("4k")],
        ..plain("4k", 4, 1, "2G")
    });
    boots.push(Boot {
        name: "boot, page size that is none".into(),
        options: "--append arm64.pagesize=8k".into(),
        warnings: vec![&["arm64.pagesize", "8k"]],
        expect: vec![PageSize("4k")],
        ..plain("4k", 4, 1, "2G")
    });
    boots.push(Boot {
        name: "boot, linear map tables of 2 GiB".into(),
        options: "--page-size 4k --memory 2G".into(),
        expect: vec![LinearMapTablesAtMost { bytes: 32 << 10 }],
        ..plain("4k", 4, 1, "2G")
    });
    boots.push(Boot {
        name: "boot, the same twice".into(),
        options: "--icount".into(),
        expect: vec![SameTwice],
        ..plain("4k", 4, 1, "2G")
    });
    boots.extend(audited());
    boots.extend(widths());
    boots.extend(mismatched::all());
    boots.extend(monitored::all());
    boots.extend(inputs());
    boots.extend(rows::all());
    boots.extend(init::all());
    boots.extend(stressed::all());
    boots.extend(trees::all());
    boots.extend(if is_whole_matrix { matrix::whole() } else { matrix::pairwise() });
    boots
}

/// The words of options, as a shell takes them apart: what stands in single quotes is one.
pub(crate) fn words(options: &str) -> Vec<OsString> {
    let (mut words, mut is_quoted) = (vec![String::new()], false);
    for symbol in options.chars() {
        match symbol {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            symbol => words.last_mut().expect("there is a first").push(symbol),
        }
    }
    words.into_iter().map(OsString::from).collect()
}

/// A boot on QEMU's best CPU, entered at `level`.
fn plain(size: &'static str, cpus: usize, level: u8, memory: &str) -> Boot {
    let plural = if cpus == 1 { "" } else { "s" };
    let options = format!("--page-size {size} --cpus {cpus} --memory {memory}");
    Boot {
        name: format!("boot {size}, {cpus} CPU{plural}, EL{level}, {memory}"),
        options: if level == 2 { format!("{options} -- -M virtualization=on") } else { options },
        ends: Status::Passed,
        warnings: vec![],
        expect: vec![PageSize(size), Cpus(cpus), EnteredAt(level)],
        place: None,
    }
}

/// Boots whose every store to a table, TLBI and barrier is judged, while leaves change size and CPUs are parked for it.
fn audited() -> impl Iterator<Item = Boot> {
    let of = |(size, level): (&'static str, u8)| {
        let entry = if level == 2 { " -- -M virtualization=on" } else { "" };
        Boot {
            name: format!("boot {size}, EL{level}, audited, QEMU 11"),
            options: format!("--audit --page-size {size} --cpus 2 --append vellum.stress=40{entry}"),
            expect: vec![PageSize(size), Cpus(2), EnteredAt(level), Says(&["as it was before, leaf for leaf"])],
            ..plain(size, 2, level, "2G")
        }
    };
    let above = |machine: &str, more: &str| Boot {
        name: format!("boot above {machine}, audited, QEMU 11"),
        options: format!("--audit --monitor --memory 1G --machine bare/monitor/machines/{machine}.toml {more}"),
        expect: vec![],
        ..plain("4k", 2, 1, "1G")
    };
    let stress = "--cpus 2 --append vellum.stress=20";
    let above = [
        above("boot-cpu-does-not", stress),
        above("all-resize", stress),
        above("realm", "--cpus 2 --kernel realm"),
        above("conflicts-in-resizes", "--cpus 2 --kernel resizer --append resizer.count=100"),
    ];
    [("4k", 1), ("16k", 2), ("64k", 1)].into_iter().map(of).chain(above)
}

/// A deterministic boot on one CPU: as many instructions until the first self-check in every run.
fn bounded(size: &'static str) -> Boot {
    Boot {
        name: format!("boot {size}, instructions"),
        options: format!("--page-size {size} --cpus 1 --memory 2G --icount"),
        expect: vec![PageSize(size), FirstCheckWithin { instructions: 60_000_000 }],
        ..plain(size, 1, 1, "2G")
    }
}

/// A boot on two CPUs with little memory, under a name and with options of its own.
fn other(name: &str, options: &str, warnings: &[Words], expect: Vec<Expect>) -> Boot {
    Boot {
        name: format!("boot, {name}"),
        options: format!("--cpus 2 --memory 256M {options}"),
        ends: Status::Passed,
        warnings: warnings.to_vec(),
        expect,
        place: None,
    }
}

/// Command lines, machines and numbers of CPUs that are odd.
fn inputs() -> Vec<Boot> {
    let odd = |name, options, warnings: &[Words], expect| other(name, options, warnings, expect);
    vec![
        odd("an unknown option", "--append vellum.vabit=48", &[&["vellum.vabit", "unknown", "vellum.vabits"]], vec![]),
        odd("another's options", "--append quiet --append root=/dev/vda", &[], vec![Cpus(2)]),
        odd(
            "a value twice",
            "--append vellum.vabits=42 --append vellum.vabits=39",
            &[&["given again"]],
            vec![VirtualBits(39)],
        ),
        odd("a quote that is open", "--append \"vellum.vabits=39", &[&["quote", "not closed"]], vec![]),
        odd("more CPUs than are supported", "-- -smp 9", &[&["9 CPUs", "8"]], vec![Cpus(8)]),
        odd(
            "two NUMA nodes",
            "-- -smp 4 -numa node,memdev=a -numa node,memdev=b -object memory-backend-ram,id=a,size=96M -object memory-backend-ram,id=b,size=160M",
            &[],
            vec![Cpus(4), Says(&["256M in"])],
        ),
        odd("an initrd", "-- -initrd Cargo.lock", &[], vec![Says(&["initrd"])]),
        odd("tagged memory", "-- -M mte=on", &[], vec![Cpus(2)]),
        odd("an older machine", "--machine virt-6.0", &[], vec![Cpus(2)]),
        odd("one thread for all CPUs", "-- -accel tcg,thread=single", &[], vec![Cpus(2)]),
        odd("entry below a secure world", "--cpus 1 -- -M secure=on", &[], vec![EnteredAt(1)]),
        odd(
            "entry at EL2 below a secure world",
            "--cpu cortex-a76 -- -M secure=on,virtualization=on",
            &[],
            vec![EnteredAt(2), Cpus(2)],
        ),
        odd("by U-Boot", "--loader u-boot --page-size 64k --memory 512M", &[], vec![PageSize("64k"), Cpus(2)]),
        odd(
            "by U-Boot at EL2",
            "--loader u-boot --memory 512M -- -M virtualization=on",
            &[],
            vec![EnteredAt(2), Cpus(2)],
        ),
        odd("as an ELF by a debugger", "--loader gdb --page-size 16k", &[], vec![PageSize("16k"), Cpus(2)]),
        odd("as an ELF by a debugger at EL2", "--loader gdb -- -M virtualization=on", &[], vec![EnteredAt(2), Cpus(2)]),
        odd(
            "memory from 0",
            "--machine xlnx-versal-virt --memory 512M --cpus 4",
            &[],
            vec![Says(&["512M in 1 ranges"]), Says(&["0x0000000000000000-", "free"])],
        ),
        odd(
            "memory from 0, 64k",
            "--machine xlnx-versal-virt --memory 512M --cpus 4 --page-size 64k",
            &[],
            vec![PageSize("64k")],
        ),
    ]
}

/// Every width there is, and some that cannot be had.
fn widths() -> Vec<Boot> {
    let asked = PAGE_SIZES.into_iter().flat_map(|size| {
        (36..=52).map(move |bits| {
            let options = format!("--page-size {size} --append vellum.vabits={bits}");
            other(&format!("{size}, {bits} bits"), &options, &[], vec![PageSize(size), VirtualBits(bits)])
        })
    });
    let refused = |name, options, warning, bits| other(name, options, &[warning], vec![VirtualBits(bits)]);
    let refused = [
        refused(
            "52 bits without LPA2",
            "--cpu max,lpa2=off --append vellum.vabits=52",
            &["vellum.vabits=52", "at most 48 with 4K pages", "48 is used"],
            48,
        ),
        refused(
            "49 bits without LVA",
            "--cpu cortex-a72 --page-size 64k --append vellum.vabits=49",
            &["vellum.vabits=49", "at most 48 with 64K pages"],
            48,
        ),
        refused("35 bits", "--append vellum.vabits=35", &["vellum.vabits=35", "a number from 36 to 52"], 52),
        refused("53 bits", "--append vellum.vabits=53", &["vellum.vabits=53", "a number from 36 to 52"], 52),
        refused("bits that are no number", "--append vellum.vabits=4x", &["vellum.vabits=4x", "makes no sense"], 52),
        refused("bits without a number", "--append vellum.vabits", &["vellum.vabits has no value"], 52),
    ];
    asked.chain(refused).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::boot::options;

    #[test]
    fn every_boot_has_a_name_of_its_own_and_options_that_run() {
        let boots = all(true);
        let names: HashSet<&str> = boots.iter().map(|boot| boot.name.as_str()).collect();
        assert_eq!(names.len(), boots.len());
        for boot in &boots {
            let words = words(&boot.options);
            assert!(matches!(options::parse(&words), Ok(options::Asked::Run(_))), "{}", boot.options);
        }
    }

    #[test]
    fn the_default_run_holds_what_was_promised() {
        let boots = all(false);
        let has = |options: &str| boots.iter().any(|boot| boot.options == options);
        for size in PAGE_SIZES {
            assert!(has(&format!("--page-size {size} --cpus 1 --memory 2G")));
            assert!(has(&format!("--page-size {size} --cpus 4 --memory 2G")));
            assert!(has(&format!("--page-size {size} --cpus 4 --memory 2G -- -M virtualization=on")));
            assert!(has(&format!("--page-size {size} --cpus 1 --memory 2G --icount")));
        }
        assert!(boots.iter().any(|boot| boot.options.contains("8G")));
    }
}
