//! Which entries a TLBI must remove. One row of the scope table for each `What`: see the test `scope_table`.
//! (DDI 0487, D8.17: RVMSWQ, RZSXRQ, RJXKNN, RVZZVZ, RLGSCG, RTVTYQ, RGNJPZ; hints: RSQXYZ, RXKMMX)

use super::{Invalidation, Operation, Scope, What};
use crate::context::{Regime, Tag};
use crate::tlb::entry::Entry;
use crate::tlb::holders::{GLOBAL, Holders};

/// Why a TLBI leaves an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Miss {
    /// Another regime or VMID.
    Context,
    /// Another address.
    Address,
    /// Another ASID.
    Asid,
    /// A table, and the operation is of the last level only.
    NotLastLevel,
    /// The level or granule hint names another.
    Hint,
    /// The XS attribute, and the operation is nXS.
    Xs,
    /// The entry translates input addresses, and the operation selects stage-2 entries only.
    Stage2Only,
    /// A CPU that may hold the entry is out of scope.
    Scope,
    /// A CPU that may hold the entry lacks the operation's feature, and need not act on it. (RXMZFH)
    Feature,
    /// The operand would select it if it were shifted otherwise, or its ASID were where it belongs.
    Misencoded,
}

/// A TLBI in the context it was executed in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Selector {
    /// What was executed.
    pub invalidation: Invalidation,
    /// Its regime: `None` when a write of HCR_EL2 that decides it was not yet synchronized, so that nothing may be relied on.
    pub regime: Option<Regime>,
    /// The VMID it acts on: `None` when a write of VTTBR_EL2 was not yet synchronized, so that nothing may be relied on.
    pub vmid: Option<u16>,
}

impl Selector {
    /// The instruction.
    pub const fn operation(&self) -> &Operation {
        &self.invalidation.operation
    }

    /// On which CPUs it acts.
    pub const fn scope(&self) -> Scope {
        self.invalidation.operation.scope
    }

    /// True when it acts on entries tagged `tag`.
    pub fn covers_context(&self, tag: Tag) -> bool {
        let is_vmid = self.vmid == Some(tag.vmid);
        let Some(regime) = self.regime else { return false };
        match (self.operation().what, regime) {
            (What::All, Regime::El10) => matches!(tag.regime, Regime::El10 | Regime::Stage2),
            (What::VmallS12, _) => matches!(tag.regime, Regime::El10 | Regime::Stage2) && is_vmid,
            (What::Intermediate, _) => tag.regime == Regime::Stage2 && is_vmid,
            (_, regime @ (Regime::El2 | Regime::El20)) => tag.regime == regime,
            _ => tag.regime == Regime::El10 && is_vmid,
        }
    }

    /// The part of `holders` that must lose `entry`, and which members of its contiguous set (0: all of it).
    ///
    /// # Errors
    /// Why nothing need be removed.
    pub fn select(&self, entry: &Entry, holders: &Holders) -> Result<(Holders, u128), Miss> {
        let invalidation = &self.invalidation;
        let operation = self.operation();
        if !self.covers_context(entry.tag) {
            let is_stage2 = operation.what == What::Intermediate && entry.tag.regime == Regime::El10;
            return Err(if is_stage2 { Miss::Stage2Only } else { Miss::Context });
        }
        if operation.is_nxs && entry.attributes().is_some_and(|it| it.is_xs) {
            return Err(Miss::Xs);
        }
        let mut holes = 0;
        if !invalidation.is_whole() {
            holes = self.select_address(entry)?;
        }
        let asid = u32::from(invalidation.asid);
        let mut selected = match operation.what {
            What::Address if entry.tag.regime != Regime::El2 => Holders::of(asid, holders.exactly(asid)),
            // Never a global leaf.
            What::Asid => Holders::of(asid, holders.exactly(asid)),
            _ => holders.clone(),
        };
        if operation.what == What::Address {
            selected.add(GLOBAL, holders.exactly(GLOBAL));
        }
        if selected.is_empty() { Err(Miss::Asid) } else { Ok((selected, holes)) }
    }

    fn select_address(&self, entry: &Entry) -> Result<u128, Miss> {
        let Invalidation { first, last, granule, level, .. } = self.invalidation;
        let hits_own = entry.own_start <= last && entry.own_last() >= first;
        let members = if entry.size_log2 > entry.own_log2 { entry.members(first, last) & !entry.holes } else { 0 };
        if !hits_own && members == 0 {
            return Err(Miss::Address);
        }
        if entry.is_table() && self.operation().is_last_level {
            return Err(Miss::NotLastLevel);
        }
        // A wrong hint means that nothing need be invalidated. The level is that of the leaf, so where a table is to be
        // forgotten there is no right one: with a level, nothing is promised about tables.
        let is_right = match level {
            Some(level) => !entry.is_table() && level == entry.level,
            None => true,
        };
        if !is_right || granule.is_some_and(|it| it != entry.granule) {
            return Err(Miss::Hint);
        }
        Ok(if hits_own { 0 } else { members })
    }
}
