//! Other programs, run to their end.

use std::process::{Command, Stdio};

use crate::outcome::Failure;

/// Whether a program is there, and succeeds; what it prints is not shown.
pub(crate) fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The output of a program that must end with one of these statuses.
pub(crate) fn output_with(command: &mut Command, statuses: &[i32]) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Failure::host_lacks(format!("{name}: {error}")))?;
    if output.status.code().is_some_and(|status| statuses.contains(&status)) {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(Failure::failed(format!("{name} failed: {said}")))
}

/// The output of a program that must succeed.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    output_with(command, &[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Status;

    #[test]
    fn a_program_that_fails_says_why() {
        assert!(runs("true", &[]) && !runs("false", &[]) && !runs("no-such-program-anywhere", &[]));
        assert_eq!(output(Command::new("echo").arg("x")), Ok("x\n".to_owned()));
        let failure = output(Command::new("cp").args(["/no/such/file", "/tmp"])).expect_err("there is no such file");
        assert!(failure.status == Status::Failed && failure.line.contains("/no/such/file"), "{failure}");
        let failure = output(&mut Command::new("/no/such/program")).expect_err("there is no such program");
        assert_eq!(failure.status, Status::HostLacks);
    }
}
