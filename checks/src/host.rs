//! The machine that a run happens on: the may-TLB alone, or with concrete TLBs beside it.

use machine::barrier::Barrier;
use machine::concrete::Concrete;
use machine::event::Event;
use machine::finding::Finding;
use machine::machine::{Machine, Outcome};
use machine::seed::Seed;
use machine::syndrome::AccessKind;

use crate::request::Reply;
use crate::scenario::Scenario;
use crate::setting::Setting;

/// Entries of a concrete TLB.
const CAPACITY: usize = 24;

/// A machine.
#[derive(Clone, Debug)]
pub enum Host {
    /// Everything that could be cached.
    May(Box<Machine>),
    /// And one choice from it.
    Concrete(Box<Concrete>),
}

impl Host {
    /// Concrete TLBs for this machine, whose walkers speculate on `addresses`.
    pub fn into_concrete(self, seed: Seed, addresses: &[u64]) -> Self {
        match self {
            Self::May(machine) => {
                let mut concrete = Concrete::new(*machine, seed, CAPACITY);
                concrete.speculate_on(addresses);
                Self::Concrete(Box::new(concrete))
            }
            concrete => concrete,
        }
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        match self {
            Self::May(machine) => machine,
            Self::Concrete(concrete) => concrete.machine(),
        }
    }

    fn machine_mut(&mut self) -> &mut Machine {
        match self {
            Self::May(machine) => machine,
            Self::Concrete(concrete) => concrete.machine_mut(),
        }
    }

    /// Writes the page table of a guest, if there is one. The barrier completes what the engine left unordered too, so that
    /// without a guest there is none.
    pub(crate) fn write_guest(&mut self, scenario: &Scenario) {
        if scenario.parameters.setting != Setting::Guest {
            return;
        }
        let frame = scenario.first_frame();
        let machine = self.machine_mut();
        scenario.parameters.setting.write_guest(machine, frame);
        machine.barrier(0, Barrier::DSB_ISH);
    }

    /// A load by physical address.
    pub fn load(&mut self, cpu: u8, address: u64) -> Reply {
        Reply::Word(self.machine_mut().load(cpu, address))
    }

    /// Any other event.
    pub fn happen(&mut self, cpu: u8, event: &Event) -> Reply {
        let reply = match *event {
            Event::CompareExchange { address, expected, .. } => match self.machine().word(address) {
                found if found == expected => Reply::Word(found),
                found => Reply::Refused(found),
            },
            _ => Reply::Done,
        };
        match self {
            Self::May(machine) => machine.apply(cpu, event),
            Self::Concrete(concrete) => concrete.step(cpu, event),
        }
        reply
    }

    /// An access by virtual address: every outcome that is possible, and with concrete TLBs the one that came about.
    pub fn access(&mut self, cpu: u8, address: u64, kind: AccessKind) -> (Vec<Outcome>, Option<Outcome>) {
        let came = match self {
            Self::May(_) => None,
            Self::Concrete(concrete) => Some(concrete.access(cpu, address, kind)),
        };
        (self.machine_mut().access(cpu, address, kind).outcomes, came)
    }

    /// What the rules found since the last call.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        match self.machine().findings() {
            [] => Vec::new(),
            _ => self.machine_mut().take_findings(),
        }
    }

    /// A concrete entry that could not be there: then the machine itself is wrong.
    pub fn stray(&mut self) -> Option<String> {
        match self {
            Self::May(_) => None,
            Self::Concrete(concrete) => concrete.stray().map(|(cpu, cached)| format!("CPU {cpu} holds {cached:?}")),
        }
    }
}
