//! The texts of `/proc`, line by line as Linux prints them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::Ordering;

use vmsa::LeafSize;

use super::areas::{for_each_area, line, map_line};
use super::smaps;
use crate::clock;
use crate::cpus::{capabilities, walkers};
use crate::facts::{facts, page_size};
use crate::files::text::Text;
use crate::memory::{current, frames, heap, pages, programs};
use crate::process::resources::{self, INFINITE};
use crate::process::table::{self, Process};
use crate::threads::thread::Thread;
use crate::threads::{dispatcher, queue};

/// A text about the machine.
pub(crate) fn of_machine(name: &str) -> Text {
    let mut text = Text::new();
    match name {
        "meminfo" => meminfo(&mut text),
        "cpuinfo" => cpuinfo(&mut text),
        "stat" => stat(&mut text),
        "vmstat" => vmstat(&mut text),
        "loadavg" => line!(text, "0.00 0.00 0.00 1/{} {}", table::all().len(), table::begun()),
        "uptime" => {
            let hundredths = clock::monotonic_nanoseconds() / 10_000_000;
            line!(text, "{}.{:02} 0.00", hundredths / 100, hundredths % 100);
        }
        "mounts" => text.push_str("rootfs / rootfs rw 0 0\nproc /proc proc rw 0 0\n"),
        "filesystems" => text.push_str("nodev\trootfs\nnodev\tproc\n"),
        "version" => line!(text, "Linux version 6.12.0 (Vellum {})", env!("CARGO_PKG_VERSION")),
        "sys/kernel/osrelease" => text.push_str("6.12.0\n"),
        "sys/fs/file-max" => text.push_str("9223372036854775807\n"),
        "sys/fs/nr_open" | "sys/fs/pipe-max-size" => text.push_str("1048576\n"),
        "sys/kernel/hostname" => text.push_str("(none)\n"),
        "sys/kernel/ostype" => text.push_str("Linux\n"),
        "sys/kernel/pid_max" => text.push_str("32768\n"),
        "sys/kernel/threads-max" => text.push_str("16384\n"),
        "sys/vm/overcommit_ratio" => text.push_str("50\n"),
        "sys/vm/swappiness" => text.push_str("60\n"),
        "sys/vm/max_map_count" => text.push_str("65530\n"),
        "sys/vm/mmap_min_addr" => text.push_str("65536\n"),
        "sys/vm/overcommit_memory" => text.push_str("0\n"),
        _ => {}
    }
    text
}

fn meminfo(text: &mut Text) {
    let all = frames::all_pages() << page_size().shift();
    let free = pages::with_pages(|pages| pages.free_bytes());
    let (mut own, mut tables, mut locked) = (0, 0, 0);
    for space in table::all().iter().filter_map(|process| process.try_space()) {
        let usage = space.usage();
        (own, tables, locked) = (own + usage.anonymous, tables + usage.tables, locked + usage.locked);
    }
    let shift = page_size().shift();
    let rows = [
        ("MemTotal", all),
        ("MemFree", free),
        ("MemAvailable", free),
        ("Buffers", 0),
        ("Cached", frames::taken_bytes().saturating_sub((own + tables) << shift)),
        ("SwapCached", 0),
        ("Mlocked", locked << shift),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        ("Dirty", 0),
        ("Writeback", 0),
        ("AnonPages", own << shift),
        ("Slab", heap::bytes()),
        ("SReclaimable", 0),
        ("SUnreclaim", heap::bytes()),
        ("PageTables", tables << shift),
        ("CommitLimit", all / 2),
        ("Committed_AS", programs::committed() << shift),
    ];
    for (name, bytes) in rows {
        line!(text, "{:<16}{:>8} kB", alloc::format!("{name}:"), bytes >> 10);
    }
    direct_map(text);
}

/// By which leaves the linear map leads to memory.
fn direct_map(text: &mut Text) {
    let upper = current::upper();
    let Ok(summary) = upper.summary(facts().linear.range()) else { return };
    for size in LeafSize::all(page_size(), upper.shape().layout) {
        let bytes = (upper.leaves(&summary, size) as u64) << size.shift(page_size());
        if bytes > 0 {
            let shift = size.shift(page_size());
            let name = match shift {
                30.. => alloc::format!("DirectMap{}G:", 1u64 << (shift - 30)),
                20..30 => alloc::format!("DirectMap{}M:", 1 << (shift - 20)),
                _ => alloc::format!("DirectMap{}k:", 1 << (shift - 10)),
            };
            line!(text, "{name:<16}{:>8} kB", bytes >> 10);
        }
    }
}

