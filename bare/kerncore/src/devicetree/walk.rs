//! A walk over the nodes of a blob, in order, each with what its place in the tree tells: cells, buses, interrupt parent.
//!
//! A node's properties stand before its subnodes, so a node is whole when it is given out. Looking a property up reads
//! the node's properties again; as each node is asked for a fixed number of them, a walk stays linear in the blob.

use vmsa::PhysAddr;

use crate::range::PhysicalRange;
use crate::text::Text;

use super::blob::{Blob, Token, Tokens};
use super::cells::{CellCounts, Cells, MAX_CELLS, Reg, strings};
use super::problem::Problem;

/// Nodes of this depth or deeper are given out, but know nothing of their place; the trees of real machines have 8 levels.
pub(super) const MAX_DEPTH: usize = 16;

/// What a node is for, as far as its place says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Root,
    Chosen,
    Aliases,
    Cpus,
    Cpu,
    ReservedMemory,
    Reservation,
    Device,
}

impl Place {
    fn below(parent: Self, name: Text<'_>) -> Self {
        match (parent, name.0) {
            (Self::Root, b"chosen") => Self::Chosen,
            (Self::Root, b"aliases") => Self::Aliases,
            (Self::Root, b"cpus") => Self::Cpus,
            (Self::Root, b"reserved-memory") => Self::ReservedMemory,
            (Self::Cpus, _) => Self::Cpu,
            (Self::ReservedMemory, _) => Self::Reservation,
            _ => Self::Device,
        }
    }
}

/// A node with its properties still in the blob.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) name: Text<'a>,
    /// 0 for the root.
    pub(super) depth: usize,
    pub(super) place: Place,
    /// The cells of its `reg`: those its parent says.
    pub(super) counts: CellCounts,
    /// The phandle of the interrupt parent, its own or the nearest ancestor's; 0 if there is none.
    pub(super) interrupt_parent: u32,
    /// A bookmark at the first of its properties.
    properties: Tokens<'a>,
}

impl<'a> Node<'a> {
    /// The value of the first property called `name`.
    pub(super) fn property(&self, name: &str) -> Option<&'a [u8]> {
        self.properties.find_property(name)
    }

    /// A property of one cell.
    pub(super) fn cell(&self, name: &str) -> Option<u32> {
        let cell: &[u8; 4] = self.property(name)?.try_into().ok()?;
        Some(u32::from_be_bytes(*cell))
    }

    /// Its addresses as they stand, not translated.
    pub(super) fn reg(&self) -> Option<Reg<'a>> {
        Some(Reg::new(self.property("reg")?, self.counts))
    }

    /// Whether one of its `compatible` strings is among `names`.
    pub(super) fn is_compatible(&self, names: &[&str]) -> bool {
        let list = self.property("compatible").unwrap_or(&[]);
        strings(list).any(|string| names.iter().any(|name| string == **name))
    }

    /// Whether its `status` allows its use.
    pub(super) fn is_enabled(&self) -> bool {
        matches!(self.property("status"), None | Some(b"okay\0" | b"ok\0"))
    }

    /// What others call it by; 0 if nothing.
    pub(super) fn phandle(&self) -> u32 {
        self.cell("phandle").or_else(|| self.cell("linux,phandle")).unwrap_or(0)
    }

    /// The number of cells that it claims for its children although nothing takes so many.
    pub(super) fn bad_cells(&self) -> Option<u32> {
        ["#address-cells", "#size-cells"]
            .into_iter()
            .filter_map(|name| self.cell(name))
            .find(|&cells| cells > MAX_CELLS)
    }
}

/// What an open node tells its children.
#[derive(Clone, Copy)]
struct Level<'a> {
    place: Place,
    counts: CellCounts,
    interrupt_parent: u32,
    /// Windows from this bus to the one above; empty means the same addresses, none means that nothing gets through.
    ranges: Option<&'a [u8]>,
}

