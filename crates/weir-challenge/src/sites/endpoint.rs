//! The checks of one storage.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use http::{Method, Request, header};
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use tokio::time::Instant;
use weir_http::{CertificateError, ChainCheck, Client, ClientError, body};
use weir_measure::files::{FileRow, Happened};
use weir_units::{Algorithm, Bytes, Checksums};

use weir_service::check::{Clock, ENDS_SOON};

use super::{Check, Outcome, SiteChecks, TestFile, in_time, timed};
use crate::removal::made::MadeFiles;
use crate::services::storage::{StorageDoor, StorageError};

/// Time for one check.
const PATIENCE: Duration = Duration::from_secs(20);

/// Remembers the certificate that a server shows.
#[derive(Default)]
struct Shown(Mutex<Option<Vec<u8>>>);

impl fmt::Debug for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Shown")
    }
}

impl ChainCheck for Shown {
    fn check(&self, chain: &[CertificateDer<'_>]) -> Result<(), CertificateError> {
        let own = chain.first().map(|certificate| certificate.to_vec());
        *self.0.lock() = own;
        Ok(())
    }
}

/// Runs all checks but copies and the deletion; checks that cannot work after a failure are left out.
pub(super) async fn check(
    door: &StorageDoor,
    file: &TestFile,
    needed: u64,
    made: &MadeFiles,
    deadline: Instant,
) -> SiteChecks {
    let mut checks = look_at(&door.client, (Method::OPTIONS, &door.url), deadline).await;
    // A wrong clock may be the cause of the next failure, which should be seen too.
    let has_failed = |check: &Check| check.outcome.has_failed() && check.name != "clock";
    if !checks.iter().any(has_failed) {
        let (more, _is_written) = Box::pin(work_at(door, file, needed, Some(made), deadline)).await;
        checks.extend(more);
    }
    SiteChecks {
        rse: door.name.clone(),
        url: door.url.clone(),
        checks,
    }
}

/// Token, write, checksum, read and space; says whether the file is there. It is noted in `made` before, if there are notes.
pub(super) async fn work_at(
    door: &StorageDoor,
    file: &TestFile,
    needed: u64,
    made: Option<&MadeFiles>,
    deadline: Instant,
) -> (Vec<Check>, bool) {
    let mut checks = vec![timed("token", in_time(deadline, token(door))).await];
    if checks[0].outcome.has_failed() {
        return (checks, false);
    }
    if let Some(made) = made {
        made.make([row(door, file)]);
    }
    let written = Mutex::new(None);
    checks.push(timed("write", in_time(deadline, Box::pin(write(door, file, &written)))).await);
    let Some(checksums) = written.into_inner() else {
        return (checks, false);
    };
    checks.push(timed("checksum", in_time(deadline, checksum(door, file, &checksums))).await);
    checks.push(timed("read", in_time(deadline, read(door, file, &checksums))).await);
    checks.push(timed("space", in_time(deadline, space(door, needed))).await);
    (checks, true)
}

fn row<'r>(door: &'r StorageDoor, file: &'r TestFile) -> FileRow<'r> {
    FileRow {
        happened: Happened::Made,
        rse: &door.name,
        path: &file.path,
        size: file.size,
        checksum: None,
    }
}

/// Name, connection, certificate and clock of the server that answers such a request, without credentials.
pub async fn look_at(client: &Client, (method, url): (Method, &str), deadline: Instant) -> Vec<Check> {
    let uri: Option<http::Uri> = url.parse().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default().to_owned();
    let mut checks = vec![timed("name", in_time(deadline, name(&host))).await];
    if checks[0].outcome.has_failed() {
        return checks;
    }
    let shown = Arc::new(Shown::default());
    let judging = match client.judging(shown.clone()) {
        Ok(client) => client,
        Err(error) => {
            let outcome = Outcome::failed(
                weir_auth::error_chain(&error),
                "mend the certificates of the authorities",
            );
            checks.push(Check::new("certificate", outcome));
            return checks;
        }
    };
    let request = Request::builder().method(method.clone()).uri(url).body(body::empty());
    let Ok(request) = request else {
        return checks;
    };
    let (asked, begun) = (SystemTime::now(), std::time::Instant::now());
    let until = PATIENCE.min(deadline.saturating_duration_since(Instant::now()));
    let sent = judging.send_within(request, until).await;
    let took_s = begun.elapsed().as_secs_f64();
    let check = |name: &'static str, outcome| Check {
        took_s,
        ..Check::new(name, outcome)
    };
    match sent {
        Ok(answer) => {
            let text = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
            let server = text(header::SERVER).unwrap_or("not told");
            let status = answer.status();
            checks.push(check(
                "connection",
                Outcome::ok(format!("answers {method} with {status}; server: {server}")),
            ));
            checks.push(check("certificate", certificate(&shown)));
            if let Some(date) = text(header::DATE).and_then(|date| httpdate::parse_http_date(date).ok()) {
                checks.push(check("clock", Clock::of(date, asked, SystemTime::now()).outcome()));
            }
        }
        Err(error) => checks.extend(refused(&error, &host, took_s)),
    }
    checks
}

