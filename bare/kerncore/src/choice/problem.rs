//! What can be asked for in vain.

use thiserror::Error;
use vmsa::PageSize;

/// Something that the CPU cannot do; all are survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each variant's line says what its fields are")]
pub enum Problem {
    #[error("arm64.pagesize={asked}: the CPU has no {asked} granule, expected one that it has; {used} is used")]
    PageSize { asked: PageSize, used: PageSize },
    #[error(
        "vellum.vabits={asked}: the CPU has at most {largest} with {page_size} pages, expected 36 to {largest}; \
         {largest} is used"
    )]
    VirtualBits { asked: u32, page_size: PageSize, largest: u32 },
}
