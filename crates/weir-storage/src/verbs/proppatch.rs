//! PROPPATCH: stores clients' own properties, all of a request or none (RFC 4918 section 9.2), in areas with `dav =
//! "full"`. Elsewhere each is refused. Live properties cannot be set.

use http::Response;
use weir_auth::{Operation, StoragePath};
use weir_http::Body;

use super::propfind::{BODY_LIMIT, multistatus};
use crate::{
    area::{Area, PathTarget},
    backend::{BackendError, Changed, Obstacle},
    conditional::Conditions,
    config::Dav,
    data::blocking,
    dav::{self, Property, Unchanged, Update},
    refusal::Refusal,
    service::{Call, check_kind},
};

pub(super) async fn proppatch(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let path = call.path.clone();
    let place = call.endpoint.names.find(&path)?;
    call.permit(Operation::Overwrite, &path, None).await?;
    let (collection, area) = match place {
        PathTarget::Area(area, inside) => {
            let (area_, path, inside_) = (area.clone(), path.clone(), inside.clone());
            let look = move || {
                let meta = area_.backend.stat(&inside_).map_err(BackendError::looking)?;
                check_kind(&path, &meta)?;
                Ok::<_, Refusal>(meta.directory)
            };
            (blocking(look).await?, Some((area, inside)))
        }
        PathTarget::Above(_) => (true, None),
        PathTarget::Nowhere => return Err(Refusal::not_found(&path)),
    };
    let bytes = call.read_body(BODY_LIMIT).await?;
    let updates = dav::parse_update(&bytes).map_err(|error| Refusal::bad_request(error.to_string()))?;
    let names: Vec<Property> = dav::named(&updates).into_iter().cloned().collect();
    let unchanged = match area.filter(|(area, _)| area.dav == Dav::Full) {
        None => Some(Unchanged::NotKept),
        Some(_) if !names.iter().all(dav::may_be_set) => Some(Unchanged::Protected),
        Some((area, inside)) => {
            let conditions = Conditions::of(&call.headers)?;
            blocking(move || keep(&area, &inside, &conditions, updates)).await?
        }
    };
    let names: Vec<&Property> = names.iter().collect();
    let href = href(&call.path, collection);
    let mut text = dav::OPEN.to_owned();
    match unchanged {
        None => dav::write_changed(&mut text, &href, &names),
        Some(why) => dav::write_refused(&mut text, &href, &names, why),
    }
    text.push_str(dav::CLOSE);
    Ok(multistatus(weir_http::body::full(text)))
}

/// Carries the instructions out; or tells why none of them was. On the blocking pool.
fn keep(
    area: &std::sync::Arc<Area>,
    inside: &StoragePath,
    conditions: &Conditions,
    updates: Vec<Update>,
) -> Result<Option<Unchanged>, Refusal> {
    area.check_writable()?;
    // A file that is about to replace this one has its properties already.
    let _claim = area.claim(inside)?;
    match change(area, inside, conditions, updates) {
        Ok(Some(changed)) => {
            area.settle(changed)?;
            Ok(None)
        }
        Ok(None) => Ok(Some(Unchanged::NoRoom)),
        Err(Failure::Refused(refusal)) => Err(refusal),
        Err(Failure::Backend(error)) => match error.obstacle {
            Obstacle::NoSpace => Ok(Some(Unchanged::NoRoom)),
            Obstacle::NoAttributes => Ok(Some(Unchanged::NotKept)),
            _ => Err(error.looking().into()),
        },
    }
}

enum Failure {
    Refused(Refusal),
    Backend(BackendError),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        Self::Backend(error)
    }
}

/// None if they are too many.
fn change(
    area: &Area,
    inside: &StoragePath,
    conditions: &Conditions,
    updates: Vec<Update>,
) -> Result<Option<Changed>, Failure> {
    let _still = area.still(inside);
    let meta = area.backend.stat(inside)?;
    conditions.check(Some(&meta)).map_err(Refusal::from)?;
    let known = area.backend.properties(inside)?;
    let known = known.as_deref().map(dav::from_text).unwrap_or_default();
    let Ok(properties) = dav::updated(known, updates) else {
        return Ok(None);
    };
    let text = dav::to_text(&properties);
    Ok(Some(area.backend.keep_properties(inside, text.as_deref())?))
}

fn href(path: &StoragePath, collection: bool) -> String {
    dav::href(path.names(), collection)
}
