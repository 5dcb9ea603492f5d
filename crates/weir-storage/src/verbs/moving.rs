//! MOVE: another name for a file or directory, within one area (RFC 4918 section 9.9).

use std::sync::Arc;

use http::{Response, StatusCode, Uri};
use weir_auth::StoragePath;
use weir_http::Body;

use super::{overwrite, path_here, status};
use crate::{
    access::Caller,
    area::{Area, DEPTH_MAX, PathTarget},
    backend::{BackendError, Changed, Meta},
    conditional::Conditions,
    config::Dav,
    data::blocking,
    refusal::Refusal,
    service::{Call, check_kind},
};

pub(super) async fn moving(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let destination = destination(call)?;
    let overwrite = overwrite(call)?;
    let caller = call.known_caller().await?;
    let source = call.path.clone();
    // Without these rights at both ends, the client must not learn what exists there.
    caller
        .may_move(&source, &destination, true)
        .or_else(|_| caller.may_move(&source, &destination, false))?;
    let (area, from) = call.area()?;
    let to = match call.endpoint.names.find(&destination)? {
        PathTarget::Area(other, to) if Arc::ptr_eq(&area, &other) => to,
        PathTarget::Area(..) => {
            return Err(Refusal::new(
                StatusCode::BAD_GATEWAY,
                "source and destination lie in different storage areas: copy instead",
            ));
        }
        _ => {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                format!("there is no storage area at {destination}"),
            ));
        }
    };
    area.check_writable()?;
    if from.is_root() || to.is_root() {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "the root of a storage area stays where it is",
        ));
    }
    if from.is_same_place(&to) {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "source and destination are the same",
        ));
    }
    let (_from_claim, _to_claim) = (area.claim(&from)?, area.claim(&to)?);
    let work = Move {
        area,
        caller,
        source,
        destination,
        from,
        to,
        overwrite,
        conditions: Conditions::of(&call.headers)?,
    };
    let replaced = blocking(move || {
        let (replaced, changed) = work.carry_out()?;
        work.area.settle(changed)?;
        Ok::<_, Refusal>(replaced)
    })
    .await?;
    Ok(status(if replaced {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::CREATED
    }))
}

/// The `Destination` header, which must lead to this endpoint.
fn destination(call: &Call) -> Result<StoragePath, Refusal> {
    let text = call
        .header("destination")
        .ok_or_else(|| Refusal::bad_request("MOVE needs a Destination"))?;
    let uri: Uri = text
        .parse()
        .map_err(|_| Refusal::bad_request("Destination is no URL"))?;
    path_here(call, &uri).unwrap_or_else(|| Err(Refusal::new(StatusCode::BAD_GATEWAY, "Destination is another server")))
}

struct Move {
    area: Arc<Area>,
    caller: Caller,
    source: StoragePath,
    destination: StoragePath,
    from: StoragePath,
    to: StoragePath,
    overwrite: bool,
    /// Conditions on the source: the request names it.
    conditions: Conditions,
}

impl Move {
    /// Carries the move out. Returns whether an object was replaced, and the remaining work.
    fn carry_out(&self) -> Result<(bool, Changed), Refusal> {
        self.check_depth()?;
        let Self { area, from, to, .. } = self;
        let _still = area.still_both(from, to);
        let meta = area.backend.stat(from).map_err(BackendError::looking)?;
        let there = area.current(to)?;
        self.check(&meta, there.as_ref())?;
        let changed = match there {
            Some(there) if there.directory || meta.directory => area.backend.supplant(from, to)?,
            _ => {
                let (replaced, changed) = area.backend.rename(from, to, self.overwrite && there.is_some())?;
                area.freed_file(replaced.filter(|_| changed.removal.is_none()));
                changed
            }
        };
        Ok((there.is_some(), changed))
    }

    fn check(&self, meta: &Meta, there: Option<&Meta>) -> Result<(), Refusal> {
        let Self {
            from, to, destination, ..
        } = self;
        check_kind(&self.source, meta)?;
        let is_file = destination.is_directory() && !meta.directory;
        // The right to `/f/` is no right to the file `/f`.
        let destination = &if is_file {
            destination.as_file()
        } else {
            destination.clone()
        };
        let over_directory = !meta.directory && there.is_some_and(|there| there.directory);
        if is_file && !(over_directory && self.area.dav == Dav::Full) {
            let destination = &self.destination;
            let text =
                format!("{destination} names a directory, and a file would move there: ask without the last slash");
            return Err(Refusal::conflict(text));
        }
        let fresh = !meta.directory && there.is_none();
        self.caller.may_move(&self.source, destination, fresh)?;
        if !meta.directory && !self.is_young(meta) {
            let creator = || self.area.backend.open(from).ok()?.creator();
            self.caller.may_take(&self.source, creator)?;
        }
        self.conditions.check(Some(meta))?;
        if there.is_some() && !self.overwrite {
            let text = format!("{destination} exists, and Overwrite is F");
            return Err(Refusal::precondition(text));
        }
        if meta.directory && to.is_within(from) {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "a directory cannot be moved into itself",
            ));
        }
        if from.is_within(to) {
            return Err(Refusal::conflict("the destination holds the source"));
        }
        if over_directory && self.area.dav == Dav::Basic && !self.is_empty()? {
            // RFC 4918 section 9.9.3 would have the tree deleted. No program that transfers files means that when it renames one.
            let text =
                format!("{destination} is a directory that is not empty: delete it first, or name the file in it");
            return Err(Refusal::conflict(text));
        }
        Ok(())
    }

    /// Whether the file is so new that callers with the right to create may also move it.
    fn is_young(&self, meta: &Meta) -> bool {
        let age = std::time::SystemTime::now()
            .duration_since(meta.modified())
            .unwrap_or_default();
        age < self.area.movable_for
    }

    fn is_empty(&self) -> Result<bool, Refusal> {
        Ok(self.area.backend.list(&self.to)?.next(1)?.is_empty())
    }

    /// A tree that goes deeper down must not reach deeper than requests can.
    fn check_depth(&self) -> Result<(), Refusal> {
        let Self { area, from, to, .. } = self;
        let depth = |path: &StoragePath| path.depth();
        if depth(to) <= depth(from) || !area.backend.stat(from).map_err(BackendError::looking)?.directory {
            return Ok(());
        }
        let left = DEPTH_MAX.saturating_sub(depth(&self.destination));
        if area.backend.height(from, left)? >= left {
            let text = format!(
                "paths below {} would have more than {DEPTH_MAX} names",
                self.destination
            );
            return Err(Refusal::bad_request(text));
        }
        Ok(())
    }
}
