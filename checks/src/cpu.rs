//! The adapter: a CPU of the simulated machine as the engine's platform. The engine and the machine meet here, and nowhere
//! else. A [`Maintenance`] becomes the opcode and the 64-bit operand that hardware would execute.

use std::cell::RefCell;
use std::panic::Location;

use corosensei::Yielder;
use machine::barrier::{Accesses, Barrier, Domain};
use machine::event::Event;
use machine::tlbi::Opcode;
use pagetable::{Platform, Slot};
use vmsa::maintenance::{self, BarrierAccess};
use vmsa::{Descriptor, Maintenance, TlbiOp};

use crate::mutation::{Deed, Mutation, Site};
use crate::request::{Asked, Reply, Request, Software};

/// One CPU, as its program sees it.
pub struct Cpu<'y> {
    yielder: &'y Yielder<Reply, Asked>,
    mutation: Option<Mutation>,
    /// Events that a mutation puts off.
    held: RefCell<Vec<Asked>>,
    /// TLBIs and barriers of the engine since its last store.
    made: RefCell<Vec<(Event, Site)>>,
}

impl<'y> Cpu<'y> {
    /// The CPU that asks through `yielder`, whose engine has `mutation`.
    pub(crate) fn new(yielder: &'y Yielder<Reply, Asked>, mutation: Option<Mutation>) -> Self {
        Self { yielder, mutation, held: RefCell::new(Vec::new()), made: RefCell::new(Vec::new()) }
    }

    /// Asks for anything.
    #[track_caller]
    pub fn ask(&self, request: Request) -> Reply {
        self.pass(Asked { request, site: Location::caller() })
    }

    /// Asks for what only software knows of.
    #[track_caller]
    pub fn software(&self, what: Software) -> Reply {
        self.yielder.suspend(Asked { request: Request::Software(what), site: Location::caller() })
    }

    /// What was put off happens after all.
    pub(crate) fn flush(&self) {
        for asked in self.held.take() {
            self.yielder.suspend(asked);
        }
    }

    /// An event of the engine, which a mutation may change.
    fn issue(&self, event: Event, site: &'static Location<'static>) -> Reply {
        let is_repeated = self.is_repeated(event, site);
        let deed = self.mutation.as_ref().map_or(Deed::Keep, |mutation| mutation.deed(&event, site, is_repeated));
        match deed {
            Deed::Keep => self.pass(Asked { request: Request::Event(event), site }),
            Deed::Drop => Reply::Done,
            Deed::Become(event) => self.pass(Asked { request: Request::Event(event), site }),
            Deed::Hold => {
                self.held.borrow_mut().push(Asked { request: Request::Event(event), site });
                Reply::Done
            }
        }
    }

    /// Whether the engine made the same TLBI or barrier by the same call since its last store.
    fn is_repeated(&self, event: Event, site: Site) -> bool {
        let mut made = self.made.borrow_mut();
        match event {
            Event::Tlbi { .. } | Event::Barrier(_) if made.contains(&(event, site)) => return true,
            Event::Tlbi { .. } | Event::Barrier(_) => made.push((event, site)),
            _ => made.clear(),
        }
        false
    }

    /// Lets something happen, and then what waited for it.
    fn pass(&self, asked: Asked) -> Reply {
        let due: Vec<Asked> = {
            let mut held = self.held.borrow_mut();
            held.extract_if(.., |waiting| ends_wait(&waiting.request, &asked.request)).collect()
        };
        let reply = self.yielder.suspend(asked);
        for asked in due {
            self.yielder.suspend(asked);
        }
        reply
    }

    /// A store that was put off is still what this CPU itself reads.
    fn held_word(&self, address: u64) -> Option<u64> {
        let held = self.held.borrow();
        held.iter().rev().find_map(|asked| match asked.request {
            Request::Event(Event::Store { address: at, value, .. }) if at == address => Some(value),
            Request::Event(Event::CompareExchange { address: at, value, .. }) if at == address => Some(value),
            _ => None,
        })
    }
}

