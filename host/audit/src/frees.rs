//! Functions of the guest that free memory: where they begin, and in which registers they are told what.

/// A function that frees `1 << order` pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Free {
    /// Address of its first instruction.
    pub place: u64,
    /// The register with the address of the first page.
    pub address: u8,
    /// Where that register has a description of the page instead.
    pub described: Option<Described>,
    /// The register with the order; without one the order is 0.
    pub order: Option<u8>,
}

/// Descriptions of pages, one behind the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Described {
    /// Address of the first description.
    pub base: u64,
    /// Bytes of each.
    pub bytes: u64,
    /// Physical address of the page that the first one describes.
    pub first: u64,
}

/// An order above this is none.
const MOST_ORDER: u64 = 18;

impl Free {
    /// `PLACE:xN:xN`, or `:-` for no order, and perhaps `:BASE:BYTES:FIRST`.
    pub fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(':').collect();
        let (place, address, order, described) = match words[..] {
            [place, address, order] => (place, address, order, None),
            [place, address, order, base, bytes, first] => {
                let described = Described { base: number(base)?, bytes: number(bytes)?, first: number(first)? };
                (place, address, order, Some((described.bytes > 0).then_some(described)?))
            }
            _ => return None,
        };
        let order = if order == "-" { None } else { Some(register(order)?) };
        Some(Self { place: number(place)?, address: register(address)?, described, order })
    }

    /// First address and bytes of what is freed, with these registers and pages of so many bytes.
    pub fn range(&self, page_bytes: u64, register: impl Fn(u8) -> u64) -> Option<(u64, u64)> {
        let order = self.order.map_or(0, &register);
        let address = register(self.address);
        let address = match self.described {
            Some(it) => it.first.checked_add((address.checked_sub(it.base)? / it.bytes).checked_mul(page_bytes)?)?,
            None => address,
        };
        let is_sensible = order <= MOST_ORDER && address % page_bytes == 0 && address >> 48 == 0;
        is_sensible.then(|| (address, page_bytes << order))
    }
}

fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn register(text: &str) -> Option<u8> {
    text.strip_prefix('x')?.parse().ok().filter(|number| *number < 31)
}
