//! Small files, many a second.

use std::time::Instant;

use super::{Door, Tally, bulk};

pub(super) async fn get(
    door: &Door,
    tally: &Tally,
    base: &str,
    (files, size): (usize, u64),
    (clients, requests): (usize, usize),
) {
    each(
        clients,
        requests,
        |number| {
            let (door, url) = (door.clone(), format!("{base}/{}", number % files));
            async move { door.fetch(&url, size).await }
        },
        tally,
    )
    .await;
}

pub(super) async fn put(door: &Door, tally: &Tally, base: &str, size: u64, (clients, requests): (usize, usize)) {
    let block = bulk::block(usize::try_from(size).unwrap_or(1));
    each(
        clients,
        requests,
        |number| {
            let (door, url, block) = (door.clone(), format!("{base}/{number}"), block.clone());
            async move { bulk::upload(&door, &url, block, size).await }
        },
        tally,
    )
    .await;
}

/// Has so many clients make requests in turn, until all numbers below `requests` were used; all are counted.
pub(super) async fn each<F, R>(clients: usize, requests: usize, make: F, tally: &Tally)
where
    F: Fn(usize) -> R,
    R: Future<Output = anyhow::Result<u64>> + Send + 'static,
{
    let tasks = (0..clients).map(|client| {
        let mine: Vec<R> = (client..requests).step_by(clients).map(&make).collect();
        let tally = tally.clone();
        tokio::spawn(async move {
            for request in mine {
                let since = Instant::now();
                tally.count(since, request.await);
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    for task in tasks {
        let _ = task.await;
    }
}
