//! Where a conversation takes place: a Unix socket or a TCP port.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crate::Error;

/// The other end of a conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
}

/// A connection either way.
pub(crate) trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

impl Endpoint {
    /// Connects; a read or a write that waits longer than `patience` fails.
    pub(crate) fn connect(&self, patience: Duration) -> Result<Box<dyn Stream>, Error> {
        let about = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                Error::new(format!("{self}: {error}: nobody listens there, begin QEMU with {}", self.option()))
            }
            _ => Error::io(self, &error),
        };
        match self {
            Self::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(about)?;
                stream.set_read_timeout(Some(patience)).map_err(about)?;
                stream.set_write_timeout(Some(patience)).map_err(about)?;
                Ok(Box::new(stream))
            }
            Self::Tcp(name) => {
                let mut addresses = name.to_socket_addrs().map_err(about)?;
                let address = addresses.next().ok_or_else(|| about(ErrorKind::NotFound.into()))?;
                let stream = TcpStream::connect_timeout(&address, patience).map_err(about)?;
                stream.set_read_timeout(Some(patience)).map_err(about)?;
                stream.set_write_timeout(Some(patience)).map_err(about)?;
                // Requests are small, and each waits for its reply.
                stream.set_nodelay(true).map_err(about)?;
                Ok(Box::new(stream))
            }
        }
    }
}

impl Endpoint {
    /// With which QEMU has a gdb stub there.
    fn option(&self) -> String {
        match self {
            Self::Unix(path) => format!("-gdb unix:{},server=on,wait=off", path.display()),
            Self::Tcp(name) => format!("-gdb tcp:{name}"),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(name) => f.write_str(name),
        }
    }
}
