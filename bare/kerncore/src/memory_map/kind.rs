//! Who may have a piece of memory.

use core::fmt;

/// Ranges that a map holds. When more are needed, the smallest free one is forgotten: memory is lost, nothing else.
pub const MAX_RANGES: usize = 128;

/// Who has a piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nobody: it is to be handed out.
    Free,
    /// The kernel's own code and data.
    Image,
    /// The device tree blob.
    DeviceTree,
    /// The initial RAM disk.
    Initrd,
    /// Somebody else, as the device tree says.
    Reserved {
        /// It must not be mapped at all.
        no_map: bool,
    },
    /// The early allocator gave it out for this purpose.
    Early(Purpose),
    /// Nobody: memory that has not come yet, or has gone.
    Withheld,
    /// RAM that the kernel cannot reach.
    Lost,
}

/// What memory is given out for before there is a page allocator. No text: an address of one does not survive the way from
/// the identity map to the high half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Page tables.
    Tables,
    /// A CPU's stacks.
    Stacks,
    /// Where CPUs say that they are parked.
    Parking,
    /// The notes of the page allocator.
    PageAllocator,
    /// A monitor's guest: its Image.
    Guest,
    /// A monitor's tables of stage 2.
    Stage2Tables,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tables => "tables",
            Self::Stacks => "stacks",
            Self::Parking => "parking",
            Self::PageAllocator => "page allocator",
            Self::Guest => "the guest's Image",
            Self::Stage2Tables => "the tables of stage 2",
        })
    }
}

impl Kind {
    /// Whether the linear map covers it.
    pub fn is_mapped(self) -> bool {
        !matches!(self, Self::Withheld | Self::Lost | Self::Reserved { no_map: true })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("free"),
            Self::Image => f.write_str("image"),
            Self::DeviceTree => f.write_str("device tree"),
            Self::Initrd => f.write_str("initrd"),
            Self::Reserved { no_map: false } => f.write_str("reserved"),
            Self::Reserved { no_map: true } => f.write_str("reserved, no-map"),
            Self::Early(purpose) => write!(f, "early: {purpose}"),
            Self::Withheld => f.write_str("withheld"),
            Self::Lost => f.write_str("out of reach"),
        }
    }
}
