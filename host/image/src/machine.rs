//! A machine seen from outside: its memory, what is known of its CPUs, and the page tables they use.

use crate::memory::{Memory, ReadError};
use crate::nested::Nested;
use crate::registers::{Registers, Roots};
use crate::root::{Origin, Root};
use crate::search::search;
use crate::translate::translate;
use crate::vmcoreinfo::{self, VmcoreInfo};
use crate::walk::{Visitor, walk};

/// A machine, live or dead. Dropping it lets a live one go on.
pub struct Machine {
    /// Its physical memory.
    pub memory: Box<dyn Memory>,
    /// The registers of its CPUs; empty where the source has none.
    pub cpus: Vec<Registers>,
    /// Whether it tells where it has memory: then there is none elsewhere.
    pub tells_memory: bool,
    /// What its kernel says of itself.
    pub vmcoreinfo: Option<VmcoreInfo>,
    /// One line for each thing that the user should know of the source.
    pub notes: Vec<String>,
    /// The registers are not the machine's own, but what the user said.
    is_given: bool,
}

impl Machine {
    /// A machine of which only the memory is known.
    pub fn new(memory: Box<dyn Memory>) -> Self {
        Self { memory, cpus: Vec::new(), tells_memory: false, vmcoreinfo: None, notes: Vec::new(), is_given: false }
    }

    /// A machine that tells where it has memory, and where it has none.
    pub fn telling_memory(memory: Box<dyn Memory>) -> Self {
        Self { tells_memory: true, ..Self::new(memory) }
    }

    /// Takes the registers that the user gives instead of the machine's own.
    pub fn give(&mut self, registers: Registers) {
        self.cpus = vec![registers];
        self.is_given = true;
    }

    /// Every distinct page table in use: by registers, or else by vmcoreinfo.
    pub fn roots(&mut self) -> Result<Roots, ReadError> {
        let mut all = self.roots_by_registers();
        if all.roots.is_empty() {
            if self.vmcoreinfo.is_none() && self.cpus.is_empty() {
                self.vmcoreinfo = vmcoreinfo::find_in_memory(&mut *self.memory)?;
            }
            match self.vmcoreinfo.as_ref().map(|info| info.root(&mut *self.memory)) {
                Some(Ok(root)) => {
                    all.notes.extend(self.vmcoreinfo.as_ref().and_then(VmcoreInfo::kernel));
                    all.roots.push(root);
                }
                Some(Err(why)) => all.notes.push(why),
                None => {}
            }
        }
        Ok(all)
    }

    /// Page tables found by searching all of memory, the likeliest first. `report` is told how far the search has come and
    /// how far it goes, in bytes.
    pub fn search(&mut self, report: &mut dyn FnMut(u64, u64)) -> Result<Vec<Root>, ReadError> {
        search(&mut *self.memory, report)
    }

    fn roots_by_registers(&self) -> Roots {
        if self.is_given {
            return self.cpus.iter().map(|registers| registers.roots(&Origin::Flags)).next().unwrap_or_default();
        }
        let mut all = Roots::default();
        for (number, registers) in self.cpus.iter().enumerate() {
            let of_cpu = registers.roots(&Origin::Registers(vec![number]));
            for note in of_cpu.notes {
                all.notes.push(format!("CPU {number}: {note}"));
            }
            for root in of_cpu.roots {
                match all.roots.iter_mut().find(|known| known.is_same_table(&root)) {
                    Some(Root { origin: Origin::Registers(cpus), .. }) => cpus.push(number),
                    _ => all.roots.push(root),
                }
            }
        }
        for (place, root) in all.roots.iter().enumerate() {
            if let Some(first) = all.roots[..place].iter().find(|first| first.is_same_place(root)) {
                all.notes.push(format!("{root}: {}", first.disagreement(root)));
            }
        }
        all
    }

    /// The physical address of `input`, through stage 2 where there is one; none if nothing translates it.
    pub fn locate(&mut self, root: &Root, input: u64) -> Option<u64> {
        let Some(stage2) = &root.stage2 else { return translate(&mut *self.memory, root, input) };
        let output = translate(&mut Nested::new(&mut *self.memory, stage2).ok()?, root, input)?;
        translate(&mut *self.memory, stage2, output)
    }

    /// Walks what `root` translates of `first` to `last`, both included, through stage 2 where there is one.
    pub fn walk<V: Visitor>(&mut self, root: &Root, first: u64, last: u64, visitor: &mut V) -> Result<(), ReadError> {
        match &root.stage2 {
            Some(stage2) => walk(&mut Nested::new(&mut *self.memory, stage2)?, root, first, last, visitor),
            None => walk(&mut *self.memory, root, first, last, visitor),
        }
    }
}
