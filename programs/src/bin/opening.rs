//! Opening, devices, names that move, and what is only a path: the order of what is refused.

use libc::*;
use programs::memory::READ_WRITE;
use programs::{Answer, call, child, in_child, map, page, peek, tell};
use std::ffi::CStr;
use std::fs;

fn main() {
    devices();
    order();
    opened();
    paths();
    pipes_again();
    names();
    seeks();
    scripts();
}

fn open(path: &CStr, flags: i32) -> Answer {
    call(SYS_openat, &[AT_FDCWD as u64, path.as_ptr() as u64, flags as u64, 0o644])
}

fn pipe() -> [u64; 2] {
    let mut ends = [0i32; 2];
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]).expect("a pipe");
    ends.map(|end| end as u64)
}

fn length(path: &str) -> Option<u64> {
    fs::metadata(path).ok().map(|found| found.len())
}

fn devices() {
    let page = page();
    let room = map(0, 3 * page, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0).expect("room");
    call(SYS_munmap, &[room + page, 2 * page]).expect("it goes");
    for path in [c"/dev/null", c"/dev/zero", c"/dev/full", c"/dev/urandom"] {
        let number = open(path, O_RDWR).expect("it opens");
        let write = |from: u64, bytes: u64| call(SYS_write, &[number, from, bytes]);
        let read = |to: u64, bytes: u64| call(SYS_read, &[number, to, bytes]);
        println!("{path:?}");
        tell("  write", write(room, 10));
        tell("  write nothing", write(room, 0));
        tell("  write from nowhere", write(8, 10));
        tell("  write from the kernel's", write(u64::MAX << 48, 10));
        tell("  write over the end", write(room, 2 * page));
        tell("  read", read(room, 10));
        tell("  read nothing", read(room, 0));
        tell("  read to nowhere", read(8, 10));
        tell("  read to the kernel's", read(u64::MAX << 48, 10));
        tell("  read over the end", read(room, 2 * page));
        tell("  read over the end, from the middle", read(room + page / 2, page));
        println!("  zeros: {}", path == c"/dev/urandom" || peek(room + page - 1) == 0);
    }
    tell("a terminal, where there is none", open(c"/dev/tty", O_RDWR).map(|_| 0));
    tell("its path alone", open(c"/dev/tty", O_PATH).map(|_| 0));
    tell("random over the end", call(SYS_getrandom, &[room, 2 * page, 0]));
    tell("random to nowhere", call(SYS_getrandom, &[room + page, page, 0]));
    tell("random, both sources", call(SYS_getrandom, &[room, 8, 6]));
}

/// What is wrong first is told.
fn order() {
    let minus = -1i64 as u64;
    let mut byte = 0u8;
    let to = &raw mut byte as u64;
    let [from, into] = pipe();
    tell("cut a closed number to less than nothing", call(SYS_ftruncate, &[99, minus]));
    tell("cut nothing to less than nothing", call(SYS_truncate, &[c"nowhere".as_ptr() as u64, minus]));
    tell("read a closed number at -1", call(SYS_pread64, &[99, to, 1, minus]));
    tell("write a closed number at -1", call(SYS_pwrite64, &[99, to, 1, minus]));
    tell("read the wrong end at 0", call(SYS_pread64, &[into, to, 1, 0]));
    tell("write the wrong end at 0", call(SYS_pwrite64, &[from, to, 1, 0]));
    let vector = [to, 1];
    tell("buffers of a closed number at -1", call(SYS_preadv, &[99, vector.as_ptr() as u64, 1, minus]));
    tell("buffers of the wrong end at 0", call(SYS_preadv, &[into, vector.as_ptr() as u64, 1, 0]));
    for clock in [2, 3, 4, 5, 6, 10, 11, 12] {
        let none = [0u64, 1000];
        if clock != 2 {
            tell(&format!("sleep by clock {clock}"), call(SYS_clock_nanosleep, &[clock, 0, none.as_ptr() as u64, 0]));
        }
        let mut told = [7u64; 2];
        tell(&format!("resolution of clock {clock}"), call(SYS_clock_getres, &[clock, told.as_mut_ptr() as u64]));
        println!("  {told:?}");
    }
}

