//! What the plugin is asked for: its arguments, `name=value` each.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::net::UnixStream;

use machine::registers::Features;
use machine::trace::set_features;

use crate::frees::Free;

/// What the plugin is asked for.
#[derive(Default, Debug)]
pub(crate) struct Options {
    pub(crate) report: Option<UnixStream>,
    pub(crate) trace: Option<File>,
    pub(crate) forgotten: BTreeSet<u64>,
    /// The first finding that is not excused holds the guest.
    pub(crate) stops: bool,
    /// Functions that free memory.
    pub(crate) frees: Vec<Free>,
    /// Fields of what every CPU is taken to be.
    pub(crate) cpu: Vec<String>,
}

impl Options {
    /// `report=PATH trace=PATH forget=ADDRESS stop free=… cpu=FIELD=VALUE`
    pub(crate) fn read(words: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let failed = |error: &dyn std::fmt::Display| format!("{word}: {error}");
            match name {
                "report" => options.report = Some(UnixStream::connect(value).map_err(|error| failed(&error))?),
                "trace" => options.trace = Some(File::create(value).map_err(|error| failed(&error))?),
                "forget" => {
                    let address = value.strip_prefix("0x").and_then(|it| u64::from_str_radix(it, 16).ok());
                    options.forgotten.insert(address.ok_or_else(|| failed(&"expected forget=0xADDRESS"))?);
                }
                // QEMU says `stop=on` of a word without a value.
                "stop" => options.stops = true,
                "free" => {
                    options.frees.push(Free::parse(value).ok_or_else(|| failed(&"expected free=0xADDRESS:xN:xN"))?);
                }
                "cpu" => {
                    set_features(&mut Features::plain(), value).map_err(|what| failed(&what))?;
                    options.cpu.push(value.to_owned());
                }
                _ => return Err(format!("{word}, expected report=, trace=, forget=, stop, free= or cpu=")),
            }
        }
        Ok(options)
    }
}
