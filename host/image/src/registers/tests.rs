//! Registers as machines have them, and the page tables that they name.

use vmsa::{Level, PhysAddr};

use super::*;

fn registers(values: &[(&str, u64)]) -> Registers {
    let mut registers = Registers::default();
    for (name, value) in values {
        assert!(registers.set(name, *value), "{name}");
    }
    registers
}

/// The registers of an emulated machine under Linux: 4 KiB, 48 bits.
#[test]
fn linux_registers_name_two_roots() {
    let registers = registers(&[
        ("TCR_EL1", 0x0000_07f5_b550_3510),
        ("TTBR0_EL1", 0x0001_0000_4312_3000),
        ("TTBR1_EL1", 0x0000_0000_4209_1000),
        ("SCTLR", 0x2000_0000_34f4_d91d),
        ("MAIR_EL1", 0x0000_0004_0044_f0ff),
    ]);
    let found = registers.roots(&Origin::Flags);
    assert_eq!(found.notes, [""; 0]);
    let [upper, lower] = &found.roots[..] else { panic!("{found:?}") };
    assert_eq!((upper.regime, upper.address), (Regime::El1Upper, PhysAddr::new(0x4209_1000)));
    assert_eq!((lower.identifier, lower.address), (1, PhysAddr::new(0x4312_3000)));
    assert_eq!((upper.shape.input_bits, upper.shape.page_size), (48, PageSize::Size4K));
    assert_eq!(upper.memory, Some(MemoryTypes(0x0000_0004_0044_f0ff)));
    assert!(upper.control.ignores_hierarchy && upper.control.manages_dirty_state && !upper.is_big_endian);
}

/// The registers of QEMU 11 under a Linux that runs at EL2: with E2H the names of EL1 give EL2's.
#[test]
fn a_stub_that_redirects_names_a_host_once() {
    let value = [0x0150_01f5_b550_3510, 0x4807_9001, 0x000a_0000_4185_8001, 0x8200_0018_b474_d91d];
    let names =
        [["TCR_EL1", "TCR_EL2"], ["TTBR0_EL1", "TTBR0_EL2"], ["TTBR1_EL1", "TTBR1_EL2"], ["SCTLR_EL1", "SCTLR_EL2"]];
    let values: Vec<_> = names.iter().zip(value).flat_map(|(names, value)| names.map(|name| (name, value))).collect();
    let regimes = |hcr: u64, changed: &[(&str, u64)]| {
        let registers = registers(&[&values[..], &[("HCR_EL2", hcr)], changed].concat());
        registers.roots(&Origin::Flags).roots.iter().map(|root| root.regime).collect::<Vec<_>>()
    };
    let (of_el1, of_el2) = ([Regime::El1Upper, Regime::El1Lower], [Regime::El2Upper, Regime::El2Lower]);
    assert_eq!(regimes(0x4_8800_0000, &[]), of_el2);
    assert_eq!(regimes(0x4_8800_0000, &[("TTBR0_EL1", 0x4800_0000)]), [of_el1, of_el2].concat());
    assert_eq!(regimes(0, &[])[..2], of_el1);
}

#[test]
fn what_is_off_or_impossible_is_noted() {
    let off = registers(&[("TCR_EL1", 0), ("SCTLR_EL1", 0), ("TTBR0_EL1", 0)]).roots(&Origin::Flags);
    assert!(off.roots.is_empty() && off.notes[0].contains("off"));
    let tcr = 10 | 10 << 16 | 1 << 7;
    let wrong = registers(&[("TCR_EL1", tcr), ("TTBR0_EL1", 0), ("TTBR1_EL1", 0)]).roots(&Origin::Flags);
    assert!(wrong.roots.is_empty() && wrong.notes.len() == 2, "{wrong:?}");
    assert!(wrong.notes[0].contains("TG1 = 00 is reserved"), "{wrong:?}");
}

/// 4 KiB, 48 bits in both halves, HD without HA.
const TCR: u64 = 0x115_b510_3510;

#[test]
fn permissions_are_where_the_registers_say() {
    let tcr = [("TCR_EL1", TCR | 1 << 39), ("TTBR1_EL1", 0x4000_0000), ("TTBR0_EL1", 0x4100_0000)];
    let with = |more: &[(&str, u64)]| registers(&[&tcr[..], more].concat()).roots(&Origin::Flags);
    let direct = with(&[("PIR_EL1", 1), ("PIRE0_EL1", 2), ("POR_EL1", 3), ("POR_EL0", 4), ("TCR2_EL1", 0)]);
    let plain = PermissionControl { manages_dirty_state: true, ..PermissionControl::default() };
    assert_eq!((direct.roots[0].control, direct.notes.len()), (plain, 0));
    let all = with(&[("PIR_EL1", 1), ("PIRE0_EL1", 2), ("POR_EL1", 3), ("POR_EL0", 4), ("TCR2_EL1", 0b1110)]);
    let expected = PermissionControl {
        indirection: Indirection::By(1, 2),
        overlay: Overlay::By(3),
        user_overlay: Overlay::By(4),
        manages_dirty_state: true,
        ..PermissionControl::default()
    };
    assert_eq!(all.roots.iter().map(|root| root.control).collect::<Vec<_>>(), [expected; 2]);
    assert_eq!(all.notes, [""; 0]);
    let without = registers(&[("TCR_EL1", TCR), ("TTBR1_EL1", 0x4000_0000)]).roots(&Origin::Flags);
    assert!(!without.roots[0].control.manages_dirty_state, "HD does nothing without HA");
    let el2 = [
        ("TCR_EL2", 0x8085_3510),
        ("TTBR0_EL2", 0x4000_0000),
        ("SCTLR_EL2", 1),
        ("TCR2_EL2", 0b1110),
        ("PIR_EL2", 5),
        ("POR_EL2", 6),
    ];
    let el2 = registers(&el2).roots(&Origin::Flags);
    let control = el2.roots[0].control;
    assert_eq!(
        (control.indirection, control.overlay, control.user_overlay),
        (Indirection::By(5, 0), Overlay::By(6), Overlay::Off)
    );
    assert!(el2.notes.is_empty() && control.has_one_privilege);
}

