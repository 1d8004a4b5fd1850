//! What files and pipes hold, addresses where nothing is, and files that are memory.

use libc::*;
use programs::memory::READ_WRITE;
use programs::{Answer, call, child, map, page, peek, tell, tell_at};
use std::ffi::CStr;

fn open(path: &CStr, flags: i32) -> Answer {
    call(SYS_openat, &[AT_FDCWD as u64, path.as_ptr() as u64, flags as u64, 0o644])
}

fn write(number: u64, bytes: &[u8]) -> Answer {
    call(SYS_write, &[number, bytes.as_ptr() as u64, bytes.len() as u64])
}

fn read(number: u64, bytes: &mut [u8]) -> Answer {
    call(SYS_read, &[number, bytes.as_mut_ptr() as u64, bytes.len() as u64])
}

fn seek(number: u64, offset: i64, from: i32) -> Answer {
    call(SYS_lseek, &[number, offset as u64, from as u64])
}

fn main() {
    content();
    seeks();
    emptied();
    rooms();
    bad_addresses();
    memory_files();
    running();
}

fn content() {
    let number = open(c"g", O_CREAT | O_RDWR).expect("a file");
    tell("write", write(number, b"hello"));
    tell("beyond", seek(number, 10, SEEK_SET));
    tell("write there", write(number, b"world"));
    let mut bytes = [9u8; 20];
    tell("back", seek(number, -15, SEEK_CUR));
    tell("read", read(number, &mut bytes));
    println!("{:?}", &bytes[..16]);
    tell("at the end", read(number, &mut bytes));
    tell("before the start", seek(number, -1, SEEK_SET));
    tell("from the end", seek(number, -3, SEEK_END));
    tell("an unknown start", seek(number, 0, 9));
    tell("data", seek(number, 0, SEEK_DATA));
    tell("a hole", seek(number, 0, SEEK_HOLE));
    tell("no data behind the end", seek(number, 100, SEEK_DATA));
    tell("shorter", call(SYS_ftruncate, &[number, 3]));
    tell("longer", call(SYS_ftruncate, &[number, 8]));
    tell("negative", call(SYS_ftruncate, &[number, -1i64 as u64]));
    tell("read at 0", call(SYS_pread64, &[number, bytes.as_mut_ptr() as u64, 20, 0]));
    println!("{:?}", &bytes[..8]);
    tell("read at -1", call(SYS_pread64, &[number, bytes.as_mut_ptr() as u64, 20, -1i64 as u64]));
    tell("write at 6", call(SYS_pwrite64, &[number, c"xyz".as_ptr() as u64, 3, 6]));
    let appended = open(c"g", O_WRONLY | O_APPEND).expect("a file");
    tell("append", write(appended, b"!"));
    tell("read what is for writing", read(appended, &mut bytes));
    let read_only = open(c"g", O_RDONLY).expect("a file");
    tell("write what is for reading", write(read_only, b"x"));
    tell("cut what is for reading", call(SYS_ftruncate, &[read_only, 0]));
    let vectors = [c"ab".as_ptr() as u64, 2, c"cd".as_ptr() as u64, 2];
    tell("two buffers", call(SYS_writev, &[number, vectors.as_ptr() as u64, 2]));
    tell("no buffers", call(SYS_writev, &[number, vectors.as_ptr() as u64, 0]));
    tell("too many buffers", call(SYS_writev, &[number, vectors.as_ptr() as u64, 2000]));
    tell("allocate", call(SYS_fallocate, &[number, 0, 0, 100]));
    tell("length", seek(number, 0, SEEK_END));
    tell("allocate nothing", call(SYS_fallocate, &[number, 0, 0, 0]));
    tell("punch", call(SYS_fallocate, &[number, 3, 1, 3]));
    tell("read", call(SYS_pread64, &[number, bytes.as_mut_ptr() as u64, 5, 0]));
    println!("{:?}", &bytes[..5]);
    tell("emptied", open(c"g", O_RDWR | O_TRUNC));
    tell("length", seek(number, 0, SEEK_END));
    tell("closed twice", call(SYS_close, &[number]).and_then(|_| call(SYS_close, &[number])));
    tell("read what is closed", read(number, &mut bytes));
    tell("a folder read", read(open(c".", O_RDONLY).expect("a folder"), &mut bytes));
}

