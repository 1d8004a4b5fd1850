//! What one CPU does: calls of a program's, and accesses at EL0.

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

use machine::attributes::Permissions;
use machine::barrier::Barrier;
use machine::context::Tag;
use machine::event::{Event, Level};
use machine::machine::Outcome;
use machine::seed::Seed;
use machine::syndrome::{AccessKind, FaultKind};
use pagetable::{El1, View};
use userspace::{
    Access, AddressSpace, Advice, AreaFlags, Asids, Embedder, Kind, Move, Numbers, Place, Request, Rights, Source,
};
use vmsa::{Granule, Level as TableLevel, Maintenance, Meaning, TlbiOp, maintenance};

use super::Orders;
use super::board::{Board, Gate, Turn};
use super::done::Done;
use super::kernel::{Kernel, NoFile, is_zeros};
use super::text::{ATOMIC, OfBoard};
use crate::cpu::event_of;
use crate::edited::Edited;
use crate::parameters::Parameters;
use crate::peek::Peek;

/// Pages that each CPU has: the last in a table of its own.
const OWN: u64 = 4;
/// An access that faults more often than this is not answered.
const MOST_FAULTS: usize = 12;

const READ_WRITE: Rights = Rights::READ.union(Rights::WRITE);

/// The program of one CPU.
pub(super) struct Program<'s, G: Granule> {
    board: &'s Arc<Board>,
    parameters: &'s Parameters,
    space: &'s AddressSpace<Kernel<G>>,
    asids: &'s Asids<Gate<Numbers>>,
    seed: Seed,
    pub(super) done: Done,
    /// Whether pages were of a contiguous group when that was last asked.
    had_group: bool,
}

impl<'s, G: Granule> Program<'s, G> {
    pub(super) fn new(
        board: &'s Arc<Board>,
        parameters: &'s Parameters,
        space: &'s AddressSpace<Kernel<G>>,
        asids: &'s Asids<Gate<Numbers>>,
        seed: Seed,
    ) -> Self {
        Self { board, parameters, space, asids, seed, done: Done::default(), had_group: false }
    }

    /// Makes so many calls, and comes off the space.
    pub(super) fn run(&mut self, cpu: usize, orders: &Orders) {
        self.switch(cpu, Some(self.space));
        // What lies side by side is of the area around, so that a folio may come.
        self.map(cpu, if self.has_folios() { OWN - 1 } else { 0 }..OWN);
        for _ in 0..orders.calls {
            let (call, page) = (self.seed.below(14), self.seed.below(OWN));
            // Forks and MADV_DONTNEED, which a group is to meet more often.
            let call = if orders.groups.is_some() && self.seed.one_in(3) { 4 + self.seed.below(2) } else { call };
            self.had_group = self.has_group();
            self.done.given += u64::from(self.had_group && call == 5 && page < OWN - 1);
            self.done.forked += u64::from(self.had_group && call == 4);
            if orders.marks {
                self.mark(cpu);
            } else {
                self.call(cpu, call, page);
            }
            self.count_group();
        }
        self.switch(cpu, None);
    }

    /// An area around the pages of every CPU: a block, so that there is room for folios, and for one of zeros, which may be there at first.
    pub(super) fn map_around(&mut self) {
        let request = Request { bytes: G::SIZE_BYTES * G::ENTRIES as u64, ..Self::request(Self::at(0, 0)) };
        self.expect("map", self.space.map(request).is_ok());
        if self.seed.one_in(2) {
            self.switch(0, Some(self.space));
            self.access(self.space, Self::at(0, 0), Kind::Read);
            self.switch(0, None);
        }
    }

    /// The address of a page of a CPU.
    fn at(cpu: usize, page: u64) -> u64 {
        let table = G::SIZE_BYTES * G::ENTRIES as u64;
        let near = table + (cpu as u64 * OWN + page) * G::SIZE_BYTES;
        if page + 1 == OWN { near + (2 + cpu as u64) * table } else { near }
    }

