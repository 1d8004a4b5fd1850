//! Each page of a window holds a word of its own, and a model knows which: after each call all are compared. `modelled SEED STEPS`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{env, process::ExitCode, thread};

use libc::{MADV_DONTNEED, MADV_HUGEPAGE, MADV_NOHUGEPAGE, PROT_NONE, PROT_READ};
use programs::hostile::random::Random;
use programs::machine::long;
use programs::memory::READ_WRITE;
use programs::model::{Model, block, free_kib};

/// Without arguments.
const USUAL: [u64; 2] = [1, 400];
/// Bytes of what is moved at most, in parts of free memory.
const PART: u64 = 10;
/// Advice that says nothing of content.
const ADVICE: [i32; 3] = [MADV_DONTNEED, MADV_HUGEPAGE, MADV_NOHUGEPAGE];

type Checked = Result<(), String>;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().collect();
    let number = |at: usize| words.get(at).map_or(Some(USUAL[at - 1]), |word| word.parse().ok());
    let (Some(seed), Some(steps)) = (number(1), number(2)) else {
        eprintln!("modelled: expected SEED and STEPS, whole numbers");
        return ExitCode::from(2);
    };
    let all = moves().and_then(|()| cuts()).and_then(|()| beside()).and_then(|()| random(seed, steps));
    match all {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Numbers of pages beside each bound: groups of all page sizes, a block, and ten of them, as far as memory goes.
fn bounds() -> Vec<usize> {
    let most = (free_kib() * 1024 / PART / programs::page()) as usize;
    let beside = [16, 32, 128, block(), 2 * block(), 10 * block()];
    let mut all: Vec<usize> = beside.into_iter().flat_map(|one| [one - 1, one, one + 1]).chain([1, 2]).collect();
    all.retain(|one| *one <= most);
    all.sort_unstable();
    all.dedup();
    all
}

/// Pages that every machine has room for: the same number on each.
fn few() -> usize {
    (64 << 20) / programs::page() as usize
}

/// The least number of pages of whole blocks that hold so many, and two more.
fn room(pages: usize) -> usize {
    (pages + 2).next_multiple_of(block())
}

/// Every number of pages, from one page behind a block's bound or from the bound, to another.
fn moves() -> Checked {
    for pages in bounds() {
        let half = room(pages);
        let mut model = Model::new(2 * half);
        for (from, to, is_file) in
            [(0, 0, false), (0, 1, false), (1, 0, false), (1, 1, false), (0, 0, true), (1, 0, true), (0, 1, true)]
        {
            let (source, target) = (from..from + pages, half + to);
            let fail = |why: String| format!("{pages} pages, {from} to {to}, of a file: {is_file}: {why}");
            match is_file {
                true => model.map_file(&source, from),
                false => model.map_own(&source),
            }
            model.write(&source);
            model.remap(&source, target, pages);
            model.check().map_err(fail)?;
            for index in [source.start, source.end - 1, target, target + pages - 1] {
                model.check_presence(index).map_err(fail)?;
            }
            // What is new is zeros.
            model.map_own(&source);
            model.check().map_err(fail)?;
            if !is_file {
                model.remap(&(target..target + pages), from, pages);
                model.remap_and_keep(&source, target);
                model.check().map_err(fail)?;
            }
            let whole = 0..model.pages();
            model.unmap(&whole);
        }
    }
    println!("moves: every page has its word");
    Ok(())
}

/// What begins or ends beside a bound is unmapped, protected, forgotten or moved, amid what stays.
fn cuts() -> Checked {
    let most = (free_kib() * 1024 / PART / programs::page()) as usize;
    let pages = (3 * block()).min(most / 2).max(192);
    let mut model = Model::new(2 * room(pages));
    let whole = 0..pages;
    let bounds: Vec<usize> = bounds().into_iter().filter(|bound| *bound + 1 < pages).collect();
    for (bound, what) in bounds.iter().flat_map(|bound| (0..6).map(move |what| (*bound, what))) {
        model.map_own(&whole);
        model.write(&whole);
        let end = (2 * bound).min(pages);
        let part = bound..end;
        match what {
            0 => model.unmap(&part),
            1 => model.protect(&part, PROT_READ),
            2 => model.protect(&(0..bound), PROT_NONE),
            3 => model.advise(&part, MADV_DONTNEED),
            4 => model.remap(&part, room(pages), part.len()),
            _ => model.remap(&(0..bound), room(pages) + 1, bound),
        }
        model.check().map_err(|why| format!("cut {what} at page {bound}: {why}"))?;
        let all = 0..model.pages();
        model.unmap(&all);
    }
    println!("cuts: every page has its word");
    Ok(())
}

/// A thread reads a part of a block while the rest of it moves away and back.
fn beside() -> Checked {
    const ROUNDS: usize = 100;
    let pages = block().min(few());
    let mut model = Model::new(2 * room(pages));
    model.map_own(&(0..pages));
    model.write(&(0..pages));
    let kept = 0..pages / 2 + 1;
    let expected: Vec<(u64, u64)> = kept.clone().map(|index| (model.at(index), index as u64 + 1)).collect();
    let (is_over, wrong) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let differ = expected.iter().filter(|(at, word)| long(*at).load(Ordering::Relaxed) != *word).count();
                wrong.fetch_add(differ as u64, Ordering::Relaxed);
            }
        });
        for round in 0..ROUNDS {
            let (rest, away) = (kept.end..pages, room(pages) + round % 2);
            model.remap(&rest, away, rest.len());
            model.remap(&(away..away + rest.len()), rest.start, rest.len());
        }
        is_over.store(true, Ordering::Relaxed);
    });
    model.check()?;
    println!("beside a thread: words that were wrong: {}", wrong.into_inner());
    Ok(())
}

