//! A running QEMU: its output as it arrives, and its end. It never outlives us.

use std::{
    ffi::OsStr,
    io::{self, Read},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use crate::command::runs;

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// QEMU exited; with semihosting the status is the guest's own.
    Exited(i32),
    /// A signal ended QEMU.
    Signalled,
    /// No end in time: QEMU was killed.
    TimedOut,
}

/// All that a run left behind.
#[derive(Debug)]
pub(crate) struct Ended {
    /// What the guest sent to its console.
    pub(crate) output: Vec<u8>,
    /// What QEMU itself had to say.
    pub(crate) complaints: String,
    pub(crate) end: End,
}

/// Bytes as they arrive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Chunk {
    /// The guest's console.
    Output(Vec<u8>),
    /// QEMU's standard error.
    Complaint(Vec<u8>),
}

/// Kills its process when dropped, so that no early return or panic leaves it behind.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only if the process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `command` to its end, or for `timeout`, and shows each chunk to `sink` as it arrives.
///
/// Standard input is empty: the kernel reads nothing, and a terminal keeps its settings when QEMU is killed.
pub(crate) fn run(command: &mut Command, timeout: Option<Duration>, sink: &mut dyn FnMut(&Chunk)) -> io::Result<Ended> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    run_until(command, &mut || deadline, sink)
}

/// Runs `command` to its end, or until nothing has come from it for so long.
pub(crate) fn run_while_it_speaks(
    command: &mut Command,
    silence: Duration,
    sink: &mut dyn FnMut(&Chunk),
) -> io::Result<Ended> {
    run_until(command, &mut || Some(Instant::now() + silence), sink)
}

/// `deadline` is asked before each wait.
fn run_until(
    command: &mut Command,
    deadline: &mut dyn FnMut() -> Option<Instant>,
    sink: &mut dyn FnMut(&Chunk),
) -> io::Result<Ended> {
    let mut running = Running(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
    let (sender, chunks) = mpsc::channel();
    if let (Some(output), Some(complaints)) = (running.0.stdout.take(), running.0.stderr.take()) {
        forward(output, Chunk::Output, sender.clone());
        forward(complaints, Chunk::Complaint, sender);
    }
    let mut ended = Ended { output: Vec::new(), complaints: String::new(), end: End::TimedOut };
    loop {
        let received = match deadline().map(|deadline| deadline.saturating_duration_since(Instant::now())) {
            // Said here as well: a guest that never falls silent would never let the wait below run out.
            Some(Duration::ZERO) => return Ok(ended),
            Some(left) => chunks.recv_timeout(left),
            None => chunks.recv().map_err(RecvTimeoutError::from),
        };
        match received {
            Ok(chunk) => {
                sink(&chunk);
                match chunk {
                    Chunk::Output(bytes) => ended.output.extend(bytes),
                    Chunk::Complaint(bytes) => ended.complaints.push_str(&String::from_utf8_lossy(&bytes)),
                }
            }
            Err(RecvTimeoutError::Timeout) => return Ok(ended),
            // Both pipes are closed: the process is gone, or about to be.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    ended.end = running.0.wait()?.code().map_or(End::Signalled, End::Exited);
    Ok(ended)
}

/// Sends what can be read from `pipe`, until it closes, from a thread of its own.
fn forward(mut pipe: impl Read + Send + 'static, kind: fn(Vec<u8>) -> Chunk, to: Sender<Chunk>) {
    thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            if to.send(kind(buffer[..length].to_vec())).is_err() {
                break;
            }
        }
    });
}

/// A command for `program` that dies with the thread that starts it, however that one ends, where the host can do so.
///
/// The kernel's parent-death signal needs a call between fork and exec; `setpriv` of util-linux makes it for us.
pub(crate) fn tied_to_us(program: impl AsRef<OsStr>) -> Command {
    let tie = ["--pdeathsig", "KILL"];
    if !runs("setpriv", &[&tie[..], &["true"]].concat()) {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(tie).arg(program);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_complaints_and_status_arrive() {
        let mut seen = Vec::new();
        let ended = run(&mut shell("printf 'a\\r\\nb'; printf c >&2; exit 3"), None, &mut |chunk| {
            seen.push(chunk.clone());
        })
        .expect("sh runs");
        assert_eq!(ended.output, b"a\r\nb");
        assert_eq!(ended.complaints, "c");
        assert_eq!(ended.end, End::Exited(3));
        assert!(seen.contains(&Chunk::Complaint(b"c".to_vec())), "{seen:?}");
    }

    #[test]
    fn standard_input_is_empty() {
        let ended = run(&mut shell("read line || echo none"), None, &mut |_| {}).expect("sh runs");
        assert_eq!(ended.output, b"none\n");
    }

    #[test]
    fn a_timeout_kills_and_keeps_the_output_so_far() {
        // `exec`, so that the process killed is the one that would stay. A busy host may need longer to start it.
        let mut attempts = [1, 10, 100].map(|tenths| {
            let mut command = shell("echo $$; exec tail -f /dev/null");
            move || run(&mut command, Some(Duration::from_millis(100 * tenths)), &mut |_| {}).expect("sh runs")
        });
        let ended =
            attempts.iter_mut().map(|attempt| attempt()).find(|ended| !ended.output.is_empty()).expect("output");
        assert_eq!(ended.end, End::TimedOut);
        let process = String::from_utf8(ended.output).expect("a number");
        assert!(!std::path::Path::new("/proc").join(process.trim()).exists(), "process {process} was left behind");
    }

    #[test]
    fn a_guest_that_never_falls_silent_is_stopped_too() {
        let ended = run(&mut shell("exec yes"), Some(Duration::from_millis(100)), &mut |_| {}).expect("sh runs");
        assert_eq!(ended.end, End::TimedOut);
    }

    #[test]
    fn a_signal_is_not_a_status() {
        let ended = run(&mut shell("kill -9 $$"), None, &mut |_| {}).expect("sh runs");
        assert_eq!(ended.end, End::Signalled);
    }

    #[test]
    fn a_tied_command_runs_its_program() {
        let ended = run(tied_to_us("sh").args(["-c", "exit 7"]), None, &mut |_| {}).expect("sh runs");
        assert_eq!(ended.end, End::Exited(7));
    }
}
