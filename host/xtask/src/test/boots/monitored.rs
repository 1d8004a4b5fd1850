// data: boots of our kernel with the monitor beneath it.
//! The machine of the monitor.

use super::{Boot, Expect::*, PAGE_SIZES, other, plain};

/// Every boot of this file.
pub(super) fn all() -> Vec<Boot> {
    let mut boots = Vec::new();
    for size in PAGE_SIZES {
        for cpus in [1, 4, 8] {
            let bare = plain(size, cpus, 1, "512M");
            boots.push(Boot {
                name: format!("monitor {size}, {cpus} CPUs"),
                options: format!("--monitor {}", bare.options),
                expect: [bare.expect, vec![MonitorCounts("ID registers read")]].concat(),
                ..bare
            });
        }
    }
    let monitored = |name: &str, options: &str, expect| Boot {
        name: format!("monitor, {name}"),
        ..other(name, &format!("--monitor {options}"), &[], expect)
    };
    boots.extend([
        monitored("CPUs of 40 bits", "--cpu cortex-a53", vec![Cpus(2)]),
        monitored("CPUs of 44 bits", "--cpu cortex-a72", vec![Cpus(2)]),
        monitored("CPUs of 48 bits", "--cpu neoverse-n1 --page-size 16k", vec![PageSize("16k"), Cpus(2)]),
        monitored("a GICv2", "-- -M gic-version=2", vec![Cpus(2)]),
        monitored("an initrd", "--initrd Cargo.lock", vec![Says(&["initrd"])]),
        monitored("one thread for all CPUs", "-- -accel tcg,thread=single", vec![Cpus(2)]),
        monitored("late CPUs of the kernel's", "--append vellum.late=1", vec![Says(&["comes late", "1 of 1"])]),
        monitored("the same twice", "--icount", vec![SameTwice]),
        monitored("8 GiB", "--memory 8G", vec![Cpus(2)]),
    ]);
    boots
}
