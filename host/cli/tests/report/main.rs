//! `vellum report` and `vellum plan -o`: what their pages hold, how large they are, and how they behave in a real browser.
//!
//! Its own harness, so that a host without a browser says so. The browser is `chromium` or `chromium-headless-shell` of the PATH, or
//! what `cargo xtask fetch chromium` has fetched; `common.js` and `looks.js` or `plan.js` are added to a copy of the page,
//! act as a person does, and say what came of it. Screenshots stay in `target/tmp`. How soon a page is there is held in the processor time
//! of its thread, which no other load of the host adds to.

#[path = "../tables/mod.rs"]
mod tables;
#[path = "../tally/mod.rs"]
mod tally;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;
use tables::{Image, Tree};
use tally::Report;

const BASE: u64 = 0x4000_0000;
/// 4 KiB pages and 48 bits in both halves.
const TCR: &str = "0x15b5103510";
/// Normal memory, accessed, inner shareable, nobody executes it; and the same read-only.
const WRITE: u64 = 0x0060_0000_0000_0700;
const READ: u64 = WRITE | 0x80;
/// Writable and executable by EL1.
const WX: u64 = 0x0040_0000_0000_0700;
const LINEAR: u64 = 0xffff_0000_0000_0000;
/// A user reads and executes it.
const USER: u64 = 0x0020_0000_0000_07c0;
/// Of stage 2: written, accessed, write-back, inner shareable.
const STAGE2: u64 = 0x7fc;
/// 4 KiB pages, and 52 bits in both halves by FEAT_LPA2, whose leaves have no SH.
const WIDE_TCR: &str = "0x8000016b50c350c";
const SHARED: u64 = 0x300;
const BY_HAND: [&str; 4] = ["--ttbr1", "0x40000000", "--tcr", TCR];

type Test = (&'static str, fn(&Path) -> Result<(), String>);

fn main() -> ExitCode {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report");
    fs::create_dir_all(&folder).expect("a folder");
    let mut report = Report::default();
    let plain: [Test; 5] = [
        ("the_page_has_it_all_and_fetches_nothing", page),
        ("every_part_of_a_machine_is_in_the_page", parts),
        ("half_a_million_leaves_are_under_3_mb", large),
        ("what_cannot_be_written_is_told", nowhere),
        ("a_plan_has_plots_and_figures", plan),
    ];
    plain.into_iter().for_each(|(name, test)| report.add(name, test(&folder)));
    let browser = browser();
    for scheme in ["light", "dark"] {
        for name in ["one", "two", "others", "halves", "wide", "large", "plan", "plan-of-one"] {
            let test = format!("in_a_browser_{name}_{scheme}");
            match &browser {
                Some(browser) => report.add(&test, looks(browser, &folder, name, scheme)),
                None => report.ignore(&test, "there is no chromium here: cargo xtask fetch chromium"),
            }
        }
    }
    report.finish()
}

/// A kernel's half: a block, pages with a hole, one of them writable and executable; and, later, one page less.
fn small(is_later: bool) -> Image {
    let mut image = Image::new(BASE);
    let tree = Tree::new(&mut image, 12, 0, 48);
    let mut take = |image: &mut Image| image.take(0x1000);
    tree.map(&mut image, &mut take, (LINEAR, 0x8000_0000), 2, WRITE);
    for page in 0..32u64 {
        let attributes = if page == 5 { WX } else { WRITE };
        let is_there = page != 9 && !(is_later && page == 20);
        if is_there {
            let at = (LINEAR + 0x20_0000 + page * 0x1000, 0x8020_0000 + page * 0x1000);
            tree.map(&mut image, &mut take, at, 3, attributes);
        }
    }
    image
}

/// Both halves of a guest, and the stage 2 beneath, where its memory stays where it is; and the registers that name them.
fn halves() -> (Image, [String; 5]) {
    let mut image = small(false);
    let [lower, stage2] = [(0, 48), (1, 40)].map(|(start, bits)| Tree::new(&mut image, 12, start, bits));
    let mut take = |image: &mut Image| image.take(0x1000);
    for page in [0x40_0000, 0x40_1000, 0x7f00_0000_0000] {
        lower.map(&mut image, &mut take, (page, 0x9000_0000 + (page & 0xffff)), 3, USER);
    }
    for block in [BASE, 0x8000_0000] {
        stage2.map(&mut image, &mut take, (block, block), 1, STAGE2);
    }
    let of = |name: &str, value: u64| format!("--{name}={value:#x}");
    let [ttbr1, ttbr0, vttbr] = [of("ttbr1", BASE), of("ttbr0", lower.root), of("vttbr", stage2.root)];
    (image, [ttbr1, ttbr0, format!("--tcr={TCR}"), vttbr, of("vtcr", 0x8005_3558)])
}

/// The ends of a half of 52 bits, and its middle.
fn wide() -> Image {
    let mut image = Image::new(BASE);
    let tree = Tree::new(&mut image, 12, -1, 52);
    let mut take = |image: &mut Image| image.take(0x1000);
    let leaves = [
        (0xfff0_0000_0000_0000, 0x8000_0000, 2),
        (0xfff8_0000_0000_0000, 0x8020_0000, 3),
        (!0x1f_ffff, 0x8040_0000, 2),
    ];
    for (input, output, level) in leaves {
        tree.map(&mut image, &mut take, (input, output), level, WRITE & !SHARED);
    }
    image
}

/// 525,312 pages, no two neighbours of which are alike.
fn many() -> Image {
    let mut image = Image::new(BASE);
    let tree = Tree::new(&mut image, 12, 0, 48);
    let mut take = |image: &mut Image| image.take(0x1000);
    for page in 0..525_312u64 {
        let attributes = if page % 2 == 0 { READ } else { WRITE };
        tree.map(&mut image, &mut take, (LINEAR + page * 0x1000, 0x1_0000_0000 + page * 0x1000), 3, attributes);
    }
    image
}

/// Writes the image, and returns the arguments that name it.
fn source(folder: &Path, name: &str, image: &Image) -> String {
    let path = folder.join(name);
    fs::write(&path, &image.bytes).expect("written");
    format!("raw:{}@{BASE:#x}", path.display())
}

/// Runs `vellum report`; what it says, and its exit status.
fn write_report(sources: &[String], page: &Path) -> Result<(String, Option<i32>), String> {
    write_report_by(&BY_HAND, sources, page)
}

fn write_report_by(
    how: &[impl AsRef<std::ffi::OsStr>],
    sources: &[String],
    page: &Path,
) -> Result<(String, Option<i32>), String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vellum"));
    command.arg("report").args(sources).args(how).arg("-o").arg(page);
    let output = command.output().map_err(|error| error.to_string())?;
    Ok((String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code()))
}

