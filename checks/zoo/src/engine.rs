//! The same fault made in our engine: one call of its platform left out or weakened, while it does the same work.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use checks::explore::random;
use checks::levels::Levels;
use checks::mutation::{Class, Mutation, Site};
use checks::parameters::Parameters;
use checks::prepare::Prepared;
use checks::setting::Setting;
use checks::suite;
use checks::workloads::Workload;
use machine::registers::Ets;

use crate::configuration::{Configuration, Configurations, summary};
use crate::expected::{Expected, expectations};
use crate::misses::Misses;

/// A fault of the engine's that is a case's: `WORKLOAD [FLAG…] | [FILE] CALL CHANGE | RULE [bbm=…] [ets=…]; …`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counterpart {
    workload: &'static str,
    flags: Vec<String>,
    /// The file of the call, where several make one like it.
    file: Option<String>,
    /// The call's class and what is done to it, as `cargo xtask check --mutants` prints them.
    change: String,
    rules: Vec<Expected>,
}

/// What it may say of the page table and the CPUs: one ASID, TLBIs by range, level hints, hardware that writes descriptors; and the
/// regime, if it is not EL1&0 without stage 2.
const FLAGS: [&str; 7] = ["asid", "range", "hints", "hardware", "stage2", "guest", "el2"];

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Killed {
    /// The workload and its flags.
    pub work: String,
    /// The call and what was done to it.
    pub change: String,
    /// What it was caught by.
    pub found: BTreeMap<Configuration, BTreeSet<&'static str>>,
    /// Call sites of the engine that were changed.
    pub sites: BTreeSet<String>,
    /// Configurations and call sites, each run with the fault and without.
    pub runs: u64,
    /// Nothing is found without the fault.
    pub is_silent: bool,
    /// What is not as the file says.
    pub misses: Misses,
}

impl Counterpart {
    /// Reads one. Errors: what stands there instead.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('|').map(str::trim).collect();
        let [work, change, rule] = parts[..] else {
            return Err(format!("`{text}`, expected `WORKLOAD [FLAG…] | CALL CHANGE | RULE`"));
        };
        let (file, change) = match change.split_once(".rs ") {
            Some((file, change)) => (Some(format!("{file}.rs")), change.to_owned()),
            None => (None, change.to_owned()),
        };
        let mut words = work.split_whitespace();
        let name = words.next().unwrap_or_default();
        let workload = Workload::find(name).ok_or_else(|| format!("`{name}` is no workload of the checks"))?.name;
        let flags: Vec<String> = words.map(str::to_owned).collect();
        match flags.iter().find(|flag| !FLAGS.contains(&flag.as_str())) {
            Some(flag) => Err(format!("`{flag}`, expected one of {}", FLAGS.join(", "))),
            None => Ok(Self { workload, flags, file, change, rules: expectations(rule)? }),
        }
    }

    /// The rule that is expected in `configuration`.
    fn expected(&self, configuration: Configuration) -> Option<&str> {
        self.rules.iter().find(|it| it.configurations.contains(configuration)).map(|it| it.rule.as_str())
    }

    /// By what it must be caught, in one line.
    pub fn summary(&self) -> String {
        summary(
            Configuration::all()
                .map(|configuration| (configuration, self.expected(configuration).unwrap_or_default().to_owned())),
        )
    }

    fn work(&self) -> String {
        [self.workload].into_iter().chain(self.flags.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
    }

    fn parameters(&self, configuration: Configuration) -> Parameters {
        let has = |flag: &str| self.flags.iter().any(|it| it == flag);
        let mut parameters = Parameters::PLAIN;
        parameters.bbm = Levels::all(configuration.bbm);
        parameters.ets = [Ets::None, Ets::None, Ets::Ets2, Ets::Ets3][usize::from(configuration.ets)];
        parameters.is_global = !has("asid");
        (parameters.tlb.range, parameters.tlb.level_hints) = (has("range"), has("hints"));
        parameters.hardware = (has("hardware"), has("hardware"));
        let settings = [("stage2", Setting::Stage2), ("guest", Setting::Guest), ("el2", Setting::El2)];
        match settings.into_iter().find(|(flag, _)| has(flag)) {
            Some((_, setting)) => parameters.in_setting(setting, 0),
            None => parameters,
        }
    }

    fn prepare(&self, configuration: Configuration, mutation: Option<Mutation>) -> Option<Prepared> {
        let workload = Workload::find(self.workload)?;
        Some(Prepared::new(workload.scenario_with(0, self.parameters(configuration), &[]), mutation))
    }

    /// The mutants of the engine that it means in `configuration`; the engine itself must be silent there.
    fn mutants(&self, configuration: Configuration) -> Result<Vec<Mutation>, String> {
        let prepared = self.prepare(configuration, None).ok_or("no such workload")?;
        let (ran, calls) = suite::survey(&prepared);
        if let Some(caught) = ran.caught {
            return Err(format!("the engine itself fails: {}", caught.failure));
        }
        // The work itself, not the building of the tables that it is done on.
        let is_work = |call: &(Site, Class)| call.0.file().contains("pagetable") && !prepared.sites.contains(call);
        let calls = calls.into_iter().filter(is_work);
        let all = calls
            .flat_map(|(site, class)| class.changes().into_iter().map(move |change| Mutation { site, class, change }));
        let is_file = |site: Site| self.file.as_deref().is_none_or(|it| it == file(site));
        let is_meant = |it: &Mutation| is_file(it.site) && format!("{} {}", it.class, it.change) == self.change;
        let meant: Vec<Mutation> = all.filter(is_meant).collect();
        if meant.is_empty() { Err(String::from("the engine makes no such call")) } else { Ok(meant) }
    }
}

