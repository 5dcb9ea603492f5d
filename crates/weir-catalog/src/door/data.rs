//! DIDs and replicas in bodies and paths.

use serde_json::Value;
use weir_model::catalog::{Did, DidName, Scope};
use weir_store::StoreError;

use super::{answer::Failure, body::Object, caller::Caller};
use crate::{
    accounts::scopes,
    database::Session,
    permissions::Operation,
    refusal::{Class, Refusal},
    replicas::New,
};

/// A DID from a path or a body.
pub(super) fn did(scope: &str, name: &str) -> Result<Did, Failure> {
    let invalid = |error| {
        Failure::from(Refusal::new(
            Class::InvalidObject,
            format!("Problem validating DID: {error}"),
        ))
    };
    let scope = scope.parse::<Scope>().map_err(invalid)?;
    let name = name.parse::<DidName>().map_err(invalid)?;
    Ok(Did { scope, name })
}

pub(super) fn did_of(body: &Object) -> Result<Did, Failure> {
    did(body.needed("scope")?, body.needed("name")?)
}

/// Within a transaction: refuses changes in the scope of somebody else.
pub(super) fn may_change(
    session: &mut dyn Session,
    caller: &Caller,
    operation: Operation,
    scope: &Scope,
) -> Result<(), StoreError> {
    let owner = scopes::owner(session, scope)?;
    caller.may(session, operation, Some(&owner))
}

/// A file that a client says is at an RSE.
pub(super) fn new_replica(body: &Object) -> Result<New, Failure> {
    let bytes = body.number("bytes")?.ok_or_else(|| super::body::missing("bytes"))?;
    let negative = |_| Failure::value(format!("a file has {bytes} bytes"));
    Ok(New {
        did: did_of(body)?,
        bytes: u64::try_from(bytes).map_err(negative)?,
        adler32: body.text("adler32")?.map(str::to_lowercase),
        md5: body.text("md5")?.map(str::to_lowercase),
        is_coming: body.text("state")? == Some("C"),
        path: body.text("pfn")?.map(str::to_owned),
        meta: body.value("meta").map_or_else(|| "{}".to_owned(), Value::to_string),
    })
}
