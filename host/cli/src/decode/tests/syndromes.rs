//! Values of ESR_ELx, word for word.

use expect_test::expect;

use super::check;

#[test]
fn a_data_abort() {
    check(
        "esr",
        &["0x96000044"],
        expect![[r#"
            ESR = 0x0000000096000044: data abort, translation fault, level 0, on a write (DDI 0487, D23.2, ESR_EL1)
              ISS2   [55:32]  0x0   by class too
              EC     [31:26]  0x25  data abort
              IL     [25]     0x1   32-bit instruction, or no matter
              ISS    [24:0]   0x44  by class, as follows
              ISV    [24]     0x0   no: SAS, SSE, SRT, SF and AR describe the access
              VNCR   [13]     0x0   no: through VNCR_EL2 (FEAT_NV2)
              LST    [12:11]  0x0   no 64-byte access, or not told
              FnV    [10]     0x0   no: FAR does not hold the address
              EA     [9]      0x0   no: external abort: IMPLEMENTATION DEFINED kind
              CM     [8]      0x0   no: cache maintenance or address translation
              S1PTW  [7]      0x0   no: fault of stage 2 on a stage-1 walk
              WnR    [6]      0x1   write (always with CM)
              DFSC   [5:0]    0x4   translation fault, level 0
        "#]],
    );
}

#[test]
fn a_data_abort_that_tells_its_access() {
    check(
        "esr",
        &["0x4093c8804f"],
        expect![[r#"
        ESR = 0x0000004093c8804f: data abort from a lower exception level, permission fault, level 3, on a write (DDI 0487, D23.2, ESR_EL1)
          ISS2         [55:32]  0x40       by class too
          EC           [31:26]  0x24       data abort from a lower exception level
          IL           [25]     0x1        32-bit instruction, or no matter
          ISS          [24:0]   0x1c8804f  by class, as follows
          HDBSSF       [43]     0x0        no: the list of dirty memory could not be written (FEAT_HDBSS)
          TnD          [42]     0x0        no: the fault is of the allocation tag, not of the data (FEAT_MTE_PERM)
          TagAccess    [41]     0x0        no: NoTagAccess refused the access (FEAT_MTE_PERM)
          GCS          [40]     0x0        no: by an access to a guarded control stack (FEAT_GCS)
          AssuredOnly  [39]     0x0        no: stage 2: AssuredOnly refused the access (FEAT_THE)
          Overlay      [38]     0x1        yes: an overlay refused the access (FEAT_S1POE, FEAT_S2POE)
          DirtyBit     [37]     0x0        no: the dirty state refused the access (FEAT_S1PIE, FEAT_S2PIE)
          Xs           [36:32]  0x0        x0 holds the status or data of an ST64BV (FEAT_LS64)
          ISV          [24]     0x1        yes: SAS, SSE, SRT, SF and AR describe the access
          SAS          [23:22]  0x3        8 bytes
          SSE          [21]     0x0        no: sign-extended
          SRT          [20:16]  0x8        register 8
          SF           [15]     0x1        yes: 64-bit register
          AR           [14]     0x0        no: acquire or release
          VNCR         [13]     0x0        no: through VNCR_EL2 (FEAT_NV2)
          FnV          [10]     0x0        no: FAR does not hold the address
          EA           [9]      0x0        no: external abort: IMPLEMENTATION DEFINED kind
          CM           [8]      0x0        no: cache maintenance or address translation
          S1PTW        [7]      0x0        no: fault of stage 2 on a stage-1 walk
          WnR          [6]      0x1        write (always with CM)
          DFSC         [5:0]    0xf        permission fault, level 3
    "#]],
    );
}

#[test]
fn an_external_abort() {
    check(
        "esr",
        &["0x96001813"],
        expect![[r#"
            ESR = 0x0000000096001813: data abort, synchronous external abort on the walk, level -1, on a read (DDI 0487, D23.2, ESR_EL1)
              ISS2   [55:32]  0x0     by class too
              EC     [31:26]  0x25    data abort
              IL     [25]     0x1     32-bit instruction, or no matter
              ISS    [24:0]   0x1813  by class, as follows
              ISV    [24]     0x0     no: SAS, SSE, SRT, SF and AR describe the access
              VNCR   [13]     0x0     no: through VNCR_EL2 (FEAT_NV2)
              SET    [12:11]  0x3     state of the PE: restartable (FEAT_RAS)
              FnV    [10]     0x0     no: FAR does not hold the address
              EA     [9]      0x0     no: external abort: IMPLEMENTATION DEFINED kind
              CM     [8]      0x0     no: cache maintenance or address translation
              S1PTW  [7]      0x0     no: fault of stage 2 on a stage-1 walk
              WnR    [6]      0x0     read
              DFSC   [5:0]    0x13    synchronous external abort on the walk, level -1
        "#]],
    );
}

#[test]
fn other_classes() {
    check(
        "esr",
        &["0xbe000011"],
        expect![[r#"
        ESR = 0x00000000be000011: SError (DDI 0487, D23.2, ESR_EL1)
          ISS2  [55:32]  0x0   by class too
          EC    [31:26]  0x2f  SError
          IL    [25]     0x1   32-bit instruction, or no matter
          ISS   [24:0]   0x11  by class, as follows
          IDS   [24]     0x0   no: the rest is IMPLEMENTATION DEFINED
          IESB  [13]     0x0   no: synchronised by the implicit barrier of an exception (FEAT_IESB)
          AET   [12:10]  0x0   uncontainable
          EA    [9]      0x0   no: external abort: IMPLEMENTATION DEFINED kind
          DFSC  [5:0]    0x11  asynchronous SError
    "#]],
    );
    check(
        "esr",
        &["0x72000003"],
        expect![[r#"
        ESR = 0x0000000072000003: pointer authentication failure (DDI 0487, D23.2, ESR_EL1)
          ISS2  [55:32]  0x0   by class too
          EC    [31:26]  0x1c  pointer authentication failure
          IL    [25]     0x1   32-bit instruction, or no matter
          ISS   [24:0]   0x3   by class, as follows
          Data  [1]      0x1   data key
          B     [0]      0x1   key B
    "#]],
    );
    check(
        "esr",
        &["0x82000030"],
        expect![[r#"
            ESR = 0x0000000082000030: instruction abort from a lower exception level, TLB conflict abort (DDI 0487, D23.2, ESR_EL1)
              ISS2   [55:32]  0x0   by class too
              EC     [31:26]  0x20  instruction abort from a lower exception level
              IL     [25]     0x1   32-bit instruction, or no matter
              ISS    [24:0]   0x30  by class, as follows
              FnV    [10]     0x0   no: FAR does not hold the address
              EA     [9]      0x0   no: external abort: IMPLEMENTATION DEFINED kind
              S1PTW  [7]      0x0   no: fault of stage 2 on a stage-1 walk
              IFSC   [5:0]    0x30  TLB conflict abort
        "#]],
    );
}

#[test]
fn a_trapped_tlbi() {
    check(
        "esr",
        &["0x62122006"],
        expect![[r#"
            ESR = 0x0000000062122006: trapped system instruction (DDI 0487, D23.2, ESR_EL1)
              ISS2       [55:32]  0x0       by class too
              EC         [31:26]  0x18      trapped system instruction
              IL         [25]     0x1       32-bit instruction, or no matter
              ISS        [24:0]   0x122006  by class, as follows
              Op0        [21:20]  0x1       1
              Op2        [19:17]  0x1       1
              Op1        [16:14]  0x0       0
              CRn        [13:10]  0x8       8
              Rt         [9:5]    0x0       x0
              CRm        [4:1]    0x3       3
              Direction  [0]      0x0       write (MSR or SYS)
              the instruction is tlbi vae1is
        "#]],
    );
}
