//! The place of an address, by name.

use core::fmt;

use hardware::image;
use vmsa::{PhysAddr, VirtAddr};

use crate::cpus::stacks;
use crate::facts::known_facts;
use crate::memory::{handed, layout, secret};

/// An address, which prints as its place.
pub(crate) struct Place(pub(crate) VirtAddr);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = image::whole();
        if whole.contains(&self.0.bits()) {
            return write!(f, "image + {:#x}, {}", self.0.bits() - whole.start, part_of_image(self.0));
        }
        let Some(facts) = known_facts() else { return f.write_str("no place with a name") };
        if let Some(place) = stacks::find(self.0, facts.choice.page_size) {
            return place.fmt(f);
        }
        if facts.linear.contains(self.0) {
            let physical = self.0.bits().wrapping_sub(facts.linear.offset());
            let why = match PhysAddr::new(physical) {
                page if secret::holds(page) => ", hidden: secret memory",
                page if handed::is_lost(page) => ", hidden: the host may have it",
                _ => "",
            };
            return write!(f, "linear map of physical address {physical:#x}{why}");
        }
        f.write_str(layout::name(self.0).unwrap_or("no place with a name"))
    }
}

fn part_of_image(address: VirtAddr) -> &'static str {
    let parts = [
        (image::text(), "text"),
        (image::rodata(), "read-only data"),
        (image::data(), "data"),
        (image::boot_guard(), "the guard below the boot stacks"),
    ];
    parts.into_iter().find(|(range, _)| range.contains(&address.bits())).map_or("data", |(_, name)| name)
}
