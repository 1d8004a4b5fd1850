//! Tables from the manual, and every value of every register against a model that is written the other way round: it asks,
//! for one access, whether something refuses it.

extern crate std;
use std::format;
use std::string::String;

use super::*;

const NONE: TableAttributes = TableAttributes::empty();
const USER: u64 = 1 << 6;
const READ_ONLY: u64 = 1 << 7;
const DBM: u64 = 1 << 51;
const PXN: u64 = 1 << 53;
const UXN: u64 = 1 << 54;

/// `privileged unprivileged` in letters.
fn letters(permissions: Option<Permissions>) -> String {
    let Some(permissions) = permissions else { return String::from("unknown") };
    format!("{} {}", permissions.privileged, permissions.unprivileged)
}

fn stage1(control: PermissionControl, bits: u64, limits: TableAttributes) -> String {
    letters(control.stage1(Descriptor::new(bits), limits))
}

/// The table of stage-1 permissions: D8.4.1 and D8.4.2.
#[test]
fn direct_permissions_match_the_manual() {
    let table = [
        (0, NONE, "rwx --x"),
        (PXN | UXN, NONE, "rw- ---"),
        (READ_ONLY | UXN, NONE, "r-x ---"),
        (USER, NONE, "rw- rwx"),
        (USER | READ_ONLY, NONE, "r-x r-x"),
        (USER | READ_ONLY | PXN | UXN, NONE, "r-- r--"),
        (READ_ONLY | DBM | PXN | UXN, NONE, "r-- ---"),
        (PXN | UXN, TableAttributes::READ_ONLY, "r-- ---"),
        (0, TableAttributes::PXN | TableAttributes::UXN, "rw- ---"),
        (USER, TableAttributes::NO_USER, "rwx --x"),
    ];
    for (bits, limits, expected) in table {
        assert_eq!(stage1(PermissionControl::default(), bits, limits), expected, "{bits:#x} {limits:?}");
    }
}

#[test]
fn registers_change_what_direct_permissions_mean() {
    let plain = PermissionControl::default();
    let dirty = PermissionControl { manages_dirty_state: true, ..plain };
    assert_eq!(stage1(dirty, READ_ONLY | DBM | PXN | UXN, NONE), "rw- ---");
    // WXN is about what each privilege writes itself: EL0 goes on to execute what EL1 alone writes.
    let wxn = PermissionControl { writable_is_no_execute: true, ..plain };
    assert_eq!(stage1(wxn, 0, NONE), "rw- --x");
    assert_eq!(stage1(wxn, USER, NONE), "rw- rw-");
    let flat = PermissionControl { ignores_hierarchy: true, ..plain };
    assert_eq!(stage1(flat, PXN | UXN, TableAttributes::READ_ONLY), "rw- ---");
    let el2 = PermissionControl { has_one_privilege: true, ..plain };
    assert_eq!(stage1(el2, USER | PXN, NONE), "rwx ---", "at EL2 bit 54 alone decides");
    assert_eq!(stage1(el2, USER | UXN, NONE), "rw- ---");
    assert_eq!(
        stage1(PermissionControl { overlay: Overlay::Unknown, ..plain }, 0, NONE),
        "rwx --x",
        "before the overlay"
    );
    let unknown = PermissionControl { indirection: Indirection::Unknown, ..plain };
    assert_eq!(
        (stage1(unknown, 0, NONE), letters(unknown.stage2(Descriptor::new(0)))),
        ("unknown".into(), "unknown".into())
    );
}

#[test]
fn direct_permissions_of_stage_2_match_the_manual() {
    let stage2 = |control: PermissionControl, bits| letters(control.stage2(Descriptor::new(bits)));
    let plain = PermissionControl::default();
    assert_eq!(stage2(plain, 0b11 << 6), "rwx rwx");
    assert_eq!(stage2(plain, 0b01 << 6 | 0b10 << 53), "r-- r--");
    assert_eq!(stage2(plain, 0b01 << 6 | 0b01 << 53), "r-- r-x");
    assert_eq!(stage2(plain, 0b10 << 6 | 0b11 << 53), "-wx -w-");
    assert_eq!(stage2(plain, 0b01 << 6 | 0b10 << 53 | DBM), "r-- r--");
    let dirty = PermissionControl { manages_dirty_state: true, ..plain };
    assert_eq!(stage2(dirty, 0b01 << 6 | 0b10 << 53 | DBM), "rw- rw-");
}

/// A register whose field `index` is `value`, and every other field what nobody should look at.
fn at(index: u8, value: u64) -> u64 {
    let field = 4 * u32::from(index);
    !(0xf << field) & !(value * 0x1111_1111_1111_1111) | value << field
}

fn by(value: Option<u64>) -> Overlay {
    value.map_or(Overlay::Off, Overlay::By)
}