fn opened() {
    fs::write("full", "content").expect("a file");
    tell("emptied while it is only read", open(c"full", O_RDONLY | O_TRUNC));
    println!("length: {:?}", length("full"));
    fs::write("full", "content").expect("a file");
    let both = open(c"full", 3).expect("it opens");
    let mut byte = 0u8;
    tell("read with access 3", call(SYS_read, &[both, &raw mut byte as u64, 1]));
    tell("write with access 3", call(SYS_write, &[both, &raw const byte as u64, 1]));
    println!("flags {:#x}", call(SYS_fcntl, &[both, F_GETFL as u64]).expect("flags"));
    in_child("without numbers", || {
        let limit = [4u64, 4];
        call(SYS_setrlimit, &[7, limit.as_ptr() as u64]).expect("a limit");
        while open(c"full", O_RDONLY).is_ok() {}
        tell("no number is left", open(c"full", O_RDWR | O_TRUNC));
        tell("no number is left to make a file", open(c"made", O_CREAT | O_RDWR));
        tell("no number is left for nothing", open(c"nowhere", O_RDONLY));
    });
    println!("length: {:?}, made: {:?}", length("full"), length("made"));
    fs::create_dir("gone").expect("a folder");
    in_child("in a folder that is gone", || {
        call(SYS_chdir, &[c"gone".as_ptr() as u64]).expect("there");
        call(SYS_unlinkat, &[AT_FDCWD as u64, c"../gone".as_ptr() as u64, 0x200]).expect("it goes");
        tell("a file in what is gone", open(c"x", O_CREAT | O_RDWR));
        tell("a folder in what is gone", call(SYS_mkdirat, &[AT_FDCWD as u64, c"y".as_ptr() as u64, 0o755]));
        tell(
            "where it is",
            call(SYS_getcwd, &[map(0, 4096, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0).expect("room"), 4096]),
        );
    });
    let number = call(SYS_memfd_create, &[c"m".as_ptr() as u64, 0]).expect("a file");
    println!("flags of a file in memory: {:#x}", call(SYS_fcntl, &[number, F_GETFL as u64]).expect("flags"));
    fs::write("short", "content").expect("a file");
    let number = open(c"short", O_RDONLY).expect("it opens");
    let ends =
        || fs::read_link(format!("/proc/self/fd/{number}")).expect("a link").to_string_lossy().ends_with("short");
    println!("called by its name: {}", ends());
    fs::remove_file("short").expect("it goes");
    println!("called by its name: {}", ends());
    for flag in [8, 16, 24] {
        tell("a file in memory, not to be executed", call(SYS_memfd_create, &[c"m".as_ptr() as u64, flag]).map(|_| 0));
    }
}

/// What is opened by its path alone.
fn paths() {
    let path = open(c"full", O_PATH).expect("it opens");
    let folder = open(c".", O_PATH | O_DIRECTORY).expect("it opens");
    let mut room = [0u8; 256];
    let to = room.as_mut_ptr() as u64;
    tell("seek", call(SYS_lseek, &[path, 0, 0]));
    tell("mode", call(SYS_fchmod, &[path, 0o644]));
    tell("owner", call(SYS_fchown, &[path, 0, 0]));
    tell("control", call(SYS_ioctl, &[path, 0x541b, to]));
    tell("entries", call(SYS_getdents64, &[folder, to, 256]));
    tell("synchronize", call(SYS_fsync, &[path]));
    tell("cut", call(SYS_ftruncate, &[path, 0]));
    tell("lock", call(SYS_flock, &[path, LOCK_EX as u64]));
    tell("allocate", call(SYS_fallocate, &[path, 0, 0, 1]));
    tell("advise", call(SYS_fadvise64, &[path, 0, 0, 0]));
    tell("read at", call(SYS_pread64, &[path, to, 1, 0]));
    tell("status", call(SYS_fstat, &[path, to]));
    tell("duplicate", call(SYS_dup, &[path]).map(|_| 0));
    tell("flags", call(SYS_fcntl, &[path, F_GETFD as u64]));
    tell("set flags of the file", call(SYS_fcntl, &[path, F_SETFL as u64, O_APPEND as u64]));
    tell("go there", call(SYS_fchdir, &[folder]));
    let [from, _] = pipe();
    let file = open(c"full", O_RDWR).expect("it opens");
    for (name, number) in [("a pipe", from), ("a file", file), ("a closed number", 99)] {
        println!("{name}");
        tell("  synchronize", call(SYS_fsync, &[number]));
        tell("  synchronize data", call(SYS_fdatasync, &[number]));
        tell("  advise", call(SYS_fadvise64, &[number, 0, 0, 0]));
        tell("  unknown advice", call(SYS_fadvise64, &[number, 0, 0, 77]));
        tell("  lock", call(SYS_flock, &[number, LOCK_SH as u64]));
        tell("  lock by an unknown way", call(SYS_flock, &[number, 64]));
        let mut waiting = 77u32;
        tell("  bytes to read", call(SYS_ioctl, &[number, 0x541b, &raw mut waiting as u64]));
        println!("  {waiting}");
        tell("  not closed by a program", call(SYS_ioctl, &[number, 0x5450, 0]));
        tell("  owner", call(SYS_fcntl, &[number, F_GETOWN as u64]));
    }
    let folder = AT_FDCWD as u64;
    let name = c"full".as_ptr() as u64;
    const UNKNOWN: u64 = 0x8_0000;
    tell("status, unknown flags", call(SYS_newfstatat, &[folder, name, to, UNKNOWN]));
    tell("statx, unknown flags", call(SYS_statx, &[folder, name, UNKNOWN, 0x7ff, to]));
    tell("owner, unknown flags", call(SYS_fchownat, &[folder, name, 0, 0, UNKNOWN]));
    tell("access, unknown flags", call(SYS_faccessat2, &[folder, name, 0, UNKNOWN]));
    tell("times, unknown flags", call(SYS_utimensat, &[folder, name, 0, UNKNOWN]));
    tell("link, unknown flags", call(SYS_linkat, &[folder, name, folder, c"other".as_ptr() as u64, UNKNOWN]));
}

