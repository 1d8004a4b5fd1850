//! `vellum decode`: a register, a descriptor or an operand in words, each field with its bits.

mod descriptor;
mod register;
mod syndrome;
mod tlbi;

use image::number;
use vmsa::Midr;
use vmsa::fields::{self, Register};

use crate::Status;
use crate::args::{DecodeArguments, EncodingArguments};
use crate::select::Failure;

pub(crate) use descriptor::{leaf_format, table_format};
pub(crate) use register::find;

/// Runs the command.
pub(crate) fn run(arguments: &DecodeArguments) -> Result<Status, Failure> {
    let text = decode(&arguments.what, &arguments.values, &arguments.encoding)?;
    terminal::try_print(&text)?;
    Ok(Status::Clean)
}

/// The words for a value, or for an operation and its operand.
pub(crate) fn decode(what: &str, values: &[String], encoding: &EncodingArguments) -> Result<String, Failure> {
    if what.eq_ignore_ascii_case("tlbi") {
        return tlbi::decode(values);
    }
    let [value] = values else {
        return Err(Failure(format!("decode {what} takes one value, not {}", values.len())));
    };
    let value = number(value)?;
    match what.to_ascii_lowercase().as_str() {
        "descriptor" | "pte" => Ok(descriptor::decode(value, encoding)?),
        "esr" | "esr_el1" | "esr_el2" => Ok(syndrome::decode(value)),
        "midr" | "midr_el1" => Ok(midr(value)),
        "par" | "par_el1" if value & 1 != 0 => Ok(syndrome::decode_par_fault(value)),
        name => {
            let register = find(name).ok_or_else(|| unknown(what, &["descriptor", "esr", "tlbi"]))?;
            Ok(register::decode(register, value))
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

fn midr(value: u64) -> String {
    let mut text = register::decode(&fields::MIDR_EL1, value);
    let cpu = Midr::new(value as u32);
    let resizing = if cpu.tolerates_resizing() { "tolerates" } else { "is not known to tolerate" };
    text += &format!("  {cpu}; {resizing} leaves that change size while live, beyond what ID_AA64MMFR2_EL1.BBM says\n");
    if cpu.must_repeat_tlbi() {
        text += "  each TLBI and its DSB must be issued twice (CVE-2025-10263)\n";
    }
    text
}

#[cfg(test)]
mod tests;
