//! TLBI opcodes, operands and scopes, each a row of a table. (DDI 0487, C5.5; scope: D8.17)

use crate::common;
use common::*;
use machine::context::{Regime, Tag};
use machine::event::Level;
use machine::finding::{Missing, Rule};
use machine::geometry::Granule;
use machine::machine::Machine;
use machine::registers::{Features, HCR_E2H, HCR_TGE, Register};
use machine::tlb::entry::Entry;
use machine::tlb::holders::Holders;
use machine::tlbi::{Flaw, Invalidation, Miss, Opcode, Scope, Selector, What};

const PA: u64 = 0x8000_0000;

#[test]
fn opcodes() {
    // (instruction word of `tlbi OP, x0`, name); the words are those an assembler produces.
    let table = [
        (0xd508_831f, "TLBI VMALLE1IS"),
        (0xd508_8320, "TLBI VAE1IS"),
        (0xd508_8340, "TLBI ASIDE1IS"),
        (0xd508_8360, "TLBI VAAE1IS"),
        (0xd508_83a0, "TLBI VALE1IS"),
        (0xd508_83e0, "TLBI VAALE1IS"),
        (0xd508_871f, "TLBI VMALLE1"),
        (0xd508_8720, "TLBI VAE1"),
        (0xd508_81a0, "TLBI VALE1OS"),
        (0xd508_8220, "TLBI RVAE1IS"),
        (0xd508_86e0, "TLBI RVAALE1"),
        (0xd508_8560, "TLBI RVAAE1OS"),
        (0xd508_9320, "TLBI VAE1ISnXS"),
        (0xd50c_8020, "TLBI IPAS2E1IS"),
        (0xd50c_80a0, "TLBI IPAS2LE1IS"),
        (0xd50c_8040, "TLBI RIPAS2E1IS"),
        (0xd50c_8420, "TLBI IPAS2E1"),
        (0xd50c_8400, "TLBI IPAS2E1OS"),
        (0xd50c_8480, "TLBI IPAS2LE1OS"),
        (0xd50c_84c0, "TLBI RIPAS2LE1"),
        (0xd50c_84e0, "TLBI RIPAS2LE1OS"),
        (0xd50c_831f, "TLBI ALLE2IS"),
        (0xd50c_8320, "TLBI VAE2IS"),
        (0xd50c_83a0, "TLBI VALE2IS"),
        (0xd50c_839f, "TLBI ALLE1IS"),
        (0xd50c_83df, "TLBI VMALLS12E1IS"),
        (0xd50c_871f, "TLBI ALLE2"),
        (0xd50c_8620, "TLBI RVAE2"),
        (0xd50c_82a0, "TLBI RVALE2IS"),
    ];
    for (instruction, name) in table {
        let opcode = Opcode::from_instruction(instruction).expect("a SYS instruction");
        assert_eq!(opcode.decode().expect(name).to_string(), name, "{instruction:#x}");
    }
    // Holes, and DC CIVAC, which is SYS but no TLBI.
    for hole in [0xd508_8380, 0xd508_8200, 0xd508_8240, 0xd50b_7e20, 0xd50c_8360] {
        assert!(Opcode::from_instruction(hole).and_then(Opcode::decode).is_none(), "{hole:#x}");
    }
}

fn decode(opcode: Opcode, operand: u64, has_ds: bool) -> (Option<Invalidation>, Option<Flaw>) {
    Invalidation::decode(opcode.decode().unwrap(), operand, has_ds, &Features::full(0))
}

