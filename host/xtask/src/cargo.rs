//! Cargo, and what it knows: where the workspace is, and what it holds.

use std::{
    env,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    time::{SystemTime, UNIX_EPOCH},
};

use cargo_metadata::{Metadata, MetadataCommand};

use crate::outcome::{Failure, Status};

/// The workspace's folder: this crate's grandparent.
pub(crate) fn workspace() -> PathBuf {
    let crate_folder = env::var_os("CARGO_MANIFEST_DIR").map_or(env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    crate_folder.ancestors().nth(2).map(Path::to_path_buf).unwrap_or(crate_folder)
}

/// Cargo, called in the workspace's folder.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    command.args(arguments).current_dir(workspace()).stdin(Stdio::null());
    command
}

/// Runs cargo with these variables besides its own, gives each line to `say`, and returns all of them with its success.
pub(crate) fn output(
    arguments: &[impl AsRef<str>],
    variables: &[(&str, PathBuf)],
    say: &mut dyn FnMut(&str),
) -> (String, bool) {
    let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    let mut command = cargo(&arguments);
    command.env("CARGO_TERM_COLOR", "never").env("RUSTDOCFLAGS", "-D warnings");
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let mut output = String::new();
    let result = read_all(command, &mut |line| {
        say(line);
        output.push_str(line);
        output.push('\n');
    });
    match result {
        Ok(has_succeeded) => (output, has_succeeded),
        Err(error) => (format!("{output}cargo: {error}"), false),
    }
}

/// Runs a command whose two outputs arrive in one order, as on a terminal.
fn read_all(mut command: Command, sink: &mut dyn FnMut(&str)) -> io::Result<bool> {
    let (reader, writer) = io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command keeps our ends of the pipe, and the reader would wait for them for ever.
    drop(command);
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        sink(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    Ok(child.wait()?.success())
}

/// Runs a program by cargo, and ends as it ends.
pub(crate) fn hand_over(mut command: Command) -> Result<Status, Failure> {
    match command.status().map_err(no_cargo)?.code() {
        Some(0) => Ok(Status::Passed),
        Some(2) => Ok(Status::BadInput),
        Some(3) => Ok(Status::HostLacks),
        _ => Ok(Status::Failed),
    }
}

/// Builds for the host: what is built, and cargo's arguments for it.
pub(crate) fn build_here(what: &str, mut command: Command) -> Result<(), Failure> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Failure::failed(format!("{what} does not build (the reason stands above)"))),
    }
}

/// What cargo knows of the workspace's own crates; it is asked once.
pub(crate) fn metadata() -> Result<Metadata, Failure> {
    static KNOWN: OnceLock<Result<Metadata, Failure>> = OnceLock::new();
    KNOWN.get_or_init(ask).clone()
}

fn ask() -> Result<Metadata, Failure> {
    let asked = MetadataCommand::new().current_dir(workspace()).no_deps().exec();
    asked.map_err(|error| {
        let text = error.to_string().lines().collect::<Vec<_>>().join(" ");
        Failure::failed(format!("cargo metadata: {text}"))
    })
}

/// A folder for what is built, which is not there yet.
pub(crate) fn new_folder(name: &str) -> Result<String, Failure> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(metadata()?.target_directory.join(format!("{name}-{}", since.as_nanos())).into_string())
}

fn no_cargo(error: io::Error) -> Failure {
    Failure::host_lacks(format!("cargo cannot be run: {error}; install Rust with https://rustup.rs"))
}

/// A crate for tests: its name, its manifest, and its dependencies with their kinds.
#[cfg(test)]
pub(crate) type Sample<'s> = (&'s str, &'s str, &'s [(&'s str, Option<&'s str>)]);

/// What cargo would say of these crates.
#[cfg(test)]
pub(crate) fn sample(crates: &[Sample<'_>]) -> Metadata {
    use serde_json::{Value, json};
    let dependency = |(name, kind): &(&str, Option<&str>)| json!({"name": name, "req": "*", "kind": kind, "optional": false, "uses_default_features": true, "features": []});
    let packages = crates.iter().map(|(name, manifest, dependencies)| {
        let dependencies: Vec<Value> = dependencies.iter().map(dependency).collect();
        json!({"name": name, "version": "0.1.0", "id": name, "manifest_path": manifest, "dependencies": dependencies,
               "targets": [], "features": {}})
    });
    let hosted = crates.iter().filter(|(_, manifest, _)| !manifest.contains("bare/")).map(|(name, ..)| *name);
    let members: Vec<&str> = crates.iter().map(|(name, ..)| *name).collect();
    let metadata = json!({
        "packages": packages.collect::<Vec<_>>(), "workspace_members": members, "version": 1,
        "workspace_default_members": hosted.collect::<Vec<_>>(), "workspace_root": "/v", "target_directory": "/v/target",
    });
    serde_json::from_value(metadata).expect("what cargo says")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_the_folder_with_the_lock_file() {
        assert!(workspace().join("Cargo.lock").exists());
    }

    #[test]
    fn a_command_that_fails_shows_all_it_said() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; printf three; exit 4"]);
        let mut lines = Vec::new();
        let result = read_all(command, &mut |line| lines.push(line.to_string()));
        assert!(!result.expect("sh runs"));
        assert_eq!(lines, ["one", "two", "three"]);
    }
}
