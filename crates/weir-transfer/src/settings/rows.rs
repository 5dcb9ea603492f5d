//! The kinds of rows: their allowed keys, and their settings for the core.
//!
//! Each reader takes a row as stored and checks all of it: a stored key has an effect, or is shown as having none.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use weir_fts_api::{Group, GroupMember, Link, Share};
use weir_sched::{Direction, Mode};
use weir_units::BitRate;

use super::{
    named::{Key, Pair, Place, Worth},
    values::{
        Checked, Object, count, flag, given, integer, invalid, number, object, only, positive, rate, se_or_all,
        storage_elements, storage_name, text,
    },
};

/// The core's settings of a row.
pub(super) type Effects = Vec<(Key, Worth)>;

/// FTS3's keys of a link, and ours.
const LINK_KEYS: [&str; 10] = [
    "symbolicname",
    "source",
    "destination",
    "min_active",
    "max_active",
    "optimizer_mode",
    "tcp_buffer_size",
    "nostreams",
    "no_delegation",
    "weir",
];

/// The most streams that a copy may be asked to use.
const STREAMS_MAX: u32 = 64;

/// Reads `POST /config/links`: the row as stored and shown. Keys that are left out keep their value of `former`.
pub fn normal_link(body: &Object, former: Option<&Object>) -> Checked<Object> {
    only(body, &LINK_KEYS)?;
    let Some(name) = text(body, "symbolicname")? else {
        return invalid("Missing symbolicname");
    };
    let mut row = former.cloned().unwrap_or_default();
    row.extend(body.clone());
    let end = |key| -> Checked<String> { se_or_all(&text(&row, key)?.unwrap_or_else(|| "*".to_owned())) };
    let (source, destination) = (end("source")?, end("destination")?);
    if (source == "*") != (destination == "*") {
        return invalid(
            "Limits of a link name both storage elements, or are for all links (* to *); use /config/se for one side",
        );
    }
    let max_active = count(&row, "max_active")?;
    let min_active = match (count(&row, "min_active")?, max_active) {
        (Some(min), Some(max)) if min > max && given(body, "min_active").is_some() => {
            return invalid("max_active is lower than min_active");
        }
        (Some(min), Some(max)) => Some(min.min(max)),
        (min, _) => min,
    };
    let mode = count(&row, "optimizer_mode")?;
    let streams = count(&row, "nostreams")?;
    if streams.is_some_and(|streams| streams > STREAMS_MAX) {
        return invalid(format!("nostreams must be between 0 and {STREAMS_MAX}"));
    }
    let kept = row_of(&Link {
        symbolicname: name,
        source,
        destination,
        min_active,
        max_active,
        optimizer_mode: mode,
        tcp_buffer_size: count(&row, "tcp_buffer_size")?,
        nostreams: streams,
        no_delegation: flag(&row, "no_delegation")?.unwrap_or(false),
        weir: object(&row, "weir")?.map(without_nulls).unwrap_or_default(),
    });
    link(&kept)?;
    Ok(kept)
}

/// The stored form of a setting.
fn row_of(setting: &impl Serialize) -> Object {
    let row = serde_json::to_value(setting).unwrap_or_default();
    row.as_object().cloned().unwrap_or_default()
}

