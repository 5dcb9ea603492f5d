//! A tape in a process of its own: a requested file comes online after a while, and can be read while it is pinned.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    path::Path,
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::Value;
use weir_auth::ca::{CertificateAuthority, San, write_identity};

use crate::{Daemon, Services, free_port, wait_for};

/// Serves what lies in the folders of a test's storages.
#[derive(Debug)]
pub struct Tape {
    /// As clients write it; the name of a storage and a path in it follow.
    pub url: String,
    _server: Daemon,
}

/// The counters of a [`Tape`].
#[derive(Debug)]
pub struct TapeState {
    /// Paths that each of its requests still has pinned, or waits for.
    pub held: BTreeMap<String, BTreeSet<String>>,
    /// Paths that somebody wanted to read while they were on tape.
    pub read_offline: Vec<String>,
    /// How often somebody asked how a request stands.
    pub polls: u64,
}

impl Tape {
    /// Starts it beside these services.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(services: &Services, seed: u64) -> Result<Self> {
        let address = Ipv4Addr::new(127, 0, 7, 200);
        let port = free_port()?;
        let authority = CertificateAuthority::load(&services.file("authority"))?;
        let identity = authority.issue(&[San::Ip(address.into())], "tape")?;
        let (certificate, key) = write_identity(&identity, &services.file("identities"), "tape")?;
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(here.join("../.peers/bin/python"));
        command
            .arg(here.join("tape/serve.py"))
            .args([address.to_string(), port.to_string()])
            .args([certificate, key, services.file("")])
            .arg(seed.to_string());
        let server = Daemon::start(command, &services.file("tape.log"))?;
        let ready = || Ok(server.said().contains("ready").then_some(()));
        wait_for(Duration::from_secs(20), ready).with_context(|| server.said())?;
        Ok(Self {
            url: format!("https://{address}:{port}"),
            _server: server,
        })
    }

    /// How it stands.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn state(&self, services: &Services) -> Result<TapeState> {
        let told = services.ask(&[&format!("{}/stats", self.url)])?.json()?;
        let strings = |list: &Value| {
            let list = list.as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let held = told["held"].as_object().context("no requests")?;
        Ok(TapeState {
            held: held
                .iter()
                .map(|(name, paths)| (name.clone(), strings(paths).into_iter().collect()))
                .collect(),
            read_offline: strings(&told["read_offline"]),
            polls: told["polls"].as_u64().context("no polls")?,
        })
    }
}
