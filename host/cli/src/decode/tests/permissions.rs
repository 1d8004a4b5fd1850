//! Leaves that name their permissions, and the registers in which they do.

use super::*;

/// Bits 54, 53, 51 and 7: with Linux's registers the kernel's data, not yet written. Then what EL0 may execute alone, with an
/// overlay; and two stage-2 pages that differ in their overlay.
#[test]
fn leaves_that_name_their_permissions() {
    let linux = PermissionArguments { pir: Some(vmsa::Indirection::LINUX), ..PermissionArguments::NONE };
    let overlay = PermissionArguments { por_el0: Some(0x0000_0320), ..linux };
    let stage2 = PermissionArguments { s2pir: Some(0xd000_0000), s2por: Some(0x8_0000), ..PermissionArguments::NONE };
    let rows = [
        (0x0068_0000_4400_0783_u64, Regime::El1, linux),
        (0x1020_0000_4400_0f03, Regime::El1, overlay),
        (0x0028_0000_4000_07df, Regime::Stage2, stage2),
        (0x2028_0000_4000_07df, Regime::Stage2, stage2),
    ];
    let text: String = rows
        .iter()
        .map(|(value, stage, permissions)| {
            let encoding = EncodingArguments { regime: *stage, permissions: *permissions, ..PLAIN };
            let text = text_of("descriptor", &[format!("{value:#x}")], &encoding);
            let is_kept = |line: &&str| !line.contains("  [") || line.contains("Index") || line.contains("irty");
            text.lines().filter(is_kept).flat_map(|line| [line, "\n"]).collect::<String>()
        })
        .collect();
    expect![[r#"
        0x0068000044000783 at level 3, 4K granule, Bits48: 4K page to 0x44000000 (DDI 0487, D8.3.1, D8.4.2)
          POIndex     [62:60]  0x0  overlay, by POR_ELx (FEAT_S1POE): 0
          PIIndex3    [54]     0x1  yes: bit 3 of PIIndex: permissions, by PIR_ELx
          PIIndex2    [53]     0x1  yes: bit 2 of PIIndex: permissions, by PIR_ELx
          PIIndex1    [51]     0x1  yes: bit 1 of PIIndex: permissions, by PIR_ELx
          nDirty      [7]      0x1  yes: clean: a write faults, or hardware makes it dirty
          PIIndex0    [6]      0x0  no: bit 0 of PIIndex: permissions, by PIR_ELx
          read as one of EL1&0: --regime el2, el2&0, el3, stage2 or secure reads it otherwise
          PIIndex 14, clean: a write faults, or hardware makes it dirty
          EL1 reads; EL0 nothing; memory MEM/NORMAL
          as text:       ro NX SHD AF            UXN    MEM/NORMAL
        0x1020000044000f03 at level 3, 4K granule, Bits48: 4K page to 0x44000000 (DDI 0487, D8.3.1, D8.4.2)
          POIndex     [62:60]  0x1  overlay, by POR_ELx (FEAT_S1POE): 1
          PIIndex3    [54]     0x0  no: bit 3 of PIIndex: permissions, by PIR_ELx
          PIIndex2    [53]     0x1  yes: bit 2 of PIIndex: permissions, by PIR_ELx
          PIIndex1    [51]     0x0  no: bit 1 of PIIndex: permissions, by PIR_ELx
          nDirty      [7]      0x0  no: clean: a write faults, or hardware makes it dirty
          PIIndex0    [6]      0x0  no: bit 0 of PIIndex: permissions, by PIR_ELx
          read as one of EL1&0: --regime el2, el2&0, el3, stage2 or secure reads it otherwise
          PIIndex 4, dirty
          EL1 nothing; EL0 executes; memory MEM/NORMAL
          as text:       ro NX SHD AF NG                MEM/NORMAL privileged ---, EL0 --x
        0x00280000400007df at level 3, 4K granule, Bits48: 4K page to 0x40000000 (DDI 0487, D8.3.2, D8.4.2)
          POIndex     [62:59]  0x0  overlay, by S2POR_EL1 (FEAT_S2POE): 0
          PIIndex3    [54]     0x0  no: bit 3 of PIIndex: permissions, by S2PIR_EL2
          PIIndex2    [53]     0x1  yes: bit 2 of PIIndex: permissions, by S2PIR_EL2
          PIIndex1    [51]     0x1  yes: bit 1 of PIIndex: permissions, by S2PIR_EL2
          Dirty       [7]      0x1  yes: dirty: without it a write faults, or hardware sets it
          PIIndex0    [6]      0x1  yes: bit 0 of PIIndex: permissions, by S2PIR_EL2
          PIIndex 7, dirty
          EL1 nothing; EL0 nothing; memory MEM/OTHER (no FWB)
        0x20280000400007df at level 3, 4K granule, Bits48: 4K page to 0x40000000 (DDI 0487, D8.3.2, D8.4.2)
          POIndex     [62:59]  0x4  overlay, by S2POR_EL1 (FEAT_S2POE): 4
          PIIndex3    [54]     0x0  no: bit 3 of PIIndex: permissions, by S2PIR_EL2
          PIIndex2    [53]     0x1  yes: bit 2 of PIIndex: permissions, by S2PIR_EL2
          PIIndex1    [51]     0x1  yes: bit 1 of PIIndex: permissions, by S2PIR_EL2
          Dirty       [7]      0x1  yes: dirty: without it a write faults, or hardware sets it
          PIIndex0    [6]      0x1  yes: bit 0 of PIIndex: permissions, by S2PIR_EL2
          PIIndex 7, dirty
          EL1 reads; EL0 reads; memory MEM/OTHER (no FWB)
    "#]]
    .assert_eq(&text);
}

#[test]
fn permission_registers() {
    let text = text_of("pir_el2", &["0xcc880e0ac0800000".to_owned()], &PLAIN);
    let of_por = text_of("por_el0", &["0x17".to_owned()], &PLAIN);
    let of_s2pir = text_of("s2pir_el2", &["0x9f".to_owned()], &PLAIN);
    let last = |text: &str| text.lines().rev().take(3).map(|line| format!("{line}\n")).collect::<String>();
    expect![[r#"
        PIR_EL2 = 0xcc880e0ac0800000 (DDI 0487, D23.2, PIR_EL1)
          Perm15  [63:60]  0xc  privileged, leaves with this PIIndex: read, write, no overlay
          Perm14  [59:56]  0xc  privileged, leaves with this PIIndex: read, write, no overlay
          Perm13  [55:52]  0x8  privileged, leaves with this PIIndex: read, no overlay
          Perm12  [51:48]  0x8  privileged, leaves with this PIIndex: read, no overlay
          Perm11  [47:44]  0x0  privileged, leaves with this PIIndex: no access
          Perm10  [43:40]  0xe  privileged, leaves with this PIIndex: read, write, execute, no overlay
          Perm9   [39:36]  0x0  privileged, leaves with this PIIndex: no access
          Perm8   [35:32]  0xa  privileged, leaves with this PIIndex: read, execute, no overlay
          Perm7   [31:28]  0xc  privileged, leaves with this PIIndex: read, write, no overlay
          Perm6   [27:24]  0x0  privileged, leaves with this PIIndex: no access
          Perm5   [23:20]  0x8  privileged, leaves with this PIIndex: read, no overlay
          Perm4   [19:16]  0x0  privileged, leaves with this PIIndex: no access
          Perm3   [15:12]  0x0  privileged, leaves with this PIIndex: no access
          Perm2   [11:8]   0x0  privileged, leaves with this PIIndex: no access
          Perm1   [7:4]    0x0  privileged, leaves with this PIIndex: no access
          Perm0   [3:0]    0x0  privileged, leaves with this PIIndex: no access
          Perm0   [3:0]    0x7  unprivileged, at most, leaves with this POIndex: read, write, execute
          Perm1   [7:4]    0x1  unprivileged, at most, leaves with this POIndex: read
          Perm2   [11:8]   0x0  unprivileged, at most, leaves with this POIndex: no access
          Perm0   [3:0]    0xf  stage 2, leaves with this PIIndex: read, write, execute
          Perm1   [7:4]    0x9  stage 2, leaves with this PIIndex: read, EL0 executes
          Perm2   [11:8]   0x0  stage 2, leaves with this PIIndex: no access
    "#]]
    .assert_eq(&(text + &last(&of_por) + &last(&of_s2pir)));
}
