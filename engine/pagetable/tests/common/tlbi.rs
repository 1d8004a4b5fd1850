//! What a TLBI reaches, read off its name and operand by the manual (D8.17), not by the code that made them.

use vellum_pagetable::{El1, El2, El2And0, Regime, Scope, Stage2};
use vellum_vmsa::{Geometry, Granule, Layout, PageSize, TlbiOp};

/// Whose entries a page table's are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tag {
    /// EL1&0 or EL2&0: of one ASID, or of all.
    TwoRanges(Option<u16>),
    El2,
    Stage2,
}

/// A regime whose walkers are watched.
pub(crate) trait Watched: Regime {
    fn tag(self) -> Tag;
}

const fn asid(scope: Scope) -> Option<u16> {
    match scope {
        Scope::Global => None,
        Scope::Asid(asid) => Some(asid),
    }
}

impl Watched for El1 {
    fn tag(self) -> Tag {
        Tag::TwoRanges(asid(self.scope))
    }
}

impl Watched for El2And0 {
    fn tag(self) -> Tag {
        Tag::TwoRanges(asid(self.scope))
    }
}

impl Watched for El2 {
    fn tag(self) -> Tag {
        Tag::El2
    }
}

impl Watched for Stage2 {
    fn tag(self) -> Tag {
        Tag::Stage2
    }
}

impl Tag {
    /// Attribute bits that may change in a live leaf without break-before-make (RWHZWS).
    pub(crate) const fn in_place(self) -> u64 {
        // AF, DBM and software's own; then AP, XN and GP of stage 1, S2AP and XN of stage 2.
        let both = 1 << 10 | 1 << 51 | 0b1111 << 55 | 0b11 << 6 | 0b11 << 53;
        if matches!(self, Self::Stage2) { both } else { both | 1 << 50 }
    }

    /// The operations by address that act on such entries, and whether their ASID counts.
    const fn by_address(self) -> &'static [(&'static str, bool)] {
        match self {
            Self::TwoRanges(None) => &[("VAAE1IS", false), ("VAALE1IS", false)],
            Self::TwoRanges(Some(_)) => &[("VAE1IS", true), ("VALE1IS", true)],
            Self::El2 => &[("VAE2IS", false), ("VALE2IS", false)],
            Self::Stage2 => &[("IPAS2E1IS", false), ("IPAS2LE1IS", false)],
        }
    }
}

/// Where addresses, levels and operands meet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) size: PageSize,
    pub(crate) layout: Layout,
    pub(crate) base: u64,
    pub(crate) input_bytes: u64,
    pub(crate) start: i8,
}

impl Shape {
    pub(crate) fn of<G: Granule>(geometry: Geometry<G>) -> Self {
        Self {
            size: G::PAGE_SIZE,
            layout: geometry.layout(),
            base: geometry.base(),
            input_bytes: geometry.input_bytes(),
            start: geometry.start().number(),
        }
    }

    /// Bytes that a descriptor of this level covers.
    pub(crate) const fn span(&self, level: i8) -> u64 {
        let shift = self.size.shift();
        1 << (shift + (3 - level) as u32 * (shift - 3))
    }
}

/// Entries that a TLBI reaches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    /// Offsets, both included.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// What walks keep of tables too.
    pub(crate) has_tables: bool,
    /// Leaves of this level alone.
    pub(crate) level: Option<i8>,
    /// What stage 2 alone translates, or the one stage that there is.
    pub(crate) is_own: bool,
    /// What both stages translate at once.
    pub(crate) is_combined: bool,
}

impl Reach {
    pub(crate) fn of(shape: &Shape, tag: Tag, op: TlbiOp, operand: u64) -> Self {
        assert!(!op.is_without_xs(), "{op} does not wait for every access");
        let name = op.name().as_str();
        let everything = |is_own, is_combined| {
            let last = shape.input_bytes - 1;
            Self { first: 0, last, has_tables: true, level: None, is_own, is_combined }
        };
        let asid = (operand >> 48) as u16;
        match (tag, name) {
            (Tag::TwoRanges(None), "VMALLE1IS") | (Tag::El2, "ALLE2IS") => return everything(true, false),
            (Tag::TwoRanges(Some(own)), "ASIDE1IS") if own == asid => return everything(true, false),
            (Tag::Stage2, "VMALLE1IS") => return everything(false, true),
            (Tag::Stage2, "VMALLS12E1IS") => return everything(true, true),
            _ => {}
        }
        let single = name.strip_prefix('R').unwrap_or(name);
        let known = tag.by_address().iter().find(|(known, _)| *known == single);
        let is_its = |has_asid: bool| !has_asid || tag == Tag::TwoRanges(Some(asid));
        assert!(known.is_some_and(|(_, has_asid)| is_its(*has_asid)), "{name} {operand:#x} is not for {tag:?}");
        let ((first, bytes), level) = if single == name { shape.single(operand) } else { shape.range(operand) };
        let has_tables = level.is_none() && !single.contains("LE");
        Self { first, last: first + (bytes - 1), has_tables, level, is_own: true, is_combined: false }
    }
}

/// Start and bytes, and the level that is hinted at.
type Part = ((u64, u64), Option<i8>);

impl Shape {
    /// TTL 47:44, address 43:0 in units of 4 KiB.
    const fn single(&self, operand: u64) -> Part {
        let granule = match self.size {
            PageSize::Size4K => 0b01,
            PageSize::Size16K => 0b10,
            PageSize::Size64K => 0b11,
        };
        let (of, level) = (operand >> 46 & 0b11, operand >> 44 & 0b11);
        // A hint of another granule need not reach anything.
        let level = if of == 0 { None } else { Some(if of == granule { level as i8 } else { i8::MIN }) };
        let field = (operand & ((1 << 44) - 1)) << 12;
        ((field.wrapping_sub(self.base) & ((1 << 56) - 1), 1), level)
    }

    /// TG 47:46, SCALE 45:44, NUM 43:39, TTL 38:37, base 36:0 in pages, or in 64 KiB with LPA2.
    fn range(&self, operand: u64) -> Part {
        let granule = match self.size {
            PageSize::Size4K => 0b01,
            PageSize::Size16K => 0b10,
            PageSize::Size64K => 0b11,
        };
        assert_eq!(operand >> 46 & 0b11, granule, "a range of another granule");
        let (scale, num) = (operand >> 44 & 0b11, operand >> 39 & 0b1_1111);
        let level = match operand >> 37 & 0b11 {
            0 => None,
            level => Some(level as i8),
        };
        let shift = if self.layout == Layout::Lpa2 { 16 } else { self.size.shift() };
        let first = ((operand & ((1 << 37) - 1)) << shift).wrapping_sub(self.base) & ((1 << (37 + shift)) - 1);
        // A base that is not of the hinted level's block need not reach anything (ITYBWT).
        let level = level.map(|level| if first.is_multiple_of(self.span(level)) { level } else { i8::MIN });
        ((first, ((num + 1) << (5 * scale + 1)) << self.size.shift()), level)
    }
}
