//! The `[[fault]]` tables.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_model::file::{FromValue, Refusal, Section, nearest, one_of};
use weir_model::{Grid, GridName, LinkPattern, Pattern};
use weir_units::{BitRate, Bytes};

use super::kind::{FaultKind, Gauge, KindRow, PlaceKey, WAITING};
use super::place::{FaultPlace, Names, Service, Way};
use super::shape::Shape;
use super::spec::{Amount, Details, Fault, Origin};
use super::table::FAULT;
use crate::mode::Mode;
use crate::spec::WorkloadSpec;

/// The longest time in a fault.
const TIME_MAX: Duration = Duration::from_secs(366 * 86_400);
/// The shortest period: shorter ones would make more changes than a run can take.
const PERIOD_MIN: Duration = Duration::from_millis(100);
/// Difference of clocks that the check of a token forgives (`weir_auth::LEEWAY`).
const FORGIVEN: Duration = Duration::from_secs(60);
/// The keys that name a place.
const PLACES: [&str; 6] = ["rse", "site", "link", "segment", "service", "workload"];
/// The keys of amounts.
const AMOUNTS: [&str; 6] = ["rate", "delay", "share", "limit", "size", "factor"];
/// The classes of errors that a fault can make.
const ERRORS: [&str; 10] = [
    "not-found",
    "permission",
    "token",
    "tls",
    "network",
    "timeout",
    "checksum",
    "no-space",
    "overload",
    "protocol",
];

/// Reads the faults of a challenge.
pub(crate) fn read(section: &Section<'_>, grid: &Grid, workloads: &[WorkloadSpec]) -> Vec<Fault> {
    let names = Names {
        rses: grid.rses.iter().map(|rse| rse.name.as_str()).collect(),
        sites: grid.sites.iter().map(|site| site.name.as_str()).collect(),
        workloads: workloads.iter().map(WorkloadSpec::name).collect(),
    };
    let (mut list, mut taken): (Vec<Fault>, BTreeSet<String>) = (Vec::new(), BTreeSet::new());
    for table in section.tables("fault", &FAULT) {
        let Some(fault) = fault(&table, &names) else { continue };
        if !taken.insert(fault.name.clone()) {
            let message = format!("two faults are called \"{}\"", fault.name);
            let key = if table.has("name") { "name" } else { "kind" };
            table.refuse(key, Refusal::new(message, "give one of them another name"));
        }
        if let Some(other) = list.iter().find(|other| contradicts(other, &fault, &names)) {
            let message = format!(
                "it contradicts the fault \"{}\": the same kind at the same place and time",
                other.name
            );
            table.refuse(
                "at",
                Refusal::new(message, "let one end before the other begins, or join them"),
            );
        }
        list.push(fault);
    }
    list
}

fn contradicts(one: &Fault, other: &Fault, names: &Names<'_>) -> bool {
    // Failures of two classes add up; two servers are two things.
    let same = one.kind == other.kind
        && one.details.error == other.details.error
        && one.details.server == other.details.server;
    let ends = |fault: &Fault| fault.until().unwrap_or(Duration::MAX);
    same && one.at < ends(other) && other.at < ends(one) && one.place.meets(&other.place, names)
}

fn fault(table: &Section<'_>, names: &Names<'_>) -> Option<Fault> {
    let word = table.required::<String>("kind");
    let at = table.checked("at", check_time).unwrap_or_default();
    let length = time(table, "for");
    let shape = shape(table, length);
    let kind = kind(table, &word?)?;
    let row = kind.row();
    let place = place(table, &row, names);
    let amount = amount(table, &row);
    let details = details(table, &row);
    refuse_strangers(table, &row);
    let name: Option<GridName> = table.optional("name");
    Some(Fault {
        name: name.map_or_else(|| kind.as_str().to_owned(), |name| name.as_str().to_owned()),
        kind,
        place: place?,
        amount: amount?,
        at,
        length,
        shape: shape?,
        details: details?,
        origin: Origin {
            file: table.document().file().to_owned(),
            line: table.line(),
        },
    })
}

