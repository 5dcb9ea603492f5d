//! Checking of a parsed file: names become positions, and impossible values become problems.

use std::collections::BTreeMap;
use std::rc::Rc;

use weir_units::Bytes;

use super::file::{FlowEntry, Id, LinkEntry, LinkPolicy, ScenarioFile};
use super::place::{find_lines, path_at};
use super::{Link, Problem, Scenario, ScenarioFlow};
use crate::network::{Moment, Rate, Sharing};

/// Bandwidths from 1 bit/s to 10¹⁸ bit/s; a value outside is probably in another unit.
const BANDWIDTH: (f64, f64) = (1.0, 1e18);

/// The longest latency of a link, in seconds: more was meant in milliseconds.
const LATENCY_MAX: f64 = 3600.0;

/// The latest start in seconds: ten thousand years.
const START_MAX: f64 = 3.2e11;

/// Most streams of one flow.
const STREAMS_MAX: u64 = 1_000_000;

/// More problems than these are not listed.
const PROBLEMS_MAX: usize = 20;

/// Problems as they are found.
#[derive(Default)]
struct Problems {
    found: Vec<Problem>,
    more: usize,
}

impl Problems {
    fn add(&mut self, key: String, message: String, remedy: &str) {
        if self.found.len() < PROBLEMS_MAX {
            let remedy = remedy.to_owned();
            self.found.push(Problem {
                line: None,
                key,
                message,
                remedy,
            });
        } else {
            self.more += 1;
        }
    }

    fn all(mut self) -> Vec<Problem> {
        if self.more > 0 {
            self.found.push(Problem {
                line: None,
                key: String::new(),
                message: format!("has {} more problems", self.more),
                remedy: "put these right first".to_owned(),
            });
        }
        self.found
    }
}

impl Scenario {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// Every problem found, at most twenty by name; an error of syntax alone.
    pub fn parse(text: &str) -> Result<Scenario, Vec<Problem>> {
        let file: ScenarioFile = serde_json::from_str(text).map_err(|error| vec![syntax(text, &error)])?;
        let mut problems = Problems::default();
        let names = Names::new(&file, &mut problems);
        let links = file
            .links
            .iter()
            .enumerate()
            .map(|(at, entry)| link(at, entry, &mut problems))
            .collect();
        let mut ids = BTreeMap::new();
        let mut flows = Vec::with_capacity(file.flows.len());
        for (at, entry) in file.flows.iter().enumerate() {
            if let Some(first) = ids.insert(&entry.id, at) {
                let message = format!("{} is the id of flows[{first}] too", shown(&entry.id));
                problems.add(format!("flows[{at}].id"), message, "give each flow its own id");
            }
            flows.push(flow(at, entry, &names, &mut problems));
        }
        let mut problems = problems.all();
        find_lines(text, &mut problems);
        if problems.is_empty() {
            Ok(Scenario { links, flows })
        } else {
            Err(problems)
        }
    }
}

fn shown(id: &Id) -> String {
    match id {
        Id::Number(number) => number.to_string(),
        Id::Text(text) => format!("{text:?}"),
    }
}

fn syntax(text: &str, error: &serde_json::Error) -> Problem {
    let (line, column) = (error.line(), error.column());
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or(&message);
    // The parser reports both at the end of a container: a missing entry, and a wrong last value.
    let last = !message.starts_with("missing") && !message.starts_with("invalid length");
    let key = path_at(text, line, column, last);
    // In the words of the file's writer.
    let message = message
        .replace("expected f64", "expected a number")
        .replace("a sequence", "a list");
    let remedy = if error.is_data() {
        "see docs/network-model.md for the keys and their values".to_owned()
    } else {
        format!("write valid JSON, which has no NaN or Infinity (column {column})")
    };
    Problem {
        line: Some(line),
        key,
        message,
        remedy,
    }
}

/// The positions of names.
struct Names<'a> {
    nodes: Option<BTreeMap<&'a str, usize>>,
    links: BTreeMap<&'a str, u32>,
    routes: BTreeMap<(&'a str, &'a str), Rc<[u32]>>,
}

