//! Guests under audit that do to page tables what nobody means to do: a few instructions each, which end the machine themselves.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::guest::tied_to_us;
use crate::report::Report;

/// Where QEMU puts a kernel without a header, and begins.
const CODE: u64 = 0x4008_0000;
/// A table that is root and whatever else it leads to; and what a reset leaves alone.
const ROOT: u64 = 0x4100_0000;
const COUNT: u64 = 0x4600_0000;
/// 39 bits of input address with 4 KiB pages, walks cacheable and inner shareable; TTBR1_EL1 unused.
const TCR: u64 = 5 << 32 | 1 << 23 | 0x3500 | 25;
/// What is reserved as 1, and M.
const SCTLR_ON: u64 = 0x30d0_0801;
/// A block: normal memory, inner shareable, its access flag set.
const BLOCK: u64 = 0x701;
const READ_ONLY: u64 = 1 << 7;
const USER: u64 = 1 << 6;
const TABLE: u64 = 0x703;

const DSB: u32 = 0xd503_3f9f;
const ISB: u32 = 0xd503_3fdf;
const TLBI: u32 = 0xd508_871f;
const HVC: u32 = 0xd400_0002;
const SVC: u32 = 0xd400_0001;
const ERET: u32 = 0xd69f_03e0;
const B_HERE: u32 = 0x1400_0000;
const MSR_TTBR0: u32 = 0xd518_2000;
const MSR_TCR: u32 = 0xd518_2040;
const MSR_MAIR: u32 = 0xd518_a200;
const MSR_SCTLR: u32 = 0xd518_1000;
const MSR_VBAR: u32 = 0xd518_c000;
const MSR_ELR: u32 = 0xd518_4020;
const MSR_SPSR: u32 = 0xd518_4000;

const SYSTEM_OFF: u64 = 0x8400_0008;
const SYSTEM_RESET: u64 = 0x8400_0009;
const CPU_ON: u64 = 0xc400_0003;

/// Instructions, one after the other.
#[derive(Default)]
struct Code(Vec<u32>);

impl Code {
    fn word(&mut self, word: u32) -> &mut Self {
        self.0.push(word);
        self
    }

    /// MOVZ and three MOVK.
    fn set(&mut self, register: u32, value: u64) -> &mut Self {
        for piece in 0..4 {
            let opcode = if piece == 0 { 0xd280_0000 } else { 0xf280_0000 };
            self.word(opcode | piece << 21 | ((value >> (16 * piece)) as u32 & 0xffff) << 5 | register);
        }
        self
    }

    /// MSR, by way of X9.
    fn write(&mut self, msr: u32, value: u64) -> &mut Self {
        self.set(9, value).word(msr | 9)
    }

    /// STR of a constant, by way of X9 and X10.
    fn store(&mut self, address: u64, value: u64) -> &mut Self {
        self.set(9, value).set(10, address).word(0xf900_0000 | 10 << 5 | 9)
    }

    fn call(&mut self, function: u64) -> &mut Self {
        self.set(0, function).word(HVC)
    }

    fn address(&self) -> u64 {
        CODE + self.0.len() as u64 * 4
    }

    /// 400 descriptors from `table` on: X12, which grows by `step` each time.
    fn fill(&mut self, table: u64, first: u64, step: u64) -> &mut Self {
        self.set(10, table).set(11, 400).set(12, first).set(13, step);
        // STR X12, [X10], #8; ADD X12, X12, X13; SUB X11, X11, #1; CBNZ X11, back to the first.
        [0xf800_854c, 0x8b0d_018c, 0xd100_056b, 0xb500_0000 | (0x7_ffff & -3_i32 as u32) << 5 | 11]
            .into_iter()
            .fold(self, Self::word)
    }

    /// The MMU comes on with `ROOT`, from which the code is found where it is.
    fn turn_on(&mut self) -> &mut Self {
        self.word(DSB).word(TLBI).word(DSB).word(ISB);
        self.write(MSR_MAIR, 0xff)
            .write(MSR_TCR, TCR)
            .write(MSR_TTBR0, ROOT)
            .word(ISB)
            .write(MSR_SCTLR, SCTLR_ON)
            .word(ISB)
    }
}

pub(crate) fn run(plugin: &Path, report: &mut Report) {
    let folder = env::temp_dir().join(format!("vellum-hostile-{}", std::process::id()));
    let made = fs::create_dir_all(&folder).map_err(|error| error.to_string());
    let audit = |name: &str, code: &Code| made.clone().and_then(|()| audit(&folder.join(name), plugin, code));
    report.add(
        "every descriptor leads to its own table, audited",
        audit("loops", &loops(512)).and_then(|it| it.is(2, "too many ways")),
    );
    report.add(
        "one descriptor leads to its own table, audited",
        audit("loop", &loops(1)).and_then(|it| it.is(0, "no rule is broken")),
    );
    report.add("a program stores to its tables, audited", audit("user", &user()).and_then(|it| it.is(1, "in 0x")));
    report.add(
        "a guest resets the machine, audited",
        audit("resets", &resets()).and_then(|it| it.is(0, "no rule is broken")),
    );
    // Nobody needs it any more, and what is left there does no harm.
    let _ = fs::remove_dir_all(&folder);
}

