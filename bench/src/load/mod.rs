//! The client of every row, in a process of its own, the same for all contenders: `weir-bench load`.
//!
//! It reads a [`Job`] as JSON from standard input, so that no token is on a command line, and prints a [`Report`] as JSON.
//! Bodies that come are read and forgotten, bodies that go are repeated from memory.

mod bulk;
mod client;
mod copies;
mod names;
mod small;
mod tally;

use std::{
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

pub(crate) use client::Door;
pub(crate) use tally::Report;
use tally::Tally;

/// The work to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The authority of all servers.
    pub(crate) ca: PathBuf,
    /// For the server that is asked.
    pub(crate) token: Option<String>,
    pub(crate) work: Work,
}

/// One kind of work.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Downloads, all at once, a connection each.
    Get { urls: Vec<String>, size: u64 },
    /// Uploads, all at once, a connection each.
    Put { urls: Vec<String>, size: u64 },
    /// Third-party copies, so many at once: the active side's URL, and the passive one's.
    Copy {
        pairs: Vec<(String, String)>,
        /// `Source` or `Destination`.
        header: String,
        at_once: usize,
        streams: Option<u32>,
        /// For the passive side.
        forward: String,
    },
    /// Small downloads of `base/0` to `base/{files-1}`, over and over, each client on a connection that it keeps, or on a new one
    /// for each.
    SmallGet {
        base: String,
        files: usize,
        size: u64,
        clients: usize,
        requests: usize,
        fresh: bool,
    },
    /// Small uploads to `base/0`, `base/1` and so on.
    SmallPut {
        base: String,
        size: u64,
        clients: usize,
        requests: usize,
    },
    /// Deletes `base/0` to `base/{files-1}`.
    Delete { base: String, files: usize, clients: usize },
    /// Lists a directory once, depth 1; latencies are those of the first byte of the body.
    List { url: String, entries: usize },
    /// Clients that each make a directory of their own below `base`, list it, and remove it, over and over.
    Storm { base: String, clients: usize, seconds: f64 },
}

impl Job {
    /// Has it done by another process, and fails if anything of it failed.
    pub(crate) fn run(&self) -> Result<Report> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("load")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut stdin = child.stdin.take().context("no stdin")?;
        stdin.write_all(&serde_json::to_vec(self)?)?;
        drop(stdin);
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "the load client ended with {}", output.status);
        let report: Report = serde_json::from_slice(&output.stdout)?;
        if let Some(failure) = &report.first_failure {
            anyhow::bail!(
                "{} of {} failed, first: {failure}",
                report.failed,
                report.failed + report.done
            );
        }
        Ok(report)
    }
}

/// The process that does it.
pub(crate) fn main() -> Result<()> {
    let job: Job = serde_json::from_reader(std::io::stdin().lock())?;
    weir_http::raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let report = runtime.block_on(job.work())?;
    serde_json::to_writer(std::io::stdout().lock(), &report)?;
    Ok(())
}

impl Job {
    async fn work(&self) -> Result<Report> {
        let fresh = matches!(self.work, Work::SmallGet { fresh: true, .. });
        let door = Door::new(&self.ca, self.token.as_deref(), fresh)?;
        let tally = Tally::start();
        match &self.work {
            Work::Get { urls, size } => bulk::get(&door, &tally, urls, *size).await,
            Work::Put { urls, size } => bulk::put(&door, &tally, urls, *size).await,
            Work::Copy {
                pairs,
                header,
                at_once,
                streams,
                forward,
            } => {
                let ask = copies::Ask {
                    header,
                    streams: *streams,
                    forward,
                };
                copies::copy(&door, &tally, pairs, *at_once, ask).await;
            }
            Work::SmallGet {
                base,
                files,
                size,
                clients,
                requests,
                ..
            } => small::get(&door, &tally, base, (*files, *size), (*clients, *requests)).await,
            Work::SmallPut {
                base,
                size,
                clients,
                requests,
            } => small::put(&door, &tally, base, *size, (*clients, *requests)).await,
            Work::Delete { base, files, clients } => names::delete(&door, &tally, base, *files, *clients).await,
            Work::List { url, entries } => names::list(&door, &tally, url, *entries).await,
            Work::Storm { base, clients, seconds } => {
                names::storm(&door, &tally, base, *clients, Duration::from_secs_f64(*seconds)).await;
            }
        }
        Ok(tally.report())
    }
}