fn kind(table: &Section<'_>, word: &str) -> Option<FaultKind> {
    if let Some((_, room)) = WAITING.iter().find(|(waiting, _)| *waiting == word) {
        let message = format!("\"{word}\" cannot be made yet: it comes with {room}");
        table.refuse("kind", Refusal::new(message, "leave this fault out"));
        return None;
    }
    let words: Vec<_> = FaultKind::ALL.iter().map(|kind| (kind.as_str(), *kind)).collect();
    match one_of(word, &words) {
        Ok(kind) => Some(kind),
        Err(refusal) => {
            table.refuse("kind", refusal);
            None
        }
    }
}

fn check_time(time: &Duration) -> Result<(), Refusal> {
    if *time > TIME_MAX {
        return Err(Refusal::new("is longer than a year", "write at most \"366 d\""));
    }
    Ok(())
}

fn time(table: &Section<'_>, key: &str) -> Option<Duration> {
    table.checked(key, |time: &Duration| {
        if time.is_zero() {
            return Err(Refusal::new("must be above zero", "write a duration such as \"1 m\""));
        }
        check_time(time)
    })
}

fn share(table: &Section<'_>, key: &str) -> Option<f64> {
    table.checked(key, |share: &f64| {
        if *share > 0.0 && *share <= 1.0 {
            return Ok(());
        }
        let message = format!("{share} is no share of anything");
        Err(Refusal::new(message, "write a number above 0, at most 1"))
    })
}

fn above_zero<T: FromValue + Default + PartialOrd>(table: &Section<'_>, key: &str, instead: &str) -> Option<T> {
    table.checked(key, |value: &T| {
        if *value > T::default() {
            return Ok(());
        }
        Err(Refusal::new("must be above zero", instead))
    })
}

fn shape(table: &Section<'_>, length: Option<Duration>) -> Option<Shape> {
    let word = table.or("shape", "step".to_owned());
    let words = [("step", 0), ("ramp", 1), ("periodic", 2), ("flapping", 3)];
    let which = match one_of(&word, &words) {
        Ok(which) => which,
        Err(refusal) => {
            table.refuse("shape", refusal);
            return None;
        }
    };
    for (key, shapes) in [("rise", &[1][..]), ("period", &[2, 3]), ("on", &[2])] {
        if table.has(key) && !shapes.contains(&which) {
            let message = format!("the shape \"{word}\" has no {key}");
            table.refuse(
                key,
                Refusal::new(message, "remove it, or choose the shape that it belongs to"),
            );
        }
    }
    let on = table.checked("on", |on: &f64| {
        if *on > 0.0 && *on < 1.0 {
            return Ok(());
        }
        Err(Refusal::new(
            format!("{on} of a period is no part of it"),
            "write a number between 0 and 1",
        ))
    });
    let period = table.checked("period", |period: &Duration| {
        if *period < PERIOD_MIN {
            return Err(Refusal::new("is too short", "write at least \"100 ms\""));
        }
        check_time(period)
    });
    if which >= 2 && !table.has("period") {
        table.miss("period", "add period (duration): the time from one begin to the next");
    }
    let rise = time(table, "rise");
    match which {
        0 => Some(Shape::Step),
        1 => {
            let rise = rise.or(length);
            if rise.is_none() && !table.has("rise") {
                table.miss("rise", "add rise (duration), or for: a ramp rises in that time");
            }
            rise.map(Shape::Ramp)
        }
        2 => Some(Shape::Periodic(period?, on.unwrap_or(0.5))),
        _ => Some(Shape::Flapping(period?)),
    }
}

