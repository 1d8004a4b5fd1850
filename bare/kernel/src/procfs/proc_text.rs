//! The texts of `/proc`, line by line as Linux prints them.

use crate::fallible::Arc;
use core::fmt::{self, Write};
use core::sync::atomic::Ordering;

use super::areas::{for_each_area, line, map_line};
use super::{meminfo, smaps, stat_of};
use crate::clock;
use crate::cpus::{capabilities, walkers};
use crate::facts::page_size;
use crate::files::open::File;
use crate::files::text::Text;
use crate::memory::{frames, pages};
use crate::process::queued;
use crate::process::resources::{self, INFINITE};
use crate::process::table::{self, Process};
use crate::process::users::ALL_CAPABILITIES;
use crate::threads::dispatcher;
use crate::threads::thread::Thread;

/// A text about the machine.
pub(crate) fn of_machine(name: &str) -> Text {
    let mut text = Text::new();
    match name {
        "meminfo" => meminfo::write(&mut text),
        "cpuinfo" => cpuinfo(&mut text),
        "stat" => stat(&mut text),
        "vmstat" => vmstat(&mut text),
        "loadavg" => line!(text, "0.00 0.00 0.00 1/{} {}", table::count(), table::begun()),
        "uptime" => {
            let hundredths = clock::monotonic_nanoseconds() / 10_000_000;
            line!(text, "{}.{:02} 0.00", hundredths / 100, hundredths % 100);
        }
        "mounts" => {
            text.push_str("rootfs / rootfs rw 0 0\nproc /proc proc rw,relatime 0 0\nsys /sys sysfs rw,relatime 0 0\n")
        }
        "filesystems" => text.push_str("nodev\tsysfs\nnodev\ttmpfs\nnodev\tproc\n"),
        "swaps" => text.push_str("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"),
        "version" => line!(text, "Linux version 6.1.0 (Vellum {})", env!("CARGO_PKG_VERSION")),
        "sys/kernel/osrelease" => text.push_str("6.1.0\n"),
        "sys/kernel/cap_last_cap" => text.push_str("40\n"),
        "sys/kernel/domainname" | "sys/kernel/hostname" => text.push_str("(none)\n"),
        "sys/kernel/ostype" => text.push_str("Linux\n"),
        "sys/kernel/version" => line!(text, "Vellum {}", env!("CARGO_PKG_VERSION")),
        "sys/kernel/tainted" | "sys/vm/nr_hugepages" | "sys/vm/nr_overcommit_hugepages" => {
            text.push_str("0\n");
        }
        "sys/vm/max_map_count" => text.push_str("65530\n"),
        "sys/vm/mmap_min_addr" => text.push_str("65536\n"),
        _ => {}
    }
    text
}

fn cpuinfo(text: &mut Text) {
    for (index, cpu) in walkers::identities() {
        let midr = cpu.midr.bits();
        line!(text, "processor\t: {index}");
        line!(text, "BogoMIPS\t: {}.00", hardware::timer::read_frequency() / 500_000);
        text.push_str("Features\t:");
        capabilities::all().for_each(|(_, name)| _ = write!(text, " {name}"));
        text.push_str("\n");
        line!(text, "CPU implementer\t: {:#04x}", midr >> 24);
        line!(text, "CPU architecture: 8");
        line!(text, "CPU variant\t: {:#x}", midr >> 20 & 15);
        line!(text, "CPU part\t: {:#05x}", midr >> 4 & 0xfff);
        line!(text, "CPU revision\t: {}\n", midr & 15);
    }
}

