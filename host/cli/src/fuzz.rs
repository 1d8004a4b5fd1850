//! Texts that nobody made on purpose, for the readers of this program: each must return, and must not panic.

use clap::Parser;
use machine::trace::{Judge, Trace};
use seed::Seed;
use seed::feed::{damaged, feed};
use vmsa::PageSize;

use crate::args::{Arguments, Command};
use crate::decode::oops;
use crate::diff::parse::parse;

const DUMP: &str = "# TTBR1_EL1 root at 0x41858000, 4K pages, 48 input bits, root at level 0 (as given)
---[ Linear Mapping start ]---
0xffff000000000000-0xffff000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL-TAGGED
0xffff000000200000-0xffff000000210000          64K PTE       RW NX SHD AF    CON     UXN    MEM/NORMAL-TAGGED
0xffff000300000000-0xffff008000000000         500G PUD
{\"kind\":\"leaves\",\"input\":\"0x1000\",\"output\":\"0x2000\",\"level\":3,\"leaves\":1}
";
const OOPS: &str = "Unable to handle kernel paging request at virtual address ffff800008000000
Mem abort info:
  ESR = 0x0000000096000047
swapper pgtable: 4k pages, 48-bit VAs, pgdp=0000000041858000
[ffff800008000000] pgd=1000000047fff003, p4d=1000000047fff003, pud=1000000047ffe003, pmd=0000000000000000
Internal error: Oops: 96000044 [#1] SMP
pc : do_thing+0x10/0x20
";

#[test]
fn fuzz_dumps_are_read_or_refused() {
    let lines: Vec<&str> = DUMP.lines().collect();
    let read = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        PageSize::ALL.into_iter().for_each(|page_size| drop(parse(&text, page_size)));
    };
    feed("fuzz_dumps", |random| damaged(&lines, random), read);
}

#[test]
fn fuzz_oopses_are_decoded_or_refused() {
    let lines: Vec<&str> = OOPS.lines().collect();
    let Some(Command::Decode(arguments)) = Arguments::parse_from(["vellum", "decode", "oops", "-"]).command else {
        panic!("a command");
    };
    let read = |bytes: &[u8]| {
        let decoded = oops::decode(&String::from_utf8_lossy(bytes), &arguments.encoding);
        decoded.into_iter().flatten().for_each(|oops| drop(oops.to_string()));
    };
    feed("fuzz_oopses", |random| damaged(&lines, random), read);
}

#[test]
fn fuzz_traces_are_judged_or_refused() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/trace");
    let files = std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("a file").path());
    let traces = files.filter(|path| path.extension().is_some_and(|extension| extension == "trace"));
    let texts: Vec<String> = traces.map(|path| std::fs::read_to_string(path).expect("a trace")).collect();
    let make = |random: &mut Seed| {
        let lines: Vec<&str> = random.pick(&texts).lines().collect();
        damaged(&lines, random)
    };
    let read = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let Ok(trace) = Trace::read(&text) else { return };
        let mut judge = Judge::new(&trace, true);
        while judge.step() == Ok(true) {}
    };
    feed("fuzz_traces", make, read);
}