    /// A page becomes clean, or is written.
    fn mark(&mut self, cpu: usize) {
        let page = self.seed.below(2);
        match self.seed.below(4) {
            // It is read, or nobody's TLB would have it: MADV_FREE leaves it unaccessed.
            0 => {
                self.expect("advise", self.space.advise(Self::at(cpu, page), G::SIZE_BYTES, Advice::Free).is_ok());
                self.access(self.space, Self::at(cpu, page), Kind::Read);
            }
            // What was written stays when memory is short: nobody else has this page become clean.
            1 => {
                self.access(self.space, Self::at(cpu, page), Kind::Write);
                self.space.take_lazy(usize::MAX);
                self.expect("keep what was written", self.leaf(Self::at(cpu, page)).is_some());
                self.done.kept += 1;
            }
            _ => {
                let whose = self.seed.index(self.parameters.cpus);
                self.access(self.space, Self::at(whose, page), Kind::Write);
            }
        }
    }

    fn call(&mut self, cpu: usize, call: u64, page: u64) {
        match call {
            0 => {
                self.unmap(cpu, page);
                self.map(cpu, page..page + 1);
            }
            1 => self.protect(cpu, page..page + 1, Rights::READ),
            2 => self.protect(cpu, page..page + 1, READ_WRITE),
            3 => self.advise(cpu, page),
            4 => self.fork(cpu),
            5 => self.expect("advise", self.space.advise(Self::at(cpu, page), G::SIZE_BYTES, Advice::DontNeed).is_ok()),
            // All that lie side by side, rights and back.
            6 => {
                self.protect(cpu, 0..OWN - 1, Rights::READ);
                self.count_group();
                self.protect(cpu, 0..OWN - 1, READ_WRITE);
            }
            // Everybody's, of which some may just not be mapped.
            7 => {
                let advice = *self.seed.pick(&[Advice::DontNeed, Advice::Free, Advice::Cold]);
                let _ = self.space.advise(Self::at(0, 0), G::SIZE_BYTES << 4, advice);
            }
            8 => self.move_away(cpu, page),
            9 if page == 0 => self.move_bounds(cpu),
            _ => {
                let whose = self.seed.index(self.parameters.cpus);
                let kind = *self.seed.pick(&[Kind::Write, Kind::Write, Kind::Read]);
                self.access(self.space, Self::at(whose, page), kind);
            }
        }
    }

    /// A page of private memory.
    const fn request(at: u64) -> Request<NoFile> {
        Request {
            place: Place::Fixed(at),
            bytes: G::SIZE_BYTES,
            rights: READ_WRITE,
            source: Source::Anonymous,
            flags: AreaFlags::empty(),
            populates: false,
        }
    }

    fn map(&mut self, cpu: usize, pages: Range<u64>) {
        for page in pages {
            let request = Request { populates: self.seed.one_in(4), ..Self::request(Self::at(cpu, page)) };
            self.expect("map", self.space.map(request).is_ok());
        }
    }

    /// A page, or all that lie side by side, move to a table of their own, in step with where they were or not, are written there, and move back.
    fn move_away(&mut self, cpu: usize, page: u64) {
        let pages = if page == 0 { 0..OWN - 1 } else { page..page + 1 };
        let bytes = (pages.end - pages.start) * G::SIZE_BYTES;
        let beside = self.seed.below(2) * G::SIZE_BYTES;
        let (here, there) = (
            Self::at(cpu, pages.start),
            Self::at(cpu, 0) + beside + (8 + cpu as u64) * G::SIZE_BYTES * G::ENTRIES as u64,
        );
        for (from, to) in [(here, there), (there, here)] {
            self.expect("move", self.space.remap(from, bytes, bytes, Move::To(to), false) == Ok(to));
            (from..from + bytes).step_by(G::SIZE_BYTES as usize).for_each(|page| self.revoked(page, Permissions::NONE));
            self.access(self.space, to, Kind::Write);
        }
        self.done.moved += 1;
    }