fn stat(text: &mut Text) {
    let hundredths: u64 = table::all().map(|process| process.nanoseconds() / 10_000_000).sum();
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

/// A text about a process, or about one thread of it.
pub(crate) fn of_process(process: &Arc<Process>, thread: Option<&Arc<Thread>>, name: &str) -> Text {
    let mut text = Text::new();
    match name {
        "auxv" => process.image.with(|image| text.push(&image.auxiliary)),
        "cmdline" => process.image.with(|image| text.push(&image.arguments)),
        "environ" => process.image.with(|image| text.push(&image.environment)),
        "limits" => limits(&mut text, process),
        "comm" => process.with_name(thread, |name| line!(text, "{name}")),
        "mounts" => text = of_machine("mounts"),
        "mountinfo" => text.push_str(
            "1 1 0:2 / / rw - rootfs rootfs rw\n25 1 0:22 / /proc rw,relatime - proc proc rw\n26 1 0:23 / /sys rw,relatime - sysfs \
             sys rw\n",
        ),
        "maps" => {
            if for_each_area(process, |area, name| map_line(&mut text, area, name)).is_err() {
                text.cut();
            }
        }
        "smaps" => smaps::write(&mut text, process),
        "smaps_rollup" => smaps::write_sum(&mut text, process),
        "stat" => stat_of::write(&mut text, process, thread),
        "statm" => {
            let usage = process.try_space().map(|space| space.usage()).unwrap_or_default();
            let resident = usage.anonymous + usage.file;
            line!(text, "{} {resident} {} {} 0 {} 0", usage.mapped, usage.file, usage.text, usage.data + usage.stack);
        }
        "status" => status(&mut text, process, thread),
        _ => wishes(&mut text, process, name),
    }
    text
}

/// What a process has asked for.
fn wishes(text: &mut Text, process: &Process, name: &str) {
    let wishes = process.wishes.with(|wishes| *wishes);
    match name {
        "oom_score" => {
            let usage = process.try_space().map(|space| space.usage()).unwrap_or_default();
            let thousandths = (usage.anonymous + usage.file + usage.tables) * 1000 / frames::all_pages().max(1);
            line!(text, "{}", (1000 + thousandths as i64 + i64::from(wishes.badness)).max(0) * 2 / 3);
        }
        "oom_score_adj" => line!(text, "{}", wishes.badness),
        // What a thread waits in has no name here.
        "wchan" => text.push_str("0"),
        _ => {}
    }
}

/// `fdinfo`.
pub(crate) fn of_file(file: &File) -> Text {
    let mut text = Text::new();
    line!(text, "pos:\t{}", file.position.get());
    line!(text, "flags:\t0{:o}\nmnt_id:\t1\nino:\t{}", file.flags(), file.inode.number);
    text
}

/// A limit as a column.
struct Limit(u64);

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == INFINITE { f.pad("unlimited") } else { fmt::Display::fmt(&self.0, f) }
    }
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
    line!(text, "{:<25} {:<20} {:<20} {:<10}", "Limit", "Soft Limit", "Hard Limit", "Units");
    for ((name, unit), [soft, hard]) in NAMES.iter().zip(all) {
        match *unit {
            "" => line!(text, "{name:<25} {:<20} {:<20} ", Limit(soft), Limit(hard)),
            unit => line!(text, "{name:<25} {:<20} {:<20} {unit:<10}", Limit(soft), Limit(hard)),
        }
    }
}

