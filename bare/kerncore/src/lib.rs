//! The kernel's algorithms, apart from any machine, so that they test on a host
#![no_std]
#![forbid(unsafe_code)]