#[test]
fn single_operands() {
    let of = |opcode, operand| decode(opcode, operand, false).0.unwrap();
    // Always shifted by 12, whatever the granule; VA[63:56] copy VA[55].
    let it = of(VAE1IS, 0x1234 << 48 | 0x80_1234_5678);
    assert_eq!((it.asid, it.first, it.last), (0x1234, 0x0008_0123_4567_8000, 0x0008_0123_4567_8fff));
    let it = of(VAE1IS, 0x0fff_ffff_fffc_u64 & ((1 << 44) - 1));
    assert_eq!(it.first, 0xffff_ffff_ffff_c000);
    // An intermediate address has no sign, and an NS bit above.
    let it = of(IPAS2E1IS, 1 << 63 | 0xf_0000_0001);
    assert_eq!(it.first, 0xf000_0000_1000);
    assert_eq!(of(IPAS2E1IS, 0xff_ffff_ffff).last, 0xf_ffff_ffff_ffff);
    let hints = [
        (0b0000, false, None, None),
        (0b0101, false, Some((Granule::Size4K, 1)), None),
        (0b0111, false, Some((Granule::Size4K, 3)), None),
        (0b1010, false, Some((Granule::Size16K, 2)), None),
        (0b1111, false, Some((Granule::Size64K, 3)), None),
        // Level 0 for 4K and level 1 for 16K mean something only with DS; anything else is no hint at all.
        (0b0100, true, Some((Granule::Size4K, 0)), None),
        (0b0100, false, None, Some(Flaw::ReservedHint)),
        (0b1001, true, Some((Granule::Size16K, 1)), None),
        (0b1001, false, None, Some(Flaw::ReservedHint)),
        (0b1000, true, None, Some(Flaw::ReservedHint)),
        (0b1100, true, None, Some(Flaw::ReservedHint)),
        (0b0011, false, None, Some(Flaw::ReservedHint)),
    ];
    for (ttl, has_ds, hint, flaw) in hints {
        let (it, found) = decode(VALE1IS, ttl << 44 | 5, has_ds);
        let it = it.unwrap();
        assert_eq!((it.granule.zip(it.level), found), (hint, flaw), "TTL {ttl:#b}");
    }
}

#[test]
fn range_operands() {
    let range = |tg: u64, scale: u64, num: u64, ttl: u64, base: u64, has_ds| {
        decode(RVAE1IS, 1 << 48 | tg << 46 | scale << 44 | num << 39 | ttl << 37 | base, has_ds)
    };
    let table = [
        // Two pages at least, 2^21 granules at most.
        (1, 0, 0, 0x10, false, (0x1_0000, 0x1_1fff)),
        (1, 0, 31, 0, false, (0, 0x3_ffff)),
        (1, 1, 0, 0, false, (0, 0x3_ffff)),
        (1, 2, 1, 0, false, (0, 4096 * 4096 - 1)),
        (1, 3, 31, 0, false, (0, (1 << 33) - 1)),
        (2, 0, 0, 1, false, (0x4000, 0xbfff)),
        (3, 0, 0, 1, false, (0x1_0000, 0x2_ffff)),
        // With DS the base counts 64 KiB, the length still granules.
        (1, 0, 0, 1, true, (0x1_0000, 0x1_1fff)),
        (2, 0, 1, 1, true, (0x1_0000, 0x1_ffff)),
        // The upper half, clipped at its end.
        (1, 0, 0, 0x1f_ffff_fffe, false, (0xffff_ffff_ffff_e000, u64::MAX)),
    ];
    for (tg, scale, num, base, has_ds, (first, last)) in table {
        let (it, flaw) = range(tg, scale, num, 0, base, has_ds);
        let it = it.unwrap();
        assert_eq!((it.first, it.last, flaw), (first, last, None), "TG {tg} SCALE {scale} NUM {num}");
    }
    assert_eq!(range(0, 0, 0, 0, 0, false), (None, Some(Flaw::ReservedGranule)));
    assert_eq!(range(1, 0, 4, 0, 0x1f_ffff_fffe, false).1, Some(Flaw::Wraps));
    // A level hint asks for alignment to that level's block.
    let aligned = [(1, 2, 0x200, true), (1, 2, 0x100, false), (1, 1, 0x4_0000, true), (1, 1, 0x200, false)];
    let more = [(1, 3, 1, true), (2, 2, 0x800, true), (2, 2, 0x400, false), (3, 2, 0x2000, true), (3, 2, 1, false)];
    for (tg, ttl, base, is_right) in aligned.into_iter().chain(more) {
        let flaw = if is_right { None } else { Some(Flaw::MisalignedBase) };
        assert_eq!(range(tg, 0, 0, ttl, base, false).1, flaw, "TG {tg} TTL {ttl} base {base:#x}");
    }
    let plain = Invalidation::decode(RVAE1IS.decode().unwrap(), 1 << 46, false, &Features::plain());
    assert_eq!(plain, (None, Some(Flaw::Undefined)));
}

