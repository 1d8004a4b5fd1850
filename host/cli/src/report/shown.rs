//! The page: what is known of the machine, the picture, sums, findings. Everything it needs stands in it.

use image::Registers;
use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};
use vmsa::{IdRegisters, Layout, Level, Midr};

use super::changes::{self, Change, Kind, Pair};
use super::whose::{Whose, link};
use super::{Snapshot, drawing};
use crate::args::{PlanArguments, Policy};
use crate::check::finding::Finding;
use crate::check::kinds::Rank;
use crate::dump::{bytes_as_text, size};
use crate::page::framed;
use crate::plan;
use crate::plan::shape::Shape;
use crate::select::Failure;
use crate::space::Space;

const SCRIPT: &str = include_str!("shown.js");
const GIB: u64 = 1 << 30;
/// How many findings are told; more are no help, and would make the page large.
const TOLD: usize = 500;

/// The page of one machine, or of two and what differs.
pub(super) fn page(before: &Snapshot, after: Option<&Snapshot>) -> String {
    let both: Vec<&Snapshot> = [Some(before), after].into_iter().flatten().collect();
    let both: Vec<(&Snapshot, Whose)> =
        both.iter().enumerate().map(|(place, of)| (*of, Whose::new(place, &both))).collect();
    let title = match after {
        Some(after) => format!("From {} to {}", before.name, after.name),
        None => format!("The page tables of {}", before.name),
    };
    let data = data(before, after).to_string().replace('<', "\\u003c");
    let sections = html! {
        @for (of, whose) in &both { (machine(of, whose)) }
        (picture(before, after))
        @for (of, whose) in &both { (places(of, whose)) }
        @if let Some(after) = after { (differences(before, after)) }
        @for (of, whose) in &both {
            @for (number, space) in of.spaces.iter().enumerate() { (sums(number, space, whose)) }
        }
        @for (of, whose) in &both { (findings(of, whose)) }
    };
    let script = html! {
        script type="application/json" id="data" { (PreEscaped(data)) }
        script { (PreEscaped(SCRIPT)) }
    };
    framed(&title, ("findings", "To the findings"), &sections, &script)
}

/// What the script draws.
fn data(before: &Snapshot, after: Option<&Snapshot>) -> Value {
    let mut styles = Vec::new();
    let strips: Vec<Value> = match after {
        None => before.spaces.iter().map(|space| json!({ "before": drawing::drawing(space, &mut styles) })).collect(),
        Some(after) => changes::pairs(&before.spaces, &after.spaces)
            .iter()
            .map(|pair| {
                json!({
                    "before": pair.before.map(|old| drawing::drawing(old, &mut styles)),
                    "after": pair.after.map(|new| drawing::drawing(new, &mut styles)),
                    "differs": drawing::difference(pair.space, &changes::changes(pair)),
                    "fate": pair.fate().map(word),
                })
            })
            .collect(),
    };
    json!({ "styles": styles, "tables": strips })
}

fn machine(of: &Snapshot, whose: &Whose) -> Markup {
    html! {
        section aria-labelledby=(whose.id("machine")) {
            h2 id=(whose.id("machine")) { "The machine" (whose.name) }
            @if of.cpus.iter().all(|cpu| cpu.get("MIDR_EL1").or(cpu.get("ID_AA64MMFR0_EL1")).is_none()) { p { "The source does not tell what its CPUs are." } }
            @else {
                table {
                    thead { tr { th scope="col" { "CPU" } th scope="col" { "Model" } th scope="col" { "Level of FEAT_BBM" } th scope="col" { "Page sizes" } th scope="col" { "Physical addresses" } th scope="col" { "Features of translation" } } }
                    tbody { @for (number, cpu) in of.cpus.iter().enumerate() { (one_cpu(number, cpu)) } }
                }
            }
            table {
                thead { tr { th scope="col" { "Page table" } th scope="col" { "At" } th scope="col" { "Pages" } th scope="col" { "Bits" } th scope="col" { "Addresses in descriptors" } th scope="col" { "First level" } th scope="col" { "Known by" } } }
                tbody {
                    @for Space { root, .. } in &of.spaces {
                        tr {
                            th scope="row" { (root.regime.register()) }
                            td { code { (format!("{:#x}", root.address.bits())) } }
                            td { (root.shape.page_size) }
                            td { (root.shape.input_bits) }
                            td { (layout(root.shape.layout)) }
                            td { (root.shape.start.number()) }
                            td { (root.origin) }
                        }
                    }
                }
            }
        }
    }
}

