//! A fault: what is lacking is found under the lock of the page's part, made without it, and put in place under it again.
//!
//! ```text
//!  look ──▶ nothing lacks: another CPU was faster, or a bit of the leaf was all        a dirty page, an access flag, a sole owner
//!    └────▶ Lacks ──▶ make: a frame is zeroed, copied, read from a file   no lock ──▶ place ──▶ done
//!                                                                                       └─────▶ all has changed: look again
//! ```
//! The lock of the whole is taken where there is no table of level 2 yet ([`Lacks::is_of_part`]), and for a stack that is to grow.

use core::ops::Range;

use pagetable::{Change, Hole, Platform, Reserve};
use vmsa::maintenance::{LevelHint, operand_by_address};
use vmsa::{Granule, LeafSize, Level, Maintenance, PhysAddr, Stage1Attributes, TlbiOp};

use crate::access::{Access, Kind};
use crate::area::{Area, Backing, Rights};
use crate::embedder::{Embedder, File, FileError};
use crate::error::{Error, Fault, Short};
use crate::folio::{self, Made, Placed};
use crate::removing::unmap;
use crate::shape::{Leaf, Note, WRITABLE};
use crate::state::{Editing, State, Table, leaf_at, leaf_of, make_single};

/// What a look at a page has found.
pub(crate) enum Found<F> {
    /// The access can be made.
    Whole,
    /// It lacks something.
    Lacks(Lacks<F>),
    /// It cannot be made.
    Fault(Fault),
}

/// What a page lacks.
pub(crate) struct Lacks<F> {
    gap: Gap,
    was: Option<Leaf>,
    attributes: Stage1Attributes,
    content: Content<F>,
}

/// Where it is to be.
#[derive(Clone, Copy)]
struct Gap {
    page: u64,
    /// The state that this was found in.
    version: u64,
    /// The hole that is there, if there is a table.
    hole: Option<Hole>,
    /// Where the way to it ends.
    level: Level,
}

/// What the frame is to hold.
enum Content<F> {
    /// Zeros, which are written next: a folio of this order, if there is one, or a page.
    Zeros { order: u32 },
    /// Zeros, which are read: as many pages as this order says, if there are so many, or one.
    ZeroFrames { order: u32 },
    /// What a page of a file holds.
    CopyOfPage { file: F, index: u64 },
    /// What this frame holds, of which there is one reference more until the copy is in place: nobody takes the page for theirs alone
    /// meanwhile, and writes what the copy lacks.
    Copy(PhysAddr),
    /// A page of a file.
    Page { file: F, index: u64, is_written: bool },
}

