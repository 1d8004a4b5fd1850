//! System registers that trap: the ID registers, which may say something else, and those that the guest does not have.

use hardware::el2::exit::{Exit, cpu_index};
use hardware::el2::guest::{Injected, inject};
use hardware::el2::identification;
use hardware::maintenance::maintain;
use hardware::registers;
use moncore::counts::Event;
use moncore::identity::Register;
use vmsa::{Maintenance, TlbiOp};

use crate::conflicts;
use crate::cpus::{self, COUNTS};

/// The fields of a trapped MSR, MRS or system instruction: ISS of EC 0x18 (D17.2.37).
struct Access {
    is_read: bool,
    target: u32,
    /// op0, op1, CRn, CRm, op2.
    name: (u32, u32, u32, u32, u32),
}

impl Access {
    const fn decode(specific: u32) -> Self {
        let name =
            (specific >> 20 & 3, specific >> 14 & 7, specific >> 10 & 15, specific >> 1 & 15, specific >> 17 & 7);
        Self { is_read: specific & 1 == 1, target: specific >> 5 & 31, name }
    }

    /// The TLBI of EL1 that was trapped.
    fn tlbi(&self) -> Option<TlbiOp> {
        let (1, 0, crn @ 8..=9, crm, op2) = self.name else { return None };
        TlbiOp::decode(0, crn as u8, crm as u8, op2 as u8)
    }
}

/// Answers a trapped access.
pub(crate) fn handle(exit: &mut Exit) {
    let access = Access::decode(exit.syndrome().specific());
    // What a CPU does not have is undefined at EL1 and does not trap; should it trap all the same, executing it here must not
    // be this CPU's end.
    if let Some(op) = access.tlbi().filter(|op| registers::read_id_registers().has_tlbi(*op)) {
        COUNTS.add(cpu_index(), Event::Tlbi);
        // With HCR_EL2.{E2H, TGE} = {0, 0} it means EL1&0 here too, under the guest's VMID; the guest's own DSB waits for
        // it, for it is the same CPU's.
        maintain(Maintenance::Invalidate(moncore::conflicts::of_both_stages(op), exit.register(access.target)));
        exit.skip_instruction();
        return conflicts::note_tlbi(exit, op);
    }
    let value = match access.name {
        _ if !access.is_read => None,
        (3, 0, 0, crm @ 1..=7, op2) => Some(cpus::id_register(Register { crm, op2 })),
        (3, 0, 0, 0, 6) => Some(cpus::revision()),
        (3, 1, 0, 0, 6) => identification::read_streaming(),
        (3, 1, 0, 0, 7) => Some(identification::read_auxiliary()),
        _ => None,
    };
    match value {
        Some(value) => {
            COUNTS.add(cpu_index(), Event::IdRegister);
            exit.set_register(access.target, value);
            exit.skip_instruction();
        }
        None => {
            COUNTS.add(cpu_index(), Event::UnknownRegister);
            inject(exit, Injected::Undefined);
        }
    }
}