/// Of a table's descriptors the first `count` lead to the table itself, but for the one that maps the code; the guest then stores there by
/// an address that passes the table at each level.
fn loops(count: u64) -> Code {
    let mut code = Code::default();
    for slot in (0..count).filter(|slot| *slot != 1) {
        code.store(ROOT + slot * 8, ROOT | TABLE);
    }
    code.store(ROOT + 8, 0x4000_0000 | BLOCK)
        .turn_on()
        .store(0x100, ROOT | TABLE | 1 << 55)
        .store(0x108, 0)
        .word(DSB)
        .word(TLBI);
    code.word(DSB).word(ISB).call(SYSTEM_OFF);
    code
}

/// A program at EL0 writes over the table that maps the program.
fn user() -> Code {
    const USER_ROOT: u64 = ROOT + 0x4000_0000;
    let mut code = Code::default();
    code.store(ROOT + 8, 0x4000_0000 | BLOCK | USER | READ_ONLY).store(ROOT + 16, 0x4000_0000 | BLOCK | USER).turn_on();
    // What an exception from EL0 leads to stands at the beginning of what is 2 KiB further.
    let vectors = (code.address() + 0x1000) & !0x7ff;
    code.write(MSR_VBAR, vectors).write(MSR_SPSR, 0x3c0);
    let start = code.address() + 4 * 6;
    code.write(MSR_ELR, start).word(ERET);
    code.fill(USER_ROOT + 0x100, 0x4000_0703, 0x1357_9bdf_1001)
        .fill(USER_ROOT + 0x100, 0x4123_4703, 0x2468_ace0_1001)
        .word(SVC);
    while code.address() < vectors + 0x400 {
        code.word(0);
    }
    code.call(SYSTEM_OFF);
    code
}

/// Twice the guest maps a page, another one each time, starts a CPU that runs by the same tables, and resets the machine in the middle of
/// a change.
fn resets() -> Code {
    const PAGES: u64 = 0x8000_0000;
    let mut end = Code::default();
    end.call(SYSTEM_OFF);
    let mut other = Code::default();
    other.turn_on().store(COUNT + 8, 1).word(B_HERE);
    let other_start = CODE + (4 + 3 + end.0.len() as u64) * 4;
    let mut code = Code::default();
    // LDR X15, [X14]; SUB X16, X15, #2; CBNZ X16, behind both of these.
    let over = (1 + end.0.len() + other.0.len()) as u32;
    code.set(14, COUNT).word(0xf940_01cf).word(0xd100_09f0).word(0xb500_0000 | over << 5 | 16);
    code.0.extend(end.0.iter().chain(&other.0));
    // ADD X15, X15, #1; STR X15, [X14].
    code.word(0x9100_05ef).word(0xf900_01cf).store(COUNT + 8, 0).store(ROOT + 8, 0x4000_0000 | BLOCK);
    code.store(ROOT + 16, (ROOT + 0x1000) | TABLE).store(ROOT + 0x1000, (ROOT + 0x2000) | TABLE);
    // ADD X9, X9, X15, LSL #12; STR X9, [X10].
    code.set(9, 0x4200_0703).word(0x8b0f_3129).set(10, ROOT + 0x2000).word(0xf900_0149).turn_on();
    code.set(1, 1).set(2, other_start).set(3, 0).call(CPU_ON);
    // LDR X16, [X14]; CBZ X16, back to it; LDR X16, [X17].
    code.set(14, COUNT + 8).word(0xf940_01d0).word(0xb400_0000 | (0x7_ffff & -1_i32 as u32) << 5 | 16);
    code.set(17, PAGES).word(0xf940_0230).store(ROOT + 0x2000, 0).call(SYSTEM_RESET);
    code
}

struct Ended {
    status: i32,
    said: String,
}

impl Ended {
    fn is(&self, status: i32, words: &str) -> Result<(), String> {
        if self.status == status && self.said.contains(words) && !self.said.contains("error of its own") {
            Ok(())
        } else {
            Err(format!("{}, expected {status} and `{words}`:\n{}", self.status, self.said))
        }
    }
}

/// The guest on two CPUs, to its end.
fn audit(image: &Path, plugin: &Path, code: &Code) -> Result<Ended, String> {
    let bytes: Vec<u8> = code.0.iter().flat_map(|word| word.to_le_bytes()).collect();
    fs::write(image, bytes).map_err(|error| error.to_string())?;
    let qemu = env::var("VELLUM_QEMU").unwrap_or("qemu-system-aarch64".to_owned());
    let (program, first) = qemu.split_once('\n').unwrap_or((&qemu, ""));
    let tied = tied_to_us(program);
    let mut command = Command::new(env!("CARGO_BIN_EXE_vellum"));
    command
        .arg("audit")
        .arg("--plugin")
        .arg(plugin)
        .arg("--")
        .arg(tied.get_program())
        .args(tied.get_args())
        .args(first.lines());
    command.args(["-M", "virt", "-cpu", "max", "-smp", "2", "-m", "128M", "-display", "none", "-monitor", "none"]);
    command.args(["-serial", "null", "-nic", "none", "-kernel"]).arg(image).stdin(Stdio::null());
    let output = command.output().map_err(|error| error.to_string())?;
    Ok(Ended { status: output.status.code().unwrap_or(-1), said: String::from_utf8_lossy(&output.stderr).into_owned() })
}