/// Calls at random.
fn random(seed: u64, steps: u64) -> Checked {
    let pages = (3 * block()).min(few());
    let mut model = Model::new(pages);
    let mut random = Random::new(seed, 0);
    for step in 0..steps {
        let what = one(&mut model, &mut random);
        let index = random.below(pages as u64) as usize;
        let checked = what.1.and_then(|()| model.check()).and_then(|()| model.check_presence(index));
        checked
            .map_err(|why| format!("seed {seed}, step {step}, {}: {why}; `modelled {seed} {}`", what.0, step + 1))?;
    }
    println!("seed {seed}: {steps} steps, {} calls: every page has its word", model.calls);
    Ok(())
}

/// One call; what it was.
fn one(model: &mut Model, random: &mut Random) -> (&'static str, Checked) {
    let all = model.pages();
    let start = random.below(all as u64) as usize;
    let most = [4, 40, 300, all][random.below(4) as usize].min(all - start);
    let pages = start..start + 1 + random.below(most as u64) as usize;
    let area = model.area(start).map(|area| start..area.end.min(pages.end));
    // Where what is moved does not touch what it comes from.
    let target = |count: usize, from: &std::ops::Range<usize>| {
        let free = [(0, from.start), (from.end, all)].into_iter().max_by_key(|(start, end)| end - start);
        free.filter(|(start, end)| end - start >= count).map(|(start, end)| start + (end - start - count) / 2)
    };
    match (random.below(12), area) {
        (0, _) => {
            model.map_own(&pages);
            ("mmap", Ok(()))
        }
        (1, _) => {
            model.map_file(&pages, random.below((all - pages.len() + 1) as u64) as usize);
            ("mmap of a file", Ok(()))
        }
        (2, _) => {
            model.unmap(&pages);
            ("munmap", Ok(()))
        }
        (3, Some(area)) => {
            model.protect(&area, [PROT_NONE, PROT_READ, READ_WRITE, READ_WRITE][random.below(4) as usize]);
            ("mprotect", Ok(()))
        }
        (4..=6, Some(area)) => {
            let more = if model.is_own(area.start) { random.below(20) as usize } else { 0 };
            if let Some(to) = target(area.len() + more, &area) {
                model.remap(&area, to, area.len() + more);
            }
            ("mremap", Ok(()))
        }
        (7, Some(area)) => {
            match (target(area.len(), &area), model.is_own(area.start)) {
                (Some(to), true) => model.remap_and_keep(&area, to),
                (Some(to), false) => model.duplicate(&area, to),
                (None, _) => {}
            }
            ("mremap that keeps", Ok(()))
        }
        (8, Some(area)) => {
            model.advise(&area, ADVICE[random.below(ADVICE.len() as u64) as usize]);
            ("madvise", Ok(()))
        }
        (9, Some(area)) if model.is_own(area.start) => {
            model.free(&area);
            ("madvise and a write", Ok(()))
        }
        (10, _) => {
            let seen = model.fork();
            ("fork", seen)
        }
        _ => {
            model.write(&pages);
            ("a write", Ok(()))
        }
    }
}
