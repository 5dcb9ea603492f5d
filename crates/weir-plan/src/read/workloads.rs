//! The `[[workload]]` tables.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeValue;
use weir_model::file::{FromValue, Refusal, Section, nearest, one_of};
use weir_model::{Grid, GridName, Link, RseKind, RseName, TokenFrom};
use weir_units::{BitRate, Bytes};

use crate::keys::{MATRIX, RAMP, RATE, RATES};
use crate::mode::Mode;
use crate::sizing::FileSizes;
use crate::spec::{Inject, MatrixSpec, RampSpec, RateSpec, RatesSpec, WorkloadSpec};
use crate::table;

/// Largest rate of one link: 1 Pb/s, a thousand times what any link carries.
const RATE_MAX: BitRate = BitRate(1_000_000_000_000_000);

/// Largest file: 1 PB.
const FILE_MAX: Bytes = Bytes(1_000_000_000_000_000);

/// Largest number of files, repetitions or parallel transfers in one key.
const NUMBER_MAX: u32 = 1_000_000;

/// Gives the workloads that could be read, and whether those are all.
pub(super) fn read(section: &Section<'_>, grid: &Grid) -> (Vec<WorkloadSpec>, bool) {
    if !section.has("workload") {
        section.miss(
            "workload",
            "add a [[workload]] with kind = \"rates\", \"matrix\" or \"ramp\"",
        );
        return (Vec::new(), false);
    }
    let kinds = [("rates", &RATES), ("matrix", &MATRIX), ("ramp", &RAMP)];
    let mut names = BTreeSet::new();
    let mut list = Vec::new();
    let tables = section.tables_by_kind("workload", "kind", &kinds);
    let n_tables = tables.len();
    for (kind, table) in tables.into_iter().flatten() {
        let name = table
            .optional::<GridName>("name")
            .map_or(kind.to_owned(), |name| name.as_str().to_owned());
        if !names.insert(name.clone()) {
            let message = format!("there are two workloads of the name \"{name}\"");
            table.refuse("name", Refusal::new(message, "give each its own name"));
        }
        let spec = match kind {
            "rates" => rates(&table, grid, name).map(WorkloadSpec::Rates),
            "matrix" => matrix(&table, grid, name).map(WorkloadSpec::Matrix),
            _ => ramp(&table, grid, name).map(WorkloadSpec::Ramp),
        };
        list.extend(spec);
    }
    if n_tables == 0 {
        section.refuse(
            "workload",
            Refusal::new("there is no workload to run", "add a [[workload]]"),
        );
    }
    let complete = n_tables > 0 && list.len() == n_tables;
    (list, complete)
}

fn activity(table: &Section<'_>) -> String {
    let printable = |text: &String| {
        if !text.is_empty() && text.len() <= 100 && !text.chars().any(char::is_control) {
            return Ok(());
        }
        Err(Refusal::new(
            "is not an activity",
            "write a name of 1 to 100 characters",
        ))
    };
    table
        .checked("activity", printable)
        .unwrap_or_else(|| "Data Challenge".to_owned())
}

fn number(table: &Section<'_>, key: &str, default: u32) -> u32 {
    table.checked(key, |n| check_number(*n)).unwrap_or(default)
}

fn check_number(number: u32) -> Result<(), Refusal> {
    match number {
        0 => Err(Refusal::new("must be above zero", "write 1 or more")),
        1..=NUMBER_MAX => Ok(()),
        _ => Err(Refusal::new(
            format!("{number} is too large"),
            format!("write at most {NUMBER_MAX}"),
        )),
    }
}

fn size(table: &Section<'_>, key: &str, default: Bytes) -> Bytes {
    table.checked(key, |size| check_size(*size)).unwrap_or(default)
}