fn place(table: &Section<'_>, row: &KindRow, names: &Names<'_>) -> Option<FaultPlace> {
    let allowed: Vec<&str> = PLACES
        .into_iter()
        .filter(|key| row.places.iter().any(|place| place.key() == *key))
        .collect();
    let given: Vec<&str> = PLACES.into_iter().filter(|key| table.has(key)).collect();
    let service = |place: &PlaceKey| match place {
        PlaceKey::Service(service) => Some(*service),
        _ => None,
    };
    let services: Vec<Service> = row.places.iter().filter_map(service).collect();
    let (kind, choice) = (row.kind, allowed.join(", "));
    match given[..] {
        [] => {
            // A kind of one service alone needs no place.
            if let ([PlaceKey::Service(service)], []) = (row.places, &given[..]) {
                return Some(FaultPlace::Service(*service));
            }
            table.miss(allowed[0], format!("{kind} acts at a place: add {choice}"));
            None
        }
        [key] if allowed.contains(&key) => read_place(table, key, row, names, &services),
        [key] => {
            let message = format!("{kind} does not act at a {key}");
            table.refuse(key, Refusal::new(message, format!("name its place by {choice}")));
            None
        }
        [first, .., last] => {
            let message = format!("stands beside {first}");
            table.refuse(last, Refusal::new(message, "keep one place per fault"));
            None
        }
    }
}

fn read_place(
    table: &Section<'_>,
    key: &str,
    row: &KindRow,
    names: &Names<'_>,
    services: &[Service],
) -> Option<FaultPlace> {
    let way = way(table, key, row);
    match key {
        "rse" => Some(FaultPlace::Rse(pattern(table, key, "RSE", &names.rses)?, way?)),
        "site" => Some(FaultPlace::Site(pattern(table, key, "site", &names.sites)?, way?)),
        "workload" => Some(FaultPlace::Workload(pattern(table, key, "workload", &names.workloads)?)),
        "link" => {
            let link: LinkPattern = table.optional(key)?;
            for end in [&link.source, &link.destination] {
                check_fits(table, key, "RSE", end, &names.rses)?;
            }
            Some(FaultPlace::Link(link))
        }
        "segment" => table
            .optional::<GridName>(key)
            .map(|name| FaultPlace::Segment(name.as_str().to_owned())),
        _ => {
            let word: String = table.optional(key)?;
            let words: Vec<_> = Service::WORDS
                .into_iter()
                .filter(|(_, service)| services.contains(service))
                .collect();
            match one_of(&word, &words) {
                Ok(service) => Some(FaultPlace::Service(service)),
                Err(refusal) => {
                    table.refuse(key, refusal);
                    None
                }
            }
        }
    }
}

fn way(table: &Section<'_>, key: &str, row: &KindRow) -> Option<Way> {
    if !table.has("way") {
        return Some(Way::Both);
    }
    if !(row.has_way || key == "site") || !["rse", "site"].contains(&key) {
        let message = format!("{} has no direction at a {key}", row.kind);
        table.refuse("way", Refusal::new(message, "remove it"));
        return None;
    }
    let word: String = table.optional("way")?;
    match one_of(&word, &Way::WORDS) {
        Ok(way) => Some(way),
        Err(refusal) => {
            table.refuse("way", refusal);
            None
        }
    }
}

fn pattern(table: &Section<'_>, key: &str, what: &str, names: &[&str]) -> Option<Pattern> {
    let pattern: Pattern = table.optional(key)?;
    check_fits(table, key, what, &pattern, names)?;
    Some(pattern)
}

fn check_fits(table: &Section<'_>, key: &str, what: &str, pattern: &Pattern, names: &[&str]) -> Option<()> {
    if names.iter().any(|name| pattern.fits(name)) {
        return Some(());
    }
    let remedy = match nearest(pattern.as_str(), names.iter().copied()) {
        Some(name) => format!("did you mean \"{name}\"?"),
        None => format!(
            "use one of {}",
            names.iter().take(20).copied().collect::<Vec<_>>().join(", ")
        ),
    };
    let message = format!("there is no {what} \"{}\" to break", pattern.as_str());
    table.refuse(key, Refusal::new(message, remedy));
    None
}

