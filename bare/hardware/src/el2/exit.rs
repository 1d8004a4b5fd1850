//! What the vectors do: the guest's exceptions go to the monitor, and come back; the monitor's own end the machine.

use vmsa::Syndrome;

pub use crate::kind::Kind;
use crate::registers::read_register;

/// The registers of the guest, as `vectors.s` saves them and puts them back.
#[repr(C)]
#[derive(Debug)]
pub struct Frame {
    /// x0 to x30.
    pub registers: [u64; 31],
    /// ELR_EL2: where the guest goes on.
    pub return_address: u64,
    /// SPSR_EL2: its PSTATE.
    pub status: u64,
    /// ESR_EL2.
    pub syndrome: u64,
    /// FAR_EL2.
    pub fault_address: u64,
    /// HPFAR_EL2, valid for stage-2 faults as [`Exit::fault_page`] says.
    pub fault_page: u64,
}

/// The guest has come to EL2.
#[derive(Debug)]
pub struct Exit<'f> {
    /// Which kind of exception brought it.
    pub kind: Kind,
    /// Its registers, which are what it goes on with.
    pub frame: &'f mut Frame,
}

impl Exit<'_> {
    /// ESR_EL2, decoded.
    pub fn syndrome(&self) -> Syndrome {
        Syndrome::new(self.frame.syndrome)
    }

    /// The page of intermediate physical memory that a stage-2 translation or access flag fault, or any stage-2 fault
    /// on a walk, was about: HPFAR_EL2.FIPA (D19.2.62).
    pub fn fault_page(&self) -> u64 {
        (self.frame.fault_page & 0x0000_0fff_ffff_fff0) << 8
    }

    /// Lets the guest go on behind the 4-byte instruction that brought it.
    pub fn skip_instruction(&mut self) {
        self.frame.return_address = self.frame.return_address.wrapping_add(4);
    }

    /// The value of a register by its number in a syndrome, where 31 is XZR.
    pub fn register(&self, number: u32) -> u64 {
        self.frame.registers.get(number as usize).copied().unwrap_or(0)
    }

    /// Sets a register by its number in a syndrome; XZR takes nothing.
    pub fn set_register(&mut self, number: u32, value: u64) {
        if let Some(register) = self.frame.registers.get_mut(number as usize) {
            *register = value;
        }
    }
}

/// An exception in the monitor.
#[derive(Clone, Copy, Debug)]
pub struct OwnException {
    /// Which kind.
    pub kind: Kind,
    /// ESR_EL2.
    pub syndrome: Syndrome,
    /// ELR_EL2.
    pub instruction: u64,
    /// FAR_EL2.
    pub address: u64,
}

unsafe extern "C" {
    #[allow(improper_ctypes)]
    safe fn handle_guest_exit(exit: &mut Exit);
    #[allow(improper_ctypes)]
    safe fn report_own_exception(exception: &OwnException) -> !;
}

/// Called by `save_guest`, with the vector's index.
#[unsafe(no_mangle)]
extern "C" fn handle_exit(index: u64, frame: &mut Frame) {
    handle_guest_exit(&mut Exit { kind: Kind::of(index), frame });
}

/// Called by `report_own`.
#[unsafe(no_mangle)]
extern "C" fn handle_own_exception(index: u64, syndrome: u64, instruction: u64, address: u64) -> ! {
    let kind = Kind::of(index);
    report_own_exception(&OwnException { kind, syndrome: Syndrome::new(syndrome), instruction, address })
}

/// The number of this CPU, 0 for the first: TPIDR_EL2, which the entry code sets.
pub fn cpu_index() -> usize {
    read_register!("tpidr_el2") as usize
}

/// Whether this CPU's EL2 translates (SCTLR_EL2.M); for EL2 alone.
pub fn is_mmu_on() -> bool {
    read_register!("sctlr_el2") & 1 == 1
}
