//! COPY of a directory, and COPY over one (RFC 4918 section 9.8), in areas with `dav = "full"`.
//!
//! The copy is put together in private, and takes its name at one instant: on any error nothing is copied and the
//! former object is still there. The object that it replaces is gone then, as after a DELETE.

mod plan;

use std::sync::{Arc, atomic::AtomicU64};

use http::{Response, StatusCode};
use weir_auth::{Operation, StoragePath};
use weir_http::Body;
use weir_units::Checksums;

use super::{copy, status};
use crate::{
    access::Caller,
    admission::Work,
    area::{Area, Claim, PathTarget},
    backend::{BackendError, Changed, Meta, Obstacle, Stage},
    conditional::Conditions,
    config::Dav,
    data::{Landing, blocking},
    memory::Lease,
    metrics::Kind,
    refusal::Refusal,
    service::{Call, check_kind},
};
use plan::Plan;

/// The source and the destination of a copy.
pub(super) struct Order {
    caller: Caller,
    source: StoragePath,
    destination: StoragePath,
    area: Arc<Area>,
    from: StoragePath,
    target: Arc<Area>,
    to: StoragePath,
    /// `Depth: 0`: the directory, and nothing in it.
    shallow: bool,
    may_replace: bool,
    /// Conditions on the source: the request names it.
    conditions: Conditions,
}

/// The order, if the request is about directories and they are copied there.
pub(super) async fn wanted(
    call: &mut Call,
    destination: &StoragePath,
    may_replace: bool,
) -> Result<Option<Order>, Refusal> {
    let PathTarget::Area(target, to) = call.endpoint.names.find(destination)? else {
        return Ok(None);
    };
    if target.dav != Dav::Full {
        return Ok(None);
    }
    let source = call.path.clone();
    let (area, from) = call.area()?;
    call.permit(Operation::Read, &source, Some(&area)).await?;
    let caller = call.known_caller().await?;
    caller.may(Operation::Create, destination)?;
    let look = {
        let (area, from, target, to) = (area.clone(), from.clone(), target.clone(), to.clone());
        move || {
            let is_directory = |area: &Area, path: &StoragePath| {
                let found = area.current(path).or_else(|error| match error.looking() {
                    error if error.obstacle == Obstacle::Missing => Ok(None),
                    error => Err(error),
                });
                Ok::<_, BackendError>(found?.is_some_and(|meta| meta.directory))
            };
            Ok::<_, BackendError>(is_directory(&area, &from)? || is_directory(&target, &to)?)
        }
    };
    if !blocking(look).await? {
        return Ok(None);
    }
    Ok(Some(Order {
        caller,
        source,
        destination: destination.clone(),
        area,
        from,
        target,
        to,
        shallow: is_shallow(call)?,
        may_replace,
        conditions: Conditions::of(&call.headers)?,
    }))
}

fn is_shallow(call: &Call) -> Result<bool, Refusal> {
    match call.header("depth").map(str::trim) {
        None => Ok(false),
        Some("0") => Ok(true),
        Some(depth) if depth.eq_ignore_ascii_case("infinity") => Ok(false),
        Some(_) => Err(Refusal::bad_request("Depth of a COPY can only be 0 or infinity")),
    }
}

pub(super) async fn copy(call: &mut Call, order: Order) -> Result<Response<Body>, Refusal> {
    let place = call.place(Work::Transfer, &order.target).await?;
    let order = Arc::new(order);
    let prepared = {
        let order = order.clone();
        blocking(move || order.prepare()).await?
    };
    let moved = call.begin_transfer(Kind::Copy, &order.target);
    call.exchange().first_byte(std::time::Instant::now());
    for (number, is_directory) in prepared.plan.directories().enumerate() {
        let path = Path {
            source: prepared.plan.path(number, &order.from),
            staged: prepared.plan.path(number, &copied()),
        };
        if is_directory {
            make_directory(&order, &prepared.stage, path).await?;
        } else {
            copy_file(call, &order, &prepared.stage, path, (place.memory(), moved.clone())).await?;
        }
    }
    let exchange = call.exchange().clone();
    let replaced = blocking(move || order.publish(prepared)).await?;
    exchange.complete(Checksums::default());
    Ok(status(if replaced {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::CREATED
    }))
}

/// One entry, where it is and where its copy is made.
struct Path {
    source: StoragePath,
    staged: StoragePath,
}

async fn make_directory(order: &Arc<Order>, stage: &Staged, path: Path) -> Result<(), Refusal> {
    let (order, staging) = (order.clone(), stage.area.clone());
    blocking(move || {
        staging.settle(staging.backend.make_directory(&path.staged)?)?;
        if let Some(text) = order.properties(&path.source)? {
            staging.settle(staging.backend.keep_properties(&path.staged, Some(&text))?)?;
        }
        Ok(())
    })
    .await
}

async fn copy_file(
    call: &Call,
    order: &Arc<Order>,
    stage: &Staged,
    path: Path,
    means: (Arc<Lease>, Arc<AtomicU64>),
) -> Result<(), Refusal> {
    let open = {
        let (order, staging) = (order.clone(), stage.area.clone());
        move || {
            let reader = order.area.backend.open(&path.source).map_err(BackendError::looking)?;
            let hold = staging.hold(reader.meta().size)?;
            let landing = Landing {
                claim: staging.claim(&path.staged)?,
                properties: order.properties(&path.source)?,
                path: path.staged,
                overwrite: false,
                conditions: Conditions::default(),
                creator: order.caller.creator(),
            };
            Ok::<_, Refusal>((reader, hold, landing))
        }
    };
    let (reader, hold, landing) = blocking(open).await?;
    copy::pour(call, &stage.area, &reader, (hold, landing), means).await?;
    call.exchange().goes_on();
    Ok(())
}

