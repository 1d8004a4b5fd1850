//! Runs as text that a script reads: numbers of seven bits a byte, the least first, in base 64.
//!
//! A run is its style and two flags, the pages of hole before it, its leaves, and, unless memory goes on at the same distance,
//! how far off that is. A kernel with a million leaves in a few thousand runs is some tens of kilobytes.

use serde_json::{Value, json};
use vmsa::{Permissions, Rights};

use super::changes::Change;
use crate::dump::size;
use crate::leaf;
use crate::runs::Run;
use crate::space::Space;

/// Leads to one output address throughout.
const REPEATS: u64 = 1;
/// Outputs are as far from inputs as in the run before.
const GOES_ON: u64 = 2;
/// Bits for flags.
const FLAGS: u32 = 2;

/// A page table as the script wants it. Styles are shared by all that are drawn.
pub(super) fn drawing(space: &Space, styles: &mut Vec<Value>) -> Value {
    let (root, shift) = (&space.root, space.root.shape.page_size.shift());
    let base = root.shape.base();
    let (mut bytes, mut at, mut distance) = (Vec::new(), 0, 0i64);
    for run in &space.runs {
        let style = style(space, run);
        let number = styles.iter().position(|known| *known == style).unwrap_or_else(|| {
            styles.push(style);
            styles.len() - 1
        });
        let start = run.input.wrapping_sub(base) >> shift;
        let of_run = ((run.output >> shift) as i64).wrapping_sub(start as i64);
        let flags = u64::from(run.repeats) * REPEATS + u64::from(of_run == distance) * GOES_ON;
        write(&mut bytes, (number as u64) << FLAGS | flags);
        write(&mut bytes, start.wrapping_sub(at));
        write(&mut bytes, run.count);
        if of_run != distance {
            let off = of_run.wrapping_sub(distance);
            write(&mut bytes, (off << 1 ^ off >> 63) as u64);
        }
        (at, distance) = (start + (run.bytes(root) >> shift), of_run);
    }
    json!({
        "name": format!("{} ({} pages, {} bits)", root.regime.register(), root.shape.page_size, root.shape.input_bits),
        "base": format!("{base:#x}"),
        "shift": shift,
        "bits": root.shape.input_bits,
        "runs": base64(&bytes),
    })
}

/// What differs, as the script wants it: numbers in the same way.
pub(super) fn difference(space: &Space, changes: &[Change]) -> String {
    let (base, shift) = (space.root.shape.base(), space.root.shape.page_size.shift());
    let (mut bytes, mut at) = (Vec::new(), 0);
    for change in changes {
        let start = change.start.wrapping_sub(base) >> shift;
        let pages = change.bytes >> shift;
        write(&mut bytes, change.kind as u64);
        write(&mut bytes, start - at);
        write(&mut bytes, pages);
        at = start + pages;
    }
    base64(&bytes)
}

/// How a run looks in each way to colour it.
fn style(space: &Space, run: &Run) -> Value {
    let root = &space.root;
    let bytes = 1u64 << root.shape.shift(run.level);
    let group = if run.descriptor.is_contiguous() { ", contiguous" } else { "" };
    let permissions = root.permissions(run.descriptor, run.inherited);
    let (privileged, unprivileged) = permissions
        .map_or(("?".to_owned(), "?".to_owned()), |of| (of.privileged.to_string(), of.unprivileged.to_string()));
    json!({
        "pages": bytes >> root.shape.page_size.shift(),
        "size": format!("{}{group}", size(bytes)),
        "permission": permissions.as_ref().map_or("not known", permission),
        "memory": leaf::memory_name(root, run.descriptor),
        "owner": space.owner(run),
        "words": format!("EL1 {privileged}, EL0 {unprivileged}"),
    })
}

fn permission(of: &Permissions) -> &'static str {
    let kind = |rights: Rights, names: [&'static str; 4]| {
        let (writes, executes) = (rights.contains(Rights::WRITE), rights.contains(Rights::EXECUTE));
        names[usize::from(writes) + 2 * usize::from(executes)]
    };
    match leaf::is_user(of) {
        true => kind(of.unprivileged, ["user, read", "user, write", "user, execute", "write and execute"]),
        false => kind(of.privileged, ["read", "write", "execute", "write and execute"]),
    }
}

fn write(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 1 << 7 {
        bytes.push(number as u8 | 1 << 7);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..4 {
            let is_there = digit <= three.len();
            let value = word >> (18 - 6 * digit) & 63;
            text.push(if is_there { DIGITS[value as usize].into() } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let of = |text: &str| base64(text.as_bytes());
        assert_eq!([of(""), of("f"), of("fo"), of("foo"), of("foob")], ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }

    #[test]
    fn numbers_take_seven_bits_a_byte() {
        let of = |number| {
            let mut bytes = Vec::new();
            write(&mut bytes, number);
            bytes
        };
        assert_eq!([of(0), of(127), of(128), of(1 << 14)], [vec![0], vec![127], vec![0x80, 1], vec![0x80, 0x80, 1]]);
    }
}
