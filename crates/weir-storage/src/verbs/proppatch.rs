//! PROPPATCH: refused property by property (RFC 4918 section 9.2). What the server knows of a file cannot be set, and nothing else
//! is kept.

use http::{Response, StatusCode};
use weir_auth::{Operation, StoragePath};
use weir_http::Body;

use super::propfind::{BODY_LIMIT, multistatus};
use crate::{
    area::Place,
    backend::BackendError,
    data::blocking,
    dav,
    refusal::Refusal,
    service::{Call, check_kind},
};

pub(super) async fn proppatch(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let path = call.path.clone();
    let place = call.endpoint.names.find(&path)?;
    call.permit(Operation::Overwrite, &path, None).await?;
    let collection = match place {
        Place::Area(area, inside) => {
            let path = path.clone();
            blocking(move || {
                let meta = area.backend.stat(&inside).map_err(BackendError::looking)?;
                check_kind(&path, &meta)?;
                Ok::<_, Refusal>(meta.directory)
            })
            .await?
        }
        Place::Above(_) => true,
        Place::Nowhere => return Err(Refusal::not_found(&path)),
    };
    let bytes = call.read_body(BODY_LIMIT).await?;
    let properties = dav::parse_update(&bytes).map_err(|error| Refusal::bad_request(error.to_string()))?;
    let mut text = dav::OPEN.to_owned();
    dav::write_refused(&mut text, &href(&path, collection), &properties);
    text.push_str(dav::CLOSE);
    let mut response = multistatus(weir_http::body::full(text));
    *response.status_mut() = StatusCode::MULTI_STATUS;
    Ok(response)
}

fn href(path: &StoragePath, collection: bool) -> String {
    dav::href(path.components().iter().map(String::as_str), collection)
}
