//! What a program may have: locked memory of who is not root, over-commit, the most that there was of it, and who ends where there is none.

use libc::*;
use programs::memory::{ANONYMOUS, READ_WRITE, pages};
use programs::proc::smaps;
use programs::{call, in_child, map, page, peek, poke, tell, touch};
use std::fs;

// Of one type with every C library: RLIMIT_MEMLOCK.
const LOCKED: u64 = 8;
const GIB: u64 = 1 << 30;

fn main() {
    let page = page();
    in_child("locked by a user", || locked(page));
    peaks(page);
    promised();
    in_child("by calls alone", || remapped(page));
    parted(page);
    shared_once(page);
    ended_first();
}

fn limit(soft: u64, hard: u64) {
    tell("a limit", call(SYS_prlimit64, &[0, LOCKED, [soft, hard].as_ptr() as u64, 0]));
}

fn locked(page: u64) {
    let base = pages(16);
    let lock = |what: &str, start: u64, count: u64| tell(what, call(SYS_mlock, &[base + start * page, count * page]));
    let fixed = |first: u64, count: u64, flags: i32| {
        map(base + first * page, count * page, READ_WRITE, ANONYMOUS | MAP_FIXED | flags, -1, 0).map(|_| 0)
    };
    limit(4 * page, 6 * page);
    lock("root", 0, 8);
    call(SYS_munlock, &[base, 8 * page]).expect("it unlocks");
    tell("a user", call(SYS_setuid, &[1000]));
    lock("too many", 0, 8);
    lock("as many as may be", 0, 4);
    lock("once more", 0, 4);
    lock("one more", 4, 1);
    tell("mapped", fixed(8, 1, MAP_LOCKED));
    tell("grown", call(SYS_mremap, &[base + 3 * page, page, 2 * page, MREMAP_MAYMOVE as u64]).map(|_| 0));
    tell("all", call(SYS_mlockall, &[MCL_CURRENT as u64]));
    tell("what comes", call(SYS_mlockall, &[MCL_FUTURE as u64]));
    tell("it comes", fixed(8, 1, 0));
    tell("none is locked", call(SYS_munlockall, &[]));
    limit(6 * page, 6 * page);
    limit(6 * page, 8 * page);
    limit(0, 6 * page);
    lock("none", 0, 1);
    tell("all of nothing", call(SYS_mlockall, &[MCL_CURRENT as u64]));
    tell("unlocked", call(SYS_munlock, &[base, page]));
}

fn meminfo(name: &str) -> i64 {
    let text = fs::read_to_string("/proc/meminfo").expect("meminfo");
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(-1)
}

fn set(name: &str, value: &str) {
    let written = fs::write(format!("/proc/sys/vm/{name}"), value);
    println!("{name}, {value}: {:?}", written.map_err(|error| error.raw_os_error()));
}

fn promised() {
    for policy in ["0", "1", "2", "0"] {
        set("overcommit_memory", policy);
        for (what, rights, flags) in [
            ("private", READ_WRITE, ANONYMOUS),
            ("not promised", READ_WRITE, ANONYMOUS | MAP_NORESERVE),
            ("read", PROT_READ, ANONYMOUS),
            ("shared", READ_WRITE, MAP_SHARED | MAP_ANONYMOUS),
            ("shared, not promised", READ_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE),
        ] {
            let mapped = map(0, 64 * GIB, rights, flags, -1, 0);
            tell(what, mapped.map(|_| 0));
            if let Ok(at) = mapped {
                call(SYS_munmap, &[at, 64 * GIB]).expect("it goes");
            }
        }
    }
    set("overcommit_kbytes", "300000");
    println!("of so many: {} {:?}", meminfo("CommitLimit"), fs::read_to_string("/proc/sys/vm/overcommit_ratio"));
    set("overcommit_ratio", "50");
    println!("of so much: {:?}", fs::read_to_string("/proc/sys/vm/overcommit_kbytes"));
    let before = meminfo("Committed_AS");
    let tell_more = |what: &str| println!("{what}: {} MiB more", (meminfo("Committed_AS") - before + 512) >> 10);
    let shared = map(0, 64 << 20, READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0).expect("room");
    tell_more("shared");
    call(SYS_munmap, &[shared, 32 << 20]).expect("it goes");
    tell_more("half of it");
    call(SYS_munmap, &[shared, 64 << 20]).expect("it goes");
    tell_more("none");
}

fn status(name: &str) -> i64 {
    let text = fs::read_to_string("/proc/self/status").expect("status");
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(-1)
}

fn peaks(page: u64) {
    let before = ["VmPeak", "VmHWM"].map(status);
    let base = map(0, 64 << 20, READ_WRITE, ANONYMOUS, -1, 0).expect("room");
    touch(base, 32 << 20, 1);
    call(SYS_munmap, &[base, 64 << 20]).expect("it goes");
    let after = ["VmPeak", "VmHWM"].map(status);
    (0..2).for_each(|at| println!("the most: {} MiB more", (after[at] - before[at] + 8192) >> 14 << 4));
    println!("now: {} {}", status("VmSize") < after[0] - 60_000, status("VmRSS") < after[1] - 30_000);
    in_child("a child", || println!("a child's: {}", status("VmPeak") < after[0] - 60_000));
    let small = map(0, page, PROT_READ, MAP_SHARED, programs::memory::file(page), 0);
    call(SYS_munmap, &[small.expect("room"), page]).expect("it goes");
}

