//! What brings a board down: each kind at its borders, and what is by design beside it.

use image::Setting;
use vmsa::registers::MemoryTypes;
use vmsa::{Level, PermissionControl};

use super::*;

/// A page of memory that is no table's.
const DATA: u64 = PAGE | 0x4000_0000;
const USER: u64 = 1 << 6;
const AF: u64 = 1 << 10;
const NOT_GLOBAL: u64 = 1 << 11;
const PXN: u64 = 1 << 53;
const UXN: u64 = 1 << 54;
/// In Linux's order of memory types.
const DEVICE: u64 = 4 << 2;
const UNCACHED: u64 = 2 << 2;

/// What is found of these descriptors, once `change` has changed the root and the machine.
fn found(descriptors: &[(usize, usize, u64)], change: impl Fn(&mut Machine, &mut Root)) -> Vec<(Kind, u64, u64)> {
    let (mut machine, mut root) = machine(descriptors);
    change(&mut machine, &mut root);
    let base = root.shape.base();
    let found = check(&mut machine, &[root]).unwrap_or_else(|Failure(line)| panic!("{line}"));
    found.iter().map(|finding| (finding.kind, finding.input - base, finding.bytes)).collect()
}

fn of_root(entries: &[(usize, u64)], change: impl Fn(&mut Root)) -> Vec<(Kind, u64, u64)> {
    found(&pages(entries.iter().copied()), |_, root| change(root))
}

#[test]
fn outputs_above_ips_are_found() {
    for bits in [32, 36, 40, 44] {
        let of = |output: u64| of_root(&[(0, PAGE | output)], |root| root.output_bits = Some(bits));
        assert_eq!(of((1 << bits) - 0x1000), [], "{bits}");
        for above in [1 << bits, (1 << bits) + 0x1000, 10 << bits & 0xffff_ffff_f000] {
            assert_eq!(of(above), [(Kind::OutputSize, 0, 0x1000)], "{bits} {above:#x}");
        }
    }
    assert_eq!(of_root(&[(0, PAGE | 0xffff_ffff_f000)], |root| root.output_bits = None), [], "no register says");
    // Of tables, and of the root.
    let table = found(&[(0, 1, 1 << 33 | 3)], |_, root| root.output_bits = Some(33));
    assert_eq!(table, [(Kind::OutputSize, 1 << 30, 1 << 30), (Kind::Outside, 1 << 30, 1 << 30)]);
    let root =
        found(&pages([(0, PAGE)]), |_, root| (root.address, root.output_bits) = (PhysAddr::new(1 << 33), Some(33)));
    assert_eq!(root, [(Kind::OutputSize, 0, 1 << 39), (Kind::Outside, 0, 1 << 39)]);
}

#[test]
fn a_kernels_page_without_access_flag_is_found_where_hardware_sets_none() {
    let of = |page: u64, sets: Option<bool>| of_root(&[(3, page & !AF)], |root| root.sets_access_flag = sets);
    assert_eq!(of(DATA, Some(false)), [(Kind::AccessFlag, 0x3000, 0x1000)]);
    assert_eq!(of(DATA, Some(true)), []);
    assert_eq!(of(DATA, None), [], "no register says");
    assert_eq!(of(DATA | USER | NOT_GLOBAL, Some(false)), [], "an old page of a process");
    assert_eq!(of_root(&[(3, DATA)], |root| root.sets_access_flag = Some(false)), []);
    assert_eq!(of_root(&[(3, DATA & !AF & !1)], |root| root.sets_access_flag = Some(false)), [], "invalid");
}

