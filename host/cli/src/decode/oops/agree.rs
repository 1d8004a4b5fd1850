//! Whether the parts of a report agree, and what to look at next.

use vmsa::fields::SPSR_EL1;
use vmsa::{ExceptionClass, FaultStatus, Level, Rights, Syndrome, TableAttributes};

use super::super::conclusions;
use super::read::{Name, Report, System};
use super::walk::{End, Walk};

/// Which half an address is of, where its width is known.
pub(super) fn half(far: u64, bits: Option<u32>) -> String {
    let Some(bits) = bits.filter(|bits| (1..=52).contains(bits)) else {
        return conclusions::of(&vmsa::fields::FAR_EL1, far, None).into_iter().next().unwrap_or_default();
    };
    match is_upper(far, bits) {
        Some(true) => "upper half (TTBR1)".to_owned(),
        Some(false) => "lower half (TTBR0)".to_owned(),
        None => format!("in neither half of {bits} bits"),
    }
}

/// The half of an address, whatever its top byte; none where bits 55 to the width are not alike.
fn is_upper(far: u64, bits: u32) -> Option<bool> {
    let above = (far as i64) << 8 >> (8 + bits);
    match above {
        0 => Some(false),
        -1 => Some(true),
        _ => None,
    }
}

/// What agrees in a report, and what does not.
pub(super) fn agreement(report: &Report, walk: &Walk) -> Vec<(bool, String)> {
    let mut lines = Vec::new();
    for (name, what) in [(Name::Esr, "ESR"), (Name::Far, "FAR")] {
        let mut values: Vec<u64> = report.registers.iter().filter(|of| of.0 == name).map(|of| of.1).collect();
        values.sort_unstable();
        values.dedup();
        if let [one, .., other] = values[..] {
            lines.push((false, format!("{what} is {one:#x} and {other:#x}: two faults, or a line of another one")));
        }
    }
    let far = report.get(Name::Far);
    if let (Some(far), Some(of)) = (far, report.walk_of)
        && (far ^ of) << 8 != 0
    {
        lines.push((false, format!("the walk is of {of:#x}, and not of the address that faulted, {far:#x}")));
    }
    let Some(syndrome) = report.get(Name::Esr).map(Syndrome::new) else { return lines };
    if syndrome.is_address_unknown() {
        lines.push((true, "FnV is set: FAR does not hold the address".to_owned()));
    } else if let Some(far) = far.or(report.walk_of) {
        lines.extend(of_address(report, syndrome, far));
    }
    lines.extend(of_walk(report, walk, syndrome));
    lines
}

/// FAR against the widths, the tables and the exception level.
fn of_address(report: &Report, syndrome: Syndrome, far: u64) -> Option<(bool, String)> {
    let fault = syndrome.fault()?;
    let upper = report.bits.filter(|bits| (1..=52).contains(bits)).map(|bits| (bits, is_upper(far, bits)));
    match (upper, report.is_of_process) {
        (Some((bits, None)), _) => {
            let is_so = matches!(fault, FaultStatus::Translation(level) if level == Level::L0);
            let line =
                format!("{far:#x} is in neither half of {bits} bits: a translation fault of level 0, no table is read");
            Some((is_so, line))
        }
        (Some((_, Some(true))), Some(true)) => {
            Some((false, format!("{far:#x} is of the kernel's half, the tables are a process's")))
        }
        (Some((_, Some(false))), Some(false)) => {
            Some((false, format!("{far:#x} is of the lower half, the tables are the kernel's")))
        }
        _ => None,
    }
}

