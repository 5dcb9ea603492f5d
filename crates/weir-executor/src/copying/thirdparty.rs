//! Third-party copy: COPY to the active party, then watching its markers (HTTP-TPC).

use std::time::Duration;

use base64::Engine as _;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::Instant;
use weir_world::{
    CopyMode, ErrorClass, Failure, Party, Phase, Retry,
    class::{says, without_urls},
};

use crate::{
    copying::{
        endpoints::is_web_server,
        markers::{MarkerItem, Markers},
    },
    requests::{
        failure::{Scene, told_by_weir},
        wire::{Forward, Side, UnansweredRequest, send_watched, text_of},
    },
    steps::attempt::Attempt,
};

/// A copy that did not work, and whether another way may.
#[derive(Debug)]
pub(crate) struct RefusedCopy {
    pub(crate) failure: Failure,
    pub(crate) cause: Cause,
}

/// The evidence of a failed copy about the tried mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The file, the disk or the right to it: every other mode would fail in the same way.
    Matter,
    /// The path between two parties, or an error of a storage: another mode may work now, and this one the next time.
    Path,
    /// The storage does not copy in this mode: it answered COPY with this status, or said so in its last line.
    Mode(Option<u16>),
    /// With this status the storage may mean the file, or that it makes no third-party copies. Another mode decides that.
    Doubt(u16),
    /// The storage answered COPY with this status, as one does that copies within itself.
    NoCopies(u16),
}

impl RefusedCopy {
    pub(crate) fn for_good(failure: Failure) -> Self {
        Self {
            failure,
            cause: Cause::Matter,
        }
    }
}

/// Has one party copy from or to the other.
pub(crate) async fn copy(attempt: &Attempt<'_>, mode: CopyMode, has_source_checksum: bool) -> Result<(), RefusedCopy> {
    let (active, passive, direction) = match mode {
        CopyMode::Push => (attempt.source, attempt.destination, "destination"),
        _ => (attempt.destination, attempt.source, "source"),
    };
    let scene = active.scene(Phase::Transfer);
    let headers = headers(attempt, passive, direction, has_source_checksum);
    let method = Method::from_bytes(b"COPY").expect("COPY is a token");
    let limit = attempt.settings.response_timeout;
    attempt.clock.order(mode == CopyMode::Push);
    let sent = Box::pin(send_watched(
        attempt.client,
        active,
        Phase::Transfer,
        (method.clone(), headers),
        Forward::Named(&attempt.settings.redirect_hosts),
        limit,
        &|request| attempt.order_goes_out(request),
    ))
    .await;
    let (response, stripped) = match sent {
        Ok(answer) => (answer.response, answer.stripped),
        Err(UnansweredRequest { failure, reached }) => {
            attempt.order_came_back(reached);
            // Without any answer: the other party may reach the host that this one did not.
            let unreachable = matches!(
                failure.class,
                ErrorClass::Network | ErrorClass::Tls | ErrorClass::Timeout
            );
            let cause = if unreachable && !reached {
                Cause::Path
            } else {
                Cause::Matter
            };
            return Err(RefusedCopy { failure, cause });
        }
    };
    let status = response.status();
    // A refused order leaves nothing, and an existing file then may belong to another client.
    attempt.order_came_back(status.is_success());
    if !status.is_success() {
        let server = response.headers().get(http::header::SERVER).cloned();
        let text = Box::pin(text_of(response)).await;
        let cause = match cause_of(mode, status, &text) {
            Cause::Doubt(_) if attempt.modes.has_copied(active) => Cause::Matter,
            cause => cause,
        };
        let mut failure = scene.status(&active.naming(&method), status, &text);
        if matches!(cause, Cause::Doubt(_)) {
            doubtful(&mut failure, server.as_ref().and_then(|server| server.to_str().ok()));
        }
        if let Some(host) = stripped {
            not_told(&mut failure, &host);
        }
        return Err(RefusedCopy { failure, cause });
    }
    if mode == CopyMode::Push && has_no_verdict(&response) {
        let text = format!(
            "COPY {}: HTTP {status} without a verdict: the source makes no third-party copies, and may have copied the file within itself, to \
             the path of the destination",
            active.surl
        );
        let mut failure = scene.fail(ErrorClass::Protocol, text);
        failure.remedy =
            "let the destination pull, or submit with copy_mode=streamed; look whether that copy is to be removed"
                .into();
        let cause = Cause::NoCopies(status.as_u16());
        return Err(RefusedCopy { failure, cause });
    }
    let watched = watch(attempt, active, passive, response).await;
    watched.map_err(|mut refused| {
        let class = refused.failure.class;
        if let Some(host) = stripped.filter(|_| matches!(class, ErrorClass::Token | ErrorClass::Permission)) {
            not_told(&mut refused.failure, &host);
        }
        refused
    })
}

