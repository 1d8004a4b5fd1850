//! Runs each (case, contender) as a process of its own under callgrind.

use std::process::{Command, ExitCode};

use crate::case::Case;
use crate::roster::Contender;
use crate::rows::{Outcome, Scale};

pub(crate) fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [one, case, contender, scale] = &arguments[..]
        && one == "one"
    {
        let case = Case::all().into_iter().find(|known| known.to_string() == *case).expect("a case");
        let contender = Contender::ALL.into_iter().find(|known| known.name() == contender).expect("a contender");
        let scale = if scale == "quick" { Scale::QUICK } else { Scale::FULL };
        let Outcome { units, found, checksum, frames, tlbis } = contender.run(case, scale);
        println!("{units} {found} {checksum:x} {frames} {tlbis}");
        return ExitCode::SUCCESS;
    }
    println!(
        "{:<24} {:>8} {:>12} {:>9} {:>8} {:>16} {:>7} {:>7}",
        "case", "", "instructions", "units", "each", "checksum", "frames", "TLBIs"
    );
    for case in Case::all() {
        let name = case.to_string();
        if !arguments.is_empty() && !arguments.iter().any(|filter| name.contains(filter.as_str())) {
            continue;
        }
        for contender in Contender::ALL.into_iter().filter(|contender| contender.lacks(case).is_none()) {
            // Callgrind counts each byte of `rep stosb`, with which the C library clears long stretches if it may.
            let output = Command::new("valgrind")
                .env("GLIBC_TUNABLES", "glibc.cpu.x86_rep_stosb_threshold=1000000000")
                .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
                .args(["--toggle-collect=*bench_measured_region*"])
                .arg(std::env::current_exe().expect("this program"))
                .args(["one", &name, contender.name(), "full"])
                .output()
                .expect("valgrind runs");
            let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{errors}");
            let collected = errors.lines().find_map(|line| line.split_once("Collected : ")).expect("a count").1;
            let words: Vec<&str> = said.split_whitespace().collect();
            let instructions: f64 = collected.trim().parse().expect("a number");
            let units: f64 = words[0].parse().expect("a number");
            println!(
                "{name:<24} {:>8} {collected:>12} {units:>9} {:>8.2} {:>16} {:>7} {:>7}",
                contender.name(),
                instructions / units,
                words[2],
                words[3],
                words[4]
            );
        }
    }
    ExitCode::SUCCESS
}