fn cpuinfo(text: &mut Text) {
    let features = capabilities::all().map(|(_, name)| name).collect::<Vec<_>>().join(" ");
    for (index, cpu) in walkers::identities() {
        let midr = cpu.midr.bits();
        line!(text, "processor\t: {index}");
        line!(text, "BogoMIPS\t: {}.00", hardware::timer::read_frequency() / 500_000);
        line!(text, "Features\t: {features}");
        line!(text, "CPU implementer\t: {:#04x}", midr >> 24);
        line!(text, "CPU architecture: 8");
        line!(text, "CPU variant\t: {:#x}", midr >> 20 & 15);
        line!(text, "CPU part\t: {:#05x}", midr >> 4 & 0xfff);
        line!(text, "CPU revision\t: {}\n", midr & 15);
    }
}

fn stat(text: &mut Text) {
    let hundredths: u64 = table::all().iter().map(|process| process.nanoseconds() / 10_000_000).sum();
    line!(text, "cpu  {hundredths} 0 0 0 0 0 0 0 0 0");
    line!(text, "ctxt {}", dispatcher::switches());
    line!(text, "btime 0");
    line!(text, "processes {}", table::begun());
    line!(text, "procs_running 1");
    line!(text, "procs_blocked 0");
}

fn vmstat(text: &mut Text) {
    let free = pages::with_pages(|pages| pages.free_bytes()) >> page_size().shift();
    line!(text, "nr_free_pages {free}");
}

/// A text about a process.
pub(crate) fn of_process(process: &Arc<Process>, name: &str) -> Text {
    let mut text = Text::new();
    match name {
        "auxv" => process.image.with(|image| text.push(&image.auxiliary)),
        "cmdline" => process.image.with(|image| text.push(&image.arguments)),
        "environ" => process.image.with(|image| text.push(&image.environment)),
        "limits" => limits(&mut text, process),
        "comm" => line!(text, "{}", process.image.with(|image| image.name.clone())),
        "mounts" => text = of_machine("mounts"),
        "maps" => for_each_area(process, |area, name| map_line(&mut text, area, name)),
        "smaps" => smaps::write(&mut text, process),
        "smaps_rollup" => smaps::write_sum(&mut text, process),
        "stat" => stat_of(&mut text, process),
        "statm" => {
            let usage = process.try_space().map(|space| space.usage()).unwrap_or_default();
            let resident = usage.anonymous + usage.file;
            line!(text, "{} {resident} {} {} 0 {} 0", usage.mapped, usage.file, usage.text, usage.data + usage.stack);
        }
        "status" => status(&mut text, process),
        _ => {}
    }
    text
}

fn stat_of(text: &mut Text, process: &Process) {
    let (parent, group, session, threads) =
        process.life.with(|life| (life.parent, life.group, life.session, life.threads.len()));
    let usage = process.try_space().map(|space| space.usage()).unwrap_or_default();
    let name = process.image.with(|image| image.name.clone());
    let state = state(process);
    let (hundredths, faults) = (process.nanoseconds() / 10_000_000, process.spent().faults);
    let (bytes, resident) = (usage.mapped << page_size().shift(), usage.anonymous + usage.file);
    line!(
        text,
        "{} ({name}) {state} {parent} {group} {session} 0 -1 0 {faults} 0 0 0 {hundredths} 0 0 0 20 0 {threads} 0 0 {bytes} {resident} \
         18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
        process.number
    );
}

fn limits(text: &mut Text, process: &Process) {
    const NAMES: [(&str, &str); 16] = [
        ("Max cpu time", "seconds"),
        ("Max file size", "bytes"),
        ("Max data size", "bytes"),
        ("Max stack size", "bytes"),
        ("Max core file size", "bytes"),
        ("Max resident set", "bytes"),
        ("Max processes", "processes"),
        ("Max open files", "files"),
        ("Max locked memory", "bytes"),
        ("Max address space", "bytes"),
        ("Max file locks", "locks"),
        ("Max pending signals", "signals"),
        ("Max msgqueue size", "bytes"),
        ("Max nice priority", ""),
        ("Max realtime priority", ""),
        ("Max realtime timeout", "us"),
    ];
    let all = process.limits.with(|limits| limits.0);
    let shown = |limit: u64| if limit == INFINITE { "unlimited".into() } else { alloc::format!("{limit}") };
    line!(text, "{:<25} {:<20} {:<20} {:<10}", "Limit", "Soft Limit", "Hard Limit", "Units");
    for ((name, unit), [soft, hard]) in NAMES.iter().zip(all) {
        match *unit {
            "" => line!(text, "{name:<25} {:<20} {:<20} ", shown(soft), shown(hard)),
            unit => line!(text, "{name:<25} {:<20} {:<20} {unit:<10}", shown(soft), shown(hard)),
        }
    }
}