fn names() {
    let rename = |from: &CStr, to: &CStr| {
        call(SYS_renameat2, &[AT_FDCWD as u64, from.as_ptr() as u64, AT_FDCWD as u64, to.as_ptr() as u64, 0])
    };
    fs::create_dir_all("a/b").expect("folders");
    tell("into itself, where something is", rename(c"a", c"a/b"));
    println!("it is there: {}", fs::exists("a/b").expect("it can be asked"));
    fs::write("target", "content").expect("a file");
    tell("out of /proc", rename(c"/proc/uptime", c"target"));
    println!("it is what it was: {:?}", length("target"));
    tell("out of /proc to a new name", rename(c"/proc/uptime", c"new"));
    println!("it is there: {}", fs::exists("new").expect("it can be asked"));
    tell("into /proc", rename(c"target", c"/proc/uptime"));
    tell("in /proc", rename(c"/proc/uptime", c"/proc/meminfo"));
    println!("it is there: {:?}", length("target"));
    exchanged();
    named_later();
}

fn exchanged() {
    const EXCHANGE: u64 = 2;
    let exchange = |from: &CStr, to: &CStr, flags: u64| {
        call(SYS_renameat2, &[AT_FDCWD as u64, from.as_ptr() as u64, AT_FDCWD as u64, to.as_ptr() as u64, flags])
    };
    fs::write("one", "1").expect("a file");
    fs::write("three", "333").expect("a file");
    fs::create_dir_all("folder/inner").expect("folders");
    let links = |path: &str| std::os::unix::fs::MetadataExt::nlink(&fs::metadata(path).expect("it is there"));
    let before = (links("."), links("folder"));
    tell("exchanged", exchange(c"one", c"three", EXCHANGE));
    println!("{:?} {:?}", length("one"), length("three"));
    tell("a file and a folder", exchange(c"one", c"folder/inner", EXCHANGE));
    println!("{:?}, a folder {}", length("folder/inner"), fs::metadata("one").expect("it is there").is_dir());
    println!("links: {} {}", links(".") as i64 - before.0 as i64, links("folder") as i64 - before.1 as i64);
    tell("with nothing", exchange(c"one", c"none", EXCHANGE));
    tell("with what is in it", exchange(c"folder", c"folder/inner", EXCHANGE));
    tell("the other way round", exchange(c"folder/inner", c"folder", EXCHANGE));
    tell("and not replaced", exchange(c"one", c"three", EXCHANGE | 1));
}

/// Files that have no name at first.
fn named_later() {
    let name = |number: u64, to: &CStr| {
        let path = std::ffi::CString::new(format!("/proc/self/fd/{number}")).expect("a path");
        let folder = AT_FDCWD as u64;
        call(SYS_linkat, &[folder, path.as_ptr() as u64, folder, to.as_ptr() as u64, AT_SYMLINK_FOLLOW as u64])
    };
    let links = |number: u64| {
        let path = format!("/proc/self/fd/{number}");
        std::os::unix::fs::MetadataExt::nlink(&fs::metadata(path).expect("it is there"))
    };
    let number = open(c".", O_TMPFILE | O_RDWR).expect("it opens");
    println!("links: {}", links(number));
    tell("named", name(number, c"later"));
    println!("links: {}, there {}", links(number), fs::exists("later").expect("it can be asked"));
    let never = open(c".", O_TMPFILE | O_RDWR | O_EXCL).expect("it opens");
    tell("never named", name(never, c"never"));
    tell("in a file", open(c"later", O_TMPFILE | O_RDWR));
    fs::remove_file("later").expect("it goes");
    tell("named again", name(number, c"later"));
}

