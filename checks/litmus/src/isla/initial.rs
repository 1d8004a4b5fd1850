//! What `page_table_setup` makes: names with addresses, tables, memory.

use std::collections::{BTreeMap, BTreeSet};

use a64::instruction::Width;

use super::statements::Kind;
use crate::error::Wrong;
use crate::tables::Table;

/// The stage-1 table that threads use unless they say otherwise.
pub(super) const BASE: &str = "page_table_base";
/// The stage-2 table that threads use unless they say otherwise.
pub(super) const BASE2: &str = "s2_page_table_base";

/// What the setup made: the state that a test begins in.
#[derive(Clone, Debug)]
pub(super) struct Initial {
    pub(super) names: BTreeMap<String, u64>,
    pub(super) kinds: BTreeMap<String, Kind>,
    /// How wide what lies at an address is, where that is not 64 bits.
    pub(super) widths: BTreeMap<String, Width>,
    pub(super) tables: BTreeMap<String, Table>,
    pub(super) memory: BTreeMap<u64, u64>,
    /// Addresses of the tables of named walks, by level.
    pub(super) walks: BTreeMap<String, Vec<u64>>,
    pub(super) has_stage2: bool,
    pub(super) has_defaults: bool,
    /// New tables map their own pages.
    pub(super) maps_itself: bool,
    /// (table, table whose pages it maps).
    pub(super) pages: BTreeSet<(String, String)>,
    pub(super) identities: BTreeSet<u64>,
}

impl Initial {
    /// Where the table `name` leads from `address`.
    pub(super) fn physical_by(&self, address: u64, name: &str) -> Result<u64, Wrong> {
        let found = self.tables.get(name).and_then(|table| table.translate(&self.memory, address));
        found.ok_or_else(|| format!("{address:#x} is not mapped at the start").into())
    }
}
