//! The instructions that an auditor looks at, against what the assembler makes.

use machine::barrier::Barrier;
use machine::registers::Register;
use vellum_audit::frees::Free;
use vellum_audit::instruction::{self, Name, Store, System};

#[test]
fn instructions_are_what_the_assembler_makes() {
    let barrier = |word| match instruction::system(word) {
        Some(System::Barrier(barrier)) => barrier.to_string(),
        other => format!("{other:?}"),
    };
    for (word, name) in [
        (0xd503_3b9f, "DSB ISH"),
        (0xd503_3a9f, "DSB ISHST"),
        (0xd503_379f, "DSB NSH"),
        (0xd503_3f9f, "DSB SY"),
        (0xd503_3e9f, "DSB ST"),
        (0xd503_3a3f, "DSB ISHnXS"),
        (0xd503_3abf, "DMB ISHST"),
        (0xd503_3fdf, "ISB"),
    ] {
        assert_eq!(barrier(word), name, "{word:#x}");
    }
    assert_eq!(instruction::system(0xd503_3b9f), Some(System::Barrier(Barrier::DSB_ISH)));
    assert_eq!(instruction::system(0xd518_2003), Some(System::Write(Name::El1(Register::Ttbr0El1), 3)));
    assert_eq!(instruction::system(0xd51d_2020), Some(System::Write(Name::El12(Register::Ttbr1El1), 0)));
    assert_eq!(instruction::system(0xd51c_2105), Some(System::Write(Name::El2(Register::VttbrEl2), 5)));
    assert_eq!(instruction::system(0xd69f_03e0), Some(System::Return));
    assert_eq!(instruction::system(0xd50b_7422), Some(System::ZeroBlock(2)));
    assert!(matches!(instruction::system(0xd50c_871f), Some(System::Tlbi(_, 31))));
    // MRS, NOP, STR.
    assert!([0xd538_2003, 0xd503_201f, 0xf900_0020].into_iter().all(|word| instruction::system(word).is_none()));
    assert_eq!(Name::El1(Register::Ttbr0El1).register(true), Register::Ttbr0El2);
    assert_eq!(Name::El12(Register::Ttbr0El1).register(true), Register::Ttbr0El1);
}

#[test]
fn stores_are_told_apart() {
    let plain = Store::default();
    let how = |is_release, is_exchange, is_compared| Store { is_release, is_exchange, is_compared };
    for (word, expected) in [
        (0xf900_0020, plain),                   // str x0, [x1]
        (0xc89f_fc20, how(true, false, false)), // stlr x0, [x1]
        (0xc800_7c41, how(false, false, true)), // stxr w0, x1, [x2]
        (0xc800_fc41, how(true, false, true)),  // stlxr w0, x1, [x2]
        (0xc8a0_7c41, how(false, true, true)),  // cas x0, x1, [x2]
        (0xc8e0_fc41, how(true, true, true)),   // casal x0, x1, [x2]
        (0xf820_8041, how(false, true, false)), // swp x0, x1, [x2]
        (0xf8e0_8041, how(true, true, false)),  // swpal x0, x1, [x2]
        (0xa900_0440, plain),                   // stp x0, x1, [x2]
    ] {
        assert_eq!(instruction::store(word), expected, "{word:#x}");
    }
}

/// A lock is taken by them too; they store nothing.
#[test]
fn loads_with_acquire_are_told_apart() {
    for (word, expected) in [
        (0xc8df_fc20, true),  // ldar x0, [x1]
        (0x88df_fc20, true),  // ldar w0, [x1]
        (0x08df_fc20, true),  // ldarb w0, [x1]
        (0xf8bf_c020, true),  // ldapr x0, [x1]
        (0x38bf_c020, true),  // ldaprb w0, [x1]
        (0xd940_8020, true),  // ldapur x0, [x1, #8]
        (0x5980_8020, true),  // ldapursh x0, [x1, #8]
        (0xd900_8020, false), // stlur x0, [x1, #8]
        (0xc89f_fc20, false), // stlr x0, [x1]
        (0xc8df_7c20, false), // ldlar x0, [x1]
        (0xc85f_fc20, false), // ldaxr x0, [x1]
        (0xc8e0_fc41, false), // casal x0, x1, [x2]
        (0xf8e0_8041, false), // swpal x0, x1, [x2]
        (0xf840_0020, false), // ldur x0, [x1]
        (0xf940_0020, false), // ldr x0, [x1]
        (0xf8a0_0041, false), // ldadda x0, x1, [x2]
    ] {
        assert_eq!(instruction::acquires(word), expected, "{word:#x}");
        assert!(!expected || instruction::store(word) == Store::default(), "{word:#x}");
    }
    assert!(instruction::store(0xd900_8020).is_release);
}

#[test]
fn what_a_function_frees_stands_in_its_registers() {
    let registers = |number: u8| [0xffff_fc00_0000_0040, 0x4000_8000, 2, 99][usize::from(number)];
    let range = |text: &str, page_bytes| Free::parse(text).expect("a function").range(page_bytes, registers);
    assert_eq!(range("0x1000:x1:x2", 0x1000), Some((0x4000_8000, 0x4000)));
    assert_eq!(range("0x1000:x1:-", 0x4000), Some((0x4000_8000, 0x4000)));
    assert_eq!(range("0x1000:x0:-:0xfffffc0000000000:0x40:0x40000000", 0x1000), Some((0x4000_1000, 0x1000)));
    // No page, no order, below the first description.
    assert_eq!(range("0x1000:x2:-", 0x1000), None);
    assert_eq!(range("0x1000:x1:x3", 0x1000), None);
    assert_eq!(range("0x1000:x1:-:0xfffffc0000000000:0x40:0x40000000", 0x1000), None);
    for wrong in ["", "0x1000:x1", "0x1000:x31:-", "1000:x1:-", "0x1000:x1:2", "0x1000:x1:-:0x1:0x40"] {
        assert_eq!(Free::parse(wrong), None, "{wrong}");
    }
}