impl<E: Embedder> State<E> {
    /// What an access lacks, if it takes more than a bit of the leaf: written where it stays, as it is large.
    pub(crate) fn look(
        &self,
        editing: &Editing<'_, E>,
        access: Access,
        supply: &mut Reserve,
        found: &mut Found<E::File>,
    ) -> Result<(), Short> {
        let page = access.address & !(E::Granule::SIZE_BYTES - 1);
        let part = self.parts.of::<E::Granule>(page);
        let latest = part.is_latest(page).then(|| part.latest());
        let Some(area) = latest.as_ref().or_else(|| self.areas.find(page).inspect(|area| _ = part.note(area))) else {
            *found = Found::Fault(Fault::Unmapped);
            return Ok(());
        };
        let kind = access.kind.in_area(area);
        let is_allowed = match kind {
            Kind::Read | Kind::Atomic => editing.shape.is_readable(area.rights),
            Kind::Write => area.rights.contains(Rights::WRITE),
            Kind::Execute => area.rights.contains(Rights::EXECUTE),
        };
        if !is_allowed {
            *found = Found::Fault(Fault::Denied);
            return Ok(());
        }
        let is_write = kind == Kind::Write;
        let end = self.root.view(&editing.platform).find(page.into()).ok_or(Error::Invalid)?;
        let gap = Gap { page, version: self.version_at(part), hole: end.hole(), level: end.level };
        let Some((leaf, whole)) = leaf_of::<E>(&end, page) else {
            let order = match end.level {
                _ if is_write => folio::order(&self.root, editing, area, page)?,
                // A table is there: pages of zeros come one by one.
                Level::L3 => 0,
                _ => folio::order_of_zeros(editing, area, page),
            };
            *found = Found::Lacks(lacks(editing, area, (gap, order), None, is_write));
            return Ok(());
        };
        if !is_write || !leaf.has(Stage1Attributes::READ_ONLY) {
            // The page's own leaf says so, whatever others of its group say.
            if leaf.has(Stage1Attributes::AF) {
                if is_write {
                    forget_here(editing, page);
                }
                return Ok(());
            }
            let accessed = (Stage1Attributes::AF, Stage1Attributes::empty());
            return edit::<E>(self.table(editing), editing, &whole, accessed, supply);
        }
        // A dirty event, or nobody else has the page any more.
        let own = if leaf.has(WRITABLE) { Some(whole.clone()) } else { owned(editing, &leaf, page, &whole) };
        let Some(own) = own else {
            // Zeros alone make room for a folio: what is counted is copied page by page.
            let order = folio::order_within(editing, area, &whole);
            *found = Found::Lacks(lacks(editing, area, (gap, order), Some(leaf), is_write));
            return Ok(());
        };
        edit::<E>(
            self.table(editing),
            editing,
            &own,
            (Stage1Attributes::AF | WRITABLE, Stage1Attributes::READ_ONLY),
            supply,
        )?;
        if may_be_of_folio::<E>(&leaf, page) {
            self.fold_group(editing, page, supply);
        }
        Ok(())
    }

    /// Puts in place what was made, unless something has changed since it was found to lack.
    // Apart, so that a loop around it holds nothing for it.
    #[inline(never)]
    pub(crate) fn place(
        &self,
        editing: &Editing<'_, E>,
        lacks: &Lacks<E::File>,
        made: Made,
        supply: &mut Reserve,
    ) -> Result<Placed, Short> {
        let Gap { page, version, hole, .. } = lacks.gap;
        let part = self.parts.of::<E::Granule>(page);
        if self.version_at(part) != version {
            return Ok(Placed::Changed);
        }
        let (frame, new) = (made.frame, Leaf { frame: made.frame, attributes: lacks.attributes });
        // Mostly one page comes where the hole is that was found: one store is all.
        if made.order == 0 && hole.is_some_and(|hole| self.table(editing).map_hole(hole, frame, new.attributes)) {
            part.add(&new, 1);
            return Ok(Placed::Done);
        }
        let mut table = self.table(editing);
        if made.order > 0 {
            return self.place_folio(editing, &mut table, (page, made.order), (lacks.was, new), supply);
        }
        let is = leaf_at::<E>(&table.view(), page).map(|(leaf, _)| leaf);
        if is.map(|leaf| leaf.frame) != lacks.was.map(|leaf| leaf.frame) {
            return Ok(Placed::Changed);
        }
        match is {
            Some(old) if old.frame == frame => {
                let (set, clear) = (Stage1Attributes::AF | WRITABLE, Stage1Attributes::READ_ONLY);
                edit::<E>(table, editing, &one_page::<E>(page), (set, clear), supply)?;
                // The leaf has its reference already.
                editing.embedder.release(frame);
                return Ok(Placed::Done);
            }
            Some(old) => {
                // A live leaf leads elsewhere only by break-before-make (RWHZWS).
                make_single::<E>(&mut table, editing, page, supply)?;
                unmap::<E>(&mut table, editing, one_page::<E>(page), supply)?;
                map_page::<E>(&mut table, editing, page, new, supply)?;
                part.subtract(&old);
                if old.has(Note::COUNTED) {
                    editing.embedder.release(old.frame);
                }
            }
            None => map_page::<E>(&mut table, editing, page, new, supply)?,
        }
        part.add(&new, 1);
        Ok(Placed::Done)
    }
}