/// Whether `waiting`, which was put off, changes places with `next`: a store with the barrier or TLBI after it, a TLBI with
/// the barrier after it, a barrier with whatever follows.
fn ends_wait(waiting: &Request, next: &Request) -> bool {
    let is_store = |it: &Request| matches!(it, Request::Event(Event::Store { .. } | Event::CompareExchange { .. }));
    let is_tlbi = |it: &Request| matches!(it, Request::Event(Event::Tlbi { .. }));
    match next {
        Request::Load(_) | Request::Software(_) => false,
        // What the program says of memory and rights is no instruction.
        Request::Event(Event::Release { .. } | Event::Revoked { .. }) => false,
        _ if is_store(waiting) => !is_store(next),
        _ if is_tlbi(waiting) => !is_tlbi(next),
        _ => true,
    }
}

impl Platform for Cpu<'_> {
    #[track_caller]
    fn load(&self, slot: Slot) -> Descriptor {
        let address = slot.address().bits();
        if let Some(word) = self.held_word(address) {
            return Descriptor::new(word);
        }
        match self.yielder.suspend(Asked { request: Request::Load(address), site: Location::caller() }) {
            Reply::Word(word) => Descriptor::new(word),
            Reply::Done | Reply::Refused(_) => Descriptor::INVALID,
        }
    }

    #[track_caller]
    fn store(&self, slot: Slot, descriptor: Descriptor) {
        let (address, value) = (slot.address().bits(), descriptor.bits());
        self.issue(Event::Store { address, value, is_release: false }, Location::caller());
    }

    #[track_caller]
    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        let (address, expected, value) = (slot.address().bits(), old.bits(), new.bits());
        match self.issue(Event::CompareExchange { address, expected, value }, Location::caller()) {
            Reply::Done | Reply::Word(_) => Ok(()),
            Reply::Refused(actual) => Err(Descriptor::new(actual)),
        }
    }

    #[track_caller]
    fn maintain(&self, operation: Maintenance) {
        self.issue(event_of(operation), Location::caller());
    }
}

/// A barrier or TLBI as hardware would execute it.
pub fn event_of(operation: Maintenance) -> Event {
    match operation {
        Maintenance::Barrier(barrier) => Event::Barrier(encode_barrier(barrier)),
        Maintenance::Invalidate(op, operand) => Event::Tlbi { opcode: encode_tlbi(op), operand },
    }
}

/// op1, CRn, CRm and op2 of the SYS instruction.
fn encode_tlbi(op: TlbiOp) -> Opcode {
    let (op1, crn, crm, op2) = op.fields();
    Opcode::new(op1.into(), crn.into(), crm.into(), op2.into())
}

fn encode_barrier(barrier: maintenance::Barrier) -> Barrier {
    match barrier {
        maintenance::Barrier::Dsb(domain, access) => {
            Barrier::Dsb { domain: encode_domain(domain), accesses: encode_access(access), is_nxs: false }
        }
        maintenance::Barrier::Dmb(domain, access) => {
            Barrier::Dmb { domain: encode_domain(domain), accesses: encode_access(access) }
        }
        maintenance::Barrier::Isb => Barrier::Isb,
    }
}

fn encode_domain(domain: maintenance::Domain) -> Domain {
    match domain {
        maintenance::Domain::NonShareable => Domain::NonShareable,
        maintenance::Domain::InnerShareable => Domain::Inner,
        maintenance::Domain::OuterShareable => Domain::Outer,
        maintenance::Domain::FullSystem => Domain::System,
    }
}

fn encode_access(access: BarrierAccess) -> Accesses {
    match access {
        BarrierAccess::Loads => Accesses::Loads,
        BarrierAccess::Stores => Accesses::Stores,
        BarrierAccess::All => Accesses::All,
    }
}
