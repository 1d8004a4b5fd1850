//! Pages of files and of shared memory around one that is read, as `smaps` tells of them; holes that are made in them; where they are.

use libc::*;
use programs::machine::poke;
use programs::memory::{READ_WRITE, file, pages, resident};
use programs::proc::smaps;
use programs::{call, map, page, peek, tell, touch};

/// What `smaps` says of the area that begins there.
fn tell_rows(what: &str, start: u64) {
    // Which pages count as referenced depends on what calls have written to them, and is left out.
    const ROWS: [&str; 7] = ["Rss", "Pss", "Shared_Clean", "Shared_Dirty", "Private_Clean", "Private_Dirty", "VmFlags"];
    println!("{what}:");
    let rows = smaps(start).into_iter().filter(|row| ROWS.iter().any(|name| row.starts_with(&format!("{name}:"))));
    rows.for_each(|row| println!("    {row}"));
}

/// The device of the area that begins there.
fn tell_device(what: &str, start: u64) {
    let text = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let line = text.lines().find(|line| line.starts_with(&format!("{start:08x}-"))).expect("its line");
    println!("{what}: device {}", line.split_whitespace().nth(3).unwrap_or_default());
}

/// The names of the sums of all areas, and how they change as memory of two kinds is touched.
fn tell_sums(anonymous: u64, shared: u64) {
    let sums = || {
        let text = std::fs::read_to_string("/proc/self/smaps_rollup").expect("sums");
        let rows = text.lines().skip(1).filter_map(|line| line.split_once(':'));
        let row = |(name, sum): (&str, &str)| {
            (name.to_owned(), sum.trim().trim_end_matches(" kB").parse::<u64>().expect("a sum"))
        };
        rows.map(row).collect::<Vec<_>>()
    };
    println!("sums: {}", sums().into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" "));
    let before = sums();
    touch(anonymous, 8 * page(), 1);
    touch(shared, 4 * page(), 1);
    let changes = before.into_iter().zip(sums()).filter(|((name, _), _)| name.starts_with("Pss"));
    changes.for_each(|((name, was), (_, is))| println!("    {name}: {} more", (is - was) * 1024 / page()));
}

fn main() {
    // What is around a page is what lies in the same 64 KiB of addresses.
    const AROUND: u64 = 64 << 10;
    let size = page();
    let room = pages(64 + AROUND / size).next_multiple_of(AROUND);
    let number = file(40 * size);
    let shared = |at: u64, count: u64, rights: i32, from: u64| {
        map(room + at * size, count * size, rights, MAP_SHARED | MAP_FIXED, number, from * size).expect("a mapping")
    };
    let all = shared(0, 40, READ_WRITE, 0);
    tell_rows("nothing read", all);
    peek(all + 20 * size);
    tell_rows("one page read", all);
    poke(all + 38 * size, 1);
    tell_rows("one page written", all);
    tell_device("a file without a name", all);
    let part = shared(41, 3, PROT_READ, 5);
    peek(part + size);
    tell_rows("a part of its own", part);
    let (private, flags) = (room + 46 * size, MAP_PRIVATE | MAP_FIXED);
    map(private, 8 * size, READ_WRITE, flags, number, 0).expect("a mapping");
    poke(private + 3 * size, 9);
    tell_rows("one page copied", private);
    peek(private);
    tell_rows("beside a copy", private);
    let memory = room + 56 * size;
    map(memory, 6 * size, READ_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0).expect("memory");
    touch(memory, 2 * size, 7);
    peek(memory + 4 * size);
    tell_rows("shared memory", memory);
    tell_device("shared memory", memory);
    tell("no right to write", call(SYS_mprotect, &[memory, size, PROT_READ as u64]));
    tell("removed", call(SYS_madvise, &[memory, size, MADV_REMOVE as u64]));
    tell_rows("what is removed", memory);
    println!("zeros: {}", peek(memory));
    tell("a hole", call(SYS_fallocate, &[number as u64, 3, 2 * size + 9, 20 * size]));
    println!("in memory: {}", resident(all, 40));
    tell_rows("a hole", all);
    tell_rows("a hole beneath a copy", private);
    println!("{} {} {}", peek(all + size), peek(all + 2 * size + 8), peek(all + 2 * size + 9));
    tell("locked once there", call(SYS_mlock2, &[memory, size, 1]));
    tell_rows("locked once there", memory);
    let new = |flags: i32| map(0, 8 * size, READ_WRITE, flags | MAP_ANONYMOUS, -1, 0).expect("memory");
    tell_sums(new(MAP_PRIVATE), new(MAP_SHARED));
}
