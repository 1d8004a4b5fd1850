//! `vellum judge` as a person or a CI meets it: exit statuses, what is printed, and the C header that writes traces.
//! Its own harness, so that a host without a C compiler says so.

mod tally;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use tally::Report;

type Test = (&'static str, fn() -> Result<(), String>);

const TESTS: [Test; 7] = [
    ("statuses_say_what_was_found", statuses),
    ("json_is_one_record_a_finding", json),
    ("a_malformed_trace_is_one_line", malformed),
    ("a_file_is_followed_until_a_rule_is_broken", followed),
    ("a_file_that_is_begun_anew_is_judged_anew", anew),
    ("a_pipe_is_judged_as_it_comes", piped),
    ("the_c_header_writes_what_is_judged", header),
];

fn main() -> ExitCode {
    let mut report = Report::default();
    for (name, test) in TESTS {
        match name.contains("c_header") && !has_compiler() {
            true => report.ignore(name, "there is no C compiler `cc`"),
            false => report.add(name, test()),
        }
    }
    report.finish()
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

/// The lines of a trace that breaks a rule, but for its last `missing` bytes, and these.
fn parts(missing: usize) -> Result<(Vec<u8>, Vec<u8>), String> {
    let text = fs::read(folder().join("unmap-no-tlbi.trace")).map_err(|error| error.to_string())?;
    let (start, rest) = text.split_at(text.len() - missing);
    Ok((start.to_vec(), rest.to_vec()))
}

fn followed() -> Result<(), String> {
    let error = |error: std::io::Error| error.to_string();
    let path = std::env::temp_dir().join(format!("vellum-followed-{}.trace", std::process::id()));
    let (start, rest) = parts(70)?;
    fs::write(&path, start).map_err(error)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_vellum"));
    command.arg("judge").arg(&path).arg("--follow").stdout(Stdio::piped());
    let child = command.spawn().map_err(error)?;
    fs::OpenOptions::new().append(true).open(&path).and_then(|mut file| file.write_all(&rest)).map_err(error)?;
    let output = child.wait_with_output().map_err(error)?;
    fs::remove_file(&path).map_err(error)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.code() == Some(1) && text.contains(".trace:") { Ok(()) } else { Err(text) }
}

/// In the file's place, or by another file that takes the name; both break a rule, and the first had not.
fn anew() -> Result<(), String> {
    let error = |error: std::io::Error| error.to_string();
    let good = fs::read_to_string(folder().join("unmap.trace")).map_err(error)?;
    let bad = parts(0)?.0;
    for takes_place in [false, true] {
        let path = temporary("anew.trace", &(good.clone() + &"# and more\n".repeat(bad.len())))?;
        let mut command = Command::new("timeout");
        command.args(["60", env!("CARGO_BIN_EXE_vellum"), "judge", &path, "--follow"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(error)?;
        // That the first is read is seen of nothing but its file: where the file stands that the command has open.
        while !is_read(child.id(), &path)? {
            if child.try_wait().map_err(error)?.is_some() {
                break;
            }
            std::thread::yield_now();
        }
        if takes_place {
            let other = temporary_bytes("other.trace", &bad)?;
            fs::rename(other, &path).map_err(error)?;
        } else {
            fs::write(&path, &bad).map_err(error)?;
        }
        let output = child.wait_with_output().map_err(error)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(1) || !text.contains("V3") || !text.contains("was begun anew") {
            return Err(format!("{takes_place}: {:?} {text}", output.status.code()));
        }
    }
    Ok(())
}

/// Whether the child of this process has read the file to its end.
fn is_read(parent: u32, path: &str) -> Result<bool, String> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    let length = fs::metadata(path).map_err(|error| error.to_string())?.len().to_string();
    let is_at_end = |child: &str| {
        let files = fs::read_dir(format!("/proc/{child}/fd")).into_iter().flatten().flatten();
        let mut ours = files.filter(|file| fs::read_link(file.path()).is_ok_and(|to| to == Path::new(path)));
        ours.any(|file| {
            let number = file.file_name().to_string_lossy().into_owned();
            let told = fs::read_to_string(format!("/proc/{child}/fdinfo/{number}")).unwrap_or_default();
            told.lines().any(|line| line.strip_prefix("pos:").is_some_and(|at| at.trim() == length))
        })
    };
    Ok(children.split_whitespace().any(is_at_end))
}

fn piped() -> Result<(), String> {
    let error = |error: std::io::Error| error.to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_vellum"));
    let mut child = command.args(["judge", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(error)?;
    let (mut input, output) = (child.stdin.take().ok_or("no pipe")?, child.stdout.take().ok_or("no pipe")?);
    input.write_all(&parts(0)?.0).map_err(error)?;
    // The finding is told while the pipe is open yet.
    let mut lines = BufReader::new(output).lines();
    let first = lines.next().ok_or("nothing is told")?.map_err(error)?;
    drop(input);
    let last = lines.map_while(Result::ok).last().unwrap_or_default();
    let status = child.wait().map_err(error)?.code();
    if first.starts_with("-:") && last.contains("violation") && status == Some(1) { Ok(()) } else { Err(first + &last) }
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
    // A kernel that maps on demand is told of its faults, and no rule is broken.
    let text = fs::read_to_string(example("unmap.trace")).map_err(|error| error.to_string())?;
    let line = text.lines().count() + 1;
    let faults = temporary("faults.trace", &format!("{text}0 access read 0\n1 access read 0\n"))?;
    let told = format!("can only fault: 2; the first, at line {line}, takes a stage-1 translation fault at level 3");
    expect(&[&faults], 0, &["no rule is broken", &told])?;
    let bad = example("wrong-hint.trace");
    let text = expect(&[&bad], 1, &["wrong-hint.trace:30: V7", "2 violations", "--all tells every one"])?;
    if text.contains("V1") {
        return Err(format!("only the first is told without --all:\n{text}"));
    }
    expect(&[&bad, "--all"], 1, &["wrong-hint.trace:30: V7", "wrong-hint.trace:33: V1"])?;
    let text = fs::read_to_string(example("unmap.trace")).map_err(|error| error.to_string())?;
    let store = "0 exchange 0x40003000 0x60000080000703 0x0 0x60000080000703";
    let mapped = temporary("mapped.trace", &text.replace(store, "").replace("0 revoked 0x0 0xfff ---/---", ""))?;
    expect(&[&mapped], 0, &["no rule is broken"])?;
    expect(&[&mapped, "--strict"], 1, &["V3: given away while an entry still refers to it"])?;
    expect(&[&example("unmap.trace"), "--strict"], 0, &["no rule is broken"])?;
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
    let path = temporary_bytes("latin1.trace", b"vellum trace 1\ncpu 0\n0 isb # caf\xe9\n0 isb\n")?;
    expect(&[&path], 2, &["latin1.trace:3: the byte 0xe9 is not text, expected UTF-8"])?;
    expect(&["/nowhere/a.trace"], 2, &["/nowhere/a.trace: No such file"])?;
    // What was found before the line that cannot have happened is told.
    let text = fs::read_to_string(example("live-change.trace")).map_err(|error| error.to_string())?;
    let path = temporary("contradiction.trace", &(text + "0 load 0x40003000 0x5\n"))?;
    expect(&[&path], 2, &["contradiction.trace:28: V2", "contradiction.trace:31: 0x5 was found", "since line 28"])?;
    let path = temporary("cut.trace", "vellum trace 1\ncpu 0\n0 store 0 1\n0 load 0 2\n0 isb\n")?;
    expect(
        &[&path],
        2,
        &["cut.trace: judged only as far as it makes sense: 1 event, no rule is broken", "cut.trace:4: 0x2 was found"],
    )?;
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
    temporary_bytes(name, text.as_bytes())
}

fn temporary_bytes(name: &str, text: &[u8]) -> Result<String, String> {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("judge-{}-{name}", std::process::id()));
    fs::write(&path, text).map_err(|error| error.to_string())?;
    Ok(path.display().to_string())
}
