//! The words of the 64-bit Arm virtual memory system architecture: levels, granules, descriptors, TLB maintenance
#![no_std]
#![forbid(unsafe_code)]
