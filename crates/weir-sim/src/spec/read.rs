//! The `[sim]` tables.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weir_model::file::{Problem, Refusal, Section, nearest};
use weir_model::{Grid, GridName, LinkPattern, Pattern};
use weir_plan::{Plan, Workload};

use super::group;
use super::keys::{ACTIVITY, FAILURES, FTS, INTERVAL, LINK, POINT, RSE, SEGMENT, SERVERS, SIM, SITE, STORE, TOKENS};
use super::rucio::{self, RUCIO};
use super::signals::{SIGNALS, signals};
use super::values::{
    above_zero, capacity, changes, check_tick, number, positive_time, rate, refuse_above, required, share, spread,
    step, time, zero_or_step,
};
use super::{
    ActivityModel, Common, CurvePoint, FailureShares, FtsModel, Interval, LinkModel, RseModel, Segment, Servers,
    SimSpec, SiteModel, StoreModel, TokenModel,
};

/// Transfers per link of the policy `fixed`, where nothing is said.
const FIXED_ACTIVE: u32 = 20;
/// The longest commit.
const COMMIT_MAX: Duration = Duration::from_secs(3600);
/// Most servers of one storage element.
const SERVERS_MAX: u32 = 64;

impl SimSpec {
    /// Reads the simulated world of a plan; where it says nothing of one, everything is as by default.
    ///
    /// # Errors
    /// Every problem found in those tables, in the order of the lines.
    pub fn of(plan: &Plan) -> Result<Self, Vec<Problem>> {
        sim(plan)
    }
}

/// Reads the simulated world of a plan.
pub(super) fn sim(plan: &Plan) -> Result<SimSpec, Vec<Problem>> {
    let Some(part) = &plan.sim else {
        return Ok(SimSpec {
            fixed_active: FIXED_ACTIVE,
            ..SimSpec::default()
        });
    };
    part.parse(&SIM, |table| Some(world(table, plan)))
}

fn world(table: &Section<'_>, plan: &Plan) -> SimSpec {
    let (grid, asked) = (&plan.grid, &plan.workloads);
    let segments = segments(table);
    let names: Vec<&str> = segments.iter().map(|segment| segment.name.as_str()).collect();
    SimSpec {
        start: table.optional("start"),
        assumed: table.list("assumed").unwrap_or_default(),
        tick: table.checked("tick", check_tick).unwrap_or_default(),
        targets: targets(table, asked),
        injection_interval: positive_time(table, "injection_interval"),
        marker_interval: zero_or_step(table, "marker_interval").unwrap_or_default(),
        common: common(table),
        store: store(table),
        tokens: table.table("tokens", &TOKENS).and_then(|tokens| token_service(&tokens)),
        signals: table
            .table("signals", &SIGNALS)
            .map_or_else(Default::default, |told| signals(&told)),
        fts: table
            .table("fts", &FTS)
            .map_or_else(FtsModel::default, |fts| imitation(&fts)),
        catalog: table.optional("catalog").unwrap_or_default(),
        rucio: table
            .table("rucio", &RUCIO)
            .map_or_else(Default::default, |rucio| rucio::rucio(&rucio)),
        fixed_active: number(table, "fixed_active").unwrap_or(FIXED_ACTIVE),
        activities: activities(table, asked),
        sites: sites(table, grid),
        rses: rses(table, grid),
        links: links(table, grid, &names),
        groups: group::groups(table, grid, &names),
        segments,
    }
}

/// Refuses a name that no workload of the challenge has.
fn check_known<'n>(
    table: &Section<'_>,
    key: &str,
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'n str> + Clone,
) {
    if !known.clone().any(|known| known == name) {
        let remedy = nearest(name, known.clone()).map_or_else(
            || format!("use one of {}", known.take(20).collect::<Vec<_>>().join(", ")),
            |known| format!("did you mean \"{known}\"?"),
        );
        table.refuse(key, Refusal::new(format!("there is no {what} \"{name}\""), remedy));
    }
}

fn targets(table: &Section<'_>, asked: &[Workload]) -> Option<Vec<String>> {
    let targets: Vec<String> = table.list("targets")?;
    for name in &targets {
        check_known(table, "targets", "workload", name, asked.iter().map(Workload::name));
    }
    Some(targets)
}

