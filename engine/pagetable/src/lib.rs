//! An arm64 page-table engine: plan, then apply
#![no_std]
#![forbid(unsafe_code)]
