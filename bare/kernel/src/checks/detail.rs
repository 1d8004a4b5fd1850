//! What a check says of what it did and saw.

use core::fmt::{self, Write};

/// What a check did and saw: one line of text.
pub(super) struct Detail {
    bytes: [u8; 160],
    length: usize,
}

impl Detail {
    pub(super) const EMPTY: Self = Self { bytes: [0; 160], length: 0 };

    /// What was written.
    pub(super) fn text(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or("text that was cut")
    }
}

/// Writes to a detail, which never fails: what does not fit is cut.
macro_rules! tell {
    ($detail:expr, $($argument:tt)*) => {{
        let _ = core::fmt::Write::write_fmt($detail, format_args!($($argument)*));
    }};
}
pub(super) use tell;

impl Write for Detail {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - self.length;
        let taken = text.len().min(room);
        self.bytes[self.length..self.length + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        Ok(())
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
