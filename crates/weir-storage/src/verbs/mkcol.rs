//! MKCOL: one directory in an existing parent (RFC 4918 section 9.3).

use http::{Response, StatusCode};
use http_body::Body as _;
use weir_auth::Operation;
use weir_http::Body;

use super::{ALLOW, status};
use crate::{
    area::PathTarget,
    backend::{BackendError, Obstacle},
    data::blocking,
    refusal::Refusal,
    service::Call,
};

pub(super) async fn mkcol(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let path = call.path.clone();
    call.permit(Operation::MakeDirectory, &path, None).await?;
    if call.body.as_ref().is_some_and(|body| !body.is_end_stream()) {
        return Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "MKCOL takes no body here",
        ));
    }
    let exists = || Refusal::method_not_allowed(format!("{path} exists"), ALLOW);
    let (area, inside) = match call.endpoint.names.find(&path)? {
        PathTarget::Above(_) => return Err(exists()),
        PathTarget::Area(_, inside) if inside.is_root() => return Err(exists()),
        _ => call.area()?,
    };
    area.check_writable()?;
    let made = blocking(move || area.settle(area.backend.make_directory(&inside)?)).await;
    match made {
        Ok(()) => Ok(status(StatusCode::CREATED)),
        Err(BackendError {
            obstacle: Obstacle::Exists,
            ..
        }) => Err(exists()),
        Err(error) => Err(error.into()),
    }
}
