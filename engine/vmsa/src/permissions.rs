//! What a leaf lets whom do, by its own bits and by the registers of its regime (D8.4).
//!
//! ```text
//! direct     AP[2:1], PXN, UXN, DBM (S2AP, XN)     less what tables above limit, unless HPD; less what WXN keeps from execution
//! indirect   bits 54, 53, 51, 6 ──▶ PIR_ELx, PIRE0_ELx (S2PIR_EL2)      bit 7 says that it is clean (at stage 2: dirty)
//! overlay    bits 62:60 (62:59) ──▶ POR_ELx, POR_EL0 (S2POR_EL1)        only takes away
//! ```

use crate::fields::{self, Field, STAGE1_INDIRECT_LEAF, STAGE2_INDIRECT_LEAF};
use crate::rights::{BASE, Encoding, OVERLAY, Rights, STAGE2, WRITABLE_IS_NO_EXECUTE};
use crate::{Bits, Descriptor, Execute, Stage1Attributes, Stage2Attributes, TableAttributes};

/// What the two privileges may do. At stage 2, and in a regime without EL0, see [`PermissionControl`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Permissions {
    /// EL1, or EL2.
    pub privileged: Rights,
    /// EL0; nothing where the regime has none.
    pub unprivileged: Rights,
}

/// Whether leaves name their permissions in a register (FEAT_S1PIE, FEAT_S2PIE).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Indirection {
    /// They say them.
    #[default]
    Off,
    /// They name them, in registers whose values nobody knows.
    Unknown,
    /// They name them in PIR_ELx and PIRE0_ELx, which have these values; at stage 2 in S2PIR_EL2, the first.
    By(u64, u64),
}

impl Indirection {
    /// PIR_EL1 and PIRE0_EL1 as Linux sets them, with guarded control stacks (6.13 and later).
    pub const LINUX: Self = Self::By(0xcc88_0e0a_c080_0000, 0x5010_9080_7032_0000);
}

/// Whether an overlay takes from what leaves permit (FEAT_S1POE, FEAT_S2POE).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Overlay {
    /// No.
    #[default]
    Off,
    /// It does, by a register whose value nobody knows: told is what there is before.
    Unknown,
    /// It does, by a register that has this value.
    By(u64),
}

impl Overlay {
    const fn known(self) -> Option<u64> {
        match self {
            Self::By(value) => Some(value),
            _ => None,
        }
    }
}

/// What the registers of a regime say of its permissions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PermissionControl {
    /// What tables limit does not count (TCR_ELx.HPDn). With indirection it never does.
    pub ignores_hierarchy: bool,
    /// Hardware makes a clean leaf writable (TCR_ELx.HA and HD): one that is clean is as good as writable.
    pub manages_dirty_state: bool,
    /// What may be written is never executed (SCTLR_ELx.WXN). With indirection PIR_ELx says so instead.
    pub writable_is_no_execute: bool,
    /// The regime has one privilege (EL2 without E2H): XN is bit 54, and AP\[1\] says nothing.
    pub has_one_privilege: bool,
    /// Whether leaves name their permissions, and where.
    pub indirection: Indirection,
    /// POR_EL1 or POR_EL2 (TCR2_ELx.POE); at stage 2 S2POR_EL1 (VTCR_EL2.S2POE), which only indirection has.
    pub overlay: Overlay,
    /// POR_EL0 (TCR2_ELx.E0POE).
    pub user_overlay: Overlay,
}

/// Where a descriptor has the names of its permissions.
struct Format {
    index: [Field; 4],
    overlay: Field,
    /// The bit that says whether it was written, and what that bit is while it was not.
    dirty: (Field, u64),
}

const STAGE1_FORMAT: Format = Format::of(&STAGE1_INDIRECT_LEAF, "nDirty", 1);
const STAGE2_FORMAT: Format = Format::of(&STAGE2_INDIRECT_LEAF, "Dirty", 0);

impl Format {
    const fn of(leaf: &fields::Format, dirty: &str, clean: u64) -> Self {
        let index = [leaf.the("PIIndex0"), leaf.the("PIIndex1"), leaf.the("PIIndex2"), leaf.the("PIIndex3")];
        Self { index, overlay: leaf.the("POIndex"), dirty: (leaf.the(dirty), clean) }
    }

    fn index(&self, leaf: Descriptor) -> u8 {
        (0..).zip(&self.index).fold(0, |index, (place, field)| index | (field.get(leaf.bits()) as u8) << place)
    }