/// A storage without third-party copies may have answered this, for any file.
fn doubtful(failure: &mut Failure, server: Option<&str>) {
    if let Some(server) = server.filter(|server| is_web_server(server)) {
        failure.class = ErrorClass::Protocol;
        let server = crate::requests::failure::scrub(server);
        failure.message = format!(
            "{}; its server is {server}, which makes no third-party copies",
            failure.message
        );
    }
    failure.remedy = "if the storage makes no third-party copies, let the other side copy (copy_mode=push) or this service (copy_mode=streamed); \
                      if it does, look for the path there"
        .into();
}

/// The copy went to this host, without the credentials of either side.
fn not_told(failure: &mut Failure, host: &str) {
    failure.message = format!(
        "{}; it was redirected to {host}, to which credentials do not follow",
        failure.message
    );
    failure.remedy = "if that is a node of this storage, name it in copy.redirect_hosts of the service, in a grid file in redirect_hosts of \
                      the RSE"
        .into();
}

fn headers(attempt: &Attempt<'_>, passive: &Side, direction: &'static str, has_source_checksum: bool) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut put = |name: &'static str, value: &str| {
        // Header values made here are ASCII but for metadata, which is encoded.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    put(direction, &passive.surl.http_url());
    put("credential", "none");
    put("x-no-delegate", "true");
    put("secure-redirection", "1");
    put(
        "x-number-of-streams",
        &attempt
            .job
            .params
            .nostreams
            .unwrap_or(attempt.settings.streams)
            .to_string(),
    );
    put("overwrite", if attempt.may_overwrite() { "T" } else { "F" });
    let verify = has_source_checksum && attempt.expected.mode.target();
    put("requirechecksumverification", if verify { "true" } else { "false" });
    put(
        "clientinfo",
        &format!(
            "job-id={};file-id={};retry={}",
            attempt.job.id,
            attempt.file.spec.id,
            attempt.op.attempt.saturating_sub(1)
        ),
    );
    if let Some(tag) = attempt.file.spec.scitag {
        put("scitag", &tag.to_string());
    }
    if let Some(metadata) = &attempt.file.spec.archive_metadata {
        let name = if direction == "source" {
            "archivemetadata"
        } else {
            "transferheaderarchivemetadata"
        };
        put(name, &base64::engine::general_purpose::STANDARD.encode(metadata.get()));
    }
    if let Some(token) = passive.bearer() {
        headers.insert("transferheaderauthorization", token);
    }
    headers
}

/// Whether an answer is that of a copy within the storage (RFC 4918 section 9.8.5): created or replaced, and no body
/// that could hold markers.
fn has_no_verdict(response: &Response<Incoming>) -> bool {
    let is_page = || {
        let kind = response.headers().get(http::header::CONTENT_TYPE);
        kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"))
    };
    match response.status() {
        StatusCode::NO_CONTENT => true,
        StatusCode::CREATED => is_page() || http_body::Body::size_hint(response.body()).exact() == Some(0),
        _ => false,
    }
}

