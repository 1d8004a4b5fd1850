//! Two calls at once on what is in a file: writes, lengths, seals, mappings, locks. Whatever the order, each call is whole.

use std::sync::atomic::{AtomicU64, Ordering};

use libc::*;
use programs::child::wait;
use programs::machine::{exit, fork};
use programs::memory::READ_WRITE;
use programs::{Answer, call, child, map, page, peek, poke, race, rounds, tell_race};

const PAGES: u64 = 16;

fn main() {
    seal_and_write();
    seal_and_map();
    seal_and_seal();
    seal_and_length();
    write_and_truncate();
    read_and_truncate();
    truncate_and_access();
    truncate_and_fork();
    appends();
    lists();
    lock_and_close();
}

fn all() -> u64 {
    PAGES * page()
}

/// A file that may be sealed, of so many pages of ones.
fn file(pages: u64) -> u64 {
    let number = call(SYS_memfd_create, &[c"race".as_ptr() as u64, MFD_ALLOW_SEALING.into()]).expect("a file");
    fill(number, pages, 1);
    number
}

fn fill(number: u64, pages: u64, value: u8) {
    let content = vec![value; (pages * page()) as usize];
    call(SYS_pwrite64, &[number, content.as_ptr() as u64, content.len() as u64, 0]).expect("room");
}

fn content(number: u64) -> Vec<u8> {
    let mut bytes = vec![0u8; 2 * all() as usize];
    let count = call(SYS_pread64, &[number, bytes.as_mut_ptr() as u64, bytes.len() as u64, 0]).expect("it is read");
    bytes.truncate(count as usize);
    bytes
}

fn close(number: &AtomicU64) {
    call(SYS_close, &[number.load(Ordering::SeqCst)]).expect("it is open");
}

fn truncate(number: u64, bytes: u64) -> Answer {
    call(SYS_ftruncate, &[number, bytes])
}

fn seal(number: u64, seals: i32) -> Answer {
    call(SYS_fcntl, &[number, F_ADD_SEALS as u64, seals as u64])
}

/// Once a seal is there nothing changes any more, and a write was all or nothing.
fn seal_and_write() {
    let (number, twos) = (AtomicU64::new(0), vec![2u8; all() as usize]);
    let sealed = std::sync::Mutex::new(Vec::new());
    let write = || call(SYS_pwrite64, &[number.load(Ordering::SeqCst), twos.as_ptr() as u64, all(), 0]);
    let add = || {
        let answer = seal(number.load(Ordering::SeqCst), F_SEAL_WRITE);
        *sealed.lock().expect("whole") = content(number.load(Ordering::SeqCst));
        answer
    };
    let prepare = || number.store(file(PAGES), Ordering::SeqCst);
    let wrong = race(rounds(), prepare, [&write, &add], |[written, added]| {
        let now = content(number.load(Ordering::SeqCst));
        close(&number);
        let expected = match written {
            Ok(count) if count == all() => 2,
            Err(error) if error.0 == EPERM => 1,
            _ => return false,
        };
        added == Ok(0) && now == *sealed.lock().expect("whole") && now.iter().all(|byte| *byte == expected)
    });
    tell_race("a seal and a write", wrong);
}

/// Either a file is sealed, or somebody may write it by a mapping.
fn seal_and_map() {
    let number = AtomicU64::new(0);
    let mapped = || map(0, page(), READ_WRITE, MAP_SHARED, number.load(Ordering::SeqCst) as i32, 0);
    let add = || seal(number.load(Ordering::SeqCst), F_SEAL_WRITE);
    let wrong = race(
        rounds(),
        || number.store(file(1), Ordering::SeqCst),
        [&mapped, &add],
        |[mapped, added]| {
            close(&number);
            if let Ok(address) = mapped {
                call(SYS_munmap, &[address, page()]).expect("it goes");
            }
            match (mapped, added) {
                (Ok(_), Err(error)) => error.0 == EBUSY,
                (Err(error), Ok(0)) => error.0 == EPERM,
                _ => false,
            }
        },
    );
    tell_race("a seal and a mapping", wrong);
}

/// No seal is lost.
fn seal_and_seal() {
    let number = AtomicU64::new(0);
    let [shrink, grow] = [F_SEAL_SHRINK, F_SEAL_GROW];
    let add = |which| seal(number.load(Ordering::SeqCst), which);
    let prepare = || number.store(file(1), Ordering::SeqCst);
    let wrong = race(4 * rounds(), prepare, [&|| add(shrink), &|| add(grow)], |_| {
        let found = call(SYS_fcntl, &[number.load(Ordering::SeqCst), F_GET_SEALS as u64]);
        close(&number);
        found == Ok((shrink | grow) as u64)
    });
    tell_race("two seals", wrong);
}

