//! Who has a page of memory, by what the kernel keeps anyway. For who is told why it cannot go: to find out, every table is walked.

use core::fmt;

use vmsa::{Meaning, PhysAddr, VirtAddr};

use crate::facts::facts;
use crate::memory::place::Place;
use crate::memory::{current, frames, handed, secret};

/// Who has a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    Secret,
    /// A realm's host, which has kept it.
    Host,
    /// It is a table of the kernel's own map.
    Table,
    /// It is mapped there too, which says what for.
    Mapped(VirtAddr),
    /// So many programs and files have it.
    Programs(u32),
    /// Somebody whom the page allocator does not know: the heap, or a table that waits or is of a program's map.
    Unknown,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret => f.write_str("secret memory"),
            Self::Host => f.write_str("a realm's host may have it"),
            Self::Table => f.write_str("a table of the kernel's map"),
            Self::Mapped(at) => write!(f, "mapped at {at}: {}", Place(*at)),
            Self::Programs(count) => write!(f, "{count} programs or files have it"),
            Self::Unknown => f.write_str("the page allocator gave it out"),
        }
    }
}

/// Who has a page that is not free.
pub(crate) fn of(page: PhysAddr) -> Holder {
    match page {
        _ if secret::holds(page) => Holder::Secret,
        _ if handed::is_lost(page) => Holder::Host,
        _ => mapped(page).or_else(|| frames::known_holders(page).map(Holder::Programs)).unwrap_or(Holder::Unknown),
    }
}

/// What the kernel's own map has it for, if anything but the linear map leads there.
fn mapped(page: PhysAddr) -> Option<Holder> {
    let table = current::upper();
    let mut found = (table.root() == page).then_some(Holder::Table);
    let walked = table.for_each(table.range(), &mut |entry| match entry.lookup.meaning {
        Meaning::Table(next) if next == page => found = Some(Holder::Table),
        Meaning::Leaf(to, _) if to <= page && page - to < 1 << entry.shift && !facts().linear.contains(entry.input) => {
            found = Some(Holder::Mapped(entry.input + (page - to)));
        }
        _ => {}
    });
    walked.ok().and(found)
}
