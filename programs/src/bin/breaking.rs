//! `brk`, limits, stacks that grow.

use libc::*;
use programs::memory::{ANONYMOUS, READ_WRITE, distance, pages};
use programs::proc::tell_maps;
use programs::{call, child, faults, in_child, map, page, peek, poke, tell, tell_at, touch};

fn set_break(to: u64) -> u64 {
    call(SYS_brk, &[to]).expect("brk does not fail")
}

fn set_limit(resource: impl Into<i64>, soft: u64, hard: u64) -> programs::Answer {
    let limits = [soft, hard];
    call(SYS_prlimit64, &[0, resource.into() as u64, limits.as_ptr() as u64, 0])
}

fn main() {
    let page = page();
    heap(page);
    in_child("limits", || limits(page));
    stacks(page);
}

/// What moves the break also has the allocator's memory below it: lines are told once it is back.
fn heap(page: u64) {
    let start = set_break(0);
    let blocked = (start + (64 << 20)).next_multiple_of(page);
    let mut told = [("", 0u64, 0u8); 10];
    told[0] = ("moved by a page", set_break(start + page), 0);
    poke(start, 9);
    told[1] = ("moved by a byte more", set_break(start + page + 1), 0);
    told[2] = ("moved back", set_break(start + page), peek(start));
    told[3] = ("below the heap", set_break(1), 0);
    told[4] = ("far", set_break(1 << 50), 0);
    told[5] = ("4 MiB", set_break(start + (4 << 20)), 0);
    touch(start, 4 << 20, 1);
    told[6] = ("away", set_break(start), 0);
    told[7] = ("again", set_break(start + 2 * page), peek(start + page));
    let there = map(blocked, page, READ_WRITE, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0).is_ok();
    told[8] = ("against what is in the way", set_break(blocked + page), u8::from(there));
    call(SYS_munmap, &[blocked, page]).expect("it goes");
    told[9] = ("once it is gone", set_break(blocked + page), 0);
    set_break(start + 2 * page);
    for (what, at, content) in told {
        println!("{what}: {}, {content}", distance(at, start));
    }
}

fn limits(page: u64) {
    let mut now = [0u64; 2];
    let mut show = |what: &str, resource: i64| {
        let answer = call(SYS_prlimit64, &[0, resource as u64, 0, now.as_mut_ptr() as u64]);
        println!("{what}: {:?} {} {}", answer.is_ok(), now[0], now[1]);
    };
    for (name, resource) in [
        ("stack", RLIMIT_STACK),
        ("data", RLIMIT_DATA),
        ("addresses", RLIMIT_AS),
        ("files", RLIMIT_NOFILE),
        ("core", RLIMIT_CORE),
        ("time", RLIMIT_CPU),
        ("size of files", RLIMIT_FSIZE),
        ("priority", RLIMIT_NICE),
        ("real time", RLIMIT_RTPRIO),
        ("locks", RLIMIT_LOCKS),
        ("queues", RLIMIT_MSGQUEUE),
    ] {
        show(name, resource.into());
    }
    tell("no such limit", call(SYS_prlimit64, &[0, 16, 0, now.as_mut_ptr() as u64]));
    tell("soft above hard", set_limit(RLIMIT_DATA, 5, 4));
    tell("of nobody", call(SYS_prlimit64, &[child::NOBODY, 3, 0, 0]));
    tell("from nowhere", call(SYS_prlimit64, &[0, 3, 8, 0]));
    in_child("addresses", || {
        tell("few addresses", set_limit(RLIMIT_AS, 64 << 20, 64 << 20));
        tell_at("128 MiB", map(0, 128 << 20, READ_WRITE, ANONYMOUS, -1, 0), 0);
        tell_at("1 MiB", map(0, 1 << 20, READ_WRITE, ANONYMOUS, -1, 0), 0);
        let start = set_break(0);
        println!("a heap of 128 MiB: {}", distance(set_break(start + (128 << 20)), start));
    });
    in_child("data", || {
        tell("little data", set_limit(RLIMIT_DATA, 8 << 20, 8 << 20));
        tell_at("16 MiB", map(0, 16 << 20, READ_WRITE, ANONYMOUS, -1, 0), 0);
        tell_at("16 MiB read-only", map(0, 16 << 20, PROT_READ, ANONYMOUS, -1, 0), 0);
        tell_at("16 MiB shared", map(0, 16 << 20, READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 0);
        let start = set_break(0);
        println!("a heap of 16 MiB: {}", distance(set_break(start + (16 << 20)), start));
    });
    in_child("files", || {
        tell("few files", set_limit(RLIMIT_NOFILE, 5, 5));
        let dups: Vec<String> = (0..4)
            .map(|_| call(SYS_dup, &[1]).map_or_else(|error| error.to_string(), |number| number.to_string()))
            .collect();
        println!("dups: {}", dups.join(" "));
    });
    in_child("the size of files", || {
        tell("small files", set_limit(RLIMIT_FSIZE, page, page));
        let number = call(SYS_memfd_create, &[c"small".as_ptr() as u64, 0]).expect("a file");
        let bytes = vec![1u8; 2 * page as usize];
        tell("two pages", call(SYS_write, &[number, bytes.as_ptr() as u64, 2 * page]));
        println!("beyond: {}", child(|| call(SYS_write, &[number, bytes.as_ptr() as u64, 1]).map_or(1, |_| 0)));
        println!("longer: {}", child(|| call(SYS_ftruncate, &[number, 3 * page]).map_or(1, |_| 0)));
    });
}

/// Areas that grow downwards when what is below them is touched.
fn stacks(page: u64) {
    let base = pages(600);
    call(SYS_munmap, &[base, 600 * page]).expect("it goes");
    let top = base + 590 * page;
    let grows = ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED;
    tell_at("a stack", map(top, 2 * page, READ_WRITE, grows, -1, 0), top);
    poke(top - page, 1);
    poke(top - 3 * page, 2);
    tell_maps("grown", top, base, base + 600 * page);
    tell_at("something below", map(top - 300 * page, page, READ_WRITE, ANONYMOUS | MAP_FIXED, -1, 0), top);
    faults("within the guard", top, || poke(top - 200 * page, 1));
    faults("above the guard", top, || poke(top - 40 * page, 1));
    tell("what is below goes", call(SYS_munmap, &[top - 300 * page, page]));
    faults("no guard", top, || poke(top - 200 * page, 1));
    println!("a stack that overflows: {}", child(|| deep(0) as i32));
    in_child("a small stack", || {
        set_limit(RLIMIT_STACK, 1 << 20, 8 << 20).expect("a limit");
        faults("beyond the limit", top, || poke(top - 400 * page, 1));
    });
}

#[expect(unconditional_recursion, reason = "it is to overflow")]
fn deep(depth: u64) -> u64 {
    let room = std::hint::black_box([depth; 512]);
    deep(depth + 1) + room[depth as usize % 512]
}
