//! What the callbacks share: the CPUs, the sites, the auditor, and the guest as QEMU shows it to one of them.

use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use machine::registers::Features;
use serde_json::Value;

use crate::auditor::{Auditor, Guest};
use crate::cpu::Cpu;
use crate::frames::Frames;
use crate::halt;
use crate::interface::{self, Handle};
use crate::options::Options;

/// An instruction that is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Site {
    pub(crate) place: u64,
    pub(crate) word: u32,
}

/// Everything that calls share.
pub(crate) struct State {
    pub(crate) options: Options,
    pub(crate) cpus: Vec<Option<Cpu>>,
    pub(crate) sites: Vec<Site>,
    pub(crate) numbers: HashMap<Site, usize>,
    /// Pages of instructions: where they were when they were translated, and where they were executed last.
    pub(crate) pages: HashMap<u64, u64>,
    pub(crate) auditor: Option<Auditor<'static>>,
}

pub(crate) struct Plugin {
    pub(crate) frames: Frames,
    /// Nothing is judged any more.
    pub(crate) is_over: AtomicBool,
    pub(crate) report: Mutex<Report>,
    pub(crate) state: Mutex<State>,
}

/// CPUs that may have been reset since their registers were read, one bit each. Who goes on holds a lock of QEMU's, for which
/// another CPU may wait that holds the one of [`State`].
pub(crate) static DOUBTFUL: AtomicU64 = AtomicU64::new(u64::MAX);
/// Instructions executed by all CPUs, each of which has a thread of its own.
pub(crate) static INSTRUCTIONS: AtomicU64 = AtomicU64::new(0);
/// The register with the address of the next instruction.
pub(crate) static PLACE: OnceLock<Handle> = OnceLock::new();

/// Where things are told.
pub(crate) struct Report {
    /// Standard error, if nobody listens.
    pub(crate) to: Option<UnixStream>,
    /// Findings that wait for their CPU's next block of instructions: at a store QEMU shows no registers, and without them nobody knows
    /// the calls that led there.
    pub(crate) owed: Vec<Value>,
}

/// The bit of the CPU for which they wait.
static OWING: AtomicU64 = AtomicU64::new(0);

/// Whether a finding waits for `cpu` to begin a block.
#[inline]
pub(crate) fn is_owing(cpu: u32) -> bool {
    OWING.load(Ordering::Relaxed) >> (cpu % 64) & 1 == 1
}

impl Report {
    /// Tells what waits, with these calls.
    pub(crate) fn pay(&mut self, chain: &[u64]) {
        OWING.store(0, Ordering::Relaxed);
        for mut finding in std::mem::take(&mut self.owed) {
            finding["finding"]["chain"] = chain.into();
            self.send(&finding);
        }
    }

    fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        let told = match self.to.as_mut() {
            Some(report) => report.write_all(line.as_bytes()),
            None => std::io::stderr().write_all(line.as_bytes()),
        };
        if let (Some(report), true, true) = (self.to.as_mut(), told.is_ok(), message.get("finding").is_some()) {
            halt::answer(report);
        }
        // Nobody listens any more: the guest goes on all the same.
        if told.is_err() {
            self.to = None;
        }
    }
}

/// The guest, as QEMU shows it to a callback.
pub(crate) struct Shown<'p> {
    pub(crate) plugin: &'p Plugin,
    /// x29 and x30, where they may be read.
    pub(crate) frame: Option<(Handle, Handle)>,
    /// Some CPU's callback runs: QEMU ends itself where memory is read in no CPU's name.
    pub(crate) may_read: bool,
}

