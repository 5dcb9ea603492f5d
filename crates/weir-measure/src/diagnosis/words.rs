//! The sentences of a statement: cause, remedy, and the test that would settle it.

use weir_units::{BitRate, duration};
use weir_world::{CauseClass, Place, PlaceKind};

use super::statement::Statement;

/// Fills the sentences in.
pub(super) fn spell(mut statement: Statement) -> Statement {
    statement.text = text(&statement);
    advice(statement.class).clone_into(&mut statement.advice);
    settle(statement.class).clone_into(&mut statement.settle);
    statement
}

impl Statement {
    /// The statement without times and other answers, for a line of a terminal.
    pub fn short(&self) -> String {
        let cause = cause(self.class, self.place.as_ref());
        let links = match self.links.as_slice() {
            [] => String::new(),
            [link] => format!(", {link}"),
            [link, others @ ..] => format!(", {link} and {} more", others.len()),
        };
        let rates = if self.links.is_empty() {
            String::new()
        } else {
            format!(": {} of {}", rate(self.held_bps), rate(self.asked_bps))
        };
        format!("{:.2} {cause}{links}{rates}", self.probability)
    }
}

fn text(statement: &Statement) -> String {
    let cause = cause(statement.class, statement.place.as_ref());
    let rest = match statement.others.first() {
        Some(other) if statement.is_open => {
            let other = cause_or(other.class, other.place.as_ref());
            format!(", or {other}: the storages tell nothing of their transfers")
        }
        Some(other) if other.probability >= 0.02 => {
            let name = cause_or(other.class, other.place.as_ref());
            format!(
                " (p = {:.2}; else {name}, {:.2})",
                statement.probability, other.probability
            )
        }
        _ => format!(" (p = {:.2})", statement.probability),
    };
    match statement.links.as_slice() {
        [] => format!("{}{rest}", first_letter(&cause)),
        [first, others @ ..] => format!(
            "{}{} got {} of {} from {} to {}: {cause}{rest}",
            first,
            match others.len() {
                0 => String::new(),
                1 => format!(" and {}", others[0]),
                more => format!(" and {more} more links"),
            },
            rate(statement.held_bps),
            rate(statement.asked_bps),
            moment(statement.from_s),
            moment(statement.until_s),
        ),
    }
}

fn rate(bps: f64) -> String {
    format!("{:.2}", BitRate(bps.max(0.0) as u64))
}

fn moment(seconds: f64) -> String {
    duration::format(std::time::Duration::from_secs(seconds.max(0.0) as u64))
}

fn first_letter(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + chars.as_str()
    })
}

/// A place in words.
fn at(place: Option<&Place>) -> String {
    let Some(place) = place else {
        return "an unknown place".to_owned();
    };
    let name = &place.name;
    match place.kind {
        PlaceKind::RseIn | PlaceKind::RseOut => name.clone(),
        PlaceKind::Server => match name.split_once('#') {
            Some((rse, number)) => format!("server {number} of {rse}"),
            None => format!("the server {name}"),
        },
        PlaceKind::SiteIn => format!("the network into site {name}"),
        PlaceKind::SiteOut => format!("the network out of site {name}"),
        PlaceKind::Segment => format!("the segment {name}"),
        PlaceKind::Path => format!("the path {name}"),
        PlaceKind::Issuer => format!("the issuer of {name}"),
        PlaceKind::Service => format!("the {name} service"),
        PlaceKind::Workload => format!("the workload {name}"),
        PlaceKind::Vo => format!("the organisation {name}"),
        PlaceKind::Activity => format!("the activity {name}"),
    }
}

fn cause_or(class: CauseClass, place: Option<&Place>) -> String {
    format!("{class} at {}", at(place))
}

