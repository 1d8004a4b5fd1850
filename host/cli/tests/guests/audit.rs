//! TLBIs of our kernel that `vellum audit` forgets: `--stop` halts the guest at the finding, where a debugger finds it, and lets it
//! go on; some are found by nothing but `--frames`, and some only where CPUs are taken to differ.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::guest::tied_to_us;
use crate::report::Report;

/// A debugger that is answered by nobody gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Instructions between a finding and the next block: a few.
const NEAR: u64 = 256;

/// What audits need: our kernel, the plugin, and a folder of their own.
struct Audits {
    kernel: PathBuf,
    elf: String,
    plugin: PathBuf,
    folder: PathBuf,
}

/// The kernel's command line.
const APPEND: &str = "vellum.exit=semihosting arm64.pagesize=4k vellum.stress=40";
/// Which functions of our kernel free memory.
const FRAMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/frames/vellum.txt");

pub(crate) fn run(kernel: PathBuf, elf: PathBuf, plugin: PathBuf, report: &mut Report) {
    let folder = env::temp_dir().join(format!("vellum-audits-{}", std::process::id()));
    let audits = Audits { kernel, elf: elf.display().to_string(), plugin, folder };
    let tlbis = fs::create_dir_all(&audits.folder).map_err(|error| error.to_string()).and_then(|()| audits.tlbis());
    let halted = tlbis.clone().and_then(|places| audits.halted(&places));
    report.add("a forgotten TLBI halts the guest, and a debugger lets it go on", halted);
    let freed = tlbis.clone().and_then(|places| audits.freed(&places));
    report.add("a forgotten TLBI is found by what is freed, and by nothing else", freed);
    let alias = tlbis.clone().and_then(|_| audits.alias());
    report.add("a writable alias of text that outlives its write is found", alias);
    let parked = tlbis.and_then(|_| audits.parked());
    report.add("a parked CPU that forgets nothing is found where it tolerates less than the others", parked);
    // Nobody needs it any more, and what is left there does no harm.
    let _ = fs::remove_dir_all(&audits.folder);
}

impl Audits {
    /// The first TLBI, of those executed most often, whose absence is found.
    fn halted(&self, places: &[String]) -> Result<(), String> {
        for place in places {
            if let Some((guest, finding)) = self.until_halted(place)? {
                return self.look(guest, &finding);
            }
        }
        Err("no TLBI is found when it is forgotten".into())
    }

    /// A TLBI whose absence breaks no rule but that of memory that is given away.
    fn freed(&self, places: &[String]) -> Result<(), String> {
        for place in places {
            let with_frames = ["--json", "--forget", place, "--symbols", &self.elf, "--frames", FRAMES];
            let (status, rules) = self.rules(&with_frames, &[])?;
            // Timing is different in each run: what is found without is looked for again.
            if status == Some(1) && rules == ["V3"] && self.rules(&["--json", "--forget", place], &[])?.0 == Some(0) {
                return match self.rules(&["--json", "--symbols", &self.elf, "--frames", FRAMES], &[])? {
                    (Some(0), _) => Ok(()),
                    (status, rules) => Err(format!("{status:?} with nothing forgotten: {rules:?}")),
                };
            }
        }
        Err("no TLBI is found by what is freed alone".into())
    }

    /// The TLBI that ends an alias by which text was written, at one of its places: others end it later, and are found in its stead.
    fn alias(&self) -> Result<(), String> {
        let words = ["--json", "--symbols", &self.elf, "--frames", FRAMES];
        self.any_found("aside1", "V3", &words, &[])
    }

    /// The TLBI of a CPU that is parked while CPU 0 makes and dissolves contiguous groups without one: CPU 1 has no FEAT_BBM.
    fn parked(&self) -> Result<(), String> {
        let append = format!("{APPEND} vellum.cpu0.bbm=3 vellum.cpu1.bbm=0");
        let (words, more) = (["--json", "--cpu", "bbm=3 cpu1.bbm=0"], ["-append", &append].map(OsString::from));
        self.any_found("vmalle1", "V6", &words, &more)?;
        match self.rules(&words, &more)? {
            (Some(0), _) => Ok(()),
            (status, rules) => Err(format!("{status:?} with nothing forgotten: {rules:?}")),
        }
    }

