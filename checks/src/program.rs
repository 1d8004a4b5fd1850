//! What runs on the CPUs: the engine itself, driven by the steps of a scenario.

use std::collections::BTreeMap;
use std::rc::Rc;

use machine::attributes::Permissions;
use machine::barrier::Barrier;
use machine::event::{Event, Level, Owned};
use pagetable::{Change, El1, Gather, Licence, PageTable, Refusal, Reserve, Retired};
use vmsa::{Geometry, Granule, Granule4K, Granule16K, Granule64K, PageSize, PhysAddr, Stage1Attributes};

use crate::calling::Calling;
use crate::content::{Content, Stretch, ends};
use crate::cpu::Cpu;
use crate::edited::{Edited, as_regime, translate};
use crate::linear::{Linear, Place};
use crate::parameters::ASID;
use crate::parked;
use crate::request::{Reply, Request, Software};
use crate::scenario::{Permit, Scenario, Step, window};
use crate::text;

/// Where a root of several tables lies.
const CONCATENATED: PhysAddr = PhysAddr::new(0x9_0000_0000);

/// Which program a CPU runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Builds the page table, before any CPU walks it.
    Build,
    /// The steps of this CPU; the root table is at this address.
    Steps(usize, u64),
    /// An interrupt of this CPU, which calls it to park off the root table at this address.
    Interrupt(usize, u64),
}

impl Part {
    /// The CPU that runs it.
    pub(crate) const fn cpu(self) -> u8 {
        match self {
            Self::Build => 0,
            Self::Steps(cpu, _) | Self::Interrupt(cpu, _) => cpu as u8,
        }
    }
}

/// Runs a program: the one place where granule and regime become types.
pub(crate) fn run(cpu: &Cpu<'_>, scenario: &Scenario, part: Part, place: &Place) {
    as_regime!(scenario.parameters.setting, R => match scenario.parameters.page_size {
        PageSize::Size4K => run_as::<Granule4K, R>(cpu, scenario, part, place),
        PageSize::Size16K => run_as::<Granule16K, R>(cpu, scenario, part, place),
        PageSize::Size64K => run_as::<Granule64K, R>(cpu, scenario, part, place),
    });
    cpu.flush();
}

fn run_as<G: Granule, R: Edited>(cpu: &Cpu<'_>, scenario: &Scenario, part: Part, place: &Place) {
    let Ok(geometry) = R::geometry::<G>(&scenario.parameters) else {
        return complain(cpu, "the parameters give no geometry".into());
    };
    let result = match part {
        Part::Build => build::<G, R>(cpu, scenario, geometry),
        Part::Interrupt(number, root) => {
            parked::answer_calls(cpu, scenario, number, root);
            Ok(())
        }
        Part::Steps(number, root) => PageTable::live(cpu, geometry, R::of(&scenario.parameters), PhysAddr::new(root))
            .and_then(|table| {
                let (reserve, open, parts) = (Reserve::new(), Vec::new(), BTreeMap::new());
                let linear =
                    Linear::new(cpu, number, scenario, place, |cpu, table| free_table(cpu, table, G::SIZE_BYTES));
                let mut editor = Editor { cpu, number, scenario, table, gather: None, reserve, open, parts, linear };
                let done = scenario.programs[number].iter().try_for_each(|step| editor.step(step));
                editor.end();
                done
            }),
    };
    if let Err(refusal) = result {
        complain(cpu, format!("the engine refuses what it has to do: {refusal}"));
    }
}

fn complain(cpu: &Cpu<'_>, text: String) {
    cpu.software(Software::Complain(Rc::from(text)));
}