/// The evidence of a refusal before the start about the mode.
///
/// As in gfal2: a missing, forbidden or existing file and lack of space mean the same in every mode, and another mode
/// does not help a busy storage. But a storage without HTTP-TPC uses the same answers for an order to pull.
fn cause_of(mode: CopyMode, status: StatusCode, text: &str) -> Cause {
    let pull = mode == CopyMode::Pull;
    match status.as_u16() {
        code @ (405 | 501) => Cause::Mode(Some(code)),
        code @ (400 | 403) if refuses_mode(text) => Cause::Mode(Some(code)),
        // The missing file is not the source: it was checked just before.
        404 if pull && !says(text, &["source", "remote"]) => Cause::Doubt(404),
        code @ (400 | 409) if pull && is_stock_page(status, text) => Cause::Doubt(code),
        400 if text.trim().is_empty() || says(text, &["unknown", "invalid", "source", "destination"]) => Cause::Path,
        code if code >= 405 && ![409, 410, 412, 413, 423, 425, 429, 503, 507].contains(&code) => Cause::Path,
        _ => Cause::Matter,
    }
}

/// Whether an answer says no more than its status: an empty one, or the page that a web server has for the status.
fn is_stock_page(status: StatusCode, text: &str) -> bool {
    let mut rest = text.to_ascii_lowercase();
    let reason = status.canonical_reason().unwrap_or_default().to_ascii_lowercase();
    // Apache 2.4 for 400, and its signature; nginx and lighttpd write the status alone.
    let sentence = "your browser sent a request that this server could not understand.";
    for known in [sentence, reason.as_str(), status.as_str()] {
        rest = rest.replace(known, "");
    }
    let rest = rest.trim();
    let is_signature = ["apache/", "nginx", "lighttpd/"]
        .iter()
        .any(|name| rest.starts_with(name));
    rest.is_empty() || (is_signature && rest.len() < 200)
}

/// Whether a storage says that it does not copy this way.
fn refuses_mode(text: &str) -> bool {
    let about_copies = says(text, &["third-party", "third party", "tpc", "copy"]);
    says(text, &["not supported", "unsupported", "not implemented"])
        || (about_copies && says(text, &["disabled", "not enabled", "not allowed", "not permitted"]))
}

/// Reads markers until the verdict. Stops waiting when bytes stop, or when the storage falls silent.
async fn watch(
    attempt: &Attempt<'_>,
    active: &Side,
    passive: &Side,
    response: Response<Incoming>,
) -> Result<(), RefusedCopy> {
    let scene = active.scene(Phase::Transfer);
    let mut body = response.into_body();
    let (mut markers, mut told) = (Markers::default(), Vec::new());
    let mut quiet = Quiet::new(attempt.settings.stall_timeout);
    let (mut said, mut waits) = (String::new(), None);
    loop {
        let Ok(frame) = tokio::time::timeout_at(quiet.deadline(), body.frame()).await else {
            return Err(RefusedCopy::for_good(quiet.failure(scene, attempt)));
        };
        let ended = match frame {
            None => true,
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    if said.len() < 200 {
                        said.push_str(&String::from_utf8_lossy(&data[..data.len().min(200)]));
                    }
                    markers.feed(&data, &mut told);
                }
                false
            }
            Some(Err(_)) => return Err(RefusedCopy::for_good(cut_off(attempt, scene, &said))),
        };
        if ended {
            markers.finish(&mut told);
        }
        for word in told.drain(..) {
            match word {
                MarkerItem::Waits(told) => waits = Some(told),
                MarkerItem::Remote(address) => attempt.clock.copies_with(address),
                MarkerItem::Marker(bytes) => {
                    attempt.clock.told(waits.take().as_deref());
                    attempt.moved(bytes);
                    quiet.heard(bytes);
                }
                MarkerItem::FirstByte(after) => attempt.first_byte(after),
                MarkerItem::Success(counted) => {
                    attempt.order_is_over(true);
                    attempt.counted(counted);
                    hear_out(&mut body).await;
                    return Ok(());
                }
                MarkerItem::Failure(text) => {
                    attempt.order_is_over(false);
                    return Err(verdict(attempt, active, passive, &text));
                }
            }
        }
        if ended {
            return Err(RefusedCopy::for_good(cut_off(attempt, scene, &said)));
        }
    }
}

