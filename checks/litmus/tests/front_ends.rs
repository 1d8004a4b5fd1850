//! Assembly text and machine code are the same instructions.

use a64::decode::decode;
use litmus::assembly::assemble;

/// Each encoding beside its text, both at 0x1000; `1f` is 8 bytes on.
#[test]
fn machine_code_is_what_its_assembly_is() {
    for (word, text) in [
        (0xf860_6825, "LDR X5,[X1,X0]"),
        (0xf822_6904, "STR X4,[X8,X2]"),
        (0xf940_0020, "LDR X0,[X1]"),
        (0xf940_0420, "LDR X0,[X1,#8]"),
        (0xb900_0062, "STR W2,[X3]"),
        (0xb9400462, "LDR W2,[X3,#4]"),
        (0xd503_3b9f, "DSB ISH"),
        (0xd503_3a9f, "DSB ISHST"),
        (0xd503_3f9f, "DSB SY"),
        (0xd503_379f, "DSB NSH"),
        (0xd503_3fbf, "DMB SY"),
        (0xd503_39bf, "DMB ISHLD"),
        (0xd503_3fdf, "ISB"),
        (0xd508_8327, "TLBI VAE1IS,X7"),
        (0xd508_831f, "TLBI VMALLE1IS"),
        (0xd280_0021, "MOV X1,#1"),
        (0x5280_0042, "MOV W2,#2"),
        (0x1400_0002, "B 1f"),
        (0xb400_0040, "CBZ X0,1f"),
        (0x3500_0040, "CBNZ W0,1f"),
        (0xd400_0001, "SVC #0"),
        (0xd400_0022, "HVC #1"),
        (0xd69f_03e0, "ERET"),
        (0xd503_201f, "NOP"),
        (0xd503_3e3f, "DSB SYNXS"),
        (0xaa01_03e0, "MOV X0,X1"),
        (0x8b01_0c02, "ADD X2,X0,X1,LSL #3"),
        (0xeb01_001f, "CMP X0,X1"),
        (0x9a81_0400, "CSINC X0,X0,X1,EQ"),
        (0x9a9f_17e0, "CSET X0,EQ"),
        (0x1000_0041, "ADR X1,1f"),
        (0x5400_0041, "B.NE 1f"),
        (0xc8df_fc20, "LDAR X0,[X1]"),
        (0xc89f_fc20, "STLR X0,[X1]"),
        (0xc85f_7c20, "LDXR X0,[X1]"),
        (0xc85f_fc20, "LDAXR X0,[X1]"),
        (0xc802_7c20, "STXR W2,X0,[X1]"),
        (0xc802_fc20, "STLXR W2,X0,[X1]"),
        (0xf8bf_c020, "LDAPR X0,[X1]"),
        (0xf820_0041, "LDADD X0,X1,[X2]"),
        (0xf8e0_8041, "SWPAL X0,X1,[X2]"),
        (0xf860_1041, "LDCLRL X0,X1,[X2]"),
        (0xc8e0_fc41, "CASAL X0,X1,[X2]"),
        (0xd538_2000, "MRS X0,TTBR0_EL1"),
        (0xd518_2040, "MSR TCR_EL1,X0"),
        (0xd51b_d040, "MSR TPIDR_EL0,X0"),
        (0xd50b_7a20, "DC CVAC,X0"),
        (0xd50b_7520, "IC IVAU,X0"),
    ] {
        let code = assemble(0x1000, &[(1, text), (2, "NOP"), (3, "1: NOP")]).expect(text);
        assert_eq!(decode(word, 0x1000), Some(code.instructions[&0x1000]), "{word:#x} {text}");
    }
}
