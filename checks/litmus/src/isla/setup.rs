//! Carries out `page_table_setup`: names get addresses, tables get descriptors.

use std::collections::{BTreeMap, BTreeSet};

use super::expression::Expression;
use super::initial::{BASE, BASE2, Initial};
use super::statements::{Kind, Mapping, Placed, Statement, Target};
use super::{addresses, statements};
use crate::error::{At, Wrong, refused};
use crate::layout;
use crate::tables::{Leaf, PAGE, Stage, Table};

/// Carries out `statements`; `symbolic` names are virtual addresses.
pub(super) fn build(statements: &[(usize, Statement)], symbolic: &[String]) -> Result<Initial, At> {
    let mut initial = Initial {
        names: BTreeMap::new(),
        kinds: BTreeMap::new(),
        widths: BTreeMap::new(),
        tables: BTreeMap::new(),
        memory: BTreeMap::new(),
        walks: BTreeMap::new(),
        has_stage2: false,
        has_defaults: true,
        maps_itself: true,
        pages: BTreeSet::new(),
        identities: BTreeSet::new(),
    };
    let mut all = Vec::new();
    statements::flatten(statements, &[], &mut all);
    for placed in &all {
        initial.note_kinds(placed).map_err(|wrong| At::line(placed.line, wrong))?;
    }
    addresses::place(&mut initial, &all, symbolic)?;
    if initial.has_defaults {
        initial.tables.insert(BASE.to_owned(), Table::new(Stage::One, layout::STAGE1));
        if initial.has_stage2 {
            initial.tables.insert(BASE2.to_owned(), Table::new(Stage::Two, layout::STAGE2));
        }
    }
    for placed in &all {
        initial.carry_out(placed).map_err(|wrong| At::line(placed.line, wrong))?;
    }
    initial.map_what_is_reached();
    for placed in &all {
        initial.fill(placed.statement).map_err(|wrong| At::line(placed.line, wrong))?;
    }
    Ok(initial)
}

impl Initial {
    fn note_kinds(&mut self, placed: &Placed<'_>) -> Result<(), Wrong> {
        match placed.statement {
            Statement::Declare { kind, names, .. } => {
                self.has_stage2 |= *kind == Kind::Intermediate;
                self.kinds.extend(names.iter().map(|name| (name.clone(), *kind)));
            }
            Statement::Table { stage: Stage::Two, .. } => self.has_stage2 = true,
            Statement::Option { name, value } => match name.as_str() {
                "default_tables" => self.has_defaults = *value,
                "self_map" => self.maps_itself = *value,
                _ => return Err(refused(format!("option {name}"), format!("option `{name}` is not known"))),
            },
            _ => {}
        }
        Ok(())
    }

    /// The table that a mapping of `from` outside any block is for.
    fn default_table(&self, from: &Expression) -> &'static str {
        match from {
            Expression::Name(name) if self.kinds.get(name) == Some(&Kind::Intermediate) => BASE2,
            _ => BASE,
        }
    }

    fn carry_out(&mut self, placed: &Placed<'_>) -> Result<(), Wrong> {
        let Placed { statement, scopes, .. } = placed;
        match statement {
            Statement::Table { stage, name, place, .. } => {
                if self.tables.contains_key(name) {
                    return Err(format!("there is a table `{name}` already").into());
                }
                let table = Table::new(*stage, self.value(place)?);
                self.tables.insert(name.clone(), table);
                self.reach(scopes, name);
                if self.maps_itself {
                    self.pages.insert((name.clone(), name.clone()));
                }
            }
            Statement::Pages(name) => self.reach(scopes, name),
            Statement::Identity(place) => {
                let place = self.value(place)?;
                match scopes.last() {
                    Some(scope) => {
                        self.map(scope, place, 3, |_, leaf| Some(leaf.descriptor(3, place)))?;
                        self.map_beneath(scopes, place);
                    }
                    None => {
                        self.identities.insert(place);
                    }
                }
            }
            Statement::Map(mapping) => self.map_one(scopes, mapping)?,
            _ => {}
        }
        Ok(())
    }

    /// Every table around maps the pages of the table `name` to themselves.
    fn reach(&mut self, scopes: &[String], name: &str) {
        self.pages.extend(scopes.iter().map(|scope| (scope.clone(), name.to_owned())));
    }

    /// What a table of stage 1 leads to by its physical address is mapped to itself by the stage 2 around.
    fn map_beneath(&mut self, scopes: &[String], output: u64) {
        let stage = |name: &String| self.tables.get(name).map(|table| table.stage);
        let beneath = scopes.iter().rev().find(|scope| stage(scope) == Some(Stage::Two)).cloned();
        if let (Some(Some(Stage::One)), Some(beneath)) = (scopes.last().map(stage), beneath) {
            self.map_same(&beneath, &[output & !(PAGE - 1)]);
        }
    }

    fn map_one(&mut self, scopes: &[String], mapping: &Mapping) -> Result<(), Wrong> {
        let from = self.value(&mapping.from)?;
        let default = self.default_table(&mapping.from).to_owned();
        let scope = scopes.last().cloned().unwrap_or(default);
        let level = mapping.level;
        if let Target::To(Expression::Name(name)) = &mapping.target
            && self.kinds.get(name) == Some(&Kind::Physical)
        {
            self.map_beneath(scopes, self.names[name]);
        }
        if mapping.is_maybe {
            let table = self.tables.get_mut(&scope).ok_or_else(|| format!("there is no page table `{scope}`"))?;
            table.reach(&mut self.memory, from, level);
        } else {
            let target = match &mapping.target {
                Target::Invalid => None,
                Target::To(to) => Some((self.value(to)?, true)),
                Target::Table(to) => Some((self.value(to)? | 3, false)),
                Target::Raw(to) => Some((self.value(to)?, false)),
            };
            self.map(&scope, from, level, |stage, leaf| match target {
                None => Some(0),
                Some((raw, false)) => Some(raw),
                Some((output, true)) => {
                    let mut fields = mapping.fields.iter();
                    let leaf = fields.try_fold(leaf, |leaf, (field, value)| leaf.with(stage, field, *value))?;
                    Some(leaf.descriptor(level, output))
                }
            })?;
        }
        if let Some(walk) = &mapping.walk {
            let table = &self.tables[&scope];
            let pages =
                (0..=level).filter_map(|level| table.slot(&self.memory, from, level)).map(|it| it & !(PAGE - 1));
            self.walks.insert(walk.clone(), pages.collect());
        }
        Ok(())
    }

    fn map(
        &mut self,
        name: &str,
        from: u64,
        level: u8,
        make: impl FnOnce(Stage, Leaf) -> Option<u64>,
    ) -> Result<(), Wrong> {
        let table = self.tables.get_mut(name).ok_or_else(|| format!("there is no page table `{name}`"))?;
        let descriptor = make(table.stage, Leaf::data(table.stage));
        let descriptor = descriptor.ok_or_else(|| refused("attribute", "an attribute is not known, or too large"))?;
        let is_done = table.set(&mut self.memory, from, level, descriptor);
        if is_done { Ok(()) } else { Err(format!("{from:#x} is in a block of `{name}`").into()) }
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
    fn fill(&mut self, statement: &Statement) -> Result<(), Wrong> {
        let Statement::Memory { place, value } = statement else { return Ok(()) };
        let (place, value) = (self.physical(place)?, self.value(value)?);
        self.memory.insert(place, value);
        Ok(())
    }
}