fn common(table: &Section<'_>) -> Common {
    let default = Common::default();
    let exponent = |a: &f64| {
        if (-1.0..=2.0).contains(a) {
            return Ok(());
        }
        Err(Refusal::new(
            format!("{a} is out of range"),
            "write a number from -1 to 2",
        ))
    };
    let handshakes = |n: &u32| refuse_above(n, &1_000);
    Common {
        startup: time(table, "startup").unwrap_or(default.startup),
        handshakes: table.checked("handshakes", handshakes).unwrap_or(default.handshakes),
        finalization: time(table, "finalization").unwrap_or(default.finalization),
        rtt_exponent: table.checked("rtt_exponent", exponent).unwrap_or(default.rtt_exponent),
        stall_timeout: positive_time(table, "stall_timeout").unwrap_or(default.stall_timeout),
        streamed_rate: capacity(table, "streamed_rate"),
    }
}

fn intervals(table: &Section<'_>, key: &str) -> Option<Vec<Interval>> {
    let entries = table.tables(key, &INTERVAL);
    let read = |entry: Section<'_>| {
        required(&entry, "at");
        required(&entry, "length");
        let (at, length) = (time(&entry, "at"), positive_time(&entry, "length"));
        Some(Interval {
            at: at?,
            length: length?,
        })
    };
    table.has(key).then(|| entries.into_iter().filter_map(read).collect())
}

fn store(table: &Section<'_>) -> StoreModel {
    let default = StoreModel::default();
    let Some(store) = table.table("store", &STORE) else {
        return default;
    };
    StoreModel {
        latency: store.checked("latency", check_commit).unwrap_or(default.latency),
        freezes: intervals(&store, "freezes").unwrap_or_default(),
    }
}

fn check_commit(time: &Duration) -> Result<(), Refusal> {
    if *time > COMMIT_MAX {
        let most = weir_units::duration::format(COMMIT_MAX);
        let remedy = format!("write at most \"{most}\"; freezes may last longer");
        return Err(Refusal::new("is no time for a commit", remedy));
    }
    Ok(())
}

fn token_service(tokens: &Section<'_>) -> Option<TokenModel> {
    required(tokens, "rate");
    let rate = above_zero(tokens, "rate");
    let latency = time(tokens, "latency").unwrap_or(Duration::from_millis(50));
    let per_attempt = number(tokens, "per_attempt").unwrap_or(2);
    Some(TokenModel {
        rate: rate?,
        latency,
        per_attempt,
    })
}

fn imitation(fts: &Section<'_>) -> FtsModel {
    let default = FtsModel::default();
    let or = |key: &str, default: u32| number(fts, key).unwrap_or(default);
    let model = FtsModel {
        link_min: or("link_min", default.link_min),
        link_max: or("link_max", default.link_max),
        se_max: or("se_max", default.se_max),
        mode: fts
            .checked("mode", |mode: &u32| match mode {
                1..=3 => Ok(()),
                _ => Err(Refusal::new(format!("there is no mode {mode}"), "write 1, 2 or 3")),
            })
            .map_or(default.mode, |mode| mode as u8),
        scheduler_interval: step(fts, "scheduler_interval").unwrap_or(default.scheduler_interval),
        scheduler_per_link: time(fts, "scheduler_per_link").unwrap_or_default(),
        optimizer_interval: step(fts, "optimizer_interval").unwrap_or(default.optimizer_interval),
        optimizer_cycle: time(fts, "optimizer_cycle").unwrap_or_default(),
        optimizer_cycle_per_queued: time(fts, "optimizer_cycle_per_queued").unwrap_or_default(),
        restart_interval: zero_or_step(fts, "restart_interval").unwrap_or_default(),
        url_copy_max: or("url_copy_max", default.url_copy_max),
        retry_delay: time(fts, "retry_delay").unwrap_or(default.retry_delay),
    };
    if model.link_min > model.link_max {
        let message = format!("the least, {}, is above the most, {}", model.link_min, model.link_max);
        let key = if fts.has("link_min") { "link_min" } else { "link_max" };
        fts.refuse(key, Refusal::new(message, "correct one of the two"));
    }
    model
}

fn activities(table: &Section<'_>, asked: &[Workload]) -> BTreeMap<String, ActivityModel> {
    let mut activities = BTreeMap::new();
    for entry in table.tables("activity", &ACTIVITY) {
        let name: Option<String> = entry.required("activity");
        let priority = entry.checked("priority", |priority: &u32| match priority {
            1..=5 => Ok(()),
            _ => Err(Refusal::new(format!("there is no priority {priority}"), "write 1 to 5")),
        });
        let model = ActivityModel {
            priority: priority.map_or(3, |priority| priority as u8),
            share: above_zero(&entry, "share").unwrap_or(1.0),
        };
        let Some(name) = name else { continue };
        let known = asked.iter().map(Workload::activity);
        check_known(&entry, "activity", "activity", &name, known);
        if activities.insert(name.clone(), model).is_some() {
            let message = format!("\"{name}\" is there twice");
            entry.refuse("activity", Refusal::new(message, "keep one of them"));
        }
    }
    activities
}