/// How the printed walk ends, against what ESR says.
fn of_walk(report: &Report, walk: &Walk, syndrome: Syndrome) -> Option<(bool, String)> {
    let fault = syndrome.fault()?;
    let meanwhile = "the tables were read after the fault: they changed meanwhile, the TLB held an older entry, or the CPU \
                     walked other tables";
    match walk.end {
        End::Unknown => {
            let last = walk.rows.last()?;
            Some((true, format!("the walk is printed to {} alone; ESR says {fault}", last[1])))
                .filter(|_| fault.level().is_some())
        }
        End::Fault(expected) if expected == fault => {
            let [name, level, ..] = walk.rows.last()?;
            Some((true, format!("{name}, of {level}, is the first that leads nowhere, as ESR says: {fault}")))
        }
        End::Fault(expected) => Some((false, format!("the walk ends in a {expected}, ESR says {fault}: {meanwhile}"))),
        End::Leaf { level, is_accessed, permissions } => {
            let access = access(syndrome);
            let whose = permissions.map(|of| if is_unprivileged(syndrome) { of.unprivileged } else { of.privileged });
            let is_refused = whose.is_some_and(|rights| !rights.contains(access.0));
            match fault {
                FaultStatus::AccessFlag(of) if !is_accessed && of == level => {
                    Some((true, format!("the leaf of {level} has AF = 0, as ESR says: {fault}")))
                }
                FaultStatus::Permission(of) if of == level && is_refused => Some((
                    true,
                    format!("{} {}, as ESR says: {fault}{}", who(walk, syndrome), access.1, why(walk, syndrome)),
                )),
                FaultStatus::Permission(of) if of == level && is_pan(report, walk, syndrome) => Some((
                    true,
                    format!("EL0 may access the page, and PSTATE.PAN keeps EL1 from it, as ESR says: {fault}"),
                )),
                FaultStatus::Translation(_)
                | FaultStatus::AccessFlag(_)
                | FaultStatus::Permission(_)
                | FaultStatus::AddressSize(_) => {
                    let is = match (is_accessed, is_refused) {
                        (false, _) => "has AF = 0".to_owned(),
                        (true, true) => format!("does not permit it ({} {})", who(walk, syndrome), access.1),
                        (true, false) => "permits it".to_owned(),
                    };
                    Some((
                        false,
                        format!("the walk ends at a leaf of {level} that {is}, ESR says {fault}: {meanwhile}"),
                    ))
                }
                _ => None,
            }
        }
    }
}

fn is_unprivileged(syndrome: Syndrome) -> bool {
    matches!(syndrome.class(), ExceptionClass::DataAbortLowerEl | ExceptionClass::InstructionAbortLowerEl)
}

fn access(syndrome: Syndrome) -> (Rights, &'static str) {
    match (syndrome.is_instruction_abort(), syndrome.is_write()) {
        (true, _) => (Rights::EXECUTE, "does not execute there"),
        (false, true) => (Rights::WRITE, "does not write there"),
        (false, false) => (Rights::READ, "does not read there"),
    }
}

fn who(walk: &Walk, syndrome: Syndrome) -> &'static str {
    if is_unprivileged(syndrome) { "EL0" } else { walk.root.regime.privileged() }
}

/// The tables that forbid what the leaf may permit.
fn why(walk: &Walk, syndrome: Syndrome) -> String {
    let limit = match (access(syndrome).0, is_unprivileged(syndrome), walk.root.control.has_one_privilege) {
        (Rights::EXECUTE, false, false) => TableAttributes::PXN,
        (Rights::EXECUTE, ..) => TableAttributes::UXN,
        (Rights::WRITE, ..) => TableAttributes::READ_ONLY,
        _ => TableAttributes::NO_USER,
    };
    let of: Vec<String> =
        walk.limits.iter().filter(|(_, limits)| limits.contains(limit)).map(|(level, _)| level.to_string()).collect();
    if of.is_empty() { String::new() } else { format!(" (tables of {} forbid it too)", of.join(", ")) }
}

/// Whether PAN explains a permission fault: EL1 may, EL0 may too, and the saved PSTATE has PAN, or nobody says.
fn is_pan(report: &Report, walk: &Walk, syndrome: Syndrome) -> bool {
    let End::Leaf { permissions: Some(permissions), .. } = walk.end else { return false };
    let is_on = report.get(Name::Spsr).is_none_or(|spsr| SPSR_EL1.the("PAN").get(spsr) != 0);
    is_on && syndrome.is_data_abort() && !is_unprivileged(syndrome) && permissions.unprivileged.intersects(Rights::DATA)
}

