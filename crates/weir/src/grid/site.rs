//! `weir grid site`: the storages of one site, in the process that `weir grid up --processes` starts for it.
//!
//! It is a command of its own so that a site that was killed can be started again while the rest of the grid goes on.

use std::io;

use weir_grid::{GridOptions, SiteStorages};

use super::{control_runtime, failure, load};
use crate::cli::GridSiteArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::signals::Signals;

#[derive(serde::Serialize)]
struct SiteReady<'a> {
    site: &'a str,
    pid: u32,
    urls: Vec<&'a str>,
}

#[derive(serde::Serialize)]
struct SiteStopped<'a> {
    site: &'a str,
    signal: &'static str,
}

/// Waits until the process that started this one has ended: it holds the other end of the standard input.
async fn end_of_input() {
    let (tell, ended) = tokio::sync::oneshot::channel();
    // A thread of its own: a runtime would wait for one of its threads that reads.
    std::thread::spawn(move || {
        let _ended = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _left = tell.send(());
    });
    let _told = ended.await;
}

/// Runs them until SIGINT or SIGTERM; requests in hand may end.
pub(super) fn run(arguments: &GridSiteArguments, output: &Output) -> Result<Exit, Failure> {
    let grid = load(&arguments.grid)?;
    let site = arguments.site.as_str();
    control_runtime()?.block_on(async {
        let mut signals = Signals::listen()?;
        let threads = GridOptions::default().data_threads;
        let start = SiteStorages::start(&grid, &arguments.dir, &arguments.site, threads);
        let running = tokio::select! {
            running = start => running.map_err(failure)?,
            _ = signals.next() => return Ok(Exit::Interrupted),
        };
        let (pid, urls) = (std::process::id(), running.urls().collect::<Vec<_>>());
        output.line(format!("site {site} is ready (process {pid}): {}", urls.join(" ")));
        output.event("ready", &SiteReady { site, pid, urls });
        let signal = tokio::select! {
            signal = signals.next() => signal,
            () = end_of_input(), if arguments.bound => "end of input",
        };
        if !signals.unless(running.shutdown()).await {
            return Ok(Exit::Interrupted);
        }
        output.line(format!("site {site} has stopped"));
        output.done(&SiteStopped { site, signal });
        Ok(Exit::Done)
    })
}
