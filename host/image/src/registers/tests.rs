//! Registers as machines have them, and the page tables that they name.

use vmsa::{Level, PhysAddr};

use super::*;
use crate::machine::Machine;
use crate::memory::Bytes;

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
    assert!(shape_of_stage2(1 << 38 | 0x8002_3558, None).is_err());
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
    let shape = shape_of_stage2(0x8002_3559, None).expect("a shape");
    assert_eq!((shape.input_bits, shape.start, shape.entries(Level::L1)), (39, Level::L1, 512));
    let found = registers(&[("HCR_EL2", 1), ("VTCR_EL2", 0x8002_3558), ("VTTBR_EL2", 0x7_0000_4100_0000)]);
    let roots = found.roots(&Origin::Flags).roots;
    assert_eq!(roots[0].shape.entries(Level::L1), 1024, "two concatenated tables");
    assert_eq!((roots[0].identifier, roots[0].address), (7, PhysAddr::new(0x4100_0000)));
    let lpa2 = shape_of_stage2(12 | 1 << 32 | 1 << 33, None).expect("a shape");
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

/// The roots of a machine whose CPUs have these registers, and what is noted.
fn of_cpus(cpus: &[&[(&str, u64)]]) -> Roots {
    let mut machine = Machine::new(Box::new(Bytes::new(0, Vec::new())));
    machine.cpus = cpus.iter().map(|values| registers(values)).collect();
    machine.roots().expect("memory")
}

const BOTH: [(&str, u64); 3] = [("TTBR1_EL1", 0x4000_0000), ("TTBR0_EL1", 0x4100_0000), ("SCTLR_EL1", 0x1001)];

/// Each field of TCR_EL1 counts for the halves that it is about.
#[test]
fn a_field_tells_roots_apart_where_a_walk_depends_on_it() {
    for field in TCR_EL1.fields {
        let changed = TCR ^ field.bit(0);
        let found =
            of_cpus(&[&[&BOTH[..], &[("TCR_EL1", TCR)]].concat(), &[&BOTH[..], &[("TCR_EL1", changed)]].concat()]);
        for (half, other, regime) in [('1', '0', Regime::El1Upper), ('0', '1', Regime::El1Lower)] {
            let of_half = found.roots.iter().filter(|root| root.regime == regime).count();
            let is_off = field.name == format!("EPD{half}");
            let expected = if is_off || field.name.trim_end_matches("SZ").ends_with(other) { 1 } else { 2 };
            assert_eq!(of_half, expected, "{regime:?} {}: {found:?}", field.name);
        }
        let told = found
            .notes
            .iter()
            .any(|note| note.contains(&format!("disagree with registers of CPU 0: TCR_EL1.{} is", field.name)));
        assert_eq!(told, !["EPD1", "EPD0"].contains(&field.name), "{}: {:?}", field.name, found.notes);
    }
}

#[test]
fn other_registers_tell_roots_apart_too() {
    let with = |more: &[(&str, u64)]| {
        let tcr = ("TCR_EL1", TCR);
        of_cpus(&[
            &[&BOTH[..], &[tcr, ("MAIR_EL1", 0xff), ("TCR2_EL1", 0)]].concat(),
            &[&BOTH[..], &[tcr, ("MAIR_EL1", 0xff), ("TCR2_EL1", 0)], more].concat(),
        ])
    };
    for (name, value, expected) in [
        ("TTBR1_EL1", 0x4000_0001, 2),
        ("TTBR1_EL1", 7 << 48 | 0x4000_0000, 2),
        ("TTBR0_EL1", 7 << 48 | 0x4100_0001, 2),
        ("TTBR0_EL1", 0x4200_0000, 3),
        ("MAIR_EL1", 0x44, 4),
        ("SCTLR_EL1", 0x1001 | 1 << 19, 4),
        ("SCTLR_EL1", 0x1001 | 1 << 25, 4),
        ("SCTLR_EL1", 0x1005, 4),
        ("SCTLR_EL1", 0x1003, 2),
        ("TCR2_EL1", 1 << 11, 4),
        ("VTTBR_EL2", 0x4300_0000, 2),
    ] {
        let found = with(&[(name, value)]);
        assert_eq!(found.roots.len(), expected, "{name} {value:#x}: {found:?}");
        assert_eq!(found.notes.len(), if expected == 4 { 2 } else { 0 }, "{name} {value:#x}: {:?}", found.notes);
    }
}

