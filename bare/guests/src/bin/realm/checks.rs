//! What every CPU checks with pages of its own.

use guests::rsi::{self, EMPTY, ERROR_INPUT, ERROR_UNKNOWN, GRANULE_BYTES, NOT_SUPPORTED, RAM, SUCCESS, VERSION_1_0};
use guests::rsi::{FEATURES, HOST_CALL, IPA_STATE_GET, IPA_STATE_SET, REALM_CONFIG, VERSION};
use hardware::hypercall;
use hardware::psci::Conduit;

use crate::access::{Outcome, fetch, page, range, read, write};
use crate::facts::unprotected;
use crate::found::{Found, SCRUBBED, expect, expect_all, expect_outcome};
use crate::refusals::set;
use crate::{changes, rings, together};

type Check = fn(usize) -> Result<(), Found>;

/// Each check, and its name.
pub(crate) const CHECKS: [(&str, Check); 12] = [
    ("the version is 1.0, and there are no features", version),
    ("the configuration is one granule", configuration),
    ("arguments that are not right are refused", arguments),
    ("attestation is not there, nor is anything by HVC", absent),
    ("memory is RAM and devices are EMPTY", first_states),
    ("shared memory is at its unprotected address alone", sharing),
    ("what changes hands keeps nothing, and what does not keeps all", contents),
    ("the host answers a call", host_call),
    ("the host prints a ring that is shared, and believes none of its numbers", rings::print),
    ("there is no RAM where there is no memory", no_memory),
    ("random changes are what a model says", changes::at_random),
    ("a page changes hands for every CPU at once", together::change_hands),
];

/// QEMU's UART.
const UART: u64 = 0x0900_0000;

fn version(_: usize) -> Result<(), Found> {
    for (asked, result) in [(VERSION_1_0, SUCCESS), (0x1_0001, ERROR_INPUT), (0x2_0000, ERROR_INPUT), (0, ERROR_INPUT)]
    {
        expect_all([result, VERSION_1_0, VERSION_1_0, 0], rsi::call(VERSION, [asked, 1, 2, 3]))?;
    }
    [0, 1, u64::MAX].into_iter().try_for_each(|index| expect_all([0; 4], rsi::call(FEATURES, [index, 1, 2, 3])))
}

fn configuration(cpu: usize) -> Result<(), Found> {
    let page = page(cpu, 0);
    (0..512).for_each(|index| page.write(index, !0));
    expect_all([SUCCESS, 0, 0, 0], rsi::call(REALM_CONFIG, [page.address(), 1, 2, 3]))?;
    expect(unprotected(), 1 << (page.read(0) - 1))?;
    (1..512).try_for_each(|index| expect(0, page.read(index)))
}

fn arguments(cpu: usize) -> Result<(), Found> {
    let ((start, end), half) = (range(cpu, 0, 2), unprotected());
    let ranges = [
        (start + 1, end),
        (start, end - 8),
        (end, start),
        (start, start),
        (start, half + GRANULE_BYTES),
        (start + half, end + half),
        (!(GRANULE_BYTES - 1), 0),
        (start, !(GRANULE_BYTES - 1)),
    ];
    for (base, top) in ranges {
        expect_all([ERROR_INPUT, 0, 0, 0], rsi::call(IPA_STATE_GET, [base, top, 0, 0]))?;
        for state in [EMPTY, RAM] {
            expect_all([ERROR_INPUT, 0, 0, 0], rsi::call(IPA_STATE_SET, [base, top, state, 0]))?;
        }
    }
    for state in [2, 3, 255] {
        expect_all([ERROR_INPUT, 0, 0, 0], rsi::call(IPA_STATE_SET, [start, end, state, 1]))?;
    }
    for address in [start + 8, start + half, half, UART, u64::MAX] {
        expect_all([ERROR_INPUT, 0, 0, 0], rsi::call(REALM_CONFIG, [address, 0, 0, 0]))?;
        expect_all([ERROR_INPUT, 0, 0, 0], rsi::call(HOST_CALL, [address, 0, 0, 0]))?;
    }
    expect_all([ERROR_INPUT, 0, 0, 0], rsi::call(REALM_CONFIG, [start + 256, 0, 0, 0]))?;
    expect_all([ERROR_INPUT, 0, 0, 0], rsi::call(HOST_CALL, [start + 128, 0, 0, 0]))
}

fn absent(cpu: usize) -> Result<(), Found> {
    let (start, end) = range(cpu, 0, 1);
    for function in (0xc400_0192..=0xc400_0195).chain(0xc400_019a..=0xc400_01af) {
        expect(NOT_SUPPORTED, rsi::call(function, [start, end, 0, 0])[0])?;
    }
    let by_hvc = |function| hypercall::call(Conduit::Hvc, function, [start, end, EMPTY, 1])[0];
    [VERSION, REALM_CONFIG, IPA_STATE_SET]
        .into_iter()
        .try_for_each(|function| expect(NOT_SUPPORTED, by_hvc(function)))?;
    expect_all([SUCCESS, end, RAM, 0], rsi::call(IPA_STATE_GET, [start, end, 0, 0]))
}

