//! Names: listed, made and removed.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http_body_util::BodyExt as _;
use weir_http::body;

use super::{Door, Tally, small};

/// The beginning of each entry of a listing but the prefix, which every server chooses for itself.
const ENTRY: &[u8] = b":href>";

pub(super) async fn delete(door: &Door, tally: &Tally, base: &str, files: usize, clients: usize) {
    let make = |number| {
        let (door, url) = (door.clone(), format!("{base}/{number}"));
        async move { door.ask("DELETE", &url).await }
    };
    small::each(clients, files, make, tally).await;
}

/// Its latency is that of the first byte; the row's rate tells how long the whole took. On an open connection: the work of a process
/// before its first handshake, 45 ms, is no server's.
pub(super) async fn list(door: &Door, tally: &Tally, url: &str, entries: usize) {
    let asked = door.ask("OPTIONS", url).await;
    if asked.is_err() {
        return tally.end(asked);
    }
    let since = Instant::now();
    let listed = listing(door, tally, url, since).await;
    let checked = listed.and_then(|(found, length)| {
        ensure!(found > entries, "{found} entries, not {}", entries + 1);
        Ok(length)
    });
    tally.end(checked);
}

async fn listing(door: &Door, tally: &Tally, url: &str, since: Instant) -> Result<(usize, u64)> {
    let request = door.request("PROPFIND", url).header("Depth", "1").body(body::empty())?;
    let mut answer = door.send(request).await?.into_body();
    let (mut found, mut length, mut tail) = (0, 0, Vec::new());
    while let Some(frame) = answer.frame().await {
        let data = frame?.into_data().ok().context("trailers")?;
        if length == 0 {
            tally.count(since, Ok(0));
        }
        length += data.len() as u64;
        tail.extend_from_slice(&data);
        found += tail.windows(ENTRY.len()).filter(|window| *window == ENTRY).count();
        // An entry's beginning may be cut.
        tail.drain(..tail.len().saturating_sub(ENTRY.len() - 1));
    }
    // Each is named at its beginning and at its end.
    Ok((found / 2, length))
}

pub(super) async fn storm(door: &Door, tally: &Tally, base: &str, clients: usize, time: Duration) {
    let until = Instant::now() + time;
    let tasks = (0..clients).map(|client| {
        let (door, tally, url) = (door.clone(), tally.clone(), format!("{base}/client{client}"));
        tokio::spawn(async move {
            while Instant::now() < until {
                for method in ["MKCOL", "PROPFIND", "DELETE"] {
                    let since = Instant::now();
                    tally.count(since, door.ask(method, &url).await);
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        let _ = task.await;
    }
}