    /// Whether a TLBI of this name is found by this rule alone when it is forgotten, at one of its places.
    fn any_found(&self, name: &str, rule: &str, words: &[&str], more: &[OsString]) -> Result<(), String> {
        let text = fs::read_to_string(self.path("trace")).map_err(|error| error.to_string())?;
        let name = format!(" tlbi {name} ");
        let tlbis = text.lines().filter(|line| line.contains(&name)).filter_map(|line| line.split_once(" # "));
        for place in tlbis.map(|(_, place)| place).collect::<BTreeSet<&str>>() {
            let (status, rules) = self.rules(&[words, &["--forget", place]].concat(), more)?;
            if status == Some(1) && rules == [rule] {
                return Ok(());
            }
        }
        Err(format!("no{name}is found when it is forgotten"))
    }

    /// How an audit ends, and the rules that were broken.
    fn rules(&self, words: &[&str], more: &[OsString]) -> Result<(Option<i32>, Vec<String>), String> {
        let output = self.audit(words, more).output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr);
        let records = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut rules: Vec<String> = records.filter_map(|it| it["rule"].as_str().map(str::to_owned)).collect();
        rules.sort_unstable();
        rules.dedup();
        Ok((output.status.code(), rules))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// An audit of a boot, with what follows `vellum audit`, and what follows QEMU.
    fn audit(&self, words: &[&str], more: &[OsString]) -> Command {
        let qemu = env::var("VELLUM_QEMU").unwrap_or("qemu-system-aarch64".to_owned());
        let mut command = Command::new(env!("CARGO_BIN_EXE_vellum"));
        let (program, first) = qemu.split_once('\n').unwrap_or((&qemu, ""));
        let tied = tied_to_us(program);
        command.arg("audit").args(words).arg("--plugin").arg(&self.plugin).arg("--");
        command.arg(tied.get_program()).args(tied.get_args()).args(first.lines());
        command.args(["-M", "virt,gic-version=3", "-cpu", "max,pauth-impdef=on", "-smp", "2", "-m", "1G"]);
        command.args(["-display", "none", "-monitor", "none", "-serial", "stdio", "-nic", "none"]);
        command.args(["-semihosting-config", "enable=on,target=native"]);
        command.args(["-append", APPEND, "-kernel"]);
        command.arg(&self.kernel).args(more).stdin(Stdio::null());
        command
    }