    fn overlay(&self, leaf: Descriptor) -> u8 {
        self.overlay.get(leaf.bits()) as u8
    }

    /// What may be written, if the leaf's state lets it: a clean leaf waits for software, or for hardware.
    fn once_dirty(&self, leaf: Descriptor, control: &PermissionControl) -> Rights {
        let is_clean = self.dirty.0.get(leaf.bits()) == self.dirty.1;
        if is_clean && !control.manages_dirty_state { Rights::WRITE.complement() } else { Rights::all() }
    }
}

/// Field `index` of a register of sixteen.
fn value(register: u64, index: u8) -> u8 {
    (register >> (4 * index)) as u8 & 0xf
}

/// What one privilege has before overlays, and what they may do to it.
#[derive(Clone, Copy)]
struct Before {
    rights: Rights,
    has_overlay: bool,
    is_writable_no_execute: bool,
}

impl Before {
    fn of(field: u8, privilege: fn(&Encoding) -> Rights) -> Self {
        Self {
            rights: privilege(&BASE[usize::from(field)]),
            has_overlay: field < 8,
            is_writable_no_execute: field == WRITABLE_IS_NO_EXECUTE,
        }
    }

    /// What the overlay of this leaf, if there is one, and the bar on writable code leave (rules RQXXPC, RNPBXC).
    fn after(self, overlay: Option<Rights>) -> Rights {
        let overlay = overlay.filter(|_| self.has_overlay);
        let mut rights = match overlay {
            Some(most) => self.rights & (most | Rights::STACK),
            None => self.rights,
        };
        if self.is_writable_no_execute && rights.contains(Rights::WRITE.union(Rights::EXECUTE)) {
            // What an overlay lets be executed it does not let be written.
            rights.remove(if overlay.is_some() { Rights::WRITE } else { Rights::EXECUTE });
        }
        rights
    }
}

impl PermissionControl {
    /// Whether a leaf's bits alone say what it permits, as AP, PXN and UXN, or S2AP and XN.
    pub const fn is_direct(&self) -> bool {
        matches!(self.indirection, Indirection::Off)
            && self.overlay.known().is_none()
            && self.user_overlay.known().is_none()
    }

    /// What a leaf of stage 1 permits below tables with these limits; `None` if nobody knows the register that says.
    ///
    /// ```
    /// use vellum_vmsa::{Descriptor, Indirection, PermissionControl, TableAttributes};
    ///
    /// // Bits 54, 53 and 51: PIIndex 14, the kernel's data under Linux. Bit 7 says that nobody has written it yet.
    /// let leaf = Descriptor::new(0x0068_0000_4400_0783);
    /// let mut control = PermissionControl { indirection: Indirection::LINUX, ..PermissionControl::default() };
    /// assert_eq!(control.stage1(leaf, TableAttributes::empty()).unwrap().privileged.to_string(), "r--");
    /// control.manages_dirty_state = true;
    /// assert_eq!(control.stage1(leaf, TableAttributes::empty()).unwrap().privileged.to_string(), "rw-");
    /// ```
    pub fn stage1(&self, leaf: Descriptor, limits: TableAttributes) -> Option<Permissions> {
        let (privileged, unprivileged) = match self.indirection {
            Indirection::Off => self.direct(leaf, limits),
            Indirection::Unknown => return None,
            Indirection::By(pir, pire0) => self.indirect(leaf, pir, pire0),
        };
        let most = |por: Overlay| por.known().map(|por| usize::from(value(por, STAGE1_FORMAT.overlay(leaf))));
        let state = match self.indirection {
            Indirection::Off => Rights::all(),
            _ => STAGE1_FORMAT.once_dirty(leaf, self),
        };
        Some(Permissions {
            privileged: privileged.after(most(self.overlay).map(|row| OVERLAY[row].privileged)) & state,
            unprivileged: unprivileged.after(most(self.user_overlay).map(|row| OVERLAY[row].unprivileged)) & state,
        })
    }

