//! What can be asked for in vain.

use core::fmt;

use vmsa::PageSize;

/// Something that the CPU cannot do; all are survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant's line in Display says what its fields are")]
pub enum Problem {
    PageSize { asked: PageSize, used: PageSize },
    VirtualBits { asked: u32, page_size: PageSize, largest: u32 },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PageSize { asked, used } => {
                write!(
                    f,
                    "arm64.pagesize={asked}: the CPU has no {asked} granule, expected one that it has; {used} is used"
                )
            }
            Self::VirtualBits { asked, page_size, largest } => write!(
                f,
                "vellum.vabits={asked}: the CPU has at most {largest} with {page_size} pages, expected 36 to {largest}; \
                 {largest} is used"
            ),
        }
    }
}