#[test]
fn permissions_in_registers_that_nobody_knows_are_unknown() {
    let tcr = [("TCR_EL1", TCR), ("TTBR1_EL1", 0x4000_0000)];
    let with = |more: &[(&str, u64)]| registers(&[&tcr[..], more].concat()).roots(&Origin::Flags);
    let control = |more: &[(&str, u64)]| with(more).roots.last().expect("a root").control;
    assert_eq!(control(&[("TCR2_EL1", 1 << 1), ("PIR_EL1", 1)]).indirection, Indirection::Unknown);
    assert_eq!(control(&[("TCR2_EL1", 1 << 2)]).user_overlay, Overlay::Unknown);
    let wide = with(&[("TCR2_EL1", 1 << 5)]);
    assert!(wide.roots.is_empty() && wide.notes[0].contains("128-bit"), "{wide:?}");
    let stage2 = [("HCR_EL2", 1), ("VTTBR_EL2", 0), ("VTCR_EL2", 0b11 << 36 | 0x8002_3558)];
    let unknown = control(&stage2);
    assert_eq!((unknown.indirection, unknown.overlay), (Indirection::Unknown, Overlay::Unknown));
    let known = control(&[&stage2[..], &[("S2PIR_EL2", 7), ("S2POR_EL1", 8)]].concat());
    assert_eq!((known.indirection, known.overlay), (Indirection::By(7, 0), Overlay::By(8)));
    let direct = control(&[("HCR_EL2", 1), ("VTTBR_EL2", 0), ("VTCR_EL2", 1 << 37 | 0x8002_3558), ("S2POR_EL1", 8)]);
    assert_eq!(direct.overlay, Overlay::Off, "no overlay over permissions that are direct");
    assert!(shape_of_stage2(1 << 38 | 0x8002_3558).is_err());
}

/// CPUs run one kernel with the overlays of two threads: one page table of the kernel, two of processes.
#[test]
fn overlays_of_threads_tell_page_tables_of_processes_apart() {
    let of = |por: u64| {
        let values =
            [("TCR_EL1", TCR), ("TTBR1_EL1", 0), ("TTBR0_EL1", 0x1000), ("TCR2_EL1", 1 << 2), ("POR_EL0", por)];
        registers(&values).roots(&Origin::Flags).roots
    };
    let (one, other) = (of(1), of(2));
    assert!(one[0].is_same_table(&other[0]) && !one[1].is_same_table(&other[1]));
}

/// VTCR_EL2 of a monitor: 39 bits of intermediate address, level 1, one table.
#[test]
fn stage_2_starts_where_the_register_says() {
    let shape = shape_of_stage2(0x8002_3559).expect("a shape");
    assert_eq!((shape.input_bits, shape.start, shape.entries(Level::L1)), (39, Level::L1, 512));
    let found = registers(&[("HCR_EL2", 1), ("VTCR_EL2", 0x8002_3558), ("VTTBR_EL2", 0x7_0000_4100_0000)]);
    let roots = found.roots(&Origin::Flags).roots;
    assert_eq!(roots[0].shape.entries(Level::L1), 1024, "two concatenated tables");
    assert_eq!((roots[0].identifier, roots[0].address), (7, PhysAddr::new(0x4100_0000)));
    let lpa2 = shape_of_stage2(12 | 1 << 32 | 1 << 33).expect("a shape");
    assert_eq!((lpa2.start, lpa2.layout), (Level::MINUS_1, Layout::Lpa2));
}

#[test]
fn el2_has_one_range_and_with_e2h_two() {
    let el2 = [("TCR_EL2", 0x8085_3510), ("TTBR0_EL2", 0x4000_0000), ("SCTLR_EL2", 1), ("HCR_EL2", 0)];
    let roots = registers(&el2).roots(&Origin::Flags).roots;
    assert_eq!(roots.iter().map(|root| root.regime).collect::<Vec<_>>(), [Regime::El2Lower]);
    let host = [
        ("TCR_EL2", 0x0000_0015_b510_3510),
        ("TTBR0_EL2", 0x4000_0000),
        ("TTBR1_EL2", 0x4100_0000),
        ("SCTLR_EL2", 1),
        ("HCR_EL2", 1 << 34),
    ];
    let roots = registers(&host).roots(&Origin::Flags).roots;
    assert_eq!(roots.iter().map(|root| root.regime).collect::<Vec<_>>(), [Regime::El2Upper, Regime::El2Lower]);
}