    /// By AP, PXN, UXN and DBM (D8.4.1), what tables limit (D8.4.2), and WXN (D8.4.6).
    fn direct(&self, leaf: Descriptor, limits: TableAttributes) -> (Before, Before) {
        let bits = Stage1Attributes::from_bits_retain(leaf.bits());
        let limits = if self.ignores_hierarchy { TableAttributes::empty() } else { limits };
        let is_dirty = !bits.contains(Stage1Attributes::READ_ONLY)
            || bits.contains(Stage1Attributes::DBM) && self.manages_dirty_state;
        let writes = is_dirty && !limits.contains(TableAttributes::READ_ONLY);
        let is_user = bits.contains(Stage1Attributes::USER) && !limits.contains(TableAttributes::NO_USER);
        let data = if writes { Rights::DATA } else { Rights::READ };
        let before = |data: Rights, executes: bool| Before {
            rights: if executes { data | Rights::EXECUTE } else { data },
            has_overlay: true,
            is_writable_no_execute: self.writable_is_no_execute,
        };
        let is_bit_54_clear = !bits.contains(Stage1Attributes::UXN) && !limits.contains(TableAttributes::UXN);
        if self.has_one_privilege {
            return (before(data, is_bit_54_clear), before(Rights::empty(), false));
        }
        // What EL0 may write, EL1 never executes.
        let is_user_written = is_user && writes;
        let privileged = !bits.contains(Stage1Attributes::PXN) && !limits.contains(TableAttributes::PXN);
        let user_data = if is_user { data } else { Rights::empty() };
        (before(data, privileged && !is_user_written), before(user_data, is_bit_54_clear))
    }

    /// By PIR_ELx and PIRE0_ELx (rules RLLZDZ, RHJYGR).
    fn indirect(&self, leaf: Descriptor, pir: u64, pire0: u64) -> (Before, Before) {
        let index = STAGE1_FORMAT.index(leaf);
        let mut privileged = Before::of(value(pir, index), |row| row.privileged);
        let pire0 = if self.has_one_privilege { 0 } else { pire0 };
        let mut unprivileged = Before::of(value(pire0, index), |row| row.unprivileged);
        // What EL0 may write, EL1 never executes: who asks for both has nothing (RVFPJF).
        let is_code = privileged.rights.intersects(Rights::EXECUTE.union(Rights::STACK));
        if is_code && unprivileged.rights.intersects(Rights::WRITE.union(Rights::STACK)) {
            (privileged.rights, unprivileged.rights) = (Rights::empty(), Rights::empty());
        }
        (privileged, unprivileged)
    }

    /// What a leaf of stage 2 lets a guest do; `None` if nobody knows the register that says.
    pub fn stage2(&self, leaf: Descriptor) -> Option<Permissions> {
        let Indirection::By(pir, _) = self.indirection else {
            return (self.indirection == Indirection::Off).then(|| self.direct_stage2(leaf));
        };
        let row = |register: u64, index: u8| &STAGE2[usize::from(value(register, index))];
        let base = row(pir, STAGE2_FORMAT.index(leaf));
        let most = self.overlay.known().map(|por| row(por, STAGE2_FORMAT.overlay(leaf)));
        let state = STAGE2_FORMAT.once_dirty(leaf, self);
        let of = |privilege: fn(&Encoding) -> Rights| privilege(base) & most.map_or(Rights::all(), privilege) & state;
        Some(Permissions { privileged: of(|row| row.privileged), unprivileged: of(|row| row.unprivileged) })
    }

    /// By S2AP, XN and DBM: there are no overlays over these.
    fn direct_stage2(&self, leaf: Descriptor) -> Permissions {
        let bits = Stage2Attributes::from_bits_retain(leaf.bits());
        let mut data = Rights::empty();
        data.set(Rights::READ, bits.contains(Stage2Attributes::READ));
        let is_clean = bits.contains(Stage2Attributes::DBM) && self.manages_dirty_state;
        data.set(Rights::WRITE, bits.contains(Stage2Attributes::WRITE) || is_clean);
        let execute = bits.execute();
        let of = |alone| {
            if matches!(execute, Execute::Everyone) || execute == alone { data | Rights::EXECUTE } else { data }
        };
        Permissions { privileged: of(Execute::Privileged), unprivileged: of(Execute::User) }
    }
}

/// PIIndex of a leaf, by which PIR_ELx and PIRE0_ELx, or S2PIR_EL2, name its permissions.
pub fn permission_index(leaf: Descriptor) -> u8 {
    STAGE1_FORMAT.index(leaf)
}

/// The descriptor bits of a PIIndex, 0 to 15.
pub fn with_permission_index(index: u8) -> Bits {
    (0..).zip(&STAGE1_FORMAT.index).fold(0, |bits, (place, field)| bits | u64::from(index >> place & 1) << field.low)
}

#[cfg(test)]
mod tests;
