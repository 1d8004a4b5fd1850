//! `madvise`, `mincore`, `mlock`, `msync`.

use libc::*;
use programs::memory::{READ_WRITE, file, pages, resident};
use programs::proc::{smaps, tell_maps};
use programs::{call, faults, in_child, map, page, peek, poke, tell, touch};

fn advise(start: u64, bytes: u64, what: i32) -> programs::Answer {
    call(SYS_madvise, &[start, bytes, what as u64])
}

fn main() {
    let page = page();
    refusals(page);
    discarded(page);
    populated(page);
    forked(page);
    residency(page);
    locked(page);
    synchronized(page);
}

fn refusals(page: u64) {
    let base = pages(8);
    tell("an odd address", advise(base + 1, page, MADV_DONTNEED));
    tell("no bytes", advise(base, 0, MADV_DONTNEED));
    tell("unknown advice, no bytes", advise(base, 0, 99));
    tell("unknown advice", advise(base, page, 99));
    tell("negative advice", advise(base, page, -1));
    tell("all bytes", advise(base, u64::MAX, MADV_DONTNEED));
    tell("round the end", advise(base, 0u64.wrapping_sub(base), MADV_NORMAL));
    tell("up to the end", advise(base, 0u64.wrapping_sub(base) - page, MADV_NORMAL));
    tell("over the end", advise(base + 7 * page, 2 * page, MADV_DONTNEED));
    tell("nothing is there", advise(base + 9 * page, page, MADV_NORMAL));
    let known = [
        ("normal", MADV_NORMAL),
        ("random", MADV_RANDOM),
        ("sequential", MADV_SEQUENTIAL),
        ("will need", MADV_WILLNEED),
        ("do not need", MADV_DONTNEED),
        ("free", MADV_FREE),
        ("remove", MADV_REMOVE),
        ("cold", MADV_COLD),
        ("page out", MADV_PAGEOUT),
        ("do not dump", MADV_DONTDUMP),
        ("dump", MADV_DODUMP),
        ("huge", MADV_HUGEPAGE),
        ("not huge", MADV_NOHUGEPAGE),
        ("do not fork", MADV_DONTFORK),
        ("fork", MADV_DOFORK),
        ("wipe", MADV_WIPEONFORK),
        ("keep", MADV_KEEPONFORK),
        ("mergeable", MADV_MERGEABLE),
        ("not mergeable", MADV_UNMERGEABLE),
    ];
    let shared = map(0, 2 * page, READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0).expect("room");
    let of_file = map(0, 2 * page, PROT_READ, MAP_PRIVATE, file(2 * page), 0).expect("room");
    for (name, what) in known {
        tell(&format!("{name}, private"), advise(base, page, what));
        tell(&format!("{name}, shared"), advise(shared, page, what));
        tell(&format!("{name}, a file"), advise(of_file, page, what));
    }
}

fn discarded(page: u64) {
    let base = pages(8);
    touch(base, 8 * page, 1);
    tell("two are not needed", advise(base + page, 2 * page, MADV_DONTNEED));
    println!("there: {}", resident(base, 8));
    println!("content: {} {} {}", peek(base), peek(base + page), peek(base + 3 * page));
    let file = file(4 * page);
    let private = map(0, 4 * page, READ_WRITE, MAP_PRIVATE, file, 0).expect("room");
    poke(private + page, 200);
    tell("a copy is not needed", advise(private, 4 * page, MADV_DONTNEED));
    println!("the file's again: {}", peek(private + page));
    let shared = map(0, 4 * page, READ_WRITE, MAP_SHARED, file, 0).expect("room");
    poke(shared + page, 201);
    tell("what is shared is not needed", advise(shared, 4 * page, MADV_DONTNEED));
    println!("what was written: {} {}", peek(shared + page), peek(private + page));
    tell("a hole in the file", advise(shared + 2 * page, page, MADV_REMOVE));
    println!("nothing there: {} {}", peek(shared + 2 * page), peek(private + 2 * page));
    touch(base, 8 * page, 2);
    tell("to be freed", advise(base, 4 * page, MADV_FREE));
    poke(base, 3);
    println!("written again: {}", peek(base));
}

fn populated(page: u64) {
    let base = pages(8);
    tell("populate by reads", advise(base, 2 * page, MADV_POPULATE_READ));
    tell("populate by writes", advise(base + 4 * page, 2 * page, MADV_POPULATE_WRITE));
    println!("there: {}", resident(base, 8));
    call(SYS_mprotect, &[base, page, PROT_READ as u64]).expect("rights");
    call(SYS_mprotect, &[base + page, page, PROT_NONE as u64]).expect("rights");
    tell("populate what is read-only by writes", advise(base, page, MADV_POPULATE_WRITE));
    tell("populate what has no rights by reads", advise(base + page, page, MADV_POPULATE_READ));
    tell("populate over the end", advise(base + 7 * page, 2 * page, MADV_POPULATE_READ));
    println!("there: {}", resident(base, 8));
    let of_file = map(0, 4 * page, READ_WRITE, MAP_SHARED, file(2 * page), 0).expect("room");
    tell("populate behind the end of a file", advise(of_file, 4 * page, MADV_POPULATE_WRITE));
    println!("there: {}", resident(of_file, 4));
    tell("populate no bytes", advise(base, 0, MADV_POPULATE_READ));
}

fn forked(page: u64) {
    let base = pages(8);
    touch(base, 8 * page, 5);
    tell("not for children", advise(base, page, MADV_DONTFORK));
    tell("wiped for children", advise(base + 2 * page, page, MADV_WIPEONFORK));
    tell_maps("areas", base, base, base + 8 * page);
    in_child("the child", || {
        tell_maps("the child's", base, base, base + 8 * page);
        println!("in the child: {} {}", peek(base + page), peek(base + 2 * page));
        faults("what is not for children", base, || peek(base));
        in_child("its child", || println!("in its child: {}", peek(base + 2 * page)));
    });
    println!("in the parent: {} {}", peek(base), peek(base + 2 * page));
}