/// Reads the rest after the verdict, usually nothing: a connection whose answer was read to its end serves the next
/// request.
async fn hear_out(body: &mut Incoming) {
    let rest = async {
        let mut left = 4096_usize;
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.into_data().map_or(0, |data| data.len()));
            if left == 0 {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(50), rest).await;
}

fn cut_off(attempt: &Attempt<'_>, scene: Scene, said: &str) -> Failure {
    let end = said.trim().lines().last().unwrap_or_default().to_owned();
    let said = if end.is_empty() {
        "nothing was said".to_owned()
    } else {
        format!("the last words were \"{end}\"")
    };
    let mut failure = scene.fail(
        ErrorClass::Network,
        format!("connection terminated abruptly: the copy ended without a verdict; {said}"),
    );
    failure.remedy = "check whether the storage was restarted, and its log".into();
    failure.bytes_moved = attempt.bytes_moved();
    failure
}

/// A failure line. It blames the passive party if it speaks of the remote side.
fn verdict(attempt: &Attempt<'_>, active: &Side, passive: &Side, text: &str) -> RefusedCopy {
    let (class, scene) = told_by_weir(text).unwrap_or_else(|| {
        let class = ErrorClass::of_text(text).unwrap_or(ErrorClass::Protocol);
        let blamed = blame(&without_urls(text), active.party, class);
        let side = if blamed == passive.party { passive } else { active };
        (class, side.scene(Phase::Transfer))
    });
    let mut failure = scene.fail(class, format!("the {} reports: {text}", active.party));
    failure.bytes_moved = attempt.bytes_moved();
    if matches!(failure.class, ErrorClass::Protocol | ErrorClass::Checksum) {
        // Checksums were compared by the storage while bytes came in: they may come whole next time.
        failure.retry = Retry::Later;
    }
    let nothing_moved = failure.bytes_moved.0 == 0;
    let cause = match failure.class {
        ErrorClass::Protocol if nothing_moved && refuses_mode(&without_urls(text)) => Cause::Mode(None),
        ErrorClass::Network | ErrorClass::Protocol | ErrorClass::Tls if nothing_moved => Cause::Path,
        _ => Cause::Matter,
    };
    RefusedCopy { failure, cause }
}

/// The side that a failure line means. Space and writability are the destination's; "remote" is the other side.
fn blame(text: &str, active: Party, class: ErrorClass) -> Party {
    let other = if active == Party::Source {
        Party::Destination
    } else {
        Party::Source
    };
    let says_source = says(text, &["source"]);
    let says_destination = says(text, &["destination"]);
    match class {
        ErrorClass::NoSpace | ErrorClass::ReadOnly | ErrorClass::Exists => Party::Destination,
        _ if says_source && !says_destination => Party::Source,
        _ if says_destination && !says_source => Party::Destination,
        _ if says(text, &["remote", "peer", "connect"]) => other,
        _ => active,
    }
}

/// How long nothing has moved.
///
/// Markers without growth keep a copy alive that has not moved a byte yet: storages queue copies and say so this way. The
/// attempt's wall time bounds that.
struct Quiet {
    patience: Duration,
    heard: Instant,
    grown: Instant,
    bytes: u64,
}

impl Quiet {
    fn new(patience: Duration) -> Self {
        let now = Instant::now();
        Self {
            patience,
            heard: now,
            grown: now,
            bytes: 0,
        }
    }