fn without_nulls(object: &Object) -> Object {
    let kept = object.iter().filter(|(_, value)| !value.is_null());
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The two ends of a link's row.
pub fn ends(row: &Object) -> (String, String) {
    let end = |key| row.get(key).and_then(Value::as_str).unwrap_or("*").to_owned();
    (end("source"), end("destination"))
}

/// The links that two names stand for.
pub(super) fn pairs((source, destination): &Pair) -> Vec<Pair> {
    let sources = storage_elements(source).into_iter();
    let from = |source: String| {
        let destinations = storage_elements(destination).into_iter();
        destinations.map(move |destination| (source.clone(), destination))
    };
    sources.flat_map(from).collect()
}

/// `min_active` = `max_active` is FTS3's way to fix a number; 0 as mode leaves the limit alone to decide.
fn mode_of(row: &Object) -> Checked<Option<Mode>> {
    let weir = object(row, "weir")?.cloned().unwrap_or_default();
    match given(&weir, "optimiser") {
        Some(Value::String(word)) if word == "auto" => return Ok(Some(Mode::Auto)),
        Some(Value::String(word)) if word == "off" => return Ok(Some(Mode::Off)),
        Some(Value::Number(_)) => return Ok(count(&weir, "optimiser")?.map(Mode::Fixed)),
        Some(other) => return invalid(format!("optimiser must be \"auto\", \"off\" or a number, not {other}")),
        None => {}
    }
    Ok(
        match (
            integer(row, "optimizer_mode")?,
            count(row, "min_active")?,
            count(row, "max_active")?,
        ) {
            (Some(0), _, _) => Some(Mode::Off),
            (_, Some(min), Some(max)) if min == max && max > 0 => Some(Mode::Fixed(max)),
            (Some(_), _, _) => Some(Mode::Auto),
            (None, _, _) => None,
        },
    )
}

/// A link, or every link.
pub(super) fn link(row: &Object) -> Checked<Effects> {
    let pair = ends(row);
    let weir = object(row, "weir")?.cloned().unwrap_or_default();
    only(&weir, &["target", "rate", "weight", "optimiser"])?;
    let (slots, mode) = (count(row, "max_active")?, mode_of(row)?);
    let (target, limit, weight) = (rate(&weir, "target")?, rate(&weir, "rate")?, count(&weir, "weight")?);
    let mut effects = Effects::new();
    if pair.0 == "*" {
        if target.is_some() || limit.is_some() || weight.is_some() {
            return invalid("target, rate and weight are for one link, not for all of them");
        }
        effects.extend(slots.map(|slots| (Key::EveryLink, Worth::Number(slots))));
        effects.extend(mode.map(|mode| (Key::Optimiser, Worth::Mode(mode))));
        return Ok(effects);
    }
    if weight == Some(0) {
        return invalid("weight must be at least 1; max_active 0 holds a link back");
    }
    for pair in pairs(&pair) {
        let place = Place::Link(pair.clone());
        effects.extend(slots.map(|slots| (Key::Slots(place.clone()), Worth::Number(slots))));
        effects.extend(limit.map(|limit| (Key::Rate(place), Worth::Rate(limit))));
        effects.extend(mode.map(|mode| (Key::LinkOptimiser(pair.clone()), Worth::Mode(mode))));
        effects.extend(target.map(|target| (Key::Target(pair.clone()), Worth::Rate(target))));
        effects.extend(weight.map(|weight| (Key::Weight(pair), Worth::Number(weight))));
    }
    Ok(effects)
}

/// FTS3 counts throughput in MiB/s.
const MIB_PER_SECOND: f64 = 8.0 * 1024.0 * 1024.0;

fn throughput(info: &Object, key: &str) -> Checked<Option<BitRate>> {
    let asked = number(info, key)?.filter(|rate| *rate > 0.0);
    Ok(asked.map(|rate| BitRate((rate * MIB_PER_SECOND) as u64)))
}

/// A storage element, or every one: `se_info` and `operations`.
pub(super) fn storage(se: &str, row: &Object) -> Checked<Effects> {
    // Rows of the first versions hold `se_info` alone.
    let info = object(row, "se_info")?.unwrap_or(row);
    let (inbound, outbound) = (
        positive(info, "inbound_max_active")?,
        positive(info, "outbound_max_active")?,
    );
    let (inbound_rate, outbound_rate) = (
        throughput(info, "inbound_max_throughput")?,
        throughput(info, "outbound_max_throughput")?,
    );
    if let Some(support) = text(info, "tpc_support")?
        && !["FULL", "PULL", "PUSH", "NONE"].contains(&support.as_str())
    {
        return invalid("tpc_support must be FULL, PULL, PUSH or NONE");
    }
    let operations = object(row, "operations")?.cloned().unwrap_or_default();
    let mut effects = Effects::new();
    if se == "*" {
        if inbound_rate.is_some() || outbound_rate.is_some() || !operations.is_empty() {
            return invalid("For all storage elements (*) there is inbound_max_active and outbound_max_active only");
        }
        effects.extend(inbound.map(|slots| (Key::EveryInbound, Worth::Number(slots))));
        effects.extend(outbound.map(|slots| (Key::EveryOutbound, Worth::Number(slots))));
        return Ok(effects);
    }
    for se in storage_elements(se) {
        let (into, out) = (Place::Inbound(se.clone()), Place::Outbound(se.clone()));
        effects.extend(inbound.map(|slots| (Key::Slots(into.clone()), Worth::Number(slots))));
        effects.extend(outbound.map(|slots| (Key::Slots(out.clone()), Worth::Number(slots))));
        effects.extend(inbound_rate.map(|rate| (Key::Rate(into), Worth::Rate(rate))));
        effects.extend(outbound_rate.map(|rate| (Key::Rate(out), Worth::Rate(rate))));
        for vo in operations.keys() {
            if let Some(limits) = object(&operations, vo)? {
                effects.extend(of_vo(&se, vo, limits)?);
            }
        }
    }
    Ok(effects)
}

/// The limits of a VO at a storage element.
fn of_vo(se: &str, vo: &str, limits: &Object) -> Checked<Effects> {
    only(limits, &["staging", "delete", "inbound", "outbound"])?;
    integer(limits, "delete")?;
    // FTS3's `*` stands for all VOs together.
    let tape = if vo == "*" {
        Place::Staging(se.to_owned())
    } else {
        Place::VoStaging(se.to_owned(), vo.to_owned())
    };
    let places = [
        ("staging", tape),
        ("inbound", Place::VoInbound(se.to_owned(), vo.to_owned())),
        ("outbound", Place::VoOutbound(se.to_owned(), vo.to_owned())),
    ];
    let mut effects = Effects::new();
    for (key, place) in places {
        effects.extend(positive(limits, key)?.map(|slots| (Key::Slots(place), Worth::Number(slots))));
    }
    Ok(effects)
}

/// `POST /config/shares`: a VO's share of the slots of a link, or of every link.
pub fn normal_share(body: &Object) -> Checked<Object> {
    let end = |key| -> Checked<String> { se_or_all(&text(body, key)?.unwrap_or_else(|| "*".to_owned())) };
    let (source, destination) = (end("source")?, end("destination")?);
    let Some(vo) = text(body, "vo")? else {
        return invalid("Missing VO");
    };
    let Some(share) = count(body, "share")? else {
        return invalid("Missing share");
    };
    let row = row_of(&Share {
        source,
        destination,
        vo,
        share,
    });
    vo_share(&row)?;
    Ok(row)
}

pub(super) fn vo_share(row: &Object) -> Checked<Effects> {
    let pair = ends(row);
    if (pair.0 == "*") != (pair.1 == "*") {
        return invalid("A share is for one link, or for all of them (* to *)");
    }
    let vo = text(row, "vo")?.unwrap_or_default();
    if vo == "public" {
        return invalid("VOs without a share of their own have 100 each; there is no share for all of them");
    }
    let share = count(row, "share")?.unwrap_or_default();
    if pair.0 == "*" {
        return Ok(vec![(Key::VoShare(vo), Worth::Number(share))]);
    }
    let of_link = |pair| (Key::LinkVoShare(pair, vo.clone()), Worth::Number(share));
    Ok(pairs(&pair).into_iter().map(of_link).collect())
}

/// `POST /config/activity_shares`: an object of shares, or a list of such.
pub fn normal_activities(body: &Object) -> Checked<Object> {
    let Some(vo) = text(body, "vo")? else {
        return invalid("Missing VO");
    };
    let mut shares = Object::new();
    match given(body, "share") {
        Some(Value::Object(one)) => shares.extend(one.clone()),
        Some(Value::Array(list)) => {
            for part in list {
                match part {
                    Value::Object(part) => shares.extend(part.clone()),
                    other => return invalid(format!("share must hold objects, not {other}")),
                }
            }
        }
        _ => return invalid("Missing share"),
    }
    let shares: Object = shares
        .into_iter()
        .map(|(name, share)| (name.to_lowercase(), share))
        .collect();
    let row = json!({ "vo": vo, "share": shares, "active": flag(body, "active")?.unwrap_or(true) });
    let row = row.as_object().cloned().unwrap_or_default();
    activities(&vo, &row)?;
    Ok(row)
}

/// Converts FTS3's shares to weights. FTS3's are fractions of one, and an unlisted activity counts as `default`. The
/// core's are weights, 100 by default: all are scaled to make `default` (or, without one, their mean) 100.
pub(super) fn activities(vo: &str, row: &Object) -> Checked<Effects> {
    let listed = object(row, "share")?.cloned().unwrap_or_default();
    let mut shares = Vec::with_capacity(listed.len());
    for name in listed.keys() {
        match number(&listed, name)? {
            Some(share) if share >= 0.0 => shares.push((name, share)),
            _ => return invalid(format!("The share of {name} must be 0 or more")),
        }
    }
    let total: f64 = shares.iter().map(|(_, share)| share).sum();
    if total <= 0.0 {
        return invalid("At least one share must be greater than 0");
    }
    if flag(row, "active")? == Some(false) {
        return Ok(Effects::new());
    }
    let usual = shares
        .iter()
        .find(|(name, share)| name.as_str() == "default" && *share > 0.0);
    let usual = usual.map_or(total / shares.len() as f64, |(_, share)| *share);
    let weight = |share: f64| {
        if share > 0.0 {
            ((share / usual * 100.0).round() as u32).clamp(1, 1_000_000)
        } else {
            0
        }
    };
    let effect = |(name, share): &(&String, f64)| {
        let key = Key::ActivityShare(vo.to_owned(), (*name).clone());
        (key, Worth::Number(weight(*share)))
    };
    Ok(shares.iter().map(effect).collect())
}

/// FTS3's keys of the global configuration of a VO, and ours.
pub const GLOBAL_KEYS: [&str; 8] = [
    "retry",
    "max_time_queue",
    "global_timeout",
    "sec_per_mb",
    "vo_name",
    "no_streaming",
    "show_user_dn",
    "ageing",
];

/// Defaults for jobs of a VO (`*`: of all). Submissions read them; only ageing is the core's.
pub(super) fn global(vo: &str, row: &Object) -> Checked<Effects> {
    only(row, &GLOBAL_KEYS)?;
    if integer(row, "retry")?.is_some_and(|retry| !(-1..=255).contains(&retry)) {
        return invalid("retry must be between -1 (none) and 255");
    }
    for key in ["max_time_queue", "global_timeout", "sec_per_mb"] {
        if count(row, key)?.is_some_and(|number| number > 366 * 86_400) {
            return invalid(format!("{key} is longer than a year"));
        }
    }
    for key in ["no_streaming", "show_user_dn"] {
        flag(row, key)?;
    }
    let after = match given(row, "ageing") {
        None => return Ok(Effects::new()),
        Some(_) if vo != "*" => return invalid("ageing is for all VOs (*)"),
        Some(Value::String(word)) if word == "never" => None,
        Some(Value::String(time)) => match weir_units::duration::parse(time) {
            Ok(time) if time >= Duration::from_secs(1) => Some(time),
            Ok(_) => return invalid("ageing must be a second at least, or \"never\""),
            Err(error) => return invalid(format!("ageing: {error}")),
        },
        Some(other) => {
            return invalid(format!(
                "ageing must be a time such as \"30m\", or \"never\", not {other}"
            ));
        }
    };
    Ok(vec![(Key::Ageing, Worth::After(after))])
}

/// `POST /config/weir/groups`: a resource that several storage elements share.
pub fn normal_group(body: &Object) -> Checked<Object> {
    only(body, &["name", "max_active", "max_rate", "members"])?;
    let Some(name) = text(body, "name")? else {
        return invalid("Missing name");
    };
    let mut members = Vec::new();
    for member in given(body, "members").and_then(Value::as_array).into_iter().flatten() {
        let Value::Object(member) = member else {
            return invalid(format!("A member is {{\"se\", \"direction\"}}, not {member}"));
        };
        only(member, &["se", "direction"])?;
        let se = storage_name(&text(member, "se")?.unwrap_or_default())?;
        let direction = text(member, "direction")?.unwrap_or_else(|| "both".to_owned());
        members.push(GroupMember { se, direction });
    }
    let row = row_of(&Group {
        name: name.clone(),
        max_active: count(body, "max_active")?,
        max_rate: given(body, "max_rate").cloned(),
        members,
    });
    group(&name, &row)?;
    Ok(row)
}

pub(super) fn group(name: &str, row: &Object) -> Checked<Effects> {
    let place = Place::Group(name.to_owned());
    let mut effects = Effects::new();
    effects.extend(count(row, "max_active")?.map(|slots| (Key::Slots(place.clone()), Worth::Number(slots))));
    effects.extend(rate(row, "max_rate")?.map(|rate| (Key::Rate(place), Worth::Rate(rate))));
    for member in given(row, "members").and_then(Value::as_array).into_iter().flatten() {
        let member = member.as_object().cloned().unwrap_or_default();
        let se = text(&member, "se")?.unwrap_or_default();
        let directions: &[Direction] = match text(&member, "direction")?.as_deref() {
            Some("in") => &[Direction::In],
            Some("out") => &[Direction::Out],
            Some("both") => &[Direction::In, Direction::Out],
            _ => return invalid("direction must be in, out or both"),
        };
        for se in storage_elements(&se) {
            let member = |direction: &Direction| (Key::Member(name.to_owned(), se.clone(), *direction), Worth::Yes);
            effects.extend(directions.iter().map(member));
        }
    }
    Ok(effects)
}

/// A banned storage element: nothing starts into it or out of it, of one VO or of all.
pub(super) fn banned(name: &str, row: &Object) -> Checked<Effects> {
    let se = text(row, "se")?.unwrap_or_else(|| name.to_owned());
    let vo = text(row, "vo")?;
    let places = |se: String| match &vo {
        None => [Place::Inbound(se.clone()), Place::Outbound(se)],
        Some(vo) => [
            Place::VoInbound(se.clone(), vo.clone()),
            Place::VoOutbound(se, vo.clone()),
        ],
    };
    let none = |place| (Key::Slots(place), Worth::Number(0));
    Ok(storage_elements(&se).into_iter().flat_map(places).map(none).collect())
}
