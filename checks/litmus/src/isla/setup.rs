//! Carries out `page_table_setup`: names get addresses, tables get descriptors.

use std::collections::{BTreeMap, BTreeSet};

use super::expression::Expression;
use super::statements::{Kind, Mapping, Statement, Target};
use crate::error::At;
use crate::layout;
use crate::tables::{Leaf, PAGE, Stage, Table, size};

/// The stage-1 table that threads use unless they say otherwise.
pub(super) const BASE: &str = "page_table_base";
/// The stage-2 table that threads use unless they say otherwise.
pub(super) const BASE2: &str = "s2_page_table_base";

/// What the setup made.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) names: BTreeMap<String, u64>,
    kinds: BTreeMap<String, Kind>,
    pub(super) tables: BTreeMap<String, Table>,
    pub(super) memory: BTreeMap<u64, u64>,
    /// Addresses of the tables of named walks, by level.
    pub(super) walks: BTreeMap<String, Vec<u64>>,
    pub(super) has_defaults: bool,
    pub(super) has_stage2: bool,
    /// (table, table whose pages it maps).
    pages: BTreeSet<(String, String)>,
    identities: BTreeSet<u64>,
}

/// Carries out `statements`; `symbolic` names are virtual addresses.
pub(super) fn build(statements: &[(usize, Statement)], symbolic: &[String]) -> Result<World, At> {
    let mut world = World {
        names: BTreeMap::new(),
        kinds: BTreeMap::new(),
        tables: BTreeMap::new(),
        memory: BTreeMap::new(),
        walks: BTreeMap::new(),
        has_defaults: true,
        has_stage2: false,
        pages: BTreeSet::new(),
        identities: BTreeSet::new(),
    };
    let mut all = Vec::new();
    flatten(statements, None, &mut all);
    world.note_kinds(&all);
    world.place_names(&all, symbolic);
    if world.has_defaults {
        world.tables.insert(BASE.to_owned(), Table::new(Stage::One, layout::STAGE1));
        if world.has_stage2 {
            world.tables.insert(BASE2.to_owned(), Table::new(Stage::Two, layout::STAGE2));
        }
    }
    for (line, scope, statement) in &all {
        world.carry_out(scope.as_deref(), statement).map_err(|what| At::line(*line, what))?;
    }
    world.map_what_is_reached();
    for (line, _, statement) in &all {
        world.fill(statement).map_err(|what| At::line(*line, what))?;
    }
    Ok(world)
}

/// Statements with the table that they stand in; a table's own statement comes before what it holds.
fn flatten<'a>(
    statements: &'a [(usize, Statement)],
    scope: Option<&str>,
    all: &mut Vec<(usize, Option<String>, &'a Statement)>,
) {
    for (line, statement) in statements {
        all.push((*line, scope.map(str::to_owned), statement));
        if let Statement::Table { name, statements, .. } = statement {
            flatten(statements, Some(name), all);
        }
    }
}

type Placed<'a> = (usize, Option<String>, &'a Statement);

