//! The guest as a realm: RSI, by SMC. What is asked and what the host does about it [`moncore::realm`] decides.

use common::supply::ChangeError;
use hardware::el2::exit::cpu_index;
use hardware::lock::Lock;
use moncore::call;
use moncore::counts::Event;
use moncore::realm::{ACCEPT, Answer, Asked, Decision, ERROR_INPUT, ERROR_UNKNOWN, Host, SUCCESS, Settings};
use moncore::realm::{GRANULE_BYTES, Space, State, error};
use spin::Once;

use crate::cpus::COUNTS;
use crate::{memory, stage2};

static HOST: Lock<Option<Host>> = Lock::new(None);
static SPACE: Once<Space> = Once::new();

/// The guest is a realm from now on, if there are settings for one.
pub(crate) fn set_up(settings: Option<Settings>) {
    let Some(settings) = settings else { return };
    SPACE.call_once(|| settings.space);
    HOST.with(|host| *host = Some(Host::new(settings)));
}

/// Answers a call of RSI, given the registers of an SMC; `None` if it is none, or the guest no realm.
pub(crate) fn answer(registers: &[u64; 31]) -> Option<Answer> {
    let space = *SPACE.get()?;
    let asked = Asked::decode(&core::array::from_fn(|index| registers[index]), space)?;
    count(Event::Rsi);
    let answer = match asked {
        Asked::Answered(answer) => answer,
        Asked::Configuration { address } => configuration(address, space),
        Asked::SetState { base, top, state } => set_state(base, top, state),
        Asked::GetState { base, top } => {
            let (state, end) = stage2::state(base..top);
            [SUCCESS, end, state as u64, 0]
        }
        Asked::HostCall { address } => host_call(address),
    };
    if answer[0] != SUCCESS {
        count(Event::RsiError);
    }
    Some(answer)
}

/// What SMCCC_VERSION answers: RSI is for 1.2 and later (Arm DEN 0137, B1.1).
pub(crate) fn convention_version() -> u64 {
    if SPACE.get().is_some() { call::CONVENTION_VERSION_OF_REALMS } else { call::CONVENTION_VERSION }
}

fn count(event: Event) {
    COUNTS.add(cpu_index(), event);
}

/// The answer to a call about a page: it was none, it could not be shown, or all is done.
fn done(result: Option<Result<(), ChangeError>>) -> Answer {
    match result {
        None => error(ERROR_INPUT),
        Some(Err(_)) => error(ERROR_UNKNOWN),
        Some(Ok(())) => [SUCCESS, 0, 0, 0],
    }
}

/// RSI_REALM_CONFIG: a granule that begins with the bits of an address. The hash algorithm is SHA-256, whose number is 0,
/// and so is the personalization value.
fn configuration(address: u64, space: Space) -> Answer {
    let written = stage2::with_private_page(address, |page| {
        page.fill(0);
        page.write(0, space.bits().into());
    });
    done(written)
}

/// RSI_HOST_CALL, to which this host answers in registers of the structure: to the immediate 0 with the monitor's UID in
/// the first four, to any other with NOT_SUPPORTED in the first.
fn host_call(address: u64) -> Answer {
    let answered = stage2::with_private_page(address, |page| {
        let start = (address % GRANULE_BYTES / 8) as usize;
        let immediate = page.read(start) as u16;
        let answer: &[u64] = if immediate == 0 { &call::UID } else { &[call::NOT_SUPPORTED] };
        for (register, value) in answer.iter().enumerate() {
            page.write(start + 1 + register, *value);
        }
    });
    done(answered)
}

/// RSI_IPA_STATE_SET.
fn set_state(base: u64, top: u64, state: State) -> Answer {
    let memory_end = memory::guests_end(base);
    let decided = HOST.with(|host| host.as_mut().map(|host| host.decide(base..top, state, memory_end)));
    match decided.unwrap_or(Decision::Refused(error(ERROR_UNKNOWN))) {
        Decision::Refused(answer) => {
            if answer[0] == SUCCESS {
                count(Event::RsiRefused);
            }
            answer
        }
        Decision::Until(end) => {
            let reached = stage2::set_state(base..end, state);
            if reached == base {
                return error(ERROR_UNKNOWN);
            }
            if reached < top {
                count(Event::RsiPartial);
            }
            [SUCCESS, reached, ACCEPT, 0]
        }
    }
}
