//! What a person sees: one function per section.

use core::fmt;

use kerncore::choice::{BitsReason, Choice, PageSizeReason};
use kerncore::command_line::{Exit, Rodata};
use kerncore::memory_map::MemoryMap;
use kerncore::range::Bytes;
use vmsa::ptdump::{Marker, Naming, Ptdump};
use vmsa::registers::MemoryTypes;
use vmsa::{IdRegisters, Layout, LeafSize, Meaning, PageSize};

use crate::console::{say, write_text};
use crate::cpus::walkers;
use crate::facts::{facts, page_size};
use crate::memory::{current, linear_map, pages, ranges, unneeded};
use crate::report::finish::Status;
use crate::report::{json, outcome, times};

/// `# detected`: each CPU, and what of it matters here.
pub(crate) fn detected() {
    say!("# detected");
    let mut first: Option<IdRegisters> = None;
    for (index, cpu) in walkers::identities() {
        let walkers::Identity { affinity, midr, id } = cpu;
        let is_alike = first.is_some_and(|boot| boot == id);
        let alike = if is_alike { ", with the features of cpu 0" } else { "" };
        say!("cpu {index}: {midr} (MIDR_EL1 {:#010x}, affinity {affinity:#x}){alike}", midr.bits());
        if !is_alike {
            features(&id);
        }
        first.get_or_insert(id);
    }
    say!("BBM level of all CPUs: {}", linear_map::tolerance().level());
    let pagetable::TlbFeatures { range, level_hints, repeat } = linear_map::tlb_features();
    let range = if range { "TLBIs by range" } else { "no TLBI by range" };
    let hints = if level_hints { "level hints" } else { "no level hints" };
    say!("TLBs of all CPUs: {range}, {hints}, every TLBI {}", if repeat { "twice" } else { "once" });
    say!("entered at EL{}", facts().exception_level);
    say!("loaded at {}", facts().load_address);
    if let Some(realm) = facts().realm {
        say!("a realm: addresses of {} bits, unprotected from {:#x}", realm.address_bits, realm.unprotected());
    }
    json::detected();
}

fn features(id: &IdRegisters) {
    for size in PageSize::ALL {
        match (id.has_granule(size), id.largest_input_bits(size), id.has_lpa2(size)) {
            (false, _, _) => say!("  {size} granule: no"),
            (true, bits, false) => say!("  {size} granule: {bits} bits of virtual address"),
            (true, bits, true) => say!("  {size} granule: {bits} bits of virtual address, by LPA2"),
        }
    }
    say!("  physical addresses: {} bits", id.output_bits());
    let word = |is_there: bool| if is_there { "yes" } else { "no" };
    say!("  BBM level {}; ETS {}; ASIDs of {} bits", id.bbm(), id.ets(), id.asid_bits());
    let (flag, dirty) = (id.has_hardware_access_flag(), id.has_hardware_dirty_state());
    say!("  hardware access flag: {}; hardware dirty state: {}", word(flag), word(dirty));
    let (range, hints) = (id.has_range_invalidation(), id.has_level_hints());
    say!("  TLBI by range: {}; level hints: {}; CnP: {}", word(range), word(hints), word(id.has_common_not_private()));
}

/// `# chosen`: what, and why.
pub(crate) fn chosen() {
    let facts = facts();
    let Choice { page_size, page_size_reason, virtual_bits: bits, bits_reason, layout, .. } = facts.choice;
    say!("# chosen");
    match page_size_reason {
        PageSizeReason::Asked => say!("page size: {page_size} (arm64.pagesize asks for it)"),
        PageSizeReason::Default => say!("page size: {page_size} (nothing else is asked for)"),
        PageSizeReason::Instead(asked) => say!("page size: {page_size} (the CPU has no {asked} granule)"),
    }
    let early = facts.early_page_size;
    match early == page_size {
        true => say!("page size before the command line was read: {early}"),
        false => say!("page size before the command line was read: {early} (switched with the MMU off)"),
    }
    match bits_reason {
        BitsReason::Asked => say!("virtual addresses: {bits} bits (vellum.vabits asks for it)"),
        BitsReason::Largest => say!("virtual addresses: {bits} bits (the most that the CPU has with this page size)"),
        BitsReason::Instead(asked) => say!("virtual addresses: {bits} bits (the CPU does not have {asked})"),
    }
    match layout {
        Layout::Bits48 => say!("descriptors: 48-bit addresses (no address needs more)"),
        Layout::Lpa => say!("descriptors: LPA, 52-bit addresses (more than 48 bits are in use)"),
        Layout::Lpa2 => say!("descriptors: LPA2, 52-bit addresses (more than 48 bits are in use)"),
    }
    let linear = facts.linear;
    say!("linear map: {:#018x} is physical {:#x}, room for {}", linear.base, linear.origin, Bytes(linear.capacity));
    say!("linear map: in {}", linear_map::leaves());
    match facts.options.rodata.unwrap_or_default() {
        Rodata::On => say!("text and constants: read-only, in the linear map too"),
        Rodata::NoAlias => say!(
            "text and constants: read-only, in the linear map too; areas of virtual addresses not there (rodata asks for it)"
        ),
        Rodata::Off => say!("text and constants: writable (rodata asks for it)"),
    }
    match facts.options.exit {
        Some(Exit::Semihosting) => say!("end: by semihosting (vellum.exit asks for it)"),
        Some(Exit::Monitor) => say!("end: by a call to the monitor (vellum.exit asks for it)"),
        Some(Exit::Psci) | None => say!("end: by PSCI SYSTEM_OFF"),
    }
    json::chosen();
}

