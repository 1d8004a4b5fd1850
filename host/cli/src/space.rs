//! What a page table maps, run by run, and which part of it is what.

use image::{Machine, Root, Span, Table, Visitor};
use vmsa::{Descriptor, Rights};

use crate::dump::Totals;
use crate::leaf;
use crate::progress::Progress;
use crate::runs::{Run, Runs};
use crate::select::Failure;

/// A page table that was read.
pub(crate) struct Space {
    pub(crate) root: Root,
    /// Leaves, in ascending order.
    pub(crate) runs: Vec<Run>,
    pub(crate) tables: Vec<Table>,
    pub(crate) totals: Totals,
    /// How far above its physical address most memory is mapped.
    linear: u64,
    /// The same of what the kernel executes.
    image: Option<u64>,
}

impl Space {
    pub(crate) fn read(machine: &mut Machine, root: &Root) -> Result<Self, Failure> {
        let (pending, progress) = (Runs::default(), Progress::of_tables());
        let mut reader =
            Reader { root, pending, progress, runs: Vec::new(), tables: Vec::new(), totals: Totals::default() };
        machine.walk(root, 0, u64::MAX, &mut reader)?;
        let Reader { mut pending, mut runs, tables, mut totals, .. } = reader;
        runs.extend(pending.finish());
        runs.iter().for_each(|run| totals.run(run));
        runs.retain(|run| run.is_leaf);
        let mut space = Self { root: root.clone(), runs, tables, totals, linear: 0, image: None };
        space.linear = space.distance(|run| !leaf::is_device(root, run.descriptor)).unwrap_or(0);
        space.image = space.distance(|run| distance(run) != space.linear && space.executes(run));
        Ok(space)
    }

    /// What is mapped once, as most memory is.
    pub(crate) fn linear(&self) -> impl Iterator<Item = &Run> {
        let is_linear =
            |run: &&Run| !run.repeats && distance(run) == self.linear && !leaf::is_device(&self.root, run.descriptor);
        self.runs.iter().filter(is_linear)
    }

    /// Whose a run is, as far as its place and its rights tell.
    pub(crate) fn owner(&self, run: &Run) -> &'static str {
        let is_user = || {
            let permissions = self.root.permissions(run.descriptor, run.inherited);
            permissions.is_some_and(|permissions| leaf::is_user(&permissions))
        };
        if leaf::is_device(&self.root, run.descriptor) {
            "devices"
        } else if !self.root.is_stage1() {
            "the guest's memory"
        } else if is_user() {
            "user"
        } else if run.repeats {
            "one page, shared"
        } else if distance(run) == 0 {
            "identity map"
        } else if distance(run) == self.linear {
            "linear map"
        } else if Some(distance(run)) == self.image {
            "image"
        } else {
            "vmalloc and other"
        }
    }

    /// Neighbours of one owner, with no more than a gibibyte between two.
    pub(crate) fn places(&self) -> Vec<Place> {
        const FAR: u64 = 1 << 30;
        let mut places: Vec<Place> = Vec::new();
        for run in &self.runs {
            let (owner, mapped) = (self.owner(run), run.bytes(&self.root));
            match places.last_mut() {
                Some(last)
                    if last.owner == owner && run.input.wrapping_sub(last.start.wrapping_add(last.bytes)) <= FAR =>
                {
                    last.bytes = run.input.wrapping_add(mapped).wrapping_sub(last.start);
                    last.mapped += mapped;
                    last.leaves += run.count;
                }
                _ => places.push(Place { owner, start: run.input, bytes: mapped, mapped, leaves: run.count }),
            }
        }
        places
    }

    fn executes(&self, run: &Run) -> bool {
        let permissions = self.root.permissions(run.descriptor, run.inherited);
        permissions.is_some_and(|of| of.privileged.contains(Rights::EXECUTE) && !leaf::is_user(&of))
    }

    /// How far above its physical address the most is mapped of what `is_meant`.
    fn distance(&self, is_meant: impl Fn(&Run) -> bool) -> Option<u64> {
        let mut bytes = std::collections::BTreeMap::<u64, u64>::new();
        for run in self.runs.iter().filter(|run| !run.repeats && is_meant(run)) {
            *bytes.entry(distance(run)).or_default() += run.bytes(&self.root);
        }
        bytes.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(distance, _)| distance)
    }
}

/// A part of an address space that one has.
pub(crate) struct Place {
    pub(crate) owner: &'static str,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) mapped: u64,
    pub(crate) leaves: u64,
}

const fn distance(run: &Run) -> u64 {
    run.input.wrapping_sub(run.output)
}

/// Keeps what a walk meets.
struct Reader<'r> {
    root: &'r Root,
    pending: Runs,
    progress: Progress,
    runs: Vec<Run>,
    tables: Vec<Table>,
    totals: Totals,
}

impl Visitor for Reader<'_> {
    fn span(&mut self, span: &Span) {
        self.runs.extend(self.pending.span(self.root, span));
    }

    fn table(&mut self, table: &Table, _: &[Descriptor]) {
        self.progress.table(table.input);
        self.totals.table(self.root, table);
        self.tables.push(*table);
    }
}