fn check_size(size: Bytes) -> Result<(), Refusal> {
    match size {
        Bytes::ZERO => Err(Refusal::new("must be above zero", "write a size such as \"1 MB\"")),
        size if size > FILE_MAX => Err(Refusal::new(
            format!("{size} is too large"),
            format!("write at most {FILE_MAX}"),
        )),
        _ => Ok(()),
    }
}

fn time(table: &Section<'_>, key: &str, least: Duration, default: Duration) -> Duration {
    let check = |time: &Duration| match *time {
        time if time < least => {
            let least = weir_units::duration::format(least);
            Err(Refusal::new("is too short", format!("write at least \"{least}\"")))
        }
        time if time > Duration::from_secs(86_400) => {
            Err(Refusal::new("is longer than a day", "write at most \"1 d\""))
        }
        _ => Ok(()),
    };
    table.checked(key, check).unwrap_or(default)
}

fn check_lifetime(time: &Duration) -> Result<(), Refusal> {
    if *time > LIFETIME_LOOP {
        return Err(Refusal::new("is longer than a month", "write at most \"30 d\""));
    }
    Ok(())
}

/// A time of the run itself, which may last long.
fn within(table: &Section<'_>, key: &str, least: Duration) -> Option<Duration> {
    table.checked(key, |time: &Duration| {
        if *time < least {
            return Err(Refusal::new("is too short", "write at least \"1 s\""));
        }
        if *time > super::HOLD_MAX {
            return Err(Refusal::new("is longer than a year", "write at most \"366 d\""));
        }
        Ok(())
    })
}

/// Checks a link of this grid.
fn check_link(grid: &Grid, link: &Link) -> Result<(), Refusal> {
    for name in [&link.source, &link.destination] {
        check_rse(grid, name)?;
    }
    if link.source == link.destination {
        return Err(Refusal::new(format!("{link} goes nowhere"), "name two different RSEs"));
    }
    Ok(())
}

fn check_rse(grid: &Grid, name: &RseName) -> Result<(), Refusal> {
    if grid.rse(name).is_some() {
        return Ok(());
    }
    let known: Vec<&str> = grid.rses.iter().map(|rse| rse.name.as_str()).collect();
    let remedy = match nearest(name.as_str(), known.iter().copied()) {
        Some(known) => format!("did you mean \"{known}\"?"),
        None => format!("use one of {}", known.join(", ")),
    };
    Err(Refusal::new(format!("there is no RSE \"{name}\" in the grid"), remedy))
}

