//! What one table shows by itself: groups that are not uniform, leaves that could be larger, nothing at all.

use image::{Root, Table};
use vmsa::{Descriptor, Indirection, Level, Meaning, Stage1Attributes, Stage2Attributes, Stage2Memory};

use super::finding::{Finding, Findings};
use super::kinds::Kind;
use crate::dump::size;
use crate::leaf;
use crate::runs;

pub(super) fn check(root: &Root, number: usize, table: &Table, all: &[Descriptor], findings: &mut Findings) {
    let is_root = table.parent == Descriptor::INVALID;
    if all.iter().all(|descriptor| descriptor.bits() == 0) {
        if !is_root {
            findings.add(Finding::new(
                Kind::Empty,
                number,
                table.input,
                root.shape.reach(table.level),
                1,
                "no entry in it",
            ));
        }
        return;
    }
    let mut place = Place { root, number, table, findings };
    place.reserved(all);
    let folds = !is_root && place.fold(all);
    place.groups(all, folds);
}

/// A table, and where what is found in it goes.
struct Place<'a> {
    root: &'a Root,
    number: usize,
    table: &'a Table,
    findings: &'a mut Findings,
}

impl Place<'_> {
    fn find(&mut self, kind: Kind, index: usize, entries: usize, what: &str) {
        let shift = self.root.shape.shift(self.table.level);
        let input = self.table.input + ((index as u64) << shift);
        self.findings.add(Finding::new(kind, self.number, input, (entries as u64) << shift, 1, what));
    }

    fn reserved(&mut self, all: &[Descriptor]) {
        let shape = self.root.shape;
        for (index, descriptor) in all.iter().enumerate().filter(|(_, descriptor)| descriptor.is_valid()) {
            let bits = descriptor.bits();
            let output = match descriptor.meaning(shape.page_size, shape.layout, self.table.level) {
                Meaning::Table(next) => next.bits(),
                Meaning::Leaf(output, _) => output.bits(),
                _ => 0,
            };
            if let Some(what) = super::too_long(self.root, output) {
                self.find(Kind::OutputSize, index, 1, &format!("{what}: a fault of {}", self.table.level));
            }
            let (reserved, what) = match descriptor.meaning(shape.page_size, shape.layout, self.table.level) {
                Meaning::Reserved => {
                    let what = format!("{bits:#x} is no descriptor of {}: a translation fault", self.table.level);
                    self.find(Kind::Reserved, index, 1, &what);
                    continue;
                }
                Meaning::Table(_) => (shape.layout.reserved_in_table(shape.page_size), "table descriptor"),
                Meaning::Leaf(..) => (shape.layout.reserved_in_leaf(shape.page_size, self.table.level), "leaf"),
                Meaning::Invalid => continue,
            };
            if bits & reserved != 0 {
                self.find(Kind::Reserved, index, 1, &format!("{what} with reserved bits {:#x}", bits & reserved));
            } else if what == "leaf"
                && let Some(what) = reserved_memory(self.root, *descriptor)
            {
                self.find(Kind::Reserved, index, 1, &what);
            }
        }
    }

    /// Whether all of the table is what one block would say, and if so a finding.
    fn fold(&mut self, all: &[Descriptor]) -> bool {
        let shape = self.root.shape;
        let above = Level::new(self.table.level.number() - 1);
        let Some(above) = above.filter(|above| shape.page_size.has_leaf(*above, shape.layout)) else { return false };
        let folds = all.len() == shape.page_size.entries() && self.is_one(all, 1 << shape.shift(above));
        if folds {
            let (small, large) = (size(1 << shape.shift(self.table.level)), size(1 << shape.shift(above)));
            let what = format!("{small} leaves could be one {large} block in each table");
            self.find(Kind::Fold, 0, all.len(), &what);
        }
        folds
    }

    /// Whether these leaves have the same attributes, and outputs one after another from a multiple of `align`.
    fn is_one(&self, leaves: &[Descriptor], align: u64) -> bool {
        let Some(Meaning::Leaf(first, _)) = leaves.first().map(|first| self.meaning(*first)) else { return false };
        let step = 1u64 << self.root.shape.shift(self.table.level);
        let attributes = self.attributes(leaves[0]);
        let follows = |(place, descriptor): (u64, &Descriptor)| {
            let expected = first.bits().wrapping_add(place * step);
            matches!(self.meaning(*descriptor), Meaning::Leaf(to, _) if to.bits() == expected)
                && self.attributes(*descriptor) == attributes
        };
        first.bits().is_multiple_of(align) && (0..).zip(leaves).all(follows)
    }

    fn meaning(&self, descriptor: Descriptor) -> Meaning {
        descriptor.meaning(self.root.shape.page_size, self.root.shape.layout, self.table.level)
    }

    /// Attributes that members of a group, or halves of a block, must share: hardware may have set the access flag or
    /// the dirty state of any one. The Contiguous bit is looked at by itself.
    fn attributes(&self, descriptor: Descriptor) -> u64 {
        let bits = Stage1Attributes::from_bits_retain(descriptor.bits());
        // Bit 7 is where both stages have the dirty state, direct (READ_ONLY, WRITE) or not (nDirty, Dirty).
        let has_dirty_state = match self.root.control.indirection {
            Indirection::Off => bits.contains(Stage1Attributes::DBM),
            _ => self.root.control.manages_dirty_state,
        };
        let by_hardware = match has_dirty_state {
            true => Stage1Attributes::AF | Stage1Attributes::READ_ONLY,
            false => Stage1Attributes::AF,
        };
        let attributes = runs::attributes(self.root, self.table.level, descriptor);
        attributes & !(by_hardware.bits() | Descriptor::CONTIGUOUS)
    }

    fn groups(&mut self, all: &[Descriptor], folds: bool) {
        let shape = self.root.shape;
        let Some(shift) = shape.page_size.contiguous_shift(self.table.level) else { return };
        let group = 1usize << shift;
        let align = (group as u64) << shape.shift(self.table.level);
        for (place, members) in all.chunks(group).enumerate() {
            let is_leaf = |descriptor: &Descriptor| matches!(self.meaning(*descriptor), Meaning::Leaf(..));
            let marked = members.iter().filter(|member| is_leaf(member) && member.is_contiguous()).count();
            if marked == 0 && (folds || !is_leaf(&members[0])) {
                continue;
            }
            let is_whole = members.len() == group && self.is_one(members, align);
            let what = format!("{group} leaves of {}", size(align / group as u64));
            if marked > 0 && !(is_whole && marked == group) {
                let why =
                    if is_whole { "some lack the Contiguous bit" } else { "they differ, or do not follow one another" };
                self.find(Kind::Contiguous, place * group, members.len(), &format!("{what}: {why}"));
            } else if marked == 0 && is_whole {
                self.find(Kind::Larger, place * group, group, &format!("{what} could be one group"));
            }
        }
    }
}

/// What is wrong with a memory type: encodings of MAIR that the manual calls UNPREDICTABLE (D23.2, MAIR_EL1), and of MemAttr at
/// stage 2 that it reserves (D8.6.5, D8.6.6).
fn reserved_memory(root: &Root, descriptor: Descriptor) -> Option<String> {
    if !root.is_stage1() {
        let attributes = Stage2Attributes::from_bits_retain(descriptor.bits());
        let field = attributes.memory_attributes();
        let is_other = matches!(attributes.memory(root.forces_write_back), Stage2Memory::Other(_));
        // Without FWB inner and outer cacheability may differ.
        let is_reserved = is_other && (root.forces_write_back || field & 0b11 == 0);
        return is_reserved.then(|| format!("MemAttr {field:#06b} is reserved"));
    }
    let memory = leaf::memory_type(root, descriptor).0;
    let (outer, inner) = (memory >> 4, memory & 0xf);
    let is_unpredictable = match outer {
        0 => inner & 0b10 != 0,
        0x4 | 0xa | 0xf => false,
        _ => inner == 0,
    };
    is_unpredictable.then(|| format!("its memory type {memory:#04x} in MAIR is unpredictable"))
}
