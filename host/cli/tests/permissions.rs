//! Page tables whose leaves name their permissions in registers, in images made here: both stages, and what is said where a
//! register is not known.

mod tables;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use expect_test::expect;
use tables::{Image, Tree};

const BASE: u64 = 0x4000_0000;
/// The start of the upper half with 48 bits.
const HALF: u64 = 0xffff_0000_0000_0000;

fn temporary(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("permissions-{}-{name}", std::process::id()))
}

/// What vellum prints, and what it says beside it of what is not known; the words that make up the command; how it ends.
fn vellum(image: &Image, name: &str, (command, arguments): (&str, &[&str]), status: i32) -> (String, String) {
    let path = temporary(name);
    fs::write(&path, &image.bytes).expect("written");
    let source = format!("raw:{}@{:#x}", path.display(), image.base);
    let words = [&[command, &source], arguments].concat();
    let output = Command::new(env!("CARGO_BIN_EXE_vellum")).args(&words).output().expect("vellum runs");
    fs::remove_file(path).expect("removed");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(status), "{words:?}: {said}");
    let said = said.lines().filter(|line| line.contains("which the source does not tell"));
    (String::from_utf8(output.stdout).expect("text"), said.collect::<Vec<_>>().join("\n"))
}

/// Bits 54, 53, 51 and 6.
fn index(index: u64) -> u64 {
    (index >> 2) << 53 | (index >> 1 & 1) << 51 | (index & 1) << 6
}

/// A Linux in small: each kind of page that its registers give a permission, from page 0 on, in its own 64 KiB; bit 7 as it is
/// while nobody has written. Then the kernel's constants, once more as data.
fn linux() -> (Image, String) {
    let mut image = Image::new(BASE);
    let tree = Tree::new(&mut image, 12, 0, 48);
    let mut take = |image: &mut Image| image.take(0x1000);
    let kinds = [14, 12, 8, 10, 15, 13, 5, 7, 4, 11, 9, 0];
    for (place, kind) in (0..).zip(kinds) {
        for page in 0..2 {
            let at = place * 0x1_0000 + page * 0x1000;
            let clean = if page == 0 { 1 << 7 } else { 0 };
            let attributes = index(kind) | clean | 0x700 | u64::from(kind & 1 == 1) << 11;
            tree.map(&mut image, &mut take, (HALF + at, 0x8000_0000 + at), 3, attributes);
        }
    }
    tree.map(&mut image, &mut take, (HALF + 0x10_0000, 0x8001_0000), 3, index(14) | 0x700);
    (image, format!("{:#x}", tree.root))
}

/// The page table by hand; TCR_EL1 with HA and HD, as Linux has it.
fn by_hand<'a>(root: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["--ttbr1", root, "--tcr", "0x195b5103510", "--markers", "none"][..], more].concat()
}

