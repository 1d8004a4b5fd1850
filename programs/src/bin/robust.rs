//! Mutexes whose owner ends (`set_robust_list`), and lists of them that lead anywhere.

use libc::*;
use programs::child::NOBODY;
use programs::machine::word;
use programs::memory::READ_WRITE;
use programs::{call, child, map, page, tell};
use std::sync::atomic::Ordering::SeqCst;

/// Where in the page the words of mutexes are, seen from the entries of the list.
const OFFSET: u64 = 32;
const OWNER_DIED: u32 = 0x4000_0000;
const WAITERS: u32 = 0x8000_0000;

fn main() {
    refusals();
    marks();
    bad_lists();
    asked();
}

/// Where the list of a thread is.
fn asked() {
    let page = Page::new();
    let (mut head, mut bytes) = (0u64, 0u64);
    let mut ask = |number: u64| {
        call(SYS_get_robust_list, &[number, &raw mut head as u64, &raw mut bytes as u64]).map(|_| head ^ page.0 | bytes)
    };
    page.set(page.0, 0, 0);
    tell("the own list", ask(0));
    tell("by number", ask(std::process::id().into()));
    tell("of nobody", ask(NOBODY));
    tell("to nowhere", call(SYS_get_robust_list, &[0, 8, &raw mut bytes as u64]));
}

fn set_double(at: u64, value: u64) {
    word(at).store(value as u32, SeqCst);
    word(at + 4).store((value >> 32) as u32, SeqCst);
}

/// A page of a child's and its parent's: the head of the list, and a place for each entry.
struct Page(u64);

impl Page {
    fn new() -> Self {
        Self(map(0, page(), READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0).expect("memory"))
    }

    fn entry(&self, number: u64) -> u64 {
        self.0 + 256 + 64 * number
    }

    fn word(&self, number: u64) -> u64 {
        self.entry(number) + OFFSET
    }

    /// Sets the head, and says where the list is.
    fn set(&self, first: u64, offset: u64, pending: u64) {
        for (at, value) in [first, offset, pending].into_iter().enumerate() {
            set_double(self.0 + 8 * at as u64, value);
        }
        call(SYS_set_robust_list, &[self.0, 24]).expect("a list");
    }

    /// What became of a mutex.
    fn tell(&self, what: &str, number: u64) {
        let value = word(self.word(number)).load(SeqCst);
        let (died, waiters) = (value & OWNER_DIED != 0, value & WAITERS != 0);
        println!("  {what}: owner died {died}, waiters {waiters}, owner {}", value & !(OWNER_DIED | WAITERS) != 0);
    }
}

fn own() -> u32 {
    call(SYS_gettid, &[]).expect("a number") as u32
}

fn refusals() {
    let page = Page::new();
    tell("another size", call(SYS_set_robust_list, &[page.0, 16]));
    tell("nowhere", call(SYS_set_robust_list, &[8, 24]));
    println!("a head that is nowhere: {}", child(|| call(SYS_set_robust_list, &[8, 24]).map_or(1, |_| 0)));
}

fn marks() {
    let page = Page::new();
    let end = child(|| {
        let values = [own(), own() | WAITERS, own() + 1, own(), own()];
        for (number, value) in values.into_iter().enumerate() {
            word(page.word(number as u64)).store(value, SeqCst);
        }
        for number in 0..3 {
            set_double(page.entry(number), page.entry(number + 1));
        }
        set_double(page.entry(3), page.0);
        page.set(page.entry(0), OFFSET, page.entry(4));
        0
    });
    println!("a list: {end}");
    for (number, what) in ["held", "waited for", "another's", "the last", "pending"].into_iter().enumerate() {
        page.tell(what, number as u64);
    }
    let page = Page::new();
    let end = child(|| {
        word(page.word(0)).store(own(), SeqCst);
        set_double(page.entry(0), page.entry(0));
        page.set(page.entry(0), OFFSET, 0);
        0
    });
    println!("a circle: {end}");
    page.tell("held", 0);
}

/// Lists whose words are where no mutex can be.
fn bad_lists() {
    const KERNELS: u64 = 0xffff_8000_0000_0000;
    let places =
        [("the kernel's half", KERNELS), ("the end", 0x80 << 48), ("tagged", 0x5a << 56), ("nowhere", 16), ("odd", 2)];
    for (what, place) in places {
        let page = Page::new();
        let at = if place == 2 { page.word(0) + place } else { place };
        let bad = at.wrapping_sub(page.entry(0));
        for is_pending in [false, true] {
            let end = child(|| {
                match is_pending {
                    false => {
                        set_double(page.entry(0), page.0);
                        page.set(page.entry(0), bad, 0);
                    }
                    true => page.set(page.0, bad, page.entry(0)),
                }
                0
            });
            println!("{what}, pending {is_pending}: {end}");
        }
    }
    let page = Page::new();
    let end = child(|| {
        word(page.word(1)).store(own(), SeqCst);
        page.set(KERNELS, OFFSET, page.entry(1));
        0
    });
    println!("an entry in the kernel's half: {end}");
    page.tell("pending", 1);
}