/// A cause in words.
fn cause(class: CauseClass, place: Option<&Place>) -> String {
    let name = at(place);
    let is_out = place.is_some_and(|place| place.kind == PlaceKind::RseOut);
    match class {
        CauseClass::StorageDataPath if is_out => format!("{name} read too slowly"),
        CauseClass::StorageDataPath => format!("{name} took files in too slowly"),
        CauseClass::Admission => format!("{name} served too few copies at once, or gave way under them"),
        CauseClass::UnevenServers => format!("{name} carried less than its share"),
        CauseClass::SharedCapacity => format!("{name} was full"),
        CauseClass::PathQuality => format!("each connection of {name} was slow, or stood still"),
        CauseClass::Outage => format!("{name} was down, cut or rerouted"),
        CauseClass::SchedulerPolicy => {
            format!("the transfer service ran no more copies at {name}, and each was as fast as usual")
        }
        CauseClass::ControlPlane => format!("{name} decided or recorded too slowly"),
        CauseClass::Authorisation => format!("tokens or rights came late or not at all at {name}"),
        CauseClass::Space => format!("{name} had no room, or deleted too slowly"),
        CauseClass::Tape => format!("tape at {name} was busy"),
        CauseClass::Workload => {
            format!("{name} asked late, for too little, in bursts, or for files that were not there")
        }
        CauseClass::Software => format!("copies failed or were spoilt at {name} whatever the load"),
        CauseClass::Measurement => format!("the counters of {name} are wrong, and the traffic is well"),
        CauseClass::OtherController => format!("something stopped or moved {name} on purpose"),
        CauseClass::None => "nothing held them back".to_owned(),
        CauseClass::Other => format!("something at {name} held them back"),
    }
}

/// The remedy for a class of causes.
fn advice(class: CauseClass) -> &'static str {
    match class {
        CauseClass::StorageDataPath => "look at its disks and processors: more of them, or fewer copies at once",
        CauseClass::Admission => "raise its limit if its disks are idle, or lower the service's limit to what it bears",
        CauseClass::UnevenServers => "look at this server and at how copies are spread over all of them",
        CauseClass::SharedCapacity => "see what else is carried there; ask for less, or for more capacity",
        CauseClass::PathQuality => "check TCP windows, loss and packet size on this path, in both directions",
        CauseClass::Outage => "see whether it is planned, and restart or route around it",
        CauseClass::SchedulerPolicy => "raise the limit: the storages and the network can take more",
        CauseClass::ControlPlane => "look at the service's database and at the load of its host",
        CauseClass::Authorisation => "look at the issuer's latency and errors, at lifetimes, clocks and rights",
        CauseClass::Space => "make room, raise the quota, or let deletion keep up",
        CauseClass::Tape => "look at drives, queues and the disk buffer",
        CauseClass::Workload => "look at the injector: its rate, its intervals, and the files that it names",
        CauseClass::Software => "try another mode, protocol or version at one end; report the error to its makers",
        CauseClass::Measurement => "do not trust this counter; compare it with bytes that are known",
        CauseClass::OtherController => "ask who controls it, and look at its log for the same times",
        CauseClass::None | CauseClass::Other => "look at the signals of these links",
    }
}

/// The test that would settle it.
fn settle(class: CauseClass) -> &'static str {
    match class {
        CauseClass::StorageDataPath => {
            "copy the same files from memory, or to nowhere: the rate rises if it is the disk"
        }
        CauseClass::Admission => "halve the copies at once: the sum stays or rises if the storage gave way",
        CauseClass::UnevenServers => "copy one file through each server",
        CauseClass::SharedCapacity => "slow one link down: the others rise by as much if they share what is full",
        CauseClass::PathQuality => "copy one small and one large file, and one over another path",
        CauseClass::Outage => "connect from two other places",
        CauseClass::SchedulerPolicy => "force one file past the limit: it runs at the usual rate",
        CauseClass::ControlPlane => "copy one file past the service",
        CauseClass::Authorisation => "ask for one token alone; copy once with another kind of credential",
        CauseClass::Space => "write one file under a new name, and one over an old one",
        CauseClass::Tape => "stage a file that is on disk already",
        CauseClass::Workload => "inject evenly for five minutes",
        CauseClass::Software => "copy the same files with other software at one end",
        CauseClass::Measurement => "send a known number of bytes",
        CauseClass::OtherController => "repeat with the controller in a dry run",
        CauseClass::None | CauseClass::Other => "repeat with storages that tell what their transfers wait for",
    }
}
