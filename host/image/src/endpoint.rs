//! Where a conversation takes place: a Unix socket or a TCP port.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::Error;

/// The other end of a conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
}

/// A connection either way, and the clock by which it is waited for.
pub(crate) trait Stream: Read + Write {
    fn now(&self) -> Instant {
        Instant::now()
    }
}

impl Stream for UnixStream {}

impl Stream for TcpStream {}

/// How long one read waits. Whoever reads looks at the clock then.
const A_READ: Duration = Duration::from_secs(1);

impl Endpoint {
    /// Connects; a write that waits longer than `patience` fails, and a read that waits longer than a second.
    /// `option` is QEMU's for a server there.
    pub(crate) fn connect(&self, patience: Duration, option: &str) -> Result<Box<dyn Stream>, Error> {
        let about = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                Error::new(format!("{self}: {error}: nobody listens there, begin QEMU with {}", self.served_by(option)))
            }
            _ => Error::io(self, &error),
        };
        match self {
            Self::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(about)?;
                stream.set_read_timeout(Some(A_READ)).map_err(about)?;
                stream.set_write_timeout(Some(patience)).map_err(about)?;
                Ok(Box::new(stream))
            }
            Self::Tcp(name) => {
                let mut addresses = name.to_socket_addrs().map_err(about)?;
                let address = addresses.next().ok_or_else(|| about(ErrorKind::NotFound.into()))?;
                let stream = TcpStream::connect_timeout(&address, patience).map_err(about)?;
                stream.set_read_timeout(Some(A_READ)).map_err(about)?;
                stream.set_write_timeout(Some(patience)).map_err(about)?;
                // Requests are small, and each waits for its reply.
                stream.set_nodelay(true).map_err(about)?;
                Ok(Box::new(stream))
            }
        }
    }
}

impl Endpoint {
    /// With what QEMU has a server there.
    fn served_by(&self, option: &str) -> String {
        match self {
            Self::Unix(path) => format!("{option} unix:{},server=on,wait=off", path.display()),
            Self::Tcp(name) => format!("{option} tcp:{name}"),
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