fn expect(is_so: bool, what: impl Into<String>) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what.into()) }
}

fn page(folder: &Path) -> Result<(), String> {
    let (before, after) = (source(folder, "before", &small(false)), source(folder, "after", &small(true)));
    let (said, status) = write_report(std::slice::from_ref(&before), &folder.join("one.html"))?;
    expect(status == Some(1) && said.contains("open it in a browser"), said)?;
    let text = fs::read_to_string(folder.join("one.html")).map_err(|error| error.to_string())?;
    let parts = ["wx: writable and executable", "0xffff000000205000-0xffff000000206000", "2M", "linear map", "Tables"];
    holds(&text, &parts)?;
    is_alone(&text)?;
    write_report(&[before.clone(), after.clone()], &folder.join("two.html"))?;
    let text = fs::read_to_string(folder.join("two.html")).map_err(|error| error.to_string())?;
    // Of two machines each section says whose it is, and no name of a section is given twice.
    for name in ["The machine", "Places", "Leaves and tables of TTBR1_EL1", "Findings"] {
        holds(&text, &[&format!("{name}: {before}</h2>"), &format!("{name}: {after}</h2>")])?;
    }
    let names: Vec<&str> = text.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let twice = names.iter().find(|name| names.iter().filter(|other| other == name).count() > 1);
    expect(twice.is_none(), format!("{twice:?} is the name of two places"))?;
    expect(
        text.contains("0xffff000000214000-0xffff000000215000</code></a> 4K is gone"),
        "the page that went is not told",
    )
}

/// Of both halves and stage 2, of 52 bits, and of two machines that have no page table in common.
fn parts(folder: &Path) -> Result<(), String> {
    let write = |how: &[&str], sources: &[String], page: &str, parts: &[&str]| {
        let page = folder.join(page);
        let (said, status) = write_report_by(how, sources, &page)?;
        expect(matches!(status, Some(0 | 1)), said)?;
        let text = fs::read_to_string(page).map_err(|error| error.to_string())?;
        holds(&text, parts)
    };
    let (image, by_hand) = halves();
    let by_hand = by_hand.each_ref().map(String::as_str);
    let why = ["TTBR0_EL1 is no kernel's half", "VTTBR_EL2 is no kernel's half", "With the largest leaves"];
    let all = [&["of TTBR1_EL1", "of TTBR0_EL1", "of VTTBR_EL2"], &why[..]].concat();
    write(&by_hand, &[source(folder, "halves.raw", &image)], "halves.html", &all)?;
    let (narrow, wide) = (source(folder, "before", &small(false)), source(folder, "wide.raw", &wide()));
    let wide_by_hand = ["--ttbr1", "0x40000000", "--tcr", WIDE_TCR];
    write(&wide_by_hand, std::slice::from_ref(&wide), "wide.html", &["52 bits, LPA2", "0xfff8000000000000"])?;
    let fates = ["the page table at 0x40000000 is gone", "the page table at 0x40000000 has come"];
    write(&["--search"], &[narrow, wide], "others.html", &fates)
}

