//! `vellum judge` as a person or a CI meets it: exit statuses, what is printed, and the C header that writes traces.
//! Its own harness, so that a host without a C compiler says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

type Test = (&'static str, fn() -> Result<(), String>);

const TESTS: [Test; 4] = [
    ("statuses_say_what_was_found", statuses),
    ("json_is_one_record_a_finding", json),
    ("a_malformed_trace_is_one_line", malformed),
    ("the_c_header_writes_what_is_judged", header),
];

fn main() -> ExitCode {
    println!("\nrunning {} tests", TESTS.len());
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    for (name, test) in TESTS {
        if name.contains("c_header") && !has_compiler() {
            ignored += 1;
            println!("test {name} ... ignored, there is no C compiler `cc`");
            continue;
        }
        match test() {
            Ok(()) => {
                passed += 1;
                println!("test {name} ... ok");
            }
            Err(why) => {
                failed += 1;
                println!("test {name} ... FAILED\n{why}");
            }
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; 0 filtered out\n"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn has_compiler() -> bool {
    Command::new("cc").arg("--version").output().is_ok_and(|it| it.status.success())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/trace")
}

fn vellum(arguments: &[&str]) -> Result<Output, String> {
    Command::new(env!("CARGO_BIN_EXE_vellum")).arg("judge").args(arguments).output().map_err(|error| error.to_string())
}

/// Runs the command and holds status and output against what is expected.
fn expect(arguments: &[&str], status: i32, parts: &[&str]) -> Result<String, String> {
    let output = vellum(arguments)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let lacks: Vec<&&str> = parts.iter().filter(|part| !text.contains(**part)).collect();
    if output.status.code() == Some(status) && lacks.is_empty() {
        return Ok(text);
    }
    Err(format!("{arguments:?} ended with {:?}, expected {status} and {lacks:?} in\n{text}", output.status.code()))
}

fn example(name: &str) -> String {
    folder().join(name).display().to_string()
}

fn statuses() -> Result<(), String> {
    expect(&[&example("unmap.trace")], 0, &["no rule is broken"])?;
    let bad = example("wrong-hint.trace");
    let text = expect(&[&bad], 1, &["wrong-hint.trace:30: V7", "2 violations", "--all tells every one"])?;
    if text.contains("V1") {
        return Err(format!("only the first is told without --all:\n{text}"));
    }
    expect(&[&bad, "--all"], 1, &["wrong-hint.trace:30: V7", "wrong-hint.trace:33: V1"])?;
    let text = fs::read_to_string(example("unmap.trace")).map_err(|error| error.to_string())?;
    let path = temporary("needless.trace", &(text + "0 tlbi vmalle1is\n0 dsb ish\n"))?;
    expect(&[&path], 0, &["no rule is broken"])?;
    expect(
        &[&path, "--lint"],
        0,
        &["Not needed: no TLB can hold what this removes", "no rule is broken, 2 not needed"],
    )?;
    Ok(())
}

fn json() -> Result<(), String> {
    let text = expect(&[&example("wrong-hint.trace"), "--json", "--all"], 1, &["\"rule\":\"V7\"", "\"rule\":\"V1\""])?;
    for line in text.lines() {
        let record: serde_json::Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
        if !(record["line"].is_u64() && record["story"].is_string() && record["cached_on"].is_array()) {
            return Err(format!("a record without line, story or CPUs: {line}"));
        }
    }
    expect(&[&example("unmap.trace"), "--json"], 0, &[])?;
    Ok(())
}

fn malformed() -> Result<(), String> {
    let path = temporary("malformed.trace", "vellum trace 1\ncpu 0\n0 isb\n0 flush 0x1000\n")?;
    expect(&[&path], 2, &["malformed.trace:4: `flush`, expected load, store"])?;
    let path = temporary("binary.trace", "\u{0}\u{1}\u{2}")?;
    expect(&[&path], 2, &["binary.trace:1: ", "expected `vellum trace 1`"])?;
    expect(&["/nowhere/a.trace"], 2, &["/nowhere/a.trace: No such file"])?;
    // What was found before the line that cannot have happened is told.
    let text = fs::read_to_string(example("live-change.trace")).map_err(|error| error.to_string())?;
    let path = temporary("contradiction.trace", &(text + "0 load 0x40003000 0x5\n"))?;
    expect(&[&path], 2, &["contradiction.trace:28: V2", "contradiction.trace:31: 0x5 was found", "since line 28"])?;
    Ok(())
}

fn header() -> Result<(), String> {
    let printed = expect(&["--header"], 0, &["vellum_trace_begin"])?;
    let kept = fs::read_to_string(folder().join("vellum_trace.h")).map_err(|error| error.to_string())?;
    if printed != kept {
        return Err("--header prints another header than docs/trace/vellum_trace.h".into());
    }
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("trace-example");
    for standard in ["-std=gnu89", "-std=c99", "-std=c11"] {
        let output = Command::new("cc")
            .args(["-Wall", "-Wextra", "-Werror", standard, "-o"])
            .arg(&program)
            .arg(folder().join("example.c"))
            .output()
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("{standard}: {}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    let run = |arguments: &[&str]| {
        let output = Command::new(&program).args(arguments).output().map_err(|error| error.to_string())?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let good = temporary("from-c.trace", &run(&[])?)?;
    expect(&[&good], 0, &["no rule is broken"])?;
    let bad = temporary("from-c-bad.trace", &run(&["without the TLBI"])?)?;
    expect(&[&bad], 1, &["V3: given away", "Missing: a TLBI"])?;
    Ok(())
}

fn temporary(name: &str, text: &str) -> Result<String, String> {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("judge-{}-{name}", std::process::id()));
    fs::write(&path, text).map_err(|error| error.to_string())?;
    Ok(path.display().to_string())
}
