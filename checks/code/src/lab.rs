//! Machines to run the kernel's code on: its image in memory, page tables of every shape at hand.

use std::collections::{BTreeSet, HashMap};

use a64::interpreter::{Core, OnFault, State};
use a64::registers::System;
use machine::barrier::Barrier;
use machine::event::Level;
use machine::machine::Machine;
use machine::registers::{Ets, Features, Register};
use pagetable::Memory;

use crate::kernel::Kernel;
use crate::run::Run;
use crate::shape::{CHOSEN, EARLY, SCTLR_MMU_OFF, Shape, Translation, written};

/// An instruction word in place of another, by its physical address.
pub type Patch = (u64, u32);

/// The registers of a translation in the order of the structure.
pub const REGISTERS: [Register; 5] =
    [Register::MairEl1, Register::TcrEl1, Register::Ttbr0El1, Register::Ttbr1El1, Register::SctlrEl1];

/// Symbols that the pieces name.
const SYMBOLS: [&str; 6] =
    ["image_start", "identity_end", "switch_translation", "leave_identity_map", "boot_record", "handle_exception"];

/// Everything that runs share.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The kernel.
    pub kernel: Kernel,
    machine: Machine,
    maps: HashMap<Shape, (Translation, Vec<(u64, u64)>)>,
}

impl Lab {
    /// Loads the image and builds page tables.
    ///
    /// # Errors
    /// What the kernel lacks, or the engine refuses.
    pub fn new(kernel: Kernel) -> Result<Self, String> {
        SYMBOLS.iter().try_for_each(|name| kernel.symbol(name).map(|_| ()))?;
        // The least that a CPU may promise: no BBM level, no FEAT_ETS2.
        let features = Features { ets: Ets::None, ..Features::full(0) };
        let mut machine = Machine::new(&[features; 2]);
        kernel.words.iter().for_each(|(address, word)| machine.store(0, *address, *word));
        machine.barrier(0, Barrier::DSB_SY);
        let (memory, mut before, mut maps) = (Memory::new(), BTreeSet::new(), HashMap::new());
        for shape in EARLY.into_iter().chain(CHOSEN) {
            let translation = shape.build(&kernel, &memory)?;
            maps.insert(shape, (translation, written(&memory, &before)));
            before.extend(memory.descriptors().keys().map(|slot| slot.address().bits()));
        }
        Ok(Self { kernel, machine, maps })
    }

    /// Two CPUs at reset, at EL1 with the MMU off, and the image in memory, one word of it replaced.
    pub fn run(&self, patch: Option<Patch>) -> Run<'_> {
        let mut machine = self.machine.clone();
        if let Some((place, code)) = patch {
            let shift = 8 * (place & 4);
            let word = machine.word(place & !7) & !(0xffff_ffff << shift) | u64::from(code) << shift;
            machine.store(0, place & !7, word);
            machine.barrier(0, Barrier::DSB_SY);
        }
        for cpu in 0..2 {
            machine.write_register(cpu, Register::SctlrEl1, SCTLR_MMU_OFF);
            machine.barrier(cpu, Barrier::Isb);
        }
        let core = Core::new(0, Level::El1, OnFault::End);
        Run::new(&self.kernel, State::new(machine, vec![core; 2], Ets::None))
    }

    /// The physical address of a symbol; [`Lab::new`] has seen that each in [`SYMBOLS`] is there.
    pub fn physical(&self, name: &str) -> u64 {
        self.kernel.physical(name).unwrap_or(0)
    }

    /// What to load for a map.
    pub fn translation(&self, shape: Shape) -> Translation {
        self.maps[&shape].0
    }

    /// CPU 0 stores the page tables of a map; nothing orders the stores.
    pub fn store(&self, run: &mut Run<'_>, shape: Shape) {
        let machine = run.state.machine_mut();
        self.maps[&shape].1.iter().for_each(|(address, value)| machine.store(0, *address, *value));
    }

    /// `cpu` runs with a map whose tables have been stored, since long ago.
    pub fn enter(&self, run: &mut Run<'_>, cpu: u8, shape: Shape) {
        let machine = run.state.machine_mut();
        machine.barrier(0, Barrier::DSB_SY);
        let values = self.translation(shape).registers;
        for (register, value) in REGISTERS.into_iter().zip(values).take(4) {
            machine.write_register(cpu, register, value);
        }
        machine.barrier(cpu, Barrier::Isb);
        machine.write_register(cpu, Register::SctlrEl1, values[4]);
        machine.barrier(cpu, Barrier::Isb);
    }

    /// `cpu` switches its MMU off; its TLBs keep what they hold.
    pub fn leave(&self, run: &mut Run<'_>, cpu: u8) {
        let machine = run.state.machine_mut();
        machine.write_register(cpu, Register::SctlrEl1, SCTLR_MMU_OFF);
        machine.barrier(cpu, Barrier::Isb);
    }

    /// Gives `cpu` the value of a system register that has no effect on translation.
    pub fn set_system(&self, run: &mut Run<'_>, cpu: usize, name: &str, value: u64) {
        if let Some(system) = System::named(name) {
            run.state.core_mut(cpu).set_system(system, value);
        }
    }
}
