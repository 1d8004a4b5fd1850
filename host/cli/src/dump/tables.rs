//! `--tables`: every table page, from the root down, indented by level.

use std::io::{self, Write};

use image::{Root, Span, Table};
use vmsa::{Descriptor, Meaning};

use super::Format;
use crate::only::Filter;

/// Writes a line for each table.
pub(super) struct Tables<'a> {
    root: &'a Root,
    filter: &'a Filter,
    out: &'a mut dyn Write,
}

impl<'a> Tables<'a> {
    pub(super) fn new(root: &'a Root, filter: &'a Filter, out: &'a mut dyn Write) -> Self {
        Self { root, filter, out }
    }
}

impl Format for Tables<'_> {
    fn span(&mut self, _: &Span) -> io::Result<()> {
        Ok(())
    }

    fn table(&mut self, table: &Table, descriptors: &[Descriptor]) -> io::Result<()> {
        let shape = self.root.shape;
        if !self.filter.levels.is_empty() && !self.filter.levels.contains(&table.level) {
            return Ok(());
        }
        let (mut tables, mut leaves, mut invalid) = (0, 0, 0);
        for descriptor in descriptors {
            match descriptor.meaning(shape.page_size, shape.layout, table.level) {
                Meaning::Table(_) => tables += 1,
                Meaning::Leaf(..) => leaves += 1,
                _ if descriptor.bits() != 0 => invalid += 1,
                _ => {}
            }
        }
        let last = table.input + (((descriptors.len() as u64) << shape.shift(table.level)) - 1);
        let indent = usize::from(table.level.number().abs_diff(shape.start.number())) * 2;
        let shared = if table.is_repeated { ", shared" } else { "" };
        let kept = if invalid > 0 { format!(", {invalid} invalid") } else { String::new() };
        writeln!(
            self.out,
            "{:#018x}-{:#018x}   {:indent$}{} at {:#x}: {tables} tables, {leaves} leaves{kept}, {} empty{shared}",
            table.input,
            last.wrapping_add(1),
            "",
            table.level,
            table.address.bits(),
            descriptors.len() - tables - leaves - invalid,
        )
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}