fn large(folder: &Path) -> Result<(), String> {
    let source = source(folder, "many", &many());
    write_report(std::slice::from_ref(&source), &folder.join("large.html"))?;
    fs::remove_file(folder.join("many")).map_err(|error| error.to_string())?;
    let bytes = fs::metadata(folder.join("large.html")).map_err(|error| error.to_string())?.len();
    expect((1 << 20..3_000_000).contains(&bytes), format!("{bytes} bytes"))
}

fn nowhere(folder: &Path) -> Result<(), String> {
    let source = source(folder, "before", &small(false));
    let (said, status) = write_report(&[source], &folder.join("no/such/folder.html"))?;
    expect(status == Some(2) && said.contains("name another file with -o"), said)?;
    // A source that is not there costs no page: not one that was there, and none is begun.
    let absent = [format!("raw:{}@{BASE:#x}", folder.join("absent").display())];
    let (old, new) = (folder.join("old.html"), folder.join("new.html"));
    fs::write(&old, "a page").map_err(|error| error.to_string())?;
    let _ = fs::remove_file(&new);
    for page in [&old, &new] {
        let (said, status) = write_report(&absent, page)?;
        expect(status == Some(2) && said.contains("name a file that is there"), said)?;
    }
    expect(fs::read_to_string(&old).is_ok_and(|text| text == "a page"), "the page that was there is gone")?;
    expect(!new.exists(), "an empty page was left")
}

/// Of a size, with all that can be asked for, and of a machine whose name is made to harm.
fn plan(folder: &Path) -> Result<(), String> {
    let plan = |memory: &str, more: &[&str], name: &str| {
        let page = folder.join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_vellum"));
        command.args(["plan", "--memory", memory]).args(more).arg("-o").arg(&page);
        let output = command.output().map_err(|error| error.to_string())?;
        expect(output.status.success(), String::from_utf8_lossy(&output.stderr))?;
        fs::read_to_string(page).map_err(|error| error.to_string())
    };
    let text = plan("256G", &["--protect", "10000", "--cluster", "16", "--heal"], "plan.html")?;
    holds(&text, &["<svg", "role=\"img\"", "64K pages, 10000 of them read-only", "released and healed: folds"])?;
    is_alone(&text)?;
    let mut image = Image::new(BASE);
    let tree = Tree::new(&mut image, 12, 0, 48);
    let mut take = |image: &mut Image| image.take(0x1000);
    for block in 0..8u64 {
        tree.map(&mut image, &mut take, (LINEAR + (block << 21), BASE + (block << 21)), 2, WRITE);
    }
    let source = source(folder, "<img src=x onerror=boo()>", &image);
    let text = plan(&source, &[], "plan-of-one.html")?;
    holds(&text, &["as it is now, 4K pages", "0.0 % off", "&lt;img src=x"])?;
    // Found by search, or by registers by hand, it is the same.
    expect(plan(&source, &BY_HAND, "plan-by-hand.html")? == text, "another plan by hand")?;
    expect(!text.contains("<img"), "a name is taken for a part of the page")
}

fn holds(text: &str, parts: &[&str]) -> Result<(), String> {
    parts.iter().try_for_each(|part| expect(text.contains(part), format!("no `{part}` in the page")))
}

/// Nothing in a page leads to a network.
fn is_alone(text: &str) -> Result<(), String> {
    let outside = ["http:", "https:", "src=", "@import", "url("];
    outside.iter().try_for_each(|part| expect(!text.contains(part), format!("`{part}` in the page")))
}

