//! Machines to run the kernel's code on: its image in memory, page tables of every shape at hand.

use std::collections::{BTreeSet, HashMap};

use crate::caches::CTR;
use crate::finding::Found;
use crate::kernel::Kernel;
use crate::run::Run;
use crate::shape::{CHOSEN, EARLY, SCTLR_MMU_OFF, Shape, Tables, Translation, written};
use a64::interpreter::{Core, OnFault, State};
use machine::barrier::Barrier;
use machine::event::Level;
use machine::machine::Machine;
use machine::registers::{Ets, Features, HCR_E2H, Register};

/// An instruction word in place of another, by its physical address.
pub type Patch = (u64, u32);

/// The registers of a translation in the order of the structure.
pub const REGISTERS: [Register; 5] =
    [Register::MairEl1, Register::TcrEl1, Register::Ttbr0El1, Register::Ttbr1El1, Register::SctlrEl1];

/// What to load, and descriptors by physical address.
type Map = (Translation, Vec<(u64, u64)>);

/// Where page tables begin that are not in the image.
const TABLES: u64 = 0x8000_0000;

/// Symbols that the pieces name.
const SYMBOLS: [&str; 34] = [
    "relocate",
    "entry",
    "enter_el1",
    "image_start",
    "image_header",
    "image_end",
    "identity_end",
    "text_end",
    "rodata_start",
    "bss_start",
    "early_tables_start",
    "boot_stack_end",
    "boot_exception_stack_end",
    "boot_emergency_stack_end",
    "boot_record",
    "per_cpu",
    "vectors",
    "switch_translation",
    "leave_identity_map",
    "secondary_entry",
    "park",
    "parked",
    "parked_vectors",
    "send_event",
    "clean_to_poc",
    "clean_and_invalidate_to_poc",
    "make_fetchable",
    "make_fetchable_everywhere",
    "build_identity_map",
    "identity_main",
    "handle_exception",
    "catch_faults",
    "read_translation",
    "read_translation_to_write",
];

/// SCTLR_EL1.EE: data is big-endian.
const SCTLR_EE: u64 = 1 << 25;

/// A CPU with all that the assembly asks about: LPA2, both sets of fine-grained traps, AMU, SME, HCRX_EL2, FPMR, a GICv3, a
/// PMUv3p9 with six counters. What has no value out of reset has one here that would do harm.
const ID_REGISTERS: [(&str, u64); 24] = [
    ("ID_AA64PFR0_EL1", 1 << 44 | 1 << 24),
    ("ID_AA64PFR1_EL1", 2 << 24),
    ("ID_AA64PFR2_EL1", 1 << 32),
    ("ID_AA64DFR0_EL1", 9 << 8),
    ("ID_AA64ISAR0_EL1", ISAR0),
    ("ID_AA64MMFR0_EL1", MMFR0),
    ("ID_AA64MMFR1_EL1", 1 << 40),
    ("ID_AA64MMFR2_EL1", 1 << 16),
    ("MIDR_EL1", 0x410f_d0f0),
    ("MPIDR_EL1", 0x8000_0001),
    ("CTR_EL0", CTR),
    ("PMCR_EL0", 6 << 11),
    ("CNTVCT_EL0", 12345),
    ("CPACR_EL1", !0),
    ("VBAR_EL1", 0xdead_0000),
    ("VBAR_EL2", 0xdead_0000),
    ("HFGRTR_EL2", HARM),
    ("HFGWTR_EL2", HARM),
    ("HFGITR_EL2", HARM),
    ("HDFGRTR_EL2", HARM),
    ("HDFGWTR_EL2", HARM),
    ("HAFGRTR_EL2", HARM),
    ("HDFGRTR2_EL2", HARM),
    ("HDFGWTR2_EL2", HARM),
];

/// Bits that no fine-grained trap may have.
const HARM: u64 = 0xf;

/// ID_AA64MMFR0_EL1: 52-bit addresses, 4 and 16 KiB granules with LPA2, 64 KiB, fine-grained traps.
pub const MMFR0: u64 = 2 << 56 | 1 << 28 | 2 << 20 | 6;

/// ID_AA64ISAR0_EL1: TLBIs by range.
pub const ISAR0: u64 = 2 << 56;

/// Everything that runs share.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The kernel.
    pub kernel: Kernel,
    machine: Machine,
    maps: HashMap<Shape, Map>,
    /// Machines whose CPU 0 runs with a map.
    running: HashMap<Shape, Machine>,
    /// The first identity maps, their tables in the image.
    boot_maps: HashMap<Shape, Map>,
}

