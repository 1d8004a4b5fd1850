//! What random machines are told, run by run, beside what they were told when somebody last looked (`recorded/`). No other
//! test says which of a thousand conditions decides in the midst of a long story. A rule that means to say something else
//! changes lines of the record, and whoever changes the rule reads why:
//! `VELLUM_RECORD=1 cargo test -p machine --test all recorded` writes them anew. `effort` is how much was looked at: what a shortcut
//! leaves out changes nothing else.

use crate::common::{self, random};

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::Hasher;

use crate::common::random::Setting;
use common::*;
use machine::attributes::Permissions;
use machine::context::Tag;
use machine::event::{Event, Level};
use machine::machine::{Machine, Way};
use machine::registers::{HCR_E2H, HCR_FB, HCR_FWB, HCR_TGE, HCRX_FNXS, Register};
use machine::seed::{Digest, Seed};
use machine::tlbi::Opcode;

const RUNS: u64 = 48;
const STEPS: usize = 160;
/// A root that nobody walks until a register names it.
const OTHER_ROOT: u64 = 0x4000_5000;

/// A run: a machine and what is drawn for it.
struct Run {
    setting: Setting,
    seed: Seed,
    machine: Machine,
    counts: BTreeMap<String, u32>,
    digest: Digest,
}

impl Run {
    fn new(setting: Setting, number: u64) -> Self {
        let mut seed = Seed::new(number);
        let mut machine = random::machine(&mut seed, setting);
        match number % 6 {
            0 => machine.be_strict(),
            1 => machine.lint(),
            2 => machine.settle_stores(),
            3 => machine.stop_walks_at_el2(),
            _ => {}
        }
        Self { setting, seed, machine, counts: BTreeMap::new(), digest: Digest::new() }
    }

    fn cpu(&mut self) -> u8 {
        self.seed.below(self.machine.cpus().len() as u64) as u8
    }

    /// One event, and what it is told: how often each rule was broken, and a digest of stories, events and ways.
    fn tell(&mut self, cpu: u8, event: &Event) {
        match *event {
            Event::Access { address, kind } => {
                let ways = self.machine.ways(cpu, address, kind);
                self.digest.write(format!("{ways:x?}").as_bytes());
                if let Some(way) = ways.get(self.seed.index(2 * ways.len().max(1))) {
                    self.take(cpu, way);
                }
            }
            // What a TLBI comes after may be what its CPU has read before.
            Event::Tlbi { opcode, operand } if self.seed.one_in(4) => {
                let moment = self.machine.events().saturating_sub(self.seed.below(8));
                self.machine.tlbi_after(cpu, opcode, operand, moment);
            }
            _ => self.machine.apply(cpu, event),
        }
        for finding in self.machine.take_findings() {
            *self.counts.entry(format!("{:?}", finding.rule)).or_default() += 1;
            self.digest.write(format!("{finding}{finding:x?}").as_bytes());
        }
        self.digest.write_u64(self.machine.digest());
    }

    /// An access goes this way.
    fn take(&mut self, cpu: u8, way: &Way) {
        if let Some(word) = way.observed {
            self.machine.observe(cpu, word);
        }
        if let Some(update) = &way.update {
            self.machine.update_by_hardware(cpu, update);
        }
    }