/// Bits 54, 53, 51 and 6, from the highest.
fn pi_index(index: u8) -> u64 {
    [6, 51, 53, 54].iter().enumerate().map(|(place, bit)| u64::from(index >> place & 1) << bit).sum()
}

/// PIR_EL1, as the manual lists its values: what is permitted, whether an overlay applies.
const PIR: [(&str, bool); 16] = [
    ("", true),
    ("r", true),
    ("x", true),
    ("rx", true),
    ("", true),
    ("rw", true),
    ("rwx", true),
    ("rwx", true),
    ("r", false),
    ("rs", false),
    ("rx", false),
    ("", false),
    ("rw", false),
    ("", false),
    ("rwx", false),
    ("", false),
];
const POR: [&str; 8] = ["", "r", "x", "rx", "w", "rw", "wx", "rwx"];

/// Whether an access of stage 1 (`r`, `w`, `x`, or `s` for a guarded control stack) is permitted. Fields of PIR_EL1, PIRE0_EL1
/// and the overlay of this privilege.
fn is_permitted(access: char, is_user: bool, (pir, pire0): (u8, u8), overlay: Option<u8>, writes_stick: bool) -> bool {
    let (one, other) = (PIR[usize::from(pir)].0, PIR[usize::from(pire0)].0);
    let is_void = one.contains(['x', 's']) && other.contains(['w', 's']);
    let field = if is_user { pire0 } else { pir };
    let (base, has_overlay) = PIR[usize::from(field)];
    let overlay = overlay.filter(|_| has_overlay);
    let lets = |access: char| {
        let most = overlay.map_or("rwx", |value| POR.get(usize::from(value)).copied().unwrap_or(""));
        !is_void && base.contains(access) && (access == 's' || most.contains(access))
    };
    let is_guarded = field == 6;
    match (access, overlay) {
        ('x', None) if is_guarded && lets('w') => false,
        ('w', Some(_)) if is_guarded && lets('x') => false,
        ('w', _) if !writes_stick => false,
        _ => lets(access),
    }
}

/// All values of PIR × PIRE0 × overlays of both, clean and dirty, with and without hardware that makes them dirty; the index
/// goes through all of its values meanwhile, and so does that of the overlay.
#[test]
fn indirect_permissions_are_what_the_manual_permits() {
    let overlays = || (0..=16_u8).map(|value| (value < 16).then_some(value));
    let mut place = 0_u8;
    for (pir, pire0) in (0..16).flat_map(|pir| (0..16).map(move |pire0| (pir, pire0))) {
        for (overlay, user_overlay) in overlays().flat_map(|one| overlays().map(move |other| (one, other))) {
            for state in 0..4 {
                place = place.wrapping_add(1);
                let (index, overlay_index) = (place & 15, place >> 4 & 7);
                let (is_clean, has_hardware) = (state & 1 != 0, state & 2 != 0);
                let control = PermissionControl {
                    // What counts for direct permissions alone.
                    writable_is_no_execute: place & 1 != 0,
                    manages_dirty_state: has_hardware,
                    indirection: Indirection::By(at(index, pir.into()), at(index, pire0.into())),
                    overlay: by(overlay.map(|value| at(overlay_index, value.into()))),
                    user_overlay: by(user_overlay.map(|value| at(overlay_index, value.into()))),
                    ..PermissionControl::default()
                };
                let bits = pi_index(index) | u64::from(overlay_index) << 60 | u64::from(is_clean) << 7;
                let limits = TableAttributes::from_bits_retain(0x1f << 59);
                let got = control.stage1(Descriptor::new(bits), limits).unwrap();
                let sticks = !is_clean || has_hardware;
                for (rights, is_user, overlay) in
                    [(got.privileged, false, overlay), (got.unprivileged, true, user_overlay)]
                {
                    for (right, access) in
                        [(Rights::READ, 'r'), (Rights::WRITE, 'w'), (Rights::EXECUTE, 'x'), (Rights::STACK, 's')]
                    {
                        let expected = is_permitted(access, is_user, (pir, pire0), overlay, sticks);
                        assert_eq!(
                            rights.contains(right),
                            expected,
                            "{access}: {pir:#06b} {pire0:#06b}, overlays {overlay:?} {user_overlay:?}, {control:?}"
                        );
                    }
                }
            }
        }
    }
}

