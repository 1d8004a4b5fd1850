//! What random machines are told, run by run, beside what they were told when somebody last looked (`recorded.txt`). No other
//! test says which of a thousand conditions decides in the midst of a long story. A rule that means to say something else
//! changes lines of the record, and whoever changes the rule reads why:
//! `VELLUM_RECORD=1 cargo test -p machine --test recorded` writes them anew.

mod common;
#[path = "common/random.rs"]
mod random;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::Hasher;

use common::*;
use machine::attributes::Permissions;
use machine::context::Tag;
use machine::event::Event;
use machine::machine::Machine;
use machine::registers::Register;
use machine::seed::{Digest, Seed};
use machine::tlbi::Opcode;
use random::Setting;

const RUNS: u64 = 60;
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
        if let Event::Access { address, kind } = *event {
            let ways = self.machine.ways(cpu, address, kind);
            self.digest.write(format!("{ways:x?}").as_bytes());
        } else {
            self.machine.apply(cpu, event);
        }
        for finding in self.machine.take_findings() {
            *self.counts.entry(format!("{:?}", finding.rule)).or_default() += 1;
            self.digest.write(format!("{} {finding}", finding.event).as_bytes());
        }
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
        match self.seed.below(11) {
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
            _ => random::release(&mut self.seed),
        }
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
                1 | 2 => {
                    self.unmap(cpu);
                    continue;
                }
                _ => random::event(&mut self.seed, self.setting),
            };
            self.tell(cpu, &event);
        }
        let mut line = format!("{:?} {number}: {:016x}", self.setting, self.digest.finish());
        self.counts.iter().for_each(|(rule, count)| write!(line, " {rule}={count}").expect("room"));
        line
    }
}

#[test]
fn random_events_are_judged_as_recorded() {
    let runs = Setting::ALL.into_iter().flat_map(|setting| (0..RUNS).map(move |number| (setting, number)));
    let told: Vec<String> = runs.map(|(setting, number)| Run::new(setting, number).line(number)).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded.txt");
    if std::env::var_os("VELLUM_RECORD").is_some() {
        std::fs::write(path, told.join("\n") + "\n").expect("the record can be written");
        return;
    }
    let record = std::fs::read_to_string(path).expect("the record");
    let recorded: Vec<&str> = record.lines().collect();
    assert_eq!(told.len(), recorded.len(), "runs");
    for (told, recorded) in told.iter().zip(recorded) {
        assert_eq!(told, recorded);
    }
}