    /// What only who watches a guest asks: which tables are linked, what is learnt of memory, which memory is no table.
    fn ask(&mut self, cpu: u8) {
        let Self { machine, seed, .. } = self;
        let value = *seed.pick(&[0, L2 | TABLE, L3 | TABLE, 0x4100_0000 | TABLE, BLOCK | 0x8000_0000]);
        let word = *seed.pick(&[ROOT, L1, L2, S2_ROOT, S2_L2, L3]);
        let register = *seed.pick(&[Register::Ttbr0El1, Register::Ttbr0El2, Register::VttbrEl2]);
        let mut links = machine.links_at(word, value);
        links.extend(machine.links_by(cpu, register, (1 + seed.below(2)) << 48 | OTHER_ROOT));
        for link in links {
            let pieces = machine.pieces_of(&link);
            let below = machine.links_below(&link, &[value, 0, value ^ 2]);
            self.digest.write(format!("{link:x?} {} {pieces:x?} {below:x?}", link.depth()).as_bytes());
        }
        let page = *seed.pick(&[L2, L3, random::L3B, S2_L3, OTHER_ROOT, 0x4100_0000, 0x4200_0000]);
        let told = (
            machine.learn(page + seed.below(8) * 4, value),
            machine.is_descriptor(page),
            machine.forget_unreached(page),
            machine.load(cpu, page | 4),
            machine.leaves(Tag::el10(7), seed.below(18) << 12),
        );
        self.digest.write(format!("{told:x?}").as_bytes());
    }

    /// A store in all its forms.
    fn store(&mut self) -> Event {
        match random::event(&mut self.seed, self.setting) {
            Event::Store { address, value, .. } => match self.seed.below(4) {
                0 => Event::Store { address: address | 3, value, is_release: true },
                1 => Event::Exchange { address: address | 5, value },
                _ => {
                    let expected = self.machine.may().memory().word(address) ^ u64::from(self.seed.one_in(4));
                    Event::CompareExchange { address: address | 7, expected, value }
                }
            },
            event => event,
        }
    }

    fn tag(&self) -> Tag {
        match self.setting {
            Setting::El2 => Tag::EL2,
            Setting::Host => Tag::EL20,
            Setting::Combined => Tag::el10(7),
            Setting::Flat => Tag::stage2(7),
            _ => Tag::el10(0),
        }
    }

    /// What a program says of what it owns, needs and allows, and what changes hands.
    fn claim(&mut self) -> Event {
        let (tag, asid) = (self.tag(), 1 + self.seed.below(4) as u16);
        let (first, allowed) = (self.seed.below(18) << 12, Permissions(self.seed.below(64) as u8));
        let last = first + [0, 0xfff, 0x1000, 0x1_ffff][self.seed.index(4)];
        let root = *self.seed.pick(&[ROOT, ROOT, OTHER_ROOT]);
        match self.seed.below(13) {
            0 => Event::ReuseAsid { tag, asid },
            1 => Event::ReuseVmid(tag.vmid),
            2 => Event::Revoked { tag, asid: Some(asid), first, last, allowed },
            3 => Event::Revoked { tag, asid: None, first, last, allowed },
            4 => Event::Needs { first, last },
            5 => Event::NeedsNothing,
            6 => Event::ConflictAbort,
            7 => self.store(),
            8 if tag.regime == machine::context::Regime::El10 => {
                Event::Write { register: Register::Ttbr0El1, value: u64::from(asid) << 48 | root }
            }
            9 => Event::Store { address: OTHER_ROOT, value: *self.seed.pick(&[0, L1 | TABLE]), is_release: false },
            10 | 11 => self.write(asid),
            _ => self.release(),
        }
    }

    /// Memory changes hands, also more of it than one leaf leads to.
    fn release(&mut self) -> Event {
        match random::release(&mut self.seed) {
            Event::Release { address, owned, .. } => {
                let size_bytes = *self.seed.pick(&[0x1000, 0x1000, 0x2000, 0x1_0000]);
                Event::Release { address: address - self.seed.below(2) * (size_bytes - 0x1000), size_bytes, owned }
            }
            event => event,
        }
    }