impl World {
    fn note_kinds(&mut self, all: &[Placed<'_>]) {
        for (_, _, statement) in all {
            match statement {
                Statement::Declare { kind, names, .. } => {
                    self.has_stage2 |= *kind == Kind::Intermediate;
                    self.kinds.extend(names.iter().map(|name| (name.clone(), *kind)));
                }
                Statement::Table { stage: Stage::Two, .. } => self.has_stage2 = true,
                Statement::Option { name, value } if name == "default_tables" => self.has_defaults = value == "true",
                _ => {}
            }
        }
    }

    /// Names get pages in the order of their declaration. Whatever a block leads to is aligned to its size.
    fn place_names(&mut self, all: &[Placed<'_>], symbolic: &[String]) {
        let mut aligns: BTreeMap<&str, u64> = BTreeMap::new();
        let mut order: Vec<(&str, Kind)> = symbolic.iter().map(|name| (name.as_str(), Kind::Virtual)).collect();
        for (_, _, statement) in all {
            match statement {
                Statement::Declare { kind, names, align } => {
                    order.extend(names.iter().map(|name| (name.as_str(), *kind)));
                    names.iter().for_each(|name| raise(&mut aligns, name, *align));
                }
                Statement::Map(Mapping { target: Target::To(Expression::Name(name)), level, .. }) => {
                    let kind = if self.kinds.contains_key(name) { None } else { Some(Kind::Physical) };
                    order.extend(kind.map(|kind| (name.as_str(), kind)));
                    raise(&mut aligns, name, if *level == 3 { 1 } else { size(*level) });
                }
                _ => {}
            }
        }
        let mut next = [layout::VIRTUAL, layout::INTERMEDIATE, layout::PHYSICAL];
        for (name, kind) in order {
            if !self.names.contains_key(name) {
                let next = &mut next[kind as usize];
                let address = next.next_multiple_of(aligns.get(name).copied().unwrap_or(1));
                self.names.insert(name.to_owned(), address);
                self.kinds.insert(name.to_owned(), kind);
                *next = address + PAGE;
            }
        }
        for (_, _, statement) in all {
            if let Statement::Same(left, right) = statement
                && let Some(address) = self.names.get(left).copied()
            {
                self.names.insert(right.clone(), address);
            }
        }
    }

    /// The table that a mapping of `from` outside any block is for.
    fn default_table(&self, from: &Expression) -> &'static str {
        match from {
            Expression::Name(name) if self.kinds.get(name) == Some(&Kind::Intermediate) => BASE2,
            _ => BASE,
        }
    }

    fn value(&self, expression: &Expression) -> Result<u64, String> {
        expression.value(self, &BTreeMap::new())
    }

    fn carry_out(&mut self, scope: Option<&str>, statement: &Statement) -> Result<(), String> {
        match statement {
            Statement::Table { stage, name, place, .. } => {
                let table = Table::new(*stage, self.value(place)?);
                self.tables.insert(name.clone(), table);
                self.reach(scope, name);
            }
            Statement::Pages(name) => self.reach(scope, name),
            Statement::Option { name, .. } if name != "default_tables" => {
                return Err(format!("option `{name}` is not known"));
            }
            Statement::Identity(place) => {
                let place = self.value(place)?;
                match scope {
                    Some(scope) => self.map(scope, place, 3, |leaf| leaf.descriptor(3, place))?,
                    None => {
                        self.identities.insert(place);
                    }
                }
            }
            Statement::Map(mapping) if mapping.is_maybe => {}
            Statement::Map(mapping) => self.map_one(scope, mapping)?,
            _ => {}
        }
        Ok(())
    }

    /// `scope` maps the pages of the table `name` to themselves.
    fn reach(&mut self, scope: Option<&str>, name: &str) {
        if let Some(scope) = scope {
            self.pages.insert((scope.to_owned(), name.to_owned()));
        }
    }

    fn map_one(&mut self, scope: Option<&str>, mapping: &Mapping) -> Result<(), String> {
        let from = self.value(&mapping.from)?;
        let scope = scope.unwrap_or_else(|| self.default_table(&mapping.from)).to_owned();
        let target = match &mapping.target {
            Target::Invalid => None,
            Target::To(to) => Some((self.value(to)?, true)),
            Target::Table(to) => Some((self.value(to)? | 3, false)),
            Target::Raw(to) => Some((self.value(to)?, false)),
        };
        let level = mapping.level;
        self.map(&scope, from, level, |leaf| match target {
            None => 0,
            Some((raw, false)) => raw,
            Some((output, true)) => {
                mapping.access.map_or(leaf, |access| leaf.with_access(access)).descriptor(level, output)
            }
        })?;
        if let Some(walk) = &mapping.walk {
            let table = &self.tables[&scope];
            let pages =
                (0..=level).filter_map(|level| table.slot(&self.memory, from, level)).map(|it| it & !(PAGE - 1));
            self.walks.insert(walk.clone(), pages.collect());
        }
        Ok(())
    }

    fn map(&mut self, name: &str, from: u64, level: u8, make: impl FnOnce(Leaf) -> u64) -> Result<(), String> {
        let table = self.tables.get_mut(name).ok_or_else(|| format!("there is no page table `{name}`"))?;
        let descriptor = make(Leaf::data(table.stage));
        let is_done = table.set(&mut self.memory, from, level, descriptor);
        if is_done { Ok(()) } else { Err(format!("{from:#x} is in a block of `{name}`")) }
    }

    /// Tables that others map, code, and beneath the default stage 2 all that stage 1 leads to: each at its own address.
    /// Mapping may make new tables, so this goes on until nothing is new.
    fn map_what_is_reached(&mut self) {
        if self.has_defaults {
            let names: Vec<String> = self.tables.keys().cloned().collect();
            for base in [BASE, BASE2].into_iter().filter(|base| self.tables.contains_key(*base)) {
                self.pages.extend(names.iter().map(|name| (base.to_owned(), name.clone())));
            }
        }
        let physical: Vec<u64> =
            self.kinds.iter().filter(|it| *it.1 == Kind::Physical).map(|it| self.names[it.0]).collect();
        loop {
            let before = self.memory.len();
            for (scope, name) in self.pages.clone() {
                let pages: Vec<u64> = self.tables.get(&name).map(|table| table.pages().collect()).unwrap_or_default();
                self.map_same(&scope, &pages);
            }
            let code: Vec<u64> = self.identities.iter().copied().collect();
            self.map_same(BASE, &code);
            self.map_same(BASE2, &[code, physical.clone()].concat());
            if self.memory.len() == before {
                return;
            }
        }
    }

    /// Maps `pages` to themselves where nothing is mapped yet.
    fn map_same(&mut self, scope: &str, pages: &[u64]) {
        let Some(table) = self.tables.get_mut(scope) else { return };
        let leaf = Leaf::data(table.stage);
        for page in pages {
            let is_free = table.slot(&self.memory, *page, 3).is_none_or(|slot| !self.memory.contains_key(&slot));
            if is_free {
                table.set(&mut self.memory, *page, 3, leaf.descriptor(3, *page));
            }
        }
    }

    /// Initial values of memory.
    fn fill(&mut self, statement: &Statement) -> Result<(), String> {
        let Statement::Memory { place, value } = statement else { return Ok(()) };
        let (place, value) = (self.physical(place)?, self.value(value)?);
        self.memory.insert(place, value);
        Ok(())
    }

    /// The physical address of what `place` names, by the tables of the start.
    pub(super) fn physical(&self, place: &Expression) -> Result<u64, String> {
        let address = self.value(place)?;
        let kind = match place {
            Expression::Name(name) => self.kinds.get(name).copied().unwrap_or(Kind::Physical),
            _ => Kind::Physical,
        };
        let through = |name: &str, address: u64| {
            let tables = self.tables.get(name).into_iter();
            tables.filter_map(|table| table.translate(&self.memory, address)).next()
        };
        let found = match kind {
            Kind::Physical => Some(address),
            Kind::Intermediate => through(BASE2, address),
            Kind::Virtual if self.has_stage2 => through(BASE, address).and_then(|address| through(BASE2, address)),
            Kind::Virtual => through(BASE, address),
        };
        found.ok_or_else(|| format!("{address:#x} is not mapped at the start"))
    }
}

fn raise<'a>(aligns: &mut BTreeMap<&'a str, u64>, name: &'a str, align: u64) {
    let known = aligns.entry(name).or_insert(1);
    *known = (*known).max(align);
}
