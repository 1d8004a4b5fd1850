//! What a fault's report holds, whoever wrote it: every register that has a name, and the descriptors of the walk.
//!
//! Nothing depends on the order of lines, or on what stands before them (time stamps, priorities, a logger's words).

use image::number;
use vmsa::{Level, PageSize};

/// What was found.
#[derive(Clone, Default, Debug)]
pub(super) struct Report {
    /// Who wrote it, as far as that can be told.
    pub(super) system: Option<System>,
    /// The registers, in the order in which they were met; one may be there twice.
    pub(super) registers: Vec<(Name, u64)>,
    /// The address that the walk is of.
    pub(super) walk_of: Option<u64>,
    /// The descriptors of the walk: what each is called, its level, its value.
    pub(super) walk: Vec<(&'static str, Level, u64)>,
    pub(super) page_size: Option<PageSize>,
    pub(super) bits: Option<u32>,
    pub(super) root: Option<u64>,
    /// Whether the walk is that of a process.
    pub(super) is_of_process: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Name {
    Esr,
    Far,
    Elr,
    Spsr,
    Hpfar,
    Par,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum System {
    Linux,
    Kvm,
    Xen,
    UBoot,
    Sel4,
    FreeBsd,
    TfA,
    OpTee,
    Edk2,
    Zephyr,
}

/// What a line says in lower case, who says so, and whether a report begins there.
const PHRASES: [(&str, System, bool); 19] = [
    ("hyp panic", System::Kvm, true),
    ("hypervisor trap", System::Xen, true),
    ("(xen)", System::Xen, false),
    ("unable to handle", System::Linux, true),
    ("unhandled fault", System::Linux, true),
    ("internal error:", System::Linux, false),
    ("mem abort info", System::Linux, false),
    ("pgtable:", System::Linux, false),
    ("serror interrupt on cpu", System::Linux, true),
    ("bad mode in", System::Linux, true),
    ("bad page map", System::Linux, true),
    ("handler, esr", System::UBoot, true),
    ("vm fault on", System::Sel4, true),
    ("fault_addr", System::Sel4, true),
    ("fatal data abort", System::FreeBsd, true),
    ("unhandled exception", System::TfA, true),
    ("core data-abort", System::OpTee, true),
    ("synchronous exception at", System::Edk2, true),
    ("esr_eln", System::Zephyr, false),
];

/// A word before a number, what else the line must have, and what the number is.
const KEYS: [(&str, &str, Name); 24] = [
    ("esr", "", Name::Esr),
    ("hsr", "", Name::Esr),
    ("fsr", "", Name::Esr),
    ("status", "fault on", Name::Esr),
    ("code", "serror", Name::Esr),
    ("code", "handler detected", Name::Esr),
    ("abort", "unhandled fault", Name::Esr),
    ("fault", "unhandled fault", Name::Esr),
    ("far", "", Name::Far),
    ("fault_addr", "", Name::Far),
    ("address", "virtual address", Name::Far),
    ("address", "fault on", Name::Far),
    ("address", "abort at", Name::Far),
    ("at", "unhandled", Name::Far),
    ("addr", "vm_flags", Name::Far),
    ("elr", "", Name::Elr),
    ("pc", "", Name::Elr),
    ("ip", "fault_addr", Name::Elr),
    ("spsr", "", Name::Spsr),
    ("pstate", "", Name::Spsr),
    ("cpsr", "", Name::Spsr),
    ("ps", "esr", Name::Spsr),
    ("hpfar", "", Name::Hpfar),
    ("par", "", Name::Par),
];

/// Names of descriptors, and how many numbers stand behind one: Xen prints the index first.
const DESCRIPTORS: [(&str, Level, usize); 9] = [
    ("pgd", Level::MINUS_1, 1),
    ("p4d", Level::L0, 1),
    ("pud", Level::L1, 1),
    ("pmd", Level::L2, 1),
    ("pte", Level::L3, 1),
    ("0th", Level::L0, 2),
    ("1st", Level::L1, 2),
    ("2nd", Level::L2, 2),
    ("3rd", Level::L3, 2),
];

/// The reports in a text, in its order; those that hold neither a syndrome, an address nor a walk are left out.
pub(super) fn read(text: &str) -> Vec<Report> {
    let mut reports = vec![Report::default()];
    for line in text.lines() {
        let lower = line.to_ascii_lowercase();
        let phrase = PHRASES.iter().find(|(phrase, ..)| lower.contains(phrase));
        let is_new = phrase.is_some_and(|(.., begins)| *begins);
        match reports.last_mut() {
            Some(last) if !(is_new && last.get(Name::Esr).is_some()) => last.line(&lower, phrase.map(|of| of.1)),
            _ => {
                let mut report = Report::default();
                report.line(&lower, phrase.map(|of| of.1));
                reports.push(report);
            }
        }
    }
    let holds =
        |report: &Report| report.get(Name::Esr).is_some() || report.get(Name::Far).is_some() || !report.walk.is_empty();
    reports.into_iter().filter(holds).collect()
}

impl Report {
    /// The first value of a register.
    pub(super) fn get(&self, name: Name) -> Option<u64> {
        self.registers.iter().find(|(of, _)| *of == name).map(|(_, value)| *value)
    }

    fn line(&mut self, line: &str, system: Option<System>) {
        self.system = self.system.or(system);
        let is_mark = |letter: char| letter.is_whitespace() || "=:,;()[]\"*".contains(letter);
        let words: Vec<&str> = line.split(is_mark).filter(|word| !word.is_empty()).collect();
        if line.contains("pgtable") {
            return self.page_table(&words);
        }
        for (at, word) in words.iter().enumerate() {
            let value =
                |after: usize| words.get(at + after).and_then(|word| number(word.trim_end_matches(['.', '!'])).ok());
            let name = word.rsplit_once("_el").map_or(*word, |(name, _)| name);
            let key = KEYS.iter().find(|(key, needs, _)| *key == name && line.contains(needs));
            if let (Some((.., register)), Some(value)) = (key, value(1)) {
                self.registers.push((*register, value));
            }
            // `Internal error: Oops: 96000044 [#1]`
            if line.contains("internal error") && words.get(at + 1).is_some_and(|next| next.starts_with('#')) {
                self.registers.extend(value(0).map(|esr| (Name::Esr, esr)));
            }
            let descriptor = DESCRIPTORS.iter().find(|(name, ..)| name == word);
            if let Some((name, level, place)) = descriptor
                && let Some(value) = value(*place).filter(|_| !line.contains("pgd = "))
                && self.walk.iter().all(|(known, ..)| known != name)
            {
                // Linux has the address in front, in brackets.
                if self.walk.is_empty() && at > 0 && line.contains('[') {
                    self.walk_of = number(words[at - 1]).ok();
                }
                self.walk.push((name, *level, value));
            }
        }
    }

    /// `swapper pgtable: 4k pages, 48-bit VAs, pgdp=000000017cb63000`
    fn page_table(&mut self, words: &[&str]) {
        for pair in words.windows(2) {
            match pair {
                [size, "pages"] => {
                    let of_size = |of: &PageSize| of.to_string().eq_ignore_ascii_case(size);
                    self.page_size = PageSize::ALL.into_iter().find(of_size);
                }
                [bits, "vas"] => self.bits = bits.strip_suffix("-bit").and_then(|bits| bits.parse().ok()),
                [whose, "pgtable"] => self.is_of_process = Some(*whose == "user"),
                ["pgdp", root] => self.root = number(root).ok(),
                _ => {}
            }
        }
    }
}