/// One stale entry of each kind: a global and a non-global leaf, a table, a stage-2 leaf and table, a combined leaf.
struct Kinds {
    global: Entry,
    non_global: Entry,
    table: Entry,
    stage2_leaf: Entry,
    stage2_table: Entry,
    combined: Entry,
    el2: Entry,
}

fn kinds() -> Kinds {
    let stale = |machine: &Machine, wants: &dyn Fn(&Entry) -> bool| {
        machine.may().stale().iter().map(|it| it.0).find(|it| wants(it)).expect("a stale entry")
    };
    let mut one = el1(1, Features::full(0));
    map(&mut one, L3 + 40, PAGE | PA);
    map(&mut one, L3 + 48, PAGE | PA | NON_GLOBAL);
    for word in [L3 + 40, L3 + 48, L2] {
        one.store(0, word, 0);
        one.barrier(0, ISH);
    }
    let mut two = stage2(1, Features::full(0));
    map(&mut two, S2_L3 + 40, S2_PAGE | PA);
    for word in [S2_L3 + 40, S2_L2] {
        two.store(0, word, 0);
        two.barrier(0, ISH);
    }
    let mut both = stage2(1, Features::full(0));
    map(&mut both, S2_L3 + 40, S2_PAGE | PA);
    both.store(0, S2_L3 + 40, 0);
    both.barrier(0, ISH);
    both.tlbi(0, IPAS2E1IS, 5);
    both.barrier(0, ISH);
    both.barrier(0, ISB);
    let mut el2 = el2(1, Features::full(0));
    map(&mut el2, L3 + 40, PAGE | PA);
    el2.store(0, L3 + 40, 0);
    el2.barrier(0, ISH);
    Kinds {
        global: stale(&one, &|it| it.attributes().is_some_and(|it| it.is_global)),
        non_global: stale(&one, &|it| it.attributes().is_some_and(|it| !it.is_global)),
        table: stale(&one, &|it| it.is_table()),
        stage2_leaf: stale(&two, &|it| it.tag.regime == Regime::Stage2 && !it.is_table()),
        stage2_table: stale(&two, &|it| it.tag.regime == Regime::Stage2 && it.is_table()),
        combined: stale(&both, &|it| it.is_combined),
        el2: stale(&el2, &|it| it.tag.regime == Regime::El2),
    }
}