#[test]
fn linux_with_indirection() {
    let (image, root) = linux();
    let (text, said) = vellum(&image, "text", ("dump", &by_hand(&root, &["--pir", "linux", "--level", "3"])), 0);
    expect![[r#"
        0xffff000000000000-0xffff000000002000           8K PTE       RW NX SHD AF            UXN    MEM/NORMAL
        0xffff000000010000-0xffff000000012000           8K PTE       ro NX SHD AF            UXN    MEM/NORMAL
        0xffff000000020000-0xffff000000022000           8K PTE       ro x  SHD AF            UXN    MEM/NORMAL
        0xffff000000030000-0xffff000000032000           8K PTE       RW x  SHD AF            UXN    MEM/NORMAL
        0xffff000000040000-0xffff000000042000           8K PTE   USR RW NX SHD AF NG         UXN    MEM/NORMAL
        0xffff000000050000-0xffff000000052000           8K PTE   USR ro NX SHD AF NG         UXN    MEM/NORMAL
        0xffff000000060000-0xffff000000062000           8K PTE   USR ro NX SHD AF NG                MEM/NORMAL
        0xffff000000070000-0xffff000000072000           8K PTE   USR RW NX SHD AF NG                MEM/NORMAL
        0xffff000000080000-0xffff000000082000           8K PTE       ro NX SHD AF                   MEM/NORMAL privileged ---, EL0 --x
        0xffff000000090000-0xffff000000092000           8K PTE   USR ro NX SHD AF NG         UXN    MEM/NORMAL privileged ---, EL0 r--s
        0xffff0000000a0000-0xffff0000000a2000           8K PTE   USR ro NX SHD AF NG         UXN    MEM/NORMAL privileged ---, EL0 r--
        0xffff0000000b0000-0xffff0000000b2000           8K PTE       ro NX SHD AF            UXN    MEM/NORMAL privileged ---, EL0 ---
        0xffff000000100000-0xffff000000101000           4K PTE       RW NX SHD AF            UXN    MEM/NORMAL
    "#]].assert_eq(&(text + &said));
    let wx = by_hand(&root, &["--pir", "linux", "--only", "wx"]);
    expect![[r#"
        0xffff000000030000-0xffff000000032000           8K PTE       RW x  SHD AF            UXN    MEM/NORMAL
        0xffff000000070000-0xffff000000072000           8K PTE   USR RW NX SHD AF NG                MEM/NORMAL
    "#]]
    .assert_eq(&vellum(&image, "wx", ("dump", &wx), 0).0);
}

#[test]
fn overlays_take_away() {
    let (image, root) = linux();
    let overlaid = by_hand(&root, &["--pir", "linux", "--por-el0", "0x3", "--only", "user"]);
    expect![[r#"
        0xffff000000040000-0xffff000000042000           8K PTE   USR RW NX SHD AF NG         UXN    MEM/NORMAL privileged rw-, EL0 r--
        0xffff000000050000-0xffff000000052000           8K PTE   USR ro NX SHD AF NG         UXN    MEM/NORMAL
        0xffff000000060000-0xffff000000062000           8K PTE   USR ro NX SHD AF NG                MEM/NORMAL
        0xffff000000070000-0xffff000000072000           8K PTE   USR RW NX SHD AF NG                MEM/NORMAL privileged rw-, EL0 r-x
        0xffff000000090000-0xffff000000092000           8K PTE   USR ro NX SHD AF NG         UXN    MEM/NORMAL privileged ---, EL0 r--s
        0xffff0000000a0000-0xffff0000000a2000           8K PTE   USR ro NX SHD AF NG         UXN    MEM/NORMAL privileged ---, EL0 r--
    "#]].assert_eq(&vellum(&image, "overlay", ("dump", &overlaid), 0).0);
}

/// One alias of the kernel's constants is writable. Who takes bits for permissions finds others.
#[test]
fn findings_are_of_what_is_permitted() {
    let (image, root) = linux();
    let how = ["--ttbr1", &root, "--tcr", "0x195b5103510", "--fail-on", "alias,wx"];
    let (text, _) = vellum(&image, "check", ("check", &[&how[..], &["--pir", "linux"]].concat()), 1);
    expect![[r#"
        danger wx: writable and executable (1 place, 8K)
               whoever can write one word there runs code of the kernel. Read: DDI 0487, D8.4.6; SCTLR_EL1.WXN
          0xffff000000030000-0xffff000000032000        8K  EL1 writes and executes it (2×)

        danger alias: a writable alias of read-only memory (1 place, 4K)
               the protection holds for one address alone: a stray or hostile write through the other changes it. Read: Linux: rodata= (admin-guide, kernel-parameters)
          0xffff000000010000-0xffff000000011000        4K  read-only memory, writable at 0xffff000000100000

        risk   user-wx: writable and executable by a process (1 place, 8K)
               a compiler at run time may want it; anything else should not. Read: DDI 0487, D8.4.6
          0xffff000000070000-0xffff000000072000        8K  EL0 writes and executes it (2×)

        risk   user-global: a page of EL0 that belongs to every ASID (1 place, 8K)
               whichever process runs next may still reach it by a TLB entry; nG is missing. Read: DDI 0487, D8.16 (global entries)
          0xffff000000080000-0xffff000000082000        8K  EL0 reaches it in every address space (2×)

        4 findings: 2 danger, 2 risk, 0 cost
    "#]].assert_eq(&text);
    let (text, _) = vellum(&image, "bits", ("check", &how), 1);
    let dangers: Vec<&str> = text.lines().filter(|line| line.starts_with("danger")).collect();
    expect![[r#"
        danger wx: writable and executable (3 places, 16K)
        danger alias: a writable alias of read-only memory (1 place, 4K)"#]]
    .assert_eq(&dangers.join("\n"));
}

/// JSON keeps what registers said when it was made, so that two dumps are compared by what they permit.
#[test]
fn dumps_differ_in_what_they_permit() {
    let (image, root) = linux();
    let dump = |name: &str, more: &[&str]| {
        let (json, _) = vellum(&image, name, ("dump", &by_hand(&root, &[more, &["--json"]].concat())), 0);
        let path = temporary(&format!("{name}.json"));
        fs::write(&path, json).expect("written");
        path
    };
    let before = dump("before", &["--pir", "linux"]);
    // PIIndex 14 can be read alone, everything else is as before.
    let after = dump("after", &["--pir", "0xc8880e0ac0800000", "--pire0", "0x5010908070320000"]);
    let diff = |one: &PathBuf, other: &PathBuf| -> String {
        let output =
            Command::new(env!("CARGO_BIN_EXE_vellum")).arg("diff").args([one, other]).output().expect("it runs");
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(diff(&before, &before).starts_with("no difference"));
    expect![[r#"
        0xffff000000000000-0xffff000000002000        8K  changed
          -   4K RW NX SHD AF UXN MEM/NORMAL
          +   4K ro NX SHD AF UXN MEM/NORMAL
        0xffff000000100000-0xffff000000101000        4K  changed
          -   4K RW NX SHD AF UXN MEM/NORMAL
          +   4K ro NX SHD AF UXN MEM/NORMAL
                           before  after  change
          leaves           25      25     =
            4K             25      25     =
          mapped           100K    100K   =
          tables           4       4      =
          bytes of tables  16K     16K    =
    "#]]
    .assert_eq(&diff(&before, &after));
    for path in [before, after] {
        fs::remove_file(path).expect("removed");
    }
}

/// Stage 2 with every permission, clean and dirty; VTCR_EL2.S2PIE and S2POE. Then the same without the registers.
#[test]
fn stage_2_with_indirection() {
    let mut image = Image::new(BASE);
    let tree = Tree::new(&mut image, 12, 1, 40);
    let mut take = |image: &mut Image| image.take(0x1000);
    for kind in 0..16 {
        for dirty in 0..2 {
            let at = kind * 0x1_0000 + dirty * 0x1000;
            let attributes = index(kind) | dirty << 7 | 1 << 59 | 0b11 << 8 | 1 << 10 | 0b1111 << 2;
            tree.map(&mut image, &mut take, (at, 0x8000_0000 + at), 3, attributes);
        }
    }
    let vttbr = format!("{:#x}", tree.root);
    let how = ["--vttbr", &vttbr, "--vtcr", "0x3080053558", "--part", "stage2", "--level", "3"];
    let known = [&how[..], &["--s2pir", "0xfedcba9876543210", "--s2por", "0xf0"]].concat();
    let (text, said) = vellum(&image, "stage2", ("dump", &known), 0);
    expect![[r#"
        0x0000000000000000-0x0000000000002000           8K PTE       NX SHD AF         MEM/NORMAL
        0x0000000000010000-0x0000000000012000           8K PTE       NX SHD AF         MEM/NORMAL
        0x0000000000020000-0x0000000000022000           8K PTE   R   NX SHD AF         MEM/NORMAL
        0x0000000000030000-0x0000000000032000           8K PTE   R   NX SHD AF         MEM/NORMAL
        0x0000000000040000-0x0000000000041000           4K PTE       NX SHD AF         MEM/NORMAL
        0x0000000000041000-0x0000000000042000           4K PTE     W NX SHD AF         MEM/NORMAL
        0x0000000000050000-0x0000000000052000           8K PTE       NX SHD AF         MEM/NORMAL
        0x0000000000060000-0x0000000000062000           8K PTE   R   NX SHD AF         MEM/NORMAL
        0x0000000000070000-0x0000000000072000           8K PTE   R   NX SHD AF         MEM/NORMAL
        0x0000000000080000-0x0000000000082000           8K PTE   R   NX SHD AF         MEM/NORMAL
        0x0000000000090000-0x0000000000092000           8K PTE   R   xu SHD AF         MEM/NORMAL
        0x00000000000a0000-0x00000000000a2000           8K PTE   R   xp SHD AF         MEM/NORMAL
        0x00000000000b0000-0x00000000000b2000           8K PTE   R   x  SHD AF         MEM/NORMAL
        0x00000000000c0000-0x00000000000c1000           4K PTE   R   NX SHD AF         MEM/NORMAL
        0x00000000000c1000-0x00000000000c2000           4K PTE   R W NX SHD AF         MEM/NORMAL
        0x00000000000d0000-0x00000000000d1000           4K PTE   R   xu SHD AF         MEM/NORMAL
        0x00000000000d1000-0x00000000000d2000           4K PTE   R W xu SHD AF         MEM/NORMAL
        0x00000000000e0000-0x00000000000e1000           4K PTE   R   xp SHD AF         MEM/NORMAL
        0x00000000000e1000-0x00000000000e2000           4K PTE   R W xp SHD AF         MEM/NORMAL
        0x00000000000f0000-0x00000000000f1000           4K PTE   R   x  SHD AF         MEM/NORMAL
        0x00000000000f1000-0x00000000000f2000           4K PTE   R W x  SHD AF         MEM/NORMAL
    "#]]
    .assert_eq(&(text + &said));
    let (text, said) = vellum(&image, "unknown", ("dump", &how), 0);
    let first: String = text.lines().take(2).flat_map(|line| [line, "\n"]).collect();
    expect![[r#"
        0x0000000000000000-0x0000000000002000           8K PTE   ? ? ?  SHD AF         MEM/NORMAL PIIndex 0
        0x0000000000010000-0x0000000000012000           8K PTE   ? ? ?  SHD AF         MEM/NORMAL PIIndex 1
        vellum: permissions are in S2PIR_EL2, which the source does not tell: none is shown (give --s2pir)
        vellum: overlays are in S2POR_EL1, which the source does not tell: shown is what they take from (give --s2por)"#]].assert_eq(&(first + &said));
    let limited = [&known[..9], &["0xfedcba9876543210", "--s2por", "0x80", "--only", "x,w"]].concat();
    assert_eq!(vellum(&image, "limited", ("dump", &limited), 0).0, "", "an overlay that lets everything be read alone");
}
