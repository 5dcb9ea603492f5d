//! DELETE: a file, or a directory with all that is in it.
//!
//! RFC 4918 section 9.6.1 makes DELETE of a collection recursive, and rclone's `purge` and WebDAV's own clients rely on it;
//! gfal2 and davix remove trees entry by entry and do not mind. The directory's name is gone at one instant, whatever is in it.

use http::{Response, StatusCode};
use weir_auth::Operation;
use weir_http::Body;

use super::status;
use crate::{
    conditional::{self, Verdict},
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
    let headers = call.headers.clone();
    blocking(move || {
        let meta = {
            let _still = area.still(&inside);
            let meta = area.backend.stat(&inside)?;
            check_kind(&path, &meta)?;
            if conditional::weigh(&headers, Some(&meta), false) == Verdict::Failed {
                return Err(Refusal::precondition("what is there is not what the condition names"));
            }
            if !meta.directory {
                area.freed_file(Some(area.backend.remove_file(&inside, area.durable)?));
            }
            meta
        };
        // A tree takes its time, and is nobody else's once its name is gone.
        if meta.directory {
            area.freed(area.backend.remove_tree(&inside, area.durable)?);
        }
        Ok(status(StatusCode::NO_CONTENT))
    })
    .await
}
