//! Names of TLBIs, barriers and conditions, as assemblers spell them. (DDI 0487, C5.5, C6.2)

use a64::decode::barriers;
use a64::instruction::Flag;
use machine::barrier::Barrier;
use machine::tlbi::Opcode;

/// The opcode of a TLBI by its name, in capitals: the machine's own name for what it decodes, `VAE1IS`, `RVALE1ISNXS`.
pub(super) fn tlbi(name: &str) -> Option<Opcode> {
    let name = format!("TLBI {name}");
    let numbers = [0, 4].into_iter().flat_map(|op1| [8, 9].map(|crn| (op1, crn)));
    let all = numbers.flat_map(|(op1, crn)| (0..128).map(move |low| Opcode::new(op1, crn, low >> 3, low & 7)));
    all.into_iter().find(|it| it.decode().is_some_and(|it| it.to_string().eq_ignore_ascii_case(&name)))
}

/// A DSB or DMB by its operand, in capitals, as the machine prints it: `ISHST`, `SY`, `LD`; with nXS for DSB.
pub(super) fn barrier(is_dsb: bool, name: &str) -> Option<Barrier> {
    let name = format!("{} {name}", if is_dsb { "DSB" } else { "DMB" });
    barriers().find(|it| it.to_string().eq_ignore_ascii_case(&name))
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
    use machine::barrier::{Accesses, Domain};

    use super::*;

    /// Every opcode that the machine decodes has a name, and no other opcode has it.
    #[test]
    fn names_lead_back_to_their_opcodes() {
        let mut known = 0;
        for opcode in (0..1 << 14).map(|bits| Opcode::new(bits >> 11, bits >> 7, bits >> 3, bits)) {
            let Some(operation) = opcode.decode() else { continue };
            let name = operation.to_string().to_ascii_uppercase();
            assert_eq!(tlbi(name.strip_prefix("TLBI ").expect("a TLBI")), Some(opcode), "{name}");
            known += 1;
        }
        assert_eq!(known, 21 * 6);
        assert_eq!(tlbi("VAE3"), None);
    }

    #[test]
    fn barriers_are_those_that_the_machine_prints() {
        let dsb = |domain, accesses, is_nxs| Some(Barrier::Dsb { domain, accesses, is_nxs });
        assert_eq!(barrier(true, "ISHST"), dsb(Domain::Inner, Accesses::Stores, false));
        assert_eq!(barrier(true, "LD"), dsb(Domain::System, Accesses::Loads, false));
        assert_eq!(barrier(true, "SYNXS"), dsb(Domain::System, Accesses::All, true));
        assert_eq!(barrier(false, "NSH"), Some(Barrier::Dmb { domain: Domain::NonShareable, accesses: Accesses::All }));
        assert_eq!((barrier(true, ""), barrier(true, "FOO"), barrier(false, "SYNXS")), (None, None, None));
    }
}