    /// An area of an own table moves: as long as a page, a contiguous group, a table or two tables, or one page shorter or longer. Its first page
    /// begins a table, is the last of one, or the second. Its ends are written, and go with it.
    fn move_bounds(&mut self, cpu: usize) {
        let (size, table) = (G::SIZE_BYTES, G::SIZE_BYTES * G::ENTRIES as u64);
        let group = 1 << G::PAGE_SIZE.contiguous_shift(TableLevel::L3).unwrap_or(0);
        let bounds = [1, group, G::ENTRIES as u64, 2 * G::ENTRIES as u64];
        let pages = (*self.seed.pick(&bounds) + self.seed.below(3)).max(2) - 1;
        let mut start = |number: u64| (16 + 8 * cpu as u64 + number) * table + self.seed.below(3) * size - size;
        let (from, to, bytes) = (start(0), start(4), pages * size);
        let ends = [0, bytes - size];
        let request = Request { bytes, ..Self::request(from) };
        self.expect("map", self.space.map(request).is_ok());
        ends.into_iter().for_each(|end| self.access(self.space, from + end, Kind::Write));
        self.expect("move", self.space.remap(from, bytes, bytes, Move::To(to), false) == Ok(to));
        for end in ends {
            self.revoked(from + end, Permissions::NONE);
            self.expect("move a written page", self.leaf(to + end).is_some());
            self.access(self.space, to + end, Kind::Write);
        }
        self.expect("unmap", self.space.unmap(to, bytes).is_ok());
        ends.into_iter().for_each(|end| self.revoked(to + end, Permissions::NONE));
        self.done.moved += 1;
    }

    fn has_folios(&self) -> bool {
        self.space.embedder().folio_orders(false) > 1
    }

    fn unmap(&self, cpu: usize, page: u64) {
        let at = Self::at(cpu, page);
        self.expect("unmap", self.space.unmap(at, G::SIZE_BYTES).is_ok());
        self.revoked(at, Permissions::NONE);
    }

    /// Pages side by side, by one call.
    fn protect(&self, cpu: usize, pages: Range<u64>, rights: Rights) {
        let bytes = (pages.end - pages.start) * G::SIZE_BYTES;
        self.expect("protect", self.space.protect(Self::at(cpu, pages.start), bytes, rights).is_ok());
        for page in pages.filter(|_| !rights.contains(Rights::WRITE)) {
            self.revoked(Self::at(cpu, page), Permissions(Permissions::READ | Permissions::USER_READ));
        }
    }

    /// Counts a contiguous group that has begun, or ended.
    fn count_group(&mut self) {
        let has_group = self.has_group();
        self.done.made += u64::from(has_group && !self.had_group);
        self.done.ended += u64::from(self.had_group && !has_group);
        self.had_group = has_group;
    }

    /// Whether the pages of all CPUs that lie side by side are of one contiguous group now.
    fn has_group(&self) -> bool {
        self.leaf(Self::at(0, 0)) == Some(true)
    }

    /// Whether the leaf that maps an address is of a contiguous group, if there is a leaf.
    fn leaf(&self, address: u64) -> Option<bool> {
        let (now, root) = (self.board.now(), self.space.root());
        let geometry = El1::geometry::<G>(self.parameters).expect("the space has this geometry");
        let (peek, regime) = (Peek(&now.machine), El1::of(self.parameters));
        match View::new(&peek, geometry, regime, root).path(address.into()).last()?.meaning {
            Meaning::Leaf(_, is_contiguous) => Some(is_contiguous),
            _ => None,
        }
    }

    fn advise(&mut self, cpu: usize, page: u64) {
        let advice = *self.seed.pick(&[Advice::DontNeed, Advice::Free, Advice::Cold]);
        self.expect("advise", self.space.advise(Self::at(cpu, page), G::SIZE_BYTES, advice).is_ok());
        if advice == Advice::Free && self.seed.one_in(2) {
            self.space.take_lazy(1);
        }
    }

    /// A child that this CPU runs for a while, and that ends.
    fn fork(&mut self, cpu: usize) {
        self.board.step(|turn, _| turn.forks += 1);
        Board::set_forking(true);
        // It ends where nothing has failed: who gives up meanwhile makes no more calls.
        let child = self.space.fork().map(ManuallyDrop::new);
        Board::set_forking(false);
        self.board.step(|turn, _| turn.forks -= 1);
        let Ok(child) = child else { return self.expect("fork", false) };
        self.switch(cpu, Some(&child));
        for _ in 0..1 + self.seed.below(3) {
            let (whose, page) = (self.seed.index(self.parameters.cpus), self.seed.below(OWN));
            let kind = *self.seed.pick(&[Kind::Write, Kind::Read]);
            self.access(&child, Self::at(whose, page), kind);
        }
        self.switch(cpu, Some(self.space));
        drop(ManuallyDrop::into_inner(child));
    }

