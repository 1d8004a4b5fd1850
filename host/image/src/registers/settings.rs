//! What registers say of how a page table is walked, field by field: CPUs that use one table must agree about it.

use vmsa::IdRegisters;
use vmsa::fields::{Field, HCR_EL2, Register, SCTLR_EL1, TCR_EL1, TCR_EL2, TCR2_EL1, VTCR_EL2};

use super::{MMFR0, PA_RANGE, Registers};
use crate::root::{Regime, Root, Setting};

/// Bits of output address, by IPS, PS or PARange: they are encoded alike.
fn output_bits(range: u64) -> u32 {
    IdRegisters { mmfr0: PA_RANGE.put(range), ..IdRegisters::default() }.output_bits()
}

impl Registers {
    /// Gives a root what these registers say of walks through it.
    pub(super) fn describe(&self, root: &mut Root) {
        root.settings = self.settings(root.regime);
        let of =
            |field: &str| root.settings.iter().find(|it| it.name.rsplit('.').next() == Some(field)).map(|it| it.value);
        root.sets_access_flag = of("HA").map(|value| value != 0);
        // A size beyond what descriptors, or the CPU, have is the largest that they have.
        let parange = self.get(MMFR0).map(|word| output_bits(PA_RANGE.get(word)));
        let most = root.shape.layout.output_bits().min(parange.unwrap_or(u32::MAX));
        root.output_bits = of("IPS").or_else(|| of("PS")).map(|range| output_bits(range).min(most));
    }

    fn settings(&self, regime: Regime) -> Vec<Setting> {
        let el = &regime.register()[regime.register().len() - 1..];
        if regime == Regime::Stage2 {
            return [
                self.fields("VTCR_EL2", &VTCR_EL2, |_| true),
                self.fields("HCR_EL2", &HCR_EL2, |field| ["FWB", "PTW", "CD"].contains(&field.name)),
            ]
            .concat();
        }
        let has_halves = el == "1" || el == "2" && HCR_EL2.the("E2H").get(self.get("HCR_EL2").unwrap_or(0)) != 0;
        let other_half = if regime.is_upper() { '0' } else { '1' };
        let is_of_half = |field: &Field| !has_halves || !field.name.trim_end_matches("SZ").ends_with(other_half);
        let sctlr = |field: &Field| ["C", "EE", "WXN"].contains(&field.name);
        let tcr = if has_halves { &TCR_EL1 } else { &TCR_EL2 };
        [
            self.fields(&format!("TCR_EL{el}"), tcr, is_of_half),
            self.fields(&format!("TCR2_EL{el}"), &TCR2_EL1, is_of_half),
            self.fields(&format!("SCTLR_EL{el}"), &SCTLR_EL1, sctlr),
        ]
        .concat()
    }

    /// The fields of one register; none if it is not known.
    fn fields(&self, name: &str, register: &Register, is_meant: impl Fn(&Field) -> bool) -> Vec<Setting> {
        let Some(word) = self.get(name) else { return Vec::new() };
        let fields = register.fields.iter().filter(|field| is_meant(field));
        fields.map(|field| Setting { name: format!("{name}.{}", field.name), value: field.get(word) }).collect()
    }
}