fn rates(table: &Section<'_>, grid: &Grid, name: String) -> Option<RatesSpec> {
    let defaults = FileSizes::default();
    let sizes = FileSizes {
        min: size(table, "file_size_min", defaults.min),
        max: size(table, "file_size_max", defaults.max),
        files_min: number(table, "files_min", defaults.files_min),
    };
    if sizes.min > sizes.max {
        let key = if table.has("file_size_max") {
            "file_size_max"
        } else {
            "file_size_min"
        };
        let message = format!(
            "the smallest file, {}, is larger than the largest, {}",
            sizes.min, sizes.max
        );
        table.refuse(key, Refusal::new(message, "correct one of the two"));
    }
    let (cycle, second) = (Duration::from_millis(10), Duration::from_secs(1));
    let inject = inject(table, grid);
    let is_elsewhere = grid.catalog.as_ref().is_some_and(|catalog| catalog.service.is_some());
    let (lifetime, deletion) = match inject {
        Inject::Rules if is_elsewhere => (LIFETIME_ELSEWHERE, DELETION_ELSEWHERE),
        _ => (LIFETIME, DELETION),
    };
    let is_loop = table.or("loop", false);
    let lifetime = if is_loop { LIFETIME_LOOP } else { lifetime };
    let spec = RatesSpec {
        name,
        activity: activity(table),
        rates: Vec::new(),
        sizes,
        inject,
        source_files: table.checked("source_files", |n| check_number(*n)),
        is_loop,
        lifetime: table.checked("lifetime", check_lifetime).unwrap_or(lifetime),
        deletion,
        cycle: time(table, "cycle", cycle, second),
        start: within(table, "start", Duration::ZERO).unwrap_or_default(),
        length: within(table, "length", second),
    };
    check_loop(table, &spec);
    if spec.inject == Inject::Rules && (spec.lifetime < second || spec.lifetime.subsec_nanos() != 0) {
        let message = "is no whole number of seconds above zero, as lifetimes of rules are";
        let remedy = "write whole seconds, or inject = \"transfers\"";
        table.refuse("lifetime", Refusal::new(message, remedy));
    }
    let test: Option<String> = table.optional("test");
    let rates = match (table.has("rates"), table.has("table")) {
        (true, true) => {
            table.refuse("table", Refusal::new("stands beside rates", "keep one of the two"));
            None
        }
        (false, false) => {
            table.miss(
                "rates",
                "add rates = [{ source = …, destination = …, rate = \"1 Gb/s\" }], or table = \"a CSV file\"",
            );
            None
        }
        (true, false) => rates_in_place(table, grid),
        (false, true) => rates_of_table(table, test, grid),
    };
    let rates = rates?;
    if spec.inject == Inject::Rules
        && !is_elsewhere
        && let Some(rse) = with_tokens_of_others(&rates, grid)
    {
        let message = format!("the grid's own catalogue has tokens of the grid's issuer alone, and {rse} takes others");
        let remedy = "write inject = \"transfers\", or let the storage trust the grid's issuer";
        table.refuse("inject", Refusal::new(message, remedy));
    }
    Some(RatesSpec { rates, ..spec })
}

/// Refuses a loop that has no rules to make, or does not say over how many files.
fn check_loop(table: &Section<'_>, spec: &RatesSpec) {
    if !spec.is_loop {
        return;
    }
    if spec.inject == Inject::Transfers {
        let remedy = "add a table [catalog] to the grid file, or remove it";
        table.refuse("loop", Refusal::new("is a loop of rules, and none is made", remedy));
    }
    if spec.source_files.is_none() {
        let remedy = "add source_files = the number of files of a rule";
        table.refuse("loop", Refusal::new("does not say over how many files", remedy));
    }
}

/// The first RSE that takes no tokens of the grid's issuer.
fn with_tokens_of_others<'r>(rates: &'r [RateSpec], grid: &Grid) -> Option<&'r RseName> {
    let mut ends = rates
        .iter()
        .flat_map(|rate| [&rate.link.source, &rate.link.destination]);
    ends.find(|rse| {
        let kind = grid.rse(rse).map(|rse| &rse.kind);
        matches!(kind, Some(RseKind::External { token, .. }) if *token != TokenFrom::Grid)
    })
}

/// The lifetime of files unless the workload says.
const LIFETIME: Duration = Duration::from_secs(20);

/// The same with rules in a catalogue that runs elsewhere: files wait for daemons that pause for a minute or two.
const LIFETIME_ELSEWHERE: Duration = Duration::from_secs(3600);

/// The same of a rule that ends when its files have come: as long as they take, however large the dataset. Also the longest lifetime of any.
const LIFETIME_LOOP: Duration = Duration::from_secs(30 * 86_400);

/// Time that a copy may stay at its destination after the end of its rule before it is deleted.
/// 5 s: a catalogue on the same machine takes 1 s as a rule, and 2.3 s in one of a hundred.
const DELETION: Duration = Duration::from_secs(5);

/// The same where the catalogue runs elsewhere. 5 minutes: Rucio's judge-cleaner and reaper pause for a minute each between two turns.
const DELETION_ELSEWHERE: Duration = Duration::from_secs(300);

