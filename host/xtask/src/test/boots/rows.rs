//! The rows of README's table: CPU models, ways of entry, machines, memory, each at every page size.

use super::{
    Boot,
    Expect::*,
    PAGE_SIZES, Words,
    matrix::{MODELS, MODELS_OF_11, Model},
};
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
    let models = MODELS.iter().flat_map(|model| of_model(model, &format!("`{}`", model.name), "", 1));
    let others = OTHERS.iter().flat_map(|row| (0..PAGE_SIZES.len()).map(move |column| (row, column)));
    let others = others.map(|((row, options, has_16k), column)| boot(row, options, *has_16k, column));
    let later = MODELS_OF_11.iter().flat_map(|model| {
        let row = |entry: &str| format!("`{}`{entry}, QEMU 11", model.name);
        let at_el1 = of_model(model, &row(""), " --qemu 11", 1);
        [at_el1, of_model(model, &row(", entered at EL2"), " --qemu 11 -- -M virtualization=on", 2)].concat()
    });
    models.chain(others).chain(later).collect()
}

/// A model's row: what it has at every page size, all its CPUs, where it is entered.
fn of_model(model: &'static Model, row: &str, options: &str, level: u8) -> Vec<Boot> {
    let options = format!("--memory 512M --cpu {}{options}", model.name);
    let boots = (0..PAGE_SIZES.len()).map(|column| {
        let taken = if model.has(column) { column } else { 0 };
        let expect =
            vec![PageSize(PAGE_SIZES[taken]), VirtualBits(model.largest_bits(taken)), Cpus(4), EnteredAt(level)];
        Boot { expect, ..boot(row, &options, model.has_16k, column) }
    });
    boots.collect()
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