/// Maps what every region holds at first, into a table that no CPU walks yet.
fn build<G: Granule, R: Edited>(cpu: &Cpu<'_>, scenario: &Scenario, geometry: Geometry<G>) -> Result<(), Refusal> {
    let mut reserve = Reserve::new();
    let regime = R::of(&scenario.parameters);
    let mut table = if geometry.root_tables() == 1 {
        supply(cpu, &mut reserve, 1);
        PageTable::offline(cpu, geometry, regime, &mut reserve)?
    } else {
        PageTable::offline_at(cpu, geometry, regime, CONCATENATED)?
    };
    for change in scenario.initial.iter().flatten() {
        let changes = [translate::<R>(change)];
        let mut plan = table.plan(&changes, None)?;
        supply(cpu, &mut reserve, plan.tables_needed());
        let mut gather = plan.gather();
        plan.apply(&mut reserve, &mut gather)?;
        free(cpu, gather.finish(cpu), G::SIZE_BYTES);
        text::tag_frames(cpu, change);
    }
    give_back(cpu, &mut reserve);
    let table = table.publish();
    let root = table.root().bits();
    let parameters = &scenario.parameters;
    for (register, value) in parameters.roots(root, parameters.tag(0)) {
        event(cpu, Event::Write { register, value });
    }
    event(cpu, Event::Barrier(Barrier::Isb));
    cpu.software(Software::Publish(root));
    Ok(())
}

/// Sees to it that a reserve holds `count` tables.
fn supply(cpu: &Cpu<'_>, reserve: &mut Reserve, count: usize) {
    while reserve.count() < count {
        match cpu.software(Software::Take) {
            Reply::Word(page) => reserve.add(cpu, PhysAddr::new(page)),
            Reply::Done | Reply::Refused(_) => return complain(cpu, "the pool is empty".into()),
        }
    }
}

fn give_back(cpu: &Cpu<'_>, reserve: &mut Reserve) {
    while let Some(page) = reserve.take(cpu) {
        cpu.software(Software::Give(page.bits()));
    }
}

/// Retired tables get new owners, who write what they like: here, what reads as a valid descriptor.
fn free(cpu: &Cpu<'_>, mut retired: Retired, page_bytes: u64) {
    while let Some(page) = retired.take(cpu) {
        free_table(cpu, page, page_bytes);
    }
}

fn free_table(cpu: &Cpu<'_>, page: PhysAddr, page_bytes: u64) {
    let address = page.bits();
    event(cpu, Event::Release { address, size_bytes: page_bytes, owned: Owned::Table });
    for slot in [0, 1, 7] {
        event(cpu, Event::Store { address: address + 8 * slot, value: poison(slot), is_release: false });
    }
    cpu.software(Software::Give(address));
}

/// What free memory is full of: a descriptor that leads where nothing is.
pub(crate) const fn poison(slot: u64) -> u64 {
    0x0000_00de_ad00_0703 + (slot << 16)
}

#[track_caller]
fn event(cpu: &Cpu<'_>, event: Event) {
    cpu.ask(Request::Event(event));
}

/// A program that edits its regions and looks at all of them.
struct Editor<'s, 'y, G: Granule, R: Edited> {
    cpu: &'s Cpu<'y>,
    number: usize,
    scenario: &'s Scenario,
    table: PageTable<'s, G, R, Cpu<'y>>,
    gather: Option<Gather<G, R>>,
    reserve: Reserve,
    /// Changes that are not complete: region, content before, change.
    open: Vec<(usize, usize, Vec<Change<El1>>)>,
    /// The page table as a linear map.
    linear: Linear<'s, 'y, G>,
    /// Regions that are claimed as parts.
    parts: BTreeMap<usize, pagetable::Part<'s, G, R, Cpu<'y>>>,
}

