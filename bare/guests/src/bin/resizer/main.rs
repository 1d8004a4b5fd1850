//! The resizer: a guest that splits and collapses the blocks in which all of its CPUs read, write and execute, at EL1 and EL0,
//! as FEAT_BBM level 2 lets it: in place. It announces each resize to the monitor, answers TLB conflict aborts by forgetting
//! everything, and passes if no word of its data is lost and no conflict came where none was announced.
//!
//! `resizer.seed=`, `resizer.count=` (of resizes), `resizer.announces=0` (resize, and tell the monitor nothing) and
//! `resizer.forgets=0` (answer a conflict by nothing) stand on its command line, in decimal.
#![no_std]
#![no_main]

mod conflicts;
mod finish;
mod map;
mod work;

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use guests::{console, machine, say};
use hardware::guest::CPUS;
use hardware::guest::translating::turn_on;
use hardware::translation::Translation;
use hardware::{image, interrupts, registers};
use kerncore::command_line::Words;
use pagetable::{Census, Change, El1, Licence, TlbFeatures, Tolerance};
use seed::Seed;
use vmsa::{IdRegisters, Midr, VirtAddr};

use finish::{Check, WHERE_ANNOUNCED};
use map::{BLOCK_PAGES, BLOCKS, Map, PAGE_BYTES, block};
use work::Worker;

hardware::guest_entry_points! {
    main: main,
    secondary: secondary,
}
hardware::guest_exception_handler!(conflicts::handle);

/// What every CPU loads when it turns its MMU on: MAIR, TCR, TTBR0. Written before any other CPU runs.
static TRANSLATION: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
static SEED: AtomicU64 = AtomicU64::new(1);
/// What each CPU says of itself: ID_AA64ISAR0_EL1, ID_AA64MMFR2_EL1 and MIDR_EL1, the last never 0.
static IDENTITIES: [[AtomicU64; 3]; CPUS] = [const { [const { AtomicU64::new(0) }; 3] }; CPUS];
static IS_OVER: AtomicBool = AtomicBool::new(false);
static IDLE: [AtomicBool; CPUS] = [const { AtomicBool::new(false) }; CPUS];

/// Rounds of the boot CPU between the store and the TLBI of a resize.
const ROUNDS_MEANWHILE: usize = 32;
/// Rounds that every CPU ends while a resize is under way, and between two: the first of them may have begun before.
const ROUNDS_OF_OTHERS: u64 = 4;

/// What the command line asks for.
struct Options {
    seed: u64,
    resizes: u64,
    is_told: bool,
}

fn read_options(line: &str) -> Options {
    let mut options = Options { seed: 1, resizes: 200, is_told: true };
    for word in Words::new(line) {
        match (word.name, word.value.and_then(|value| value.parse().ok())) {
            ("resizer.seed", Some(seed)) => options.seed = seed,
            ("resizer.count", Some(count)) => options.resizes = count,
            ("resizer.forgets", Some(0)) => conflicts::FORGETS.store(false, Ordering::Relaxed),
            ("resizer.announces", Some(number)) => options.is_told = number != 0,
            _ => {}
        }
    }
    options
}

fn main(device_tree: u64) -> ! {
    // SAFETY: the boot protocol has one in x0; nothing writes it while this runs.
    let machine = unsafe { machine::read(device_tree) };
    let options = read_options(machine.bootargs);
    SEED.store(options.seed, Ordering::Relaxed);
    work::write_code();
    let map = Map::build().unwrap_or_else(|refusal| finish::fail("the map is made", format_args!("{refusal}")));
    let translation = map.translation();
    let values = [translation.mair, translation.tcr, translation.ttbr0];
    TRANSLATION.iter().zip(values).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    // SAFETY: the map has the image at its own address; the image is all that was written.
    unsafe { turn_on(0, &translation, Some(image::rodata().start..image::whole().end)) };
    console::take_turns();
    // SAFETY: none was before.
    let cpus = unsafe { machine::start_others(&machine) };
    run(map, cpus, &options)
}

fn secondary(cpu: usize) -> ! {
    let [mair, tcr, ttbr0] = [0, 1, 2].map(|index: usize| TRANSLATION[index].load(Ordering::Relaxed));
    let translation = Translation { mair, tcr, ttbr0, sctlr: hardware::translation::SCTLR_MMU_ON, ..Translation::NONE };
    // SAFETY: as on the boot CPU, which has the map on; this one has written nothing but its stack.
    unsafe { turn_on(cpu, &translation, None) };
    tell_identity(cpu);
    let mut worker = Worker::new(cpu, SEED.load(Ordering::Relaxed));
    while !IS_OVER.load(Ordering::SeqCst) {
        worker.make_round();
        // Where an emulator runs one CPU at a time, the others are to come to theirs.
        interrupts::pause();
    }
    IDLE[cpu].store(true, Ordering::SeqCst);
    machine::rest()
}

/// What is promised of every CPU here: the vectors, the stacks and all that the handler uses are mapped by pages that are
/// never resized, and it forgets everything.
const HANDLES_CONFLICTS: bool = true;

fn tell_identity(cpu: usize) {
    let registers = registers::read_id_registers();
    let values = [registers.isar0, registers.mmfr2, registers::read_midr()];
    IDENTITIES[cpu].iter().zip(values).for_each(|(word, value)| word.store(value, Ordering::SeqCst));
}

