//! DIDs and replicas in bodies and paths.

use std::collections::BTreeSet;

use serde_json::Value;
use weir_database::Session;
use weir_model::{
    RseName,
    catalog::{Did, DidName, Scope},
};
use weir_service::time::Millis;
use weir_store::StoreError;

use super::{answer::Failure, body::Object, caller::Caller};
use crate::{
    accounts::scopes,
    paths,
    permissions::Operation,
    pfn,
    refusal::{Class, Refusal},
    replicas::{self, NewReplica},
    rses::{self, Rse, protocols, protocols::Protocol},
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

/// Within a transaction: refuses changes in another account's scope.
pub(super) fn may_change(
    session: &mut dyn Session,
    caller: &Caller,
    operation: Operation,
    scope: &Scope,
) -> Result<(), StoreError> {
    let owner = scopes::owner(session, scope)?;
    caller.may(session, operation, Some(&owner))
}

/// A file that a client says is at an RSE, with the PFN that it gives.
#[derive(Debug, Clone)]
pub(super) struct Told {
    new: NewReplica,
    pfn: Option<String>,
}

/// Within a transaction: registers the files at an RSE.
pub(super) fn register(
    session: &mut dyn Session,
    caller: &Caller,
    (rse, files): (&RseName, &[Told]),
    now: Millis,
) -> Result<(), StoreError> {
    for scope in files.iter().map(|file| &file.new.did.scope).collect::<BTreeSet<_>>() {
        may_change(session, caller, Operation::AddReplicas, scope)?;
    }
    let rse = rses::get(session, rse)?;
    let has_pfns = files.iter().any(|file| file.pfn.is_some());
    if has_pfns && !rse.traits.deterministic {
        caller.may(session, Operation::ChoosePaths, None)?;
    }
    let protocols = if has_pfns {
        protocols::of(session, rse.id)?
    } else {
        Vec::new()
    };
    let placed = files.iter().map(|file| {
        let path = path(file, &rse, &protocols)?;
        Ok(NewReplica {
            path,
            ..file.new.clone()
        })
    });
    let placed = placed.collect::<Result<Vec<_>, Refusal>>()?;
    replicas::add(session, rse.id, &placed, caller.account(), now)
}

/// The path of a file, where it does not follow from the DID. A PFN that is given says the same where it does.
fn path(file: &Told, rse: &Rse, protocols: &[Protocol]) -> Result<Option<String>, Refusal> {
    let (did, hashed) = (&file.new.did, paths::hashed(&file.new.did));
    let Some(pfn) = &file.pfn else {
        return Ok((!rse.traits.deterministic).then_some(hashed));
    };
    let shown = pfn.chars().take(200).collect::<String>();
    let invalid = |reason: String| {
        let message = format!("The PFN {shown:?} of {did} is none of {}: {reason}", rse.name);
        Refusal::new(Class::InvalidPath, message)
    };
    if !rse.traits.deterministic {
        return pfn::path(pfn, protocols)
            .map(Some)
            .map_err(|error| invalid(error.to_string()));
    }
    // A name may hold an empty segment, and a client may write it as it is or encoded.
    let is_expected = protocols
        .iter()
        .any(|one| *pfn == paths::url(one, &hashed) || *pfn == paths::on_the_wire(one, &hashed));
    if is_expected || pfn::path(pfn, protocols).as_ref() == Ok(&hashed) {
        return Ok(None);
    }
    let expected = protocols.first().map(|one| paths::url(one, &hashed));
    Err(invalid(match expected {
        Some(expected) => format!("paths follow from DIDs there, and {expected} was expected"),
        None => "the RSE has no protocol".to_owned(),
    }))
}

/// A file of a body.
pub(super) fn new_replica(body: &Object) -> Result<Told, Failure> {
    let bytes = body.number("bytes")?.ok_or_else(|| super::body::missing("bytes"))?;
    let negative = |_| Failure::value(format!("a file has {bytes} bytes"));
    let new = NewReplica {
        did: did_of(body)?,
        bytes: u64::try_from(bytes).map_err(negative)?,
        adler32: body.text("adler32")?.map(str::to_lowercase),
        md5: body.text("md5")?.map(str::to_lowercase),
        is_coming: body.text("state")? == Some("C"),
        path: None,
        meta: body.value("meta").map_or_else(|| "{}".to_owned(), Value::to_string),
    };
    let pfn = body.text("pfn")?.map(str::to_owned);
    Ok(Told { new, pfn })
}