/// A sealed length stays.
fn seal_and_length() {
    let (number, twos) = (AtomicU64::new(0), vec![2u8; all() as usize]);
    let now = || number.load(Ordering::SeqCst);
    let grow = || call(SYS_pwrite64, &[now(), twos.as_ptr() as u64, all(), page()]);
    let shrink = || truncate(now(), page());
    let allocate = || call(SYS_fallocate, &[now(), 0, 0, 3 * all()]);
    let add = || {
        seal(now(), F_SEAL_SHRINK | F_SEAL_GROW)?;
        call(SYS_lseek, &[now(), 0, SEEK_END as u64])
    };
    let prepare = || number.store(file(PAGES), Ordering::SeqCst);
    for (what, change) in
        [("write", &grow as &(dyn Fn() -> Answer + Sync)), ("truncate", &shrink), ("allocate", &allocate)]
    {
        let wrong = race(rounds(), prepare, [change, &add], |[_, sealed]| {
            let end = call(SYS_lseek, &[now(), 0, SEEK_END as u64]);
            close(&number);
            end == sealed
        });
        tell_race(&format!("seals of the length and {what}"), wrong);
    }
}

/// All of a write is there, or nothing.
fn write_and_truncate() {
    let (number, twos) = (AtomicU64::new(0), vec![2u8; all() as usize]);
    let write = || call(SYS_pwrite64, &[number.load(Ordering::SeqCst), twos.as_ptr() as u64, all(), 0]);
    let cut = || truncate(number.load(Ordering::SeqCst), 0);
    let prepare = || number.store(file(PAGES), Ordering::SeqCst);
    let wrong = race(rounds(), prepare, [&write, &cut], |[written, cut]| {
        let now = content(number.load(Ordering::SeqCst));
        close(&number);
        let is_whole = now.is_empty() || now.len() as u64 == all() && now.iter().all(|byte| *byte == 2);
        written == Ok(all()) && cut == Ok(0) && is_whole
    });
    tell_race("a write and a truncation", wrong);
}

/// What is read was written.
fn read_and_truncate() {
    let number = AtomicU64::new(0);
    let read = || {
        let mut bytes = vec![9u8; page() as usize];
        let at = bytes.as_mut_ptr() as u64;
        let count = call(SYS_pread64, &[number.load(Ordering::SeqCst), at, page(), 0])?;
        Ok(u64::from(bytes[..count as usize].iter().all(|byte| *byte == 1)))
    };
    let cut = || truncate(number.load(Ordering::SeqCst), 0);
    let prepare = || number.store(file(1), Ordering::SeqCst);
    let wrong = race(4 * rounds(), prepare, [&read, &cut], |answers| {
        close(&number);
        answers == [Ok(1), Ok(0)]
    });
    tell_race("a read and a truncation", wrong);
}

/// What was cut off is mapped nowhere, whoever touched it meanwhile: a call that reads it is refused.
fn truncate_and_access() {
    let (number, address) = (AtomicU64::new(0), AtomicU64::new(0));
    let other = file(1);
    let copy = |at: u64| call(SYS_pwrite64, &[other, address.load(Ordering::SeqCst) + at * page(), 1, 0]);
    let touch = || (0..PAGES).map(copy).find(Result::is_err).unwrap_or(Ok(0));
    let cut = || truncate(number.load(Ordering::SeqCst), 0);
    let prepare = || {
        number.store(file(PAGES), Ordering::SeqCst);
        let mapped = map(0, all(), READ_WRITE, MAP_SHARED, number.load(Ordering::SeqCst) as i32, 0);
        address.store(mapped.expect("room"), Ordering::SeqCst);
    };
    let wrong = race(rounds(), prepare, [&touch, &touch, &cut], |[_, _, cut]| {
        let is_gone = (0..PAGES).all(|at| copy(at).is_err_and(|error| error.0 == EFAULT));
        call(SYS_munmap, &[address.load(Ordering::SeqCst), all()]).expect("it goes");
        close(&number);
        cut == Ok(0) && is_gone
    });
    tell_race("accesses and a truncation", wrong);
}

/// A child that comes meanwhile has nothing of what was cut off.
fn truncate_and_fork() {
    let (number, address) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut ends = [0i32; 2];
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]).expect("a pipe");
    let [from, to] = ends.map(|end| end as u64);
    let cut =
        || truncate(number.load(Ordering::SeqCst), 0).and_then(|_| truncate(number.load(Ordering::SeqCst), all()));
    let child = || match fork() {
        Some(number) => Ok(number as u64),
        None => {
            let mut byte = 0u8;
            let told = call(SYS_read, &[from, &raw mut byte as u64, 1]);
            let start = address.load(Ordering::SeqCst);
            exit(i32::from(told != Ok(1) || (0..PAGES).any(|at| peek(start + at * page()) != 0)));
        }
    };
    let prepare = || {
        number.store(file(PAGES), Ordering::SeqCst);
        let mapped = map(0, all(), READ_WRITE, MAP_SHARED, number.load(Ordering::SeqCst) as i32, 0).expect("room");
        (0..PAGES).for_each(|at| poke(mapped + at * page(), 3));
        address.store(mapped, Ordering::SeqCst);
    };
    let wrong = race(rounds(), prepare, [&cut, &child], |[cut, child]| {
        call(SYS_write, &[to, c"x".as_ptr() as u64, 1]).expect("room");
        let status = child.map(|number| wait(number as i32));
        call(SYS_munmap, &[address.load(Ordering::SeqCst), all()]).expect("it goes");
        close(&number);
        cut == Ok(0) && status == Ok(0)
    });
    tell_race("a truncation and a fork", wrong);
}

