//! Rounds: processes are begun, watched, killed, waited for; then everything is looked at.

use std::sync::atomic::Ordering;
use std::{fmt, fs};

use libc::*;

use super::attacker::Attacker;
use super::attacks::{SCENES, attack};
use super::attempt;
use super::model::Model;
use super::models::{FAULT, play};
use super::random::Random;
use super::watch::{self, BOUND, Watch, be_silent, now, set_badness};
use super::{ALIVE, Choice, DOING, watch::memory};
use crate::machine::{exit, long};
use crate::memory::{ANONYMOUS, READ_WRITE};
use crate::{call, map, page};

/// Nanoseconds without an operation until a process is killed: it waits for what does not come, or is in a long call.
const PATIENCE: u64 = 200_000_000;
/// Processes beside each other, and operations of each in a round.
const PROCESSES: u64 = 4;
const OPERATIONS: u64 = 200;
/// The working folders.
const FOLDER: &str = "/tmp/hostile";
/// Every so many rounds memory is short.
const SHORT: u64 = 6;
/// How often an attacker that ended early begins again in a round.
const AGAIN: u64 = 12;

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// Behind so many operations of all processes together.
    Operations(u64),
    /// At the end of the first round that ends so many minutes behind the beginning.
    Minutes(u64),
}

impl Until {
    /// `800`, or `60m`.
    pub fn new(word: &str) -> Option<Self> {
        match word.strip_suffix('m') {
            Some(minutes) => minutes.parse().ok().map(Self::Minutes),
            None => word.parse().ok().map(Self::Operations),
        }
    }

    fn is_reached(self, rounds: u64, began: u64) -> bool {
        match self {
            Self::Operations(operations) => rounds >= operations.div_ceil(PROCESSES * OPERATIONS),
            Self::Minutes(minutes) => now().saturating_sub(began) / 60_000_000_000 >= minutes,
        }
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operations(operations) => write!(f, "{operations} operations"),
            Self::Minutes(minutes) => write!(f, "{minutes} minutes"),
        }
    }
}

/// What is asked for.
pub struct Run {
    /// How long.
    pub until: Until,
    /// The seed of the first round; each round has the next.
    pub seed: u64,
    /// Which scenes and calls.
    pub choice: &'static Choice,
    /// Whether figures are printed, which differ from run to run.
    pub figures: bool,
}

/// A process of a round.
struct Member {
    number: u64,
    which: u64,
    counter: u64,
    /// How many had its place before.
    before: u64,
    seen: (u64, u64),
    /// It is killed once it has counted so much.
    most: u64,
    killed: Option<u64>,
}

/// The verdict: an error is a fault of the kernel, and how to see it again.
pub fn run(run: &Run) -> Result<(), String> {
    // Whoever loses its parent is waited for here.
    attempt(SYS_prctl, &[PR_SET_CHILD_SUBREAPER as u64, 1]);
    set_badness("-1000");
    let board = map(0, 3 * page(), PROT_NONE, ANONYMOUS, -1, 0).ok().map(|room| room + page());
    let board = board.and_then(|at| map(at, page(), READ_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0).ok());
    let (Some(board), Some(mut watch)) = (board, Watch::new()) else { return Err("no memory to begin with".into()) };
    let before = memory().1 >> 10;
    let (mut longest, mut done, each) = (0, 0, PROCESSES * OPERATIONS);
    let (mut rounds, began) = (0, now());
    while !run.until.is_reached(rounds, began) {
        let seed = run.seed + rounds;
        if run.figures {
            println!("round {rounds}: seed {seed}");
        }
        let mut one = Round { run, seed, board, watch: &mut watch, members: Vec::new(), longest: 0 };
        one.play().map_err(|line| {
            let names = std::env::args().skip(3).collect::<Vec<_>>().join(" ");
            format!("fault: {line}\nagain: --init \"hostile {each} {seed} {names}\", other options as they were")
        })?;
        longest = longest.max(one.longest);
        done += (0..PROCESSES).map(|which| long(board + 8 * which).swap(0, Ordering::Relaxed)).sum::<u64>();
        rounds += 1;
    }
    if run.figures {
        println!(
            "{rounds} rounds, {done} operations counted; free at first {before} KiB, now {} KiB",
            memory().1 >> 10
        );
        println!("longest end {} ms, longest gap of a ticker {} ms", longest / 1_000_000, watch.longest_gap());
    }
    watch.end();
    Ok(())
}