fn state(process: &Process) -> char {
    if process.life.with(|life| life.is_over) {
        return 'Z';
    }
    match process.stops.by() {
        Some(_) => 'T',
        None if queue::are_parked(&process.threads()) => 'S',
        None => 'R',
    }
}

fn status(text: &mut Text, process: &Process) {
    let usage = process.try_space().map(|space| space.usage()).unwrap_or_default();
    let kib = |pages: u64| pages * (page_size().size_bytes() >> 10);
    let (parent, group, session, threads) =
        process.life.with(|life| (life.parent, life.group, life.session, life.threads.clone()));
    let number = process.number;
    line!(text, "Name:\t{}", process.image.with(|image| image.name.clone()));
    line!(text, "Umask:\t{:04o}", process.umask.load(Ordering::Relaxed));
    let state = match state(process) {
        'Z' => "Z (zombie)",
        'T' => "T (stopped)",
        'S' => "S (sleeping)",
        _ => "R (running)",
    };
    line!(text, "State:\t{state}");
    line!(text, "Tgid:\t{number}\nNgid:\t0\nPid:\t{number}\nPPid:\t{parent}\nTracerPid:\t0");
    line!(text, "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0");
    let room = process.files.with(|files| files.numbers().max().map_or(0, |most| most + 1));
    line!(text, "FDSize:\t{}\nGroups:\t ", room.next_power_of_two().max(64));
    line!(text, "NStgid:\t{number}\nNSpid:\t{number}\nNSpgid:\t{group}\nNSsid:\t{session}");
    let rows = [
        ("VmSize", usage.mapped),
        ("VmLck", usage.locked),
        ("VmPin", 0),
        ("VmRSS", usage.anonymous + usage.file),
        ("RssAnon", usage.anonymous),
        ("RssFile", usage.file),
        ("RssShmem", 0),
        ("VmData", usage.data),
        ("VmStk", usage.stack),
        ("VmExe", usage.text),
        ("VmLib", 0),
        ("VmPTE", usage.tables),
        ("VmSwap", 0),
        ("HugetlbPages", 0),
    ];
    for (name, pages) in rows {
        line!(text, "{name}:\t{:>8} kB", kib(pages));
    }
    line!(text, "CoreDumping:\t0\nTHP_enabled:\t0\nThreads:\t{}", threads.len());
    status_of_signals(text, process, &threads);
    line!(text, "NoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0");
    let cpus = walkers::running();
    line!(text, "Cpus_allowed:\t{cpus:x}\nCpus_allowed_list:\t0-{}", u64::from(cpus).ilog2());
    line!(text, "Mems_allowed:\t1\nMems_allowed_list:\t0");
}

/// Signals that wait, and what is done with them, a bit each.
fn status_of_signals(text: &mut Text, process: &Process, threads: &[Arc<Thread>]) {
    let (own, mask) = threads.first().map_or((0, 0), |thread| (thread.task().pending.set(), thread.task().mask()));
    let (mut ignored, mut handled) = (0u64, 0u64);
    process.actions.with(|actions| {
        for (index, action) in actions.iter().enumerate() {
            ignored |= u64::from(action.handler == 1) << index;
            handled |= u64::from(action.is_handled()) << index;
        }
    });
    let most = process.limits.with(|limits| limits.0[resources::SIGNALS][0]);
    line!(text, "SigQ:\t{}/{most}", process.queued());
    let rows = [
        ("SigPnd", own),
        ("ShdPnd", process.pending.set()),
        ("SigBlk", mask),
        ("SigIgn", ignored),
        ("SigCgt", handled),
    ];
    rows.iter().for_each(|(name, set)| line!(text, "{name}:\t{set:016x}"));
    const ALL: u64 = 0x1ff_ffff_ffff;
    let rows = [("CapInh", 0), ("CapPrm", ALL), ("CapEff", ALL), ("CapBnd", ALL), ("CapAmb", 0)];
    rows.iter().for_each(|(name, set)| line!(text, "{name}:\t{set:016x}"));
}
