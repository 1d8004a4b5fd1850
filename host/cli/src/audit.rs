//! `vellum audit`: a guest of QEMU's runs as it always does, and the rules of the simulated machine judge what it does to its page
//! tables meanwhile.
//!
//! ```text
//! command line + plugin ──guest──▶ QEMU ──socket──▶ messages ──tell──▶ stories with symbols, a summary
//! ```

mod excuses;
mod forget;
mod frames;
mod guest;
mod symbols;
mod tell;

use terminal::Ending;

use crate::args::AuditArguments;
use crate::say;
use crate::select::Failure;
use excuses::Excuses;
use guest::{Asked, Ended, Guest};
use symbols::Symbols;
use tell::Teller;

/// Runs the command.
pub(crate) fn run(arguments: &AuditArguments) -> Result<Ending, Failure> {
    // QEMU hears of Ctrl-C too, and ends; what was found is told then.
    let _held = image::interrupt::hold();
    let symbols = arguments.symbols.as_deref().map_or(Ok(Symbols::default()), Symbols::read)?;
    let excuses = arguments.excuses.as_deref().map_or(Ok(Excuses::default()), Excuses::read)?;
    let frees = arguments.frames.as_deref().map_or(Ok(Vec::new()), |path| frames::read(path, &symbols))?;
    let guest = Guest::new(&arguments.command, arguments.plugin.as_deref(), frees)?;
    let mut teller = Teller::new(&symbols, &excuses, arguments.json);
    if arguments.forget.iter().any(|it| it == "all") {
        if arguments.stop {
            return Err(Failure("--forget all runs on its own, expected no --stop".into()));
        }
        return forget::run(&guest, &teller, &symbols, &arguments.only, &arguments.cpu);
    }
    let forgotten = arguments.forget.iter().map(|it| symbols.place(it)).collect::<Result<Vec<u64>, Failure>>()?;
    let (trace, cpu, stops) = (arguments.trace.clone(), arguments.cpu.clone(), arguments.stop);
    let asked = Asked { forgotten, trace, cpu, stops, is_silent: false };
    let ended = guest.run(&asked, &mut |message| {
        if message.get("held").is_some() {
            say::note(halted(&guest));
        }
        teller.take(message)
    })?;
    conclude(&teller, &ended)
}

/// What a person does with a guest that is halted.
fn halted(guest: &Guest) -> String {
    let at = if guest.has_debugger() { "where your command line lets a debugger in" } else { guest::DEBUGGER };
    format!("the guest is halted: a debugger looks at it ({at}), and lets it go on; nothing else halts it")
}

fn conclude(teller: &Teller<'_>, ended: &Ended) -> Result<Ending, Failure> {
    if !ended.is_connected {
        return Err(Failure(format!(
            "QEMU ended ({}) before the guest began; nothing was judged: see what QEMU says above",
            ended.status
        )));
    }
    let Some(end) = teller.end() else {
        return Err(Failure(format!(
            "QEMU ended ({}) in the middle of the audit: see what QEMU says above",
            ended.status
        )));
    };
    teller.summary(end).lines().for_each(say::note);
    match end["cut"].as_str() {
        Some(cut) => Err(Failure(format!("not everything was judged: {cut}"))),
        None if teller.findings() > 0 => Ok(Ending::Wrong),
        None => Ok(Ending::Clean),
    }
}