/// Two guests with one TTBR1, and one without stage 2.
#[test]
fn one_address_behind_two_stage_2s_is_two_page_tables() {
    let with = |vttbr: u64, hcr: u64| {
        let stage2 = [("VTTBR_EL2", vttbr), ("VTCR_EL2", 0x8002_3559), ("HCR_EL2", hcr)];
        [&BOTH[..1], &[("TCR_EL1", TCR)], &stage2].concat()
    };
    let found = of_cpus(&[
        &with(0x1_0000_4400_0000, 1),
        &with(0x4300_0000, 1),
        &with(0x4400_0001, 1),
        &with(0x4400_0000, 0),
        &with(0x4400_0000, 1 << 12),
    ]);
    let upper: Vec<&Root> = found.roots.iter().filter(|root| root.regime == Regime::El1Upper).collect();
    let behind = |root: &Root| root.stage2.as_ref().map(|stage2| stage2.address.bits());
    assert_eq!(upper.iter().map(|root| behind(root)).collect::<Vec<_>>(), [Some(0x4400_0000), Some(0x4300_0000), None]);
    assert_eq!(upper[0].origin, Origin::Registers(vec![0, 2, 4]));
    assert_eq!((found.roots.len(), found.notes.len()), (5, 0), "{found:?}");
}

/// What IPS and PARange allow: the least of them, and never more than descriptors hold.
#[test]
fn output_addresses_are_as_long_as_all_allow() {
    let bits = |ips: u64, parange: Option<u64>, layout: Layout| {
        let tcr = match layout {
            Layout::Bits48 => TCR,
            _ => TCR | 1 << 59,
        } & !(7 << 32)
            | ips << 32;
        let parange = parange.map(|range| ("ID_AA64MMFR0_EL1", range));
        let values: Vec<(&str, u64)> = BOTH.into_iter().chain([("TCR_EL1", tcr)]).chain(parange).collect();
        registers(&values).roots(&Origin::Flags).roots[0].output_bits
    };
    for (ips, expected) in [(0, 32), (1, 36), (2, 40), (3, 42), (4, 44), (5, 48), (6, 48), (7, 48)] {
        assert_eq!(bits(ips, None, Layout::Bits48), Some(expected), "{ips}");
    }
    assert_eq!(bits(6, None, Layout::Lpa2), Some(52));
    for (parange, expected) in [(0, 32), (4, 44), (5, 44), (15, 44)] {
        assert_eq!(bits(4, Some(parange), Layout::Bits48), Some(expected), "{parange}");
    }
    let stage2 =
        registers(&[("HCR_EL2", 1), ("VTCR_EL2", 0x8002_3558 | 1 << 21), ("VTTBR_EL2", 0)]).roots(&Origin::Flags);
    assert_eq!((stage2.roots[0].output_bits, stage2.roots[0].sets_access_flag), (Some(40), Some(true)));
    assert_eq!(registers(&[("TCR_EL1", TCR), BOTH[0]]).roots(&Origin::Flags).roots[0].sets_access_flag, Some(false));
}

/// AArch64.BlockDescSupported, LeafBase and TTBaseAddress: descriptors of 64K pages are as wide as the CPU is, a TTBR as IPS is.
#[test]
fn descriptors_of_64k_pages_are_as_wide_as_the_cpu() {
    const ROOT: u64 = 0x4000_0000 | 1 << 2;
    const HIGH: u64 = 1 << 48;
    let rows = [(5, None, false), (6, None, true), (5, Some(5), false), (5, Some(6), true), (6, Some(5), false)];
    for (ips, parange, is_wide) in rows.into_iter().chain([(6, Some(6), true), (0, Some(6), true), (6, Some(0), false)])
    {
        let both = TCR & !(7 << 32 | 3 << 14 | 3 << 30) | ips << 32 | 1 << 14 | 3 << 30;
        let one = 0x8080_3510 | 1 << 14 | ips << 16;
        let values = [
            ("TCR_EL1", both),
            ("TTBR0_EL1", ROOT),
            ("TTBR1_EL1", ROOT),
            ("SCTLR_EL1", 1),
            ("TCR_EL2", one),
            ("TTBR0_EL2", 1 << 63 | ROOT),
            ("SCTLR_EL2", 1),
            ("TCR_EL3", one),
            ("TTBR0_EL3", 1 << 63 | ROOT),
            ("SCTLR_EL3", 1),
            ("VTCR_EL2", 0x8000_3540 | 1 << 14 | ips << 16 | 24),
            ("VTTBR_EL2", ROOT),
            ("HCR_EL2", 1),
        ];
        let known = parange.map(|range| (MMFR0, range));
        let found = registers(&values.into_iter().chain(known).collect::<Vec<_>>()).roots(&Origin::Flags);
        assert_eq!(found.roots.len(), 5, "{found:?}");
        let address = 0x4000_0000 | if is_wide && ips == 6 { HIGH } else { 0 };
        for root in &found.roots {
            let expected = if is_wide { Layout::Lpa } else { Layout::Bits48 };
            assert_eq!((root.shape.layout, root.address.bits()), (expected, address), "{ips} {parange:?} {root}");
            assert_eq!(root.identifier, 0, "EL2 and EL3 have no ASID: {root}");
            assert_eq!(root.shape.page_size.has_leaf(Level::L1, root.shape.layout), is_wide);
        }
    }
}
