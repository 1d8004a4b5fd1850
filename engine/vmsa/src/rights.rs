//! What the fields of permission registers let somebody do (D23.2: PIR_EL1, POR_EL1, S2PIR_EL2). One row for each value of a
//! field: the rights, and what people say of them.

use core::fmt;

use bitflags::bitflags;

bitflags! {
    /// What somebody may do with memory.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Rights: u8 {
        /// Reads it.
        const READ = 1;
        /// Writes it.
        const WRITE = 2;
        /// Executes it.
        const EXECUTE = 4;
        /// Uses it as a guarded control stack (FEAT_GCS).
        const STACK = 8;
    }
}

impl Rights {
    /// Reads and writes.
    pub const DATA: Self = Self::READ.union(Self::WRITE);
}

/// `rwx`, with a dash for what is not there; a guarded control stack is `r--s`.
impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (right, letter) in [(Self::READ, 'r'), (Self::WRITE, 'w'), (Self::EXECUTE, 'x')] {
            write!(f, "{}", if self.contains(right) { letter } else { '-' })?;
        }
        f.write_str(if self.contains(Self::STACK) { "s" } else { "" })
    }
}

/// What a value of a field lets whom do.
pub(crate) struct Encoding {
    /// EL1, or EL2.
    pub(crate) privileged: Rights,
    /// EL0.
    pub(crate) unprivileged: Rights,
    /// In words.
    pub(crate) name: &'static str,
}

/// The sixteen values of a field.
pub(crate) type Encodings = [Encoding; 16];

const fn both(rights: Rights, name: &'static str) -> Encoding {
    Encoding { privileged: rights, unprivileged: rights, name }
}

const fn each(privileged: Rights, unprivileged: Rights, name: &'static str) -> Encoding {
    Encoding { privileged, unprivileged, name }
}

const NONE: Rights = Rights::empty();
const R: Rights = Rights::READ;
const W: Rights = Rights::WRITE;
const X: Rights = Rights::EXECUTE;
const RX: Rights = R.union(X);
const RW: Rights = R.union(W);
const RWX: Rights = RW.union(X);

/// The value of PIR_ELx that keeps what is writable from being executed.
pub(crate) const WRITABLE_IS_NO_EXECUTE: u8 = 0b0110;

/// PIR_ELx and PIRE0_ELx, each for its own privilege. Overlays apply to the first eight.
pub(crate) const BASE: Encodings = [
    both(NONE, "no access"),
    both(R, "read"),
    both(X, "execute"),
    both(RX, "read, execute"),
    both(NONE, "reserved: no access"),
    both(RW, "read, write"),
    both(RWX, "read, write, execute, but what is writable is never executable"),
    both(RWX, "read, write, execute"),
    both(R, "read, no overlay"),
    both(R.union(Rights::STACK), "read, guarded control stack, no overlay"),
    both(RX, "read, execute, no overlay"),
    both(NONE, "reserved: no access, no overlay"),
    both(RW, "read, write, no overlay"),
    both(NONE, "reserved: no access, no overlay"),
    both(RWX, "read, write, execute, no overlay"),
    both(NONE, "reserved: no access, no overlay"),
];

/// POR_ELx, each for its own privilege.
pub(crate) const OVERLAY: Encodings = [
    both(NONE, "no access"),
    both(R, "read"),
    both(X, "execute"),
    both(RX, "read, execute"),
    both(W, "write"),
    both(RW, "read, write"),
    both(W.union(X), "write, execute"),
    both(RWX, "read, write, execute"),
    both(NONE, "reserved: no access"),
    both(NONE, "reserved: no access"),
    both(NONE, "reserved: no access"),
    both(NONE, "reserved: no access"),
    both(NONE, "reserved: no access"),
    both(NONE, "reserved: no access"),
    both(NONE, "reserved: no access"),
    both(NONE, "reserved: no access"),
];

/// S2PIR_EL2, and S2POR_EL1. Mostly read-only memory is written by walks and by RCW instructions alone (FEAT_THE).
pub(crate) const STAGE2: Encodings = [
    both(NONE, "no access"),
    both(NONE, "reserved: no access"),
    both(R, "mostly read-only"),
    both(R, "mostly read-only, TopLevel1"),
    both(W, "write"),
    both(NONE, "reserved: no access"),
    both(R, "mostly read-only, TopLevel0"),
    both(R, "mostly read-only, TopLevel0 and TopLevel1"),
    both(R, "read"),
    each(R, RX, "read, EL0 executes"),
    each(RX, R, "read, EL1 executes"),
    both(RX, "read, execute"),
    both(RW, "read, write"),
    each(RW, RWX, "read, write, EL0 executes"),
    each(RWX, RW, "read, write, EL1 executes"),
    both(RWX, "read, write, execute"),
];

/// The names of the values, as tables of fields want them.
pub(crate) const fn names(encodings: &Encodings) -> [(u64, &'static str); 16] {
    let mut names = [(0, ""); 16];
    let mut value = 0;
    while value < names.len() {
        names[value] = (value as u64, encodings[value].name);
        value += 1;
    }
    names
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;

    #[test]
    fn rights_are_letters() {
        let all = (0..16).map(|bits| Rights::from_bits_truncate(bits).to_string());
        let expected = [
            "---", "r--", "-w-", "rw-", "--x", "r-x", "-wx", "rwx", "---s", "r--s", "-w-s", "rw-s", "--xs", "r-xs",
            "-wxs", "rwxs",
        ];
        assert!(all.eq(expected));
    }

    /// What a name says is what the rights are.
    #[test]
    fn names_say_what_the_rights_are() {
        for (table, encodings) in [("PIR", &BASE), ("POR", &OVERLAY), ("S2PIR", &STAGE2)] {
            for (value, row) in encodings.iter().enumerate() {
                let name = row.name.split(", but").next().unwrap_or_default();
                let words: std::vec::Vec<&str> = name.split(", ").collect();
                let has = |word| words.contains(&word);
                let mut rights = Rights::empty();
                rights.set(R, has("read") || name.starts_with("mostly read-only"));
                rights.set(W, has("write"));
                rights.set(Rights::STACK, has("guarded control stack"));
                let by = |who| if has("execute") || has(who) { rights | X } else { rights };
                let said = (by("EL1 executes"), by("EL0 executes"));
                assert_eq!((row.privileged, row.unprivileged), said, "{table} {value:#06b}: {}", row.name);
                let is_of_base = core::ptr::eq(encodings, &BASE);
                assert_eq!(has("no overlay"), is_of_base && value >= 8, "{table} {value:#06b}");
            }
        }
        assert!(BASE[usize::from(WRITABLE_IS_NO_EXECUTE)].name.ends_with("never executable"));
    }
}