impl<'a> Names<'a> {
    fn new(file: &'a ScenarioFile, problems: &mut Problems) -> Names<'a> {
        let mut names = Names {
            nodes: file.nodes.as_ref().map(|_| BTreeMap::new()),
            links: BTreeMap::new(),
            routes: BTreeMap::new(),
        };
        for (at, node) in file.nodes.iter().flatten().enumerate() {
            let first = names.nodes.as_mut().and_then(|nodes| nodes.insert(node, at));
            if let Some(first) = first {
                let message = format!("{node:?} is nodes[{first}] too");
                problems.add(format!("nodes[{at}]"), message, "name each node once");
            }
        }
        for (at, link) in file.links.iter().enumerate() {
            if let Some(first) = names.links.insert(&link.name, at as u32) {
                let message = format!("{:?} is the name of links[{first}] too", link.name);
                problems.add(format!("links[{at}].name"), message, "give each link its own name");
            }
        }
        for (at, route) in file.routes.iter().enumerate() {
            let key = format!("routes[{at}]");
            names.check_node(&format!("{key}.src"), &route.src, problems);
            names.check_node(&format!("{key}.dst"), &route.dst, problems);
            let path = names.path(&format!("{key}.path"), &route.path, problems);
            if names.routes.insert((&route.src, &route.dst), path).is_some() {
                let message = format!("{:?} to {:?} has a route already", route.src, route.dst);
                problems.add(key, message, "keep one route for each pair");
            }
        }
        names
    }

    fn check_node(&self, key: &str, name: &str, problems: &mut Problems) {
        if self.nodes.as_ref().is_some_and(|nodes| !nodes.contains_key(name)) {
            let message = format!("{name:?} is not in nodes");
            problems.add(key.to_owned(), message, "add it to nodes, or correct the name");
        }
    }

    fn path(&self, key: &str, names: &[String], problems: &mut Problems) -> Rc<[u32]> {
        let mut path = Vec::with_capacity(names.len());
        for (at, name) in names.iter().enumerate() {
            if let Some(link) = self.links.get(name.as_str()) {
                path.push(*link);
            } else {
                let message = format!("{name:?} is not the name of a link");
                problems.add(format!("{key}[{at}]"), message, "add it to links, or correct the name");
            }
        }
        path.into()
    }
}

fn link(at: usize, entry: &LinkEntry, problems: &mut Problems) -> Link {
    let mut number = |key: &str, value: f64, (least, most): (f64, f64), remedy: &str| {
        if !(least..=most).contains(&value) {
            let message = format!("{value} of link {:?} is not between {least} and {most}", entry.name);
            problems.add(format!("links[{at}].{key}"), message, remedy);
        }
    };
    let remedy = "give bits per second; a link that carries nothing is best left out";
    number("bandwidth_bps", entry.bandwidth_bps, BANDWIDTH, remedy);
    number(
        "latency_s",
        entry.latency_s,
        (0.0, LATENCY_MAX),
        "give seconds one way, such as 0.01 for 10 ms",
    );
    Link {
        bandwidth: Rate::bits_per_second(entry.bandwidth_bps).unwrap_or_default(),
        latency: Moment::from_seconds(entry.latency_s).unwrap_or_default(),
        sharing: match entry.policy {
            LinkPolicy::Shared => Sharing::Shared,
            LinkPolicy::FatPipe => Sharing::FatPipe,
        },
    }
}

fn flow(at: usize, entry: &FlowEntry, names: &Names<'_>, problems: &mut Problems) -> ScenarioFlow {
    let key = |key: &str| format!("flows[{at}].{key}");
    let id = shown(&entry.id);
    for (end, node) in [("src", &entry.src), ("dst", &entry.dst)] {
        if let Some(node) = node {
            names.check_node(&key(end), node, problems);
        }
    }
    if !(0.0..=START_MAX).contains(&entry.start_s) {
        let message = format!("{} of flow {id} is not between 0 and {START_MAX}", entry.start_s);
        problems.add(key("start_s"), message, "give seconds from the beginning");
    }
    let size = entry.size_bytes.whole().unwrap_or_else(|| {
        let message = format!(
            "{} of flow {id} is not a whole number below 2^64",
            entry.size_bytes.as_f64()
        );
        problems.add(key("size_bytes"), message, "give whole bytes");
        0
    });
    let streams = entry.streams.map_or(Some(1), super::file::Number::whole);
    let streams = streams
        .filter(|streams| (1..=STREAMS_MAX).contains(streams))
        .unwrap_or_else(|| {
            let message = format!("that of flow {id} is not a whole number between 1 and {STREAMS_MAX}");
            problems.add(
                key("streams"),
                message,
                "give the number of parallel streams; 1 is the default",
            );
            1
        });
    let limit = entry.rate_limit_bps;
    if limit != 0.0 && !(BANDWIDTH.0..=BANDWIDTH.1).contains(&limit) {
        let message = format!(
            "{limit} of flow {id} is not between {} and {}",
            BANDWIDTH.0, BANDWIDTH.1
        );
        problems.add(
            key("rate_limit_bps"),
            message,
            "give bits per second, or 0 for no limit",
        );
    }
    ScenarioFlow {
        id: entry.id.clone(),
        start: Moment::from_seconds(entry.start_s).unwrap_or_default(),
        size: Bytes(size),
        path: path_of(at, entry, names, problems),
        streams: streams as u32,
        limit: Rate::bits_per_second(limit).filter(|limit| *limit > Rate::ZERO),
    }
}

/// The path of a flow: its own, or that of its route.
fn path_of(at: usize, entry: &FlowEntry, names: &Names<'_>, problems: &mut Problems) -> Rc<[u32]> {
    if let Some(path) = &entry.path {
        return names.path(&format!("flows[{at}].path"), path, problems);
    }
    let ends = entry.src.as_deref().zip(entry.dst.as_deref());
    if let Some(path) = ends.and_then(|ends| names.routes.get(&ends)) {
        return Rc::clone(path);
    }
    let id = shown(&entry.id);
    let message = match ends {
        Some((source, destination)) => {
            format!("flow {id} has none, nor is there a route from {source:?} to {destination:?}")
        }
        None => format!("flow {id} has none, nor src and dst to find a route by"),
    };
    problems.add(
        format!("flows[{at}].path"),
        message,
        "add a route, or give the flow a path (`[]` for one that crosses no link)",
    );
    Rc::from([])
}
