//! Which gdb server a QEMU has already, read off the character devices that it lists.
//!
//! Starting another ends the one that is there, with its socket: a debugger's way in would be gone. `-gdb tcp::1234` and
//! `-s` make a device called `gdb`; with `-gdb chardev:ID` only the server's own monitor tells that there is one.

use serde_json::Value;

use crate::endpoint::Endpoint;

/// What is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Server {
    /// None: one may be started.
    Absent,
    /// One that nobody talks to.
    Idle(Endpoint),
    /// One that a debugger talks to, or one that cannot be reached.
    Taken,
    /// One of these sockets may be one, each as a source or as QEMU calls it.
    Perhaps(Vec<String>),
}

/// The server in the answer to `query-chardev`; `own` is the socket that this question went through.
pub(super) fn find(chardevs: &Value, own: &str) -> Server {
    let all = || chardevs.as_array().into_iter().flatten();
    let text = |device: &Value, key: &str| device[key].as_str().unwrap_or_default().to_owned();
    if let Some(device) = all().find(|device| device["label"] == "gdb") {
        return socket(&text(device, "filename")).map_or(Server::Taken, Server::Idle);
    }
    // The monitor of a server outlives it: a server that has ended looks like one whose device has another name.
    let had_one = all().any(|device| device["filename"] == "gdb");
    let is_other = |device: &&Value| {
        let (label, file) = (text(device, "label"), text(device, "filename"));
        let is_known = ["compat_monitor", "serial", "parallel"].iter().any(|name| label.starts_with(name));
        file.contains(",server=on") && !is_known && !file.contains(&format!("unix:{own},"))
    };
    let others: Vec<String> = all().filter(is_other).map(|device| source(&text(device, "filename"))).collect();
    if had_one && !others.is_empty() { Server::Perhaps(others) } else { Server::Absent }
}

/// Where a socket that waits for its first reader listens: `disconnected:tcp:0.0.0.0:1234,server=on`.
fn socket(filename: &str) -> Option<Endpoint> {
    let (place, _) = filename.strip_prefix("disconnected:")?.split_once(",server=on")?;
    match place.split_once(':')? {
        ("unix", path) => Some(Endpoint::Unix(path.into())),
        ("tcp", name) => Some(Endpoint::Tcp(name.to_owned())),
        _ => None,
    }
}

/// A socket as a source, if it waits for a reader.
fn source(filename: &str) -> String {
    match socket(filename) {
        Some(Endpoint::Unix(path)) => format!("qemu:unix:{}", path.display()),
        Some(Endpoint::Tcp(name)) => format!("qemu:{name}"),
        None => filename.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What QEMU 7.2 answered, started with the options that each line names.
    #[test]
    fn servers_are_found_as_qemu_lists_them() {
        let monitor = json!({"label": "#chr087", "filename": "gdb", "frontend-open": true});
        let qmp = json!({"label": "compat_monitor0", "filename": "unix:/run/q,server=on", "frontend-open": true});
        let device = |label: &str, filename: &str| json!({"label": label, "filename": filename});
        let table = [
            (vec![qmp.clone()], Server::Absent),
            // -gdb tcp::12345
            (
                vec![device("gdb", "disconnected:tcp:0.0.0.0:12345,server=on"), monitor.clone()],
                Server::Idle(Endpoint::Tcp("0.0.0.0:12345".to_owned())),
            ),
            // -gdb chardev:gdb
            (
                vec![device("gdb", "disconnected:unix:/run/g,server=on"), monitor.clone(), qmp.clone()],
                Server::Idle(Endpoint::Unix("/run/g".into())),
            ),
            (vec![device("gdb", "unix:/run/g,server=on"), monitor.clone()], Server::Taken),
            (vec![device("gdb", "stdio"), monitor.clone()], Server::Taken),
            // -gdb chardev:g0
            (
                vec![monitor.clone(), qmp.clone(), device("g0", "disconnected:unix:/run/g,server=on")],
                Server::Perhaps(vec!["qemu:unix:/run/g".to_owned()]),
            ),
            // One of ours that has ended.
            (vec![monitor.clone(), qmp], Server::Absent),
            (vec![monitor, device("mon", "unix:/run/own,server=on")], Server::Absent),
        ];
        for (devices, expected) in table {
            assert_eq!(find(&Value::Array(devices.clone()), "/run/own"), expected, "{devices:?}");
        }
    }
}
