//! How large the folios of programs may be: `vellum.folio=` at first, then what is written below `/sys/kernel/mm/transparent_hugepage`,
//! in Linux's words.
//!
//! ```text
//!   enabled                   always madvise never             everywhere
//!   hugepages-64kB/enabled    always inherit madvise never     of one size; `inherit` does as everywhere
//!   use_zero_page             1 0                              whether reads find a block of zeros where a block may be
//! ```

use core::fmt::Write;
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use kerncore::command_line::Folios;
use vmsa::Level;

use crate::facts::page_size;

/// When memory has folios of a size.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Never,
    /// Where a program advises it (MADV_HUGEPAGE).
    Advised,
    Always,
    /// As is said of all sizes.
    Inherit,
}

const WORDS: [(When, &str); 4] =
    [(When::Always, "always"), (When::Inherit, "inherit"), (When::Advised, "madvise"), (When::Never, "never")];

/// The largest order of all page sizes: a block's of 512 MiB.
const LARGEST: usize = 13;

/// A setting: a place in [`WORDS`].
struct Setting(AtomicU8);

impl Setting {
    const fn never() -> Self {
        Self(AtomicU8::new(3))
    }

    fn get(&self) -> When {
        WORDS[usize::from(self.0.load(Ordering::Relaxed))].0
    }

    fn set(&self, when: When) {
        let place = WORDS.iter().position(|(word, _)| *word == when).unwrap_or(0);
        self.0.store(place as u8, Ordering::Relaxed);
    }
}

static EVERYWHERE: Setting = Setting::never();
static EACH: [Setting; LARGEST + 1] = [const { Setting::never() }; LARGEST + 1];
/// The orders of memory that nothing was advised of, and of memory that was advised to have large folios.
static ORDERS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

static USES_ZEROS: AtomicBool = AtomicBool::new(true);

/// Whether reads find a block of zeros where a block may be.
pub(crate) fn uses_zeros() -> bool {
    USES_ZEROS.load(Ordering::Relaxed)
}

/// Whether they do from now on.
pub(crate) fn use_zeros(uses: bool) {
    USES_ZEROS.store(uses, Ordering::Relaxed);
}

/// The orders that there are settings of, as on Linux.
pub(crate) fn sizes() -> RangeInclusive<u32> {
    2..=block()
}

/// The order of a block.
pub(crate) fn block() -> u32 {
    page_size().shift() - 3
}

/// What the command line says, before there are programs. What it does not say is as on Linux, but that there are contiguous groups too.
pub(crate) fn start(asked: Option<Folios>) {
    let group = page_size().contiguous_shift(Level::L3).unwrap_or(0) as usize;
    let (everywhere, groups) = match asked {
        Some(Folios::Never) => (When::Never, When::Never),
        Some(Folios::Advised) => (When::Advised, When::Never),
        Some(Folios::Group) => (When::Advised, When::Always),
        Some(Folios::Linux) => (When::Always, When::Never),
        Some(Folios::Block) | None => (When::Always, When::Inherit),
    };
    EVERYWHERE.set(everywhere);
    EACH[group].set(groups);
    EACH[block() as usize].set(When::Inherit);
    note();
}

/// The settings have changed.
fn note() {
    for (orders, is_advised) in ORDERS.iter().zip([false, true]) {
        let has = |order: &u32| {
            let when = match EACH[*order as usize].get() {
                When::Inherit => EVERYWHERE.get(),
                when => when,
            };
            when == When::Always || when == When::Advised && is_advised
        };
        orders.store(sizes().filter(has).fold(0, |all, order| all | 1 << order), Ordering::Relaxed);
    }
}

/// The orders of folios, a bit each.
pub(crate) fn orders(is_advised: bool) -> u32 {
    ORDERS[usize::from(is_advised)].load(Ordering::Relaxed)
}

/// The words that a setting may be, of all sizes or of one.
fn words(order: Option<u32>) -> impl Iterator<Item = &'static (When, &'static str)> {
    WORDS.iter().filter(move |(word, _)| order.is_some() || *word != When::Inherit)
}

fn setting(order: Option<u32>) -> &'static Setting {
    order.map_or(&EVERYWHERE, |order| &EACH[order as usize])
}

/// Writes what the file of a setting says.
pub(crate) fn write(order: Option<u32>, text: &mut impl Write) {
    let now = setting(order).get();
    for (index, (when, word)) in words(order).enumerate() {
        let space = if index > 0 { " " } else { "" };
        // What there is no memory for, the text notes.
        let _ = if *when == now { write!(text, "{space}[{word}]") } else { write!(text, "{space}{word}") };
    }
    let _ = text.write_str("\n");
}

/// Whether a setting is this word from now on; another word is none.
pub(crate) fn set(order: Option<u32>, word: &str) -> bool {
    let found = words(order).find(|(_, known)| *known == word);
    if let Some((when, _)) = found {
        setting(order).set(*when);
        note();
    }
    found.is_some()
}
