//! Whether a page of memory could be a table of tables, and which shapes a page table that begins there could have.

use vmsa::fields::STAGE1_TABLE;
use vmsa::{AddressHalf, Bits, Descriptor, Layout, Level, PageSize, PhysAddr, Stage1Attributes};

use super::{descriptors, level_at};
use crate::memory::{Memory, ReadError};
use crate::root::{Origin, Regime, Root};
use crate::shape::Shape;

/// Bits of a table descriptor that hardware does not look at, and that kernels leave zero.
const CLEAR_IN_TABLES: Bits = STAGE1_TABLE.ignored;
/// Every leaf in use has it.
const AF: Bits = Stage1Attributes::AF.bits();
/// How many of a table's links are followed to see how deep it is.
const MOST_PROBED: usize = 16;

/// The tables that a page leads to, if it could be a table of tables: each entry is zero, leads to a table in memory, or
/// is a block; and at least one leads to a table.
pub(super) fn links(memory: &dyn Memory, page_size: PageSize, page: &[u8]) -> Option<Vec<u64>> {
    let mut links = Vec::new();
    for descriptor in descriptors(page).filter(|descriptor| descriptor.bits() != 0) {
        let bits = descriptor.bits();
        match bits & Descriptor::TYPE {
            0b11 => {
                let next = Layout::Bits48.output(descriptor, page_size.shift());
                let is_clear = bits & (CLEAR_IN_TABLES | Layout::Bits48.reserved_in_table(page_size)) == 0;
                if !is_clear || !memory.holds(next, page_size.size_bytes()) {
                    return None;
                }
                links.push(next.bits());
            }
            0b01 if bits & AF != 0 && bits & Layout::Bits48.reserved_in_leaf(page_size, Level::L2) == 0 => {}
            _ => return None,
        }
    }
    (!links.is_empty()).then_some(links)
}

/// The page tables that may begin at `page`: usually one, more where the width cannot be told.
pub(super) fn roots(memory: &mut dyn Memory, page_size: PageSize, page: u64) -> Result<Vec<Root>, ReadError> {
    let mut bytes = vec![0; page_size.size_bytes() as usize];
    let Some(start) = height(memory, page_size, page, 4)?.and_then(level_at) else { return Ok(Vec::new()) };
    memory.read(PhysAddr::new(page), &mut bytes)?;
    let used: Vec<usize> =
        (0..).zip(descriptors(&bytes)).filter(|(_, d)| d.is_valid()).map(|(index, _)| index).collect();
    let (Some(&first), Some(&last)) = (used.first(), used.last()) else { return Ok(Vec::new()) };
    let root = |(input_bits, skipped): (u32, usize)| {
        let layout = match page_size {
            PageSize::Size64K => Layout::Lpa,
            _ if input_bits > 48 => Layout::Lpa2,
            _ => Layout::Bits48,
        };
        let shape = Shape::stage1(page_size, layout, input_bits, AddressHalf::Upper).ok()?;
        let address = PhysAddr::new(page + skipped as u64 * 8);
        let holds = first >= skipped && last < skipped + shape.entries(shape.start);
        let root = Root::bare(Regime::El1Upper, address, shape, Origin::Search(0, String::new()));
        (shape.start == start && holds).then_some(root)
    };
    Ok(widths(page_size, start).iter().copied().find_map(root).into_iter().collect())
}

/// The widths in use that begin at `start`, and the entries at the head of the page that such a root leaves out: a 64 KiB
/// kernel built for 52 bits that runs with 48 uses the end of its root. The narrowest that holds all entries is meant.
fn widths(page_size: PageSize, start: Level) -> &'static [(u32, usize)] {
    match (page_size, start.number()) {
        (PageSize::Size4K, 2) => &[(30, 0)],
        (PageSize::Size4K, 1) => &[(39, 0)],
        (PageSize::Size4K, 0) => &[(48, 0)],
        (PageSize::Size4K, -1) => &[(52, 0)],
        (PageSize::Size16K, 2) => &[(36, 0)],
        (PageSize::Size16K, 1) => &[(47, 0)],
        (PageSize::Size16K, 0) => &[(48, 0), (52, 0)],
        (PageSize::Size64K, 2) => &[(42, 0)],
        (PageSize::Size64K, 1) => &[(48, 0), (48, 1024 - 64), (52, 0)],
        _ => &[],
    }
}

/// How many levels lie below a table: 0 for one of pages, or with nothing in it, 1 for one of blocks alone; `None` for what is no
/// table. Of what a table of tables leads to most are tables: a page that was something else has a few such links, if any.
fn height(memory: &mut dyn Memory, page_size: PageSize, page: u64, most: u32) -> Result<Option<u32>, ReadError> {
    let mut bytes = vec![0; page_size.size_bytes() as usize];
    match memory.read(PhysAddr::new(page), &mut bytes) {
        Err(ReadError::Outside) => return Ok(None),
        result => result?,
    }
    let Some(links) = links(memory, page_size, &bytes) else { return Ok(leaf_height(page_size, &bytes)) };
    if most == 0 {
        return Ok(None);
    }
    let (mut deepest, mut tables, probed) = (None, 0, links.len().min(MOST_PROBED));
    for next in links.into_iter().take(probed) {
        let below = height(memory, page_size, next, most - 1)?;
        tables += usize::from(below.is_some());
        deepest = deepest.max(below);
    }
    if tables * 2 <= probed {
        return Ok(None);
    }
    Ok(deepest.map(|height| height + 1))
}

/// The height of a table without links: its leaves are pages or blocks.
fn leaf_height(page_size: PageSize, page: &[u8]) -> Option<u32> {
    let mut height = page.iter().all(|byte| *byte == 0).then_some(0);
    for descriptor in descriptors(page).filter(|descriptor| descriptor.is_valid()) {
        let bits = descriptor.bits();
        let (this, level) = if bits & Descriptor::TYPE == 0b11 { (0, Level::L3) } else { (1, Level::L2) };
        let is_odd = bits & AF == 0 || bits & Layout::Bits48.reserved_in_leaf(page_size, level) != 0;
        if is_odd || height.is_some_and(|height| height != this) {
            return None;
        }
        height = Some(this);
    }
    height
}