fn inject(table: &Section<'_>, grid: &Grid) -> Inject {
    let default = if grid.catalog.is_some() {
        Inject::Rules
    } else {
        Inject::Transfers
    };
    let inject = table.or("inject", default);
    if inject == Inject::Rules && grid.catalog.is_none() {
        let remedy = "add a table [catalog] to the grid file, or write inject = \"transfers\"";
        table.refuse(
            "inject",
            Refusal::new("the grid has no catalogue to make rules in", remedy),
        );
    }
    inject
}

impl FromValue for Inject {
    fn from_value(value: &DeValue<'_>) -> Result<Inject, Refusal> {
        let words = [Inject::Rules, Inject::Transfers].map(|word| (word.as_str(), word));
        one_of(&String::from_value(value)?, &words)
    }
}

fn rates_in_place(table: &Section<'_>, grid: &Grid) -> Option<Vec<RateSpec>> {
    if table.has("test") {
        table.refuse(
            "test",
            Refusal::new("picks rows of a table, and there is none", "remove it, or use table"),
        );
    }
    let entries = table.tables("rates", &RATE);
    let (n_entries, mut seen, mut list) = (entries.len(), BTreeSet::new(), Vec::new());
    if n_entries == 0 {
        table.refuse(
            "rates",
            Refusal::new(
                "names no link",
                "add { source = …, destination = …, rate = \"1 Gb/s\" }",
            ),
        );
    }
    for entry in entries {
        let (source, destination) = (rse(&entry, "source", grid), rse(&entry, "destination", grid));
        let rate = entry.required("rate");
        if let Some(rate) = rate
            && let Err(refusal) = check_rate(rate)
        {
            entry.refuse("rate", refusal);
        }
        let (Some(source), Some(destination), Some(rate)) = (source, destination, rate) else {
            continue;
        };
        let link = Link { source, destination };
        if let Err(refusal) = check_link(grid, &link) {
            entry.refuse("destination", refusal);
        } else if !seen.insert(link.clone()) {
            entry.refuse(
                "destination",
                Refusal::new(format!("{link} is there twice"), "add the rates up"),
            );
        }
        list.push(RateSpec { link, rate });
    }
    (n_entries > 0 && list.len() == n_entries).then_some(list)
}

fn rse(entry: &Section<'_>, key: &str, grid: &Grid) -> Option<RseName> {
    let name: RseName = entry.required(key)?;
    if let Err(refusal) = check_rse(grid, &name) {
        entry.refuse(key, refusal);
        return None;
    }
    Some(name)
}

fn check_rate(rate: BitRate) -> Result<(), Refusal> {
    match rate {
        BitRate::ZERO => Err(Refusal::new(
            "must be above zero",
            "write a rate, or leave the link out",
        )),
        rate if rate > RATE_MAX => Err(Refusal::new(
            format!("{rate} is too large"),
            format!("write at most {RATE_MAX}"),
        )),
        _ => Ok(()),
    }
}

fn rates_of_table(table: &Section<'_>, test: Option<String>, grid: &Grid) -> Option<Vec<RateSpec>> {
    let path: PathBuf = table.optional("table")?;
    let check = |spec: &RateSpec| check_link(grid, &spec.link).and_then(|()| check_rate(spec.rate));
    match table::read(&table.document().beside(&path), test.as_deref(), check) {
        Ok(rates) if rates.is_empty() => {
            let (key, which) = test.map_or(("table", String::new()), |test| {
                ("test", format!(" of the test \"{test}\""))
            });
            let message = format!("{} has no row{which}", path.display());
            table.refuse(key, Refusal::new(message, "correct the name, or add rows"));
            None
        }
        Ok(rates) => Some(rates),
        Err(problems) if problems.iter().all(|problem| problem.line.is_none()) => {
            for problem in problems {
                let message = format!("the table {} {}", path.display(), problem.message);
                table.refuse("table", Refusal::new(message, problem.remedy));
            }
            None
        }
        Err(problems) => {
            table.pass_on(problems);
            None
        }
    }
}

