//! Calls to the monitor beneath: functions of the vendor-specific hypervisor service (Arm DEN 0028), and any others.

use smccc::{Call, Hvc, Smc};

use crate::psci::Conduit;

const EXIT: u32 = 0xc600_0001;

/// Ends the machine with an exit status. Returns if what is beneath does not know the call; with nothing beneath, HVC is
/// undefined.
pub fn exit(status: u32) {
    call(Conduit::Hvc, EXIT, [status.into(), 0, 0, 0]);
}

/// Calls a function of the 64-bit convention with x1 to x4, and gives x0 to x3. With nothing beneath, the call is undefined.
pub fn call(conduit: Conduit, function: u32, arguments: [u64; 4]) -> [u64; 4] {
    let mut all = [0; 17];
    all[..4].copy_from_slice(&arguments);
    let [x0, x1, x2, x3, ..] = match conduit {
        Conduit::Hvc => Hvc::call64(function, all),
        Conduit::Smc => Smc::call64(function, all),
    };
    [x0, x1, x2, x3]
}