fn layout(layout: Layout) -> &'static str {
    match layout {
        Layout::Bits48 => "48 bits",
        Layout::Lpa => "52 bits, LPA",
        Layout::Lpa2 => "52 bits, LPA2",
    }
}

/// A dash where the source does not tell.
fn one_cpu(number: usize, cpu: &Registers) -> Markup {
    let mmfr = |name: &str| cpu.get(&format!("ID_AA64MMFR{name}_EL1"));
    let id = mmfr("0").map(|mmfr0| IdRegisters {
        mmfr0,
        mmfr1: mmfr("1").unwrap_or(0),
        mmfr2: mmfr("2").unwrap_or(0),
        ..IdRegisters::default()
    });
    let midr = cpu.get("MIDR_EL1").map(|bits| Midr::new(bits as u32));
    let told = |text: Option<String>| text.unwrap_or_else(|| "—".to_owned());
    let sizes = |id: &IdRegisters| {
        let sizes = vmsa::PageSize::ALL.into_iter().filter(|size| id.has_granule(*size));
        sizes.map(|size| size.to_string()).collect::<Vec<_>>().join(", ")
    };
    html! {
        tr {
            th scope="row" { (number) }
            td { (told(midr.map(|midr| midr.to_string()))) }
            td { (told(id.filter(|_| mmfr("2").is_some()).map(|id| id.bbm().to_string()))) }
            td { (told(id.map(|id| sizes(&id)))) }
            td { (told(id.map(|id| format!("{} bits", id.output_bits())))) }
            td { (told(id.map(features))) }
        }
    }
}

