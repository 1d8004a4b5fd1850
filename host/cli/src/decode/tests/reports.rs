//! Reports of faults as kernels, hypervisors and firmware print them, word for word.

use expect_test::{Expect, expect};

use super::*;

fn check(text: &str, agrees: bool, expected: Expect) {
    let decoded = oops::decode(text, &PLAIN).unwrap_or_else(|Failure(line)| panic!("{line}"));
    expected.assert_eq(&decoded.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    assert_eq!(decoded.iter().all(oops::Oops::agrees), agrees);
}

const EXECUTES: &str = "\
Unable to handle kernel execute from non-executable memory at virtual address ffff6b2300abd400
Mem abort info:
  ESR = 0x000000008600000f
  EC = 0x21: IABT (current EL), IL = 32 bits
  FSC = 0x0f: level 3 permission fault
swapper pgtable: 4k pages, 48-bit VAs, pgdp=000000017cb63000
[ffff6b2300abd400] pgd=0000000000000000, p4d=1800000f540ff403, pud=1800000f53ebc403, pmd=1800000f53eb6403, pte=0068000100abdf07
Internal error: Oops: 000000008600000f [#1]  SMP
";

/// The kernel has no level -1, and prints it: what counts is p4d. Tables forbid execution, and so does the leaf.
#[test]
fn a_kernel_that_executes_its_data() {
    check(
        EXECUTES,
        true,
        expect![[r#"
            Linux: instruction abort, permission fault, level 3
              ESR     0x000000008600000f  instruction abort, permission fault, level 3
              FAR     0xffff6b2300abd400  upper half (TTBR1)
              tables  0x000000017cb63000  the kernel's, 4K pages, 48 bits
              p4d  level 0  0x1800000f540ff403  table of level 1 at 0xf540ff000; below: EL1 does not execute (PXNTable), EL0 does not execute (UXNTable)
              pud  level 1  0x1800000f53ebc403  table of level 2 at 0xf53ebc000; below: EL1 does not execute (PXNTable), EL0 does not execute (UXNTable)
              pmd  level 2  0x1800000f53eb6403  table of level 3 at 0xf53eb6000; below: EL1 does not execute (PXNTable), EL0 does not execute (UXNTable)
              pte  level 3  0x0068000100abdf07  4K page to 0x100abd000: EL1 reads, writes; EL0 nothing; memory MEM/NORMAL-TAGGED
            agrees:    EL1 does not execute there, as ESR says: permission fault, level 3 (tables of level 0, level 1, level 2 forbid it too)
            next:      what the page permits now, and who changed it: vellum dump SOURCE --range 0xffff6b2300abd000-0xffff6b2300abe000
        "#]],
    );
}

/// Whatever stands before a line.
#[test]
fn time_stamps_and_loggers_change_nothing() {
    let plain = oops::decode(EXECUTES, &PLAIN).unwrap_or_else(|Failure(line)| panic!("{line}"));
    for prefix in [
        "[   12.345678] ",
        "<1>[   12.345678][ T1234] ",
        "Nov 28 17:20:50 board kernel: ",
        "<1>",
        "> ",
        "12:00:01 console ",
    ] {
        let text: String = EXECUTES.lines().map(|line| format!("{prefix}{line}\r\n")).collect();
        let with = oops::decode(&text, &PLAIN).unwrap_or_else(|Failure(line)| panic!("{line}"));
        assert_eq!(with.len(), 1, "{prefix}");
        assert_eq!(with[0].to_string(), plain[0].to_string(), "{prefix}");
    }
}

/// A process's tables, an old kernel (no ESR but that of `Oops:`, no p4d, stars), a null pointer; then two that disagree.
#[test]
fn old_and_new_linux() {
    check(
        "Unable to handle kernel NULL pointer dereference at virtual address 00000010\n\
         user pgtable: 4k pages, 39-bit VAs, pgdp = 00000000857e5000\n\
         [0000000000000010] *pgd=0000000000000000, *pud=0000000000000000\n\
         Internal error: Oops: 96000045 [#1] PREEMPT SMP\n",
        true,
        expect![[r#"
            Linux: data abort, translation fault, level 1, on a write
              ESR     0x0000000096000045  data abort, translation fault, level 1, on a write
              FAR     0x0000000000000010  lower half (TTBR0)
              tables  0x00000000857e5000  a process's, 4K pages, 39 bits
              pud  level 1  0x0000000000000000  empty
            agrees:    pud, of level 1, is the first that leads nowhere, as ESR says: translation fault, level 1
            next:      a null pointer and 0x10 bytes: the pointer that the instruction at ELR reads
            next:      whether the address is mapped now: vellum dump SOURCE --range 0x0-0x1000
        "#]],
    );
    // The walk ends elsewhere, and is of another address.
    check(
        "Unable to handle kernel paging request at virtual address ffff800012345678\n\
         Mem abort info:\n  ESR = 0x0000000096000007\n\
         swapper pgtable: 64k pages, 48-bit VAs, pgdp=00000000857e0000\n\
         [ffff800012340000] pgd=10000000bfff0003, p4d=10000000bfff0003, pud=10000000bfff0003, pmd=00e8000040000f05\n\
         Internal error: Oops: 0000000096000006 [#1] SMP\n",
        false,
        expect![[r#"
            Linux: data abort, translation fault, level 3, on a read
              ESR     0x0000000096000007  data abort, translation fault, level 3, on a read
              FAR     0xffff800012345678  upper half (TTBR1)
              tables  0x00000000857e0000  the kernel's, 64K pages, 48 bits
              pud  level 1  0x10000000bfff0003  table of level 2 at 0xbfff0000; below: EL0 does not execute (UXNTable)
              pmd  level 2  0x00e8000040000f05  512M block to 0x40000000: EL1 reads, writes; EL0 nothing; memory MEM/NORMAL-TAGGED
            DISAGREES: ESR is 0x96000006 and 0x96000007: two faults, or a line of another one
            DISAGREES: the walk is of 0xffff800012340000, and not of the address that faulted, 0xffff800012345678
            DISAGREES: the walk ends at a leaf of level 2 that permits it, ESR says translation fault, level 3: the tables were read after the fault: they changed meanwhile, the TLB held an older entry, or the CPU walked other tables
            next:      whether the address is mapped now: vellum dump SOURCE --range 0xffff800012345000-0xffff800012346000
        "#]],
    );
}

/// Every way in which a walk of four levels can end, against what ESR says of it.
#[test]
fn the_first_descriptor_that_leads_nowhere_is_the_level_of_the_fault() {
    let names = ["pgd", "pud", "pmd", "pte"];
    let table = 0x0800_0000_4100_0003_u64;
    for (level, name) in names.into_iter().enumerate() {
        for (bad, dfsc, is_so) in [
            (0, 0b0100, true),
            (0x1002, 0b0100, true),
            (0, 0b1000, false),
            (0, 0b1100, false),
            (if level == 0 || level == 3 { 0x701 } else { 0 }, 0b0100, true),
        ] {
            let above: String = names[..level].iter().map(|name| format!("{name}={table:016x}, ")).collect();
            for of in 0..4 {
                let text =
                    format!("[ffff000012345678] {above}{name}={bad:016x}\nesr 0x{:x}\n", 0x9600_0000_u64 | dfsc | of);
                let decoded = oops::decode(&text, &PLAIN).unwrap_or_else(|Failure(line)| panic!("{line}"));
                assert_eq!(decoded[0].agrees(), is_so && of == level as u64, "{text}{}", decoded[0]);
            }
        }
    }
}

/// Permissions of a leaf against each access of each privilege; AF; PAN.
#[test]
fn a_leaf_explains_what_it_refuses() {
    const READ: u64 = 0;
    const WRITE: u64 = 1 << 6;
    let (kernel, user, read_only) = (0x0060_0000_4000_0703_u64, 0x0060_0000_4000_0f43_u64, 0x0060_0000_4000_0783_u64);
    let rows = [
        (kernel, 0x9600_000f | READ, false),
        (kernel, 0x9600_000f | WRITE, false),
        (read_only, 0x9600_000f | WRITE, true),
        (read_only, 0x9600_000f | READ, false),
        (kernel, 0x9200_000f | READ, true),
        (user, 0x9200_000f | WRITE, false),
        (kernel, 0x8600_000f, true),
        (kernel & !(1 << 53), 0x8600_000f, false),
        (user, 0x8200_000f, true),
        (kernel & !(1 << 10), 0x9600_000b, true),
        (kernel, 0x9600_000b, false),
        // PSTATE.PAN may be why.
        (user, 0x9600_000f | WRITE, true),
        (kernel, 0x9600_000e | READ, false),
        (kernel, 0x9600_0007, false),
    ];
    for (leaf, esr, agrees) in rows {
        let text = format!(
            "pgd=0000000041000003, pud=0000000041001003, pmd=0000000041002003, pte={leaf:016x}\nESR = {esr:x}\n"
        );
        let decoded = oops::decode(&text, &PLAIN).unwrap_or_else(|Failure(line)| panic!("{line}"));
        assert_eq!(decoded[0].agrees(), agrees, "{text}{}", decoded[0]);
        let without_pan = format!("{text}pstate: 60000005\n");
        let decoded = oops::decode(&without_pan, &PLAIN).unwrap_or_else(|Failure(line)| panic!("{line}"));
        assert_eq!(decoded[0].agrees(), agrees && leaf != user || esr == 0x8200_000f, "{text}{}", decoded[0]);
    }
}

/// An address of neither half, with tables of 47 bits by pages of 16K; and what is one.
#[test]
fn an_address_outside_both_halves() {
    for (far, agrees) in
        [(0xffff_7000_0000_0000_u64, true), (0xffff_a4f4_4000_1638, false), (0xffff_8000_0000_0000, false)]
    {
        let text = format!(
            "Unable to handle kernel paging request at virtual address {far:016x}\n  ESR = 0x0000000096000004\n\
             swapper pgtable: 16k pages, 47-bit VAs, pgdp=0000000801234000\n[{far:016x}] pgd=18000009fbffc003, p4d=18000009fbffc003, \
             pud=18000009fbffc003, pmd=0000000000000000\n"
        );
        let decoded = oops::decode(&text, &PLAIN).unwrap_or_else(|Failure(line)| panic!("{line}"));
        assert_eq!(decoded[0].to_string().contains("agrees:    0x"), agrees, "{}", decoded[0]);
        assert_eq!(decoded[0].to_string().contains("in neither half of 47 bits"), agrees, "{}", decoded[0]);
    }
}

#[test]
fn hypervisors_and_firmware() {
    check(
        "(XEN) CPU0: Unexpected Trap: Data Abort\n\
         (XEN) Hypervisor Trap. HSR=0x00000096000045 EC=0x25 IL=1 Syndrome=0x45\n\
         (XEN) Walking Hypervisor VA 0xa00000200000 on CPU0 via TTBR 0x00000000402c3000\n\
         (XEN) 0TH[0x140] = 0x00000000402c2f7f\n\
         (XEN) 1ST[0x0] = 0x0000000000000000\n\
         (XEN)    FAR_EL2: 0000a00000200000\n\
         (XEN)  HPFAR_EL2: 0000000000000000\n",
        true,
        expect![[r#"
            Xen: data abort, translation fault, level 1, on a write
              ESR    0x0000000096000045  data abort, translation fault, level 1, on a write
              FAR    0x0000a00000200000  lower half (TTBR0), where it has 48 bits or more
              HPFAR  0x0000000000000000  intermediate address 0x0, the page of it
              0th  level 0  0x00000000402c2f7f  table of level 1 at 0x402c2000
              1st  level 1  0x0000000000000000  empty
            agrees:    1st, of level 1, is the first that leads nowhere, as ESR says: translation fault, level 1
            next:      whether the address is mapped now: vellum dump SOURCE --range 0xa00000200000-0xa00000201000
        "#]],
    );
    check(
        "Kernel panic - not syncing: HYP panic:\n\
         PS:600003c9 PC:0000ffff80001234 ESR:0000000096000007\n\
         FAR:0000000000000008 HPFAR:0000000000000000 PAR:0000000000000800\n\
         VCPU:0000ffff00001234\n",
        true,
        expect![[r#"
            KVM at EL2 (nVHE): data abort, translation fault, level 3, on a read
              ESR    0x0000000096000007  data abort, translation fault, level 3, on a read
              FAR    0x0000000000000008  lower half (TTBR0)
              HPFAR  0x0000000000000000  intermediate address 0x0, the page of it
              ELR    0x0000ffff80001234  the instruction
              SPSR   0x00000000600003c9  from EL2
              PAR    0x0000000000000800  output address 0x0
            next:      a null pointer and 0x8 bytes: the pointer that the instruction at ELR reads
            next:      whether the address is mapped now: vellum dump SOURCE --range 0x0-0x1000
        "#]],
    );
    check(
        "Unhandled Exception in EL3.\n\
         x30            = 0x00000000040012ac\n\
         esr_el3        = 0x0000000096000010\n\
         far_el3        = 0x0000000009010000\n\
         elr_el3        = 0x000000000400a3b4\n\
         spsr_el3       = 0x00000000600003cd\n",
        true,
        expect![[r#"
            TF-A: data abort, synchronous external abort, on a read
              ESR   0x0000000096000010  data abort, synchronous external abort, on a read
              FAR   0x0000000009010000  lower half (TTBR0)
              ELR   0x000000000400a3b4  the instruction
              SPSR  0x00000000600003cd  from EL3
            next:      what answers at the output address: memory that is missing, or a device without clock: vellum dump SOURCE --range 0x9010000-0x9011000
        "#]],
    );
}

#[test]
fn two_reports_of_one_log() {
    check(
        "\"Synchronous Abort\" handler, esr 0x96000010\n\
         elr: 0000000000081234 lr : 0000000000085678 (reloc)\n\
         \"Synchronous Abort\" handler, esr 0x96000007, far 0xf0000\n",
        true,
        expect![[r#"
            U-Boot: data abort, synchronous external abort, on a read
              ESR  0x0000000096000010  data abort, synchronous external abort, on a read
              ELR  0x0000000000081234  the instruction
            next:      what answers at the output address: memory that is missing, or a device without clock: vellum dump SOURCE --range START-END

            U-Boot: data abort, translation fault, level 3, on a read
              ESR  0x0000000096000007  data abort, translation fault, level 3, on a read
              FAR  0x00000000000f0000  lower half (TTBR0)
            next:      whether the address is mapped now: vellum dump SOURCE --range 0xf0000-0xf1000
        "#]],
    );
}

#[test]
fn other_kernels() {
    check(
        "Caught cap fault in send phase at address 0\nwhile trying to handle:\n\
         vm fault on data at address 0x46cde0 with status 0x92000007\n\
         in thread 0xffffff806ffde400 \"child\" at address 0x45598c\nWith stack:\n0x10011d60: 0x0\n",
        true,
        expect![[r#"
            seL4: data abort from a lower exception level, translation fault, level 3, on a read
              ESR  0x0000000092000007  data abort from a lower exception level, translation fault, level 3, on a read
              FAR  0x000000000046cde0  lower half (TTBR0)
            next:      whether the address is mapped now: vellum dump SOURCE --range 0x46c000-0x46d000
        "#]],
    );
    check(
        "Fatal data abort:\n  x0: ffff000000a1b2c0\n  x1: 8\n sp: ffff0000c0de0000\nelr: ffff0000004d5e6f (func + 0x1c)\n\
         spsr: 60000045\n far: 10\n esr: 96000004\npanic: vm_fault failed: ffff0000004d5e6f error 1\n",
        true,
        expect![[r#"
            FreeBSD: data abort, translation fault, level 0, on a read
              ESR   0x0000000096000004  data abort, translation fault, level 0, on a read
              FAR   0x0000000000000010  lower half (TTBR0)
              ELR   0xffff0000004d5e6f  the instruction
              SPSR  0x0000000060000045  from EL1
            next:      a null pointer and 0x10 bytes: the pointer that the instruction at ELR reads
            next:      whether the address is mapped now: vellum dump SOURCE --range 0x0-0x1000
        "#]],
    );
    check(
        "E/TC:0 0 Core data-abort at address 0x8 (translation fault)\n\
         E/TC:0 0  esr 0x96000005  ttbr0 0x9e1b4000   ttbr1 0x00000000   cidr 0x0\n",
        true,
        expect![[r#"
            OP-TEE: data abort, translation fault, level 1, on a read
              ESR  0x0000000096000005  data abort, translation fault, level 1, on a read
              FAR  0x0000000000000008  lower half (TTBR0)
            next:      a null pointer and 0x8 bytes: the pointer that the instruction at ELR reads
            next:      whether the address is mapped now: vellum dump SOURCE --range 0x0-0x1000
        "#]],
    );
    check(
        "[00:00:00.010,000] <err> os: ELR_ELn: 0x0000000040001234\n\
         [00:00:00.010,000] <err> os: ESR_ELn: 0x0000000096000061\n\
         [00:00:00.010,000] <err> os: FAR_ELn: 0x0000000040101001\n",
        true,
        expect![[r#"
            Zephyr: data abort, alignment fault, on a write
              ESR  0x0000000096000061  data abort, alignment fault, on a write
              FAR  0x0000000040101001  lower half (TTBR0)
              ELR  0x0000000040001234  the instruction
            next:      whether the memory is Device, where every access must be aligned: vellum dump SOURCE --range 0x40101000-0x40102000
        "#]],
    );
}

#[test]
fn what_is_no_report_is_refused_and_a_part_is_taken() {
    for text in [
        "",
        "\n\n",
        "the board hangs\n",
        "far away, the status is 5\n",
        "esr\n",
        "pte=\n",
        "code 5 at 7\n",
        "\u{0}\u{ff}",
    ] {
        assert!(oops::decode(text, &PLAIN).is_err(), "{text}");
    }
    let words = |what: &str, values: &[&str]| {
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        oops::text(what, &values).ok().flatten()
    };
    assert_eq!(words("pte=0068000100abdf07", &[]).as_deref(), Some("pte=0068000100abdf07"));
    assert_eq!(words("descriptor", &["pgd=0,", "pud=1"]).as_deref(), Some("pgd=0, pud=1"));
    assert_eq!((words("descriptor", &["0x703"]), words("esr", &["96000044"])), (None, None));
    assert!(oops::text("oops", &["/no/such/file".to_owned()]).is_err());
    let part = oops::decode("pmd=00680007f8e00f01", &PLAIN).unwrap_or_else(|Failure(line)| panic!("{line}"));
    assert!(part[0].to_string().contains("2M block to 0x7f8e00000"), "{}", part[0]);
    // Never a panic, and never a line too many: all prefixes of a report, and each line of it twice.
    for end in 0..EXECUTES.len() {
        let _ = oops::decode(&EXECUTES[..end], &PLAIN);
    }
    let twice: String = EXECUTES.lines().flat_map(|line| [line, "\n", line, "\n"]).collect();
    assert_eq!(oops::decode(&twice, &PLAIN).map(|all| all.len()).ok(), Some(1));
}

#[test]
fn one_record_for_each_report() {
    let decoded = oops::decode(EXECUTES, &PLAIN).unwrap_or_else(|Failure(line)| panic!("{line}"));
    let record = decoded[0].json();
    assert_eq!(record["registers"][0]["value"], "0x000000008600000f");
    assert_eq!((&record["walk"][3]["level"], &record["agreement"][0]["agrees"]), (&"level 3".into(), &true.into()));
}
