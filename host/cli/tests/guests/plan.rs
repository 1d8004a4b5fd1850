//! `vellum plan` beside our kernel: what is planned for each page size and policy is what a boot counts of itself, exactly.

use std::path::Path;

use serde_json::Value;

use crate::guest::{Guest, Options};
use crate::report::Report;
use crate::{has_page, vellum};

const PAGE_SIZES: [&str; 3] = ["4k", "16k", "64k"];
const POLICIES: [&str; 3] = ["largest", "pages", "blocks"];

pub(crate) fn run(kernel: &Path, report: &mut Report) {
    let mut plan = None;
    for page_size in PAGE_SIZES {
        for policy in POLICIES {
            let name = format!("a plan is what a boot counts, {page_size}, {policy}");
            report.add(&name, compare(kernel, page_size, policy, &mut plan));
        }
    }
}

/// Boots, and compares. The first of the kernels tells which memory there is, for all of them.
fn compare(kernel: &Path, page_size: &str, policy: &str, plan: &mut Option<String>) -> Result<(), String> {
    let options = Options {
        kernel: kernel.to_path_buf(),
        initramfs: None,
        append: format!("arm64.pagesize={page_size} vellum.linearmap={policy} vellum.report=json"),
        cpu: "max,pauth-impdef=on".to_owned(),
        cpus: 2,
        machine: "",
        is_ready: |line| line.starts_with("verdict: "),
    };
    let (guest, said) = Guest::boot(&options)?;
    let sections: Vec<Value> = said.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let section = |name: &str| {
        let found = sections.iter().find(|section| section["section"] == name);
        found.ok_or_else(|| format!("no section {name}:\n{}", said.join("\n")))
    };
    let (summary, counters) = (section("summary")?, section("linear map counters")?);
    let planned = match plan {
        Some(planned) => planned.clone(),
        None => vellum(&["plan", "--memory", &guest.gdb(), "--json"])?.0,
    };
    let columns: Vec<Value> = planned.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let is_it = |column: &&Value| {
        column["policy"] == policy
            && column["page_size"].as_str().is_some_and(|size| size.eq_ignore_ascii_case(page_size))
    };
    let column = columns.iter().find(is_it).ok_or_else(|| format!("no such column:\n{planned}"))?;
    let pairs = [
        ("leaves", &column["leaves"], &summary["linear_map"]),
        ("bytes of tables", &column["table_bytes"], &summary["linear_map_table_bytes"]),
        ("tables in the end", &column["tables"], &counters["tables"]),
        ("reserve", &column["reserve"], &counters["reserve"]),
    ];
    for (what, planned, counted) in pairs {
        if planned != counted || counted.is_null() {
            return Err(format!("{what}: planned {planned}, counted {counted}"));
        }
    }
    has_page(&guest)?;
    plan.get_or_insert(planned);
    Ok(())
}
