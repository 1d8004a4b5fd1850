//! `vellum report`: one page that shows the page tables of a machine, or of two and what differs.
//!
//! ```text
//! machine ──▶ Space: runs, tables ──┬─▶ drawing: runs as text, styles ──┐
//!                check: findings ───┤                                   ├──▶ shown: HTML, with its own script
//!                plan: the largest ─┘   changes: before and after ──────┘
//! ```

mod changes;
mod drawing;
mod shown;
mod whose;

use image::{Machine, Registers};
use terminal::Ending;

use crate::args::{MachineArguments, ReportArguments};
use crate::check::{self, finding::Finding};
use crate::page;
use crate::select::{self, Failure, Selection};
use crate::space::Space;

/// A machine as it was read.
struct Snapshot {
    name: String,
    /// Whether a person chose the name.
    is_called: bool,
    cpus: Vec<Registers>,
    spaces: Vec<Space>,
    findings: Vec<Finding>,
}

/// Runs the command.
pub(crate) fn run(arguments: &ReportArguments) -> Result<Ending, Failure> {
    let (names, sources) = (arguments.called.len(), 1 + usize::from(arguments.after.is_some()));
    if names > sources {
        let sources = terminal::counted(sources as u64, "source");
        return Err(Failure(format!("--called has {names} names for {sources}: give each source one at most")));
    }
    page::claim(&arguments.output)?;
    let mut names = arguments.called.iter();
    let before = read(&arguments.machine, names.next())?;
    let after = match &arguments.after {
        Some(source) => {
            let machine = MachineArguments { source: source.clone(), ..arguments.machine.clone() };
            Some(read(&machine, names.next())?)
        }
        None => None,
    };
    page::write(&arguments.output, &shown::page(&before, after.as_ref()))?;
    let is_clean = [Some(&before), after.as_ref()].into_iter().flatten().all(|of| of.findings.is_empty());
    Ok(if is_clean { Ending::Clean } else { Ending::Wrong })
}

/// Reads all, and lets the machine go.
fn read(arguments: &MachineArguments, called: Option<&String>) -> Result<Snapshot, Failure> {
    let Selection { mut machine, roots } = select::open(arguments)?;
    let mut spaces = Vec::new();
    for root in &roots {
        spaces.push(Space::read(&mut machine, root)?);
    }
    let findings = check::check(&mut machine, &roots)?;
    let Machine { cpus, .. } = machine;
    let name = called.cloned().unwrap_or_else(|| arguments.source.to_string());
    Ok(Snapshot { name, cpus, spaces, findings, is_called: called.is_some() })
}

#[cfg(test)]
mod tests {
    use image::Source;

    use super::*;
    use crate::args::{AccessArguments, Part};

    /// A page table of each half, of one page; a machine with both, and one without the lower.
    #[test]
    fn a_page_table_that_one_machine_has_is_told() {
        const BASE: u64 = 0x4000_0000;
        let path = std::env::temp_dir().join(format!("vellum-pair-{}", std::process::id()));
        let mut words = vec![0u64; 512 * 8];
        for root in [0, 4] {
            for level in 0..3 {
                words[512 * (root + level)] = (BASE + 0x1000 * (root + level + 1) as u64) | 3;
            }
            words[512 * (root + 3)] = BASE | 0x0060_0000_0000_0703;
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        std::fs::write(&path, bytes).expect("written");
        let source: Source = format!("raw:{}@{BASE:#x}", path.display()).parse().expect("a source");
        let (tcr, part) = (Some(0x15_b510_3510), Part::All);
        let upper = AccessArguments { ttbr1: Some(BASE), tcr, part, ..AccessArguments::default() };
        let both = AccessArguments { ttbr0: Some(BASE + 0x4000), ..upper.clone() };
        let [both, upper] = [both, upper].map(|access| MachineArguments { source: source.clone(), access });
        let [both, upper] = [both, upper].map(|of| read(&of, None).unwrap_or_else(|Failure(why)| panic!("{why}")));
        std::fs::remove_file(path).expect("removed");
        let told = |before, after| {
            let page = shown::page(before, Some(after));
            let (_, rest) = page.split_once("What differs</h2>").expect("the section");
            rest.split_once("</section>").expect("its end").0.to_owned()
        };
        assert_eq!(told(&both, &both), "<p>Nothing.</p>");
        let place = "<code>0x0000000000000000-0x0000000000001000</code></a> 4K ";
        for (before, after, fate) in [(&both, &upper, "is gone"), (&upper, &both, "has come")] {
            let text = told(before, after);
            let head = format!("TTBR0_EL1: the page table at 0x40004000 {fate}, 1 place");
            assert!(text.contains(&head) && text.contains(&format!("{place}{fate}")), "{text}");
            assert!(!text.contains("TTBR1_EL1"), "{text}");
            // It is drawn, and can be chosen.
            assert!(shown::page(before, Some(after)).contains(&format!("\"fate\":\"{fate}\"")), "{fate}");
        }
    }
}
