//! The report for programs, on request: behind each section's text one line of JSON that says the same.

use kerncore::choice::{BitsReason, Choice, PageSizeReason};
use kerncore::command_line::Report;
use kerncore::json::{Object, list, object, text};
use kerncore::memory_map::MemoryMap;
use linearmap::{Counters, Operations};
use vmsa::{Layout, LeafSize, PageSize};

use crate::console::say;
use crate::cpus::walkers;
use crate::facts::{facts, page_size};
use crate::memory::{current, linear_map, pages, ranges, unneeded};
use crate::report::times;

/// A line of a section, if such lines are wanted.
fn section(name: &str, fields: impl Fn(&mut Object<'_, '_>) -> core::fmt::Result) {
    if facts().options.report == Some(Report::Json) {
        let line = object(|section| {
            section.text("section", name)?;
            fields(section)
        });
        say!("{line}");
    }
}

fn address(bits: u64) -> impl core::fmt::Display {
    text(core::fmt::from_fn(move |f| write!(f, "{bits:#x}")))
}

/// `# detected`.
pub(super) fn detected() {
    let (cpus, level, tlb) = (walkers::identities(), linear_map::tolerance().level(), linear_map::tlb_features());
    section("detected", |all| {
        let cpu = |(index, cpu): (usize, walkers::Identity)| {
            object(move |one| {
                one.field("cpu", index)?;
                one.text("name", cpu.midr)?;
                one.field("midr", address(cpu.midr.bits().into()))?;
                one.field("affinity", address(cpu.affinity))?;
                let sizes = || PageSize::ALL.into_iter().filter(|size| cpu.id.has_granule(*size));
                one.field("page_sizes", list(|| sizes().map(text)))?;
                one.field("output_bits", cpu.id.output_bits())?;
                one.field("bbm", cpu.id.bbm())?;
                one.field("ets", cpu.id.ets())
            })
        };
        all.field("cpus", list(|| cpus.clone().map(cpu)))?;
        all.field("bbm", level)?;
        all.field("tlbi_by_range", tlb.range)?;
        all.field("level_hints", tlb.level_hints)?;
        all.field("tlbi_twice", tlb.repeat)?;
        all.field("entered_at", facts().exception_level)?;
        all.field("load_address", address(facts().load_address.bits()))
    });
}

/// `# chosen`. What was asked for is told where the CPU lacks it.
pub(super) fn chosen() {
    section("chosen", |all| {
        let Choice { page_size, page_size_reason, virtual_bits, bits_reason, layout, .. } = facts().choice;
        all.text("page_size", page_size)?;
        if let PageSizeReason::Instead(asked) = page_size_reason {
            all.text("page_size_lacking", asked)?;
        }
        all.text("early_page_size", facts().early_page_size)?;
        all.field("virtual_bits", virtual_bits)?;
        if let BitsReason::Instead(asked) = bits_reason {
            all.field("virtual_bits_lacking", asked)?;
        }
        let layout = match layout {
            Layout::Bits48 => "48 bits",
            Layout::Lpa => "LPA",
            Layout::Lpa2 => "LPA2",
        };
        all.text("descriptors", layout)?;
        all.field("linear_map", address(facts().linear.base))?;
        all.field("linear_map_origin", address(facts().linear.origin))
    });
}

/// `# memory map`.
pub(super) fn memory_map(map: &MemoryMap) {
    section("memory map", |all| {
        let piece = |piece: &kerncore::memory_map::Piece| {
            let (range, kind) = (piece.range, piece.kind);
            object(move |one| {
                one.field("start", address(range.start.bits()))?;
                one.field("end", address(range.end.bits()))?;
                one.text("kind", kind)
            })
        };
        all.field("pieces", list(|| map.pieces().iter().map(piece)))
    });
}