#[test]
fn scope_table() {
    let kinds = kinds();
    let entries = [
        (&kinds.global, Holders::of(machine::tlb::holders::GLOBAL, 1)),
        (&kinds.non_global, Holders::of(1, 1)),
        (&kinds.table, Holders::of(1, 1)),
        (&kinds.stage2_leaf, Holders::of(machine::tlb::holders::GLOBAL, 1)),
        (&kinds.stage2_table, Holders::of(machine::tlb::holders::GLOBAL, 1)),
        (&kinds.combined, Holders::of(machine::tlb::holders::GLOBAL, 1)),
        (&kinds.el2, Holders::of(machine::tlb::holders::GLOBAL, 1)),
    ];
    let vaale1 = Opcode::new(0, 8, 7, 7);
    let vmalls12 = Opcode::new(4, 8, 7, 6);
    // Columns: global leaf, non-global leaf, table, stage-2 leaf, stage-2 table, combined, EL2 leaf.
    let table: [(Opcode, u64, &str); 17] = [
        (VAE1, 1 << 48 | 5, "y-y--y-"),
        (VAE1, 1 << 48 | 6, "-yy----"),
        (VAE1, 2 << 48 | 6, "-------"),
        (VAE1, 2 << 48 | 5, "y----y-"),
        (VALE1IS, 1 << 48 | 5, "y----y-"),
        (VAAE1IS, 6, "-yy----"),
        (vaale1, 6, "-y-----"),
        (vaale1, 5, "y----y-"),
        (ASIDE1IS, 1 << 48, "-yy----"),
        (VMALLE1, 0, "yyy--y-"),
        (vmalls12, 0, "yyyyyy-"),
        (ALLE1IS, 0, "yyyyyy-"),
        (IPAS2E1IS, 5, "---yy--"),
        (IPAS2LE1IS, 5, "---y---"),
        (IPAS2E1IS, 6, "----y--"),
        (VAE2IS, 5, "------y"),
        (ALLE2IS, 0, "------y"),
    ];
    for (opcode, operand, expected) in table {
        let invalidation = decode(opcode, operand, false).0.unwrap();
        let operation = invalidation.operation;
        let selected: String = entries
            .iter()
            .map(|(entry, holders)| {
                let regime = if operation.is_el2 { Regime::El2 } else { Regime::El10 };
                let selector = Selector { invalidation, regime: Some(regime), vmid: Some(entry.tag.vmid) };
                if selector.select(entry, holders).is_ok() { 'y' } else { '-' }
            })
            .collect();
        assert_eq!(selected, expected, "{operation} {operand:#x}");
    }
    // Another VMID, and the forms that do not care.
    let other = |opcode: Opcode, entry: &Entry, holders: &Holders| {
        let invalidation = decode(opcode, 5, false).0.unwrap();
        Selector { invalidation, regime: Some(Regime::El10), vmid: Some(9) }.select(entry, holders).is_ok()
    };
    for (entry, holders) in &entries[..6] {
        assert!(!other(vmalls12, entry, holders) && !other(VMALLE1, entry, holders), "{entry}");
        assert!(other(ALLE1IS, entry, holders), "{entry}");
    }
    let why = |opcode: Opcode, entry: &Entry| {
        let invalidation = decode(opcode, 5, false).0.unwrap();
        let holders = Holders::of(machine::tlb::holders::GLOBAL, 1);
        Selector { invalidation, regime: Some(Regime::El10), vmid: Some(7) }.select(entry, &holders)
    };
    assert_eq!(why(IPAS2E1IS, &kinds.combined).unwrap_err(), Miss::Stage2Only);
    assert_eq!(kinds.combined.tag, Tag::el10(7));
}

/// Maps on `cpus` CPUs, breaks with these steps on CPU 0, and tells whether another frame may follow.
fn survives(machine: &mut Machine, opcode: Opcode, operand: u64) -> bool {
    map(machine, L3, PAGE | PA | NON_GLOBAL);
    unmap(machine, L3, opcode, operand);
    machine.take_findings();
    machine.store(0, L3, PAGE | (PA + 0x1000) | NON_GLOBAL);
    machine.findings().iter().any(|it| it.rule == Rule::Overlap)
}

