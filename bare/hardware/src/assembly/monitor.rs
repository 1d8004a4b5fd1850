//! The monitor's assembly: it runs at EL2.

use core::arch::global_asm;
use core::mem::offset_of;

use crate::el2::boot::Boot;
use crate::el2::exit::Frame;
use crate::el2::secondary::StartRecord;
use crate::el2::stack;

global_asm!(
    include_str!("../asm/header.s"),
    include_str!("../asm/monitor/entry.s"),
    STACK_STRIDE = const stack::STRIDE_BYTES,
    BOOT_DEVICE_TREE = const offset_of!(Boot, device_tree),
    BOOT_LOAD_ADDRESS = const offset_of!(Boot, load_address),
    BOOT_TRANSLATION = const offset_of!(Boot, translation),
    START_TRANSLATION = const offset_of!(StartRecord, translation),
    START_STACK = const offset_of!(StartRecord, stack),
);
const _: () = assert!(offset_of!(Boot, exception_level) == offset_of!(Boot, device_tree) + 8);
const _: () = assert!(offset_of!(StartRecord, index) == offset_of!(StartRecord, stack) + 8);

global_asm!(
    include_str!("../asm/frame.s"),
    include_str!("../asm/monitor/vectors.s"),
    EMERGENCY_SHIFT = const stack::EMERGENCY_BYTES.ilog2(),
    FRAME_SIZE = const size_of::<Frame>(),
    FRAME_SPSR = const offset_of!(Frame, status),
    FRAME_FAR = const offset_of!(Frame, fault_address),
);
const _: () = assert!(size_of::<Frame>().is_multiple_of(16));
const _: () = assert!(offset_of!(Frame, return_address) == 248);
const _: () = assert!(offset_of!(Frame, syndrome) == offset_of!(Frame, status) + 8);
const _: () = assert!(offset_of!(Frame, fault_page) == offset_of!(Frame, fault_address) + 8);

global_asm!(
    include_str!("../asm/monitor/stacks.s"),
    CPUS = const stack::CPUS,
    STACK_STRIDE = const stack::STRIDE_BYTES,
    EMERGENCY_SHIFT = const stack::EMERGENCY_BYTES.ilog2(),
);
