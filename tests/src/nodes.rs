//! Nodes of the transfer service on one PostgreSQL, and jobs that go on and on at them.
#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a promise that is broken ends the test"
)]

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{Answer, NodeSettings, Peer, Postgres, Services, StorageSettings, run, wait_for};

/// How long anything may take on a loaded machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The configuration that every node is given beside its role.
const TRANSFER: &str = "[limits]\nlink = 8\n[retry]\nretries = 3\ndelay = \"1s\"\n\
    [copy]\nconnect_timeout = \"120s\"\nresponse_timeout = \"120s\"\n[[admin]]\nsubject = \"tester\"\n";

/// Nodes, each with the directory of the socket by which it reaches the database, and its role.
pub fn node_settings(nodes: &[(&Path, &str)]) -> Vec<NodeSettings> {
    let node = |(place, (socket, role)): (usize, &(&Path, &str))| NodeSettings {
        name: format!("node{place}"),
        keys: "key_file = \"transfer.key\"\n".to_owned(),
        tables: format!("{}{TRANSFER}", Postgres::table_by(socket, role)),
        ..NodeSettings::default()
    };
    nodes.iter().enumerate().map(node).collect()
}

/// Starts nodes beside storages of these names.
pub fn start_nodes(storages: &[&str], nodes: &[NodeSettings]) -> Services {
    let storages = storages
        .iter()
        .map(|name| StorageSettings::new(name))
        .collect::<Vec<_>>();
    Services::start_nodes(&storages, nodes, |_| Ok(())).unwrap()
}

/// The scheduler at this door gives work to so many others: until it does, it copies itself.
pub fn all_known(services: &Services, scheduler: &str, executors: usize) {
    let mut last = Value::Null;
    let known = || {
        last = services
            .ask(&[&format!("{scheduler}/.well-known/weir/nodes")])?
            .json()?;
        let nodes = last["nodes"].as_array().cloned().unwrap_or_default();
        let given = nodes.iter().filter(|node| node["given"] == true).count();
        Ok((given == executors).then_some(()))
    };
    wait_for(LIMIT, known).unwrap_or_else(|error| panic!("{error:#}: {last:#}"));
}

/// A source that takes connections and says nothing: attempts at it go on and on.
pub fn silent() -> SocketAddr {
    silent_at(Ipv4Addr::LOCALHOST)
}

/// As [`silent`], at this address: to the service, another storage.
pub fn silent_at(address: Ipv4Addr) -> SocketAddr {
    Peer::Silent.start(IpAddr::V4(address)).unwrap()
}

/// A job of files with a silent source.
pub fn waiting_job(services: &Services, silent: SocketAddr, name: &str, n_files: usize) -> Value {
    let target = &services.storage("ALPHA").url;
    let file = |number: usize| {
        json!({
            "sources": [format!("https://{silent}/{number}")],
            "destinations": [format!("{target}/{name}/{number}")],
        })
    };
    json!({ "files": (0..n_files).map(file).collect::<Vec<_>>() })
}

/// Submits at this node, which takes it: the job's id.
pub fn submit_to(services: &Services, door: &str, name: &str, job: &Value) -> String {
    let answer = run(&mut services.submission_to(door, name, job).unwrap()).unwrap();
    let answer = Answer::of(&answer);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json().unwrap()["job_id"].as_str().unwrap().to_owned()
}

/// Attempts of a job's files, in order.
pub fn attempts(services: &Services, door: &str, job: &str) -> Vec<u64> {
    let answer = services
        .ask(&[&format!("{door}/jobs/{job}?files=file_state,weir")])
        .unwrap();
    let answer = answer.json().unwrap();
    let files = answer["files"].as_array().unwrap();
    files
        .iter()
        .map(|file| file["weir"]["attempts"].as_u64().unwrap())
        .collect()
}

/// Waits until so many files of a job are in this attempt.
pub fn running(services: &Services, door: &str, job: &str, files: usize, attempt: u64) {
    let mut last = Vec::new();
    let all = || {
        last = attempts(services, door, job);
        Ok((last.iter().filter(|n| **n == attempt).count() >= files).then_some(()))
    };
    let ended = wait_for(LIMIT, all);
    ended.unwrap_or_else(|error| panic!("{error:#}: {last:?}\n{}", services.transfer.said_last()));
}