#[test]
fn domains_and_asids() {
    let asid = 1 << 48;
    assert!(!survives(&mut el1(1, Features::full(0)), VAE1, asid));
    assert!(survives(&mut el1(2, Features::full(0)), VAE1, asid), "local on two CPUs");
    assert!(!survives(&mut el1(2, Features::full(0)), VAE1IS, asid));
    assert!(survives(&mut el1(2, Features::full(0)), VAE1IS, 0), "ASID left out");
    assert!(survives(&mut el1(2, Features::full(0)), VAE1IS, asid | 1), "another page");
    assert!(survives(&mut el1(2, Features::full(0)), ASIDE1IS, 1), "ASID in the low bits");
    assert!(!survives(&mut el1(2, Features::full(0)), ASIDE1IS, asid));
    assert!(survives(&mut el1(2, Features::full(0)), VAE2IS, asid), "another regime");
    assert!(!survives(&mut el1(2, Features::full(0)), RVALE1IS, asid | 1 << 46));
    // A CPU without range TLBIs need not act on a broadcast one.
    let mut mixed = Machine::new(&[Features::full(0), Features { range_tlbi: false, ..Features::full(0) }]);
    tables(&mut mixed);
    (0..2).for_each(|cpu| enable_el1(&mut mixed, cpu, 1, ROOT));
    assert!(survives(&mut mixed, RVALE1IS, asid | 1 << 46));
    // At EL2 with E2H and TGE, E1 operations mean EL2&0.
    let mut host = el1(1, Features::full(0));
    map(&mut host, L3, PAGE | PA);
    host.store(0, L3, 0);
    host.barrier(0, ISH);
    host.enter(0, Level::El2);
    msr(&mut host, 0, &[(Register::HcrEl2, HCR_E2H | HCR_TGE)]);
    host.tlbi(0, VMALLE1IS, 0);
    host.barrier(0, ISH);
    host.barrier(0, ISB);
    assert!(!host.may().stale().is_empty(), "the guest's entry is still there");
}

#[test]
fn misencodings_are_named() {
    let wrong = |opcode, operand| {
        let mut machine = el1(1, Features::full(0));
        map(&mut machine, L3 + 0x80, PAGE | PA | NON_GLOBAL);
        machine.store(0, L3 + 0x80, 0);
        machine.barrier(0, ISH);
        machine.tlbi(0, opcode, operand);
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        machine.store(0, L3 + 0x80, PAGE | (PA + 0x1000) | NON_GLOBAL);
        machine.take_findings()
    };
    // Page 16, address 0x1_0000: not shifted; shifted by 14 and 16 as if by the page size of 16K and 64K.
    let asid = 1 << 48;
    for operand in [asid | 0x1_0000, asid | 0x1_0000 >> 14, asid | 0x1_0000 >> 16] {
        let found = wrong(VALE1IS, operand);
        assert!(found.iter().any(|it| it.rule == Rule::Encoding), "{operand:#x}: {found:?}");
    }
    assert!(wrong(VALE1IS, asid | 0x10).is_empty());
    let found = wrong(RVALE1IS, asid | 0x10);
    assert_eq!(found[0].missing, Missing::Encoding(Some(Flaw::ReservedGranule)));
    assert_eq!(wrong(Opcode::new(0, 8, 3, 4), 0)[0].rule, Rule::Encoding);
    assert_eq!(Opcode::new(0, 8, 3, 1).decode().unwrap().scope, Scope::Inner);
    assert_eq!(Opcode::new(0, 8, 3, 1).decode().unwrap().what, What::Address);
}

/// A table is cached under two ASIDs, and two TLBIs of one batch take it from both: the first, of ASID 1, with a global
/// leaf below it, the second, of every ASID, without. Between the two the leaf can be cached anew through the table of
/// ASID 2, whether or not the CPU must synchronize before it is sure.
#[test]
fn a_global_leaf_outlives_the_table_that_another_asid_kept() {
    for (leaf, is_both) in [(PAGE, true), (PAGE, false), (PAGE & !(3 << 53), true), (PAGE & !(3 << 53), false)] {
        let mut machine = el1(1, Features::full(3));
        map(&mut machine, L3 + 8, leaf | 0x8000_0000);
        machine.write_register(0, Register::Ttbr0El1, 2 << 48 | ROOT);
        machine.store(0, L2, 0);
        machine.barrier(0, ISHST);
        machine.tlbi(0, VAE1IS, 1 << 48 | 1);
        machine.tlbi(0, VAAE1IS, if is_both { 1 } else { 0 });
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        let is_left = machine.may().stale().iter().any(|(entry, _)| entry.start == 0x1000 && !entry.is_table());
        assert_eq!(is_left, !is_both, "{:#?}", machine.may().stale());
    }
}