impl Guest for Shown<'_> {
    fn read(&self, address: u64, words: &mut [u64]) -> bool {
        self.may_read && self.plugin.frames.has_memory(address) && interface::read_physical(address, words)
    }

    fn instructions(&self) -> u64 {
        INSTRUCTIONS.load(Ordering::Relaxed)
    }

    fn chain(&self) -> Vec<u64> {
        const DEEPEST: usize = 12;
        let Some((frame, link)) = self.frame else { return Vec::new() };
        let (Some(mut frame), Some(link)) = (interface::register_value(frame), interface::register_value(link)) else {
            return Vec::new();
        };
        let mut chain = vec![link];
        while chain.len() < DEEPEST && frame != 0 && frame % 8 == 0 {
            let (Some(next), Some(link)) = (interface::read_virtual(frame), interface::read_virtual(frame + 8)) else {
                break;
            };
            chain.push(link);
            // Frames of one stack are further up each.
            if next <= frame {
                break;
            }
            frame = next;
        }
        chain
    }

    fn tell(&self, message: &Value) {
        let mut report = self.plugin.report.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = self.frame.is_none() && self.may_read;
        let owing = message["finding"]["cpu"].as_u64().filter(|_| waits).map_or(0, |cpu| 1 << (cpu % 64));
        // Faults are counted in the order in which they were told.
        if OWING.load(Ordering::Relaxed) != owing && message.get("progress").is_none() {
            report.pay(&[]);
        }
        if owing == 0 {
            report.send(message);
        } else {
            OWING.store(owing, Ordering::Relaxed);
            report.owed.push(message.clone());
        }
    }
}

impl State {
    /// Where the instruction is that is executed. QEMU translates what lies at one physical address once for all of its virtual ones.
    pub(crate) fn find_place(&mut self, translated: u64) -> u64 {
        let Some(block) = PLACE.get().copied().and_then(interface::register_value) else { return translated };
        // Its block begins less than a page before, and not after: that far QEMU knows where it is.
        let near = block & !0xfff | translated & 0xfff;
        let place = if near < block { near + 0x1000 } else { near };
        // The first page is nobody's code: who asks knows where in a page it is, and no more.
        if translated >= 0x1000 {
            self.pages.insert(translated & !0xfff, place & !0xfff);
        }
        place
    }

    /// The same where registers may not be read.
    pub(crate) fn place(&self, translated: u64) -> u64 {
        self.pages.get(&(translated & !0xfff)).map_or(translated, |page| page | translated & 0xfff)
    }

    /// The guest for a callback of `cpu` in which its registers may be read.
    pub(crate) fn shown(&self, plugin: &'static Plugin, cpu: usize) -> Shown<'static> {
        let known = self.cpus.get(cpu).and_then(Option::as_ref);
        Shown { plugin, frame: known.and_then(|known| known.general[29].zip(known.general[30])), may_read: true }
    }

    /// The same, and they are read, where they may have changed unseen.
    pub(crate) fn look(&mut self, plugin: &'static Plugin, cpu: usize) -> Option<Shown<'static>> {
        if self.auditor.is_none() {
            let known: Vec<Features> = self.cpus.iter().flatten().map(|it| it.features).collect();
            if known.len() < self.cpus.len() {
                return None;
            }
            let trace = self.options.trace.take().map(|file| Box::new(BufWriter::new(file)) as Box<dyn Write + Send>);
            let forgotten = std::mem::take(&mut self.options.forgotten);
            self.auditor = Some(Auditor::new(&known, &plugin.frames, forgotten, trace));
        }
        let guest = self.shown(plugin, cpu);
        let (Some(Some(known)), Some(auditor)) = (self.cpus.get_mut(cpu), &mut self.auditor) else { return None };
        let bit = 1 << (cpu % 64);
        if DOUBTFUL.fetch_and(!bit, Ordering::Relaxed) & bit != 0 {
            let value = |handle: &Handle| interface::register_value(*handle);
            let values: Vec<_> = known.system.iter().filter_map(|(it, handle)| Some((*it, value(handle)?))).collect();
            auditor.refresh(&guest, cpu as u8, known.level(), &values);
        }
        Some(guest)
    }
}