/// A folder is listed while its names go: each is told once.
fn emptied() {
    for count in [0, 1, 63, 64, 65, 640] {
        std::fs::create_dir("full").expect("a folder");
        (0..count).for_each(|number| drop(std::fs::File::create(format!("full/{number}")).expect("a file")));
        let folder = open(c"full", O_RDONLY | O_DIRECTORY).expect("a folder");
        let (mut room, mut told) = ([0u8; 256], 0);
        while let Ok(bytes @ 1..) = call(SYS_getdents64, &[folder, room.as_mut_ptr() as u64, 256]) {
            let mut rest = &room[..bytes as usize];
            while !rest.is_empty() {
                let name = CStr::from_bytes_until_nul(&rest[19..]).expect("a name");
                told += u64::from(call(SYS_unlinkat, &[folder, name.as_ptr() as u64, 0]).is_ok());
                rest = &rest[usize::from(u16::from_le_bytes([rest[16], rest[17]]))..];
            }
        }
        tell(&format!("of {count} names, those told while they go"), Ok(told));
        tell("the folder goes", call(SYS_unlinkat, &[AT_FDCWD as u64, c"full".as_ptr() as u64, AT_REMOVEDIR as u64]));
        call(SYS_close, &[folder]).expect("open");
    }
}

/// Addresses where nothing is, for calls that read or write there.
fn bad_addresses() {
    let none = map(0, 2 * page(), READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0).expect("room");
    call(SYS_munmap, &[none + page(), page()]).expect("it goes");
    let end = none + page();
    let number = open(c"k", O_CREAT | O_RDWR).expect("a file");
    tell("write from nowhere", call(SYS_write, &[number, 8, 1]));
    tell("write over the end", call(SYS_write, &[number, end - 4, 8]));
    tell("written", seek(number, 0, SEEK_END));
    tell("write from the kernel's", call(SYS_write, &[number, u64::MAX << 48, 8]));
    tell("write no bytes from nowhere", call(SYS_write, &[number, 8, 0]));
    write(number, b"0123456789").expect("room");
    seek(number, 0, SEEK_SET).expect("there");
    tell("read to nowhere", call(SYS_read, &[number, 8, 4]));
    tell("read over the end", call(SYS_read, &[number, end - 4, 8]));
    println!("read: {}", peek(end - 1));
    let read_only = map(0, page(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0).expect("room");
    tell("read to what is read-only", call(SYS_read, &[number, read_only, 4]));
    for (name, call_number, arguments) in [
        ("open", SYS_openat, [AT_FDCWD as u64, 8, 0, 0, 0]),
        ("stat", SYS_newfstatat, [AT_FDCWD as u64, c"g".as_ptr() as u64, 8, 0, 0]),
        ("uname", SYS_uname, [8, 0, 0, 0, 0]),
        ("pipe", SYS_pipe2, [8, 0, 0, 0, 0]),
        ("clock", SYS_clock_gettime, [0, 8, 0, 0, 0]),
        ("sleep", SYS_nanosleep, [8, 0, 0, 0, 0]),
        ("mask", SYS_rt_sigprocmask, [0, 8, 0, 8, 0]),
        ("folder", SYS_getcwd, [8, 4096, 0, 0, 0]),
        ("entries", SYS_getdents64, [open(c".", O_RDONLY).expect("it opens"), 8, 4096, 0, 0]),
        ("random", SYS_getrandom, [8, 16, 0, 0, 0]),
        ("poll", SYS_ppoll, [8, 1, 0, 0, 8]),
        ("system", SYS_sysinfo, [8, 0, 0, 0, 0]),
        ("usage", SYS_getrusage, [0, 8, 0, 0, 0]),
        ("program", SYS_execve, [8, 0, 0, 0, 0]),
        ("arguments", SYS_execve, [c"/bin/busybox".as_ptr() as u64, 8, 0, 0, 0]),
        ("buffers", SYS_writev, [number, 8, 1, 0, 0]),
        ("affinity", SYS_sched_getaffinity, [0, 8, 8, 0, 0]),
    ] {
        tell(name, call(call_number, &arguments));
    }
}

fn memory_files() {
    let make = |name: &CStr, flags: u64| call(SYS_memfd_create, &[name.as_ptr() as u64, flags]);
    tell("unknown flags", make(c"m", 0x100).map(|_| 0));
    tell("a name too long", make(&std::ffi::CString::new("x".repeat(250)).expect("a name"), 0).map(|_| 0));
    let number = make(c"m", MFD_ALLOW_SEALING.into()).expect("a file");
    let control = |what: i32, value: u64| call(SYS_fcntl, &[number, what as u64, value]);
    tell("seals", control(F_GET_SEALS, 0));
    call(SYS_ftruncate, &[number, page()]).expect("longer");
    let shared = map(0, page(), READ_WRITE, MAP_SHARED, number as i32, 0);
    tell("seal writes while it is mapped", control(F_ADD_SEALS, F_SEAL_WRITE as u64));
    tell("seal the size", control(F_ADD_SEALS, (F_SEAL_SHRINK | F_SEAL_GROW) as u64));
    tell("shorter", call(SYS_ftruncate, &[number, 0]));
    tell("longer", call(SYS_ftruncate, &[number, 2 * page()]));
    call(SYS_munmap, &[shared.expect("room"), page()]).expect("it goes");
    tell("seal writes", control(F_ADD_SEALS, F_SEAL_WRITE as u64));
    tell("write", write(number, b"x"));
    tell_at("map to be written", map(0, page(), READ_WRITE, MAP_SHARED, number as i32, 0), 0);
    tell_at("map privately", map(0, page(), READ_WRITE, MAP_PRIVATE, number as i32, 0), 0);
    tell_at("map to be read", map(0, page(), PROT_READ, MAP_SHARED, number as i32, 0), 0);
    tell("seal seals", control(F_ADD_SEALS, F_SEAL_SEAL as u64));
    tell("seal more", control(F_ADD_SEALS, F_SEAL_GROW as u64));
    tell("seals", control(F_GET_SEALS, 0));
    let plain = make(c"p", 0).expect("a file");
    tell("seals of a plain one", call(SYS_fcntl, &[plain, F_GET_SEALS as u64, 0]));
    tell("seal a plain one", call(SYS_fcntl, &[plain, F_ADD_SEALS as u64, F_SEAL_GROW as u64]));
    println!("its name: {:?}", std::fs::read_link(format!("/proc/self/fd/{plain}")).ok());
}

/// Where data and holes are, and offsets of texts that are made.
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

/// How much a pipe holds.
fn rooms() {
    let mut ends = [0i32; 2];
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]).expect("a pipe");
    let target = ends[1] as u64;
    let pages = |answer: Answer| answer.map(|bytes| bytes / page());
    tell("pages of a pipe", pages(call(SYS_fcntl, &[target, F_GETPIPE_SZ as u64])));
    tell("little", pages(call(SYS_fcntl, &[target, F_SETPIPE_SZ as u64, 1])));
    tell("more than a page", pages(call(SYS_fcntl, &[target, F_SETPIPE_SZ as u64, page() + 1])));
    write(target, &vec![7; page() as usize + 1]).expect("room");
    tell("less than is there", pages(call(SYS_fcntl, &[target, F_SETPIPE_SZ as u64, page()])));
    tell("much", pages(call(SYS_fcntl, &[target, F_SETPIPE_SZ as u64, 3 * page() + 1])));
    println!(
        "as much as that: {}",
        child(|| {
            let more = vec![7; 3 * page() as usize - 1];
            write(target, &more).expect("room");
            0
        })
    );
    tell("without bound", call(SYS_fcntl, &[target, F_SETPIPE_SZ as u64, u64::MAX]));
}

/// A file runs, or is written.
fn running() {
    let file = call(SYS_openat, &[AT_FDCWD as u64, c"busy".as_ptr() as u64, (O_CREAT | O_WRONLY) as u64, 0o755]);
    let path = [c"./busy".as_ptr() as u64, 0];
    tell("to run what is written", file.and_then(|_| call(SYS_execve, &[path[0], path.as_ptr() as u64, 0])));
    tell("to write what runs", open(c"/proc/self/exe", O_WRONLY).map(|_| 0));
}
