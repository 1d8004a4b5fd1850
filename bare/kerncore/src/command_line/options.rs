//! What the command line can ask for.

use vmsa::{BbmLevel, IdRegisters, PageSize};

use super::cpu::{CpuOverride, PageSizes};
use super::folios::Folios;
use super::problem::Problem;
use super::stress::{Conflicts, Measure, StressKind};
use crate::devicetree::MAX_CPUS;
use crate::finding::Findings;

/// What the command line asks for; `None` where it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `arm64.pagesize=`: the page size of the kernel.
    pub page_size: Option<PageSize>,
    /// `vellum.exit=`: how the machine is ended.
    pub exit: Option<Exit>,
    /// `vellum.report=`: how the kernel reports.
    pub report: Option<Report>,
    /// `vellum.vabits=`: bits of a virtual address, 36 to 52.
    pub virtual_bits: Option<u32>,
    /// `vellum.late=`: how many CPUs start only after boot has settled, below 8.
    pub late_cpus: Option<u32>,
    /// `rodata=`: what of the kernel's text and constants cannot be written.
    pub rodata: Option<Rodata>,
    /// `vellum.linearmap=`: how large the leaves of the linear map are.
    pub linear_map: Option<LinearLeaves>,
    /// `vellum.pagealloc=`: whether free pages are hidden from the linear map.
    pub page_allocator: Option<PageAllocator>,
    /// `vellum.bbm=`: the level of FEAT_BBM of every CPU that is not told apart.
    pub bbm: Option<BbmLevel>,
    /// `vellum.conflicts=`: what becomes of a TLB conflict abort.
    pub conflicts: Option<Conflicts>,
    /// `vellum.trust-el1`: a TLB conflict abort ends when EL1 forgets everything, whatever is beneath.
    pub trusts_el1: Option<bool>,
    /// `vellum.exhaust=`: whether a check takes all memory, and gives each who asks for some too little.
    pub exhausts: Option<bool>,
    /// `vellum.stress=`: how many operations the linear map is stressed with.
    pub stress: Option<u32>,
    /// `vellum.stress-kind=`: what the stress is of.
    pub stress_kind: Option<StressKind>,
    /// `vellum.measure=`: what is counted in instructions.
    pub measure: Option<Measure>,
    /// `vellum.check-areas=`: whether areas are compared with page tables at the end of each call.
    pub checks_areas: Option<bool>,
    /// `vellum.seed=`: of every random choice.
    pub seed: Option<u32>,
    /// `vellum.init=`: the program that is run, and its arguments: where in the line, and how many bytes.
    pub init: Option<(u32, u32)>,
    /// `vellum.withhold=`: bytes of memory that are not there until they are added.
    pub withheld_bytes: Option<u64>,
    /// `vellum.folio=`: the largest folios of programs.
    pub folios: Option<Folios>,
    /// `vellum.cpuN.…=`: what CPU N is made to believe of itself, for tests.
    pub cpus: [CpuOverride; MAX_CPUS],
}

/// How the machine is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By PSCI's SYSTEM_OFF: no status reaches the host.
    Psci,
    /// By a semihosting call, which carries an exit status.
    Semihosting,
    /// By a call to the monitor beneath, which reports what it saw and carries the exit status on.
    Monitor,
}

/// How the kernel reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// In words.
    Text,
    /// In words, and behind each section a line of JSON.
    Json,
}

/// What of the kernel's text and constants cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rodata {
    /// Neither where they are linked nor in the linear map.
    #[default]
    On,
    /// Where they are linked; in the linear map they can be.
    NoAlias,
    /// They can be written everywhere.
    Off,
}

/// How large the leaves of the linear map are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinearLeaves {
    /// As large as they can be.
    #[default]
    Largest,
    /// Blocks, and no contiguous groups.
    Blocks,
    /// Pages.
    Pages,
}

/// What becomes of free pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageAllocator {
    /// The linear map leads to them.
    #[default]
    Plain,
    /// They are hidden from the linear map, so that whoever uses one faults.
    Debug,
}

impl Options {
    /// The level that CPU `index` is to have, whatever it says of itself.
    pub fn bbm_of(&self, index: usize) -> Option<BbmLevel> {
        self.cpus.get(index)?.bbm.or(self.bbm)
    }

    /// Takes back what nobody can believe: a granule that the CPU that boots, with these registers, lacks. It translates by
    /// what it chooses, and there would be nobody left to say what went wrong.
    pub fn limit_boot_cpu(&mut self, cpu: &IdRegisters, findings: &mut Findings<'_>) {
        let Some(claimed) = self.cpus[0].granules else { return };
        let chosen = |has: bool| {
            let sizes =
                PageSize::ALL.into_iter().filter(|size| claimed.contains(*size) && cpu.has_granule(*size) == has);
            sizes.fold(PageSizes::default(), PageSizes::with)
        };
        let (there, lacking) = (chosen(true), chosen(false));
        if lacking != PageSizes::default() {
            findings.push(Problem::BootCpuLacks { granules: lacking });
            self.cpus[0].granules = Some(there).filter(|there| *there != PageSizes::default());
        }
    }
}