/// What a page lacks that is not there, or may not be written.
#[inline(always)]
fn lacks<E: Embedder>(
    editing: &Editing<'_, E>,
    area: &Area<E::File>,
    (gap, order): (Gap, u32),
    was: Option<Leaf>,
    is_write: bool,
) -> Lacks<E::File> {
    let (shape, is_private) = (editing.shape, !area.is_shared());
    let content = match (&area.backing, was) {
        (_, Some(leaf)) if is_private && leaf.has(Note::COUNTED) => {
            editing.embedder.share(leaf.frame);
            Content::Copy(leaf.frame)
        }
        (Backing::Anonymous { .. }, _) if is_write => Content::Zeros { order },
        (Backing::Anonymous { .. }, _) => Content::ZeroFrames { order },
        (Backing::File { file, offset }, _) => {
            let (file, index) = (file.clone(), (offset + (gap.page - area.start)) >> E::Granule::SHIFT);
            if is_private && is_write {
                Content::CopyOfPage { file, index }
            } else {
                Content::Page { file, index, is_written: is_write }
            }
        }
    };
    let attributes = if is_write { shape.written(area.rights) } else { shape.read_only(area.rights) };
    let notes = match content {
        Content::ZeroFrames { .. } => Stage1Attributes::empty(),
        Content::Page { .. } => Note::COUNTED,
        Content::Zeros { .. } | Content::Copy(_) | Content::CopyOfPage { .. } => Note::COUNTED | Note::OWN,
    };
    Lacks { gap, was, attributes: attributes | notes, content }
}

/// Has this CPU forget a page that lacks nothing: another CPU's hardware may have marked it as written, and tells no TLB of that.
#[cold]
fn forget_here<E: Embedder>(editing: &Editing<'_, E>, page: u64) {
    let operand = operand_by_address(0, LevelHint::NONE, page);
    // Without it a CPU that marks nothing by itself, and holds the page as clean, faults for ever.
    editing.platform.maintain(Maintenance::Invalidate(TlbiOp::VALE1, operand));
    // Without it the access may be made again before the TLBI is done. The exception return does what an ISB would.
    editing.platform.maintain(Maintenance::DSB_NSH);
}

/// Whether a page lies in its frame's contiguous group as in its own: only then it may be of a folio.
fn may_be_of_folio<E: Embedder>(leaf: &Leaf, page: u64) -> bool {
    (leaf.frame.bits() ^ page).is_multiple_of(E::Granule::SIZE_BYTES << folio::group_order::<E>())
}

const fn one_page<E: Embedder>(page: u64) -> Range<u64> {
    page..page + E::Granule::SIZE_BYTES
}

/// What becomes writable where nobody else has the page: all of its leaf if nobody has any of that.
fn owned<E: Embedder>(editing: &Editing<'_, E>, leaf: &Leaf, page: u64, whole: &Range<u64>) -> Option<Range<u64>> {
    let first = PhysAddr::new(leaf.frame.bits() - (page - whole.start));
    let is_sole = |at: u64| editing.embedder.is_sole(first + (at - whole.start));
    if !leaf.has(Note::OWN) || !is_sole(page) {
        return None;
    }
    let is_whole = whole.clone().step_by(E::Granule::SIZE_BYTES as usize).all(is_sole);
    Some(if is_whole { whole.clone() } else { one_page::<E>(page) })
}

/// Sets and clears bits of a leaf, or of one page of it.
#[inline(never)]
fn edit<E: Embedder>(
    mut table: Table<'_, '_, E>,
    editing: &Editing<'_, E>,
    range: &Range<u64>,
    (set, clear): (Stage1Attributes, Stage1Attributes),
    supply: &mut Reserve,
) -> Result<(), Short> {
    let is_page = range.end - range.start == E::Granule::SIZE_BYTES;
    if !is_page || !table.protect_page(range.start.into(), set, clear, None) {
        let from = range.start.into()..range.end.into();
        let (mut gather, licence) = (table.gather(), editing.licence());
        table.plan(&[Change::Protect { from, set, clear }], Some(&licence))?.apply(supply, &mut gather)?;
        supply.refill(&editing.platform, gather.finish(&editing.platform));
    }
    Ok(())
}