fn residency(page: u64) {
    let base = pages(4);
    let mut found = [0u8; 16];
    let ask = |start: u64, bytes: u64, to: u64| call(SYS_mincore, &[start, bytes, to]);
    let to = found.as_mut_ptr() as u64;
    tell("mincore at an odd address", ask(base + 1, page, to));
    tell("mincore of nothing", ask(base + 4 * page, page, to));
    tell("mincore over the end", ask(base + 3 * page, 2 * page, to));
    tell("mincore of no bytes", ask(base, 0, to));
    tell("mincore above all", ask(1 << 52, page, to));
    tell("mincore of all bytes", ask(base, u64::MAX, to));
    tell("mincore to nowhere", ask(base, page, 8));
    tell("mincore of nothing, to nowhere", ask(base + 4 * page, page, 8));
    tell("mincore of nothing, to the kernel's", ask(base + 4 * page, page, u64::MAX << 48));
    tell("mincore above all, to the kernel's", ask(1 << 52, page, u64::MAX << 48));
    let told = |what: &str, found: &mut [u8; 16], start: u64, pages: u64| {
        found.fill(9);
        tell(what, ask(start, pages * page, to));
        println!("it told {found:?}");
    };
    poke(base + 3 * page, 1);
    told("mincore up to the end and beyond", &mut found, base + 2 * page, 4);
    call(SYS_munmap, &[base + page, page]).expect("it goes");
    told("mincore with a hole", &mut found, base, 4);
    told("mincore from a hole on", &mut found, base + page, 2);
    map(base + page, page, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0).expect("room");
    call(SYS_madvise, &[base + 3 * page, page, MADV_DONTNEED as u64]).expect("advice");
    peek(base + page);
    poke(base + 2 * page, 1);
    println!("read and written: {}", resident(base, 4));
    let of_file = map(0, 4 * page, PROT_READ, MAP_SHARED, file(3 * page), 0).expect("room");
    println!("a file that is in memory: {}", resident(of_file, 4));
}

fn locked(page: u64) {
    let lock = |start: u64, bytes: u64| call(SYS_mlock, &[start, bytes]);
    let base = pages(8);
    tell("lock", lock(base + page, 2 * page));
    println!("there: {}", resident(base, 8));
    tell_maps("areas", base, base, base + 8 * page);
    println!(
        "{}",
        smaps(base + page)
            .iter()
            .filter(|row| row.starts_with("Locked") || row.starts_with("VmFlags"))
            .cloned()
            .collect::<Vec<_>>()
            .join("; ")
    );
    tell("lock nothing", lock(base + 9 * page, page));
    tell("lock over the end", lock(base + 7 * page, 2 * page));
    tell("lock at an odd address", lock(base + 4 * page + 5, 10));
    tell("lock no bytes", lock(base, 0));
    tell("lock all bytes", lock(base, u64::MAX));
    tell("unlock", call(SYS_munlock, &[base, 8 * page]));
    tell("unlock nothing", call(SYS_munlock, &[base + 9 * page, page]));
    tell("lock on fault", call(SYS_mlock2, &[base, 4 * page, 1]));
    println!("there: {}", resident(base, 8));
    tell("lock, unknown flags", call(SYS_mlock2, &[base, page, 2]));
    tell("lock all, no flags", call(SYS_mlockall, &[0]));
    tell("lock all, on fault alone", call(SYS_mlockall, &[4]));
    tell("lock all, unknown flags", call(SYS_mlockall, &[16]));
    tell("lock all to come", call(SYS_mlockall, &[2]));
    let later = pages(4);
    println!("later: {}", resident(later, 4));
    tell("unlock all", call(SYS_munlockall, &[]));
    call(SYS_mprotect, &[base + 5 * page, page, PROT_NONE as u64]).expect("rights");
    tell("lock what has no rights", lock(base + 5 * page, page));
}

fn synchronized(page: u64) {
    let sync = |start: u64, bytes: u64, flags: i32| call(SYS_msync, &[start, bytes, flags as u64]);
    let number = file(2 * page);
    let base = pages(4);
    map(base, 2 * page, READ_WRITE, MAP_SHARED | MAP_FIXED, number, 0).expect("room");
    poke(base, 123);
    tell("synchronize", sync(base, 2 * page, MS_SYNC));
    let mut byte = 0u8;
    tell("read the file", call(SYS_pread64, &[number as u64, &raw mut byte as u64, 1, 0]));
    println!("it has {byte}");
    tell("later", sync(base, page, MS_ASYNC));
    tell("no flags", sync(base, page, 0));
    tell("both", sync(base, page, MS_SYNC | MS_ASYNC));
    tell("unknown flags", sync(base, page, 8));
    tell("an odd address", sync(base + 1, page, MS_SYNC));
    tell("no bytes", sync(base, 0, MS_SYNC));
    call(SYS_munmap, &[base + 3 * page, page]).expect("it goes");
    tell("over the end", sync(base, 4 * page, MS_SYNC));
    tell("nothing", sync(base + 3 * page, page, MS_SYNC));
    tell("invalidate", sync(base, page, MS_INVALIDATE | MS_SYNC));
    tell("all bytes", sync(base, u64::MAX, MS_SYNC));
    call(SYS_mlock, &[base, page]).expect("locked");
    tell("invalidate what is locked", sync(base, page, MS_INVALIDATE));
}
