//! `weir storage put`.

use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use bytes::Bytes;
use http::header;
use parking_lot::Mutex;
use serde_json::json;
use weir_http::{Body, body};
use weir_units::{Algorithm, Bytes as Volume, Checksum, Hasher};

use super::door::{PATIENCE, StorageClient, expect, told};
use super::progress::Progress;
use crate::cli::StoragePutArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::url::encoded;

const PIECE: usize = 1 << 20;

/// How long the storage is waited for before the body begins all the same.
const WORD: std::time::Duration = std::time::Duration::from_secs(2);

pub(super) async fn run(arguments: &StoragePutArguments, output: &Output) -> Result<Exit, Failure> {
    let door = StorageClient::open(&arguments.access)?;
    let shown = arguments.file.display();
    let file = File::open(&arguments.file)
        .with_context(|| format!("could not read {shown}"))
        .map_err(Failure::bad_input)?;
    let about = file.metadata().with_context(|| format!("could not read {shown}"))?;
    if !about.is_file() {
        return Err(Failure::bad_input(anyhow!("{shown} is no file")));
    }
    let (size, url) = (about.len(), url(arguments)?);
    let sent = Arc::new(Mutex::new(Sent {
        hasher: Some(Hasher::new(&[Algorithm::Adler32])),
        progress: Progress::new(Some(size), output.json()),
    }));
    let mut request = door
        .request("PUT", &url)
        .header(header::CONTENT_LENGTH, size)
        .header("Want-Digest", "adler32");
    if !arguments.overwrite {
        request = request.header(header::IF_NONE_MATCH, "*");
    }
    let request = request
        .body(reading(file, sent.clone()))
        .with_context(|| format!("{url} is no URL"));
    let answer = door
        .client
        .send_expecting(request.map_err(Failure::bad_input)?, WORD, PATIENCE)
        .await;
    let rate = lock(&sent).progress.end();
    let answer = answer.with_context(|| format!("could not reach the storage of {url}"))?;
    let answer = expect(&url, answer).await?;
    let ours = lock(&sent).hasher.take().context("no checksum")?.finish();
    let ours = ours.get(Algorithm::Adler32).cloned().context("no checksum")?;
    let theirs = match told(&answer, Algorithm::Adler32) {
        Some(theirs) => Some(theirs),
        None => stored(&door, &url).await?,
    };
    if let Some(theirs) = theirs.as_ref().filter(|theirs| **theirs != ours) {
        let error = anyhow!("{url} has {theirs}, and {shown} has {ours}");
        return Err(Failure::could_not_run(error).with_remedy("remove it and put it again"));
    }
    let verified = if theirs.is_some() {
        "verified"
    } else {
        "not compared: the storage reports no adler32"
    };
    output.line(format!("{url}  {}  {ours} ({verified})", Volume(size)));
    output.done(&json!({
        "url": url, "size": size, "checksum": ours.to_string(), "verified": theirs.is_some(), "bytes_per_s": rate,
    }));
    Ok(Exit::Done)
}

/// The file's URL, where a directory's was given.
fn url(arguments: &StoragePutArguments) -> Result<String, Failure> {
    if !arguments.url.ends_with('/') {
        return Ok(arguments.url.clone());
    }
    let name = arguments.file.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Failure::bad_input(anyhow!("{} has no name for a URL", arguments.file.display())))?;
    Ok(format!("{}{}", arguments.url, encoded(name)))
}

/// Bytes sent so far.
struct Sent {
    hasher: Option<Hasher>,
    progress: Progress,
}

fn lock(sent: &Mutex<Sent>) -> parking_lot::MutexGuard<'_, Sent> {
    sent.lock()
}

/// The file as a body, hashed as it leaves.
fn reading(file: File, sent: Arc<Mutex<Sent>>) -> Body {
    let pieces = futures_util::stream::unfold((file, sent), |(mut file, sent)| async move {
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; PIECE];
            let read = file.read(&mut piece).map(|length| {
                piece.truncate(length);
                piece
            });
            (read, file)
        });
        let (read, file) = read.await.ok()?;
        let piece = match read {
            Ok(piece) if piece.is_empty() => return None,
            Ok(piece) => piece,
            Err(error) => return Some((Err(error.into()), (file, sent))),
        };
        {
            let mut sent = lock(&sent);
            if let Some(hasher) = &mut sent.hasher {
                hasher.update(&piece);
            }
            sent.progress.advance(piece.len());
        }
        Some((Ok(Bytes::from(piece)), (file, sent)))
    });
    body::stream(pieces)
}

/// The storage's checksum of the uploaded file.
async fn stored(door: &StorageClient, url: &str) -> Result<Option<Checksum>, Failure> {
    let request = door.request("HEAD", url).header("Want-Digest", "adler32");
    let answer = door.send(url, request, body::empty()).await?;
    Ok(told(&answer, Algorithm::Adler32))
}