fn amount(table: &Section<'_>, row: &KindRow) -> Option<Amount> {
    if let Some(key) = row.gauge.key()
        && !table.has(key)
    {
        table.miss(key, format!("{} needs it: {}", row.kind, row.meaning));
        return None;
    }
    let of_rate = "write a rate above zero; to stop everything use the kind \"outage\"";
    match row.gauge {
        Gauge::Whole => Some(Amount::Whole),
        Gauge::Rate => above_zero::<BitRate>(table, "rate", of_rate).map(Amount::Rate),
        Gauge::Delay if row.kind == FaultKind::SkewedClock => skew(table).map(Amount::Delay),
        Gauge::Delay => time(table, "delay").map(Amount::Delay),
        Gauge::Share => share(table, "share").map(Amount::Share),
        Gauge::Limit => above_zero::<u32>(table, "limit", "write 1 or more").map(Amount::Limit),
        Gauge::Size => above_zero::<Bytes>(table, "size", "write a size such as \"1 MB\"").map(Amount::Size),
        Gauge::Factor => factor(table, row.kind).map(Amount::Factor),
    }
}

/// A difference of clocks that the check of a token notices.
fn skew(table: &Section<'_>) -> Option<Duration> {
    let delay = time(table, "delay")?;
    if delay > FORGIVEN {
        return Some(delay);
    }
    let message = "changes nothing: the check of a token forgives a minute";
    table.refuse("delay", Refusal::new(message, "write more than \"60 s\""));
    None
}

fn factor(table: &Section<'_>, kind: FaultKind) -> Option<f64> {
    let least = if kind == FaultKind::WrongCounters { -1e6 } else { 0.0 };
    table.checked("factor", |factor: &f64| {
        if (*factor - 1.0).abs() < f64::EPSILON {
            return Err(Refusal::new(
                "1 changes nothing",
                "write another factor, or remove the fault",
            ));
        }
        if *factor <= least || *factor > 1e6 {
            let message = format!("{factor} is out of range");
            return Err(Refusal::new(
                message,
                format!("write a number above {least}, at most 1000000"),
            ));
        }
        Ok(())
    })
}

fn details(table: &Section<'_>, row: &KindRow) -> Option<Details> {
    let mut is_whole = true;
    for detail in row.details {
        let (name, is_required) = detail.strip_suffix('!').map_or((*detail, false), |name| (name, true));
        if is_required && !table.has(name) {
            table.miss(name, format!("{} needs it: {}", row.kind, row.meaning));
            is_whole = false;
        }
    }
    let takes = |name: &str| row.details.iter().any(|detail| detail.trim_end_matches('!') == name);
    let word = |key: &str, words: &[&'static str]| {
        let text: String = table.optional(key)?;
        let words: Vec<_> = words.iter().map(|word| (*word, *word)).collect();
        one_of(&text, &words).map_err(|refusal| table.refuse(key, refusal)).ok()
    };
    let modes = Mode::ALL.map(Mode::as_str);
    let details = Details {
        error: word("error", &ERRORS).map(str::to_owned),
        mode: word("mode", &modes).and_then(|word| Mode::ALL.into_iter().find(|mode| mode.as_str() == word)),
        above: above_zero(table, "above", "write a size such as \"1 MB\""),
        server: above_zero(table, "server", "servers are counted from 1"),
        to: table.optional::<GridName>("to").map(|name| name.as_str().to_owned()),
        rate: takes("rate")
            .then(|| above_zero(table, "rate", "write a rate above zero"))
            .flatten(),
        delay: takes("delay").then(|| time(table, "delay")).flatten(),
    };
    is_whole.then_some(details)
}

/// Refuses keys that the kind has no use for: they would be passed over without a word.
fn refuse_strangers(table: &Section<'_>, row: &KindRow) {
    let takes = |key: &str| {
        row.gauge.key() == Some(key) || row.details.iter().any(|detail| detail.trim_end_matches('!') == key)
    };
    for key in AMOUNTS.into_iter().chain(["error", "mode", "above", "server", "to"]) {
        if table.has(key) && !takes(key) {
            let message = format!("{} takes no {key}", row.kind);
            table.refuse(key, Refusal::new(message, "remove it"));
        }
    }
}
