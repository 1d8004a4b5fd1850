//! Results as data: one line for each run, columns apart by tabs, remarks after `#`.

use std::fmt::Write;

use crate::case::Case;
use crate::measurement::Measurement;
use crate::roster::Contender;
use crate::rows::Outcome;

const COLUMNS: &str = "case\tcontender\tinstructions\tunits\tfound\tchecksum\tframes\ttlbis";

/// The text of a results file. `remarks` say where and how it was measured.
pub(crate) fn to_text(remarks: &[String], measurements: &[Measurement]) -> String {
    let mut text = String::new();
    for remark in remarks {
        let _ = writeln!(text, "# {remark}");
    }
    let _ = writeln!(text, "{COLUMNS}");
    for Measurement { case, contender, instructions, outcome } in measurements {
        let Outcome { units, found, checksum, frames, tlbis } = outcome;
        let name = contender.name();
        let _ = writeln!(text, "{case}\t{name}\t{instructions}\t{units}\t{found}\t{checksum:x}\t{frames}\t{tlbis}");
    }
    text
}

/// The remarks and measurements of a results file, or the number of the line that makes no sense.
pub(crate) fn parse(text: &str) -> Result<(Vec<String>, Vec<Measurement>), usize> {
    let (mut remarks, mut measurements) = (Vec::new(), Vec::new());
    for (line, number) in text.lines().zip(1_usize..) {
        if let Some(remark) = line.strip_prefix("# ") {
            remarks.push(remark.to_string());
        } else if line != COLUMNS {
            measurements.push(measurement(line).ok_or(number)?);
        }
    }
    Ok((remarks, measurements))
}

fn measurement(line: &str) -> Option<Measurement> {
    let mut columns = line.splitn(4, '\t');
    let (case, contender) = (Case::named(columns.next()?)?, Contender::named(columns.next()?)?);
    let instructions = columns.next()?.parse().ok()?;
    let outcome = Outcome::parse(&columns.next()?.replace('\t', " "))?;
    Some(Measurement { case, contender, instructions, outcome })
}

/// Measurements as JSON: a list of objects.
pub(crate) fn to_json(measurements: &[Measurement]) -> serde_json::Value {
    let object = |measurement: &Measurement| {
        let outcome = measurement.outcome;
        serde_json::json!({
            "case": measurement.case.to_string(),
            "contender": measurement.contender.name(),
            "instructions": measurement.instructions,
            "units": outcome.units,
            "found": outcome.found,
            "checksum": format!("{:x}", outcome.checksum),
            "table_bytes": measurement.table_bytes(),
            "tlbis": outcome.tlbis,
        })
    };
    measurements.iter().map(object).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let outcome = Outcome { units: 256, found: 256, checksum: 0xc1d3, frames: 2, tlbis: 0 };
        let case = Case::named("map-largest/4k").expect("a case");
        let one = Measurement { case, contender: Contender::Ours, instructions: 3660, outcome };
        let remarks = vec!["how it was measured".to_string()];
        let text = to_text(&remarks, &[one]);
        assert_eq!(parse(&text), Ok((remarks, vec![one])));
        assert_eq!(parse(&text.replace("3660", "many")), Err(3));
    }
}
