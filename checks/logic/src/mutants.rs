//! Every mutant of the sources, and which are asked for.

use std::hash::Hasher;

use seed::Digest;

use crate::sites::Site;

/// Folders whose sources are mutated, and the words that file names among them do not contain.
pub(crate) const SCOPE: [&str; 16] = [
    "bare/kerncore/src/parking",
    "engine/pagetable/src/",
    "engine/linearmap/src/",
    "engine/userspace/src/",
    "engine/vmsa/src/attributes",
    "engine/vmsa/src/descriptor",
    "engine/vmsa/src/geometry",
    "engine/vmsa/src/granule",
    "engine/vmsa/src/layout",
    "engine/vmsa/src/leaf",
    "engine/vmsa/src/level",
    "engine/vmsa/src/maintenance",
    "engine/vmsa/src/stage2",
    "machine/src/machine/",
    "machine/src/rules/",
    "machine/src/tlb/",
];

/// Files among them that decide nothing: where things are found, memory of earlier answers, and tests.
pub(crate) const BESIDE: [&str; 4] = ["index.rs", "pieces.rs", "sizes.rs", "tests.rs"];
/// The folder of that memory.
const REMEMBERED: &str = "machine/src/tlb/remembered/";

/// One change of one site.
pub(crate) struct Mutant {
    pub(crate) site: usize,
    /// Counted from 1: 0 is what stands in the sources.
    pub(crate) variant: usize,
    /// `file:line:column:kind.variant`.
    pub(crate) name: String,
    /// Number among those of the same function that read the same; more than 1 is told.
    pub(crate) number: usize,
}

/// Whether a file is mutated.
pub(crate) fn is_in_scope(path: &str) -> bool {
    let is_engine = path.starts_with("engine/");
    let is_beside = |name: &&str| path.ends_with(&format!("/{name}")) && (!is_engine || **name == *"tests.rs");
    let is_decided = SCOPE.iter().any(|folder| path.starts_with(folder)) && !path.starts_with(REMEMBERED);
    is_decided && !BESIDE.iter().any(is_beside)
}

/// The mutants of those sites that compile.
pub(crate) fn all(sites: &[Site], active: &[bool]) -> Vec<Mutant> {
    let mut mutants: Vec<Mutant> = Vec::new();
    let mut seen = std::collections::HashMap::new();
    for (number, site) in sites.iter().enumerate().filter(|(number, _)| active[*number]) {
        for (variant, after) in (1..).zip(&site.after) {
            let name = format!("{}:{}:{}:{}.{variant}", site.file, site.line, site.column, site.kind);
            let count = seen.entry((&site.file, &site.function, &site.before, after)).or_insert(0);
            *count += 1;
            mutants.push(Mutant { site: number, variant, name, number: *count });
        }
    }
    mutants
}

/// `count` of them, by their texts and the seed: most of a sample stays when sources change.
pub(crate) fn sample(mutants: &mut Vec<Mutant>, sites: &[Site], count: usize, seed: u64) {
    mutants.sort_by_cached_key(|it| (draw(&key(it, sites).join("\t"), seed), it.site, it.variant));
    mutants.truncate(count);
    mutants.sort_by_key(|it| (it.site, it.variant));
}

/// What tells a mutant from others when lines move: file, function, what stood there, what stands there then.
pub(crate) fn key(mutant: &Mutant, sites: &[Site]) -> [String; 4] {
    let site = &sites[mutant.site];
    let number = if mutant.number > 1 { format!(" #{}", mutant.number) } else { String::new() };
    let after = &site.after[mutant.variant - 1];
    [site.file.clone(), site.function.clone(), format!("{}{number}", site.before), after.clone()]
}

fn draw(text: &str, seed: u64) -> u64 {
    let mut digest = Digest::new();
    digest.write_u64(seed);
    digest.write(text.as_bytes());
    digest.finish()
}