/// What is appended comes behind what is there, and nothing is lost.
fn appends() {
    const RECORD: usize = 100;
    let number = AtomicU64::new(0);
    let append = |letter: u8| {
        let record = [letter; RECORD];
        call(SYS_write, &[number.load(Ordering::SeqCst), record.as_ptr() as u64, RECORD as u64])
    };
    let prepare = || {
        let flags = O_CREAT | O_RDWR | O_TRUNC | O_APPEND;
        let arguments = [AT_FDCWD as u64, c"appended".as_ptr() as u64, flags as u64, 0o600];
        number.store(call(SYS_openat, &arguments).expect("a file"), Ordering::SeqCst);
    };
    let wrong = race(4 * rounds(), prepare, [&|| append(b'a'), &|| append(b'b')], |answers| {
        let found = content(number.load(Ordering::SeqCst));
        close(&number);
        answers == [Ok(RECORD as u64); 2] && are_whole(&found, 2, RECORD)
    });
    tell_race("O_APPEND", wrong);
}

/// Whether these are so many records, each of one letter, and no two of the same.
fn are_whole(found: &[u8], count: usize, record: usize) -> bool {
    let records: Vec<&[u8]> = found.chunks(record).collect();
    let is_whole = |one: &&[u8]| one.len() == record && one.iter().all(|byte| *byte == one[0]);
    found.len() == count * record && records.iter().all(is_whole) && records[0][0] != records[1][0]
}

/// Lists of buffers, where a file stands: one comes behind the other.
fn lists() {
    const RECORD: usize = 6000;
    let number = AtomicU64::new(0);
    let write = |letter: u8| {
        let record = [letter; RECORD];
        let list = [[record.as_ptr() as u64, RECORD as u64 / 3]; 3];
        call(SYS_writev, &[number.load(Ordering::SeqCst), list.as_ptr() as u64, 3])
    };
    let prepare = || {
        let arguments = [AT_FDCWD as u64, c"listed".as_ptr() as u64, (O_CREAT | O_RDWR | O_TRUNC) as u64, 0o600];
        number.store(call(SYS_openat, &arguments).expect("a file"), Ordering::SeqCst);
    };
    let wrong = race(2 * rounds(), prepare, [&|| write(b'a'), &|| write(b'b')], |answers| {
        let found = content(number.load(Ordering::SeqCst));
        close(&number);
        answers == [Ok(RECORD as u64); 2] && are_whole(&found, 2, RECORD)
    });
    tell_race("lists that are written", wrong);
    let read = || {
        let mut record = [0u8; RECORD];
        let list = [
            [record.as_mut_ptr() as u64, RECORD as u64 / 3],
            [record[RECORD / 3..].as_mut_ptr() as u64, 2 * RECORD as u64 / 3],
        ];
        let count = call(SYS_readv, &[number.load(Ordering::SeqCst), list.as_ptr() as u64, 2])?;
        Ok(if count == RECORD as u64 && record.iter().all(|byte| *byte == record[0]) { record[0].into() } else { 0 })
    };
    let prepare = || {
        prepare();
        write(b'a').and_then(|_| write(b'b')).expect("room");
        call(SYS_lseek, &[number.load(Ordering::SeqCst), 0, 0]).expect("a place");
    };
    let wrong = race(2 * rounds(), prepare, [&read, &read], |answers| {
        close(&number);
        let [a, b] = [b'a', b'b'].map(|letter| Ok(u64::from(letter)));
        answers == [a, b] || answers == [b, a]
    });
    tell_race("lists that are read", wrong);
}

/// A lock of a range goes with the descriptor, however late it came.
fn lock_and_close() {
    let number = AtomicU64::new(0);
    let open = || {
        let arguments = [AT_FDCWD as u64, c"locked".as_ptr() as u64, (O_CREAT | O_RDWR) as u64, 0o600];
        call(SYS_openat, &arguments).expect("a file")
    };
    let whole = |kind: i32| [kind as u64, 0, 0, 0];
    let lock = || call(SYS_fcntl, &[number.load(Ordering::SeqCst), F_SETLK as u64, whole(F_WRLCK).as_ptr() as u64]);
    let closed = || call(SYS_close, &[number.load(Ordering::SeqCst)]);
    let wrong = race(
        4 * rounds(),
        || number.store(open(), Ordering::SeqCst),
        [&lock, &closed],
        |[locked, closed]| {
            let other = || call(SYS_fcntl, &[open(), F_SETLK as u64, whole(F_WRLCK).as_ptr() as u64]);
            let is_free = child(|| i32::from(other().is_err())) == "ended with 0";
            closed == Ok(0) && is_free && locked.map_or_else(|error| error.0 == EBADF, |_| true)
        },
    );
    tell_race("a lock and a close", wrong);
}
