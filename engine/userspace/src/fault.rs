//! A fault: what is lacking is found under the lock, made without it, and put in place under it again.
//!
//! ```text
//!  look ──▶ nothing lacks: another CPU was faster, or a bit of the leaf was all        a dirty page, an access flag, a sole owner
//!    └────▶ Lacks ──▶ make: a frame is zeroed, copied, read from a file   no lock ──▶ place ──▶ done
//!                                                                                       └─────▶ all has changed: look again
//! ```

use pagetable::{Change, Reserve};
use vmsa::{Granule, LeafSize, PhysAddr, Stage1Attributes};

use crate::access::{Access, Kind};
use crate::area::{Area, Backing, Rights};
use crate::embedder::{Embedder, File, FileError};
use crate::error::{Fault, Short};
use crate::removing::unmap;
use crate::shape::{Leaf, Note, WRITABLE};
use crate::state::{Editing, State, Table, leaf_at};

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
    page: u64,
    /// The state that this was found in.
    version: u64,
    was: Option<Leaf>,
    attributes: Stage1Attributes,
    content: Content<F>,
}

/// What the frame is to hold.
enum Content<F> {
    /// Zeros, which are written next.
    Zeros,
    /// Zeros, which are read.
    ZeroFrame,
    /// What this frame holds, of which there is one reference more until then.
    Copy(PhysAddr),
    /// A page of a file.
    Page { file: F, index: u64, is_written: bool },
    /// What a page of a file holds.
    CopyOfPage { file: F, index: u64 },
}

/// How placing ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placed {
    Done,
    /// Something has changed since.
    Changed,
}

impl<E: Embedder> State<E> {
    /// What an access lacks, if it takes more than a bit of the leaf.
    pub(crate) fn look(
        &mut self,
        editing: &Editing<'_, E>,
        access: Access,
        supply: &mut Reserve,
    ) -> Result<Found<E::File>, Short> {
        let page = access.address & !(E::Granule::SIZE_BYTES - 1);
        let Some(area) = self.areas.find(page) else {
            // What has grown holds the page now.
            let has_grown = self.grow_stack(editing, page);
            return if has_grown { self.look(editing, access, supply) } else { Ok(Found::Fault(Fault::Unmapped)) };
        };
        let mut table = self.table(editing)?;
        let kind = access.kind.in_area(area);
        let is_allowed = match kind {
            Kind::Read | Kind::Atomic => editing.shape.is_readable(area.rights),
            Kind::Write => area.rights.contains(Rights::WRITE),
            Kind::Execute => area.rights.contains(Rights::EXECUTE),
        };
        if !is_allowed {
            return Ok(Found::Fault(Fault::Denied));
        }
        let was = leaf_at::<E>(&table.view(), page);
        let is_write = kind == Kind::Write;
        if let Some(leaf) = was {
            let is_owned = || leaf.has(Note::OWN | Note::COUNTED) && editing.embedder.is_sole(leaf.frame);
            let (set, clear) = if !is_write || !leaf.has(Stage1Attributes::READ_ONLY) {
                (Stage1Attributes::AF, Stage1Attributes::empty())
            } else if leaf.has(WRITABLE) || is_owned() {
                // A dirty event, or nobody else has the page any more.
                (Stage1Attributes::AF | WRITABLE, Stage1Attributes::READ_ONLY)
            } else {
                return Ok(Found::Lacks(self.lacks(editing, area, page, was, is_write)));
            };
            edit_page::<E>(&mut table, editing, page, (set, clear), supply)?;
            return Ok(Found::Whole);
        }
        Ok(Found::Lacks(self.lacks(editing, area, page, was, is_write)))
    }

    /// What a page lacks that is not there, or may not be written.
    fn lacks(
        &self,
        editing: &Editing<'_, E>,
        area: &Area<E::File>,
        page: u64,
        was: Option<Leaf>,
        is_write: bool,
    ) -> Lacks<E::File> {
        let (shape, is_private) = (editing.shape, !area.is_shared());
        let content = match (&area.backing, was) {
            (_, Some(leaf)) if is_private && leaf.has(Note::COUNTED) => {
                editing.embedder.share(leaf.frame);
                Content::Copy(leaf.frame)
            }
            (Backing::Anonymous { .. }, _) if is_write => Content::Zeros,
            (Backing::Anonymous { .. }, _) => Content::ZeroFrame,
            (Backing::File { file, offset }, _) => {
                let (file, index) = (file.clone(), (offset + (page - area.start)) >> E::Granule::SHIFT);
                if is_private && is_write {
                    Content::CopyOfPage { file, index }
                } else {
                    Content::Page { file, index, is_written: is_write }
                }
            }
        };
        let attributes = if is_write { shape.written(area.rights) } else { shape.read_only(area.rights) };
        let notes = match content {
            Content::ZeroFrame => Stage1Attributes::empty(),
            Content::Page { .. } => Note::COUNTED,
            Content::Zeros | Content::Copy(_) | Content::CopyOfPage { .. } => Note::COUNTED | Note::OWN,
        };
        Lacks { page, version: self.version, was, attributes: attributes | notes, content }
    }