impl Killed {
    /// By what it was caught, in one line, and where in the engine.
    pub fn summary(&self) -> String {
        let sites: Vec<&str> = self.sites.iter().map(String::as_str).collect();
        let found = self
            .found
            .iter()
            .map(|(configuration, found)| (*configuration, found.iter().copied().collect::<Vec<_>>().join(" or ")));
        format!("{}: {} {}", summary(found), sites.join(" "), self.change)
    }
}

impl fmt::Display for Counterpart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.work(), self.change)
    }
}

/// Runs the mutants of a counterpart in each of `configurations`.
pub fn hunt(counterpart: &Counterpart, configurations: &Configurations) -> Killed {
    let (work, change) = (counterpart.work(), counterpart.change.clone());
    let mut killed = Killed { work, change, is_silent: true, ..Killed::default() };
    for configuration in Configuration::all().filter(|it| configurations.contains(*it)) {
        killed.found.insert(configuration, BTreeSet::new());
        if let Err(what) = hunt_in(counterpart, configuration, &mut killed) {
            killed.misses.add(format!("engine, {counterpart}: {what}"), configuration);
        }
    }
    killed
}

fn hunt_in(counterpart: &Counterpart, configuration: Configuration, killed: &mut Killed) -> Result<(), String> {
    let mutants = counterpart.mutants(configuration).inspect_err(|_| killed.is_silent = false)?;
    for mutation in mutants {
        killed.sites.insert(place(mutation.site));
        killed.runs += 2;
        let prepared = counterpart.prepare(configuration, Some(mutation)).ok_or("no such workload")?;
        let caught = random::replay(&prepared, &[]).caught;
        let label = caught.as_ref().map(|it| it.failure.label());
        killed.found.entry(configuration).or_default().extend(label);
        let expected = counterpart.expected(configuration);
        if label != expected {
            let [expected, found] = [expected, label].map(|it| it.unwrap_or("nothing"));
            return Err(format!("{}: {expected} expected, {found} found", place(mutation.site)));
        }
    }
    Ok(())
}

/// `gather.rs:151`
fn place(site: Site) -> String {
    format!("{}:{}", file(site), site.line())
}

fn file(site: Site) -> &'static str {
    site.file().rsplit('/').next().unwrap_or_default()
}
