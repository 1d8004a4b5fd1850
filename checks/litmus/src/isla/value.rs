//! Values of expressions, where names have addresses and tables hold something.

use std::collections::BTreeMap;

use a64::instruction::Width;

use super::expression::Expression;
use super::initial::{BASE, BASE2, Initial};
use super::statements::Kind;
use crate::error::{Wrong, refused};
use crate::tables::{Leaf, Stage};

impl Initial {
    pub(super) fn value(&self, expression: &Expression) -> Result<u64, Wrong> {
        expression.value(self, &BTreeMap::new())
    }

    /// The physical address of what `place` names, by the tables of the start.
    pub(super) fn physical(&self, place: &Expression) -> Result<u64, Wrong> {
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
        found.ok_or_else(|| format!("{address:#x} is not mapped at the start").into())
    }

    /// How wide what lies at `place` is.
    pub(super) fn width(&self, place: &Expression) -> Width {
        match place {
            Expression::Name(name) => self.widths.get(name).copied().unwrap_or(Width::Double),
            _ => Width::Double,
        }
    }
}

impl Expression {
    /// Its value. `labels` are those of the thread that it stands with.
    pub(super) fn value(&self, initial: &Initial, labels: &BTreeMap<String, u64>) -> Result<u64, Wrong> {
        match self {
            Self::Number(number, _) => Ok(*number),
            Self::Name(name) => {
                let known = initial.names.get(name).copied();
                let known = known.or_else(|| initial.tables.get(name).map(|table| table.root));
                known.or_else(|| labels.get(name).copied()).ok_or_else(|| format!("`{name}` has no value").into())
            }
            Self::Label(name) => {
                labels.get(name).copied().ok_or_else(|| format!("label `{name}` is not defined").into())
            }
            Self::Call { name, arguments } => {
                let call = Call { name, arguments, initial, labels };
                call.value()
            }
            Self::Slice(inner, high, low) => {
                Ok(inner.value(initial, labels)? >> low & (u64::MAX >> (63 - (high - low))))
            }
            Self::Equal(left, right, is_denied) => {
                Ok(u64::from((left.value(initial, labels)? == right.value(initial, labels)?) != *is_denied))
            }
            Self::Both(left, right) => Ok(left.value(initial, labels)? & right.value(initial, labels)?),
        }
    }
}

struct Call<'a> {
    name: &'a str,
    arguments: &'a [(Option<String>, Expression)],
    initial: &'a Initial,
    labels: &'a BTreeMap<String, u64>,
}

