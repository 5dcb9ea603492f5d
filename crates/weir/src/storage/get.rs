//! `weir storage get`: a file appears here whole and compared, or not at all.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use http_body_util::BodyExt as _;
use serde_json::json;
use weir_http::body;
use weir_units::{Algorithm, Bytes, Checksum, Hasher};

use super::door::{SILENCE, StorageAnswer, StorageClient, expect, name_of, told};
use super::progress::Progress;
use crate::cli::StorageGetArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

pub(super) async fn run(arguments: &StorageGetArguments, output: &Output) -> Result<Exit, Failure> {
    let door = StorageClient::open(&arguments.access)?;
    let target = target(&arguments.url, &arguments.to)?;
    if let Some(file) = target.as_deref().filter(|file| file.exists() && !arguments.overwrite) {
        let error = anyhow!("{} exists", file.display());
        return Err(Failure::bad_input(error).with_remedy("allow it with --overwrite"));
    }
    let request = door.request("GET", &arguments.url).header("Want-Digest", "adler32");
    let answer = expect(&arguments.url, door.send(&arguments.url, request, body::empty()).await?).await?;
    let told = told(&answer, Algorithm::Adler32);
    let Some(file) = target else {
        let got = receive(answer, &mut io::stdout().lock(), true, &arguments.url).await?;
        return compare(&arguments.url, told.as_ref(), &got).map(|_| Exit::Done);
    };
    let part = Part::create(&file)?;
    let got = receive(answer, &mut &part.file, output.json(), &arguments.url).await?;
    let verified = compare(&arguments.url, told.as_ref(), &got)?;
    part.become_whole(&file)?;
    let verified = if verified {
        "verified"
    } else {
        "not compared: the storage has no adler32"
    };
    output.line(format!(
        "{}  {}  {} ({verified})",
        file.display(),
        Bytes(got.size),
        got.checksum
    ));
    output.done(&json!({
        "file": file, "size": got.size, "checksum": got.checksum.to_string(), "verified": told.is_some(),
        "bytes_per_s": got.rate,
    }));
    Ok(Exit::Done)
}

/// A received file.
struct Got {
    size: u64,
    checksum: Checksum,
    rate: f64,
}

/// The file to write; none: standard output.
fn target(url: &str, to: &Path) -> Result<Option<PathBuf>, Failure> {
    if to == Path::new("-") {
        return Ok(None);
    }
    if !to.is_dir() {
        return Ok(Some(to.to_owned()));
    }
    let name = name_of(url).ok_or_else(|| Failure::bad_input(anyhow!("{url} names no file")))?;
    Ok(Some(to.join(name)))
}

async fn receive(answer: StorageAnswer, to: &mut impl Write, quiet: bool, url: &str) -> Result<Got, Failure> {
    let size = answer.headers().get(http::header::CONTENT_LENGTH);
    let size = size.and_then(|size| size.to_str().ok()?.parse().ok());
    let mut hasher = Hasher::new(&[Algorithm::Adler32]);
    let mut progress = Progress::new(size, quiet);
    let mut incoming = answer.into_body();
    loop {
        let next = tokio::time::timeout(SILENCE, incoming.frame()).await;
        let next = next.with_context(|| format!("{url}: the storage sent nothing for {SILENCE:?}"))?;
        let Some(frame) = next else { break };
        let frame = frame.with_context(|| format!("{url} broke off after {}", Bytes(progress.moved())))?;
        if let Some(data) = frame.data_ref() {
            hasher.update(data);
            to.write_all(data).context("could not write the received bytes")?;
            progress.advance(data.len());
        }
    }
    let rate = progress.end();
    if let Some(size) = size.filter(|size| *size != progress.moved()) {
        let error = anyhow!("{url} ended after {} of {}", Bytes(progress.moved()), Bytes(size));
        return Err(Failure::could_not_run(error));
    }
    let checksums = hasher.finish();
    let checksum = checksums.get(Algorithm::Adler32).cloned().context("no checksum")?;
    Ok(Got {
        size: progress.moved(),
        checksum,
        rate,
    })
}

/// Whether the storage had anything to compare with.
fn compare(url: &str, told: Option<&Checksum>, got: &Got) -> Result<bool, Failure> {
    match told {
        Some(told) if *told != got.checksum => {
            let error = anyhow!("{url} has {told}, and the received file has {}", got.checksum);
            Err(Failure::could_not_run(error)
                .with_remedy("get it again; if it differs again, the storage's file is damaged"))
        }
        told => Ok(told.is_some()),
    }
}

/// A file that is not whole yet; removed if it never is.
struct Part {
    file: File,
    path: PathBuf,
    whole: bool,
}

impl Part {
    fn create(file: &Path) -> Result<Self, Failure> {
        let mut name = file.file_name().context("there is no file name")?.to_owned();
        name.push(format!(".part-{}", std::process::id()));
        let path = file.with_file_name(name);
        let file = File::create_new(&path).with_context(|| format!("could not write {}", path.display()))?;
        Ok(Self {
            file,
            path,
            whole: false,
        })
    }

    fn become_whole(mut self, file: &Path) -> Result<(), Failure> {
        let wrong = || format!("could not write {}", file.display());
        self.file.sync_all().with_context(wrong)?;
        std::fs::rename(&self.path, file).with_context(wrong)?;
        self.whole = true;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.whole {
            let _gone = std::fs::remove_file(&self.path);
        }
    }
}
