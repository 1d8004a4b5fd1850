//! Calls to the monitor beneath, by functions of the vendor-specific hypervisor service (Arm DEN 0028).

use core::ops::Range;

use smccc::{Call, Hvc};

const EXIT: u32 = 0xc600_0001;
const BEGIN_RESIZE: u32 = 0xc600_0002;
const END_RESIZE: u32 = 0xc600_0003;

/// Ends the machine with an exit status. Returns if what is beneath does not know the call; with nothing beneath, HVC is
/// undefined.
pub fn exit(status: u32) {
    let mut arguments = [0; 17];
    arguments[0] = status.into();
    Hvc::call64(EXIT, arguments);
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
    let mut arguments = [0; 17];
    arguments[..2].copy_from_slice(&[range.start, range.end]);
    Hvc::call64(function, arguments)[0] == 0
}
