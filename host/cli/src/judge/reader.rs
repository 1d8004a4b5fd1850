//! Whether somebody still reads what is printed, where nothing is printed for a long time.

use std::io;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Whether standard output is a pipe from which nobody reads any more. A write would tell, but there may be none for hours.
pub(super) fn is_gone() -> bool {
    let out = io::stdout();
    let mut files = [PollFd::new(out.as_fd(), PollFlags::empty())];
    let is_told = poll(&mut files, PollTimeout::ZERO).is_ok_and(|count| count > 0);
    is_told && files[0].revents().is_some_and(|told| told.contains(PollFlags::POLLERR))
}
