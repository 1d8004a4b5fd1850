//! Registers of permissions that the user gives, and which of them nobody knows.

use clap::Args;
use image::{Regime, Root};
use vmsa::{Indirection, Overlay, PermissionControl};

use crate::args::values::word;

/// Registers that say what leaves permit, where leaves name their permissions (FEAT_S1PIE, FEAT_S2PIE) or overlays take from
/// them (FEAT_S1POE, FEAT_S2POE).
#[derive(Args, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PermissionArguments {
    /// PIR_EL1 (or PIR_EL2): permissions are indirect; `linux` for what Linux gives PIR_EL1 and PIRE0_EL1
    #[arg(long, value_name = "VALUE", value_parser = pir, help_heading = "Permissions by hand")]
    pub(crate) pir: Option<Indirection>,
    /// PIRE0_EL1 (or PIRE0_EL2); without it, with --pir VALUE, EL0 may do nothing
    #[arg(long, value_name = "VALUE", value_parser = word, requires = "pir", help_heading = "Permissions by hand")]
    pub(crate) pire0: Option<u64>,
    /// POR_EL1 (or POR_EL2): overlays are on for EL1
    #[arg(long, value_name = "VALUE", value_parser = word, help_heading = "Permissions by hand")]
    pub(crate) por_el1: Option<u64>,
    /// POR_EL0: overlays are on for EL0
    #[arg(long, value_name = "VALUE", value_parser = word, help_heading = "Permissions by hand")]
    pub(crate) por_el0: Option<u64>,
    /// S2PIR_EL2: permissions of stage 2 are indirect
    #[arg(long, value_name = "VALUE", value_parser = word, help_heading = "Permissions by hand")]
    pub(crate) s2pir: Option<u64>,
    /// S2POR_EL1: overlays are on at stage 2
    #[arg(long, value_name = "VALUE", value_parser = word, requires = "s2pir", help_heading = "Permissions by hand")]
    pub(crate) s2por: Option<u64>,
}

/// A value of PIR_EL1, or `linux`.
fn pir(text: &str) -> Result<Indirection, image::Error> {
    if text.eq_ignore_ascii_case("linux") { Ok(Indirection::LINUX) } else { Ok(Indirection::By(word(text)?, 0)) }
}

impl Default for PermissionArguments {
    fn default() -> Self {
        Self::NONE
    }
}

impl PermissionArguments {
    /// Nothing is given.
    pub(crate) const NONE: Self =
        Self { pir: None, pire0: None, por_el1: None, por_el0: None, s2pir: None, s2por: None };

    /// What a root's registers say, with what the user says instead.
    pub(crate) fn over(&self, control: PermissionControl, is_stage1: bool) -> PermissionControl {
        let overlay = |given: Option<u64>, known: Overlay| given.map_or(known, Overlay::By);
        if !is_stage1 {
            return PermissionControl {
                indirection: self.s2pir.map_or(control.indirection, |pir| Indirection::By(pir, 0)),
                overlay: overlay(self.s2por, control.overlay),
                ..control
            };
        }
        let indirection = match (self.pir, self.pire0) {
            (Some(Indirection::By(pir, _)), Some(pire0)) => Indirection::By(pir, pire0),
            (given, _) => given.unwrap_or(control.indirection),
        };
        PermissionControl {
            indirection,
            overlay: overlay(self.por_el1, control.overlay),
            user_overlay: overlay(self.por_el0, control.user_overlay),
            ..control
        }
    }
}

/// One line for each thing that is not known of what a page table permits.
pub(crate) fn unknown(root: &Root) -> Vec<String> {
    let (pir, flag, por, por_flag) = match root.regime {
        Regime::El1Upper | Regime::El1Lower => ("PIR_EL1 and PIRE0_EL1", "--pir", "POR_EL1", "--por-el1"),
        Regime::El2Lower if root.control.has_one_privilege => ("PIR_EL2", "--pir", "POR_EL2", "--por-el1"),
        Regime::El3 => ("PIR_EL3", "--pir", "POR_EL3", "--por-el1"),
        Regime::El2Upper | Regime::El2Lower => ("PIR_EL2 and PIRE0_EL2", "--pir", "POR_EL2", "--por-el1"),
        Regime::Stage2 => ("S2PIR_EL2", "--s2pir", "S2POR_EL1", "--s2por"),
    };
    let mut lines = Vec::new();
    if root.control.indirection == Indirection::Unknown {
        lines.push(format!("permissions are in {pir}, which the source does not tell: none is shown (give {flag})"));
    }
    for (overlay, name, flag) in
        [(root.control.overlay, por, por_flag), (root.control.user_overlay, "POR_EL0", "--por-el0")]
    {
        if overlay == Overlay::Unknown {
            let shown = "shown is what they take from";
            lines.push(format!("overlays are in {name}, which the source does not tell: {shown} (give {flag})"));
        }
    }
    lines
}
