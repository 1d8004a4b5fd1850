//! From a flattened device tree to what the kernel needs of it.
//!
//! The blob comes from firmware, a boot loader or a fuzzer, and nothing in it is believed: reading neither panics nor loops,
//! and its time is linear in the blob. It is walked twice at most: once for everything, once for the path of the console,
//! which may name a node that stands before it. Strings are borrowed from the blob, which must stay where it is.

mod blob;
mod cells;
mod console;
mod copy;
mod cpus;
mod description;
mod interrupts;
mod memory;
mod print;
pub(crate) mod problem;
mod walk;

use core::str;

pub use copy::{CopyError, Edits, MAX_HIDDEN, copy};
pub use description::*;
pub use problem::Problem;

use crate::finding::Findings;
use blob::Blob;
use console::ConsoleNotes;
use interrupts::InterruptNotes;
use walk::{MAX_DEPTH, Node, Place, Walk};

/// The size in bytes that the header of a blob claims, from its first eight bytes: for who has only an address and must
/// map it. The boot protocol allows 2 MiB.
pub fn claimed_size_bytes(header: &[u8; 8]) -> Result<u32, Problem<'static>> {
    match blob::word(header, 0) {
        Some(blob::MAGIC) => Ok(blob::word(header, 4).unwrap_or(0)),
        found => Err(Problem::BadMagic { found: found.unwrap_or(0) }),
    }
}

/// Reads `bytes`, a blob that may be followed by others' bytes, into `machine`, which should be new. An empty slice says
/// that no blob was passed. Even where a finding is fatal, `machine` has what could be read, such as a console to say so.
pub fn read<'a>(bytes: &'a [u8], machine: &mut MachineDescription<'a>, findings: &mut Findings<'a>) {
    let blob = match Blob::open(bytes, findings) {
        Ok(blob) => blob,
        Err(problem) => return findings.push(problem),
    };
    memory::read_reservation_block(&blob, machine, findings);
    let mut reader =
        Reader { console: ConsoleNotes::default(), interrupts: InterruptNotes::new(), cpus: 0, machine, findings };
    let mut walk = Walk::new(&blob);
    loop {
        match walk.next() {
            Ok(Some(node)) => reader.visit(&walk, &node),
            Ok(None) => break,
            Err(problem) => reader.findings.push(problem),
        }
    }
    reader.finish(&blob);
}

/// What is gathered during the walk, some of it to be resolved at its end.
struct Reader<'a, 'r> {
    console: ConsoleNotes<'a>,
    interrupts: InterruptNotes<'a>,
    /// CPUs found, kept or not.
    cpus: u32,
    machine: &'r mut MachineDescription<'a>,
    findings: &'r mut Findings<'a>,
}

impl<'a> Reader<'a, '_> {
    fn visit(&mut self, walk: &Walk<'a>, node: &Node<'a>) {
        if node.depth >= MAX_DEPTH {
            return self.findings.push(Problem::TooDeep { node: node.name });
        }
        if let Some(cells) = node.bad_cells() {
            self.findings.push(Problem::BadCells { node: node.name, cells });
        }
        match node.place {
            Place::Root | Place::Cpus | Place::ReservedMemory => {}
            Place::Chosen => self.console.chosen = Some(*node),
            Place::Aliases => self.console.aliases = Some(*node),
            Place::Cpu => self.cpus += u32::from(cpus::read_cpu(node, self.machine, self.findings)),
            Place::Reservation => memory::read_reservation(node, self.machine, self.findings),
            Place::Device if node.is_enabled() => self.visit_device(walk, node),
            Place::Device => {}
        }
    }

    fn visit_device(&mut self, walk: &Walk<'a>, node: &Node<'a>) {
        if node.depth == 1 && memory::is_memory(node.name, node.property("device_type")) {
            return memory::read_memory(node, self.machine, self.findings);
        }
        self.interrupts.note(walk, node, self.machine, self.findings);
        if self.machine.psci.is_none() && node.is_compatible(cpus::PSCI) {
            cpus::read_psci(node, self.machine, self.findings);
        }
        // The first alone is tried, as each costs a look through the windows of all buses above it.
        if !self.console.has_uart && node.is_compatible(console::UART) {
            self.console.has_uart = true;
            self.console.first_uart = console::console_at(walk, node);
        }
    }

    fn finish(mut self, blob: &Blob<'a>) {
        if let Some(chosen) = self.console.chosen {
            self.read_bootargs(&chosen);
        }
        let problem = console::read_console(blob, &self.console, self.machine);
        // What else is wrong after something fatal mostly follows from it, and would only hide it.
        if self.findings.fatal().is_some() {
            return;
        }
        if let Some(problem) = problem {
            self.findings.push(problem);
        }
        if let Some(chosen) = self.console.chosen {
            memory::read_initrd(&chosen, self.machine, self.findings);
        }
        self.interrupts.resolve(self.machine, self.findings);
        self.check_cpus();
        if self.machine.banks.is_empty() {
            self.findings.push(Problem::NoMemory);
        }
    }

    fn read_bootargs(&mut self, chosen: &Node<'a>) {
        let bytes = cells::string(chosen.property("bootargs").unwrap_or(&[])).0;
        let valid = match str::from_utf8(bytes) {
            Ok(_) => bytes,
            Err(error) => {
                let (expected, instead) = ("UTF-8", "what comes before the first wrong byte is used");
                self.findings.push(Problem::BadProperty { node: chosen.name, property: "bootargs", expected, instead });
                &bytes[..error.valid_up_to()]
            }
        };
        self.machine.bootargs = str::from_utf8(valid).unwrap_or("");
    }

    fn check_cpus(&mut self) {
        if self.cpus == 0 {
            let (expected, instead) = ("one with device_type \"cpu\" in /cpus", "only the CPU that booted runs");
            self.findings.push(Problem::Absent { what: "CPU", expected, instead });
        }
        if self.cpus as usize > MAX_CPUS {
            self.findings.push(Problem::TooManyCpus { found: self.cpus });
        }
        if self.cpus > 1 && self.machine.psci.is_none() {
            let (expected, instead) = ("an enabled node compatible with arm,psci", "only the CPU that booted runs");
            self.findings.push(Problem::Absent { what: "usable PSCI", expected, instead });
        }
    }
}
