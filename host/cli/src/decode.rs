//! `vellum decode`: a register, a descriptor or an operand in words, each field with its bits; or all that an oops holds.

mod conclusions;
mod descriptor;
mod linux;
pub(crate) mod oops;
mod register;
mod syndrome;
mod tlbi;

use std::fmt;

use serde_json::{Value, json};
use terminal::{Ending, Table};
use vmsa::Midr;
use vmsa::fields::{self, Register};

use crate::args::values::word;
use crate::args::{DecodeArguments, EncodingArguments};
use crate::select::Failure;

pub(crate) use descriptor::{leaf_format, table_format};
pub(crate) use register::{find, is_word};

/// A value in words.
#[derive(Clone, Default, Debug)]
pub(crate) struct Words {
    /// What it is.
    head: String,
    /// Its fields: name, bits, value, what the value says.
    fields: Vec<[String; 4]>,
    /// What follows from several fields together.
    conclusions: Vec<String>,
}

impl Words {
    fn json(&self) -> Value {
        let field = |[name, bits, value, says]: &[String; 4]| json!({ "name": name, "bits": bits, "value": value, "says": says });
        let fields: Vec<Value> = self.fields.iter().map(field).collect();
        json!({ "kind": "decoded", "says": self.head, "fields": fields, "conclusions": self.conclusions })
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.head)?;
        let mut table = Table::new("  ");
        self.fields.iter().for_each(|row| table.row(row.iter().map(String::as_str)));
        write!(f, "{table}")?;
        self.conclusions.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &DecodeArguments) -> Result<Ending, Failure> {
    let DecodeArguments { what, values, json, encoding, mmfr0 } = arguments;
    if let Some(text) = oops::text(what, values)? {
        return oops::run(&text, *json, encoding);
    }
    let words = decode(what, values, encoding, *mmfr0)?;
    terminal::try_print(if *json { format!("{}\n", words.json()) } else { words.to_string() })?;
    Ok(Ending::Clean)
}

/// The words for a value, or for an operation and its operand.
pub(crate) fn decode(
    what: &str,
    values: &[String],
    encoding: &EncodingArguments,
    mmfr0: Option<u64>,
) -> Result<Words, Failure> {
    let name = what.to_ascii_lowercase();
    match (name.as_str(), values) {
        ("tlbi", _) => return tlbi::decode(values),
        ("ptdump", [_, ..]) => return linux::ptdump(&values.join(" ")),
        (_, [_]) => {}
        _ => return Err(Failure(format!("decode {what} takes one value, not {}", values.len()))),
    }
    let value = word(&values[0])?;
    match name.as_str() {
        "descriptor" | "pte" => descriptor::decode(value, encoding),
        "esr" | "esr_el1" | "esr_el2" | "esr_el3" | "hsr" => Ok(syndrome::decode(value)),
        "midr" | "midr_el1" => Ok(midr(value)),
        "par" | "par_el1" if value & 1 != 0 => Ok(syndrome::decode_par_fault(value)),
        "pagemap" => Ok(linux::pagemap(value)),
        name => {
            let register =
                find(name).ok_or_else(|| unknown(what, &["descriptor", "esr", "tlbi", "oops", "pagemap", "ptdump"]))?;
            Ok(register::decode(register, name, value, mmfr0))
        }
    }
}

/// What there is, in one line: these, and every register.
pub(crate) fn unknown(what: &str, others: &[&str]) -> Failure {
    let registers = Register::ALL.iter().map(|register| register.name.to_ascii_lowercase());
    let mut names: Vec<String> = others.iter().map(|name| (*name).to_owned()).chain(registers).collect();
    names.dedup();
    Failure(format!("nothing known of `{what}`: expected {}", names.join(", ")))
}

fn midr(value: u64) -> Words {
    let mut words = register::decode(&fields::MIDR_EL1, "midr_el1", value, None);
    let cpu = Midr::new(value as u32);
    let resizing = if cpu.tolerates_resizing() { "tolerates" } else { "is not known to tolerate" };
    words
        .conclusions
        .push(format!("{cpu}; {resizing} leaves that change size while live, beyond what ID_AA64MMFR2_EL1.BBM says"));
    if cpu.must_repeat_tlbi() {
        words.conclusions.push("each TLBI and its DSB must be issued twice (CVE-2025-10263)".to_owned());
    }
    words
}

#[cfg(test)]
mod tests;