/// Values that allocators and lists of Linux leave where nothing may be used any more.
const POISON: [(u64, u64, &str); 4] = [
    (0xdead_0000_0000_0100, 0x100, "LIST_POISON1: next of an entry that was deleted from its list"),
    (0xdead_0000_0000_0122, 0x100, "LIST_POISON2: prev of an entry that was deleted from its list"),
    (0x6b6b_6b6b_6b6b_6b6b, 0x1000, "slab poison: the object was freed"),
    (0x5a5a_5a5a_5a5a_5a5a, 0x1000, "slab poison: the object was never written"),
];

/// What to look at next.
pub(super) fn next(report: &Report, walk: &Walk) -> Vec<String> {
    let Some(syndrome) = report.get(Name::Esr).map(Syndrome::new) else {
        return vec!["ESR says why it faulted: the line with it is missing".to_owned()];
    };
    let far = report.get(Name::Far).or(report.walk_of);
    let range = far.map_or("START-END".to_owned(), |far| {
        format!("{:#x}-{:#x}", far & !0xfff, (far & !0xfff).wrapping_add(0x1000))
    });
    let dump = format!("vellum dump SOURCE --range {range}");
    let mut lines = Vec::new();
    if let Some(far) = far {
        let poison = POISON
            .iter()
            .find(|(value, reach, _)| report.system == Some(System::Linux) && far.wrapping_sub(*value) < *reach);
        match poison {
            Some((.., what)) => lines.push(format!("{far:#x} is {what}")),
            None if far < 0x1000 => {
                lines.push(format!("a null pointer and {far:#x} bytes: the pointer that the instruction at ELR reads"))
            }
            None => {}
        }
    }
    let line = match (syndrome.fault(), syndrome.class()) {
        (Some(FaultStatus::Translation(_)), _) => format!("whether the address is mapped now: {dump}"),
        (Some(FaultStatus::AccessFlag(_)), _) => {
            "set AF when the leaf is made, or TCR.HA for hardware to set it: decode tcr".to_owned()
        }
        (Some(FaultStatus::Permission(_)), _) => format!("what the page permits now, and who changed it: {dump}"),
        (Some(FaultStatus::AddressSize(_)), _) => {
            "an output address, or the TTBR, has more bits than TCR.IPS or PS allows: decode tcr, vellum check SOURCE"
                .to_owned()
        }
        (Some(FaultStatus::ExternalOnWalk(level)), _) => match walk.table.filter(|_| walk.end == End::Unknown) {
            Some(table) => format!("whether the table of {level} at {table:#x} is memory: vellum dump SOURCE --tables"),
            None => format!("whether the table of {level} is memory: vellum dump SOURCE --tables"),
        },
        (Some(FaultStatus::External), _) => {
            format!("what answers at the output address: memory that is missing, or a device without clock: {dump}")
        }
        (Some(FaultStatus::TlbConflict), _) => {
            "who changes a live leaf's size without break-before-make: vellum judge, vellum audit".to_owned()
        }
        (Some(FaultStatus::Alignment), _) => {
            format!("whether the memory is Device, where every access must be aligned: {dump}")
        }
        (Some(FaultStatus::GranuleProtection(_)), _) => {
            "which world the physical page belongs to: the granule protection table".to_owned()
        }
        (_, ExceptionClass::SystemError) => {
            "SError: FAR does not hold an address; the access may be long past".to_owned()
        }
        (_, ExceptionClass::BreakpointInstruction) => {
            "the instruction at ELR is a BRK: an assertion of the program".to_owned()
        }
        _ => "the instruction at ELR: vellum decode esr says each field".to_owned(),
    };
    lines.push(line);
    if report.get(Name::Hpfar).is_some() && is_unprivileged(syndrome) {
        lines.push(
            "a guest's fault of stage 2 is of the intermediate address in HPFAR: vellum dump SOURCE --part stage2"
                .to_owned(),
        );
    }
    lines
}
