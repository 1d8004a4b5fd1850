//! What mutated sources call, in the copy alone: which mutant of a site runs. All were compiled; the environment chooses one.
//!
//! ```text
//! a < b    →    (::mutant::lt!(17, a, b))    →    a < b, or where site 17 was chosen: a <= b
//! ```
//!
//! A site asks a byte of its own, which says that nothing is to be done here once the first question was answered. What the
//! compiler evaluates is never a mutant: `const_eval_select`, an intrinsic, tells the two times apart, so that a `const fn`
//! stays one.
#![feature(core_intrinsics, const_eval_select)]
#![allow(internal_features, missing_docs)]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

include!("sites.rs");

/// 0 where a site was asked before and is left alone.
static STATES: [AtomicU8; SITES] = [const { AtomicU8::new(1) }; SITES];

/// What the environment asks for.
struct Plan {
    chosen: Option<(usize, u8)>,
    record: Option<File>,
}

static PLAN: OnceLock<Plan> = OnceLock::new();

impl Plan {
    fn read() -> Self {
        let chosen = std::env::var("LOGIC_MUTANT").ok().map(|text| {
            let (site, variant) = text.split_once('.').expect("a site and a variant");
            (site.parse().expect("a site"), variant.parse().expect("a variant"))
        });
        let record = std::env::var_os("LOGIC_RECORD")
            .map(|path| OpenOptions::new().append(true).create(true).open(path).expect("a file for the sites"));
        Self { chosen, record }
    }
}

/// The variant of `site` that runs; 0 is what stands in the sources.
#[inline(always)]
pub const fn at(site: usize) -> u8 {
    core::intrinsics::const_eval_select((site,), original, asked)
}

const fn original(_site: usize) -> u8 {
    0
}

#[inline(always)]
fn asked(site: usize) -> u8 {
    if STATES[site].load(Ordering::Relaxed) == 0 { 0 } else { answer(site) }
}

#[cold]
#[inline(never)]
fn answer(site: usize) -> u8 {
    let plan = PLAN.get_or_init(Plan::read);
    match plan.chosen {
        Some((chosen, variant)) if chosen == site => return variant,
        _ => STATES[site].store(0, Ordering::Relaxed),
    }
    if let Some(mut file) = plan.record.as_ref() {
        file.write_all(&(site as u32).to_le_bytes()).expect("room for a site");
    }
    0
}

/// Whether a statement, or a match of a pattern, is kept.
#[inline(always)]
pub const fn keep(site: usize) -> bool {
    at(site) == 0
}

/// A condition; or false, or true.
#[inline(always)]
pub const fn condition(site: usize, value: bool) -> bool {
    match at(site) {
        0 => value,
        1 => false,
        _ => true,
    }
}

/// What `left && …` is before its right side is known; or `left || …`, `left` alone, the right side alone.
#[inline(always)]
pub const fn and(site: usize, left: bool) -> Option<bool> {
    match (at(site), left) {
        (0, false) => Some(false),
        (0, true) | (1, false) => None,
        (1, true) => Some(true),
        (2, _) => Some(left),
        _ => None,
    }
}

/// The same of `left || …`; or `left && …`, `left` alone, the right side alone.
#[inline(always)]
pub const fn or(site: usize, left: bool) -> Option<bool> {
    match (at(site), left) {
        (0, true) => Some(true),
        (0, false) | (1, true) => None,
        (1, false) => Some(false),
        (2, _) => Some(left),
        _ => None,
    }
}

#[macro_export]
macro_rules! either {
    ($site:literal, $one:expr, $other:expr) => {
        if $crate::keep($site) { $one } else { $other }
    };
}

macro_rules! comparisons {
    ($d:tt $($name:ident: $plain:tt $first:tt $second:tt;)*) => {$(
        #[macro_export]
        macro_rules! $name {
            ($d site:literal, $d left:expr, $d right:expr) => {
                match (&$d left, &$d right) {
                    (left, right) => match $crate::at($d site) {
                        0 => *left $plain *right,
                        1 => *left $first *right,
                        _ => *left $second *right,
                    },
                }
            };
        }
    )*};
}

comparisons! { $
    lt: < <= >=;
    le: <= < >;
    gt: > >= <=;
    ge: >= > <;
    eq: == != !=;
    ne: != == ==;
}

macro_rules! operators {
    ($d:tt $($name:ident: $plain:tt $other:tt;)*) => {$(
        #[macro_export]
        macro_rules! $name {
            ($d site:literal, $d left:expr, $d right:expr) => {
                match ($d left, $d right) {
                    (left, right) => match $crate::at($d site) {
                        0 => left $plain right,
                        _ => left $other right,
                    },
                }
            };
        }
    )*};
}

operators! { $
    add: + -;
    sub: - +;
    shl: << >>;
    shr: >> <<;
    bitxor: ^ |;
}

macro_rules! masks {
    ($d:tt $($name:ident: $plain:tt $other:tt;)*) => {$(
        #[macro_export]
        macro_rules! $name {
            ($d site:literal, $d left:expr, $d right:expr) => {
                match ($d left, $d right) {
                    (left, right) => match $crate::at($d site) {
                        0 => left $plain right,
                        1 => left $other right,
                        _ => left,
                    },
                }
            };
        }
    )*};
}

masks! { $
    bitand: & |;
    bitor: | &;
}

macro_rules! assignments {
    ($d:tt $($name:ident: $plain:tt $other:tt;)*) => {$(
        #[macro_export]
        macro_rules! $name {
            ($d site:literal, $d left:expr, $d right:expr) => {
                match $d right {
                    right => if $crate::keep($d site) { $d left $plain right } else { $d left $other right },
                }
            };
        }
    )*};
}

assignments! { $
    add_assign: += -=;
    sub_assign: -= +=;
    shl_assign: <<= >>=;
    shr_assign: >>= <<=;
}

macro_rules! methods {
    ($d:tt $($name:ident: $other:ident;)*) => {$(
        #[macro_export]
        macro_rules! $name {
            ($d site:literal, $d left:expr, $d right:expr) => {
                match ($d left, $d right) {
                    (left, right) => if $crate::keep($d site) { left.$name(right) } else { left.$other(right) },
                }
            };
        }
    )*};
}

methods! { $
    min: max;
    max: min;
    wrapping_add: wrapping_sub;
    wrapping_sub: wrapping_add;
}

macro_rules! searches {
    ($d:tt $($name:ident: $other:ident;)*) => {$(
        #[macro_export]
        macro_rules! $name {
            ($d site:literal, $d left:expr, $d right:expr) => {
                if $crate::keep($d site) { $d left.$name($d right) } else { $d left.$other($d right) }
            };
        }
    )*};
}

searches! { $
    any: all;
    all: any;
}

#[macro_export]
macro_rules! not {
    ($site:literal, $value:expr) => {
        match $value {
            value => if $crate::keep($site) { !value } else { value },
        }
    };
}

/// A number, or one more, or one less.
#[macro_export]
macro_rules! near {
    ($site:literal, $number:expr) => {
        match $crate::at($site) {
            0 => $number,
            1 => $number + 1,
            _ => $number - 1,
        }
    };
}

/// The same of an end that is included.
#[macro_export]
macro_rules! less {
    ($site:literal, $number:expr) => {
        match $number {
            number => if $crate::keep($site) || number == 0 { number } else { number - 1 },
        }
    };
}
