//! Third-party copies: the client asks and waits.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use http::HeaderValue;
use tokio::sync::Semaphore;
use weir_http::body;

use super::{Door, Tally};

/// How copies are asked for.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) header: &'a str,
    pub(super) streams: Option<u32>,
    pub(super) forward: &'a str,
}

pub(super) async fn copy(door: &Door, tally: &Tally, pairs: &[(String, String)], at_once: usize, ask: Ask<'_>) {
    let places = Arc::new(Semaphore::new(at_once));
    let each = pairs.iter().map(|(active, passive)| {
        let places = places.clone();
        async move {
            let Ok(_place) = places.acquire().await else { return };
            let since = Instant::now();
            tally.count(since, one(door, active, passive, ask).await.map(|()| 0));
        }
    });
    futures_util::future::join_all(each).await;
}

async fn one(door: &Door, active: &str, passive: &str, ask: Ask<'_>) -> Result<()> {
    let mut request = door
        .request("COPY", active)
        .header(ask.header, passive)
        .header("Credential", "none")
        .header("Overwrite", "T")
        .header(
            "TransferHeaderAuthorization",
            HeaderValue::from_str(&format!("Bearer {}", ask.forward))?,
        );
    if let Some(streams) = ask.streams {
        request = request.header("X-Number-Of-Streams", streams);
    }
    let answer = door.send(request.body(body::empty())?).await?;
    let text = body::read_limited(answer.into_body(), 1 << 22, Duration::from_secs(120)).await?;
    let text = String::from_utf8_lossy(&text);
    ensure!(text.to_lowercase().contains("success"), "the copy said {}", text.trim());
    Ok(())
}
