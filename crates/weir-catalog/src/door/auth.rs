//! Logins.

use std::time::Duration;

use axum::extract::Request;

use http::{HeaderMap, HeaderName, HeaderValue};
use weir_auth::Secret;
use weir_database::Session;
use weir_model::catalog::{AccountName, IdentityType};

use super::{
    State,
    answer::{Answer, Failure, date, empty, json_answer},
    caller::Caller,
    identity::{chosen, header},
};
use crate::{
    accounts::{
        identities::{self, PasswordHash},
        sessions::{self, LIFETIME},
    },
    refusal::{Class, Refusal},
};

/// The time that a login waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// `GET /auth/userpass`: a user name and a password for a token.
pub(crate) async fn userpass(door: State, headers: HeaderMap) -> Answer {
    let said = |name| header(&headers, name).unwrap_or_default().to_owned();
    let (user, password) = (said("x-rucio-username"), Secret::new(said("x-rucio-password")));
    let account = header(&headers, "x-rucio-account").filter(|account| !account.is_empty());
    let refused = || {
        let account = account.unwrap_or_default();
        let message = format!("Cannot authenticate to account {account} with given credentials");
        Failure::from(Refusal::new(Class::CannotAuthenticate, message))
    };
    let asked = account
        .map(str::parse::<AccountName>)
        .transpose()
        .map_err(|_| refused())?;
    let of = user.clone();
    let read = move |session: &mut dyn Session| {
        let accounts = identities::accounts_of(session, &of, IdentityType::UserPass)?;
        Ok((identities::password(session, &of)?, accounts))
    };
    let (stored, accounts) = door.database.read(read).await?;
    if !fits(&door, stored, password).await? {
        return Err(refused());
    }
    let chosen = match asked {
        Some(asked) => accounts.into_iter().find(|one| *one == asked),
        None => accounts.into_iter().next(),
    };
    let account = chosen.ok_or_else(refused)?;
    begin(&door, account, user).await
}

/// `GET /auth/x509` and `/auth/x509_proxy`: a client certificate, or a proxy, for a token.
pub(crate) async fn certificate(door: State, request: Request) -> Answer {
    let refused = |message: String| Failure::from(Refusal::new(Class::CannotAuthenticate, message));
    let certificates = door.by.certificates.as_ref();
    let certificates = certificates
        .ok_or_else(|| Failure::not_built("certificates are no logins here: the catalogue has no [x509]"))?;
    let identity = certificates.identity(request.extensions(), weir_service::time::system());
    let identity = identity.map_err(|error| refused(format!("{error}; {}", error.remedy())))?;
    let identity = identity.ok_or_else(|| refused("Cannot get DN: no client certificate was shown".to_owned()))?;
    // A limited proxy moves data, and gives no orders.
    identity.require_full().map_err(|error| refused(error.to_string()))?;
    let subject = identity.subject.clone();
    let account = chosen(&door, request.headers(), (&subject, IdentityType::X509)).await?;
    begin(&door, account, subject).await
}

/// Checks a password on a thread of its own. An unknown user costs as much time as a known one.
async fn fits(door: &State, stored: Option<PasswordHash>, password: Secret) -> Result<bool, Failure> {
    let check = move || {
        if let Some(stored) = stored {
            return stored.fits(&password);
        }
        let _as_long = PasswordHash::new(&password);
        false
    };
    hashing(door, check).await
}

/// Hashes a password on a thread of its own, a few at a time. A caller that waits for too long is answered 503.
pub(super) async fn hashing<T: Send + 'static>(
    door: &State,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let busy = || Failure::busy("Too many passwords are being checked; come again");
    let place = tokio::time::timeout(PATIENCE, door.logins.acquire()).await;
    let _place = place.map_err(|_| busy())?.map_err(|_| busy())?;
    tokio::task::spawn_blocking(work).await.map_err(|_| busy())
}

/// Begins a session, and tells its token.
async fn begin(door: &State, account: AccountName, identity: String) -> Answer {
    let (now, of) = (weir_service::time::now(), account.clone());
    let write = move |session: &mut dyn Session| sessions::begin(session, &of, &identity, now);
    let token = door.database.write(write).await?;
    let mut answer = empty();
    let told = [
        ("x-rucio-auth-token", token.expose().to_owned()),
        ("x-rucio-auth-token-expires", date(now + LIFETIME)),
        ("x-rucio-auth-account", account.to_string()),
    ];
    for (name, value) in told {
        let mut value = HeaderValue::from_str(&value).map_err(|error| Failure::value(error.to_string()))?;
        value.set_sensitive(name == "x-rucio-auth-token");
        answer.headers_mut().insert(HeaderName::from_static(name), value);
    }
    Ok(answer)
}

/// `GET /auth/validate`: the account behind a token.
pub(crate) async fn validate(caller: Caller) -> Answer {
    let bearer = caller.0;
    Ok(json_answer(&serde_json::json!({
        "account": bearer.account, "identity": bearer.identity, "lifetime": date(bearer.expires), "audience": null, "authz_scope": null,
        "vo": "def",
    })))
}
