//! A plan as a page: the columns as bars, for each page size how far TLB entries reach, and the figures as tables.

use maud::{Markup, html};

use super::build::Column;
use super::memory::Memory;
use super::plot::{self, Bar, Curve};
use super::shape::Shape;
use super::tell::{self, Error};
use crate::args::Policy;
use crate::dump::size;
use crate::page::framed;

/// The page of a plan.
pub(super) fn page(memory: &Memory, columns: &[Column]) -> String {
    let sections = html! {
        section aria-labelledby="bars" {
            h2 #bars { "Side by side" }
            (plot::bars("Bytes of tables", 16, bytes, &groups(columns, |shape| (shape.table_bytes(), tell::taken(shape.table_bytes())))))
            (plot::bars("TLB entries for 90% of memory", 10, plot::counted, &groups(columns, |shape| {
                let entries = tell::covering(shape, 90);
                (entries, entries.to_string())
            })))
        }
        @if let Some(now) = &memory.now {
            section aria-labelledby="now" {
                h2 #now { (memory.name) " " (tell::now_in_words(now)) }
                table { tbody { @for row in tell::as_it_is(now) { tr { th scope="row" { (row[0]) } td.number { (row[1]) } } } } }
                @for error in tell::by_page_size(columns).filter_map(|of_size| Error::of(now, of_size)) { p { "Beside the plans: " (error) "." } }
            }
        }
        div #figures { @for of_size in tell::by_page_size(columns) { (one_size(of_size)) } }
    };
    let title = format!("A linear map of {}", memory.name.trim_start_matches("the linear map of "));
    framed(&title, ("figures", "To the figures"), &sections, &html! {})
}

/// Bars for each page size, and once more for what is left where pages are protected.
fn groups(columns: &[Column], of: impl Fn(&Shape) -> (u64, String)) -> Vec<(String, Vec<Bar>)> {
    let bar = |policy: Policy, shape: &Shape| {
        let (value, told) = of(shape);
        Bar { name: policy.name(), colour: colour(policy), value, told }
    };
    let mut groups = Vec::new();
    for of_size in tell::by_page_size(columns) {
        let name = format!("{} pages", of_size[0].shape.page_size);
        let bars = of_size.iter().map(|column| bar(column.policy, &column.shape));
        groups.push((name.clone(), bars.collect()));
        let protected: Vec<_> =
            of_size.iter().filter_map(|column| Some((column.policy, column.protected.as_ref()?))).collect();
        if let Some((_, first)) = protected.first() {
            let bars = protected.iter().map(|(policy, of)| bar(*policy, &of.shape)).collect();
            groups.push((format!("{name}, {} of them read-only", first.pages), bars));
        }
    }
    groups
}

fn bytes(number: u64) -> String {
    if number < 1 << 10 { number.to_string() } else { size(number) }
}

/// A policy has one colour throughout.
const fn colour(policy: Policy) -> usize {
    policy as usize
}

fn one_size(of_size: &[Column]) -> Markup {
    let id = format!("pages{}", of_size[0].shape.page_size);
    let curve = |column: &Column| Curve {
        name: column.policy.name(),
        colour: colour(column.policy),
        needs: (1..=100).map(|share| tell::covering(&column.shape, share)).collect(),
    };
    let rows = tell::side_by_side(of_size);
    html! {
        section aria-labelledby=(id) {
            h2 id=(id) { (tell::heading(of_size)) }
            (plot::curves("Memory that so many TLB entries cover", &of_size.iter().map(curve).collect::<Vec<_>>()))
            table {
                thead { tr { @for (place, name) in rows[0].iter().enumerate() {
                    @if place == 0 { td {} } @else { th.number scope="col" { (name) } }
                } } }
                tbody { @for row in &rows[1..] {
                    tr { th.under[row[0].starts_with(' ')] scope="row" { (row[0].trim()) } @for cell in &row[1..] { td.number { (cell) } } }
                } }
            }
        }
    }
}
