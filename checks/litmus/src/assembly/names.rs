//! Names of TLBIs, barriers and conditions, as assemblers spell them. (DDI 0487, C5.5, C6.2)

use a64::instruction::Flag;
use machine::barrier::{Accesses, Barrier, Domain};
use machine::tlbi::Opcode;

/// The opcode of a TLBI by its name, in capitals: `VAE1IS`, `RVALE1ISNXS`.
pub(super) fn tlbi(name: &str) -> Option<Opcode> {
    let (name, crn) = name.strip_suffix("NXS").map_or((name, 8), |name| (name, 9));
    let (name, scope) = if let Some(name) = name.strip_suffix("IS") {
        (name, Scope::Inner)
    } else if let Some(name) = name.strip_suffix("OS") {
        (name, Scope::Outer)
    } else {
        (name, Scope::Local)
    };
    // A range form has a CRm of its own, and otherwise the numbers of the single one.
    let (name, is_range) = match name.strip_prefix('R') {
        Some(rest) if rest.starts_with("VA") || rest.starts_with("IPA") => (rest, true),
        _ => (name, false),
    };
    if name.starts_with("IPAS2") {
        return intermediate(name, scope, is_range).map(|(crm, op2)| Opcode::new(4, crn, crm, op2));
    }
    let (op1, op2) = match name {
        "VMALLE1" => (0, 0),
        "VAE1" => (0, 1),
        "ASIDE1" => (0, 2),
        "VAAE1" => (0, 3),
        "VALE1" => (0, 5),
        "VAALE1" => (0, 7),
        "ALLE2" => (4, 0),
        "VAE2" => (4, 1),
        "ALLE1" => (4, 4),
        "VALE2" => (4, 5),
        "VMALLS12E1" => (4, 6),
        _ => return None,
    };
    let crm = match (scope, is_range) {
        (Scope::Outer, false) => 1,
        (Scope::Inner, true) => 2,
        (Scope::Inner, false) => 3,
        (Scope::Outer, true) => 5,
        (Scope::Local, true) => 6,
        (Scope::Local, false) => 7,
    };
    Some(Opcode::new(op1, crn, crm, op2))
}

#[derive(Clone, Copy)]
enum Scope {
    Local,
    Inner,
    Outer,
}

fn intermediate(name: &str, scope: Scope, is_range: bool) -> Option<(u32, u32)> {
    let last = match name {
        "IPAS2E1" => 0,
        "IPAS2LE1" => 4,
        _ => return None,
    };
    Some(match (scope, is_range) {
        (Scope::Inner, false) => (0, 1 + last),
        (Scope::Inner, true) => (0, 2 + last),
        (Scope::Local, false) => (4, 1 + last),
        (Scope::Local, true) => (4, 2 + last),
        (Scope::Outer, false) => (4, last),
        (Scope::Outer, true) => (4, 3 + last),
    })
}

/// A DSB or DMB by its operand, in capitals: `ISHST`, `SY`, `LD`; with nXS for DSB.
pub(super) fn barrier(is_dsb: bool, name: &str) -> Option<Barrier> {
    let (name, is_nxs) = name.strip_suffix("NXS").map_or((name, false), |name| (name, true));
    let (name, accesses) = if let Some(name) = name.strip_suffix("LD") {
        (name, Accesses::Loads)
    } else if let Some(name) = name.strip_suffix("ST") {
        (name, Accesses::Stores)
    } else {
        (name, Accesses::All)
    };
    let domain = match name {
        "NSH" => Domain::NonShareable,
        "ISH" => Domain::Inner,
        "OSH" => Domain::Outer,
        "SY" => Domain::System,
        "" if accesses != Accesses::All => Domain::System,
        _ => return None,
    };
    match is_dsb {
        true => Some(Barrier::Dsb { domain, accesses, is_nxs }),
        false if is_nxs => None,
        false => Some(Barrier::Dmb { domain, accesses }),
    }
}

/// A condition by its name, in capitals.
pub(super) fn flag(name: &str) -> Option<Flag> {
    Some(match name {
        "EQ" => Flag::Eq,
        "NE" => Flag::Ne,
        "CS" | "HS" => Flag::Hs,
        "CC" | "LO" => Flag::Lo,
        "MI" => Flag::Mi,
        "PL" => Flag::Pl,
        "HI" => Flag::Hi,
        "LS" => Flag::Ls,
        "GE" => Flag::Ge,
        "LT" => Flag::Lt,
        "GT" => Flag::Gt,
        "LE" => Flag::Le,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every name is the machine's own name for what it decodes the opcode to.
    #[test]
    fn names_of_tlbis_are_those_that_the_machine_prints() {
        let mut known = 0;
        for base in [
            "VMALLE1",
            "VAE1",
            "ASIDE1",
            "VAAE1",
            "VALE1",
            "VAALE1",
            "ALLE2",
            "VAE2",
            "ALLE1",
            "VALE2",
            "VMALLS12E1",
            "IPAS2E1",
            "IPAS2LE1",
            "RVAE1",
            "RVAAE1",
            "RVALE1",
            "RVAALE1",
            "RVAE2",
            "RVALE2",
            "RIPAS2E1",
            "RIPAS2LE1",
        ] {
            for scope in ["", "IS", "OS"] {
                for (nxs, printed) in [("", ""), ("NXS", "nXS")] {
                    let opcode = tlbi(&format!("{base}{scope}{nxs}")).expect(base);
                    let operation = opcode.decode().expect(base);
                    assert_eq!(operation.to_string(), format!("TLBI {base}{scope}{printed}"));
                    known += 1;
                }
            }
        }
        assert_eq!(known, 21 * 6);
        assert_eq!(tlbi("VAE3"), None);
    }

    #[test]
    fn barriers_are_those_that_the_machine_prints() {
        for name in ["SY", "ISH", "ISHST", "ISHLD", "NSH", "OSH", "NSHLD", "ST", "LD"] {
            assert_eq!(barrier(true, name).expect(name).to_string(), format!("DSB {name}"));
            assert_eq!(barrier(false, name).expect(name).to_string(), format!("DMB {name}"));
        }
        assert_eq!(barrier(true, "SYNXS").expect("nXS").to_string(), "DSB SYnXS");
        assert_eq!((barrier(true, ""), barrier(true, "FOO"), barrier(false, "SYNXS")), (None, None, None));
    }
}