impl<'s, 'y, G: Granule, R: Edited> Editor<'s, 'y, G, R> {
    fn step(&mut self, step: &'s Step) -> Result<(), Refusal> {
        match step {
            Step::Change { region, changes, permit } => return self.change(*region, changes, *permit),
            Step::Linear { region, ranges, wanted, context } => {
                let Some((_, changes)) = step.changes() else { return Ok(()) };
                let before = self.settled(*region);
                let asked = (&ranges[..], *wanted, *context);
                if let Err(refused) = self.linear.make(self.table.root(), *region, &changes, asked) {
                    complain(self.cpu, format!("the linear map refuses what it has to do: {refused}"));
                }
                self.open.push((*region, before, changes));
                self.reuse_all();
            }
            Step::Finish => self.finish(),
            Step::Access { region, address, kind } => {
                let request = Request::Access { region: *region, address: *address, kind: *kind };
                self.at(self.scenario.parameters.setting.looks_at(), || {
                    self.cpu.ask(request);
                });
            }
            Step::Synchronize => event(self.cpu, Event::Barrier(Barrier::Isb)),
            Step::Join(region) => {
                let changes = self.scenario.regions[*region].contents.len() - 1;
                self.cpu.software(Software::Await(*region, changes));
                self.join();
            }
            Step::Arrive => {
                if let Err(refused) = self.linear.count(self.table.root()) {
                    complain(self.cpu, format!("no linear map: {refused}"));
                }
                self.join();
                self.cpu.software(Software::Calling(Calling::Arrived));
            }
            Step::Recognize { text, place, linear, choices } => {
                text::recognize(self.cpu, self.scenario, (*text, *place, *linear), choices);
            }
            Step::Update(address, kind) => {
                self.cpu.ask(Request::Update(*address, *kind));
            }
        }
        Ok(())
    }

    /// Does something at an exception level, and comes back from there.
    fn at(&self, level: Level, deed: impl FnOnce()) {
        let setting = self.scenario.parameters.setting;
        let here = if self.scenario.edits(self.number) { setting.edits_at() } else { setting.looks_at() };
        if level == here {
            return deed();
        }
        event(self.cpu, Event::Enter(level));
        deed();
        event(self.cpu, Event::Enter(here));
    }

    fn change(&mut self, region: usize, changes: &'s [Change<El1>], permit: Permit) -> Result<(), Refusal> {
        let (cpu, page_size) = (self.cpu, self.scenario.parameters.page_size);
        let windows = changes.iter().map(|change| window(&self.scenario.regions[region], change, page_size));
        let around = windows.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        let before = self.open.iter().rev().find(|open| open.0 == region).map(|open| open.1 + 1);
        let before = before.unwrap_or_else(|| self.settled(region));
        let parameters = &self.scenario.parameters;
        let bbm = match permit {
            // Nobody else is there to bear it.
            Permit::Parked => parameters.bbm.of(self.number),
            _ => parameters.bbm.weakest(parameters.cpus),
        };
        let permit = permit.at(bbm);
        cpu.software(Software::Begin {
            region,
            window: around.filter(|_| permit.has_window(bbm)),
            conflict: around.filter(|_| permit.is_abrupt(bbm)),
        });
        let (guard, census) = ((), parameters.census());
        let licence = match permit {
            Permit::None => None,
            Permit::Break => Some(Licence::break_before_make(&guard)),
            Permit::Tolerated => census.tolerated(),
            Permit::NotCached => census.not_cached(),
            Permit::Parked => Some(Licence::parked(&guard, parameters.tolerance(self.number))),
        };
        let translated: Vec<Change<R>> = changes.iter().map(translate).collect();
        if let (true, [change]) = (self.scenario.has_shortcuts, &translated[..]) {
            if !self.change_page(change, licence.as_ref()) {
                complain(cpu, "the shortcut does not change the page".into());
            }
            cpu.software(Software::Settle(region));
            self.open.push((region, before, changes.to_vec()));
            self.reuse_all();
            return Ok(());
        }
        if let Some(level) = self.scenario.parts {
            self.claim(region, ends(&changes[0]).0, level)?;
        }
        let mut plan = match self.parts.get_mut(&region) {
            Some(part) => part.plan(&translated, licence.as_ref())?,
            None => self.table.plan(&translated, licence.as_ref())?,
        };
        supply(cpu, &mut self.reserve, plan.tables_needed());
        let gather = self.gather.get_or_insert_with(|| plan.gather());
        plan.apply(&mut self.reserve, gather)?;
        changes.iter().for_each(|change| text::tag_frames(cpu, change));
        self.open.push((region, before, changes.to_vec()));
        Ok(())
    }

    /// The shortcut for one page, complete when it returns.
    fn change_page(&mut self, change: &Change<R>, licence: Option<&Licence<'_>>) -> bool {
        match change {
            Change::Protect { from, set, clear } => self.table.protect_page(from.start, *set, *clear, licence),
            Change::MakeInvalid { from } => self.table.make_page_valid(from.start, false, licence),
            Change::MakeValid { from } => self.table.make_page_valid(from.start, true, licence),
            _ => false,
        }
    }

