//! What reading device trees and allocating pages costs: run under a counter of instructions, with what to do as arguments.
//!
//! `valgrind --tool=callgrind target/release/examples/cost tree virt|N [MIB]` reads QEMU's tree in our shape, or hostile
//! tree number N; `... cost buddy init|pages|blocks|2g|4t` runs the page allocator. Subtract a run of `nothing`.

#[path = "../tests/support/mod.rs"]
mod support;

use kerncore::buddy::{Buddy, Layout};
use support::{GIB, TIB, hostile, range, read, tree};
use vmsa::PageSize;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |index: usize| arguments.get(index).map_or("", String::as_str);
    let result = match argument(0) {
        "tree" => read_tree(argument(1), argument(2).parse().unwrap_or(1)),
        "buddy" => run_buddy(argument(1)),
        _ => "usage: cost tree virt|NUMBER [MIB] | buddy layout|init|single|blocks|init-4t".into(),
    };
    println!("{result}");
}

/// A blob is made, and read as often as the last argument of the run says: two runs that differ tell what reading costs.
fn read_tree(which: &str, mib: usize) -> String {
    let times: usize = std::env::args().nth(4).and_then(|times| times.parse().ok()).unwrap_or(1);
    let (label, blob) = match which.parse::<usize>() {
        Ok(number) => hostile::blobs(mib << 20)[number].clone(),
        Err(_) => ("virt", tree::virt_with(3, 4).to_dtb()),
    };
    let found: usize = (0..times).map(|_| read(&blob).1.iter().count()).sum();
    format!("{label}: {} bytes read {times} times, {found} findings", blob.len())
}

fn run_buddy(what: &str) -> String {
    let size = if what.ends_with("4t") { 4 * TIB } else { 2 * GIB };
    let layout = Layout::new(PageSize::Size4K, [range(GIB, size)].into_iter());
    let mut notes = vec![0; layout.words()];
    if what == "layout" {
        return format!("{} words", notes.len());
    }
    let mut buddy = Buddy::new(&layout, &mut notes).unwrap();
    buddy.add(range(GIB, size)).unwrap();
    let mut checksum = 0;
    match what {
        "single" => (0..100_000).for_each(|_| {
            let page = buddy.allocate(0).unwrap();
            checksum ^= page.bits();
            buddy.free(page, 0).unwrap();
        }),
        "blocks" => {
            let pages: Vec<_> = (0..100_000).map(|_| buddy.allocate(0).unwrap()).collect();
            for page in pages.iter().rev() {
                checksum ^= page.bits();
                buddy.free(*page, 0).unwrap();
            }
        }
        _ => {}
    }
    format!("{buddy}, checksum {checksum:#x}")
}
