//! Random changes of a CPU's own pages, held against a model, while the neighbouring pages change on other CPUs.

use core::sync::atomic::Ordering;

use guests::rsi::{self, EMPTY, IPA_STATE_GET, RAM, SUCCESS};
use seed::Seed;

use crate::access::{Outcome, PAGES, range, read, write};
use crate::facts::{ROUNDS, SEED, unprotected};
use crate::found::{Found, SCRUBBED, expect, expect_outcome};
use crate::refusals;

/// What a page should be: its state, and its first word.
type Model = [(u64, u64); PAGES];

pub(crate) fn at_random(cpu: usize) -> Result<(), Found> {
    let mut random = Seed::of_cpu(SEED.load(Ordering::Relaxed), cpu);
    let (base, top) = range(cpu, 0, PAGES);
    refusals::set(base, top, RAM)?;
    let mut model = [(RAM, 0); PAGES];
    for (index, page) in model.iter_mut().enumerate() {
        page.1 = random.bits();
        expect_outcome(Outcome::Done(0), write(cpu, range(cpu, index, PAGES).0, page.1))?;
    }
    for _ in 0..ROUNDS.load(Ordering::Relaxed) {
        let first = random.bits() as usize % PAGES;
        let end = first + 1 + random.bits() as usize % (PAGES - first);
        let (state, (base, top)) = (random.bits() % 2, range(cpu, first, end));
        refusals::set(base, top, state)?;
        for page in &mut model[first..end] {
            *page = if page.0 == state { *page } else { (state, SCRUBBED) };
        }
        let index = random.bits() as usize % PAGES;
        compare(cpu, index, &mut model, random.bits())?;
    }
    refusals::set(base, top, RAM)
}

/// Looks at one page through both of its addresses, at the state of the run that begins there, and writes the page.
fn compare(cpu: usize, index: usize, model: &mut Model, next: u64) -> Result<(), Found> {
    let (protected, top) = range(cpu, index, PAGES);
    let (state, word) = model[index];
    let run = model[index..].iter().take_while(|page| page.0 == state).count();
    let [result, end, told, _] = rsi::call(IPA_STATE_GET, [protected, top, 0, 0]);
    expect(SUCCESS, result)?;
    expect(state, told)?;
    expect(range(cpu, index + run, PAGES).0, end)?;
    let alias = protected + unprotected();
    let (there, gone) = if state == EMPTY { (alias, protected) } else { (protected, alias) };
    expect_outcome(Outcome::Done(word), read(cpu, there))?;
    expect_outcome(Outcome::external_data_abort(gone), write(cpu, gone, next))?;
    expect_outcome(Outcome::Done(0), write(cpu, there, next))?;
    model[index].1 = next;
    Ok(())
}