/// Ends of a pipe without a name, opened once more when the others have gone: nobody is waited for.
fn pipes_again() {
    let again = |number: u64, flags: i32| {
        let path = std::ffi::CString::new(format!("/proc/self/fd/{number}")).expect("a path");
        open(&path, flags)
    };
    let [from, to] = pipe();
    tell("left in a pipe", call(SYS_write, &[to, c"left".as_ptr() as u64, 4]));
    call(SYS_close, &[to]).expect("it goes");
    let (end, mut text) = (again(from, O_RDONLY).expect("it opens"), [0u8; 8]);
    tell("read by another end", call(SYS_read, &[end, text.as_mut_ptr() as u64, 8]));
    tell("read to the end", call(SYS_read, &[end, text.as_mut_ptr() as u64, 8]));
    let [from, to] = pipe();
    call(SYS_close, &[from]).expect("it goes");
    let end = again(to, O_WRONLY | O_NONBLOCK).expect("it opens");
    tell("written where nobody reads", call(SYS_write, &[end, c"lost".as_ptr() as u64, 4]));
}

fn seeks() {
    let number = call(SYS_memfd_create, &[c"m".as_ptr() as u64, 0]).expect("a file");
    let seek = |what: &str, number: u64, offset: u64, from: i32| {
        tell(what, call(SYS_lseek, &[number, offset, from as u64]));
    };
    call(SYS_ftruncate, &[number, 8 * page()]).expect("longer");
    seek("data, where there is none", number, 0, SEEK_DATA);
    seek("a hole, where all is one", number, 5, SEEK_HOLE);
    call(SYS_pwrite64, &[number, c"x".as_ptr() as u64, 1, 2 * page() + 5]).expect("it writes");
    seek("data", number, 0, SEEK_DATA);
    seek("data in the page", number, 2 * page() + 9, SEEK_DATA);
    seek("data behind", number, 3 * page(), SEEK_DATA);
    seek("a hole", number, 2 * page(), SEEK_HOLE);
    seek("a hole, negative", number, -1i64 as u64, SEEK_HOLE);
    seek("a hole at the end", number, 8 * page(), SEEK_HOLE);
    let maps = open(c"/proc/self/maps", O_RDONLY).expect("it opens");
    seek("the end of maps", maps, 0, SEEK_END);
    seek("the start of maps", maps, 0, SEEK_SET);
    seek("data of maps", maps, 0, SEEK_DATA);
    let pages = open(c"/proc/self/pagemap", O_RDONLY).expect("it opens");
    let mut word = [0u8; 16];
    tell("pagemap at an odd offset", call(SYS_pread64, &[pages, word.as_mut_ptr() as u64, 8, 4]));
    tell("an odd part of pagemap", call(SYS_pread64, &[pages, word.as_mut_ptr() as u64, 9, 0]));
    tell("nothing of pagemap", call(SYS_pread64, &[pages, word.as_mut_ptr() as u64, 0, 0]));
    tell("pagemap behind the end", call(SYS_pread64, &[pages, word.as_mut_ptr() as u64, 8, 1 << 60]));
}

/// What a script is known by.
fn scripts() {
    use std::os::unix::fs::PermissionsExt;
    let write = |name: &str, text: &str| {
        fs::write(name, text).expect("a file");
        fs::set_permissions(name, fs::Permissions::from_mode(0o755)).expect("a mode");
    };
    write(
        "script",
        "#!/bin/sh\nreadlink /proc/$$/exe\ncat /proc/$$/comm\nsed -n 's/.*r-xp .* //p' /proc/$$/maps | head -n 1\n",
    );
    write("chain1", "#!/bin/sh\necho chained\n");
    for number in 2..8 {
        write(&format!("chain{number}"), &format!("#!./chain{}\n", number - 1));
    }
    let run = |path: &CStr| {
        let words = [path.as_ptr() as u64, 0];
        child(|| {
            call(SYS_execve, &[path.as_ptr() as u64, words.as_ptr() as u64, words[1..].as_ptr() as u64])
                .map_or_else(|error| error.0, |_| 0)
        })
    };
    println!("{}", run(c"./script"));
    for path in [c"./chain1", c"./chain4", c"./chain5", c"./chain6", c"./chain7"] {
        println!("{path:?}: {}", run(path));
    }
    let number = call(SYS_openat, &[AT_FDCWD as u64, c"busy".as_ptr() as u64, (O_CREAT | O_WRONLY) as u64, 0o755]);
    tell("a file", number.map(|_| 0));
    println!("a program that is open for writing: {}", run(c"./busy"));
    let own = std::env::current_exe().expect("a name");
    let own = std::ffi::CString::new(own.to_string_lossy().into_owned()).expect("a name");
    tell("to write what runs", open(&own, O_WRONLY).map(|_| 0));
}
