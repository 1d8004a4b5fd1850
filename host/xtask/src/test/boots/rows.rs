//! The rows of README's table: CPU models, ways of entry, machines, memory, each at every page size.

use super::{Boot, Expect::*, PAGE_SIZES, Words, matrix::MODELS};
use crate::outcome::Status;

/// Rows beside the models: what stands in the table, the options, and whether the CPU has 16K pages.
const OTHERS: &[(&str, &str, bool)] = &[
    ("`max`, entered at EL2", "--memory 512M -- -M virtualization=on", true),
    ("`max`, GICv2", "--memory 512M -- -M gic-version=2", true),
    ("`max`, 8 CPUs", "--memory 512M --cpus 8", true),
    ("by U-Boot", "--memory 512M --loader u-boot", true),
    ("as an ELF by a debugger", "--memory 512M --loader gdb", true),
    ("RAM from address 0 (`xlnx-versal-virt`)", "--memory 512M --machine xlnx-versal-virt", false),
    ("RAM above 512 GiB", "--memory 256M --tree above-512g", true),
    ("RAM above 2^48", "--memory 256M --tree above-48-bits", true),
];

/// Every boot of the table but those with the least memory.
pub(super) fn all() -> Vec<Boot> {
    let models = MODELS.iter().flat_map(|model| (0..PAGE_SIZES.len()).map(move |column| (model, column)));
    let models = models.map(|(model, column)| {
        let taken = if model.has(column) { column } else { 0 };
        let options = format!("--memory 512M --cpu {}", model.name);
        let boot = boot(&format!("`{}`", model.name), &options, model.has_16k, column);
        Boot { expect: vec![PageSize(PAGE_SIZES[taken]), VirtualBits(model.largest_bits(taken)), Cpus(4)], ..boot }
    });
    let others = OTHERS.iter().flat_map(|row| (0..PAGE_SIZES.len()).map(move |column| (row, column)));
    models.chain(others.map(|((row, options, has_16k), column)| boot(row, options, *has_16k, column))).collect()
}

fn boot(row: &str, options: &str, has_16k: bool, column: usize) -> Boot {
    let size = PAGE_SIZES[column];
    let is_lacking = size == "16k" && !has_16k;
    let lacks: Words = &["arm64.pagesize", "16K", "no 16K granule", "4K is used"];
    Boot {
        name: format!("boot {size}, {}", row.replace('`', "")),
        options: format!("--page-size {size} {options}"),
        ends: Status::Passed,
        warnings: if is_lacking { vec![lacks] } else { vec![] },
        expect: vec![PageSize(if is_lacking { "4k" } else { size })],
        place: Some((row.to_string(), column)),
    }
}
