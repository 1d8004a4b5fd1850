//! Live guests at EL2, EL2 as a host, and EL3, which run by page tables made here: what is read of them by the stub, by their
//! memory's file and by QMP is what was put there, and what is wrong with them is found.

use crate::bare::{self, BASE, Register, SERIAL};
use crate::report::Report;
use crate::tables::{Image, Tree};
use crate::vellum;

/// AF, inner shareable, and AP[1], which is RES1 where there is one privilege.
const LEAF: u64 = 1 << 10 | 0b11 << 8 | ONE_PRIVILEGE;
const ONE_PRIVILEGE: u64 = 1 << 6;
const READ_ONLY: u64 = 1 << 7;
/// XN; UXN where there are two privileges.
const XN: u64 = 1 << 54;
const PXN: u64 = 1 << 53;
/// Attribute 1 of MAIR.
const DEVICE: u64 = 1 << 2;
/// Data, and a page that is written and executed: where they are, and whose memory they map.
const DATA: u64 = 0x12_3400_0000;
const WX: u64 = 0x12_3500_0000;
const MEMORY: u64 = 0x4800_0000;
/// Of a host: where there is one privilege, these bits of TTBR0 say nothing.
const ASID: u64 = 0x42;
/// Attribute 0 is write-back memory, attribute 1 a device.
const MAIR: u64 = 0x00ff;
/// What is reserved as 1, caches, and M.
const SCTLR: u64 = 0x30c5_1835;
/// log2 of the granule, TG0, and the level of the root of 48 bits.
const GRANULES: [(u32, u64, i32); 3] = [(12, 0, 0), (14, 2, 0), (16, 1, 1)];

/// Who runs, and by which registers.
struct Level {
    name: &'static str,
    part: &'static str,
    el: &'static str,
    op1: u32,
    machine: &'static str,
    is_host: bool,
}

const LEVELS: [Level; 3] = [
    Level { name: "EL2", part: "el2", el: "EL2", op1: 4, machine: ",virtualization=on", is_host: false },
    Level { name: "EL2 as a host", part: "el2", el: "EL2", op1: 4, machine: ",virtualization=on", is_host: true },
    Level { name: "EL3", part: "el3", el: "EL3", op1: 6, machine: ",secure=on,virtualization=on", is_host: false },
];

pub(crate) fn run(report: &mut Report) {
    for level in &LEVELS {
        for granule in GRANULES {
            report.add(&format!("{} with {}K pages, live", level.name, (1 << granule.0) >> 10), level.live(granule));
        }
    }
}

impl Level {
    fn live(&self, (granule, tg0, start): (u32, u64, i32)) -> Result<(), String> {
        let clean = self.boot((granule, tg0, start), false)?;
        let (gdb, ram) = (clean.gdb(), clean.ram());
        let data = (format!("{DATA:#018x}-{:#018x} ", DATA + (5 << granule)), " PTE       RW NX SHD AF ");
        let code = (format!("{BASE:#018x}-{:#018x} ", BASE + (1 << granule)), " PTE       ro x  SHD AF ");
        for by in [&[gdb.as_str()][..], &[&gdb, "--ram", &ram], &[&clean.qmp()]] {
            let (text, _) = vellum(&[&["dump"], by, &["--part", self.part]].concat())?;
            let leaves: Vec<&str> = text.lines().filter(|line| line.contains(" AF ")).collect();
            let is_told = |(range, words): &(String, &str)| {
                leaves.iter().any(|line| line.starts_with(range.as_str()) && line.contains(words))
            };
            let halves = if self.is_host { 2 } else { 1 };
            if leaves.len() != 3 * halves || !is_told(&data) || !is_told(&code) {
                return Err(format!("expected {data:?} and {code:?}:\n{text}"));
            }
            let (json, _) = vellum(&[&["dump"], by, &["--part", self.part, "--json"]].concat())?;
            let identifier = format!("\"identifier\":{},", if self.is_host { ASID } else { 0 });
            if !json.contains(&identifier) || json.contains("\"user\":true") {
                return Err(format!("expected {identifier} and nothing for EL0:\n{json}"));
            }
            match vellum(&[&["check"], by, &["--part", self.part]].concat())? {
                (_, 0) => {}
                (text, status) => return Err(format!("expected nothing found, not {status}:\n{text}")),
            }
        }
        clean.is_running()?;
        let wrong = self.boot((granule, tg0, start), true)?;
        let (text, status) = vellum(&["check", &wrong.gdb(), "--part", self.part])?;
        let what = format!("{} writes and executes it", self.el);
        if status != 1 || !text.contains("danger wx:") || !text.contains(&what) || text.contains("EL1 ") {
            return Err(format!("expected `{what}`, not {status}:\n{text}"));
        }
        wrong.is_running()
    }

    fn boot(&self, (granule, tg0, start): (u32, u64, i32), has_wx: bool) -> Result<crate::guest::Guest, String> {
        let mut image = bare::image();
        // The code has a granule for itself.
        image.take(1 << granule);
        let lower = self.tables(&mut image, granule, start, 0, has_wx);
        let upper = self.is_host.then(|| self.tables(&mut image, granule, start, u64::MAX << 48, has_wx));
        // Walks cacheable and inner shareable, 48 bits of output address.
        let walks = 0x3500 | 16 | tg0 << 14;
        let tcr = match self.is_host {
            // TG1 has other names for the same granules.
            true => walks | walks_of_upper(tg0) | 5 << 32,
            false => walks | 5 << 16 | 1 << 31 | 1 << 23,
        };
        let of = |crn, crm, op2| (self.op1, crn, crm, op2);
        let mut registers: Vec<(Register, u64)> = Vec::new();
        if let Some(upper) = &upper {
            registers.push((of(1, 1, 0), 1 << 34 | 1 << 31 | 1 << 27)); // HCR_EL2: E2H, RW, TGE
            registers.push((of(2, 0, 1), upper.root)); // TTBR1_EL2
        }
        registers.extend([
            (of(2, 0, 0), lower.root | ASID << 48), // TTBR0_ELx
            (of(2, 0, 2), tcr),                     // TCR_ELx
            (of(10, 2, 0), MAIR),                   // MAIR_ELx
            (of(1, 0, 0), SCTLR),                   // SCTLR_ELx
        ]);
        bare::boot(image, self.machine, &registers)
    }

    /// The code, the serial port, five pages of data, and if `has_wx` what is written and executed.
    fn tables(&self, image: &mut Image, granule: u32, start: i32, base: u64, has_wx: bool) -> Tree {
        let tree = Tree::new(image, granule, start, 48);
        let mut take = |image: &mut Image| image.take(1 << granule);
        let leaf = if self.is_host { LEAF & !ONE_PRIVILEGE } else { LEAF };
        let (no_execute, no_user) = if self.is_host { (XN | PXN, XN) } else { (XN, 0) };
        let mut map = |input, output, attributes| {
            tree.map(image, &mut take, (base | input, output), 3, attributes);
        };
        map(BASE, BASE, leaf | READ_ONLY | no_user);
        map(SERIAL, SERIAL, leaf | DEVICE | no_execute);
        for page in 0..5 {
            map(DATA + (page << granule), MEMORY + (page << granule), leaf | no_execute);
        }
        if has_wx {
            map(WX, MEMORY + 0x100_0000, leaf | no_user);
        }
        tree
    }
}

/// TG1, SH1, IRGN1, ORGN1 and T1SZ like those of the lower half.
fn walks_of_upper(tg0: u64) -> u64 {
    let tg1 = [2, 3, 1][tg0 as usize];
    tg1 << 30 | 0x35 << 24 | 16 << 16
}