async fn name(host: &str) -> Outcome {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match tokio::net::lookup_host((bare, 443)).await {
        Ok(found) => {
            let addresses: std::collections::BTreeSet<String> = found.map(|address| address.ip().to_string()).collect();
            let addresses: Vec<String> = addresses.into_iter().collect();
            Outcome::ok(addresses.join(", "))
        }
        Err(error) => Outcome::failed(
            format!("{host} has no address: {error}"),
            "correct the url in the grid file, or the name in the name service",
        ),
    }
}

/// The results for connection and certificate of an exchange without an answer.
fn refused(error: &ClientError, host: &str, took_s: f64) -> Vec<Check> {
    let cause = weir_auth::error_chain(error);
    let check = |name: &'static str, outcome| Check {
        took_s,
        ..Check::new(name, outcome)
    };
    if !matches!(error, ClientError::Tls { .. }) {
        let remedy = "see that the storage runs, that the port is right, and that no firewall is between";
        return vec![check("connection", Outcome::failed(cause, remedy))];
    }
    let what = error.source().map(ToString::to_string).unwrap_or_default();
    let remedy = if what.contains("UnknownIssuer") {
        "name the authority that vouches for it with `ca` in the grid file".to_owned()
    } else if what.contains("not valid for name") || what.contains("NotValidForName") {
        format!("use a name that is in the certificate, or have one issued for {host}")
    } else if what.contains("expired") || what.contains("Expired") {
        "have the site renew its certificate".to_owned()
    } else if what.contains("not valid before") || what.contains("NotValidYet") {
        "compare the clocks of both machines".to_owned()
    } else {
        "see that the port speaks TLS 1.2 or 1.3, and which certificate it shows".to_owned()
    };
    vec![
        check("connection", Outcome::ok("connects")),
        check("certificate", Outcome::failed(cause, remedy)),
    ]
}

fn certificate(shown: &Shown) -> Outcome {
    let shown = shown.0.lock().take();
    let Some(end) = shown.as_deref().and_then(weir_auth::x509::end) else {
        return Outcome::ok("trusted");
    };
    let left = end.duration_since(SystemTime::now()).unwrap_or_default();
    let day = httpdate::fmt_http_date(end);
    let days = left.as_secs() / 86_400;
    if left < ENDS_SOON {
        return Outcome::warning(
            format!("ends in {days} days, {day}"),
            "have the site renew it before a long run",
        );
    }
    Outcome::ok(format!("trusted; ends in {days} days, {day}"))
}

async fn token(door: &StorageDoor) -> Outcome {
    match door.token_to_write().await {
        Ok(_token) => Outcome::ok("there is one"),
        Err(error) => Outcome::failed(
            weir_auth::redact(&weir_auth::error_chain(&error)),
            "see token_file or token_issuer of this RSE in the grid file",
        ),
    }
}

async fn write(door: &StorageDoor, file: &TestFile, written: &Mutex<Option<Checksums>>) -> Outcome {
    match door.upload(&file.path, file.seed, file.number, file.size).await {
        Ok(checksums) => {
            *written.lock() = Some(checksums);
            Outcome::ok(format!("{:.1} to {}", Bytes(file.size), file.path))
        }
        Err(error) => failed(&error),
    }
}

