//! COPY: third-party copies, and copies of a file within the endpoint.
//!
//! A `Destination` that names this very endpoint, without anything that belongs to a third-party copy (`TransferHeader…`,
//! `Credential`), is WebDAV's own COPY. The file is copied here, and the answer comes when it is done. Directories are for [`super::tree`].

use std::sync::{Arc, atomic::AtomicU64};

use bytes::Bytes;
use http::{Response, StatusCode, Uri};
use weir_auth::{Operation, StoragePath};
use weir_http::Body;
use weir_world::Party;

use super::{
    overwrite, path_here, put,
    put::{Aim, Target},
    tree,
};
use crate::{
    admission::Work,
    area::{Area, Hold},
    backend::{BackendError, Obstacle, Reader},
    conditional::Conditions,
    copy::{self, Asked, CopyRequest, Job, Pull, Push, Remote},
    data::{Arrived, BLOCK, Expectation, Intake, Landing, Sink, blocking, read_block},
    memory::Lease,
    metrics::Kind,
    refusal::Refusal,
    service::{Call, check_kind},
};

pub(super) async fn copy(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let request = copy::parse(&call.headers).map_err(Refusal::bad_request)?;
    match &request.asked {
        Asked::Pull(source) => pull(call, source.clone(), request).await,
        Asked::Push(destination) => push(call, destination.clone(), request).await,
    }
}

async fn pull(call: &mut Call, source: Uri, request: CopyRequest) -> Result<Response<Body>, Refusal> {
    let may_replace = overwrite(call)?;
    let caller = call.known_caller().await?;
    let (area, inside) = call.area()?;
    let source = remote(call, source, &request, Party::Source)?;
    let conditions = Conditions::of(&call.headers)?;
    let aim = Aim {
        area: area.clone(),
        inside: inside.clone(),
        path: call.path.clone(),
        caller,
        size: 0,
        conditions,
        may_replace,
        may_wait: true,
    };
    let target = blocking(move || Target::prepare(aim)).await?;
    let (hold, landing) = target.landing(inside);
    let shown = source.shown();
    let pull = Pull {
        source,
        area: area.clone(),
        landing,
        hold,
        expected: request.expected,
        require_checksum: request.require_checksum,
        streams: request.streams,
    };
    begin(call, Kind::Pull, &area, shown, Job::Pull(Box::new(pull)))
}

async fn push(call: &mut Call, destination: Uri, request: CopyRequest) -> Result<Response<Body>, Refusal> {
    let may_replace = overwrite(call)?;
    if is_local(call)
        && let Some(path) = path_here(call, &destination)
    {
        let path = path?;
        if let Some(order) = tree::wanted(call, &path, may_replace).await? {
            return tree::copy(call, order).await;
        }
        return within(call, path, may_replace).await;
    }
    let path = call.path.clone();
    // Also for public files: a caller who has bytes sent to a third party must be known.
    let caller = call.known_caller().await?;
    caller.may(Operation::Read, &path)?;
    let destination = remote(call, destination, &request, Party::Destination)?;
    let (area, reader) = open(call, &path).await?;
    let stored = {
        let reader = reader.clone();
        blocking(move || reader.checksums()).await
    };
    let shown = destination.shown();
    let push = Push {
        destination,
        area: area.clone(),
        path,
        reader,
        stored,
        overwrite: may_replace,
        expected: request.expected,
        require_checksum: request.require_checksum,
    };
    begin(call, Kind::Push, &area, shown, Job::Push(Box::new(push)))
}

/// Whether nothing in the request belongs to a third-party copy.
fn is_local(call: &Call) -> bool {
    !call
        .headers
        .keys()
        .any(|name| name.as_str().starts_with("transferheader") || name == "copy-header" || name == "credential")
}

fn remote(call: &Call, uri: Uri, request: &CopyRequest, party: Party) -> Result<Remote, Refusal> {
    let tpc = call.endpoint.config.tpc.clone();
    let remote = Remote::new(call.endpoint.client.clone(), uri, request.forwarded.clone(), party, tpc);
    remote.check_scheme().map_err(Refusal::bad_request)?;
    Ok(remote)
}

/// The file to be read, with the right to read it.
async fn open(call: &mut Call, path: &StoragePath) -> Result<(Arc<Area>, Arc<dyn Reader>), Refusal> {
    let (area, inside) = call.area()?;
    call.permit(Operation::Read, path, Some(&area)).await?;
    let conditions = Conditions::of(&call.headers)?;
    let path = path.clone();
    let reader = {
        let area = area.clone();
        blocking(move || {
            let meta = area.backend.stat(&inside).map_err(BackendError::looking)?;
            check_kind(&path, &meta)?;
            if meta.directory {
                return Err(Refusal::new(
                    StatusCode::FORBIDDEN,
                    format!("{path} is a directory: only files are copied here"),
                ));
            }
            let reader = area.backend.open(&inside)?;
            conditions.check(Some(&reader.meta()))?;
            Ok(reader)
        })
        .await?
    };
    Ok((area, reader))
}

