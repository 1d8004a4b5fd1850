//! A guest with stage 2 on, of a few instructions: what the stub says of EL2's registers, and of tables behind them, is
//! what was put there.

use std::collections::BTreeMap;

use crate::bare::{self, SERIAL};
use crate::report::Report;
use crate::tables::{Image, Tree};
use crate::vellum;

/// The guest's memory, as it sees it: above what 39 bits reach, so that the root of 40 bits is two tables.
const GUEST: u64 = 0x80_0000_0000;
const LEAF: u64 = 0b11 << 8 | 0b11 << 6 | 1 << 10 | 0b1111 << 2;

pub(crate) fn run(report: &mut Report) {
    report.add("stage 2, live", live());
}

fn live() -> Result<(), String> {
    let mut image = bare::image();
    let (stage2, guest) = tables(&mut image);
    // op1, CRn, CRm, op2 of the register, and what goes into it.
    let registers = [
        ((4, 2, 1, 0), stage2.root),             // VTTBR_EL2
        ((4, 2, 1, 2), 0x8005_3558),             // VTCR_EL2: 4K, 40 bits, from level 1
        ((0, 2, 0, 1), guest.root),              // TTBR1_EL1
        ((0, 2, 0, 2), 0x15_b510_3510 | 1 << 7), // TCR_EL1: 4K, 48 bits, no lower half
        ((0, 10, 2, 0), 0xff),                   // MAIR_EL1
        ((0, 1, 0, 0), 0x30d0_0801),             // SCTLR_EL1: MMU on, for an EL1 that never runs
        ((4, 1, 1, 0), 1 << 31 | 1),             // HCR_EL2: AArch64, stage 2 on
    ];
    let guest = bare::boot(image, ",virtualization=on", &registers)?;
    let (gdb, ram) = (guest.gdb(), guest.ram());
    for by in [&[gdb.as_str()][..], &[&gdb, "--ram", &ram], &[&guest.qmp()]] {
        let dump = |more: &[&str]| vellum(&[&["dump"], by, more].concat()).map(|(text, _)| text);
        let expected = [
            "0x0000000009000000-0x0000000009200000           2M PMD   R W NX SHD AF     BLK DEVICE/nGnRE",
            "0x0000008000000000-0x0000008000040000         256K PTE   R W x  SHD AF         MEM/NORMAL",
        ];
        hold_lines(&dump(&["--part", "stage2"])?, &expected)?;
        let expected =
            ["0xffff000040000000-0xffff000040005000          20K PTE       RW NX SHD AF            UXN    MEM/NORMAL"];
        hold_lines(&dump(&["--part", "kernel"])?, &expected)?;
        let all = dump(&["--part", "all", "--stats"])?;
        if !(all.contains("# VTTBR_EL2 root") && all.contains("# TTBR1_EL1 root")) {
            return Err(format!("expected two roots: {all}"));
        }
    }
    guest.is_running()
}

/// The lines that are no holes.
fn hold_lines(text: &str, expected: &[&str]) -> Result<(), String> {
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(" AF ")).collect();
    if lines == expected { Ok(()) } else { Err(format!("expected\n{}\nbut it is\n{text}", expected.join("\n"))) }
}

/// Stage 2 with 64 pages of the guest, scattered, and its own stage 1 in them.
fn tables(image: &mut Image) -> (Tree, Tree) {
    const PAGES: u64 = 64;
    let stage2 = Tree::new(image, 12, 1, 40);
    let memory = image.take(PAGES << 12);
    let behind: BTreeMap<u64, u64> =
        (0..PAGES).map(|page| (GUEST + (page << 12), memory + ((page * 29 % PAGES) << 12))).collect();
    let mut take = |image: &mut Image| image.take(0x1000);
    for (&input, &output) in &behind {
        stage2.map(image, &mut take, (input, output), 3, LEAF);
    }
    stage2.map(image, &mut take, (SERIAL, SERIAL), 2, LEAF & !(0b1111 << 2) | 1 << 2 | 0b10 << 53);
    let guest = Tree { granule: 12, start: 0, bits: 48, root: GUEST, behind: Some(behind) };
    let mut next = guest.root;
    let mut take_guest = |_: &mut Image| {
        next += 0x1000;
        next
    };
    for page in 0..5 {
        let leaf = (0xffff_0000_4000_0000 + (page << 12), GUEST + 0x2_0000 + (page << 12));
        guest.map(image, &mut take_guest, leaf, 3, 0x0060_0000_0000_0700);
    }
    (stage2, guest)
}
