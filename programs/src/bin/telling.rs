//! `/proc/self`: `maps`, `smaps`, `status`, `statm`, `stat`, `pagemap` of memory that is known.

use libc::*;
use programs::memory::{ANONYMOUS, READ_WRITE, file, pages};
use programs::proc::{smaps, tell_maps};
use programs::{call, in_child, map, page, peek, poke, touch};
use std::fs;
use std::os::unix::fs::FileExt;

fn main() {
    let page = page();
    areas(page);
    details(page);
    numbers();
    page_map(page);
}

fn tell_smaps(what: &str, start: u64) {
    println!("{what}:");
    smaps(start).iter().for_each(|row| println!("    {row}"));
}

fn areas(page: u64) {
    let base = pages(64);
    let at = |first: u64, count: u64, rights: i32, flags: i32, file: i32| {
        map(base + first * page, count * page, rights, flags | MAP_FIXED, file, 0).expect("room");
    };
    let number = file(4 * page);
    at(1, 1, PROT_NONE, ANONYMOUS, -1);
    at(3, 1, PROT_READ, ANONYMOUS, -1);
    at(5, 1, PROT_READ | PROT_EXEC, ANONYMOUS, -1);
    at(7, 2, READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
    at(10, 4, READ_WRITE, MAP_SHARED, number);
    at(15, 4, PROT_READ, MAP_PRIVATE, number);
    at(20, 1, READ_WRITE, ANONYMOUS | MAP_NORESERVE, -1);
    at(22, 1, READ_WRITE, ANONYMOUS | MAP_GROWSDOWN, -1);
    call(SYS_madvise, &[base + 24 * page, page, MADV_DONTFORK as u64]).expect("advice");
    call(SYS_madvise, &[base + 26 * page, page, MADV_SEQUENTIAL as u64]).expect("advice");
    call(SYS_madvise, &[base + 28 * page, page, MADV_DONTDUMP as u64]).expect("advice");
    call(SYS_mlock, &[base + 30 * page, page]).expect("locked");
    fs::write("named", vec![1u8; 2 * page as usize]).expect("a file");
    let named = call(SYS_openat, &[AT_FDCWD as u64, c"named".as_ptr() as u64, O_RDWR as u64, 0]).expect("it opens");
    at(40, 2, READ_WRITE, MAP_SHARED, named as i32);
    tell_maps("areas", base, base - page, base + 65 * page);
    fs::remove_file("named").expect("it goes");
    tell_maps("a file that is gone", base, base + 40 * page, base + 42 * page);
    for first in [1, 3, 5, 7, 10, 15, 20, 22, 24, 26, 28, 30, 40] {
        let flags = smaps(base + first * page).into_iter().filter(|row| row.starts_with("VmFlags")).collect::<String>();
        println!("page {first}: {flags}");
    }
    let names: Vec<String> = fs::read_to_string("/proc/self/maps")
        .expect("maps")
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5).map(str::to_string))
        .filter(|name| name.starts_with('['))
        .collect();
    println!("names: {names:?}");
}

fn details(page: u64) {
    let base = pages(64);
    tell_smaps("nothing touched", base);
    touch(base, 8 * page, 1);
    (8..12).for_each(|at| {
        peek(base + at * page);
    });
    tell_smaps("eight written, four read", base);
    in_child("a child", || {
        let rows =
            |start: u64| smaps(start).into_iter().filter(|row| !row.starts_with("Referenced")).collect::<Vec<_>>();
        println!("in a child: {:?}", rows(base));
        poke(base, 2);
        println!("after a write: {:?}", rows(base));
    });
    tell_smaps("alone again", base);
    // With neighbours of other rights, so that the area is one of its own on every kernel.
    let fresh = map(0, 10 * page, PROT_NONE, ANONYMOUS, -1, 0).expect("room") + page;
    call(SYS_mprotect, &[fresh, 8 * page, READ_WRITE as u64]).expect("rights");
    touch(fresh, 8 * page, 1);
    call(SYS_madvise, &[fresh, 4 * page, MADV_FREE as u64]).expect("advice");
    tell_smaps("four may go", fresh);
    call(SYS_mlock, &[base, 64 * page]).expect("locked");
    tell_smaps("locked", base);
    let number = file(8 * page);
    let private = map(0, 8 * page, READ_WRITE, MAP_PRIVATE, number, 0).expect("room");
    poke(private + page, 1);
    tell_smaps("a file of one's own", private);
    let shared = map(0, 8 * page, READ_WRITE, MAP_SHARED, number, 0).expect("room");
    poke(shared + 3 * page, 1);
    tell_smaps("a shared file", shared);
}

fn numbers() {
    let get = |name: &str| {
        let text = fs::read_to_string("/proc/self/status").expect("status");
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim).map(str::to_string))
            .unwrap_or_default()
    };
    for name in [
        "Name",
        "Umask",
        "State",
        "Threads",
        "Uid",
        "FDSize",
        "SigQ",
        "SigBlk",
        "SigIgn",
        "ShdPnd",
        "VmLck",
        "VmSwap",
        "VmPin",
        "NoNewPrivs",
        "Seccomp",
    ] {
        println!("{name}: {}", if name == "SigQ" { "-".into() } else { get(name) });
    }
    let kib = |name: &str| get(name).trim_end_matches(" kB").trim().parse::<i64>().unwrap_or(-1);
    let before = ["VmSize", "VmRSS", "RssAnon", "VmData"].map(kib);
    let base = pages(1024);
    let mapped = ["VmSize", "VmRSS", "RssAnon", "VmData"].map(kib);
    touch(base, 1024 * page(), 1);
    let touched = ["VmSize", "VmRSS", "RssAnon", "VmData"].map(kib);
    let grows = |from: i64, to: i64| (to - from + 64).div_euclid(page() as i64 / 1024 * 128) * 128;
    (0..4).for_each(|at| println!("{at}: {} {}", grows(before[at], mapped[at]), grows(mapped[at], touched[at])));
    let words = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).expect(name).split_whitespace().count();
    println!("statm: {} words, stat: {} words", words("statm"), words("stat"));
    let meminfo = fs::read_to_string("/proc/meminfo").expect("meminfo");
    println!(
        "kB on each line: {}",
        meminfo.lines().filter(|line| !line.starts_with("HugePages")).all(|line| line.ends_with(" kB"))
    );
}

fn page_map(page: u64) {
    let base = pages(8);
    poke(base, 1);
    peek(base + page);
    let shared = map(0, 2 * page, READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0).expect("room");
    poke(shared, 1);
    let map = fs::File::open("/proc/self/pagemap").expect("pagemap");
    let word = |address: u64| {
        let mut bytes = [0u8; 8];
        map.read_exact_at(&mut bytes, address / page * 8).expect("a word");
        let word = u64::from_le_bytes(bytes);
        format!(
            "present {} swapped {} file {} alone {} frame {}",
            word >> 63,
            word >> 62 & 1,
            word >> 61 & 1,
            word >> 56 & 1,
            word << 9 != 0
        )
    };
    for (name, address) in [
        ("written", base),
        ("read", base + page),
        ("not there", base + 2 * page),
        ("shared", shared),
        ("not mapped", base + 8 * page),
    ] {
        println!("{name}: {}", word(address));
    }
    in_child("a child", || println!("in a child: {}", word(base)));
}