    fn heard(&mut self, bytes: u64) {
        self.heard = Instant::now();
        if bytes > self.bytes {
            (self.bytes, self.grown) = (bytes, self.heard);
        }
    }

    fn deadline(&self) -> Instant {
        (if self.bytes == 0 { self.heard } else { self.grown }) + self.patience
    }

    fn failure(&self, scene: Scene, attempt: &Attempt<'_>) -> Failure {
        let patience = weir_units::duration::format(self.patience);
        let text = match self.bytes {
            0 => format!("no performance marker for {patience}"),
            bytes => format!("no byte moved for {patience}, after {bytes} bytes"),
        };
        let mut failure = scene.fail(ErrorClass::Stall, text);
        failure.bytes_moved = attempt.bytes_moved();
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says_of_the_mode(status: u16, text: &str, expected: Cause) {
        says_of(CopyMode::Pull, status, text, expected);
    }

    fn says_of(mode: CopyMode, status: u16, text: &str, expected: Cause) {
        let status = StatusCode::from_u16(status).unwrap_or_default();
        assert_eq!(cause_of(mode, status, text), expected, "{mode} {status} {text}");
    }

    #[test]
    fn a_server_without_third_party_copies_is_told_from_a_missing_file() {
        // An Apache could only be read from: "check the path at the destination".
        let nginx = " 400 Bad Request \n\n 400 Bad Request \n nginx/1.22.1 \n";
        let apache = "  400 Bad Request  \n Bad Request \n Your browser sent a request that this server could not understand. \n\n";
        for (status, text) in [
            (
                404,
                "404 Not Found  Not Found The requested URL was not found on this server.",
            ),
            (400, nginx),
            (400, apache),
            (400, "Bad Request"),
            (409, "Conflict"),
        ] {
            says_of(CopyMode::Pull, status, text, Cause::Doubt(status));
        }
        for (status, text) in [
            (404, "Rejected PULL: remote copy failed with status code 404"),
            (404, "the source has no such file"),
            (409, "/tree is a directory"),
            (400, "path has a dot"),
        ] {
            says_of(CopyMode::Pull, status, text, Cause::Matter);
        }
        says_of(CopyMode::Push, 404, "", Cause::Matter);
        says_of(CopyMode::Push, 409, "Conflict", Cause::Matter);
    }

    #[test]
    fn only_refusals_of_the_mode_are_about_the_mode() {
        // One full disk, or a restart, would have all later transfers of a link pass through this service.
        for (status, text) in [
            (405, ""),
            (501, ""),
            (400, "push is not supported"),
            (403, "third-party copy is disabled here"),
        ] {
            says_of_the_mode(status, text, Cause::Mode(Some(status)));
        }
        for (status, text) in [(400, "unknown scheme in Source"), (500, ""), (502, ""), (504, "")] {
            says_of_the_mode(status, text, Cause::Path);
        }
        for (status, text) in [
            (400, "path has a dot"),
            (403, ""),
            (403, "copy to /vo denied"),
            (409, "busy"),
            (412, ""),
            (503, ""),
            (507, ""),
        ] {
            says_of_the_mode(status, text, Cause::Matter);
        }
    }

    fn blames(text: &str, active: Party, expected: Party) {
        let class = ErrorClass::of_text(text).unwrap_or(ErrorClass::Protocol);
        assert_eq!(blame(text, active, class), expected, "{text}");
    }

    #[test]
    fn a_failure_line_blames_the_right_side() {
        blames("source answered 404 for /f", Party::Destination, Party::Source);
        blames("remote side: 403 Forbidden", Party::Source, Party::Destination);
        blames("no space left on device", Party::Source, Party::Destination);
        blames("could not connect to a.ex", Party::Destination, Party::Source);
        blames("internal trouble", Party::Destination, Party::Destination);
    }
}