impl Call<'_> {
    fn value(&self) -> Result<u64, Wrong> {
        let shift = || Ok::<u32, Wrong>(self.at(1)?.min(64) as u32);
        match self.name {
            "extz" => Ok(self.at(0)? & ones(self.length()?)),
            "exts" => self.signed(),
            "page" => Ok(self.at(0)? >> 12 & ones(36)),
            "asid" | "vmid" => Ok(self.at(0)? << 48),
            "ttbr" => self.ttbr(),
            "bvand" => Ok(self.at(0)? & self.at(1)?),
            "bvor" => Ok(self.at(0)? | self.at(1)?),
            "bvxor" => Ok(self.at(0)? ^ self.at(1)?),
            "bvlshr" => Ok(self.at(0)?.checked_shr(shift()?).unwrap_or(0)),
            "bvshl" => Ok(self.at(0)?.checked_shl(shift()?).unwrap_or(0)),
            "index" => self.index(),
            "offset" => Ok(self.index()? * 8),
            "pa" => self.initial.physical_by(self.at(0)?, self.table(1)?),
            "pa_to_ipa" | "ipa_to_pa" | "pa_to_va" | "va_to_pa" | "ipa_to_va" | "va_to_ipa" => self.at(0),
            _ => self.of_table(),
        }
    }

    /// How many bits an extension leaves.
    fn length(&self) -> Result<u32, Wrong> {
        Ok(self.at(1)?.min(64) as u32)
    }

    fn signed(&self) -> Result<u64, Wrong> {
        let Some((None, Expression::Number(number, Some(bits)))) = self.arguments.first() else {
            return Err(refused("function exts", "`exts` of what is written without its bits is not supported"));
        };
        let bits = (*bits).clamp(1, 64);
        let number = (number << (64 - bits)) as i64 >> (64 - bits);
        Ok(number as u64 & ones(self.length()?))
    }

    fn ttbr(&self) -> Result<u64, Wrong> {
        self.only(&["asid", "vmid", "base", "CnP"])?;
        let id = self.named("asid").or_else(|| self.named("vmid")).unwrap_or(Ok(0))?;
        let base = self.named("base").unwrap_or_else(|| Err("ttbr needs base=".into()))?;
        Ok(id << 48 | base | self.named("CnP").unwrap_or(Ok(0))? & 1)
    }

    /// The index in its table of level `level=` of the address `va=` or `ipa=`.
    fn index(&self) -> Result<u64, Wrong> {
        self.only(&["level", "va", "ipa"])?;
        let address = self.named("va").or_else(|| self.named("ipa"));
        match (address, self.named("level")) {
            (Some(address), Some(level)) => {
                let level = level.ok().filter(|level| *level <= 3).ok_or("a level is 0 to 3")?;
                Ok(address? >> (12 + 9 * (3 - level)) & 511)
            }
            _ => Err(self.unknown()),
        }
    }

    /// `pte3`, `desc3`, `mkdesc3`, `s2mkdesc3`, `table3` and their kin of other levels.
    fn of_table(&self) -> Result<u64, Wrong> {
        let split = self.name.len().saturating_sub(1);
        let (name, level) = self.name.split_at_checked(split).ok_or_else(|| self.unknown())?;
        let level: u8 = level.parse().ok().filter(|level| *level <= 3).ok_or_else(|| self.unknown())?;
        match name {
            "pte" => self.slot(level),
            "desc" => Ok(self.initial.memory.get(&self.slot(level)?).copied().unwrap_or(0)),
            "mkdesc" => self.made(Stage::One, level),
            "s2mkdesc" => self.made(Stage::Two, level),
            "table" => {
                let Some((None, Expression::Name(walk))) = self.arguments.first() else { return Err(self.unknown()) };
                let walk = self.initial.walks.get(walk).ok_or_else(|| format!("no walk is called `{walk}`"))?;
                let found = walk.get(usize::from(level)).copied();
                found.ok_or_else(|| format!("the walk has no level {level}").into())
            }
            _ => Err(self.unknown()),
        }
    }

    fn made(&self, stage: Stage, level: u8) -> Result<u64, Wrong> {
        if let Some(table) = self.named("table") {
            self.only(&["table"])?;
            return Ok(table? | 3);
        }
        let output = self.named("oa").ok_or_else(|| format!("{} needs oa= or table=", self.name))??;
        let (mut leaf, mut is_valid) = (Leaf::data(stage), true);
        for (field, value) in self.arguments {
            let (Some(field), value) = (field, value.value(self.initial, self.labels)?) else {
                return Err(self.unknown());
            };
            match field.as_str() {
                "oa" => {}
                "Valid" => is_valid = value & 1 == 1,
                _ => {
                    leaf = leaf.with(stage, field, value).ok_or_else(|| {
                        refused(format!("attribute {field}"), format!("attribute `{field}` of {value} is not known"))
                    })?;
                }
            }
        }
        let descriptor = leaf.descriptor(level, output);
        Ok(if is_valid { descriptor } else { descriptor & !1 })
    }

    fn slot(&self, level: u8) -> Result<u64, Wrong> {
        let (input, name) = (self.at(0)?, self.table(1)?);
        let slot = self.initial.tables[name].slot(&self.initial.memory, input, level);
        slot.ok_or_else(|| {
            refused("table that is not there", format!("`{name}` has no table of level {level} for {input:#x}"))
        })
    }

    /// The page table that an argument names, or whose root it is the address of.
    fn table(&self, index: usize) -> Result<&str, Wrong> {
        if let Some((None, Expression::Name(name))) = self.arguments.get(index)
            && let Some((name, _)) = self.initial.tables.get_key_value(name)
        {
            return Ok(name);
        }
        if let Some((None, Expression::Name(name))) = self.arguments.get(index)
            && !self.initial.names.contains_key(name)
        {
            return Err(format!("no page table is called `{name}`").into());
        }
        let root = self.at(index)?;
        let found = self.initial.tables.iter().find(|it| it.1.root == root);
        found.map(|it| it.0.as_str()).ok_or_else(|| format!("{root:#x} is no page table").into())
    }

    fn at(&self, index: usize) -> Result<u64, Wrong> {
        match self.arguments.get(index) {
            Some((None, argument)) => argument.value(self.initial, self.labels),
            _ => Err(format!("{} lacks an argument", self.name).into()),
        }
    }

    fn named(&self, name: &str) -> Option<Result<u64, Wrong>> {
        let argument = self.arguments.iter().find(|(it, _)| it.as_deref() == Some(name))?;
        Some(argument.1.value(self.initial, self.labels))
    }

    /// An argument by another name is refused.
    fn only(&self, names: &[&str]) -> Result<(), Wrong> {
        let is_known = |name: &Option<String>| name.as_deref().is_some_and(|name| names.contains(&name));
        if self.arguments.iter().all(|it| is_known(&it.0)) { Ok(()) } else { Err(self.unknown()) }
    }

    fn unknown(&self) -> Wrong {
        let what = format!("function `{}` with these arguments is not known", self.name);
        refused(format!("function {}", self.name), what)
    }
}

/// So many ones, from the lowest bit.
const fn ones(bits: u32) -> u64 {
    if bits == 0 { 0 } else { u64::MAX >> (64 - bits) }
}
