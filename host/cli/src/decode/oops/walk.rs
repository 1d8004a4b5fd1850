//! The descriptors of a report, level by level, and how a walk of them ends.

use image::Root;
use vmsa::{Descriptor, FaultStatus, Level, Meaning, Permissions, Stage1Attributes, TableAttributes};

use crate::args::EncodingArguments;
use crate::leaf;
use crate::select::Failure;

use super::super::descriptor;
use super::read::{Report, System};

/// A walk, as far as it was printed.
pub(super) struct Walk {
    /// Name, level, value, and what it says.
    pub(super) rows: Vec<[String; 4]>,
    pub(super) end: End,
    pub(super) root: Root,
    /// Tables that limit what is below: level and limits.
    pub(super) limits: Vec<(Level, TableAttributes)>,
    /// The last table that a descriptor leads to.
    pub(super) table: Option<u64>,
}

/// How a walk ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// At a descriptor that is no leaf and no table.
    Fault(FaultStatus),
    /// At a leaf, which permits this.
    Leaf { level: Level, is_accessed: bool, permissions: Option<Permissions> },
    /// The next descriptor was not printed.
    Unknown,
}

impl Walk {
    pub(super) fn of(report: &Report, encoding: &EncodingArguments) -> Result<Self, Failure> {
        let root = descriptor::root(encoding)?;
        let (size, layout) = (root.shape.page_size, root.shape.layout);
        let start = report.bits.map_or(size.highest_root(layout), |bits| {
            let levels = bits.saturating_sub(size.shift()).div_ceil(size.index_bits()).clamp(1, 5);
            Level::new(4 - levels as i8).unwrap_or(Level::L0).max(size.highest_root(layout))
        });
        let mut walk = Self { rows: Vec::new(), end: End::Unknown, root, limits: Vec::new(), table: None };
        let mut limits = TableAttributes::empty();
        let descriptors = unfolded(&report.walk, start);
        for &(name, level, value) in &descriptors {
            let descriptor = Descriptor::new(value);
            let mut says = descriptor::what(&walk.root, descriptor, level);
            walk.end = match descriptor.meaning(size, layout, level) {
                Meaning::Invalid | Meaning::Reserved => End::Fault(FaultStatus::Translation(level)),
                Meaning::Table(next) => {
                    let mut own = TableAttributes::from_bits_retain(value) & TableAttributes::LIMITS;
                    if walk.root.control.has_one_privilege {
                        own.remove(TableAttributes::PXN | TableAttributes::NO_USER);
                    }
                    says += &limited(&walk.root, own);
                    limits |= own;
                    walk.limits.extend((!own.is_empty()).then_some((level, own)));
                    walk.table = Some(next.bits());
                    End::Unknown
                }
                Meaning::Leaf(..) => {
                    let permissions = walk.root.permissions(descriptor, limits);
                    let is_accessed = Stage1Attributes::from_bits_retain(value).contains(Stage1Attributes::AF);
                    if let Some(permissions) = permissions {
                        says += &format!(": {}", descriptor::whom(&walk.root, permissions));
                    }
                    says += if is_accessed { "" } else { "; AF is clear" };
                    // Linux is known by its order of memory types; of others MAIR must be given.
                    if report.system == Some(System::Linux) || encoding.mair.is_some() {
                        says += &format!("; memory {}", leaf::memory_name(&walk.root, descriptor));
                    }
                    End::Leaf { level, is_accessed, permissions }
                }
            };
            walk.rows.push([name.to_owned(), level.to_string(), format!("{value:#018x}"), says]);
            if walk.end != End::Unknown {
                break;
            }
        }
        Ok(walk)
    }
}

/// The descriptors of a walk from its root. Linux prints levels that it does not have too: all names above the root are the
/// root's, and the last of them that was printed is the one that was walked.
fn unfolded(walk: &[(&'static str, Level, u64)], start: Level) -> Vec<(&'static str, Level, u64)> {
    let mut descriptors: Vec<_> = walk.to_vec();
    descriptors.sort_by_key(|(_, level, _)| *level);
    let above = descriptors.iter().filter(|(_, level, _)| *level <= start).count().saturating_sub(1);
    descriptors.drain(..above);
    if let Some(first) = descriptors.first_mut() {
        first.1 = first.1.max(start);
    }
    descriptors
}

/// What a table limits below it, in words.
fn limited(root: &Root, limits: TableAttributes) -> String {
    let privileged = root.regime.privileged();
    let of_two = !root.control.has_one_privilege;
    let upper = if of_two { "EL0" } else { privileged };
    let words = [
        (TableAttributes::READ_ONLY, "no writes".to_owned()),
        (TableAttributes::NO_USER, "no EL0 access".to_owned()),
        (TableAttributes::PXN, format!("{privileged} does not execute (PXNTable)")),
        (TableAttributes::UXN, format!("{upper} does not execute ({}XNTable)", if of_two { "U" } else { "" })),
    ];
    let says: Vec<String> =
        words.into_iter().filter(|(limit, _)| limits.contains(*limit)).map(|(_, says)| says).collect();
    if says.is_empty() { String::new() } else { format!("; below: {}", says.join(", ")) }
}
