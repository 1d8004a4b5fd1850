//! Calls to the monitor beneath, by functions of the vendor-specific hypervisor service (Arm DEN 0028).

use smccc::{Call, Hvc};

const EXIT: u32 = 0xc600_0001;

/// Ends the machine with an exit status. Returns if what is beneath does not know the call; with nothing beneath, HVC is
/// undefined.
pub fn exit(status: u32) {
    let mut arguments = [0; 17];
    arguments[0] = status.into();
    Hvc::call64(EXIT, arguments);
}
