//! The kernel's assembly: it runs at EL1.

use core::arch::global_asm;
use core::mem::offset_of;

use crate::boot::Boot;
use crate::caught::Record;
use crate::conflict::record;
use crate::frame::Frame;
use crate::per_cpu::PerCpu;
use crate::secondary::{self, Answer, StartRecord};
use crate::stack;

global_asm!(
    include_str!("../asm/header.s"),
    include_str!("../asm/entry.s"),
    PER_CPU_EMERGENCY_STACK = const offset_of!(PerCpu, emergency_stack),
    BOOT_DEVICE_TREE = const offset_of!(Boot, device_tree),
    BOOT_COUNTER = const offset_of!(Boot, counter),
    BOOT_TRANSLATION = const offset_of!(Boot, translation),
);
const _: () = assert!(offset_of!(Boot, exception_level) == offset_of!(Boot, device_tree) + 8);
const _: () = assert!(offset_of!(Boot, load_address) == offset_of!(Boot, counter) + 8);

global_asm!(include_str!("../asm/switch.s"));
global_asm!(include_str!("../asm/parking.s"));

const PER_CPU_CONFLICT: usize = offset_of!(PerCpu, conflict);

global_asm!(
    include_str!("../asm/frame.s"),
    include_str!("../asm/conflict.s"),
    include_str!("../asm/vectors.s"),
    CONFLICT_SCRATCH = const PER_CPU_CONFLICT + offset_of!(record::Record, scratch),
    CONFLICT_COUNTS = const PER_CPU_CONFLICT + offset_of!(record::Record, counts),
    CONFLICT_LAST = const PER_CPU_CONFLICT + offset_of!(record::Record, last),
    CONFLICT_RESIZES = const PER_CPU_CONFLICT + offset_of!(record::Record, resizes),
    CONFLICT_REPEATS = const PER_CPU_CONFLICT + offset_of!(record::Record, repeats),
    CONFLICT_PATIENCE = const PER_CPU_CONFLICT + offset_of!(record::Record, patience),
    PER_CPU_EMERGENCY_STACK = const offset_of!(PerCpu, emergency_stack),
    FRAME_SIZE = const size_of::<Frame>(),
    FRAME_ELR = const offset_of!(Frame, return_address),
    FRAME_ESR = const offset_of!(Frame, syndrome),
);
const _: () = assert!(size_of::<Frame>().is_multiple_of(16));
const _: () = assert!(offset_of!(Frame, stack_pointer) == 248);
const _: () = assert!(offset_of!(Frame, status) == offset_of!(Frame, return_address) + 8);
const _: () = assert!(offset_of!(Frame, fault_address) == offset_of!(Frame, syndrome) + 8);

global_asm!(
    include_str!("../asm/user.s"),
    PER_CPU_USER = const offset_of!(PerCpu, user),
    FRAME_ELR = const offset_of!(Frame, return_address),
    FRAME_ESR = const offset_of!(Frame, syndrome),
);
const _: () = assert!(offset_of!(PerCpu, kernel_stack) == offset_of!(PerCpu, user) + 8);

global_asm!(
    include_str!("../asm/catch.s"),
    PER_CPU_CATCH = const offset_of!(PerCpu, catch),
    CATCH_REGISTERS = const offset_of!(Record, registers),
    CATCH_STACK = const offset_of!(Record, stack_pointer),
    CATCH_OUTER = const offset_of!(Record, outer),
);
const _: () = assert!(offset_of!(Record, masks) == offset_of!(Record, stack_pointer) + 8);

global_asm!(
    include_str!("../asm/secondary.s"),
    START_TRANSLATION = const offset_of!(StartRecord, translation),
    START_STACK = const offset_of!(StartRecord, stack),
    START_PER_CPU = const offset_of!(StartRecord, per_cpu),
    START_ENTRY = const offset_of!(StartRecord, entry),
    START_CONDUIT = const offset_of!(StartRecord, is_smc),
    START_GATE = const offset_of!(StartRecord, gate),
    START_ANSWER = const offset_of!(StartRecord, answer),
    TURNED_AWAY = const secondary::TURNED_AWAY,
    ANSWER_MMFR0 = const offset_of!(Answer, mmfr0),
    ANSWER_MIDR = const offset_of!(Answer, midr),
);
const _: () = assert!(offset_of!(StartRecord, exception_stack) == offset_of!(StartRecord, stack) + 8);
const _: () = assert!(offset_of!(StartRecord, vectors) == offset_of!(StartRecord, per_cpu) + 8);
const _: () = assert!(offset_of!(StartRecord, argument) == offset_of!(StartRecord, entry) + 8);
const _: () = assert!(offset_of!(Answer, isar0) == offset_of!(Answer, midr) + 8);
const _: () = assert!(offset_of!(Answer, mmfr2) == offset_of!(Answer, mmfr0) + 8);

global_asm!(
    include_str!("../asm/stacks.s"),
    BOOT_STACK_BYTES = const stack::BOOT_BYTES,
    BOOT_EXCEPTION_STACK_BYTES = const stack::BOOT_EXCEPTION_BYTES,
    BOOT_EMERGENCY_STACK_BYTES = const stack::BOOT_EMERGENCY_BYTES,
);
