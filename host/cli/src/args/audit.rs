//! The arguments of `vellum audit`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use machine::registers::Features;
use machine::trace::set_features;

#[derive(Args, Debug)]
pub(crate) struct AuditArguments {
    /// The kernel's System.map or ELF file, for names of functions
    #[arg(long, value_name = "FILE")]
    pub(crate) symbols: Option<PathBuf>,
    /// The kernel's functions that free memory: `free FUNCTION ADDRESS ORDER`, one a line, by the names in --symbols
    #[arg(long, value_name = "FILE", requires = "symbols")]
    pub(crate) frames: Option<PathBuf>,
    /// Findings that are known: `RULE FUNCTION REASON…`, one a line
    #[arg(long, value_name = "FILE")]
    pub(crate) excuses: Option<PathBuf>,
    /// What CPUs are taken to be, whatever their ID registers say, as in a `cpu` line of a trace: `bbm=0 ordered=1`, or `cpu1.bbm=0` of one
    #[arg(long, value_name = "FIELD=VALUE…", default_value = "", hide_default_value = true, value_parser = cpu_fields)]
    pub(crate) cpu: String,
    /// Write what was judged, in the format of `vellum judge`
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Take this TLBI, DSB or ISB not to have been executed; may be repeated
    #[arg(long, value_name = "SYMBOL+OFFSET|0xADDRESS|all")]
    pub(crate) forget: Vec<String>,
    /// Halt the guest at the first finding, for a debugger at localhost:1234, or where the command line has -gdb
    #[arg(long)]
    pub(crate) stop: bool,
    /// With --forget all: only in these functions
    #[arg(long, value_name = "FUNCTION,…", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// One JSON record a line, for each finding
    #[arg(long)]
    pub(crate) json: bool,
    /// The plugin; without it, the one beside this program
    #[arg(long, value_name = "FILE")]
    pub(crate) plugin: Option<PathBuf>,
    /// The command line that runs the guest
    #[arg(last = true, required = true, value_name = "QEMU")]
    pub(crate) command: Vec<String>,
}

/// Looks at the fields of every CPU, and at those of each that has its own.
fn cpu_fields(text: &str) -> Result<String, String> {
    let mut fields: BTreeMap<Option<u32>, Vec<&str>> = BTreeMap::new();
    for word in text.split([' ', ',']).filter(|it| !it.is_empty()) {
        let own = word.strip_prefix("cpu").and_then(|it| it.split_once('.'));
        let (which, field) = match own.map(|(number, field)| (number.parse().ok(), field)) {
            Some((None, _)) => return Err(format!("`{word}`, expected FIELD=VALUE, or cpuN.FIELD=VALUE")),
            Some(own) => own,
            None => (None, word),
        };
        fields.entry(which).or_default().push(field);
    }
    fields.values().try_for_each(|fields| set_features(&mut Features::plain(), &fields.join(" ")))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_has_the_fields_of_a_trace() {
        assert!(
            ["", "bbm=0", "bbm=0 ordered=1", "bbm=3 cpu1.bbm=0 cpu12.bbm=0"]
                .into_iter()
                .all(|text| cpu_fields(text).is_ok())
        );
        assert!(
            ["bbm", "bbm=4", "speed=1", "bbm=0 bbm=0", "cpu1.bbm=0 cpu1.bbm=2", "cpux.bbm=0", "cpu1.speed=1"]
                .into_iter()
                .all(|text| cpu_fields(text).is_err())
        );
    }
}