fn matrix(table: &Section<'_>, grid: &Grid, name: String) -> Option<MatrixSpec> {
    let modes = if table.has("modes") {
        distinct(table, "modes")
    } else {
        Some(Mode::ALL.to_vec())
    };
    if !table.has("sizes") {
        table.miss("sizes", "add sizes = [\"1 MB\", \"100 MB\"]");
    }
    let sizes: Option<Vec<Bytes>> = distinct(table, "sizes");
    if let Some(refusal) = sizes.iter().flatten().find_map(|size| check_size(*size).err()) {
        table.refuse("sizes", refusal);
    }
    let (links, activity) = (links(table, grid), activity(table));
    let (repeat, at_once) = (number(table, "repeat", 1), number(table, "at_once", 1));
    let timeout = timeout(table);
    Some(MatrixSpec {
        name,
        activity,
        links: links?,
        modes: modes?,
        sizes: sizes?,
        repeat,
        at_once,
        timeout,
    })
}

fn ramp(table: &Section<'_>, grid: &Grid, name: String) -> Option<RampSpec> {
    if !table.has("parallel") {
        table.miss("parallel", "add parallel = [10, 40, 100]");
    }
    let parallel: Option<Vec<u32>> = distinct(table, "parallel");
    if let Some(refusal) = parallel.iter().flatten().find_map(|n| check_number(*n).err()) {
        table.refuse("parallel", refusal);
    }
    let file_size = table
        .required::<Bytes>("file_size")
        .map(|_| size(table, "file_size", Bytes(1)));
    let (links, activity) = (links(table, grid), activity(table));
    let (repeat, source_files) = (number(table, "repeat", 1), number(table, "source_files", 2));
    let (mode, timeout) = (table.optional("mode"), timeout(table));
    let (links, parallel, file_size) = (links?, parallel?, file_size?);
    Some(RampSpec {
        name,
        activity,
        links,
        parallel,
        file_size,
        source_files,
        repeat,
        mode,
        timeout,
    })
}

fn timeout(table: &Section<'_>) -> Duration {
    time(table, "timeout", Duration::from_millis(100), Duration::from_secs(300))
}

/// Reads a list with at least one value and none twice.
fn distinct<T: FromValue + Ord + std::fmt::Debug>(table: &Section<'_>, key: &str) -> Option<Vec<T>> {
    let list: Vec<T> = table.list(key)?;
    if list.iter().collect::<BTreeSet<_>>().len() < list.len() {
        table.refuse(
            key,
            Refusal::new(
                "holds a value twice",
                "keep one of them; repeat makes several transfers of each",
            ),
        );
    }
    if list.is_empty() {
        table.refuse(key, Refusal::new("is empty", "add a value"));
        return None;
    }
    Some(list)
}

/// The links of a workload of steps: the named links, or every ordered pair of RSEs.
fn links(table: &Section<'_>, grid: &Grid) -> Option<Vec<Link>> {
    if table.has("links") {
        let links: Vec<Link> = distinct(table, "links")?;
        for refusal in links.iter().filter_map(|link| check_link(grid, link).err()) {
            table.refuse("links", refusal);
        }
        return Some(links);
    }
    let pair = |source: &RseName, destination: &RseName| Link {
        source: source.clone(),
        destination: destination.clone(),
    };
    let names = || grid.rses.iter().map(|rse| &rse.name);
    let links: Vec<Link> = names()
        .flat_map(|a| names().filter(move |b| a != *b).map(move |b| pair(a, b)))
        .collect();
    if links.is_empty() {
        table.miss("links", "add a second RSE to the grid: with one there is no link");
        return None;
    }
    Some(links)
}

impl FromValue for Mode {
    fn from_value(value: &toml::de::DeValue<'_>) -> Result<Mode, Refusal> {
        one_of(
            &String::from_value(value)?,
            &Mode::ALL.map(|mode| (mode.as_str(), mode)),
        )
    }
}
