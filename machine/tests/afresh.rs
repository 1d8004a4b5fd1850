//! What is remembered changes no verdict: machines that compute every answer afresh find the same, step by step.

use crate::common::random;

use crate::common::random::Setting;
use crate::common::unmapped::Shape;
use machine::event::Event;
use machine::machine::Machine;
use machine::seed::Seed;
use machine::trace::{Judge, Trace};

/// Debug builds hold every answer against the plain way by themselves, and are slow.
const RUNS: u64 = if cfg!(debug_assertions) { 2 } else { 40 };

/// Both machines after `event`: what an access may do, what was found, and what they are in.
fn agree(cpu: u8, event: &Event, machines: &mut [Machine; 2], story: &str) {
    if let Event::Access { address, kind } = *event {
        let [one, other] = machines.each_mut().map(|it| it.ways(cpu, address, kind));
        assert_eq!(one, other, "{story}");
    } else {
        machines.iter_mut().for_each(|it| it.apply(cpu, event));
    }
    let [one, other] = machines.each_mut().map(Machine::take_findings);
    assert_eq!(one, other, "{story}");
    assert_eq!(machines[0].digest(), machines[1].digest(), "{story}");
}

fn random_events_are_judged_alike(setting: Setting) {
    for run in 0..RUNS {
        let mut seed = Seed::new(run);
        let machine = random::machine(&mut seed, setting);
        let cpus = machine.cpus().len() as u64;
        let mut machines = [machine.clone(), machine];
        machines[1].remember_nothing();
        for step in 0..200 {
            let cpu = seed.below(cpus) as u8;
            let event = match seed.below(24) {
                0 => random::release(&mut seed),
                _ => random::event(&mut seed, setting),
            };
            agree(cpu, &event, &mut machines, &format!("{setting:?}, seed {run}, step {step}: {event:x?}"));
        }
    }
}

for_each_setting! { random_events_are_judged_alike }

/// What a judge says of each line, and at the end.
fn judged(text: &str, remembers: bool) -> Vec<String> {
    let trace = Trace::read(text).expect("a trace");
    let mut judge = Judge::new(&trace, true);
    if !remembers {
        judge.remember_nothing();
    }
    while judge.step().expect("it makes sense") {}
    judge.findings().iter().map(|it| format!("{it:x?}")).collect()
}

#[test]
fn traces_are_judged_alike() {
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/trace")).expect("the folder");
    let files = folder.map(|it| it.expect("a file").path()).filter(|it| it.extension().is_some_and(|it| it == "trace"));
    let texts: Vec<String> = files.map(|it| std::fs::read_to_string(it).expect("text")).collect();
    assert!(!texts.is_empty());
    for text in texts.into_iter().chain(Shape::all(6).iter().map(Shape::trace)) {
        assert_eq!(judged(&text, true), judged(&text, false), "{text}");
    }
}