    /// A register changes what TLBIs mean, who walks, or by which attributes.
    fn write(&mut self, asid: u16) -> Event {
        let (host, seed) = (self.setting == Setting::Host, &mut self.seed);
        let is_two = matches!(self.setting, Setting::Combined | Setting::Flat);
        let hcr = u64::from(is_two) | if host { HCR_E2H | HCR_TGE } else { 0 };
        let common = u64::from(asid) << 48 | ROOT | 1;
        let (register, value) = match seed.below(8) {
            0 => (Register::HcrEl2, hcr | HCR_FB),
            1 => (Register::HcrEl2, hcr | HCR_FWB),
            2 => (Register::HcrEl2, hcr ^ 1),
            3 => (Register::HcrxEl2, HCRX_FNXS),
            4 => (if host { Register::Ttbr0El2 } else { Register::Ttbr0El1 }, common),
            5 => (
                if host { Register::MairEl2 } else { Register::MairEl1 },
                *seed.pick(&[0x0044_04ff, 0x004f_00ff, 0x00f4_00ff]),
            ),
            6 => (Register::VttbrEl2, 7 << 48 | S2_ROOT | 1),
            _ => return Event::Enter(*seed.pick(&[Level::El1, Level::El2])),
        };
        Event::Write { register, value }
    }

    /// A page loses its mapping by the book, but for a step that is sometimes left out, and its frame changes hands.
    fn unmap(&mut self, cpu: u8) {
        let page = self.seed.below(18);
        let (asid, is_last) = ((1 + self.seed.below(2)) << 48, self.seed.one_in(2));
        let word = match self.setting {
            Setting::Wide | Setting::Upper => 0x4100_0000,
            Setting::Flat => S2_L3,
            _ => L3,
        } + page * 8;
        let frame = self.machine.may().memory().word(word) & 0xffff_f000;
        let by_address = match (self.setting, is_last) {
            (Setting::El2 | Setting::Host, true) => VALE2IS,
            (Setting::El2 | Setting::Host, false) => VAE2IS,
            (Setting::Flat, true) => IPAS2LE1IS,
            (Setting::Flat, false) => IPAS2E1IS,
            (_, true) => VALE1IS,
            (_, false) => VAE1IS,
        };
        let scaled = match self.setting {
            Setting::Wide => page << 4,
            Setting::Upper => 0xfff_fff0_0000 | page << 2,
            _ => page,
        };
        let tlbi = |opcode: Opcode, operand: u64| Event::Tlbi { opcode, operand };
        let mut steps = vec![
            Event::Store { address: word, value: 0, is_release: false },
            Event::Barrier(ISHST),
            tlbi(by_address, asid | scaled),
            Event::Barrier(ISH),
        ];
        if self.setting == Setting::Flat {
            steps.extend([tlbi(VMALLE1IS, 0), Event::Barrier(ISH)]);
        }
        steps.push(Event::Barrier(ISB));
        for step in steps {
            if !self.seed.one_in(12) {
                self.tell(cpu, &step);
            }
        }
        if frame != 0 {
            self.tell(cpu, &Event::Release { address: frame, size_bytes: 4096, owned: machine::event::Owned::Frame });
        }
    }

    /// The run's line.
    fn line(mut self, number: u64) -> String {
        for _ in 0..STEPS {
            let cpu = self.cpu();
            let event = match self.seed.below(12) {
                0 => self.claim(),
                1 if self.seed.one_in(4) => {
                    self.ask(cpu);
                    continue;
                }
                1 | 2 => {
                    self.unmap(cpu);
                    continue;
                }
                _ => random::event(&mut self.seed, self.setting),
            };
            self.tell(cpu, &event);
        }
        let effort = self.machine.effort();
        let mut line = format!("{number}: {:016x} effort={effort}", self.digest.finish());
        self.counts.iter().for_each(|(rule, count)| write!(line, " {rule}={count}").expect("room"));
        line
    }
}

/// Runs of one setting beside its record.
fn hold(setting: Setting) {
    let mut told = (0..RUNS).map(|number| Run::new(setting, number).line(number));
    let path = format!("{}/tests/recorded/{setting:?}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("VELLUM_RECORD").is_some() {
        std::fs::write(path, told.map(|line| line + "\n").collect::<String>()).expect("the record can be written");
        return;
    }
    let record = std::fs::read_to_string(path).expect("the record");
    for recorded in record.lines() {
        assert_eq!(told.next().as_deref(), Some(recorded), "{setting:?}");
    }
    assert_eq!(told.next(), None, "{setting:?}: a run that is not recorded");
}

for_each_setting! { hold }