/// What a CPU tolerates, and what its TLB maintenance can do, once it has told.
fn wait_for_identity(cpu: usize) -> (Tolerance, TlbFeatures) {
    while IDENTITIES[cpu][2].load(Ordering::SeqCst) == 0 {
        interrupts::pause();
    }
    let [isar0, mmfr2, midr] = [0, 1, 2].map(|index: usize| IDENTITIES[cpu][index].load(Ordering::SeqCst));
    let registers = IdRegisters { isar0, mmfr2, ..IdRegisters::default() };
    let midr = Midr::new(midr as u32);
    let tlb = TlbFeatures {
        range: registers.has_range_invalidation(),
        level_hints: registers.has_level_hints(),
        repeat: midr.must_repeat_tlbi(),
    };
    (Tolerance::read(&registers, midr, HANDLES_CONFLICTS), tlb)
}

/// What all CPUs tolerate, and what all can do.
fn take_census(others: Range<usize>) -> (Census, TlbFeatures) {
    tell_identity(0);
    let (first, mut features) = wait_for_identity(0);
    let mut census = Census::new(first);
    for (tolerance, tlb) in others.map(wait_for_identity) {
        census.admit(tolerance);
        features = TlbFeatures {
            range: features.range && tlb.range,
            level_hints: features.level_hints && tlb.level_hints,
            repeat: features.repeat || tlb.repeat,
        };
    }
    (census, features)
}

/// What the resizes came to.
#[derive(Default)]
struct Tally {
    resizes: u64,
    /// Those after which a block had another number of leaves.
    changed: u64,
    /// Those that met a conflict, and the most that one of them met.
    met: u64,
    most: u64,
}

fn run(mut map: Map, cpus: usize, options: &Options) -> ! {
    let (census, features) = take_census(1..cpus);
    map.use_features(features);
    say!("# resizing");
    let level = census.weakest().level();
    say!("{} CPUs, BBM level of all: {level}, resizer.seed={}", census.cpus(), options.seed);
    let (random, worker) = (Seed::new(!options.seed), Worker::new(0, options.seed));
    let mut resizer = Resizer { map, random, worker, cpus, is_told: options.is_told, tally: Tally::default() };
    match census.tolerated() {
        None => say!("nothing is resized: not every CPU tolerates it"),
        Some(licence) => (0..options.resizes).for_each(|_| resizer.resize_one(&licence)),
    }
    IS_OVER.store(true, Ordering::SeqCst);
    for is_idle in &IDLE[1..cpus] {
        while !is_idle.load(Ordering::SeqCst) {
            interrupts::pause();
        }
    }
    report(&resizer.tally, cpus)
}

/// The boot CPU's work.
struct Resizer {
    map: Map,
    random: Seed,
    worker: Worker,
    /// How many CPUs there are; the others have the numbers from 1 on.
    cpus: usize,
    is_told: bool,
    tally: Tally,
}

impl Resizer {
    /// Resizes a block: splits one that is whole, makes one whole that is not.
    fn resize_one(&mut self, licence: &Licence) {
        let index = self.random.below(BLOCKS as u64) as usize;
        let range = block(index);
        let page = |number: u64| VirtAddr::new(range.start + number * PAGE_BYTES);
        let (before, met) = (self.map.leaves(index), conflicts::count());
        let change: Change<El1> = match (before, self.random.below(2)) {
            (1, 0) => Change::Split { at: page(1 + self.random.below(BLOCK_PAGES as u64 - 1)) },
            (1, _) => Change::SplitToPages { from: page(0)..page(BLOCK_PAGES as u64) },
            _ => Change::Collapse { from: page(0)..page(BLOCK_PAGES as u64) },
        };
        let Self { map, worker, cpus, is_told, .. } = self;
        let meanwhile = || {
            (0..ROUNDS_MEANWHILE).for_each(|_| worker.make_round());
            wait_for(1..*cpus);
        };
        let (begin, end) = (|| conflicts::begin(index, *is_told), || conflicts::end(index, *is_told));
        if let Err(refusal) = map.resize(change, licence, begin, meanwhile, end) {
            finish::fail("the engine makes what is asked for", format_args!("{refusal}"));
        }
        // What any CPU takes from here on, once it has ended what it was at, is where nothing is announced.
        wait_for(1..self.cpus);
        (0..ROUNDS_OF_OTHERS).for_each(|_| self.worker.make_round());
        let met = conflicts::count() - met;
        self.tally.resizes += 1;
        self.tally.changed += u64::from(self.map.leaves(index) != before);
        self.tally.met += u64::from(met != 0);
        self.tally.most = self.tally.most.max(met);
    }
}

/// Waits until each of these CPUs has ended a few rounds.
fn wait_for(cpus: Range<usize>) {
    let mut ends = [0; CPUS];
    cpus.clone().for_each(|cpu| ends[cpu] = work::rounds(cpu) + ROUNDS_OF_OTHERS);
    for cpu in cpus {
        while work::rounds(cpu) < ends[cpu] {
            interrupts::pause();
        }
    }
}

fn report(tally: &Tally, cpus: usize) -> ! {
    let Tally { resizes, changed, met, most } = tally;
    let conflicts = conflicts::count();
    say!("{changed} of {resizes} resizes changed leaves; {met} met conflicts, at most {most}");
    say!("# conflicts");
    say!("{}", conflicts::COUNTS.table(cpus));
    let ((rounds, wrong), lost) = (work::totals(), work::lost_words());
    finish::conclude(&[
        Check {
            name: "every word is what was written last",
            is_passed: wrong == 0 && lost == 0,
            found: format_args!("{rounds} exchanges, {wrong} wrong; {lost} words lost"),
        },
        Check { name: "every resize changes leaves", is_passed: changed == resizes, found: format_args!("{changed}") },
        // One elsewhere would have ended the run.
        Check { name: WHERE_ANNOUNCED, is_passed: true, found: format_args!("{conflicts}") },
    ])
}
