//! Packets of gdb's remote protocol: `$text#checksum`, acknowledged by `+`.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use crate::Error;
use crate::endpoint::{Endpoint, Stream};

/// How long a stub may take for a reply: none has to think.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than any reply: a stub that sends more is none.
const MOST_BYTES: usize = 8 << 20;

/// A conversation with a stub.
pub(crate) struct Connection {
    name: String,
    stream: Box<dyn Stream>,
    /// What has come and is not yet read.
    pending: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(endpoint: &Endpoint) -> Result<Self, Error> {
        let mut connection = Self::over(endpoint.to_string(), endpoint.connect(PATIENCE)?);
        connection.write(b"+")?;
        Ok(connection)
    }

    /// A conversation over any stream.
    pub(crate) fn over(name: String, stream: Box<dyn Stream>) -> Self {
        Self { name, stream, pending: Vec::new() }
    }

    /// Sends a command and waits for its reply.
    pub(crate) fn ask(&mut self, command: &str) -> Result<Vec<u8>, Error> {
        self.send_all(&[command.to_owned()])?;
        self.receive()
    }

    /// Sends several commands at once: their replies come in order, and the way there and back is paid once.
    pub(crate) fn send_all(&mut self, commands: &[String]) -> Result<(), Error> {
        let packets: Vec<String> =
            commands.iter().map(|command| format!("${command}#{:02x}", checksum(command.as_bytes()))).collect();
        self.write(packets.concat().as_bytes())
    }

    /// The next reply. Word that the machine has stopped is no reply: connecting stops it, and it says so when it can.
    pub(crate) fn receive(&mut self) -> Result<Vec<u8>, Error> {
        loop {
            let text = self.packet()?;
            self.write(b"+")?;
            if !text.starts_with(b"T") && !text.starts_with(b"S") {
                return Ok(text);
            }
        }
    }

    /// What QEMU's monitor answers to a command.
    pub(crate) fn monitor(&mut self, command: &str) -> Result<String, Error> {
        let digits: String = command.bytes().map(|byte| format!("{byte:02x}")).collect();
        let mut reply = self.ask(&format!("qRcmd,{digits}"))?;
        let mut text = Vec::new();
        while let Some(more) = reply.strip_prefix(b"O").filter(|_| reply != b"OK") {
            text.extend(unhex(more).unwrap_or_default());
            if text.len() > MOST_BYTES {
                return Err(Error::new(format!("{}: a reply of more than {MOST_BYTES} bytes", self.name)));
            }
            reply = self.receive()?;
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn packet(&mut self) -> Result<Vec<u8>, Error> {
        loop {
            let start = self.pending.iter().position(|byte| *byte == b'$');
            let end =
                start.and_then(|start| Some(start + self.pending[start..].iter().position(|byte| *byte == b'#')?));
            if let (Some(start), Some(end)) = (start, end)
                && let Some(digits) = self.pending.get(end + 1..end + 3)
            {
                let expected = unhex(digits).and_then(|bytes| bytes.first().copied());
                let raw = &self.pending[start + 1..end];
                if expected != Some(checksum(raw)) {
                    return Err(Error::new(format!("{}: a reply with a wrong checksum", self.name)));
                }
                let text = expand(raw);
                self.pending.drain(..end + 3);
                return Ok(text);
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<(), Error> {
        let mut chunk = [0; 1 << 16];
        match self.stream.read(&mut chunk) {
            Ok(0) => Err(Error::new(format!("{}: the stub closed the connection", self.name))),
            Ok(_) if self.pending.len() > MOST_BYTES => {
                Err(Error::new(format!("{}: a reply of more than {MOST_BYTES} bytes", self.name)))
            }
            Ok(bytes) => {
                self.pending.extend_from_slice(&chunk[..bytes]);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let wait = PATIENCE.as_secs();
                Err(Error::new(format!("{}: no reply in {wait} s (another debugger? no gdb stub?)", self.name)))
            }
            Err(error) => Err(Error::io(&self.name, &error)),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.stream.write_all(bytes).map_err(|error| Error::io(&self.name, &error))
    }
}

fn checksum(text: &[u8]) -> u8 {
    text.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// Undoes escapes (`}` and the byte with bit 5 inverted) and runs (`*` and a count plus 29).
fn expand(raw: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'}' => text.extend(bytes.next().map(|byte| byte ^ 0x20)),
            b'*' => {
                let count = bytes.next().map_or(0, |count| usize::from(count.saturating_sub(29)));
                let last = text.last().copied();
                text.extend(last.into_iter().cycle().take(if last.is_some() { count } else { 0 }));
            }
            _ => text.push(byte),
        }
    }
    text
}

/// Bytes of two hexadecimal digits each; `None` if it is anything else.
pub(crate) fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::Canned;

    fn connection(bytes: &[u8]) -> Connection {
        let stream = Box::new(Canned(bytes.iter().copied().collect()));
        Connection::over("stub".to_owned(), stream)
    }

    #[test]
    fn word_of_a_stop_is_no_reply() {
        let mut connection = connection(b"+$T02thread:01;#04$OK#9a");
        assert_eq!(connection.receive().as_deref(), Ok(&b"OK"[..]));
        assert!(connection.receive().unwrap_err().to_string().contains("closed"));
    }

    #[test]
    fn a_wrong_checksum_is_an_error() {
        assert!(connection(b"$OK#9b").receive().unwrap_err().to_string().contains("checksum"));
        assert!(connection(b"$OK#zz").receive().is_err());
    }

    #[test]
    fn the_monitor_answers_in_pieces() {
        let mut connection = connection(b"$O6869#2c$O0a#e0$OK#9a");
        assert_eq!(connection.monitor("info x").as_deref(), Ok("hi\n"));
    }

    #[test]
    fn escapes_and_runs_expand() {
        assert_eq!(expand(b"0* 1"), b"00001");
        assert_eq!(expand(b"}\x03}]"), b"#}");
        assert_eq!(expand(b"*}"), b"");
        assert_eq!(unhex(b"00ff"), Some(vec![0, 255]));
        assert_eq!((unhex(b"0"), unhex(b"0g")), (None, None));
    }
}
