//! `vellum report`: what the page holds, how large it is, and how it behaves in a real browser.
//!
//! Its own harness, so that a host without a browser says so. The browser is `chromium` or `chromium-headless-shell` of the PATH, or
//! what `cargo xtask fetch chromium` has fetched; `looks.js` is added to a copy of the page, acts as a person does, and says
//! what came of it. Screenshots stay in `target/tmp`.

#[path = "../tables/mod.rs"]
mod tables;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use tables::{Image, Tree};

const BASE: u64 = 0x4000_0000;
/// 4 KiB pages and 48 bits in both halves.
const TCR: &str = "0x15b5103510";
/// Normal memory, accessed, inner shareable, nobody executes it; and the same read-only.
const WRITE: u64 = 0x0060_0000_0000_0700;
const READ: u64 = WRITE | 0x80;
/// Writable and executable by EL1.
const WX: u64 = 0x0040_0000_0000_0700;
const LINEAR: u64 = 0xffff_0000_0000_0000;

type Test = (&'static str, fn(&Path) -> Result<(), String>);

fn main() -> ExitCode {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report");
    fs::create_dir_all(&folder).expect("a folder");
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    let mut tell = |name: &str, result: Option<Result<(), String>>| match result {
        None => {
            ignored += 1;
            println!("test {name} ... ignored, there is no chromium here: cargo xtask fetch chromium");
        }
        Some(Ok(())) => {
            passed += 1;
            println!("test {name} ... ok");
        }
        Some(Err(why)) => {
            failed += 1;
            println!("test {name} ... FAILED\n{why}");
        }
    };
    let plain: [Test; 3] = [
        ("the_page_has_it_all_and_fetches_nothing", page),
        ("half_a_million_leaves_are_under_3_mb", large),
        ("what_cannot_be_written_is_told", nowhere),
    ];
    plain.into_iter().for_each(|(name, test)| tell(name, Some(test(&folder))));
    let browser = browser();
    for scheme in ["light", "dark"] {
        for name in ["one", "two", "large"] {
            let result = browser.as_ref().map(|browser| looks(browser, &folder, name, scheme));
            tell(&format!("in_a_browser_{name}_{scheme}"), result);
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
fn report(sources: &[String], page: &Path) -> Result<(String, Option<i32>), String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vellum"));
    command.arg("report").args(sources).args(["--ttbr1", "0x40000000", "--tcr", TCR, "-o"]).arg(page);
    let output = command.output().map_err(|error| error.to_string())?;
    Ok((String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code()))
}

fn expect(is_so: bool, what: impl Into<String>) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what.into()) }
}

fn page(folder: &Path) -> Result<(), String> {
    let (before, after) = (source(folder, "before", &small(false)), source(folder, "after", &small(true)));
    let (said, status) = report(std::slice::from_ref(&before), &folder.join("one.html"))?;
    expect(status == Some(1) && said.contains("open it in a browser"), said)?;
    let text = fs::read_to_string(folder.join("one.html")).map_err(|error| error.to_string())?;
    for part in ["wx: writable and executable", "0xffff000000205000-0xffff000000206000", "2M", "linear map", "Tables"] {
        expect(text.contains(part), format!("no `{part}` in the page"))?;
    }
    for outside in ["http:", "https:", "src=", "@import", "url("] {
        expect(!text.contains(outside), format!("`{outside}` in the page"))?;
    }
    report(&[before, after], &folder.join("two.html"))?;
    let text = fs::read_to_string(folder.join("two.html")).map_err(|error| error.to_string())?;
    expect(
        text.contains("0xffff000000214000-0xffff000000215000</code></a> 4K is gone"),
        "the page that went is not told",
    )
}

fn large(folder: &Path) -> Result<(), String> {
    let source = source(folder, "many", &many());
    report(std::slice::from_ref(&source), &folder.join("large.html"))?;
    fs::remove_file(folder.join("many")).map_err(|error| error.to_string())?;
    let bytes = fs::metadata(folder.join("large.html")).map_err(|error| error.to_string())?.len();
    expect((1 << 20..3_000_000).contains(&bytes), format!("{bytes} bytes"))
}

fn nowhere(folder: &Path) -> Result<(), String> {
    let source = source(folder, "before", &small(false));
    let (said, status) = report(&[source], &folder.join("no/such/folder.html"))?;
    expect(status == Some(2) && said.contains("name another file with -o"), said)
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
    let acting = format!("<script>{}</script></body>", include_str!("looks.js"));
    let acted = text.replacen("<head>", listening, 1).replacen("</body>", &acting, 1);
    let copy = folder.join(format!("{name}-acted.html"));
    fs::write(&copy, acted).map_err(|error| error.to_string())?;
    let dom = run(browser, scheme, &["--dump-dom"], &copy)?;
    let said = dom.split("<pre id=\"came\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let said = said.ok_or_else(|| format!("the page said nothing: {}", &dom[..dom.len().min(2000)]))?;
    println!("{}", said.trim());
    let shot = folder.join(format!("{name}-{scheme}.png"));
    run(browser, scheme, &[&format!("--screenshot={}", shot.display())], &folder.join(format!("{name}.html")))?;
    expect(fs::metadata(&shot).is_ok_and(|file| file.len() > 10_000), "no screenshot")?;
    expect(said.trim_end().ends_with("\nall is well"), said)
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