struct Round<'r> {
    run: &'r Run,
    seed: u64,
    board: u64,
    watch: &'r mut Watch,
    members: Vec<Member>,
    longest: u64,
}

impl Round<'_> {
    fn play(&mut self) -> Result<(), String> {
        for which in 0..PROCESSES {
            let folder = format!("{FOLDER}/{which}");
            let _ = fs::create_dir_all(&folder);
            let _ = std::os::unix::fs::chown(&folder, Some(1000), Some(1000));
        }
        if self.seed.is_multiple_of(SHORT) {
            self.begin(PROCESSES, 0);
        }
        (0..PROCESSES).for_each(|which| self.begin(which, 0));
        while self.members.iter().any(|member| member.which != PROCESSES) {
            self.wait_for_news();
            self.reap()?;
            self.hurry()?;
        }
        self.end_all()?;
        let _ = std::env::set_current_dir("/");
        clean(FOLDER);
        self.watch.check()
    }

    fn is_honest(&self, which: u64) -> bool {
        let choice = self.run.choice;
        choice.has_models() && (which == 0 || which == 1 && self.seed.is_multiple_of(2) || !choice.has_attacks())
    }

    /// Begins the process of a place, the last of which takes memory.
    fn begin(&mut self, which: u64, before: u64) {
        let counter = self.board + 8 * which;
        let most = 1 + Random::new(self.seed, 99 + which).below(2 * OPERATIONS);
        match call(SYS_clone, &[SIGCHLD as u64, 0]) {
            Ok(0) if which == PROCESSES => exit(self.be_short()),
            Ok(0) => exit(self.be_member(which, before)),
            Ok(number) => {
                self.members.push(Member { number, which, counter, before, seen: (0, now()), most, killed: None });
            }
            Err(error) => println!("no process: {error}"),
        }
    }

    /// What a process of the round does.
    fn be_member(&mut self, which: u64, before: u64) -> i32 {
        set_badness("500");
        attempt(SYS_setpgid, &[0, 0]);
        if std::env::set_current_dir(format!("{FOLDER}/{which}")).is_err() {
            return 0;
        }
        let random = Random::new(self.seed, which + 16 * before);
        let counter = self.board + 8 * which;
        if self.is_honest(which) {
            return play(&mut Model::new(random, self.run.choice, counter), OPERATIONS);
        }
        be_silent();
        if self.seed % 2 == 1 {
            attempt(SYS_setgroups, &[0, 0]);
            attempt(SYS_setresgid, &[1000; 3]);
            attempt(SYS_setresuid, &[1000; 3]);
        }
        let areas = [self.watch.canary(); 2];
        attack(&mut Attacker::new(random, self.run.choice, counter, &areas, &[self.watch.sealed]), OPERATIONS);
        0
    }

    /// Takes all memory but some, in single pages, and waits for its end.
    fn be_short(&mut self) -> i32 {
        set_badness("-900");
        be_silent();
        let mut random = Random::new(self.seed, PROCESSES);
        let Ok(file) = call(SYS_memfd_create, &[c"filler".as_ptr() as u64, 0]) else { return 0 };
        let (mut at, canary) = (0, self.watch.canary());
        for bytes in [1 << 20, page()] {
            while let Ok(more) = call(SYS_pwrite64, &[file, canary.0, bytes, at]) {
                at += more;
            }
        }
        for _ in 0..random.one(&[0, 32, 512, 4096]) {
            at = at.saturating_sub(2 * page());
            attempt(SYS_fallocate, &[file, 3, at, page()]);
        }
        loop {
            attempt(SYS_ppoll, &[0, 0, 0, 0, 0]);
        }
    }

    /// SIGCHLD, or 2 ms.
    fn wait_for_news(&self) {
        let (set, time) = (1u64 << (SIGCHLD - 1), [0, 2_000_000u64]);
        attempt(SYS_rt_sigtimedwait, &[(&raw const set) as u64, 0, time.as_ptr() as u64, 8]);
    }

    /// Waits for all that have ended.
    fn reap(&mut self) -> Result<(), String> {
        let mut status = 0i32;
        // However they were begun.
        let options = (WNOHANG | __WALL) as u64;
        while let Ok(number @ 1..) = call(SYS_wait4, &[u64::MAX, (&raw mut status) as u64, options, 0]) {
            if self.watch.tickers.contains(&number) {
                return Err(format!("a ticker has ended: {}", crate::child::ended(status)));
            }
            let Some(place) = self.members.iter().position(|member| member.number == number) else { continue };
            let member = self.members.swap_remove(place);
            self.longest = self.longest.max(member.killed.map_or(0, |time| now() - time));
            let is_honest = self.is_honest(member.which);
            // SIGKILL is ours, or of whoever has no memory; SIGABRT is what a library does where it has none.
            let is_fine = status == 0 || [SIGKILL, SIGABRT].contains(&(status & 0x7f));
            if is_honest && status == FAULT << 8 {
                return Err("of the model above".into());
            }
            if is_honest && !is_fine {
                return Err(format!("an honest program was {}", crate::child::ended(status)));
            }
            let has_more = long(member.counter).load(Ordering::Relaxed) < member.most && member.before < AGAIN;
            if !is_honest && has_more && member.which != PROCESSES {
                self.begin(member.which, member.before + 1);
            }
        }
        Ok(())
    }

    /// Kills whoever does not get on, or has done enough; one that was killed is to go.
    fn hurry(&mut self) -> Result<(), String> {
        let is_honest: Vec<bool> = (0..=PROCESSES).map(|which| self.is_honest(which)).collect();
        for member in &mut self.members {
            let [count, alive] = [0, ALIVE].map(|at| long(member.counter + at).load(Ordering::Relaxed));
            let time = now();
            if alive != member.seen.0 {
                member.seen = (alive, time);
            }
            // Honest programs take their time.
            let patience = if is_honest[member.which as usize] { 25 * PATIENCE } else { PATIENCE };
            match member.killed {
                Some(killed) if time - killed > BOUND => {
                    let [scene, row] = [0, 64].map(|at| long(member.counter + DOING + at).load(Ordering::Relaxed));
                    let scene = SCENES.get(scene as usize).map_or("?", |scene| scene.0);
                    return Err(format!("process {} cannot be killed: {scene}, last call {row}", member.number));
                }
                None if member.which != PROCESSES && (count > member.most || time - member.seen.1 > patience) => {
                    attempt(SYS_kill, &[member.number, SIGKILL as u64]);
                    member.killed = Some(time);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Kills and waits for every process that is left but the tickers.
    fn end_all(&mut self) -> Result<(), String> {
        let begin = now();
        loop {
            let mut others = 0;
            for_each_process(|number, parent| {
                if parent == u64::from(std::process::id()) && !self.watch.tickers.contains(&number) {
                    others += 1;
                    attempt(SYS_kill, &[number, SIGKILL as u64]);
                }
            });
            self.reap()?;
            if others == 0 {
                self.longest = self.longest.max(now() - begin);
                return Ok(());
            }
            if now() - begin > BOUND {
                return Err(format!("{others} processes cannot be killed"));
            }
            self.wait_for_news();
        }
    }
}

/// Numbers of all processes and of their parents.
fn for_each_process(mut each: impl FnMut(u64, u64)) {
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let path = std::ffi::CString::new(format!("/proc/{number}/stat")).unwrap_or_default();
        let mut room = [0; 512];
        // The name before it may hold anything, parentheses too.
        let rest = watch::text_of(&path, &mut room).rsplit_once(')').map_or("", |parts| parts.1);
        let parent = rest.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        parent.into_iter().for_each(|parent| each(number, parent));
    }
}

/// Removes a folder, however deep: what is in a folder of it comes up first.
fn clean(folder: &str) {
    let mut moved = 0;
    loop {
        let Ok(entries) = fs::read_dir(folder) else { return };
        let mut is_empty = true;
        for entry in entries.flatten() {
            is_empty = false;
            let path = entry.path();
            if fs::remove_file(&path).is_ok() || fs::remove_dir(&path).is_ok() {
                continue;
            }
            for inner in fs::read_dir(&path).into_iter().flatten().flatten() {
                moved += 1;
                let _ = fs::rename(inner.path(), format!("{folder}/-{moved}"));
            }
        }
        if is_empty {
            let _ = fs::remove_dir(folder);
            return;
        }
    }
}
