//! Packets of gdb's remote protocol: `$text#checksum`, acknowledged by `+`.

use std::time::Duration;

use crate::Error;
use crate::endpoint::{Endpoint, Stream};
use crate::peer::Peer;

/// How long a stub may take for a reply: none has to think.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than any reply, sent or expanded: a stub that sends more is none.
const MOST_BYTES: usize = 4 << 20;

/// A conversation with a stub.
pub(crate) struct Connection {
    peer: Peer,
}

impl Connection {
    pub(crate) fn open(endpoint: &Endpoint) -> Result<Self, Error> {
        let mut connection = Self::over(endpoint.to_string(), endpoint.connect(PATIENCE, "-gdb")?);
        connection.peer.write(b"+")?;
        Ok(connection)
    }

    /// A conversation over any stream.
    pub(crate) fn over(name: String, stream: Box<dyn Stream>) -> Self {
        Self { peer: Peer::new(name, " (another debugger? no gdb stub?)", stream, PATIENCE) }
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
        self.peer.write(packets.concat().as_bytes())
    }

    /// The next reply. Word that the machine has stopped is no reply: connecting stops it, and it says so when it can.
    pub(crate) fn receive(&mut self) -> Result<Vec<u8>, Error> {
        self.peer.begin_reply();
        self.packet()
    }

    /// The next packet that is a reply, within the time that this reply has.
    fn packet(&mut self) -> Result<Vec<u8>, Error> {
        loop {
            self.peer.skip_until(b'$')?;
            let raw = self.peer.take_until(b'#', MOST_BYTES)?;
            let expected = unhex(&self.peer.take::<2>()?).and_then(|bytes| bytes.first().copied());
            if expected != Some(checksum(&raw)) {
                return Err(self.peer.error("a reply with a wrong checksum"));
            }
            self.peer.write(b"+")?;
            let text = expand(&raw).ok_or_else(|| self.too_long())?;
            if !text.starts_with(b"T") && !text.starts_with(b"S") {
                return Ok(text);
            }
        }
    }

    fn too_long(&self) -> Error {
        self.peer.error(format!("a reply of more than {MOST_BYTES} bytes"))
    }

    /// What QEMU's monitor answers to a command.
    pub(crate) fn monitor(&mut self, command: &str) -> Result<String, Error> {
        let digits: String = command.bytes().map(|byte| format!("{byte:02x}")).collect();
        let mut reply = self.ask(&format!("qRcmd,{digits}"))?;
        let mut text = Vec::new();
        while let Some(more) = reply.strip_prefix(b"O").filter(|_| reply != b"OK") {
            text.extend(unhex(more).unwrap_or_default());
            if text.len() > MOST_BYTES {
                return Err(self.too_long());
            }
            // All pieces of an answer have the time of one reply.
            reply = self.packet()?;
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

fn checksum(text: &[u8]) -> u8 {
    text.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// Undoes escapes (`}` and the byte with bit 5 inverted) and runs (`*` and a count plus 29); `None` if that is too long.
fn expand(raw: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'}' => text.extend(bytes.next().map(|byte| byte ^ 0x20)),
            b'*' => {
                let count = bytes.next().map_or(0, |count| usize::from(count.saturating_sub(29)));
                let run = text.last().map(|last| vec![*last; count]);
                text.extend(run.unwrap_or_default());
            }
            _ => text.push(byte),
        }
        if text.len() > MOST_BYTES {
            return None;
        }
    }
    Some(text)
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

    /// A run is at most 97 bytes, of two.
    #[test]
    fn what_expands_too_far_is_no_reply() {
        let runs = |count: usize, more: usize| [&b"a"[..], &b"*~".repeat(count), &b"b".repeat(more)].concat();
        let count = (MOST_BYTES - 1) / 97;
        let more = MOST_BYTES - 1 - count * 97;
        assert_eq!(expand(&runs(count, more)).map(|text| text.len()), Some(MOST_BYTES));
        assert_eq!(expand(&runs(count, more + 1)), None);
        let packet = |text: &[u8]| [b"$", text, format!("#{:02x}", checksum(text)).as_bytes()].concat();
        let line = connection(&packet(&runs(10 * count, 0))).receive().unwrap_err().to_string();
        assert!(line.contains("a reply of more than"), "{line}");
    }

    #[test]
    fn the_monitor_answers_in_pieces() {
        let mut connection = connection(b"$O6869#2c$O0a#e0$OK#9a");
        assert_eq!(connection.monitor("info x").as_deref(), Ok("hi\n"));
    }

    #[test]
    fn escapes_and_runs_expand() {
        let expanded = |raw: &[u8]| expand(raw).expect("short");
        assert_eq!(expanded(b"0* 1"), b"00001");
        assert_eq!(expanded(b"}\x03}]"), b"#}");
        assert_eq!(expanded(b"*}"), b"");
        assert_eq!(unhex(b"00ff"), Some(vec![0, 255]));
        assert_eq!((unhex(b"0"), unhex(b"0g")), (None, None));
    }
}