impl Lab {
    /// Loads the image and builds page tables. Errors: what the kernel lacks, or the engine refuses.
    pub fn new(kernel: Kernel) -> Result<Self, String> {
        kernel.symbol_with("9secondary7RECORDS")?;
        SYMBOLS.iter().try_for_each(|name| kernel.symbol(name).map(|_| ()))?;
        // The least that a CPU may promise: no BBM level, no FEAT_ETS2.
        let features = Features { ets: Ets::None, ..Features::full(0) };
        let mut machine = Machine::new(&[features; 2]);
        kernel.words.iter().for_each(|(address, word)| machine.store(0, *address, *word));
        machine.barrier(0, Barrier::DSB_SY);
        let mut lab =
            Self { kernel, machine, maps: HashMap::new(), running: HashMap::new(), boot_maps: HashMap::new() };
        let (tables, mut before) = (Tables::new(TABLES), BTreeSet::new());
        for shape in EARLY.into_iter().chain(CHOSEN) {
            let translation = shape.build(&lab.kernel, &tables)?;
            lab.maps.insert(shape, (translation, written(&tables.memory, &before)));
            before.extend(tables.memory.descriptors().keys().map(|slot| slot.address().bits()));
        }
        for shape in EARLY.into_iter().chain(CHOSEN) {
            let mut run = lab.run(None);
            lab.store(&mut run, shape);
            lab.enter(&mut run, 0, shape);
            let machine = run.machine().clone();
            lab.running.insert(shape, machine);
        }
        for shape in EARLY {
            let tables = Tables::new(lab.physical("early_tables_start"));
            let translation = shape.build(&lab.kernel, &tables)?;
            lab.boot_maps.insert(shape, (translation, written(&tables.memory, &BTreeSet::new())));
        }
        Ok(lab)
    }

    /// Two CPUs at EL1 with the MMU off, and the image in memory, one word of it replaced.
    pub fn run(&self, patch: Option<Patch>) -> Run<'_> {
        let mut machine = self.machine.clone();
        replace(&mut machine, patch);
        for cpu in 0..2 {
            machine.write_register(cpu, Register::SctlrEl1, SCTLR_MMU_OFF);
            machine.barrier(cpu, Barrier::Isb);
        }
        self.on(machine)
    }

    /// The same, but CPU 0 runs with a map.
    pub fn running(&self, shape: Shape, patch: Option<Patch>) -> Run<'_> {
        let mut machine = self.running[&shape].clone();
        replace(&mut machine, patch);
        let mut run = self.on(machine);
        self.maps[&shape].1.iter().for_each(|(address, _)| run.caches.note_table(*address));
        run
    }

    fn on(&self, machine: Machine) -> Run<'_> {
        let core = Core::new(0, Level::El1, OnFault::Vectors);
        Run::new(&self.kernel, State::new(machine, vec![core; 2], Ets::None))
    }

    /// The physical address of a symbol; [`Lab::new`] has seen that each one that is named is there.
    pub fn physical(&self, name: &str) -> u64 {
        self.kernel.physical(name).unwrap_or(0)
    }

    /// The link address of such a symbol.
    pub fn link(&self, name: &str) -> u64 {
        self.kernel.to_link(self.physical(name))
    }

    /// The physical address of the first of `hardware::secondary::RECORDS`, whose symbol the compiler makes.
    pub fn record(&self) -> u64 {
        self.kernel.symbol_with("9secondary7RECORDS").map_or(0, |link| self.kernel.to_physical(link))
    }

    /// What to load for a map.
    pub fn translation(&self, shape: Shape) -> Translation {
        self.maps[&shape].0
    }

    /// What to load for a first identity map whose tables are in the image.
    pub fn boot_translation(&self, shape: Shape) -> Translation {
        self.boot_maps[&shape].0
    }

    /// CPU 0 stores the page tables of a map, through its caches; nothing orders the stores.
    pub fn store(&self, run: &mut Run<'_>, shape: Shape) {
        for (address, value) in &self.maps[&shape].1 {
            run.state.machine_mut().store(0, *address, *value);
            run.caches.note_table(*address);
        }
    }

    /// The same for a first identity map whose tables are in the image, past the caches. Errors: a cache is in the way.
    pub fn store_past_caches(&self, run: &mut Run<'_>, shape: Shape) -> Result<(), Found> {
        for (address, value) in &self.boot_maps[&shape].1 {
            run.store(0, *address, *value, false)?;
            run.caches.note_table(*address);
        }
        Ok(())
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

    /// `cpu` comes out of reset at an exception level, its system registers as it likes, its MMU off; its TLBs hold what
    /// they got from the map `before`.
    pub fn reset(&self, run: &mut Run<'_>, cpu: u8, level: Level, before: Shape) {
        self.store(run, before);
        self.enter(run, cpu, before);
        let machine = run.state.machine_mut();
        machine.write_register(cpu, Register::SctlrEl1, SCTLR_MMU_OFF | SCTLR_EE);
        machine.barrier(cpu, Barrier::Isb);
        machine.enter(cpu, level);
        if level == Level::El2 {
            machine.write_register(cpu, Register::HcrEl2, HCR_E2H);
            machine.write_register(cpu, Register::VttbrEl2, 7 << 48);
            machine.barrier(cpu, Barrier::Isb);
        }
        let core = Core::new(0, level, OnFault::Vectors);
        *run.state.core_mut(cpu.into()) = core;
        for (name, value) in ID_REGISTERS {
            run.set_system(cpu.into(), name, value);
        }
    }
}

/// Puts one instruction in the place of another.
fn replace(machine: &mut Machine, patch: Option<Patch>) {
    let Some((place, code)) = patch else { return };
    let shift = 8 * (place & 4);
    let word = machine.word(place & !7) & !(0xffff_ffff << shift) | u64::from(code) << shift;
    machine.store(0, place & !7, word);
    machine.barrier(0, Barrier::DSB_SY);
}