fn begin(call: &mut Call, kind: Kind, area: &Arc<Area>, remote: String, job: Job) -> Result<Response<Body>, Refusal> {
    let turn = call.endpoint.admission.line_up(Work::Copy, call.party(area))?;
    let moved = call.exchange().begin_transfer(kind, area, Some(remote));
    let marker = call.marker(kind);
    call.exchange().tagged(marker.tag);
    Ok(copy::start(
        &call.endpoint,
        job,
        turn,
        &mut call.exchange,
        moved,
        marker,
    ))
}

/// WebDAV's own COPY makes no directories (RFC 4918 section 9.8.5); third-party copies do.
pub(super) fn parent_exists(area: &Area, inside: &StoragePath, path: &StoragePath) -> Result<(), Refusal> {
    let Some(parent) = inside.parent() else { return Ok(()) };
    match area.backend.stat(&parent).map_err(BackendError::looking) {
        Ok(meta) if meta.directory => Ok(()),
        Err(error) if error.obstacle != Obstacle::Missing => Err(error.into()),
        _ => Err(Refusal::conflict(format!("{path}: there is no directory to hold it"))),
    }
}

/// Copies a file within the endpoint; also from one area to another.
async fn within(call: &mut Call, destination: StoragePath, may_replace: bool) -> Result<Response<Body>, Refusal> {
    let source = call.path.clone();
    let (from, reader) = open(call, &source).await?;
    let caller = call.known_caller().await?;
    call.path = destination;
    let (area, inside) = call.area()?;
    let aim = Aim {
        area: area.clone(),
        inside: inside.clone(),
        path: call.path.clone(),
        caller,
        size: reader.meta().size,
        // The request's are on the source: it is the source that the request names.
        conditions: Conditions::default(),
        may_replace,
        may_wait: true,
    };
    let (original, to) = (source.clone(), area.clone());
    let looked = blocking(move || {
        let (area, inside, path) = (aim.area.clone(), aim.inside.clone(), aim.path.clone());
        let target = Target::prepare(aim)?;
        parent_exists(&area, &inside, &path)?;
        let properties = tree::properties(&from, &original, &to)?;
        Ok::<_, Refusal>((target, properties))
    });
    let (target, properties) = looked.await?;
    if source.is_same_place(&call.path) {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "source and destination are the same",
        ));
    }
    let (hold, mut landing) = target.landing(inside);
    landing.properties = properties;
    let place = call.place(Work::Transfer, &area).await?;
    let moved = call.begin_transfer(Kind::Copy, &area);
    call.exchange().first_byte(std::time::Instant::now());
    let means = (place.memory(), moved);
    let arrived = pour(call, &area, &reader, (hold, landing), means).await?;
    Ok(put::created(call, &arrived))
}

/// Copies an open file into an area.
pub(super) async fn pour(
    call: &Call,
    area: &Arc<Area>,
    reader: &Arc<dyn Reader>,
    (hold, landing): (Hold, Landing),
    (memory, moved): (Arc<Lease>, Arc<AtomicU64>),
) -> Result<Arrived, Refusal> {
    let size = reader.meta().size;
    // The stored checksums must match the bytes read now.
    let checksums = {
        let reader = reader.clone();
        blocking(move || reader.checksums().iter().cloned().collect()).await
    };
    let expected = Expectation {
        size: Some(size),
        checksums,
    };
    let mut sink = Sink::new(
        area.clone(),
        hold,
        expected,
        &area.algorithms,
        moved,
        call.exchange().clone(),
        Intake::new(memory, area),
    );
    let mut at = 0;
    while at < size {
        let length = (size - at).min(sink.pieces.batch().min(BLOCK) as u64);
        let piece = next_block(call, reader, at, length as usize).await?;
        at += piece.len() as u64;
        sink.push(piece).await?;
    }
    Ok(sink.finish(landing).await?)
}

async fn next_block(call: &Call, reader: &Arc<dyn Reader>, at: u64, length: usize) -> Result<Bytes, Refusal> {
    let (reader, pool) = (reader.clone(), call.endpoint.blocks.clone());
    Ok(blocking(move || read_block(&*reader, at, length, &pool, None)).await?)
}
