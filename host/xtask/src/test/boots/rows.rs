//! The rows of README's table: CPU models, ways of entry, machines, memory, each at every page size.

use super::{
    boot::{Boot, PAGE_SIZES},
    matrix::{MODELS, MODELS_OF_11, Model, expected},
};

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
    let columns = || 0..PAGE_SIZES.len();
    let models = MODELS.iter().flat_map(|model| of_model(model, &format!("`{}`", model.name), "", 1));
    let others = OTHERS.iter().flat_map(|(row, options, has_16k)| {
        columns()
            .map(move |column| boot(row, options, *has_16k, column, |size| vec![format!("page {}", PAGE_SIZES[size])]))
    });
    let later = MODELS_OF_11.iter().flat_map(|model| {
        let row = |entry: &str| format!("`{}`{entry}, QEMU 11", model.name);
        let at_el1 = of_model(model, &row(""), " --qemu 11", 1);
        at_el1.chain(of_model(model, &row(", entered at EL2"), " --qemu 11 -- -M virtualization=on", 2))
    });
    models.chain(others).chain(later).collect()
}

/// A model's row: what it has at every page size, all its CPUs, the level of entry.
fn of_model(model: &'static Model, row: &str, options: &str, level: u8) -> impl Iterator<Item = Boot> + use<> {
    let (row, options) = (row.to_owned(), format!("--memory 512M --cpu {}{options}", model.name));
    let expected = move |size: usize| expected(PAGE_SIZES[size], model.largest_bits(size), 4, level);
    (0..PAGE_SIZES.len()).map(move |column| boot(&row, &options, model.has(column), column, expected))
}

/// A boot, of which is expected what `expected` says of the page size that is taken.
fn boot(row: &str, options: &str, has: bool, column: usize, expected: impl Fn(usize) -> Vec<String>) -> Boot {
    let size = PAGE_SIZES[column];
    let is_lacking = size == "16k" && !has;
    let mut expectations = expected(if is_lacking { 0 } else { column });
    expectations.push(format!("place {size} {row}"));
    expectations.extend(is_lacking.then(|| "warns arm64.pagesize & 16K & no 16K granule & 4K is used".to_owned()));
    Boot::new(format!("boot {size}, {}", row.replace('`', "")), format!("--page-size {size} {options}"), expectations)
}