#[test]
fn executable_device_memory_is_found_writable_or_not() {
    let kinds = |page: u64| of_root(&[(3, page)], |_| {}).into_iter().map(|(kind, ..)| kind).collect::<Vec<_>>();
    for memory in [DEVICE, 3 << 2] {
        assert_eq!(kinds(DATA | memory), []);
        assert_eq!(kinds(DATA & !PXN | memory | READ_ONLY), [Kind::DeviceExecutable]);
        assert_eq!(kinds(DATA & !PXN | memory), [Kind::Wx, Kind::DeviceExecutable]);
        assert_eq!(kinds(DATA & !UXN | memory | READ_ONLY | USER | NOT_GLOBAL), [Kind::DeviceExecutable]);
    }
    for memory in [0, 1 << 2, UNCACHED] {
        assert_eq!(kinds(DATA & !PXN | memory | READ_ONLY), [], "{memory}");
    }
}

#[test]
fn what_el0_executes_and_el1_writes_is_found() {
    let kinds = |page: u64| of_root(&[(3, page)], |_| {}).into_iter().map(|(kind, ..)| kind).collect::<Vec<_>>();
    assert_eq!(kinds(DATA & !UXN), [Kind::UserExecutes]);
    assert_eq!(kinds(DATA & !UXN | NOT_GLOBAL), [Kind::UserExecutes]);
    assert_eq!(kinds(DATA & !UXN | READ_ONLY | USER | NOT_GLOBAL), [], "text of a process");
    assert_eq!(kinds(DATA & !UXN | READ_ONLY | NOT_GLOBAL), [], "text that EL0 may only execute");
    assert_eq!(kinds(DATA & !UXN | USER | NOT_GLOBAL), [Kind::UserWx]);
    // EL1 executes nothing that EL0 writes, whatever bits say; by another address it may.
    assert_eq!(kinds(DATA & !PXN | USER | NOT_GLOBAL), []);
    let text = DATA & !PXN | READ_ONLY;
    let data = DATA | USER | NOT_GLOBAL;
    assert_eq!(of_root(&[(3, text), (5, data)], |_| {}), [(Kind::Alias, 0x3000, 0x1000)]);
}

#[test]
fn pages_of_el0_for_every_asid_are_found() {
    let kinds = |page: u64| of_root(&[(3, page)], |_| {});
    assert_eq!(kinds(DATA | USER), [(Kind::UserGlobal, 0x3000, 0x1000)]);
    assert_eq!(kinds(DATA | USER | READ_ONLY), [(Kind::UserGlobal, 0x3000, 0x1000)]);
    assert_eq!(kinds(DATA & !UXN | READ_ONLY), [(Kind::UserGlobal, 0x3000, 0x1000)], "EL0 may execute it");
    assert_eq!(kinds(DATA | USER | NOT_GLOBAL), []);
    assert_eq!(kinds(DATA | READ_ONLY), []);
    let one_privilege = PermissionControl { has_one_privilege: true, ..PermissionControl::default() };
    assert_eq!(
        of_root(&[(3, DATA | USER)], |root| root.control = one_privilege),
        [],
        "AP[1] is RES1, and there is no nG"
    );
}

/// The memory of the test is all that the machine has: 0 to 0x8000.
#[test]
fn cached_memory_that_is_not_there_is_found() {
    let of = |page: u64, tells: bool| {
        let found = found(&pages([(3, page)]), |machine, _| machine.tells_memory = tells);
        found.into_iter().filter(|(kind, ..)| *kind != Kind::Alias).collect::<Vec<_>>()
    };
    let none = [(Kind::NoMemory, 0x3000, 0x1000)];
    for (output, is_there) in [(0x7000, true), (0x8000, false), (0x9000, false), (0x5_0000, false)] {
        assert_eq!(of(PAGE | output, true), if is_there { &none[..0] } else { &none }, "{output:#x}");
        assert_eq!(of(PAGE | output, false), [], "a file does not tell where else there is memory");
        assert_eq!(of(PAGE | DEVICE | output, true), []);
        assert_eq!(of(PAGE | UNCACHED | output, true), []);
    }
    let block = found(&[(0, 0, 0x1003), (1, 1, BLOCK)], |machine, _| machine.tells_memory = true);
    assert_eq!(block, [(Kind::NoMemory, 0x20_8000, 0x20_0000 - 0x8000)], "all of a block but its first 32 KiB");
}

