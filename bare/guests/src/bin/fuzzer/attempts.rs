//! One attempt after the other: a call, a system instruction, an access, a fetch.

use core::sync::atomic::{AtomicU64, Ordering};

use guests::rsi;
use hardware::guest::{execute, fetch, read_exceptions};
use hardware::image;
use kerncore::ring::PRINT_FUNCTION;
use seed::Seed;

/// Where 2 MiB of the monitor's memory start: its image, and its tables.
pub(crate) static HIDDEN_BELOW: AtomicU64 = AtomicU64::new(0);
pub(crate) static HIDDEN_ABOVE: AtomicU64 = AtomicU64::new(0);
/// Where unprotected addresses begin, or 0 where this guest is no realm.
pub(crate) static UNPROTECTED: AtomicU64 = AtomicU64::new(0);
/// Where nothing is: above devices, and above every physical address.
const NOWHERE: [u64; 3] = [1 << 41, 1 << 47, 1 << 52];
const HIDDEN_BYTES: u64 = 2 << 20;
/// The last bytes of this guest's memory, which nothing uses.
const PLAYGROUND_BYTES: u64 = 4 << 20;

/// HVC #0 and SMC #0; the immediate is bits 20:5.
const HVC: u32 = 0xd400_0002;
const SMC: u32 = 0xd400_0003;

/// Functions that would end the machine or this CPU, or wait for an interrupt that does not come.
const ENDING: [u32; 8] = [
    0x8400_0001,
    0xc400_0001, // CPU_SUSPEND
    0x8400_0002, // CPU_OFF
    0x8400_0008, // SYSTEM_OFF
    0x8400_0009, // SYSTEM_RESET
    0xc600_0001, // the monitor's exit
    0x8400_0003,
    0xc400_0003, // CPU_ON, which would run what was not written
];
/// Where functions are numbered from.
const OWNERS: [u32; 10] = [
    0x8000_0000,
    0xc000_0000,
    0x8400_0000,
    0xc400_0000,
    0x8600_0000,
    0xc600_0000,
    0x8600_ff00,
    0xc400_0190,
    0x8700_0000,
    0,
];

/// Loads, stores and others of the address in x1, with x0, x2 and x3; every one is an access that stage 2 must refuse.
const ACCESSES: [u32; 16] = [
    0xf940_0020, // ldr x0, [x1]
    0xb940_0020, // ldr w0, [x1]
    0x3940_0020, // ldrb w0, [x1]
    0xf900_0020, // str x0, [x1]
    0x3900_0020, // strb w0, [x1]
    0xf800_8420, // str x0, [x1], #8
    0xf85f_8c20, // ldr x0, [x1, #-8]!
    0xa940_0820, // ldp x0, x2, [x1]
    0xa900_0820, // stp x0, x2, [x1]
    0xc85f_7c20, // ldxr x0, [x1]
    0xc8df_fc20, // ldar x0, [x1]
    0xc89f_fc20, // stlr x0, [x1]
    0xf840_0820, // ldtr x0, [x1]
    0xf800_0820, // sttr x0, [x1]
    0xf840_1020, // ldur x0, [x1, #1]
    0xd50b_7421, // dc zva, x1
];

/// Whether a page or the range between two addresses has something of this program's, by its protected or unprotected
/// address.
fn is_own(first: u64, second: u64) -> bool {
    let bit = UNPROTECTED.load(Ordering::Relaxed);
    let image = image::whole();
    let has = |from: u64, to: u64| from & !0xfff < image.end && to | 0xfff >= image.start;
    has(first, first.max(second)) || has(first & !bit, first & !bit) || has(second & !bit, second & !bit)
}

/// The attempts of one CPU.
pub(crate) struct Attempts {
    cpu: usize,
    random: Seed,
}

impl Attempts {
    pub(crate) const fn new(cpu: usize, seed: u64) -> Self {
        Self { cpu, random: Seed::of_cpu(seed, cpu) }
    }

    /// Makes one attempt. Whether something answered that must not.
    pub(crate) fn make_one(&mut self) -> bool {
        match self.random.bits() % 5 {
            0 => self.call(),
            1 => self.system_instruction(),
            2 => self.ask_realm(),
            3 => return self.access(),
            _ => return self.fetch(),
        }
        false
    }

    fn call(&mut self) {
        let function = match self.random.bits() % 4 {
            0 => self.random.bits() as u32,
            _ => self.random.pick(&OWNERS).wrapping_add(self.random.bits() as u32 % 32),
        };
        if ENDING.contains(&function) {
            return;
        }
        let immediate = if self.random.bits().is_multiple_of(16) { self.random.bits() as u32 & 0xffff } else { 0 };
        let instruction = *self.random.pick(&[HVC, SMC]) | immediate << 5;
        let arguments = [function.into(), self.address(), self.random.bits(), self.address()];
        // SAFETY: a call changes x0 to x17 at most, and none of these ends anything.
        unsafe { execute(self.cpu, instruction, arguments) };
    }