/// The storage's own checksum, which a transfer service compares without reading the file.
async fn checksum(door: &StorageDoor, file: &TestFile, checksums: &Checksums) -> Outcome {
    let seen = match door.look(&file.path).await {
        Ok(Some(seen)) => seen,
        Ok(None) => return Outcome::failed("the file that was written is not there", "ask the site where it put it"),
        Err(error) => return failed(&error),
    };
    let sent = checksums.get(Algorithm::Adler32);
    match (seen.checksum, sent) {
        (Some(there), Some(sent)) if there == *sent => Outcome::ok(format!("{there}, by the storage")),
        (Some(there), Some(sent)) => Outcome::failed(
            format!("the storage says {there}, {sent} was sent"),
            "the storage changes stored files, or computes wrong checksums: nothing can be verified there",
        ),
        _ => {
            door.without_checksums.store(true, Ordering::Relaxed);
            Outcome::Warning {
                detail: "the storage reports no Adler-32".to_owned(),
                remedy: "enable its checksums: without them copies there are verified by size alone; --audit reads a sample back"
                    .to_owned(),
            }
        }
    }
}

async fn read(door: &StorageDoor, file: &TestFile, checksums: &Checksums) -> Outcome {
    match door.read_back(&file.path).await {
        Ok((size, there)) if size == file.size && there == *checksums => Outcome::ok("what was written"),
        Ok((size, _)) => Outcome::failed(
            format!("{size} bytes came, not the {} that were written", file.size),
            "the storage gives other bytes than it took: look at it before any transfer",
        ),
        Err(error) => failed(&error),
    }
}

/// Free space, where the storage tells (RFC 4331).
async fn space(door: &StorageDoor, needed: u64) -> Outcome {
    let listed = door.list(&door.directory).await;
    let available = match listed {
        Ok(entries) => entries.and_then(|entries| entries.first().and_then(|entry| entry.available)),
        Err(_) => None,
    };
    let Some(free) = available else {
        let needs = format!("; the plan needs {:.1} at most", Bytes(needed));
        let why = format!(
            "the storage does not tell{}",
            if needed > 0 { needs.as_str() } else { "" }
        );
        return Outcome::Skipped { why };
    };
    if needed == 0 {
        return Outcome::ok(format!("{:.1} free", Bytes(free)));
    }
    let text = format!("{:.1} free, {:.1} needed at most", Bytes(free), Bytes(needed));
    if free < needed {
        return Outcome::failed(text, "free space there, or run with a smaller --scale or --duration");
    }
    Outcome::ok(text)
}

/// Deletes the test file and its directory.
pub(super) async fn delete(door: &StorageDoor, file: &TestFile, made: Option<&MadeFiles>) -> Check {
    timed("delete", async {
        let failed_so = |error: &StorageError| match failed(error) {
            Outcome::Failed { cause, remedy } => Outcome::Failed {
                cause,
                remedy: format!("{remedy}; the file stays there"),
            },
            outcome => outcome,
        };
        match door.delete(&file.path).await {
            Ok(_was_there) => {
                if let Some(made) = made {
                    made.deleted(&door.name, &file.path);
                }
            }
            Err(error) => return failed_so(&error),
        }
        match door.look(&file.path).await {
            Ok(None) => {}
            Ok(Some(_)) => return Outcome::failed("the file is there after its deletion", "ask the site about it"),
            Err(error) => return failed_so(&error),
        }
        // Storages that do not delete directories with DELETE keep empty ones.
        for (end, _) in file
            .path
            .rmatch_indices('/')
            .filter(|(end, _)| *end >= door.directory.len())
        {
            let _left = door.delete_directory(&file.path[..end]).await;
        }
        Outcome::ok("what was written is gone")
    })
    .await
}

/// A failure with the remedy for its kind.
pub(super) fn failed(error: &StorageError) -> Outcome {
    let remedy = match error {
        StorageError::Token { .. } => "see token_file or token_issuer of this RSE in the grid file",
        StorageError::Exchange { .. } => "see that the storage runs, and what its log says",
        StorageError::Refused { status, .. } => match status.as_u16() {
            401 => "see that the storage trusts the issuer of the token, its audience, and its time",
            403 => "the token must be allowed to read and modify below /weir, and the storage must map it to a writer",
            404 | 409 => "see that the folder of the url exists at the storage",
            405 | 501 => "see that the port speaks WebDAV",
            429 | 503 => "the storage is busy: try again later, or with fewer transfers at once",
            507 => "free space there",
            300..=399 => "the storage sends elsewhere: give the url of the place that it names",
            _ => "see what the log of the storage says",
        },
    };
    Outcome::failed(weir_auth::redact(&weir_auth::error_chain(error)), remedy)
}