    /// Where the guest executes TLBIs, the most frequent first; and that nothing is found with all of them.
    fn tlbis(&self) -> Result<Vec<String>, String> {
        let trace = self.path("trace");
        let output = self.audit(&["--trace", &trace.display().to_string()], &[]).output();
        let output = output.map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
        }
        let text = fs::read_to_string(&trace).map_err(|error| error.to_string())?;
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let tlbis = text.lines().filter(|line| line.contains(" tlbi ")).filter_map(|line| line.split_once(" # "));
        tlbis.for_each(|(_, place)| *counts.entry(place).or_default() += 1);
        let mut places: Vec<(usize, &str)> = counts.into_iter().map(|(place, count)| (count, place)).collect();
        places.sort_unstable();
        Ok(places.into_iter().rev().map(|(_, place)| place.to_owned()).collect())
    }

    /// The guest without the TLBI at `place`, halted, and the finding; nothing if none was found.
    fn until_halted(&self, place: &str) -> Result<Option<(Child, Value)>, String> {
        let _ = fs::remove_file(self.path("gdb"));
        let chardev = format!("socket,id=gdb,server=on,wait=off,path={}", self.path("gdb").display());
        let more = ["-chardev", &chardev, "-gdb", "chardev:gdb"].map(OsString::from);
        let mut audit = self.audit(&["--stop", "--json", "--forget", place], &more);
        let guest = audit.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut guest = guest.map_err(|error| error.to_string())?;
        let mut said = BufReader::new(guest.stderr.take().ok_or("no standard error")?).lines().map_while(Result::ok);
        let mut finding = None;
        while let Some(line) = said.next() {
            if let Ok(record) = serde_json::from_str::<Value>(&line) {
                finding = Some(record);
            } else if line.contains("the guest is halted") {
                // What else is said must find a reader.
                thread::spawn(move || said.for_each(drop));
                return Ok(Some(guest).zip(finding));
            }
        }
        end(&mut guest).map(|_| None)
    }

    /// The guest stands still where the finding is, and goes on when it is let.
    fn look(&self, mut guest: Child, finding: &Value) -> Result<(), String> {
        let place = finding["place"].as_str().and_then(|it| it.strip_prefix("0x"));
        let place = place.and_then(|it| u64::from_str_radix(it, 16).ok()).ok_or("the finding has no place")?;
        let cpu = finding["cpu"].as_u64().ok_or("the finding has no CPU")?;
        let found = Debugger::attach(&self.path("gdb")).and_then(|mut debugger| {
            let at = debugger.place(cpu)?;
            debugger.ask("D")?;
            Ok(at)
        });
        // A guest that nobody lets go on has no end.
        if found.is_err() {
            guest.kill().map_err(|error| error.to_string())?;
        }
        let mut said = String::new();
        let mut output = guest.stdout.take().ok_or("no standard output")?;
        let ended = output.read_to_string(&mut said).map_err(|error| error.to_string()).and(end(&mut guest));
        let (at, status) = (found?, ended?);
        if at.abs_diff(place) > NEAR {
            return Err(format!("CPU {cpu} was found at {at:#x}, expected it beside {place:#x}"));
        }
        match (status.code(), said.contains("verdict: ")) {
            // The guest's clock ran on: some check of its own may have waited too long for the other CPU.
            (Some(1), true) => Ok(()),
            _ => Err(format!("{status}, expected 1 and a verdict:\n{said}")),
        }
    }
}

fn end(guest: &mut Child) -> Result<ExitStatus, String> {
    guest.wait().map_err(|error| error.to_string())
}

/// The few words of a debugger's protocol that the test needs.
struct Debugger(BufReader<UnixStream>);

impl Debugger {
    fn attach(path: &Path) -> Result<Self, String> {
        let stream = UnixStream::connect(path).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        let mut debugger = Self(BufReader::new(stream));
        debugger.ask("?").map(|_| debugger)
    }

    /// Where a CPU is: the register behind x0 to x30 and SP. Threads are counted from 1.
    fn place(&mut self, cpu: u64) -> Result<u64, String> {
        self.ask(&format!("Hg{:x}", cpu + 1))?;
        let registers = self.ask("g")?;
        let digits = registers.get(32 * 16..33 * 16).ok_or("too few registers")?;
        u64::from_str_radix(digits, 16).map(u64::swap_bytes).map_err(|error| error.to_string())
    }

    /// A packet, and what is in the one that answers.
    fn ask(&mut self, words: &str) -> Result<String, String> {
        let sum = words.bytes().fold(0, u8::wrapping_add);
        let failed = |error: std::io::Error| format!("{words}: {error}");
        write!(self.0.get_mut(), "${words}#{sum:02x}").map_err(failed)?;
        let mut bytes = self.0.by_ref().bytes().map_while(Result::ok).skip_while(|byte| *byte != b'$').skip(1);
        let answer: Vec<u8> = bytes.by_ref().take_while(|byte| *byte != b'#').collect();
        let is_whole = bytes.take(2).count() == 2;
        self.0.get_mut().write_all(b"+").map_err(failed)?;
        if is_whole { Ok(String::from_utf8_lossy(&answer).into_owned()) } else { Err(format!("{words}: no answer")) }
    }
}
