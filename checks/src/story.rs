//! A run in words: what each CPU did, line by line, and what is wrong with it.

use std::fmt::Write;

use machine::event::Event;
use machine::seed::Seed;

use crate::calling::Calling;
use crate::explore::random;
use crate::failure::Failure;
use crate::mutation::Mutation;
use crate::prepare::Prepared;
use crate::request::{Reply, Request, Software};
use crate::run::{Run, Told};
use crate::scenario::Step;
use crate::schedule::Schedule;
use crate::sharing::Sharing;
use crate::suite::Trial;

/// Runs a schedule and tells it. The failure, if it still fails.
pub fn tell(schedule: &Schedule, trial: Trial, mutation: Option<Mutation>) -> (String, Option<Failure>) {
    let mut prepared = Prepared::new(trial.scenario(&schedule.without), mutation);
    let mut text = String::new();
    let _ = writeln!(text, "{} (seed {}): {}", trial.workload.name, trial.seed, trial.workload.about);
    let _ = writeln!(text, "  {}", prepared.start.scenario.parameters);
    if let Some(mutation) = mutation {
        let _ = writeln!(text, "  mutant: {mutation}");
    }
    if let Some(failure) = &prepared.failure {
        let _ = writeln!(text, "While the page table was built: {failure}");
        return (text, prepared.failure.clone());
    }
    if let Some(seed) = schedule.tlb {
        prepared = prepared.into_concrete(Seed::new(seed));
    }
    for (cpu, program) in prepared.start.scenario.programs.iter().enumerate() {
        program.iter().for_each(|step| {
            let _ = writeln!(text, "  CPU {cpu} is to: {}", describe_step(step));
        });
    }
    let _ = writeln!(text, "What happens, by event of the machine:");
    let mut run: Run = prepared.run(Sharing::default()).tell();
    let ran = random::replay_run(&prepared, &mut run, &schedule.choices);
    write_log(&mut text, &run.take_log());
    let failure = ran.caught.map(|caught| caught.failure);
    match &failure {
        Some(failure) => {
            let _ = writeln!(text, "{failure}");
        }
        None => {
            let _ = writeln!(text, "Nothing is wrong with this run.");
        }
    }
    (text, failure)
}

fn describe_step(step: &Step) -> String {
    match step {
        Step::Change { region, changes, permit } => {
            format!("change region {region} by licence {permit:?}: {changes:x?}")
        }
        Step::Linear { region, ranges, wanted: Some(wanted), context } => {
            format!("make {ranges:x?} of region {region} {wanted:?}, by the linear map ({context:?})")
        }
        Step::Linear { region, wanted: None, .. } => format!("heal region {region}, by the linear map"),
        Step::Finish => "finish its gather".to_string(),
        Step::Access { address, kind, .. } => format!("{kind:?} at {address:#x}"),
        Step::Synchronize => "synchronize".to_string(),
        Step::Join(region) => format!("join the page table once region {region} is changed"),
        Step::Arrive => "be counted by the linear map, and walk the page table".to_string(),
        Step::Recognize { place, .. } => format!("recognize the instruction at {place:#x}"),
        Step::Update(address, kind) => format!("let hardware update the leaf of {address:#x} for a {kind:?}"),
    }
}

/// Stores that follow each other are one line, and so are TLBIs, so that a table's filling does not hide the rest.
fn write_log(text: &mut String, log: &[Told]) {
    let kind = |told: &Told| match told.asked.request {
        Request::Event(Event::Store { .. }) => Some(None),
        Request::Event(Event::Tlbi { opcode, .. }) => Some(Some(opcode)),
        _ => None,
    };
    let is_alike = |one: &Told, other: &Told| {
        let is_same_kind = kind(one).is_some() && kind(one) == kind(other);
        is_same_kind && one.cpu == other.cpu && one.asked.site == other.asked.site
    };
    let shown: Vec<&Told> = log.iter().filter(|told| is_worth_telling(told)).collect();
    for group in shown.chunk_by(|one, other| is_alike(one, other)) {
        let first = group[0];
        let file = first.asked.site.file().rsplit('/').next().unwrap_or_default();
        let more = if group.len() > 1 { format!(" and {} more", group.len() - 1) } else { String::new() };
        let _ = writeln!(
            text,
            "{:>7}  CPU {}  {:<62} {file}:{}",
            first.event,
            first.cpu,
            describe(&first.asked.request, first.reply) + &more,
            first.asked.site.line()
        );
    }
}

fn is_worth_telling(told: &Told) -> bool {
    match &told.asked.request {
        Request::Load(_) => false,
        Request::Software(what) => !matches!(
            what,
            Software::Take
                | Software::Give(_)
                | Software::Await(..)
                | Software::Publish(_)
                | Software::Settled(_)
                | Software::Latest(_)
                | Software::Calling(Calling::Walking)
        ),
        _ => true,
    }
}

fn describe(request: &Request, reply: Reply) -> String {
    match request {
        Request::Load(address) => format!("loads {address:#x}"),
        Request::Access { address, kind, .. } => format!("{kind:?} at {address:#x}"),
        Request::Look(look) => format!("{} {:#x}: {reply:x?}", if look.is_load { "reads" } else { "AT" }, look.address),
        Request::Update(address, kind) => format!("hardware updates the leaf of {address:#x} for a {kind:?}"),
        Request::Software(Software::Begin { region, .. }) => format!("begins a change of region {region}"),
        Request::Software(Software::Settle(region)) => format!("has completed its changes of region {region}"),
        Request::Software(Software::Calling(what)) => format!("{what:?}"),
        Request::Software(what) => format!("{what:?}"),
        Request::Event(event) => describe_event(event, reply),
    }
}

fn describe_event(event: &Event, reply: Reply) -> String {
    match event {
        Event::Store { address, value, .. } => format!("stores {value:#x} to {address:#x}"),
        Event::CompareExchange { address, expected, value } => match reply {
            Reply::Refused(found) => format!("finds {found:#x} at {address:#x}, not {expected:#x}"),
            _ => format!("exchanges {expected:#x} for {value:#x} at {address:#x}"),
        },
        Event::Barrier(barrier) => format!("{barrier}"),
        Event::Tlbi { opcode, operand } => {
            let op = opcode.decode().map_or_else(|| format!("{opcode:?}"), |op| op.to_string());
            format!("{op} {operand:#x}")
        }
        Event::Release { address, size_bytes, owned } => {
            format!("gives away {owned:?} {address:#x}, {size_bytes:#x} bytes")
        }
        Event::Revoked { first, last, allowed, .. } => format!("relies on {first:#x}..={last:#x} being {allowed}"),
        other => format!("{other:?}"),
    }
}