/// What a CPU can do beyond what every one can, as the manual names that.
fn features(id: IdRegisters) -> String {
    let has_lpa2 = vmsa::PageSize::ALL.into_iter().any(|size| id.has_lpa2(size));
    let all = [
        ("FEAT_LPA2", has_lpa2),
        ("FEAT_LVA", id.largest_input_bits(vmsa::PageSize::Size64K) > 48),
        ("FEAT_HAFDBS", id.has_hardware_access_flag()),
        ("FEAT_HPDS", id.has_hierarchical_disable()),
        ("FEAT_TTCNP", id.has_common_not_private()),
        ("FEAT_TTL", id.has_level_hints()),
        ("FEAT_ETS2", id.ets() >= 2),
        ("FEAT_VHE", id.has_host_extensions()),
        ("FEAT_S2FWB", id.has_forced_write_back()),
        ("FEAT_XNX", id.has_stage2_user_execute()),
    ];
    let names: Vec<&str> = all.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// What the script fills.
fn picture(before: &Snapshot, after: Option<&Snapshot>) -> Markup {
    let named =
        |of: &Snapshot, otherwise: &'static str| if of.is_called { of.name.clone() } else { otherwise.to_owned() };
    html! {
        section aria-labelledby="picture" {
            h2 #picture { "What is mapped where" }
            form #controls {
                label { "Page table " select #table {} }
                label { "Colour by " select #colour {
                    option value="size" { "leaf size" }
                    option value="permission" { "permission" }
                    option value="memory" { "memory type" }
                    option value="owner" { "owner" }
                } }
                label.range { "Range " input #range type="text" spellcheck="false" size="40"; }
                span.buttons {
                    button type="button" #whole { "Whole" }
                    button type="button" #in { "Closer" }
                    button type="button" #out { "Farther" }
                    button type="button" #left { "Lower" }
                    button type="button" #right { "Higher" }
                    button type="button" #previous { "Run before" }
                    button type="button" #next { "Run after" }
                }
            }
            p #keys { "Wheel or + and − zoom, arrows and dragging move, Home shows all, N and P go from run to run. A range is START-END." }
            div #view tabindex="0" role="group" aria-describedby="keys state" aria-label="Picture of the address space" {
                div.strip { span.name { (named(before, if after.is_some() { "Before" } else { "Mapped" })) } div.frame { canvas #before {} div.labels {} } }
                @if let Some(after) = after {
                    div.strip { span.name { (named(after, "After")) } div.frame { canvas #after {} div.labels {} } }
                    div.strip { span.name { "Differs" } div.frame { canvas #differs {} div.labels {} } }
                }
                div.axis {}
            }
            p #state role="status" {}
            ul #legend {}
            details open {
                summary { "Leaves in view" }
                div.scroll tabindex="0" role="region" aria-label="Leaves in view" { table #leaves {
                    thead { tr { th scope="col" { "From" } th scope="col" { "To" } th scope="col" { "Leads to" } th scope="col" { "Leaves" } th scope="col" { "Permissions" } th scope="col" { "Memory" } th scope="col" { "Owner" } } }
                    tbody {}
                } }
            }
            noscript { p { "The picture needs the script of this page; the tables below do not." } }
        }
    }
}

fn differences(before: &Snapshot, after: &Snapshot) -> Markup {
    let pairs: Vec<(Pair<'_>, Vec<Change>)> =
        changes::pairs(&before.spaces, &after.spaces).into_iter().map(|pair| (pair, changes::changes(&pair))).collect();
    let is_alike = |(pair, changes): &(Pair<'_>, Vec<Change>)| pair.fate().is_none() && changes.is_empty();
    html! {
        section aria-labelledby="differences" {
            h2 #differences { "What differs" }
            @if pairs.iter().all(is_alike) { p { "Nothing." } }
            @for (number, (pair, changes)) in pairs.iter().enumerate() {
                @if !is_alike(&pairs[number]) {
                    h3 {
                        (pair.space.root.regime.register()) ": "
                        @if let Some(kind) = pair.fate() { "the page table at " (format!("{:#x}", pair.space.root.address.bits())) " " (word(kind)) ", " }
                        (terminal::counted(changes.len() as u64, "place"))
                    }
                    ul {
                        @for change in changes.iter().take(TOLD) {
                            li { (link(number, change.start, change.bytes)) " " (bytes_as_text(change.bytes)) " " (word(change.kind)) }
                        }
                        @if changes.len() > TOLD { li { "… and " (changes.len() - TOLD) " more, in the picture" } }
                    }
                }
            }
        }
    }
}

const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Gone => "is gone",
        Kind::Come => "has come",
        Kind::Other => "is mapped otherwise",
    }
}

/// What is where, in words, with links into the picture.
fn places(of: &Snapshot, whose: &Whose) -> Markup {
    html! {
        section aria-labelledby=(whose.id("places")) {
            h2 id=(whose.id("places")) { "Places" (whose.name) }
            @for (number, space) in of.spaces.iter().enumerate() {
                h3 { (space.root.regime.register()) }
                ul {
                    @let places = space.places();
                    @for place in places.iter().take(TOLD) {
                        li {
                            (whose.link(number, place.start, place.bytes)) " " (place.owner)
                            ": " (bytes_as_text(place.mapped)) " in leaves, " (place.leaves) " of them"
                        }
                    }
                    @if places.len() > TOLD { li { "… and " (places.len() - TOLD) " more, in the picture" } }
                }
            }
        }
    }
}

/// Leaf sizes and tables of a page table; beside the tables of the linear map what its largest leaves would take.
fn sums(number: usize, space: &Space, whose: &Whose) -> Markup {
    let (totals, root) = (&space.totals, &space.root);
    let bytes = |level: Level, count: u64| count.saturating_mul(1 << root.shape.shift(level));
    let mapped = totals.leaves.iter().map(|((level, _), count)| bytes(*level, *count)).fold(0, u64::saturating_add);
    let name = root.regime.register();
    let largest = largest(space);
    let entries = totals.tlb_entries(root.shape.page_size);
    html! {
        section aria-labelledby=(whose.id(&format!("sums{number}"))) {
            h2 id=(whose.id(&format!("sums{number}"))) { "Leaves and tables of " (name) (whose.name) }
            @if mapped > 0 {
                div.share aria-hidden="true" {
                    @for (place, ((level, _), count)) in totals.leaves.iter().enumerate() {
                        div class=(format!("c{}", place % 8)) style=(format!("flex:{:.6}", bytes(*level, *count) as f64 / mapped as f64)) {}
                    }
                }
            }
            table {
                thead { tr { th scope="col" { "Leaves" } th.number scope="col" { "Count" } th.number scope="col" { "Map" } th.number scope="col" { "Share" } } }
                tbody {
                    @for (place, ((level, contiguous), count)) in totals.leaves.iter().enumerate() {
                        tr {
                            th scope="row" {
                                span class=(format!("swatch c{}", place % 8)) {}
                                (size(1 << root.shape.shift(*level))) @if *contiguous { ", contiguous" }
                            }
                            td.number { (count) }
                            td.number { (bytes_as_text(bytes(*level, *count))) }
                            td.number { (format!("{:.1} %", 100.0 * bytes(*level, *count) as f64 / mapped.max(1) as f64)) }
                        }
                    }
                }
                tfoot { tr { th scope="row" { "All" } td.number { (totals.leaf_count()) } td.number { (bytes_as_text(mapped)) } td {} } }
            }
            p { "TLB entries for 1G of it, on average: " strong { (format!("{:.1}", entries as f64 * GIB as f64 / mapped.max(1) as f64)) } }
            table {
                thead { tr { th scope="col" { "Tables" } th.number scope="col" { "Count" } th.number scope="col" { "Bytes" } } }
                tbody {
                    @for (level, count) in &totals.tables {
                        tr { th scope="row" { (level) } td.number { (count) } td.number { (bytes_as_text(count << root.shape.page_size.shift())) } }
                    }
                }
                tfoot { tr { th scope="row" { "All" } td.number { (totals.table_count()) } td.number { (bytes_as_text(totals.table_bytes)) } } }
            }
            @match largest {
                Err(why) => { p { "What the largest leaves would take is not planned: " (why) "." } }
                Ok((now, (tables, shape))) => {
                    p {
                        "Its linear map, of " (size(shape.mapped())) ", takes " strong { (now) } " tables. With the largest leaves that there are it would take "
                        strong { (tables) } ", " (size(shape.table_bytes())) ", and " (shape.tlb_entries(GIB.min(shape.mapped()))) " TLB entries for 1G."
                    }
                }
            }
        }
    }
}

/// The tables of the linear map as it is, and with the largest leaves; or why nobody can say.
fn largest(space: &Space) -> Result<(u64, (u64, Shape)), String> {
    let name = space.root.regime.register();
    if !space.root.regime.is_upper() {
        return Err(format!("{name} is no kernel's half, whose linear map a plan is of"));
    }
    let why = |Failure(why): Failure| why.split(": try ").next().unwrap_or_default().to_owned();
    let memory = plan::memory::of(name, space).map_err(why)?;
    let now = memory.now.as_ref().map_or(0, |now| now.totals.table_count());
    let arguments = PlanArguments::of("", None);
    let column = plan::build(&memory, space.root.shape.page_size, Policy::Largest, &arguments).map_err(why)?;
    Ok((now, (column.shape.table_count(), column.shape)))
}

fn findings(of: &Snapshot, whose: &Whose) -> Markup {
    html! {
        section aria-labelledby=(whose.id("findings")) {
            h2 id=(whose.id("findings")) { "Findings" (whose.name) }
            @if of.findings.is_empty() { p { "Nothing found." } }
            @for kind in of.findings.chunk_by(|one, next| one.kind == next.kind) { (one_kind(kind, whose)) }
        }
    }
}

fn one_kind(kind: &[Finding], whose: &Whose) -> Markup {
    let about = kind[0].kind.about();
    let rank = match about.rank {
        Rank::Danger => "danger",
        Rank::Risk => "risk",
        Rank::Cost => "cost",
    };
    html! {
        h3 { span class=(format!("rank {rank}")) { (rank) } " " (about.kind.name()) ": " (about.title) }
        p { (about.risk) ". Read: " (about.read) "." }
        ul {
            @for finding in kind.iter().take(TOLD) {
                li {
                    (whose.link(finding.root, finding.input, finding.bytes)) " " (finding.what)
                    @if let (Some(input), Some((_, root))) = (finding.other_input(), finding.other) {
                        " at " (whose.link(root, input, finding.bytes))
                    }
                    @if finding.count > 1 { " (" (finding.count) "×)" }
                }
            }
            @if kind.len() > TOLD { li { "… and " (kind.len() - TOLD) " more: vellum check --all" } }
        }
    }
}
