//! Calls to the monitor beneath: functions of the vendor-specific hypervisor service (Arm DEN 0028), and any others.

use core::ops::Range;

use smccc::{Call, Hvc, Smc};

use crate::psci::Conduit;

const EXIT: u32 = 0xc600_0001;
const BEGIN_RESIZE: u32 = 0xc600_0002;
const END_RESIZE: u32 = 0xc600_0003;

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

/// Announces that live leaves of a range of virtual addresses change size from now on, so that TLB conflict aborts may come
/// there. Whether that was noted.
pub fn begin_resize(range: Range<u64>) -> bool {
    announce(BEGIN_RESIZE, range)
}

/// Announces that every TLB has forgotten what such a range was. Whether its beginning had been announced.
pub fn end_resize(range: Range<u64>) -> bool {
    announce(END_RESIZE, range)
}

fn announce(function: u32, range: Range<u64>) -> bool {
    call(Conduit::Hvc, function, [range.start, range.end, 0, 0])[0] == 0
}