fn status(text: &mut Text, process: &Arc<Process>, thread: Option<&Arc<Thread>>) {
    let usage = process.try_space().map(|space| space.usage()).unwrap_or_default();
    let kib = |pages: u64| pages * (page_size().size_bytes() >> 10);
    let (parent, group, session, threads) =
        process.life.with(|life| (life.parent, life.group, life.session, life.threads.len()));
    let number = process.number;
    let own = thread.map_or(number, |thread| thread.number());
    let wishes = process.wishes.with(|wishes| *wishes);
    process.with_name(thread, |name| line!(text, "Name:\t{name}"));
    line!(text, "Umask:\t{:04o}", process.umask.load(Ordering::Relaxed));
    let state = match stat_of::state(process, thread) {
        'Z' => "Z (zombie)",
        'T' => "T (stopped)",
        'S' => "S (sleeping)",
        _ => "R (running)",
    };
    line!(text, "State:\t{state}");
    line!(text, "Tgid:\t{number}\nNgid:\t0\nPid:\t{own}\nPPid:\t{parent}\nTracerPid:\t0");
    let users = process.users.with(|users| users.clone());
    for (name, ids) in [("Uid", users.user), ("Gid", users.group)] {
        line!(text, "{name}:\t{}\t{}\t{}\t{}", ids.real, ids.effective, ids.saved, ids.effective);
    }
    let room = process.files.with(|files| files.numbers().max().map_or(0, |most| most + 1));
    line!(text, "FDSize:\t{}", room.next_power_of_two().max(64));
    text.push_str("Groups:\t");
    users.groups().iter().for_each(|group| _ = write!(text, "{group} "));
    line!(text, " ");
    line!(text, "NStgid:\t{number}\nNSpid:\t{own}\nNSpgid:\t{group}\nNSsid:\t{session}");
    let [code, end] = process.image.with(|image| image.places.code).map(|place| place >> page_size().shift());
    let code = if end > 0 { end + 1 - code } else { 0 };
    let rows = [
        ("VmPeak", usage.peak_mapped),
        ("VmSize", usage.mapped),
        ("VmLck", usage.locked),
        ("VmPin", 0),
        ("VmHWM", usage.peak_resident),
        ("VmRSS", usage.anonymous + usage.file),
        ("RssAnon", usage.anonymous),
        // Files are in memory alone, which is shared memory.
        ("RssFile", 0),
        ("RssShmem", usage.file),
        ("VmData", usage.data),
        ("VmStk", usage.stack),
        ("VmExe", code),
        ("VmLib", usage.text.saturating_sub(code)),
        ("VmPTE", usage.tables),
        ("VmSwap", 0),
        ("HugetlbPages", 0),
    ];
    for (name, pages) in rows {
        line!(text, "{name}:\t{:>8} kB", kib(pages));
    }
    let has_blocks = u32::from(!wishes.is_without_blocks);
    line!(text, "CoreDumping:\t0\nTHP_enabled:\t{has_blocks}\nThreads:\t{threads}");
    status_of_signals(text, process, thread.cloned().or_else(|| process.first_thread()).as_ref());
    line!(text, "NoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0");
    let cpus = walkers::running();
    line!(text, "Cpus_allowed:\t{cpus:x}\nCpus_allowed_list:\t0-{}", u64::from(cpus).ilog2());
    line!(text, "Mems_allowed:\t0001\nMems_allowed_list:\t0");
}

/// Signals that wait, and what is done with them, a bit each.
fn status_of_signals(text: &mut Text, process: &Process, thread: Option<&Arc<Thread>>) {
    let (own, mask) = thread.map_or((0, 0), |thread| (thread.task().pending.set(), thread.task().mask()));
    let (mut ignored, mut handled) = (0u64, 0u64);
    process.actions.with(|actions| {
        for (index, action) in actions.iter().enumerate() {
            ignored |= u64::from(action.handler == 1) << index;
            handled |= u64::from(action.is_handled()) << index;
        }
    });
    let most = process.limits.with(|limits| limits.0[resources::SIGNALS][0]);
    line!(text, "SigQ:\t{}/{most}", queued::count(process.users.with(|users| users.user.real)));
    let rows = [
        ("SigPnd", own),
        ("ShdPnd", process.pending.set()),
        ("SigBlk", mask),
        ("SigIgn", ignored),
        ("SigCgt", handled),
    ];
    rows.iter().for_each(|(name, set)| line!(text, "{name}:\t{set:016x}"));
    const ALL: u64 = ALL_CAPABILITIES;
    let rows = [("CapInh", 0), ("CapPrm", ALL), ("CapEff", ALL), ("CapBnd", ALL), ("CapAmb", 0)];
    rows.iter().for_each(|(name, set)| line!(text, "{name}:\t{set:016x}"));
}
