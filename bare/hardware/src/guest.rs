//! The part of our own guests: they begin with the MMU off, run any instruction, and pass over what it does.

pub mod translating;

use core::cell::UnsafeCell;
use core::ptr;

use vmsa::PhysAddr;

use crate::cache;
use crate::psci::{Conduit, PsciError};
use crate::registers::read_register;

/// CPUs that are supported.
pub const CPUS: usize = 8;
/// Bytes of each CPU's stack.
pub(crate) const STACK_BYTES: usize = 32 << 10;

/// Instructions that are run, in a page of each CPU's own: the instruction and a RET. QEMU, which translates code by pages,
/// may go on with old code where two CPUs write in one.
#[repr(C, align(4096))]
struct Code(UnsafeCell<[[u32; 1024]; CPUS]>);

// SAFETY: each CPU uses its own part alone.
unsafe impl Sync for Code {}

static CODE: Code = Code(UnsafeCell::new([[0; 1024]; CPUS]));
const RET: u32 = 0xd65f_03c0;

unsafe extern "C" {
    fn guest_execute(x0: u64, x1: u64, x2: u64, x3: u64, code: u64) -> u64;
    fn guest_secondary_entry();
}

/// Runs one instruction on CPU `cpu` with these values in x0 to x3; gives what is in x0 then. An exception passes it over.
///
/// # Safety
///
/// This is CPU `cpu`, below [`CPUS`]. The instruction keeps the registers that a call must keep, and the memory, the
/// vectors, the MMU and the masks of this program; or it faults.
pub unsafe fn execute(cpu: usize, instruction: u32, registers: [u64; 4]) -> u64 {
    let code = CODE.0.get().cast::<[u32; 1024]>();
    // SAFETY: this CPU's own page; `cpu` is below the length.
    let page = unsafe { code.add(cpu) }.cast::<u32>();
    // SAFETY: within the page, which this CPU alone uses.
    unsafe { ptr::write_volatile(page.cast::<[u32; 2]>(), [instruction, RET]) };
    cache::synchronize_instructions(page as usize..page as usize + 8);
    let [x0, x1, x2, x3] = registers;
    // SAFETY: the caller's promise; every CPU's fetches see the code.
    unsafe { guest_execute(x0, x1, x2, x3, page as u64) }
}

/// Calls what is at `address`, which is to refuse the fetch.
///
/// # Safety
///
/// If it does not, this program is lost.
pub unsafe fn fetch(address: u64) {
    // SAFETY: the caller's promise.
    unsafe { guest_execute(0, 0, 0, 0, address) };
}

/// Synchronous exceptions of this CPU so far.
pub fn read_exceptions() -> u64 {
    let count = read_register!("tpidr_el1") as *const u64;
    // SAFETY: the entry code put the address of this CPU's count there, which its vectors write.
    unsafe { count.read_volatile() }
}

/// ESR_EL1 and FAR_EL1: what the last exception of this CPU was about.
pub fn read_fault() -> (u64, u64) {
    (read_register!("esr_el1"), read_register!("far_el1"))
}

/// Starts another CPU, with the number `cpu`, below [`CPUS`]: it enters `guest_secondary`.
///
/// # Safety
///
/// No CPU runs with that number.
pub unsafe fn start(cpu: usize, affinity: u64) -> Result<(), PsciError> {
    const CPU_ON: u32 = 0xc400_0003;
    let entry = PhysAddr::new(guest_secondary_entry as *const () as u64);
    // SAFETY: the program runs at physical addresses, and the entry expects the number.
    unsafe { Conduit::Hvc.cpu_on(CPU_ON, affinity, entry, cpu as u64) }
}

/// Hands a guest's functions to the assembly: `main` with the address of the device tree, `secondary` with the number of
/// the CPU.
#[macro_export]
macro_rules! guest_entry_points {
    (main: $main:path, secondary: $secondary:path $(,)?) => {
        const _: () = {
            #[unsafe(no_mangle)]
            extern "C" fn guest_main(device_tree: u64) -> ! {
                let main: fn(u64) -> ! = $main;
                main(device_tree)
            }
            #[unsafe(no_mangle)]
            extern "C" fn guest_secondary(cpu: usize) -> ! {
                let secondary: fn(usize) -> ! = $secondary;
                secondary(cpu)
            }
        };
    };
}