fn first_states(cpu: usize) -> Result<(), Found> {
    let (start, end) = range(cpu, 0, 4);
    expect_all([SUCCESS, end, RAM, 0], rsi::call(IPA_STATE_GET, [start, end, 0, 0]))?;
    expect_outcome(Outcome::external_data_abort(start + unprotected()), read(cpu, start + unprotected()))?;
    let devices = rsi::call(IPA_STATE_GET, [UART, UART + GRANULE_BYTES, 0, 0]);
    expect_all([SUCCESS, UART + GRANULE_BYTES, EMPTY, 0], devices)?;
    expect_outcome(Outcome::external_data_abort(UART), read(cpu, UART))
}

fn sharing(cpu: usize) -> Result<(), Found> {
    let ((before, _), (start, end)) = (range(cpu, 3, 4), range(cpu, 4, 12));
    let behind = end + GRANULE_BYTES;
    set(start, end, EMPTY)?;
    expect_all([SUCCESS, start, RAM, 0], rsi::call(IPA_STATE_GET, [before, behind, 0, 0]))?;
    expect_all([SUCCESS, end, EMPTY, 0], rsi::call(IPA_STATE_GET, [start, behind, 0, 0]))?;
    expect_all([SUCCESS, behind, RAM, 0], rsi::call(IPA_STATE_GET, [end, behind, 0, 0]))?;
    for address in (start..end).step_by(GRANULE_BYTES as usize) {
        let alias = address + unprotected();
        expect_outcome(Outcome::external_data_abort(address + 8), read(cpu, address + 8))?;
        expect_outcome(Outcome::external_data_abort(address), write(cpu, address, 1))?;
        expect_outcome(Outcome::external_instruction_abort(address), fetch(address))?;
        expect_outcome(Outcome::external_instruction_abort(alias), fetch(alias))?;
        expect_outcome(Outcome::Done(0), write(cpu, alias, address))?;
        expect_outcome(Outcome::Done(address), read(cpu, alias))?;
        expect_all([ERROR_INPUT, 0, 0, 0], rsi::call(REALM_CONFIG, [address, 0, 0, 0]))?;
        expect_all([ERROR_INPUT, 0, 0, 0], rsi::call(HOST_CALL, [address, 0, 0, 0]))?;
    }
    set(start, end, RAM)?;
    for address in (start..end).step_by(GRANULE_BYTES as usize) {
        let alias = address + unprotected();
        expect_outcome(Outcome::external_data_abort(alias), read(cpu, alias))?;
        expect_outcome(Outcome::external_data_abort(alias), write(cpu, alias, 1))?;
        expect_outcome(Outcome::Done(SCRUBBED), read(cpu, address))?;
    }
    Ok(())
}

fn contents(cpu: usize) -> Result<(), Found> {
    let (start, end) = range(cpu, 0, 1);
    let last = end - 8;
    let alias = last + unprotected();
    expect_outcome(Outcome::Done(0), write(cpu, last, 1))?;
    set(start, end, RAM)?;
    expect_outcome(Outcome::Done(1), read(cpu, last))?;
    set(start, end, EMPTY)?;
    expect_outcome(Outcome::Done(SCRUBBED), read(cpu, alias))?;
    expect_outcome(Outcome::Done(0), write(cpu, alias, 2))?;
    set(start, end, EMPTY)?;
    expect_outcome(Outcome::Done(2), read(cpu, alias))?;
    set(start, end, RAM)?;
    expect_outcome(Outcome::Done(SCRUBBED), read(cpu, last))
}

/// The monitor's UID.
const UID: [u64; 4] = [0x5f7e_0c5a, 0x93d1_4b7c, 0x8d2e_7665, 0x6c6c_756d];

fn host_call(cpu: usize) -> Result<(), Found> {
    let page = page(cpu, 1);
    for (at, immediate, answer) in [(0, 0, &UID[..]), (256, 7, &[NOT_SUPPORTED]), (3840, 0x1_0000, &UID)] {
        (0..512).for_each(|index| page.write(index, !index as u64));
        page.write(at / 8, immediate);
        expect_all([SUCCESS, 0, 0, 0], rsi::call(HOST_CALL, [page.address() + at as u64, 1, 2, 3]))?;
        for index in 0..512_usize {
            let expected = match index.checked_sub(at / 8) {
                Some(0) => immediate,
                Some(word) if word <= answer.len() => answer[word - 1],
                _ => !index as u64,
            };
            expect(expected, page.read(index))?;
        }
    }
    Ok(())
}

fn no_memory(_: usize) -> Result<(), Found> {
    let (start, end) = (UART, UART + 4 * GRANULE_BYTES);
    // A host that answers with errors may do so here, too.
    match rsi::call(IPA_STATE_SET, [start, end, RAM, 0]) {
        [ERROR_UNKNOWN, ..] => {}
        answer => expect_all([SUCCESS, start, 1, 0], answer)?,
    }
    expect_all([SUCCESS, end, EMPTY, 0], rsi::call(IPA_STATE_GET, [start, end, 0, 0]))?;
    set(start, end, EMPTY)
}