#[test]
fn tables_that_are_executable_or_that_el0_writes_are_found() {
    let of = |page: u64| of_root(&[(3, page)], |_| {});
    let exposed = (Kind::ExposedTable, 0x3000, 0x1000);
    for table in [0, 0x1000, 0x2000] {
        assert_eq!(of(PAGE | table), [], "a kernel writes its tables");
        assert_eq!(of(PAGE | USER | NOT_GLOBAL | READ_ONLY | table), []);
        assert_eq!(of(PAGE | USER | NOT_GLOBAL | table), [exposed]);
        assert_eq!(of(PAGE & !PXN | READ_ONLY | table), [exposed]);
        assert_eq!(of(PAGE & !PXN | table), [(Kind::Wx, 0x3000, 0x1000), exposed]);
        assert_eq!(of(PAGE & !UXN | READ_ONLY | USER | NOT_GLOBAL | table), [exposed]);
    }
    assert_eq!(of(PAGE | USER | NOT_GLOBAL | 0x3000), [], "no table is there");
}

/// Two halves of one regime: the root at 0 has the kernel's page 0x5000, the one at 0x3000 somebody's.
fn two_halves(upper: u64, lower: u64, cpus: [usize; 2]) -> Vec<Kind> {
    let lower_tables = [(3, 0, 0x4003), (4, 0, 0x6003), (6, 9, lower | 0x5000)];
    let (mut machine, root) = machine(&[&pages([(3, upper | 0x5000)])[..], &lower_tables].concat());
    let of = |root: Root, cpu| Root { origin: Origin::Registers(vec![cpu]), ..root };
    let shape = Shape::stage1(PageSize::Size4K, Layout::Bits48, 39, AddressHalf::Lower).expect("a shape");
    let other = Root::bare(Regime::El1Lower, PhysAddr::new(0x3000), shape, Origin::Flags);
    let roots = [of(root, cpus[0]), of(other, cpus[1])];
    let found = check(&mut machine, &roots).unwrap_or_else(|Failure(line)| panic!("{line}"));
    found.iter().map(|finding| finding.kind).collect()
}

#[test]
fn a_read_only_page_that_the_other_half_writes_is_found() {
    let (data, user) = (PAGE, PAGE | USER | NOT_GLOBAL);
    let (constants, user_constants) = (PAGE | READ_ONLY, user | READ_ONLY);
    assert_eq!(two_halves(constants, user, [0, 0]), [Kind::Alias]);
    assert_eq!(two_halves(constants, data, [0, 0]), [Kind::Alias], "an identity map, say");
    assert_eq!(two_halves(constants, user_constants, [0, 0]), []);
    assert_eq!(two_halves(data, user_constants, [0, 0]), [], "a process's constants are a kernel's data");
    assert_eq!(two_halves(data, user, [0, 0]), []);
    assert_eq!(two_halves(constants, user, [0, 1]), [], "two CPUs, of which neither has both");
}

#[test]
fn cpus_that_disagree_about_a_table_are_found() {
    let with = |name: &str, value: u64| {
        let (mut machine, root) = machine(&pages([(3, PAGE)]));
        let setting = |value| vec![Setting { name: name.to_owned(), value }];
        let roots = [
            Root { settings: setting(5), origin: Origin::Registers(vec![0]), ..root.clone() },
            Root { settings: setting(value), origin: Origin::Registers(vec![1, 2]), ..root },
        ];
        let found = check(&mut machine, &roots).unwrap_or_else(|Failure(line)| panic!("{line}"));
        found.into_iter().map(|finding| (finding.kind, finding.root, finding.what)).collect::<Vec<_>>()
    };
    let what = "registers of CPU 1, 2 disagree with registers of CPU 0: TCR_EL1.IPS is 0x5 and 0x2".to_owned();
    assert_eq!(with("TCR_EL1.IPS", 2), [(Kind::Disagree, 1, what)]);
}