/// Overlays without indirection: over all leaves, direct as they are.
#[test]
fn overlays_limit_direct_permissions_too() {
    let control = PermissionControl {
        overlay: Overlay::By(0x0000_0031),
        user_overlay: Overlay::By(0x0000_0017),
        ..Default::default()
    };
    assert_eq!(stage1(control, USER, NONE), "r-- rwx", "POIndex 0: read; all");
    assert_eq!(
        stage1(control, USER | 1 << 60, NONE),
        "r-- r--",
        "POIndex 1: read and execute, of which EL1 has one; read"
    );
    assert_eq!(stage1(control, USER | 2 << 60, NONE), "--- ---", "POIndex 2: nothing");
    let wxn = PermissionControl { overlay: Overlay::By(0x7), writable_is_no_execute: true, ..Default::default() };
    assert_eq!(stage1(wxn, 0, NONE), "r-x --x", "what an overlay lets be executed it does not let be written");
}

/// A regime with one privilege looks at no PIRE0_EL2.
#[test]
fn one_privilege_has_one_register() {
    let control = PermissionControl {
        has_one_privilege: true,
        indirection: Indirection::By(0x7777_7777_7777_7777, 0x5555_5555_5555_5555),
        ..Default::default()
    };
    assert_eq!(stage1(control, 0, NONE), "rwx ---");
}

/// S2PIR_EL2 and S2POR_EL1, as the manual lists their values: EL1, EL0.
const S2PIR: [(&str, &str); 16] = [
    ("", ""),
    ("", ""),
    ("r", "r"),
    ("r", "r"),
    ("w", "w"),
    ("", ""),
    ("r", "r"),
    ("r", "r"),
    ("r", "r"),
    ("r", "rx"),
    ("rx", "r"),
    ("rx", "rx"),
    ("rw", "rw"),
    ("rw", "rwx"),
    ("rwx", "rw"),
    ("rwx", "rwx"),
];

#[test]
fn indirect_permissions_of_stage_2_are_what_the_manual_permits() {
    for (pir, index) in (0..16_u8).flat_map(|pir| (0..16).map(move |index| (pir, index))) {
        for (por, overlay_index) in (0..=16_u8).flat_map(|por| (0..16).map(move |index| (por, index))) {
            let control = PermissionControl {
                indirection: Indirection::By(at(index, pir.into()), 0),
                overlay: by((por < 16).then(|| at(overlay_index, por.into()))),
                manages_dirty_state: index & 1 != 0,
                ..Default::default()
            };
            for is_dirty in [false, true] {
                let bits = pi_index(index) | u64::from(overlay_index) << 59 | u64::from(is_dirty) << 7;
                let got = control.stage2(Descriptor::new(bits)).unwrap();
                let sticks = is_dirty || control.manages_dirty_state;
                let permits = |who: fn((&'static str, &'static str)) -> &'static str| {
                    let most = S2PIR.get(usize::from(por)).map_or("rwx", |row| who(*row));
                    let base = who(S2PIR[usize::from(pir)]);
                    let has = |access| base.contains(access) && most.contains(access) && (access != 'w' || sticks);
                    ['r', 'w', 'x'].map(|access| if has(access) { access } else { '-' }).iter().collect::<String>()
                };
                let expected = format!("{} {}", permits(|row| row.0), permits(|row| row.1));
                assert_eq!(letters(Some(got)), expected, "{pir:#06b} {por:#06b} {is_dirty}");
            }
        }
    }
}

#[test]
fn an_index_is_made_as_it_is_read() {
    for index in 0..16 {
        assert_eq!(with_permission_index(index), pi_index(index));
        assert_eq!(permission_index(Descriptor::new(!pi_index(!index & 15))), index);
        let (one, two) = (
            STAGE1_FORMAT.index(Descriptor::new(pi_index(index))),
            STAGE2_FORMAT.index(Descriptor::new(pi_index(index))),
        );
        assert_eq!((one, two), (index, index), "both stages have the index in the same bits");
    }
}

/// The kinds of page that Linux has, by the bits that it gives them: index, EL1, EL0.
#[test]
fn linux_permits_by_its_registers_what_it_did_by_bits() {
    let control =
        PermissionControl { indirection: Indirection::LINUX, manages_dirty_state: true, ..Default::default() };
    let table = [
        (UXN | PXN | DBM, "rw- ---", "kernel data"),
        (UXN | PXN, "r-- ---", "kernel constants"),
        (UXN, "r-x ---", "kernel text"),
        (UXN | DBM, "rwx ---", "kernel, all"),
        (UXN | PXN | DBM | USER, "rw- rw-", "user data"),
        (UXN | PXN | USER, "r-- r--", "user constants"),
        (PXN | USER, "r-- r-x", "user text"),
        (PXN | DBM | USER, "rw- rwx", "user, all"),
        (PXN, "--- --x", "user, execute alone"),
        (UXN | DBM | USER, "--- r--s", "user, shadow stack"),
        (UXN | USER, "--- r--", "user, shadow stack before its copy"),
        (0, "--- ---", "nothing"),
    ];
    for (bits, expected, what) in table {
        assert_eq!(stage1(control, bits, NONE), expected, "{what}");
    }
}
