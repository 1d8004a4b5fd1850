//! The ID registers as this CPU has them, by the fields of an instruction that reads one.

use crate::registers::read_register;

/// Reads S3_0_C0_CRm_op2. The architecture has every one of CRm 1 to 7 read as something, if only as zero (D19.1.1).
macro_rules! read_any {
    ($crm:expr, $op2:expr; $($m:literal)*) => {
        match $crm {
            $($m => read_any!(@row $op2; $m; 0 1 2 3 4 5 6 7),)*
            _ => 0,
        }
    };
    (@row $op2:expr; $m:literal; $($o:literal)*) => {
        match $op2 {
            $($o => read_register!(concat!("S3_0_C0_C", $m, "_", $o)),)*
            _ => 0,
        }
    };
}

/// The register S3_0_C0_C`crm`_`op2` of this CPU, one of group 3 (CRm 1 to 7); 0 where there is no such register.
pub fn read_id_register(crm: u32, op2: u32) -> u64 {
    read_any!(crm, op2; 1 2 3 4 5 6 7)
}

/// REVIDR_EL1 of this CPU.
pub fn read_revision() -> u64 {
    read_register!("revidr_el1")
}

/// AIDR_EL1 of this CPU.
pub fn read_auxiliary() -> u64 {
    read_register!("aidr_el1")
}

/// SMIDR_EL1 of this CPU, if it has FEAT_SME (ID_AA64PFR1_EL1.SME): otherwise the read would be undefined.
pub fn read_streaming() -> Option<u64> {
    let has_sme = read_register!("id_aa64pfr1_el1") >> 24 & 15 != 0;
    has_sme.then(|| read_register!("S3_1_C0_C0_6"))
}