/// Where a walk stands: about 1 KiB.
pub(super) struct Walk<'a> {
    tokens: Tokens<'a>,
    levels: [Level<'a>; MAX_DEPTH],
    /// How many nodes are open, of which only the first `MAX_DEPTH` have a level.
    open: usize,
    has_root: bool,
    is_over: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(blob: &Blob<'a>) -> Self {
        let outside = Level { place: Place::Root, counts: CellCounts::DEFAULT, interrupt_parent: 0, ranges: None };
        Self { tokens: blob.tokens(), levels: [outside; MAX_DEPTH], open: 0, has_root: false, is_over: false }
    }

    /// The next node; none after the last. After a problem, which is always damage, the walk is over.
    pub(super) fn next(&mut self) -> Result<Option<Node<'a>>, Problem<'a>> {
        while !self.is_over {
            let offset = self.tokens.offset;
            // Any error below ends the walk; what gets past them takes this back.
            self.is_over = true;
            match self.tokens.next()? {
                // A second root would say everything once more.
                Token::Begin { .. } if self.has_root && self.open == 0 => return Err(Problem::Unbalanced { offset }),
                Token::Begin { name } => {
                    let node = self.enter(name)?;
                    self.is_over = false;
                    return Ok(Some(node));
                }
                Token::End if self.open > 0 => self.open -= 1,
                Token::Last if self.open == 0 => return Ok(None),
                Token::End | Token::Last => return Err(Problem::Unbalanced { offset }),
                Token::Property(_) => return Err(Problem::MisplacedProperty { offset }),
            }
            self.is_over = false;
        }
        Ok(None)
    }

    /// Steps over a node's properties and notes what they tell its children.
    fn enter(&mut self, name: Text<'a>) -> Result<Node<'a>, Problem<'a>> {
        let properties = self.tokens;
        while self.tokens.at_property() {
            self.tokens.next()?;
        }
        let depth = self.open;
        self.open += 1;
        let above = self.levels[depth.saturating_sub(1).min(MAX_DEPTH - 1)];
        let (place, name) = match self.has_root {
            true => (Place::below(above.place, name), name),
            false => (Place::Root, Text::new("/")),
        };
        self.has_root = true;
        let counts = above.counts;
        let mut node = Node { name, depth, place, counts, interrupt_parent: above.interrupt_parent, properties };
        node.interrupt_parent = node.cell("interrupt-parent").unwrap_or(above.interrupt_parent);
        if let Some(level) = self.levels.get_mut(depth) {
            let (interrupt_parent, ranges) = (node.interrupt_parent, node.property("ranges"));
            *level = Level { place, counts: CellCounts::of_children(&node.properties), interrupt_parent, ranges };
        }
        Ok(node)
    }

    /// Where addresses of `node`, the one given out last, are for the CPU; none if a bus above it does not let them through.
    pub(super) fn translate(&self, node: &Node<'a>, (mut address, size): (u64, u64)) -> Option<PhysicalRange> {
        for bus in (1..node.depth).rev() {
            let (bus, above) = (&self.levels[bus], &self.levels[bus - 1]);
            let ranges = bus.ranges?;
            if !ranges.is_empty() {
                address = through(ranges, bus.counts, above.counts.address, (address, size))?;
            }
        }
        let range = PhysicalRange::from_size(PhysAddr::new(address), size);
        (range.size_bytes() == size && size > 0).then_some(range)
    }
}

/// Through the first window that holds the addresses: entries of child address, parent address, size.
fn through(ranges: &[u8], child: CellCounts, parent_cells: u32, (address, size): (u64, u64)) -> Option<u64> {
    let entry_bytes = 4 * (child.address + parent_cells + child.size) as usize;
    ranges.chunks_exact(entry_bytes.max(4)).find_map(|entry| {
        let mut cells = Cells(entry);
        let (from, to, length) = (cells.take(child.address)?, cells.take(parent_cells)?, cells.take(child.size)?);
        let offset = address.checked_sub(from)?;
        let fits = offset < length && size <= length - offset;
        fits.then(|| to.checked_add(offset))?
    })
}
