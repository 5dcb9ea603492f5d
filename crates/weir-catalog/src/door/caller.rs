//! The account behind a request.

use std::{sync::Arc, time::UNIX_EPOCH};

use axum::extract::FromRequestParts;
use http::request::Parts;
use weir_database::Session;
use weir_model::catalog::{AccountName, IdentityType};

use super::{Door, answer::Failure, identity};
use crate::{
    accounts,
    accounts::sessions::{self, Bearer},
    logins,
    permissions::{self, Asker, Operation},
    refusal::{Class, Refusal},
};

/// A caller with a valid token.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) Bearer);

/// The token's header.
pub(crate) const TOKEN: &str = "x-rucio-auth-token";

impl FromRequestParts<Arc<Door>> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, door: &Arc<Door>) -> Result<Self, Failure> {
        let token = parts
            .headers
            .get(TOKEN)
            .ok_or_else(|| Failure::value("Token must be set."))?;
        let token = token.to_str().unwrap_or_default().to_owned();
        if token.split('.').count() == 3 {
            return by_token(door, parts, &token).await;
        }
        let now = weir_service::time::now();
        let read = move |session: &mut dyn Session| sessions::bearer(session, &token, now);
        let found = door.database.read(read).await?;
        Ok(Self(found.ok_or_else(unknown)?))
    }
}

fn unknown() -> Refusal {
    Refusal::new(Class::CannotAuthenticate, "Cannot authenticate with given credentials")
}

/// The account of an issuer's token: the one that the request names, else the first that its subject may use.
async fn by_token(door: &Arc<Door>, parts: &Parts, token: &str) -> Result<Caller, Failure> {
    let verifier = door.by.tokens.as_ref().ok_or_else(unknown)?;
    let verified = verifier.verify(token, weir_service::time::system()).await;
    let refused = |error| {
        Refusal::new(
            Class::CannotAuthenticate,
            format!("The token is not taken: {}", weir_auth::error_chain(&error)),
        )
    };
    let verified = verified.map_err(refused)?;
    let identity = logins::of_token(&verified.subject, &verified.issuer);
    let account = identity::chosen(door, &parts.headers, (&identity, IdentityType::Oidc)).await?;
    let ends = verified.expires.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Caller(Bearer {
        account,
        identity,
        expires: i64::try_from(ends.as_millis()).unwrap_or(i64::MAX),
    }))
}

impl Caller {
    /// The caller's account.
    pub(crate) fn account(&self) -> &AccountName {
        &self.0.account
    }

    /// Within a transaction: refuses an operation that the caller may not do. `owner` is the account that it is about.
    pub(crate) fn may(
        &self,
        session: &mut dyn Session,
        operation: Operation,
        owner: Option<&AccountName>,
    ) -> Result<(), weir_store::StoreError> {
        let account = accounts::existing(session, self.account())?;
        let is_permitted = match operation.attribute() {
            Some(key) if !account.is_admin => accounts::has_attribute(session, self.account(), key)?,
            _ => false,
        };
        let asker = Asker {
            kind: account.kind,
            is_admin: account.is_admin || is_permitted,
            is_owner: owner == Some(self.account()),
        };
        if permissions::allows(asker, operation) {
            return Ok(());
        }
        let message = format!("Account {} can not do this: {}", self.account(), operation.needs());
        Err(Refusal::new(Class::AccessDenied, message).into())
    }
}