/// The words that run a browser, if there is one.
fn browser() -> Option<PathBuf> {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.fetched/chromium/chromium");
    let runs = |program: &PathBuf| {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    [PathBuf::from("chromium-headless-shell"), PathBuf::from("chromium"), fetched].into_iter().find(runs)
}

/// Opens the page, acts on it, and reads what came of it; then takes its picture.
fn looks(browser: &Path, folder: &Path, name: &str, scheme: &str) -> Result<(), String> {
    let text = fs::read_to_string(folder.join(format!("{name}.html"))).map_err(|error| error.to_string())?;
    let listening = "<head><script>window.errors = [];\
        addEventListener('error', (event) => errors.push(event.message));\
        console.error = (...words) => errors.push(words.join(' '));</script>";
    let acts = if name.starts_with("plan") { include_str!("plan.js") } else { include_str!("looks.js") };
    let acting = format!("<script>{}</script><script>{acts}</script></body>", include_str!("common.js"));
    let acted = text.replacen("<head>", listening, 1).replacen("</body>", &acting, 1);
    let copy = folder.join(format!("{name}-acted.html"));
    fs::write(&copy, acted).map_err(|error| error.to_string())?;
    let dom = run(browser, scheme, &["--dump-dom"], &copy)?;
    let said = dom.split("<pre id=\"came\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let said = said.ok_or_else(|| format!("the page said nothing: {}", &dom[..dom.len().min(2000)]))?;
    println!("{}", said.trim());
    expect(said.trim_end().ends_with("\nall is well"), said)?;
    let page = folder.join(format!("{name}.html"));
    let shot = folder.join(format!("{name}-{scheme}.png"));
    let shoot = format!("--screenshot={}", shot.display());
    if scheme == "dark" {
        run(browser, scheme, &[&shoot], &page)?;
    } else {
        let (paper, trace) = (folder.join(format!("{name}.pdf")), folder.join(format!("{name}.json")));
        let watch = format!("--trace-startup-file={}", trace.display());
        let categories =
            ["--trace-startup=toplevel,devtools.timeline", "--trace-startup-duration=0", "--trace-startup-format=json"];
        let print = format!("--print-to-pdf={}", paper.display());
        run(browser, scheme, &[&categories[..], &[&watch, &shoot, &print]].concat(), &page)?;
        let seconds = seconds(&trace)?;
        println!("read, drawn and printed in {seconds:.2} s of processor time");
        expect(0.0 < seconds && seconds < 1.0, format!("{seconds:.2} s of processor time until it is drawn"))?;
        printed(&paper, &text)?;
    }
    expect(fs::metadata(&shot).is_ok_and(|file| file.len() > 10_000), "no screenshot")
}

/// How much processor time the thread took that reads, lays out and draws the page, as the browser tells.
fn seconds(trace: &Path) -> Result<f64, String> {
    let text = fs::read(trace).map_err(|error| error.to_string())?;
    fs::remove_file(trace).map_err(|error| error.to_string())?;
    let trace: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let events = trace["traceEvents"].as_array().ok_or("no events")?;
    let is_of_page = |event: &&Value| {
        event["name"] == "ParseHTML"
            && event["args"]["beginData"]["url"].as_str().is_some_and(|url| url.starts_with("file:"))
    };
    let page = events.iter().find(is_of_page).ok_or("the browser told of no page that it read")?;
    let tasks = events.iter().filter(|event| {
        event["name"] == "ThreadControllerImpl::RunTask" && event["pid"] == page["pid"] && event["tid"] == page["tid"]
    });
    Ok(tasks.filter_map(|task| task["tdur"].as_f64()).sum::<f64>() / 1e6)
}

/// On paper stand all sections and tables, as the tags say that tell a screen reader what is what.
fn printed(paper: &Path, page: &str) -> Result<(), String> {
    let bytes = fs::read(paper).map_err(|error| error.to_string())?;
    let paper = String::from_utf8_lossy(&bytes);
    for (tag, element) in [("/S /H2", "<h2"), ("/S /Table", "<table")] {
        let (on_paper, wanted) = (paper.matches(tag).count(), page.matches(element).count());
        expect(on_paper == wanted && wanted > 0, format!("{on_paper} of {wanted} {element} on paper"))?;
    }
    let cells = paper.matches("/S /TD").count();
    expect(cells * 10 > page.matches("<td").count() * 9, format!("{cells} cells on paper"))
}

fn run(browser: &Path, scheme: &str, arguments: &[&str], page: &Path) -> Result<String, String> {
    let scheme = if scheme == "dark" { "0" } else { "1" };
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1300,1600"]);
    command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
    let page = page.canonicalize().map_err(|error| error.to_string())?;
    let output = command.args(arguments).arg(format!("file://{}", page.display())).stderr(Stdio::null()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).map_err(|error| error.to_string())
}
