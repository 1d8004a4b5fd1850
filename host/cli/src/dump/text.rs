//! The text format of `kernel_page_tables`.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::rc::Rc;

use image::{Root, Span, Table};
use vmsa::Descriptor;
use vmsa::ptdump::{Marker, Naming, Ptdump};

use super::Format;
use crate::leaf;
use crate::only::Filter;
use crate::words::naming;

/// Lets a formatter write where only bytes can be written. A formatter's error says nothing, so the real one is kept where
/// its owner finds it.
struct Utf8<'a> {
    out: &'a mut dyn Write,
    error: Rc<RefCell<Option<io::Error>>>,
}

impl fmt::Write for Utf8<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_all(text.as_bytes()).map_err(|error| {
            self.error.borrow_mut().get_or_insert(error);
            fmt::Error
        })
    }
}

/// Writes lines as the formatter of `vmsa` merges them. A dump that leaves something out is one of several stretches.
pub(super) struct Text<'a> {
    root: &'a Root,
    range: (u64, u64),
    filter: &'a Filter,
    naming: Naming,
    markers: &'a [Marker<'a>],
    stretch: Stretch<'a>,
    error: Rc<RefCell<Option<io::Error>>>,
}

enum Stretch<'a> {
    /// Nothing shown is pending.
    Closed(Utf8<'a>),
    /// Lines are being merged, up to this address.
    Open(Ptdump<'a, Utf8<'a>>, u64),
    /// A write failed.
    Broken,
}

impl<'a> Text<'a> {
    pub(super) fn new(
        root: &'a Root,
        range: (u64, u64),
        filter: &'a Filter,
        markers: &'a [Marker<'a>],
        out: &'a mut dyn Write,
    ) -> Self {
        let markers = if filter.is_all() { markers } else { &[] };
        let error = Rc::default();
        let stretch = Stretch::Closed(Utf8 { out, error: Rc::clone(&error) });
        Self { root, range, filter, naming: naming(root), markers, stretch, error }
    }

    /// The error behind a failed write.
    fn why(&self) -> io::Error {
        self.error.borrow_mut().take().unwrap_or_else(|| io::Error::other("the text cannot be written"))
    }

    fn entry(&mut self, input: u64, end: u64, span: &Span) -> fmt::Result {
        if let Stretch::Closed(_) = self.stretch
            && let Stretch::Closed(out) = std::mem::replace(&mut self.stretch, Stretch::Broken)
        {
            self.stretch = Stretch::Open(Ptdump::new(out, self.naming, self.markers), end);
        }
        let Stretch::Open(dump, reached) = &mut self.stretch else { return Err(fmt::Error) };
        *reached = end;
        let permits = leaf::permitted(self.root, span.descriptor, span.inherited);
        dump.entry_that(permits, input, span.level, span.descriptor)
    }

    /// Ends the lines that are pending.
    fn close(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.stretch, Stretch::Broken) {
            Stretch::Open(dump, end) => {
                self.stretch = Stretch::Closed(dump.finish(end).map_err(|_| self.why())?);
            }
            other => self.stretch = other,
        }
        Ok(())
    }
}

impl Format for Text<'_> {
    fn span(&mut self, span: &Span) -> io::Result<()> {
        if !self.filter.shows(self.root, span) {
            return self.close();
        }
        // A hole reaches as far as one likes: it is cut to the range. A leaf is shown whole.
        let is_hole = span.descriptor.bits() == 0;
        let input = if is_hole { span.input.max(self.range.0) } else { span.input };
        let bytes = span.count << self.root.shape.shift(span.level);
        let end = span.input.wrapping_add(bytes);
        let end = if is_hole { cut(end, self.range.1) } else { end };
        self.entry(input, end, span).map_err(|_| self.why())
    }

    fn table(&mut self, _: &Table, _: &[Descriptor]) -> io::Result<()> {
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.close()
    }
}

/// The earlier of the end of a hole and the end of the range; 0 is the end of the address space.
pub(super) fn cut(end: u64, last_wanted: u64) -> u64 {
    if end.wrapping_sub(1) > last_wanted { last_wanted.wrapping_add(1) } else { end }
}