/// `# summary`.
pub(super) fn summary() {
    let (linear, table) = (facts().linear, current::upper());
    let counted = (table.summary(linear.range()), table.summary(table.range()));
    let (Ok(of_linear), Ok(of_all)) = counted else { return };
    let (free, given) = pages::with_pages(|pages| (pages.free_bytes(), pages.given_bytes()));
    let of_boot = unneeded::of_boot(&ranges::map());
    section("summary", |all| {
        let sizes = || {
            let sizes = LeafSize::all(page_size(), table.shape().layout);
            sizes.map(|size| (size, table.leaves(&of_linear, size))).filter(|(_, leaves)| *leaves > 0)
        };
        let leaf = |(size, leaves): (LeafSize, usize)| {
            object(move |one| {
                one.field("level", size.level.number())?;
                one.field("contiguous", size.contiguous)?;
                one.field("bytes", size.size_bytes(page_size()))?;
                one.field("leaves", leaves)
            })
        };
        all.field("linear_map", list(|| sizes().map(leaf)))?;
        let bytes = |tables: usize| tables as u64 * page_size().size_bytes();
        all.field("linear_map_table_bytes", bytes(of_linear.tables()))?;
        all.field("other_table_bytes", bytes(of_all.tables() - of_linear.tables()))?;
        all.field("boot_freed_bytes", of_boot.freed)?;
        all.field("boot_kept_bytes", of_boot.kept)?;
        let bytes: u64 = unneeded::of_page_sizes().map(|(_, bytes)| bytes).sum();
        all.field("other_page_sizes_kept_bytes", bytes)?;
        all.field("free_bytes", free)?;
        all.field("given_bytes", given)
    });
}

/// `# checks` and `# after init`: whether each check has passed.
pub(crate) fn checks(name: &str, checks: impl Iterator<Item = (&'static str, bool)> + Clone) {
    section(name, |all| {
        let check = |(name, is_ok): (&'static str, bool)| {
            object(move |one| {
                one.text("check", name)?;
                one.field("passed", is_ok)
            })
        };
        all.field("checks", list(|| checks.clone().map(check)))
    });
}

/// `# stress`.
pub(crate) fn stress(operations: u32, is_ok: bool) {
    section("stress", |all| {
        all.field("operations", operations)?;
        all.field("passed", is_ok)
    });
}

/// Changes that were refused, for whatever reason.
pub(super) fn refused(counters: &Counters) -> u64 {
    counters.reserve_dry + counters.out_of_tables + counters.not_parked + counters.refused
}

/// Every number of the linear map's counters.
fn counted(counters: &Counters) -> [(&'static str, u64); 19] {
    let Counters { changes, atomic, splits, folds, windows, parked, operations, .. } = *counters;
    let Operations { tlbi_address, tlbi_range, tlbi_everything, dsb_stores, dsb_all, isb } = operations;
    [
        ("changes", changes),
        ("atomic", atomic),
        ("splits", splits),
        ("folds", folds),
        ("windows", windows),
        ("parked", parked),
        ("refused", refused(counters)),
        ("reserve_dry", counters.reserve_dry),
        ("out_of_tables", counters.out_of_tables),
        ("not_parked", counters.not_parked),
        ("tlbi_address", tlbi_address),
        ("tlbi_range", tlbi_range),
        ("tlbi_everything", tlbi_everything),
        ("dsb_stores", dsb_stores),
        ("dsb_all", dsb_all),
        ("isb", isb),
        ("reserve", counters.reserve),
        ("added", counters.added),
        ("removed", counters.removed),
    ]
}

/// `# linear map counters`.
pub(super) fn counters(numbers: &Counters, tables: u64) {
    section("linear map counters", |all| {
        for (name, value) in counted(numbers) {
            all.field(name, value)?;
        }
        all.field("tables", tables)
    });
}

/// `# times`: instructions only where they are counted.
pub(super) fn times() {
    section("times", |all| {
        let step = |(name, instructions, microseconds): (&'static str, Option<u64>, u64)| {
            object(move |one| {
                one.text("step", name)?;
                if let Some(instructions) = instructions {
                    one.field("instructions", instructions)?;
                }
                one.field("microseconds", microseconds)
            })
        };
        all.field("steps", list(|| times::each().map(step)))
    });
}

/// `# verdict`.
pub(super) fn verdict(failed: usize, checks: usize) {
    section("verdict", |all| {
        all.text("verdict", if failed == 0 { "passed" } else { "failed" })?;
        all.field("checks", checks)?;
        all.field("failed", failed)
    });
}
