//! What early boot or another page size alone needed is free memory, but for a twentieth, and the image leads there no more.

use hardware::image;
use hardware::translation::read_translation;
use kerncore::memory_map::Kind;
use vmsa::VirtAddr;

use super::detail::{Detail, tell};
use crate::facts::page_size;
use crate::memory::{ranges, unneeded};

/// Of a hundred bytes, so many are to be freed.
const LEAST_PERCENT: u64 = 95;

pub(super) fn freed(detail: &mut Detail) -> bool {
    let map = ranges::map();
    if !ranges::has_room() {
        tell!(detail, "the memory map is full, so that the image keeps it");
        return true;
    }
    let pages = image::early().step_by(page_size().size_bytes() as usize);
    if let Some(page) = pages.map(VirtAddr::new).find(|page| read_translation(*page).is_ok()) {
        tell!(detail, "{page} is mapped");
        return false;
    }
    let of_boot = unneeded::of_boot(&map);
    let kept = of_boot.kept + unneeded::of_page_sizes().map(|(_, bytes)| bytes).sum::<u64>();
    tell!(detail, "{} bytes of {}", of_boot.freed, of_boot.freed + kept);
    map.is_all(unneeded::early(), |kind| kind != Kind::Image)
        && of_boot.freed * 100 >= (of_boot.freed + kept) * LEAST_PERCENT
}