    /// This CPU runs another space from now on.
    fn switch(&self, cpu: usize, space: Option<&AddressSpace<Kernel<G>>>) {
        let (root, asid) = match space {
            Some(space) => {
                let bus = &space.embedder().bus;
                (space.root().bits(), self.asids.switch(bus, cpu, space.context()))
            }
            None => (super::EMPTY, 0),
        };
        for (register, value) in self.parameters.roots(root, asid) {
            self.board.event(Event::Write { register, value });
        }
        self.board.event(Event::Barrier(Barrier::Isb));
        if space.is_none() {
            self.asids.leave(cpu);
        }
    }

    /// An access at EL0, with the faults that it takes, up to one that the space refuses.
    fn access(&mut self, space: &AddressSpace<Kernel<G>>, address: u64, kind: Kind) {
        // A TLB may keep what makes an access fault for as long as nobody has it forget that. Of a contiguous group it could have that
        // again each time, from another member.
        let keeps_faults = !self.has_folios() && self.seed.one_in(2);
        for _ in 0..MOST_FAULTS {
            self.board.event(Event::Enter(Level::El0));
            let outcome = self.look(address, kind, keeps_faults);
            self.board.event(Event::Enter(Level::El1));
            if let Outcome::Translated(_) = outcome {
                return;
            }
            self.done.faults += 1;
            if matches!(outcome, Outcome::Fault(fault) if fault.kind == FaultKind::Conflict) {
                self.forget_everything();
                continue;
            }
            // What a program runs may be anywhere, and go meanwhile.
            let (whose, page) = (self.seed.index(self.parameters.cpus), self.seed.below(OWN));
            let text = OfBoard { board: self.board, is_sound: &|turn, frame| Self::is_sound(turn, frame, Kind::Read) };
            let access = Access { address, kind }.made_at(Self::at(whose, page), &text);
            self.done.atomics += u64::from(access.kind == Kind::Atomic);
            if space.fault(access).is_err() {
                return;
            }
        }
        self.expect("answer a fault", false);
    }

    /// The answer to a TLB conflict abort (RBLRKC).
    fn forget_everything(&self) {
        self.board.event(Event::ConflictAbort);
        self.board.event(event_of(Maintenance::Invalidate(TlbiOp::VMALLE1, 0)));
        self.board.event(event_of(Maintenance::Barrier(maintenance::Barrier::DSB_NSH)));
        self.board.event(Event::Barrier(Barrier::Isb));
    }

    /// What an access comes to, one of all that it may come to, each of which is judged.
    fn look(&mut self, address: u64, kind: Kind, keeps_faults: bool) -> Outcome {
        let seed = &mut self.seed;
        self.board.step(|turn, cpu| {
            let access = if kind == Kind::Write { AccessKind::Write } else { AccessKind::Read };
            let ways = turn.machine.ways(cpu, address, access);
            for way in &ways {
                let Outcome::Translated(output) = way.outcome else { continue };
                if !Self::is_sound(turn, output, kind) {
                    turn.fail(format!("{kind:?} at {address:#x} may reach {output:#x}, which is not its own"));
                }
            }
            let fault = ways.iter().rfind(|way| keeps_faults && matches!(way.outcome, Outcome::Fault(_)));
            let way = *fault.unwrap_or_else(|| seed.pick(&ways));
            if let (Kind::Write, Outcome::Translated(output)) = (kind, way.outcome) {
                turn.machine.store(cpu, output, ATOMIC);
            }
            if let Some(update) = &way.update {
                turn.machine.update_by_hardware(cpu, update);
            }
            way.outcome
        })
    }

    /// Whether an access of a program's may reach this address.
    fn is_sound(turn: &Turn, output: u64, kind: Kind) -> bool {
        let frame = output & !(G::SIZE_BYTES - 1);
        match (kind, turn.frames.get(&frame)) {
            (Kind::Write, Some(count)) => *count == 1 || turn.forks > 0,
            (_, count) => count.is_some() || kind != Kind::Write && is_zeros(frame),
        }
    }

    /// No CPU can do more than `allowed` with a page any more.
    fn revoked(&self, first: u64, allowed: Permissions) {
        let (tag, asid) = (Tag::el10(0), Some(self.space.context().asid()));
        self.board.event(Event::Revoked { tag, asid, first, last: first + G::SIZE_BYTES - 1, allowed });
    }

    fn expect(&self, what: &str, is_done: bool) {
        if !is_done {
            self.board.step(|turn, _| turn.fail(format!("the space does not {what}")));
        }
    }
}
