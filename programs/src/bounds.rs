//! Numbers at the bounds of all numbers, and lines that hold the answers for one after the other.

use crate::errno::Answer;
use crate::machine::{page, poke};

/// A bound, and its name.
pub type Bound = (String, u64);

/// Pages of the memory that calls are about, with as many free ones on both sides.
pub const PAGES: u64 = 16;

/// Numbers without a place.
pub fn numbers() -> Vec<Bound> {
    let (page, mut all) = (page(), Vec::new());
    let mut add = |name: &str, number: u64| all.push((name.to_string(), number));
    for (name, number) in [("0", 0), ("1", 1), ("P-1", page - 1), ("P", page), ("P+1", page + 1)] {
        add(name, number);
    }
    for shift in [31_u32, 32, 47, 48, 49, 52, 55, 56, 62, 63] {
        let bound = 1_u64 << shift;
        add(&format!("2^{shift}-P"), bound - page);
        add(&format!("2^{shift}-1"), bound - 1);
        add(&format!("2^{shift}"), bound);
        add(&format!("2^{shift}+P"), bound + page);
    }
    for (name, less) in [("-16P", 16 * page), ("-2P", 2 * page), ("-P-1", page + 1), ("-P", page), ("-8", 8), ("-1", 1)]
    {
        add(name, 0_u64.wrapping_sub(less));
    }
    all
}

/// The same, and those around memory.
pub fn places(base: u64) -> Vec<Bound> {
    let mut all = numbers();
    for (name, at) in [("base-P", -1), ("base", 0), ("base+P", 1), ("end-P", 15), ("end", 16), ("end+P", 17)] {
        all.push((name.into(), base.wrapping_add_signed(at * page() as i64)));
    }
    all
}

/// What `each` answers for every bound.
pub fn sweep(what: &str, bounds: &[Bound], each: impl Fn(u64) -> Option<Answer>) {
    let (mut line, mut last) = (String::new(), String::new());
    for (name, bound) in bounds {
        let Some(answer) = each(*bound) else { continue };
        let said = answer.map_or_else(|error| error.to_string(), |value| value.to_string());
        if said != last {
            line += &format!(" {name} {said},");
            last = said;
        }
    }
    println!("{what}:{line}");
}

/// An answer of which it is told alone that it is no error.
pub fn done(answer: Answer) -> Option<Answer> {
    Some(answer.map(|_| 0))
}

/// Writes a word.
pub fn write_word(at: u64, value: u64) {
    value.to_le_bytes().iter().zip(at..).for_each(|(byte, at)| poke(at, *byte));
}
