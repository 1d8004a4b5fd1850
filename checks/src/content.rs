//! What a region of the input space holds, as a naive model: stretches of pages, each with an output address and attributes.

use machine::attributes::Permissions;
use machine::syndrome::{AccessKind, FaultKind};
use pagetable::{Change, El1};
use vmsa::Stage1Attributes;

use crate::parameters::Parameters;

/// A stretch of consecutive input that leads to consecutive output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// First input address.
    pub first: u64,
    /// Bytes.
    pub bytes: u64,
    /// Output address of the first byte.
    pub output: u64,
    /// Attribute bits.
    pub attributes: Stage1Attributes,
    /// Invalid, but kept.
    pub is_kept: bool,
}

impl Stretch {
    /// Its last input address.
    pub const fn last(&self) -> u64 {
        self.first + (self.bytes - 1)
    }

    /// What its attributes grant, if its access flag does not matter. (D8.4.1, D8.4.6)
    pub(crate) fn granted(&self, parameters: &Parameters) -> Permissions {
        let has = |bits| self.attributes.contains(bits);
        let is_writable = !has(Stage1Attributes::READ_ONLY) || parameters.hardware.1 && has(Stage1Attributes::DBM);
        let is_user = parameters.setting.has_el0() && has(Stage1Attributes::USER);
        // Stage 2 grants to both levels what it grants; where there is no EL0, it is granted nothing.
        let (both, is_el1) = (parameters.setting.is_stage2(), parameters.setting.has_el0());
        let executes = !has(Stage1Attributes::PXN);
        let bits = [
            (true, Permissions::READ),
            (is_writable, Permissions::WRITE),
            // What EL0 may write, EL1 may not execute. (D8.4.1.2)
            (executes && !(is_user && is_writable), Permissions::EXECUTE),
            (is_user || both, Permissions::USER_READ),
            ((is_user || both) && is_writable, Permissions::USER_WRITE),
            (is_el1 && !has(Stage1Attributes::UXN) || both && executes, Permissions::USER_EXECUTE),
        ];
        Permissions(bits.iter().filter(|(is_granted, _)| *is_granted).map(|(_, bit)| bit).sum())
    }

    /// The part of it within `first..=last`, if any.
    fn part(&self, first: u64, last: u64) -> Option<Self> {
        let (first, last) = (first.max(self.first), last.min(self.last()));
        let part = Self { first, bytes: last.wrapping_sub(first).wrapping_add(1), ..*self };
        (first <= last).then_some(Self { output: self.output + (first - self.first), ..part })
    }
}

/// First and last address of a change.
pub fn ends(change: &Change<El1>) -> (u64, u64) {
    match change {
        Change::Map { from, .. }
        | Change::Remap { from, .. }
        | Change::Protect { from, .. }
        | Change::ProtectSparse { from, .. }
        | Change::Unmap { from }
        | Change::UnmapMapped { from }
        | Change::MakeInvalid { from }
        | Change::MakeValid { from }
        | Change::Age { from }
        | Change::Clean { from }
        | Change::SplitToPages { from }
        | Change::Collapse { from } => (from.start.bits(), from.end.bits().wrapping_sub(1)),
        Change::Split { at } => (at.bits(), at.bits()),
    }
}

/// What may come of an access.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Expected {
    /// It is made at this physical address.
    Output(u64),
    /// It faults.
    Fault(FaultKind),
}

/// What a region holds. Stretches are in order and do not overlap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Content {
    stretches: Vec<Stretch>,
}

impl Content {
    /// The stretches, in order of address.
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// The stretch that holds `address`.
    pub fn find(&self, address: u64) -> Option<&Stretch> {
        self.stretches.iter().find(|it| it.first <= address && address <= it.last())
    }

    /// What is within `first..=last`.
    pub fn within(&self, first: u64, last: u64) -> impl Iterator<Item = Stretch> + '_ {
        self.stretches.iter().filter_map(move |it| it.part(first, last))
    }

    /// Makes a change. Whether the engine may refuse it is not asked here.
    pub fn make(&mut self, change: &Change<El1>) {
        let (first, last) = ends(change);
        match change {
            Change::Map { to, attributes, .. } | Change::Remap { to, attributes, .. } => {
                self.edit(first, last, |_| None);
                let (bytes, output) = (last - first + 1, to.bits());
                self.stretches.push(Stretch { first, bytes, output, attributes: *attributes, is_kept: false });
                self.stretches.sort_by_key(|it| it.first);
            }
            Change::Protect { set, clear, .. } | Change::ProtectSparse { set, clear, .. } => {
                self.edit(first, last, |it| Some(Stretch { attributes: (it.attributes - *clear) | *set, ..it }));
            }
            Change::Unmap { .. } | Change::UnmapMapped { .. } => self.edit(first, last, |_| None),
            Change::MakeInvalid { .. } => self.edit(first, last, |it| Some(Stretch { is_kept: true, ..it })),
            Change::MakeValid { .. } => self.edit(first, last, |it| Some(Stretch { is_kept: false, ..it })),
            Change::Age { .. } => self.edit_mapped(first, last, |it| it - Stage1Attributes::AF),
            Change::Clean { .. } => self.edit_mapped(first, last, |it| {
                if it.contains(Stage1Attributes::DBM) { it | Stage1Attributes::READ_ONLY } else { it }
            }),
            Change::Split { .. } | Change::SplitToPages { .. } | Change::Collapse { .. } => {}
        }
    }

    fn edit_mapped(&mut self, first: u64, last: u64, edit: impl Fn(Stage1Attributes) -> Stage1Attributes) {
        self.edit(first, last, |it| {
            let attributes = if it.is_kept { it.attributes } else { edit(it.attributes) };
            Some(Stretch { attributes, ..it })
        });
    }

    fn edit(&mut self, first: u64, last: u64, edit: impl Fn(Stretch) -> Option<Stretch>) {
        let mut edited = Vec::new();
        for it in &self.stretches {
            edited.extend(if first > it.first { it.part(it.first, it.last().min(first - 1)) } else { None });
            edited.extend(it.part(first, last).and_then(&edit));
            edited.extend(if last < it.last() { it.part(it.first.max(last + 1), it.last()) } else { None });
        }
        self.stretches = edited;
    }

    /// What an access at the privileged level comes to.
    pub fn expected(&self, address: u64, kind: AccessKind, parameters: &Parameters) -> Expected {
        let Some(stretch) = self.find(address).filter(|it| !it.is_kept) else {
            return Expected::Fault(FaultKind::Translation);
        };
        let needed = match kind {
            AccessKind::Read => Permissions::READ,
            AccessKind::Write => Permissions::WRITE,
            AccessKind::Fetch => Permissions::EXECUTE,
        };
        if !stretch.attributes.contains(Stage1Attributes::AF) && !parameters.hardware.0 {
            Expected::Fault(FaultKind::AccessFlag)
        } else if stretch.granted(parameters).has(needed) {
            Expected::Output(stretch.output + (address - stretch.first))
        } else {
            Expected::Fault(FaultKind::Permission)
        }
    }
}