/// `remap_file_pages`, and reads whose memory ends amid them.
fn remapped(page: u64) {
    let base = pages(8);
    let number = programs::memory::file(4 * page);
    let at = map(base, 4 * page, READ_WRITE, MAP_SHARED | MAP_FIXED, number, 0).expect("room");
    let remap =
        |start: u64, bytes: u64, rights: u64, first: u64| call(SYS_remap_file_pages, &[start, bytes, rights, first, 0]);
    tell("the last page first", remap(at, page, 0, 3));
    println!("content: {} {}", peek(at), peek(at + page));
    tell("rights", remap(at, page, 1, 0));
    tell("no bytes", remap(at, 1, 0, 0));
    tell("nothing is there", remap(base + 8 * page, page, 0, 0));
    tell("its own", remap(base + 5 * page, page, 0, 0));
    call(SYS_munmap, &[base + 7 * page, page]).expect("it goes");
    tell("a part", call(SYS_pread64, &[number as u64, base + 7 * page - 5, 10, 0]));
    tell("nothing", call(SYS_pread64, &[number as u64, base + 7 * page, 10, 0]));
    tell("zeros to read", {
        let zeros = call(SYS_openat, &[AT_FDCWD as u64, c"/dev/zero".as_ptr() as u64, O_RDONLY as u64]);
        map(0, page, READ_WRITE, MAP_SHARED, zeros.expect("it opens") as i32, 0)
    });
    tell("a wrong end", call(SYS_mremap, &[0u64.wrapping_sub(page), page, page, 0]));
    tell("all in the end", call(SYS_madvise, &[base, u64::MAX, MADV_REMOVE as u64]));
    tell("large, at an odd place", map(base + page, page, READ_WRITE, ANONYMOUS | MAP_FIXED | MAP_HUGETLB, -1, 0));
}

fn tell_flags(what: &str, base: u64, page: u64) {
    for first in 0..3 {
        let rows = smaps(base + first * page);
        let some = rows.iter().filter(|row| ["Size", "VmFlags"].iter().any(|name| row.starts_with(name)));
        println!("{what}, {first}: {:?}", some.collect::<Vec<_>>());
    }
}

/// What was locked stays apart in a child.
fn parted(page: u64) {
    let base = pages(8);
    call(SYS_mlock, &[base, 2 * page]).expect("locked");
    in_child("a child", || tell_flags("in a child", base, page));
    let read = {
        programs::memory::file(page);
        fs::write("read", vec![1u8; 2 * page as usize]).expect("a file");
        call(SYS_openat, &[AT_FDCWD as u64, c"read".as_ptr() as u64, O_RDONLY as u64]).expect("it opens")
    };
    map(base + 4 * page, page, PROT_READ, MAP_SHARED | MAP_FIXED, read as i32, 0).expect("room");
    tell_flags("a file to read", base + 4 * page, page);
}

/// What a child once had too may go like all else; what is locked has its marks taken like all else.
fn shared_once(page: u64) {
    // With neighbours of other rights, so that the area is one of its own on every kernel.
    let base = map(0, 6 * page, PROT_NONE, ANONYMOUS, -1, 0).expect("room") + page;
    call(SYS_mprotect, &[base, 4 * page, READ_WRITE as u64]).expect("rights");
    touch(base, 4 * page, 1);
    call(SYS_mlock, &[base + 3 * page, page]).expect("locked");
    in_child("a child", || poke(base, 2));
    tell("may go", call(SYS_madvise, &[base, 2 * page, MADV_FREE as u64]));
    let tell_rows = |what: &str, at: u64, names: &[&str]| {
        let rows = smaps(at);
        let is_one = |row: &&String| names.iter().any(|name| row.starts_with(name));
        println!("{what}: {:?}", rows.iter().filter(is_one).collect::<Vec<_>>());
    };
    tell_rows("freed", base, &["Rss", "Private_Clean", "Private_Dirty"]);
    fs::write("/proc/self/clear_refs", "1").expect("it is taken");
    tell_rows("forgotten", base, &["Referenced"]);
    tell_rows("locked", base + 3 * page, &["Rss", "Referenced"]);
}

/// Who is to end where there is no memory: root alone makes that less likely than it was.
fn ended_first() {
    let path = "/proc/self/oom_score_adj";
    let told = || println!("to be ended first: {:?}", fs::read_to_string(path).map_err(|error| error.kind()));
    told();
    for text in ["-1000", "1001", "-1001", "x", "17\n"] {
        println!("{text:?}: {:?}", fs::write(path, text).map_err(|error| error.raw_os_error()));
        told();
    }
    in_child("a child", || {
        told();
        // Opened as root: what is whose below `/proc` changes with the user.
        let path = c"/proc/self/oom_score_adj".as_ptr() as u64;
        let file = call(SYS_openat, &[AT_FDCWD as u64, path, O_WRONLY as u64, 0]).expect("it opens");
        let set = |text: &std::ffi::CStr| {
            let written = call(SYS_pwrite64, &[file, text.as_ptr() as u64, text.count_bytes() as u64, 0]);
            tell(&format!("to be ended first, {text:?}"), written);
        };
        set(c"50");
        tell("a user", call(SYS_setuid, &[1000]));
        [c"100", c"60", c"50", c"49", c"-1000", c"2000"].into_iter().for_each(set);
    });
    fs::write(path, "0").expect("as it was");
}