/// The properties of a copy of this object; `path` is that of URLs.
pub(super) fn properties(area: &Area, path: &StoragePath, target: &Area) -> Result<Option<String>, BackendError> {
    match path.relative_to(&area.prefix) {
        Some(inside) if area.dav == Dav::Full && target.dav == Dav::Full => area.backend.properties(&inside),
        _ => Ok(None),
    }
}

/// The name of the copy in the stage.
fn copied() -> StoragePath {
    StoragePath::from_plain("/copy").expect("this is a path")
}

/// A copy after all checks that can be made before.
struct Prepared {
    plan: Plan,
    stage: Staged,
    /// Whether an existing object may be replaced.
    replace: bool,
    _claim: Claim,
}

impl Order {
    /// Asks all questions, and makes the stage. On the blocking pool.
    fn prepare(&self) -> Result<Prepared, Refusal> {
        let meta = self.area.backend.stat(&self.from).map_err(BackendError::looking)?;
        self.check_source(&meta)?;
        let claim = self.target.claim(&self.to)?;
        let there = self.target.current(&self.to)?;
        let replace = self.check_target(&meta, there.as_ref())?;
        let plan = Plan::of(self, &meta)?;
        // Room for all of it; each file sets its own aside when its turn comes.
        drop(self.target.hold(plan.bytes())?);
        // The existing object must not be removed for a copy that a power cut can still take.
        let durable = self.target.durable || there.is_some();
        Ok(Prepared {
            plan,
            stage: Staged::begin(&self.target, durable)?,
            replace,
            _claim: claim,
        })
    }

    fn check_source(&self, meta: &Meta) -> Result<(), Refusal> {
        check_kind(&self.source, meta)?;
        if meta.directory && !self.area.anonymous_read {
            self.caller.may(Operation::List, &self.source)?;
        }
        Ok(self.conditions.check(Some(meta))?)
    }

    /// Checks the caller's right to replace the existing object.
    fn check_target(&self, meta: &Meta, there: Option<&Meta>) -> Result<bool, Refusal> {
        let Self {
            caller,
            destination,
            target,
            ..
        } = self;
        target.check_writable()?;
        let forbidden = |text: &str| Err(Refusal::new(StatusCode::FORBIDDEN, text));
        if self.to.is_root() {
            return forbidden("the root of a storage area stays what it is");
        }
        if Arc::ptr_eq(&self.area, target) {
            if self.from.is_same_place(&self.to) {
                return forbidden("source and destination are the same");
            }
            if meta.directory && self.to.is_within(&self.from) {
                return forbidden("a directory cannot be copied into itself");
            }
            if self.from.is_within(&self.to) {
                return Err(Refusal::conflict("the destination holds the source"));
            }
        }
        // The right to `/f/` is no right to the file `/f`.
        let destination = &if meta.directory {
            destination.as_directory()
        } else {
            destination.as_file()
        };
        caller.may(Operation::Create, destination)?;
        if meta.directory {
            caller.may(Operation::MakeDirectory, destination)?;
        }
        let takes = match there {
            Some(there) if there.directory => Operation::Delete,
            _ => Operation::Overwrite,
        };
        let may_take = caller.may(takes, destination);
        if there.is_some() {
            may_take.clone()?;
            if !self.may_replace {
                return Err(Refusal::precondition(format!(
                    "{destination} exists, and Overwrite is F"
                )));
            }
        }
        copy::parent_exists(target, &self.to, destination)?;
        Ok(self.may_replace && there.is_some())
    }

    fn properties(&self, inside: &StoragePath) -> Result<Option<String>, BackendError> {
        properties(&self.area, &self.area.prefix.join(inside), &self.target)
    }

    /// Gives the copy its name; tells whether something was replaced. On the blocking pool.
    fn publish(&self, prepared: Prepared) -> Result<bool, Refusal> {
        let Prepared {
            stage, replace, _claim, ..
        } = prepared;
        let (replaced, changed) = {
            let _still = self.target.still(&self.to);
            stage.publish(&copied(), &self.to, replace)?
        };
        self.target.settle(changed)?;
        Ok(replaced)
    }
}

/// A stage, and the area that it is part of. Its remaining contents are removed in any case.
struct Staged {
    /// The area as it is in the stage.
    area: Arc<Area>,
    /// None once it is given up.
    stage: Option<Box<dyn Stage>>,
}

impl Staged {
    fn begin(area: &Area, durable: bool) -> Result<Self, BackendError> {
        let stage = area.backend.stage()?;
        Ok(Self {
            area: Arc::new(area.staging(stage.inside(), durable)),
            stage: Some(stage),
        })
    }

    fn publish(&self, from: &StoragePath, to: &StoragePath, replace: bool) -> Result<(bool, Changed), BackendError> {
        let stage = self.stage.as_ref().expect("it is given up at the end");
        stage.publish(from, to, replace)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(stage) = self.stage.take() {
            self.area.removals.push(stage.give_up(), Vec::new());
        }
    }
}
