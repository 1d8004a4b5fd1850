//! What the plugin is asked for: its arguments, `name=value` each.

use std::collections::BTreeSet;
use std::ffi::c_uint;
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
    /// Fields of what CPUs are taken to be: every one, or the one of a number.
    pub(crate) cpu: Vec<(Option<c_uint>, String)>,
}

impl Options {
    /// `report=PATH trace=PATH forget=ADDRESS stop free=… cpu=FIELD=VALUE cpu=cpuN.FIELD=VALUE`
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
                    let (which, field) = of_cpu(value).ok_or_else(|| failed(&"expected cpu=cpuN.FIELD=VALUE"))?;
                    set_features(&mut Features::plain(), field).map_err(|what| failed(&what))?;
                    options.cpu.push((which, field.to_owned()));
                }
                _ => return Err(format!("{word}, expected report=, trace=, forget=, stop, free= or cpu=")),
            }
        }
        Ok(options)
    }
}

/// `FIELD=VALUE` of every CPU, or `cpuN.FIELD=VALUE` of one.
fn of_cpu(text: &str) -> Option<(Option<c_uint>, &str)> {
    match text.strip_prefix("cpu") {
        Some(rest) => rest.split_once('.').and_then(|(number, field)| Some((Some(number.parse().ok()?), field))),
        None => Some((None, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_of_every_cpu_or_of_one() {
        let read = |words: &[&str]| Options::read(&words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        let cpu = read(&["cpu=bbm=3", "cpu=cpu1.bbm=0"]).map(|it| it.cpu);
        assert_eq!(cpu, Ok(vec![(None, "bbm=3".to_owned()), (Some(1), "bbm=0".to_owned())]));
        for wrong in ["cpu=cpu.bbm=0", "cpu=cpux.bbm=0", "cpu=cpu1", "cpu=cpu1.speed=1", "cpu=bbm"] {
            assert!(read(&[wrong]).is_err(), "{wrong}");
        }
    }
}