/// Maps a page that is a hole.
fn map_page<E: Embedder>(
    table: &mut Table<'_, '_, E>,
    editing: &Editing<'_, E>,
    page: u64,
    leaf: Leaf,
    supply: &mut Reserve,
) -> Result<(), Short> {
    if !table.map_page(page.into(), leaf.frame, leaf.attributes) {
        let from = page.into()..(page + E::Granule::SIZE_BYTES).into();
        let map = Change::Map { from, to: leaf.frame, attributes: leaf.attributes, largest: LeafSize::PAGE };
        let mut gather = table.gather();
        table.plan(&[map], None)?.apply(supply, &mut gather)?;
        supply.refill(&editing.platform, gather.finish(&editing.platform));
    }
    Ok(())
}

impl<F: File> Lacks<F> {
    /// Makes what lacks: frames with a reference each for the leaf. No lock is held.
    pub(crate) fn make<E: Embedder<File = F>>(&self, embedder: &E) -> Result<Made, Fault> {
        let frame = match &self.content {
            Content::Zeros { order } => return folio::zeros(embedder, *order).ok_or(Fault::OutOfMemory),
            Content::ZeroFrames { order } => return Ok(folio::shared_zeros(embedder, *order)),
            Content::Copy(from) => copy(embedder, *from),
            Content::Page { file, index, is_written } => {
                let frame = page_of(file, *index)?;
                if *is_written {
                    file.mark_written(*index);
                }
                Ok(frame)
            }
            Content::CopyOfPage { file, index } => {
                let from = page_of(file, *index)?;
                let frame = copy(embedder, from);
                embedder.release(from);
                frame
            }
        };
        Ok(Made { frame: frame?, order: 0 })
    }

    /// Whether the lock of its part is enough to put it in place: a table of level 2 is there, so that all that is edited is the slot of
    /// the page's block, and what is below. Who takes that table away has the whole, and others find another version then.
    pub(crate) fn is_of_part(&self) -> bool {
        self.gap.level >= Level::L2
    }

    /// Whether the program may execute the page afterwards.
    pub(crate) fn is_executable(&self) -> bool {
        !self.attributes.contains(Stage1Attributes::UXN)
    }

    /// The page of a file that is read, if this is one: what lies around is read next.
    pub(crate) fn read_of_file(&self) -> Option<u64> {
        matches!(self.content, Content::Page { is_written: false, .. }).then_some(self.gap.page)
    }

    /// What was looked at is not needed any more, whatever came of it.
    pub(crate) fn let_go<E: Embedder<File = F>>(&self, embedder: &E) {
        if let Content::Copy(from) = self.content {
            embedder.release(from);
        }
    }

    /// What was made is not needed.
    pub(crate) fn unmake<E: Embedder<File = F>>(&self, embedder: &E, made: Made) {
        if self.attributes.contains(Note::COUNTED) {
            made.frames::<E>().for_each(|frame| embedder.release(frame));
        }
    }
}

/// A copy of a frame.
fn copy<E: Embedder>(embedder: &E, from: PhysAddr) -> Result<PhysAddr, Fault> {
    let frame = embedder.take().ok_or(Fault::OutOfMemory)?;
    embedder.copy(frame, from);
    Ok(frame)
}

fn page_of<F: File>(file: &F, index: u64) -> Result<PhysAddr, Fault> {
    file.frame(index).map_err(|error| match error {
        FileError::Beyond => Fault::Beyond,
        FileError::NoMemory => Fault::OutOfMemory,
    })
}
