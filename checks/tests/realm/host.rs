//! The RMM and a host, which change stage 2.

use std::cell::{Cell, RefCell};

use kerncore::realm::Rmm;
use machine::barrier::Barrier;
use machine::event::Level as At;
use machine::tlbi::Opcode;

use crate::kernel::{BLOCK, GRANULE, HOSTS, OWN, PAGE, PAGES, PROTECTED_L3, Realm, UNPROTECTED, UNPROTECTED_L3, look};
use crate::mistake::Mistake;

const IPAS2E1IS: Opcode = Opcode::new(4, 8, 0, 1);
const VMALLE1IS: Opcode = Opcode::new(0, 8, 3, 0);

/// What the host does to one request: granules that it gets on by, of which the answer tells so many, and how that ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Does {
    All,
    Some(u64),
    Rejects(u64),
    /// The RMM answers with an error once so many granules are done.
    Error(u64),
    /// An answer that cannot be one.
    Nonsense(u64),
}

/// The RMM and a host.
pub(crate) struct Host<'r> {
    pub(crate) realm: &'r Realm,
    /// A bit for each page of the block's that is RAM.
    pub(crate) ram: Cell<u64>,
    pub(crate) script: RefCell<Vec<Does>>,
    /// What else happens while it is asked for the first time, between a hide and a show.
    pub(crate) meanwhile: RefCell<Option<&'r dyn Fn()>>,
    pub(crate) mistake: Mistake,
    /// What is wrong while memory was in nobody's hands.
    pub(crate) wrong: RefCell<Vec<String>>,
}

pub(crate) fn number(address: u64) -> u64 {
    (address - BLOCK) / GRANULE
}

impl Host<'_> {
    pub(crate) fn is_ram(&self, page: u64) -> bool {
        self.ram.get() >> page & 1 == 1
    }

    /// The state of a page changes, as an RMM has it: nothing that was known of it is left before it is somebody else's.
    fn turn(&self, page: u64, is_ram: bool) {
        if self.is_ram(page) == is_ram {
            return;
        }
        self.ram.set(self.ram.get() ^ 1 << page);
        let (own, hosts) = (PROTECTED_L3 + 8 * page, UNPROTECTED_L3 + 8 * page);
        let (gone, new, memory) = if is_ram { (hosts, own, OWN) } else { (own, hosts, HOSTS) };
        let ipa = BLOCK + page * GRANULE + if is_ram { UNPROTECTED } else { 0 };
        let mut machine = self.realm.machine.borrow_mut();
        machine.enter(0, At::El2);
        machine.store(0, gone, 0);
        machine.barrier(0, Barrier::DSB_ISHST);
        for (opcode, operand) in [(IPAS2E1IS, ipa >> 12), (VMALLE1IS, 0)] {
            machine.tlbi(0, opcode, operand);
            machine.barrier(0, Barrier::DSB_ISH);
        }
        machine.store(0, new, PAGE | (memory + page * GRANULE));
        machine.barrier(0, Barrier::DSB_ISH);
        machine.barrier(0, Barrier::Isb);
        machine.enter(0, At::El1);
    }

    fn set_state(&self, base: u64, top: u64, is_ram: bool) -> [u64; 4] {
        if let Some(meanwhile) = self.meanwhile.take() {
            meanwhile();
        }
        for page in number(base)..number(top) {
            let reached = look(self.realm, page);
            if reached.iter().any(Result::is_ok) {
                self.wrong.borrow_mut().push(format!("page {page} is asked for, and not hidden: {reached:x?}"));
            }
        }
        let turn = |count: u64| {
            let end = top.min(base + count * GRANULE);
            (number(base)..number(end)).for_each(|page| self.turn(page, is_ram));
            end
        };
        let answer = match self.script.borrow_mut().pop().unwrap_or(Does::All) {
            Does::All => [0, turn(PAGES), 0, 0],
            Does::Some(count) => [0, turn(count), 0, 0],
            Does::Rejects(count) => [0, turn(count), 1, 0],
            Does::Error(count) => {
                turn(count);
                [4, 0, 0, 0]
            }
            Does::Nonsense(address) => [0, address, 0, 0],
        };
        if self.mistake == Mistake::BelievesTheHost { [0, top, 0, 0] } else { answer }
    }
}

impl Rmm for Host<'_> {
    fn call(&self, function: u32, [base, top, state, _]: [u64; 4]) -> [u64; 4] {
        match function {
            0xc400_0197 => self.set_state(base, top, state == 1),
            0xc400_0198 if self.mistake == Mistake::AsksNoState => [0, top, 1, 0],
            0xc400_0198 => {
                let first = self.is_ram(number(base));
                let end = (number(base)..number(top)).find(|page| self.is_ram(*page) != first);
                [0, end.map_or(top, |page| BLOCK + page * GRANULE), first.into(), 0]
            }
            _ => panic!("{function:#x} is not asked"),
        }
    }
}
