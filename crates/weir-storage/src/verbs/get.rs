//! GET and HEAD: a file or a range of it, with the conditions and checksums that were asked for.

use std::{ops::Range, sync::Arc, time::Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use weir_auth::{Operation, StoragePath};
use weir_http::{
    Body, body,
    multipart::Multipart,
    range::{self, ByteRange, Requested},
};
use weir_units::{Algorithm, Checksum, Checksums};

use super::{ALLOW, has_body, status};
use crate::{
    admission::Work,
    area::{Area, PathTarget},
    backend::{BackendError, Meta, Obstacle, Reader},
    conditional::{self, Verdict},
    data::{BlockPool, FileBody, Flow, Outflow, OutgoingConnection, Watch, blocking, read_block, read_cached_block},
    digest::{self, WantedDigests},
    exchange::Exchange,
    metrics::Kind,
    refusal::Refusal,
    service::{Call, check_kind},
};

pub(super) async fn get(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let reading = has_body(&call.method);
    let operation = if reading { Operation::Read } else { Operation::Stat };
    let path = call.path.clone();
    let (area, inside) = match call.endpoint.names.find(&path)? {
        PathTarget::Area(area, inside) => (area, inside),
        PathTarget::Above(_) => {
            call.permit(operation, &path, None).await?;
            return directory(&path, reading);
        }
        PathTarget::Nowhere => {
            call.permit(operation, &path, None).await?;
            return Err(Refusal::not_found(&path));
        }
    };
    call.permit(operation, &path, Some(&area)).await?;
    let sending = if reading {
        let place = call.place(Work::Transfer, &area).await?;
        let way = OutgoingConnection::Client(call.info.buffers.clone());
        let outflow = Outflow::new(place.memory(), way, place.throttle());
        Some((place, outflow))
    } else {
        None
    };
    let flow = sending.as_ref().map(|(_, outflow)| outflow.flow().clone());
    let wanted = digest::wanted(&call.headers);
    let Some(found) = look(call, &area, &inside, wanted.is_some() || reading, flow).await? else {
        return directory(&path, reading);
    };
    check_kind(&path, &found.meta)?;
    if let Some(answer) = conditions(&call.headers, &found)? {
        return Ok(answer);
    }
    let digests = match &wanted {
        // Sent unasked where it costs nothing: the reader can compare.
        None => area
            .algorithms
            .iter()
            .filter_map(|own| found.stored.get(*own).cloned())
            .collect(),
        Some(wanted) => checksums(call, &area, &found, wanted, reading).await?,
    };
    let multipart = match &found.asked {
        Requested::Parts(parts) => {
            let boundary = uuid::Uuid::new_v4().simple().to_string();
            Some(Multipart::new(parts.clone(), found.meta.size, boundary))
        }
        _ => None,
    };
    let mut response = match &found.asked {
        Requested::Part(part) if reading => partial(*part, found.meta.size),
        Requested::Parts(_) if reading => status(StatusCode::PARTIAL_CONTENT),
        Requested::Unsatisfiable if reading => return Err(unsatisfiable(found.meta.size)),
        _ => Response::new(body::empty()),
    };
    describe(&mut response, &found.meta);
    if let Some(multipart) = &multipart {
        let value = HeaderValue::try_from(multipart.content_type()).expect("a boundary is valid in headers");
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    let dialect = wanted.unwrap_or_else(|| WantedDigests {
        algorithms: area.algorithms.clone(),
        modern: false,
    });
    if !digests.is_empty() {
        dialect.answer(&digests, response.headers_mut());
    }
    let part = found.part();
    let length = multipart.as_ref().map_or(part.end - part.start, Multipart::length);
    response
        .headers_mut()
        .insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    if let Some((place, outflow)) = sending {
        send(call, &area, found, (part, multipart), outflow, &mut response);
        call.info.until_sent.keep(place);
    }
    Ok(response)
}

struct FoundFile {
    reader: Arc<dyn Reader>,
    meta: Meta,
    stored: Checksums,
    asked: Requested,
    /// The first bytes of the requested range, read in the same disk access.
    first: Option<Bytes>,
}

impl FoundFile {
    /// The bytes that will be sent; none of several ranges, each of which is begun by itself.
    fn part(&self) -> Range<u64> {
        match &self.asked {
            Requested::Part(range) => range.first..range.last + 1,
            Requested::Parts(_) => 0..0,
            _ => 0..self.meta.size,
        }
    }
}

/// Opens the file, `None` if it is a directory, and reads its first bytes: at once if all of that is cached, else in
/// one task of the blocking pool. With a `flow` it is going to be sent.
async fn look(
    call: &Call,
    area: &Arc<Area>,
    inside: &StoragePath,
    checksums: bool,
    flow: Option<Arc<Flow>>,
) -> Result<Option<FoundFile>, Refusal> {
    let pool = &call.endpoint.blocks;
    if let Some(reader) = area.backend.open_cached(inside) {
        let mut found = FoundFile::new(reader, &call.headers, checksums, flow.is_some());
        let first = found.first_wanted(&call.headers, flow.as_ref());
        let Some((first, flow)) = first else {
            return Ok(Some(found));
        };
        found.first = read_cached_block(&*found.reader, first.start, length(&first), pool, flow);
        if found.first.is_some() {
            return Ok(Some(found));
        }
        let (pool, flow) = (pool.clone(), flow.clone());
        return blocking(move || found.read_first(&first, &pool, &flow)).await;
    }
    let (area, inside, headers, pool) = (area.clone(), inside.clone(), call.headers.clone(), pool.clone());
    blocking(move || look_now(&area, &inside, &headers, checksums, flow.as_ref(), &pool)).await
}

fn look_now(
    area: &Area,
    inside: &StoragePath,
    headers: &HeaderMap,
    checksums: bool,
    flow: Option<&Arc<Flow>>,
    pool: &Arc<BlockPool>,
) -> Result<Option<FoundFile>, Refusal> {
    let reader = match area.backend.open(inside) {
        Err(BackendError {
            obstacle: Obstacle::Directory,
            ..
        }) => return Ok(None),
        outcome => outcome.map_err(BackendError::looking)?,
    };
    let found = FoundFile::new(reader, headers, checksums, flow.is_some());
    match found.first_wanted(headers, flow) {
        Some((first, flow)) => found.read_first(&first, pool, flow),
        None => Ok(Some(found)),
    }
}

impl FoundFile {
    fn new(reader: Arc<dyn Reader>, headers: &HeaderMap, checksums: bool, reading: bool) -> Self {
        let meta = reader.meta();
        let stored = if checksums {
            reader.checksums()
        } else {
            Checksums::default()
        };
        let asked = match headers.get(header::RANGE).and_then(|value| value.to_str().ok()) {
            Some(text) if reading && conditional::range_counts(headers, &meta) => range::parse(text, meta.size),
            _ => Requested::Whole,
        };
        Self {
            reader,
            meta,
            stored,
            asked,
            first: None,
        }
    }

    /// The block to begin with, if any bytes will be sent.
    fn first_wanted<'a>(
        &self,
        headers: &HeaderMap,
        flow: Option<&'a Arc<Flow>>,
    ) -> Option<(Range<u64>, &'a Arc<Flow>)> {
        let part = self.part();
        let sends = !part.is_empty()
            && self.asked != Requested::Unsatisfiable
            && conditional::weigh(headers, Some(&self.meta), true) == Verdict::Proceed;
        let first = part.start..part.end.min(part.start + Outflow::FIRST as u64);
        flow.filter(|_| sends).map(|flow| (first, flow))
    }

    fn read_first(
        mut self,
        first: &Range<u64>,
        pool: &Arc<BlockPool>,
        flow: &Arc<Flow>,
    ) -> Result<Option<FoundFile>, Refusal> {
        let read = read_block(&*self.reader, first.start, length(first), pool, Some(flow));
        self.first = Some(read?);
        Ok(Some(self))
    }
}

fn length(block: &Range<u64>) -> usize {
    (block.end - block.start) as usize
}

fn conditions(headers: &HeaderMap, found: &FoundFile) -> Result<Option<Response<Body>>, Refusal> {
    match conditional::weigh(headers, Some(&found.meta), true) {
        Verdict::Proceed => Ok(None),
        Verdict::Failed(broken) => Err(broken.into()),
        Verdict::NotModified => {
            let mut answer = status(StatusCode::NOT_MODIFIED);
            describe(&mut answer, &found.meta);
            answer.headers_mut().remove(header::CONTENT_TYPE);
            Ok(Some(answer))
        }
    }
}

/// The wanted checksums. HEAD has a missing one computed; GET does not keep its body waiting for that.
async fn checksums(
    call: &Call,
    area: &Arc<Area>,
    found: &FoundFile,
    wanted: &WantedDigests,
    reading: bool,
) -> Result<Vec<Checksum>, Refusal> {
    if let Some(known) = wanted.known(&found.stored) {
        return Ok(known);
    }
    if reading {
        return Ok(Vec::new());
    }
    let computed = call
        .endpoint
        .checksums
        .compute(area, found.reader.clone(), wanted.algorithms[0])
        .await?;
    Ok(wanted.known(&computed).unwrap_or_default())
}

fn partial(part: ByteRange, size: u64) -> Response<Body> {
    let mut response = status(StatusCode::PARTIAL_CONTENT);
    let value = HeaderValue::from_str(&part.content_range(size)).expect("numbers are valid in headers");
    response.headers_mut().insert(header::CONTENT_RANGE, value);
    response
}

fn unsatisfiable(size: u64) -> Refusal {
    let value = HeaderValue::from_str(&format!("bytes */{size}")).expect("numbers are valid in headers");
    Refusal::new(
        StatusCode::RANGE_NOT_SATISFIABLE,
        format!("the range begins behind the end of the file, which has {size} bytes"),
    )
    .with(header::CONTENT_RANGE, value)
}

fn describe(response: &mut Response<Body>, meta: &Meta) {
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let text = |text: String| HeaderValue::try_from(text).expect("dates and tags are valid in headers");
    headers.insert(header::LAST_MODIFIED, text(httpdate::fmt_http_date(meta.modified())));
    headers.insert(header::ETAG, text(meta.etag()));
}

/// A directory can be asked about, not read: listing is PROPFIND's.
fn directory(path: &StoragePath, reading: bool) -> Result<Response<Body>, Refusal> {
    if reading {
        return Err(Refusal::method_not_allowed(
            format!("{path} is a directory: list it with PROPFIND"),
            ALLOW,
        ));
    }
    Ok(status(StatusCode::OK))
}

/// Hands the exchange over to the body, which outlives this call.
fn send(
    call: &mut Call,
    area: &Arc<Area>,
    found: FoundFile,
    (part, multipart): (Range<u64>, Option<Multipart>),
    outflow: Outflow,
    response: &mut Response<Body>,
) {
    let moved = call.begin_transfer(Kind::Get, area);
    let exchange = call.exchange.take().expect("GET takes it here, once");
    exchange.answered(response.status());
    exchange.first_byte(Instant::now());
    if part.is_empty() && multipart.is_none() {
        exchange.complete(Checksums::default());
        return;
    }
    // The first whole read of a file without checksums yields them.
    let whole = part == (0..found.meta.size);
    let lacking = whole
        && area
            .algorithms
            .iter()
            .any(|algorithm| found.stored.get(*algorithm).is_none());
    let algorithms: &[Algorithm] = if lacking { &area.algorithms } else { &[] };
    let watch = SentBody {
        exchange,
        reader: found.reader.clone(),
    };
    let outflow = outflow.accounts_to(watch.exchange.times());
    let pool = call.endpoint.blocks.clone();
    if let Some(multipart) = &multipart {
        watch.exchange.sends_ranges(multipart.parts().len());
    }
    let body = FileBody::new(found.reader, pool, outflow, part, found.first, algorithms, moved, watch);
    let body = match multipart {
        Some(multipart) => body.with_parts(multipart),
        None => body,
    };
    *response.body_mut() = body.sent_by(call.direct()).boxed_unsync();
}

/// A file on its way out.
struct SentBody {
    exchange: Exchange,
    reader: Arc<dyn Reader>,
}

impl Watch for SentBody {
    fn completed(&mut self, checksums: Option<Checksums>) {
        self.exchange.complete(checksums.clone().unwrap_or_default());
        if let Some(checksums) = checksums {
            let reader = self.reader.clone();
            tokio::task::spawn_blocking(move || reader.keep_checksums(&checksums));
        }
    }

    fn failed(&mut self, error: &BackendError) {
        self.exchange.failed(weir_auth::error_chain(error));
    }
}
