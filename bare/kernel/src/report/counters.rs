//! `# linear map counters`: what the map is made of, and what became of it since boot.

use hardware::timer;
use kerncore::range::Bytes;
use linearmap::{Counters, Operations};
use vmsa::LeafSize;

use crate::console::say;
use crate::cpus::parking;
use crate::facts::{facts, page_size};
use crate::memory::{current, handed, hidden_pages, linear_map, secret, window};
use crate::report::json;

/// Prints the section.
pub(crate) fn print() {
    say!("# linear map counters");
    let (linear, table) = (facts().linear, current::upper());
    let Ok(summary) = table.summary(linear.range()) else {
        return say!("warning: the linear map could not be walked");
    };
    for size in LeafSize::all(page_size(), table.shape().layout) {
        let bytes = size.size_bytes(page_size());
        say!("mapped by leaves of {}: {}", Bytes(bytes), Bytes(table.leaves(&summary, size) as u64 * bytes));
    }
    let counters = linear_map::get().counters();
    let Counters { changes, atomic, splits, folds, windows, parked, operations, reserve, .. } = counters;
    let (tables, bytes) = (summary.tables() as u64, |tables: u64| Bytes(tables * page_size().size_bytes()));
    say!("tables: {tables} in {}, and {reserve} in reserve, {}", bytes(tables), bytes(reserve));
    say!("changes: {changes}, {atomic} of them in atomic context; splits: {splits}; folds: {folds}");
    let microseconds = |ticks: u64| ticks * 1_000_000 / timer::read_frequency().max(1);
    say!("windows: {windows}, the longest {} us", microseconds(window::longest()));
    say!("with CPUs parked: {parked}, the longest {} us", microseconds(parking::longest()));
    if hidden_pages::is_on() {
        let (not_hidden, not_shown) = hidden_pages::failures();
        say!("free pages are hidden; not hidden: {not_hidden} blocks, not shown: {not_shown}");
    }
    let (held, lost) = secret::counts();
    say!("secret pages: {held} held, {lost} lost");
    if facts().realm.is_some() {
        let (shared, leaked) = handed::counts();
        say!("shared with the host: {shared} pages; lost to it: {leaked}");
    }
    let Counters { added, removed, .. } = counters;
    say!("memory: {} added, {} removed", Bytes(added), Bytes(removed));
    let Operations { tlbi_address, tlbi_range, tlbi_everything, dsb_stores, dsb_all, isb } = operations;
    say!("TLBIs: {tlbi_address} by address, {tlbi_range} by range, {tlbi_everything} of everything");
    say!("DSBs: {dsb_stores} for stores, {dsb_all} for TLBIs; ISBs: {isb}");
    let Counters { reserve_dry, out_of_tables, not_parked, refused: asked, .. } = counters;
    let refused = json::refused(&counters);
    say!(
        "refused: {refused} ({reserve_dry} the reserve was dry, {out_of_tables} no memory for tables, {not_parked} no CPU could be \
         parked, {asked} for what they asked)",
    );
    json::counters(&counters, tables);
}