/// `# memory map`.
pub(crate) fn memory_map(map: &MemoryMap) {
    say!("# memory map");
    write_text(map);
    json::memory_map(map);
}

/// `# linear map`: every leaf and hole of it.
pub(crate) fn linear_map() {
    say!("# linear map");
    write_text(LinearMap);
}

struct LinearMap;

impl fmt::Display for LinearMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (linear, table) = (facts().linear, current::upper());
        let markers = [
            Marker { address: linear.base, name: "Linear Mapping start" },
            Marker { address: linear.range().end.bits(), name: "Linear Mapping end" },
        ];
        let naming = Naming {
            page_size: table.shape().page_size,
            start: table.start(),
            layout: table.shape().layout,
            memory: MemoryTypes::WITHOUT_TAGS,
            shareability: INNER_SHAREABLE,
            has_one_privilege: false,
        };
        let mut dump = Ptdump::new(f, naming, &markers);
        let mut result = Ok(());
        let walked = table.for_each(linear.range(), &mut |entry| {
            if result.is_ok() && !matches!(entry.lookup.meaning, Meaning::Table(_)) {
                result = dump.entry(entry.input.bits(), entry.lookup.level, entry.lookup.descriptor);
            }
        });
        result?;
        dump.finish(linear.range().end.bits())?;
        walked.map_err(|_| fmt::Error)
    }
}

/// SH0 and SH1 as [`crate::memory::tables::Shape::translation`] encodes them.
const INNER_SHAREABLE: u8 = 0b11;

/// `# summary`: leaves by size, tables, free memory.
pub(crate) fn summary() {
    say!("# summary");
    let (linear, table) = (facts().linear, current::upper());
    let counted = (table.summary(linear.range()), table.summary(table.range()));
    let (Ok(of_linear), Ok(of_all)) = counted else {
        return say!("warning: the kernel's page table could not be walked");
    };
    for size in LeafSize::all(page_size(), table.shape().layout) {
        let leaves = table.leaves(&of_linear, size);
        if leaves > 0 {
            say!("linear map: {leaves} of {} ({size})", Bytes(size.size_bytes(page_size())));
        }
    }
    let bytes = |tables: usize| tables as u64 * page_size().size_bytes();
    let rest = of_all.tables() - of_linear.tables();
    say!("linear map tables: {} bytes ({} tables)", bytes(of_linear.tables()), of_linear.tables());
    say!("image and fixed mappings tables: {} bytes ({rest} tables)", bytes(rest));
    let identity = current::lower();
    if let Ok(of_identity) = identity.summary(identity.range()) {
        say!("identity map tables: {} bytes ({} tables)", bytes(of_identity.tables()), of_identity.tables());
    }
    let of_boot = unneeded::of_boot(&ranges::map());
    say!("needed by early boot alone: {} bytes freed, {} bytes kept", of_boot.freed, of_boot.kept);
    for (size, bytes) in unneeded::of_page_sizes() {
        say!("needed by {size} pages alone: 0 bytes freed, {bytes} bytes of data kept");
    }
    pages::with_pages(|pages| say!("memory: {pages}"));
    json::summary();
}

/// `# times`.
pub(crate) fn times() {
    say!("# times");
    write_text(times::Table);
    json::times();
}

/// `# verdict`.
pub(crate) fn verdict() -> Status {
    let (failed, checks) = outcome::counts();
    say!("# verdict");
    match failed {
        0 => say!("verdict: passed ({checks} checks)"),
        _ => say!("verdict: failed ({failed} of {checks} checks)"),
    }
    json::verdict(failed, checks);
    if failed == 0 { Status::Passed } else { Status::Failed }
}