fn segments(table: &Section<'_>) -> Vec<Segment> {
    let (mut list, mut names) = (Vec::new(), BTreeSet::new());
    for entry in table.tables("segment", &SEGMENT) {
        let name: Option<GridName> = entry.required("name");
        required(&entry, "capacity");
        let capacity = capacity(&entry, "capacity");
        let background = rate(&entry, "background").unwrap_or_default();
        let background_variation = share(&entry, "background_variation").unwrap_or_default();
        let changes = changes(&entry);
        let (Some(name), Some(capacity)) = (name, capacity) else {
            continue;
        };
        if !names.insert(name.as_str().to_owned()) {
            let message = format!("there are two segments of the name \"{}\"", name.as_str());
            entry.refuse("name", Refusal::new(message, "give each its own name"));
        }
        list.push(Segment {
            name: name.as_str().to_owned(),
            capacity,
            background,
            background_variation,
            changes,
        });
    }
    list
}

/// Reads a pattern that must fit one of the names.
fn pattern<'n>(entry: &Section<'_>, key: &str, names: impl Iterator<Item = &'n str> + Clone) -> Option<Pattern> {
    let pattern: Pattern = entry.required(key)?;
    if !names.clone().any(|name| pattern.fits(name)) {
        let remedy = match nearest(pattern.as_str(), names.clone()) {
            Some(name) => format!("did you mean \"{name}\"?"),
            None => format!("use one of {}", names.take(20).collect::<Vec<_>>().join(", ")),
        };
        let message = format!("no {key} of the grid fits \"{}\"", pattern.as_str());
        entry.refuse(key, Refusal::new(message, remedy));
        return None;
    }
    Some(pattern)
}

fn sites(table: &Section<'_>, grid: &Grid) -> Vec<(Pattern, SiteModel)> {
    let read = |entry: Section<'_>| {
        let names = grid.sites.iter().map(|site| site.name.as_str());
        let pattern = pattern(&entry, "site", names);
        let model = SiteModel {
            inward: capacity(&entry, "in"),
            outward: capacity(&entry, "out"),
            background_in: rate(&entry, "background_in"),
            background_out: rate(&entry, "background_out"),
            background_variation: share(&entry, "background_variation"),
            spread: spread(&entry),
        };
        Some((pattern?, model))
    };
    table.tables("site", &SITE).into_iter().filter_map(read).collect()
}

fn rses(table: &Section<'_>, grid: &Grid) -> Vec<(Pattern, RseModel)> {
    let read = |entry: Section<'_>| {
        let names = grid.rses.iter().map(|rse| rse.name.as_str());
        let pattern = pattern(&entry, "rse", names);
        let model = RseModel {
            read: capacity(&entry, "read"),
            write: capacity(&entry, "write"),
            disk: capacity(&entry, "disk"),
            mixing_loss: share(&entry, "mixing_loss"),
            read_curve: curve(&entry, "read_curve"),
            write_curve: curve(&entry, "write_curve"),
            servers: servers(&entry),
            imbalance: share(&entry, "imbalance"),
            stream_rate: capacity(&entry, "stream_rate"),
            readback: entry.optional("readback"),
            read_connections: number(&entry, "read_connections"),
            write_connections: number(&entry, "write_connections"),
            overwrite: share(&entry, "overwrite"),
            delete_time: time(&entry, "delete_time"),
            delete_load: number(&entry, "delete_load"),
            failures: failures(&entry),
            outages: intervals(&entry, "outages"),
            max_active_in: number(&entry, "max_active_in"),
            max_active_out: number(&entry, "max_active_out"),
            max_rate_in: capacity(&entry, "max_rate_in"),
            max_rate_out: capacity(&entry, "max_rate_out"),
            spread: spread(&entry),
        };
        Some((pattern?, model))
    };
    table.tables("rse", &RSE).into_iter().filter_map(read).collect()
}

