//! DELETE: a file, or a directory with all its contents.
//!
//! RFC 4918 section 9.6.1 makes DELETE of a collection recursive, and rclone's `purge` and WebDAV's own clients rely on
//! it. gfal2 and davix remove trees entry by entry and are not affected. The directory's name is gone at one instant,
//! whatever its contents.

use http::{Response, StatusCode};
use weir_auth::{Operation, StoragePath};
use weir_http::Body;

use super::status;
use crate::{
    area::Area,
    backend::{BackendError, Changed, Obstacle},
    conditional::Conditions,
    data::blocking,
    refusal::Refusal,
    service::{Call, check_kind},
};

pub(super) async fn delete(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let path = call.path.clone();
    call.permit(Operation::Delete, &path, None).await?;
    if call
        .header("depth")
        .is_some_and(|depth| !depth.eq_ignore_ascii_case("infinity") && depth != "0")
    {
        return Err(Refusal::bad_request("Depth of a DELETE can only be infinity"));
    }
    let (area, inside) = call.area()?;
    area.check_writable()?;
    if inside.is_root() {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            format!("{path} is the root of a storage area and stays"),
        ));
    }
    let conditions = Conditions::of(&call.headers)?;
    let flat = call.header("depth") == Some("0");
    blocking(move || {
        let changed = remove(&area, &inside, &path, &conditions, flat)?;
        area.settle(changed)?;
        Ok(status(StatusCode::NO_CONTENT))
    })
    .await
}

/// The name is removed under the lock; its object is removed after the answer, unless it is small. A parent that goes
/// meanwhile takes the name with it: then there is nothing left to delete.
fn remove(
    area: &Area,
    inside: &StoragePath,
    path: &StoragePath,
    conditions: &Conditions,
    flat: bool,
) -> Result<Changed, Refusal> {
    let _still = area.still(inside);
    let meta = area.backend.stat(inside).map_err(BackendError::looking)?;
    check_kind(path, &meta)?;
    conditions.check(Some(&meta))?;
    if meta.directory && flat {
        return remove_empty(area, inside, path);
    }
    if meta.directory {
        // An empty directory is removed at once, like a file: it needs no time.
        return match area.backend.remove_directory(inside) {
            Err(BackendError {
                obstacle: Obstacle::NotEmpty,
                ..
            }) => Ok(area.backend.defer_removal(inside).map_err(BackendError::looking)?),
            outcome => Ok(outcome.map_err(BackendError::looking)?),
        };
    }
    let (meta, changed) = area.backend.remove_file(inside).map_err(BackendError::looking)?;
    if changed.removal.is_none() {
        area.freed_file(Some(meta));
    }
    Ok(changed)
}

/// `Depth: 0` of a directory: RFC 4918 section 9.6.1 does not define it, and its client does not mean the whole tree.
fn remove_empty(area: &Area, inside: &StoragePath, path: &StoragePath) -> Result<Changed, Refusal> {
    match area.backend.remove_directory(inside) {
        Err(BackendError {
            obstacle: Obstacle::NotEmpty,
            ..
        }) => Err(Refusal::conflict(format!(
            "{path} is not empty: DELETE removes it with all that is in it only without Depth: 0"
        ))),
        outcome => Ok(outcome.map_err(BackendError::looking)?),
    }
}