    /// Puts in place what was made, unless something has changed since it was found to lack.
    pub(crate) fn place(
        &mut self,
        editing: &Editing<'_, E>,
        lacks: &Lacks<E::File>,
        frame: PhysAddr,
        supply: &mut Reserve,
    ) -> Result<Placed, Short> {
        if self.version != lacks.version {
            return Ok(Placed::Changed);
        }
        let (mut table, new) = (self.table(editing)?, Leaf { frame, attributes: lacks.attributes });
        // Mostly the table is there, and the page is a hole yet: then one descent is all.
        if lacks.was.is_none() && table.map_page(lacks.page.into(), frame, lacks.attributes) {
            self.resident.add(&new);
            return Ok(Placed::Done);
        }
        let is = leaf_at::<E>(&table.view(), lacks.page);
        if is.map(|leaf| leaf.frame) != lacks.was.map(|leaf| leaf.frame) {
            return Ok(Placed::Changed);
        }
        match is {
            Some(old) if old.frame == frame => {
                let (set, clear) = (Stage1Attributes::AF | WRITABLE, Stage1Attributes::READ_ONLY);
                edit_page::<E>(&mut table, editing, lacks.page, (set, clear), supply)?;
                // The leaf has its reference already.
                editing.embedder.release(frame);
                return Ok(Placed::Done);
            }
            Some(old) => {
                // A live leaf leads elsewhere only by break-before-make (RWHZWS).
                unmap::<E>(&mut table, editing, lacks.page..lacks.page + E::Granule::SIZE_BYTES, supply)?;
                map_page::<E>(&mut table, editing, lacks.page, new, supply)?;
                self.resident.subtract(&old);
                if old.has(Note::COUNTED) {
                    editing.embedder.release(old.frame);
                }
            }
            None => map_page::<E>(&mut table, editing, lacks.page, new, supply)?,
        }
        self.resident.add(&new);
        Ok(Placed::Done)
    }
}

/// Sets and clears bits of a leaf.
fn edit_page<E: Embedder>(
    table: &mut Table<'_, '_, E>,
    editing: &Editing<'_, E>,
    page: u64,
    (set, clear): (Stage1Attributes, Stage1Attributes),
    supply: &mut Reserve,
) -> Result<(), Short> {
    if !table.protect_page(page.into(), set, clear) {
        let from = page.into()..(page + E::Granule::SIZE_BYTES).into();
        let mut gather = table.gather();
        table.plan(&[Change::Protect { from, set, clear }], None)?.apply(supply, &mut gather)?;
        supply.refill(&editing.platform, gather.finish(&editing.platform));
    }
    Ok(())
}

/// Maps a page that is a hole.
pub(crate) fn map_page<E: Embedder>(
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
    /// Makes what lacks: a frame with a reference for the leaf. No lock is held.
    pub(crate) fn make<E: Embedder<File = F>>(&self, embedder: &E) -> Result<PhysAddr, Fault> {
        match &self.content {
            Content::ZeroFrame => Ok(embedder.zero_frame()),
            Content::Zeros => {
                let frame = embedder.take().ok_or(Fault::OutOfMemory)?;
                embedder.zero(frame);
                Ok(frame)
            }
            Content::Copy(from) => copy(embedder, *from),
            Content::Page { file, index, is_written } => {
                let frame = page_of(file, *index)?;
                if *is_written {
                    file.mark_written(*index);
                }
                Ok(frame)
            }
            Content::CopyOfPage { file, index } => copy(embedder, page_of(file, *index)?),
        }
    }

    /// Whether the program may execute the page afterwards.
    pub(crate) fn is_executable(&self) -> bool {
        !self.attributes.contains(Stage1Attributes::UXN)
    }

    /// What was made is not needed.
    pub(crate) fn unmake<E: Embedder<File = F>>(&self, embedder: &E, frame: PhysAddr) {
        if self.attributes.contains(Note::COUNTED) {
            embedder.release(frame);
        }
    }
}

/// A copy of a frame, and a reference less to that.
fn copy<E: Embedder>(embedder: &E, from: PhysAddr) -> Result<PhysAddr, Fault> {
    let frame = embedder.take();
    if let Some(frame) = frame {
        embedder.copy(frame, from);
    }
    embedder.release(from);
    frame.ok_or(Fault::OutOfMemory)
}

fn page_of<F: File>(file: &F, index: u64) -> Result<PhysAddr, Fault> {
    file.frame(index).map_err(|error| match error {
        FileError::Beyond => Fault::Beyond,
        FileError::NoMemory => Fault::OutOfMemory,
    })
}