fn curve(entry: &Section<'_>, key: &str) -> Option<Vec<CurvePoint>> {
    let mut points = Vec::new();
    for point in entry.tables(key, &POINT) {
        required(&point, "active");
        required(&point, "rate");
        if let (Some(active), Some(rate)) = (number(&point, "active"), capacity(&point, "rate")) {
            points.push(CurvePoint { active, rate });
        }
    }
    if !points.is_sorted_by(|one, other| one.active < other.active) {
        entry.refuse(
            key,
            Refusal::new(
                "is not in the order of active",
                "write the points from few to many, each once",
            ),
        );
    }
    entry.has(key).then_some(points)
}

fn servers(entry: &Section<'_>) -> Option<Vec<Servers>> {
    let (mut list, mut total) = (Vec::new(), 0_u32);
    for kind in entry.tables("servers", &SERVERS) {
        required(&kind, "rate");
        let count = number(&kind, "count").unwrap_or(1);
        total = total.saturating_add(count);
        let slots = number(&kind, "slots").unwrap_or(u32::MAX);
        if let Some(rate) = capacity(&kind, "rate") {
            list.push(Servers { count, rate, slots });
        }
    }
    if total > SERVERS_MAX {
        let message = format!("{total} servers are too many");
        let remedy = format!("write at most {SERVERS_MAX}; join those of one kind into fewer, faster ones");
        entry.refuse("servers", Refusal::new(message, remedy));
    }
    entry.has("servers").then_some(list)
}

fn failures(entry: &Section<'_>) -> Option<FailureShares> {
    let table = entry.table("failures", &FAILURES)?;
    let read = |key: &weir_model::file::Key| Some((key.name.to_owned(), share(&table, key.name)?));
    let shares: FailureShares = FAILURES.keys.iter().filter_map(read).collect();
    if shares.values().sum::<f64>() > 1.0 {
        let refusal = Refusal::new("the shares add up to more than 1", "make them smaller");
        entry.refuse("failures", refusal);
    }
    Some(shares)
}

fn links(table: &Section<'_>, grid: &Grid, segments: &[&str]) -> Vec<(LinkPattern, LinkModel)> {
    let read = |entry: Section<'_>| {
        let pattern: Option<LinkPattern> = entry.required("link");
        if let Some(pattern) = &pattern {
            check_ends(&entry, pattern, grid);
        }
        let model = LinkModel {
            capacity: capacity(&entry, "capacity"),
            rtt: time(&entry, "rtt"),
            via: via(&entry, segments),
            window: positive_size(&entry, "window"),
            streams: number(&entry, "streams"),
            stream_rate: capacity(&entry, "stream_rate"),
            failures: failures(&entry),
            stalls: share(&entry, "stalls"),
            max_active: number(&entry, "max_active"),
            spread: spread(&entry),
        };
        Some((pattern?, model))
    };
    table.tables("link", &LINK).into_iter().filter_map(read).collect()
}

fn check_ends(entry: &Section<'_>, pattern: &LinkPattern, grid: &Grid) {
    for end in [&pattern.source, &pattern.destination] {
        if !grid.rses.iter().any(|rse| end.fits(rse.name.as_str())) {
            let names = grid.rses.iter().map(|rse| rse.name.as_str());
            let remedy = nearest(end.as_str(), names).map_or_else(
                || "use the RSEs of the grid, or *".to_owned(),
                |name| format!("did you mean \"{name}\"?"),
            );
            let message = format!("no RSE of the grid fits \"{}\"", end.as_str());
            entry.refuse("link", Refusal::new(message, remedy));
        }
    }
}

fn via(entry: &Section<'_>, segments: &[&str]) -> Option<Vec<String>> {
    let names: Vec<String> = entry.list("via")?;
    let mut seen = BTreeSet::new();
    for name in &names {
        if !segments.contains(&name.as_str()) {
            let remedy = nearest(name, segments.iter().copied()).map_or_else(
                || "add a [[sim.segment]] of that name".to_owned(),
                |known| format!("did you mean \"{known}\"?"),
            );
            entry.refuse("via", Refusal::new(format!("there is no segment \"{name}\""), remedy));
        }
        if !seen.insert(name) {
            let message = format!("\"{name}\" is there twice");
            entry.refuse("via", Refusal::new(message, "keep one of them"));
        }
    }
    Some(names)
}

fn positive_size(entry: &Section<'_>, key: &str) -> Option<weir_units::Bytes> {
    entry.checked(key, |size: &weir_units::Bytes| {
        if size.0 == 0 {
            return Err(Refusal::new("must be above zero", "write a size such as \"16 MiB\""));
        }
        refuse_above(size, &weir_units::Bytes(1_000_000_000_000))
    })
}