    /// A call of RSI or of what is numbered beside it, or for a ring to be printed, with arguments that are right or nearly so: memory that this program
    /// does not use changes hands all the time, on every CPU.
    fn ask_realm(&mut self) {
        let function = match self.random.bits() % 2 {
            0 => rsi::VERSION + self.random.bits() as u32 % 32,
            _ => *self.random.pick(&[
                rsi::IPA_STATE_SET,
                rsi::IPA_STATE_GET,
                rsi::REALM_CONFIG,
                rsi::HOST_CALL,
                PRINT_FUNCTION,
            ]),
        };
        let (one, other) = (self.argument(), self.argument());
        let is_ordered = !self.random.bits().is_multiple_of(8);
        let (x1, x2) = if is_ordered { (one.min(other), one.max(other)) } else { (one, other) };
        if is_own(x1, x2) {
            return;
        }
        let x3 = if self.random.bits().is_multiple_of(8) { self.random.bits() } else { self.random.bits() % 3 };
        // SAFETY: a call changes x0 to x17 at most, and memory of the page or the range that its arguments name: not this
        // program's.
        unsafe { execute(self.cpu, SMC, [function.into(), x1, x2, x3]) };
        // Whether it is there depends on who shared it last.
        let address = self.argument();
        if !is_own(address, address) {
            let access = *self.random.pick(&ACCESSES);
            // SAFETY: it writes nothing but x0 to x3, and memory that is not this program's.
            unsafe { execute(self.cpu, access, [self.random.bits(), address | 8, 0, 0]) };
        }
    }

    /// An address that is mostly one of memory that nothing uses, and mostly the start of something.
    fn argument(&mut self) -> u64 {
        const MASKS: [u64; 8] = [0xfff, 0xfff, 0xfff, 0xfff, 0xfff, 0xff, 7, 0];
        let start = match self.random.bits() % 8 {
            0 => self.address(),
            1 => self.random.bits(),
            2 => self.playground() + UNPROTECTED.load(Ordering::Relaxed),
            _ => self.playground(),
        };
        start & !*self.random.pick(&MASKS)
    }

    /// An address of memory that this program does not use.
    fn playground(&mut self) -> u64 {
        HIDDEN_ABOVE.load(Ordering::Relaxed) - 1 - self.random.bits() % PLAYGROUND_BYTES
    }

    /// Any MSR, MRS or SYS but those with which this program would lose itself.
    fn system_instruction(&mut self) {
        let bits = self.random.bits() as u32;
        let (op0, crn, crm) = (bits >> 19 & 3, bits >> 12 & 15, bits >> 8 & 15);
        let is_write = bits >> 21 & 1 == 0;
        let is_lost = match (op0, crn, crm) {
            // Hints that wait, and writes of PSTATE.
            (0, ..) => true,
            (1, ..) => false,
            // MDSCR_EL1, by which it would step through itself.
            (2, 0, _) => is_write,
            (2, ..) => false,
            // SCTLR_EL1 and its kin, translation, SPSR and ELR, VBAR_EL1, TPIDR_EL1.
            (_, 1 | 2 | 4 | 12 | 13, _) => is_write,
            _ => false,
        };
        if is_lost {
            return;
        }
        // Rt is x0.
        let instruction = 0xd500_0000 | bits & 0x003f_ffe0;
        let value = self.value();
        // SAFETY: what would change this program is left out; maintenance by address, zeroing too, is of memory that is
        // not its own, or of one random address in 2^64.
        unsafe { execute(self.cpu, instruction, [value, 0, 0, 0]) };
    }

    /// What an instruction may be given: an address at which nothing may answer, or anything.
    pub(crate) fn value(&mut self) -> u64 {
        if self.random.bits() >> 31 & 1 == 0 { self.address() } else { self.random.bits() }
    }

    fn access(&mut self) -> bool {
        let address = self.address();
        let instruction = *self.random.pick(&ACCESSES);
        let before = read_exceptions();
        // SAFETY: it writes nothing but x0 to x3, and memory that is not this program's.
        unsafe { execute(self.cpu, instruction, [self.random.bits(), address + 8, 0, 0]) };
        read_exceptions() == before
    }

    fn fetch(&mut self) -> bool {
        let address = self.address() & !3;
        let before = read_exceptions();
        // SAFETY: if it were not refused, this test would have failed.
        unsafe { fetch(address) };
        read_exceptions() == before
    }

    /// An address at which nothing may answer.
    fn address(&mut self) -> u64 {
        let unprotected = UNPROTECTED.load(Ordering::Relaxed);
        let start = match self.random.bits() % 6 {
            0 => HIDDEN_BELOW.load(Ordering::Relaxed),
            1 => HIDDEN_ABOVE.load(Ordering::Relaxed),
            2 => HIDDEN_BELOW.load(Ordering::Relaxed) + unprotected,
            3 => HIDDEN_ABOVE.load(Ordering::Relaxed) + unprotected,
            _ => *self.random.pick(&NOWHERE),
        };
        start + ((self.random.bits() % (HIDDEN_BYTES - 64)) & !7)
    }
}