/// Stage 2 of 30 bits, its root at 0, with blocks of 2 MiB.
fn stage2(leaf: u64, forces_write_back: bool) -> Vec<Kind> {
    let (mut machine, root) = machine(&[(0, 2, leaf)]);
    let shape = Shape::stage2(PageSize::Size4K, Layout::Bits48, 30, Level::L2).expect("a shape");
    let root = Root { regime: Regime::Stage2, shape, forces_write_back, ..root };
    let found = check(&mut machine, &[root]).unwrap_or_else(|Failure(line)| panic!("{line}"));
    found.iter().map(|finding| finding.kind).collect()
}

#[test]
fn a_guests_memory_is_clean_and_its_devices_are_not_executable() {
    let leaf = |memory: u64| 0x20_0000 | 1 << 10 | 0b11 << 8 | 0b11 << 6 | memory << 2 | 1;
    let never = 0b10 << 53;
    assert_eq!(stage2(leaf(0b1111), false), [], "readable, writable, executable, by design");
    assert_eq!(stage2(leaf(0b1111) & !(1 << 10), false), [], "an old page");
    for memory in 0..4 {
        assert_eq!(stage2(leaf(memory) | never, false), []);
        assert_eq!(stage2(leaf(memory), false), [Kind::DeviceExecutable]);
    }
    assert_eq!(stage2(leaf(0b1111) & !0x20_0000, false), [Kind::GuestTable], "it reaches its own stage 2");
    assert_eq!(stage2(leaf(0b1111) & !0x20_0000 & !(1 << 7), false), [], "it may not write it");
}

/// D8.6.5 and D8.6.6: which values of MemAttr are reserved, without FWB and with it.
#[test]
fn reserved_memory_types_of_stage_2_are_found() {
    let leaf = |memory: u64| 0x20_0000 | 1 << 10 | 0b11 << 8 | 0b11 << 6 | memory << 2 | 1 | 0b10 << 53;
    let reserved = |fwb| (0..16).filter(|memory| stage2(leaf(*memory), fwb) == [Kind::Reserved]).collect::<Vec<u64>>();
    assert_eq!(reserved(false), [0b0100, 0b1000, 0b1100]);
    assert_eq!(reserved(true), [0b0100, 0b1000, 0b1001, 0b1010, 0b1011, 0b1100, 0b1101, 0b1110, 0b1111]);
    for memory in 0..16 {
        assert!(stage2(leaf(memory), memory % 2 == 0).len() <= 1, "{memory}");
    }
}

/// Addresses of a guest are not the machine's: its memory type at one says nothing of EL2's at the same number.
#[test]
fn addresses_of_a_guest_are_not_compared_with_the_machines() {
    let (mut machine, root) = machine(&pages([(3, PAGE | 0x5000), (4, PAGE | DEVICE | 0x6000)]));
    let shape = Shape::stage2(PageSize::Size4K, Layout::Bits48, 30, Level::L2).expect("a shape");
    let stage2 =
        Root { regime: Regime::Stage2, ..Root::bare(Regime::Stage2, PhysAddr::new(0x3000), shape, Origin::Flags) };
    let types = |indices: u64| Some(MemoryTypes(indices));
    let el2 = Root { regime: Regime::El2Upper, memory: types(0x4400_0000_00ff), ..root.clone() };
    let guest = Root { stage2: Some(Box::new(stage2)), memory: types(0xff_0000_0044), ..root };
    let found = check(&mut machine, &[guest, el2]).unwrap_or_else(|Failure(line)| panic!("{line}"));
    assert!(found.iter().all(|finding| finding.kind != Kind::Types), "{found:?}");
    // The guest's root at 0 is nowhere by its stage 2, which is empty.
    assert_eq!(found[0].kind, Kind::Unmapped, "{found:?}");
}