    /// What is around an address, as far as one table of `level` reaches, becomes a part.
    fn claim(&mut self, region: usize, address: u64, level: vmsa::Level) -> Result<(), Refusal> {
        if !self.parts.contains_key(&region) {
            supply(self.cpu, &mut self.reserve, vmsa::Level::ALL.len());
            let gather = self.gather.get_or_insert_with(|| self.table.gather());
            let part = self.table.claim(address.into(), level, &mut self.reserve, gather)?;
            self.parts.insert(region, part);
        }
        Ok(())
    }

    /// Comes onto the page table. What this CPU held before was of another ASID, or of no page table at all.
    fn join(&self) {
        let parameters = &self.scenario.parameters;
        self.at(parameters.setting.edits_at(), || {
            for (register, value) in parameters.roots(self.table.root().bits(), parameters.tag(self.number as u8)) {
                event(self.cpu, Event::Write { register, value });
            }
            event(self.cpu, Event::Barrier(Barrier::Isb));
        });
    }

    /// How many changes of a region this program has completed: it alone changes it.
    fn settled(&self, region: usize) -> usize {
        match self.cpu.software(Software::Settled(region)) {
            Reply::Word(number) => number as usize,
            Reply::Done | Reply::Refused(_) => 0,
        }
    }

    /// Nothing stays open, and tables that were not used go back.
    fn end(&mut self) {
        for part in std::mem::take(&mut self.parts).into_values() {
            let gather = self.gather.get_or_insert_with(|| self.table.gather());
            self.table.release(part, gather);
        }
        self.finish();
        self.linear.end();
        give_back(self.cpu, &mut self.reserve);
    }

    fn finish(&mut self) {
        let Some(mut gather) = self.gather.take() else { return };
        let retired = gather.finish(self.cpu);
        for (region, ..) in &self.open {
            self.cpu.software(Software::Settle(*region));
        }
        free(self.cpu, retired, G::SIZE_BYTES);
        self.reuse_all();
    }

    fn reuse_all(&mut self) {
        for (region, before, changes) in std::mem::take(&mut self.open) {
            let contents = &self.scenario.regions[region].contents;
            let newest = self.settled(region);
            for change in &changes {
                self.reuse(change, &contents[before], &contents[newest]);
            }
        }
    }

    /// What was taken away is gone: rights are revoked, frames get new owners.
    fn reuse(&self, change: &Change<El1>, before: &Content, now: &Content) {
        let (first, last) = ends(change);
        for old in before.within(first, last) {
            let mut at = old.first;
            for new in now.within(old.first, old.last()) {
                self.lose(&old, at, new.first);
                self.revoke(new.first, new.last(), self.permissions(&new));
                at = new.last() + 1;
            }
            self.lose(&old, at, old.last() + 1);
        }
    }

    /// Nothing maps `from..to` any more, which `old` mapped.
    fn lose(&self, old: &Stretch, from: u64, to: u64) {
        if from >= to {
            return;
        }
        self.revoke(from, to - 1, Permissions::NONE);
        let address = old.output + (from - old.first);
        event(self.cpu, Event::Release { address, size_bytes: to - from, owned: Owned::Frame });
        event(self.cpu, Event::Store { address, value: poison(0), is_release: false });
    }

    fn revoke(&self, first: u64, last: u64, allowed: Permissions) {
        let parameters = &self.scenario.parameters;
        let asid = if parameters.is_global { None } else { Some(ASID) };
        for tag in parameters.setting.tags() {
            event(self.cpu, Event::Revoked { tag, asid, first, last, allowed });
        }
    }

    /// What the attributes grant.
    fn permissions(&self, stretch: &Stretch) -> Permissions {
        let parameters = &self.scenario.parameters;
        let is_accessed = stretch.attributes.contains(Stage1Attributes::AF) || parameters.hardware.0;
        if stretch.is_kept || !is_accessed { Permissions::NONE } else { stretch.granted(parameters) }
    }
}
