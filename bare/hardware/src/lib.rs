//! Every instruction of the kernel that is not Rust: boot, exceptions, system registers, devices
#![no_std]
