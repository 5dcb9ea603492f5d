//! From an identity that was proven to an account.

use std::sync::Arc;

use http::HeaderMap;
use weir_database::Session;
use weir_model::catalog::{AccountName, IdentityType};

use super::{Door, answer::Failure};
use crate::{
    accounts::identities,
    refusal::{Class, Refusal},
};

/// A header as text.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The account that an identity asks for, else its first one.
pub(super) async fn chosen(
    door: &Arc<Door>,
    headers: &HeaderMap,
    (identity, kind): (&str, IdentityType),
) -> Result<AccountName, Failure> {
    let asked = header(headers, "x-rucio-account").filter(|account| !account.is_empty());
    let message = format!(
        "Cannot authenticate to account {} with the identity {identity}",
        asked.unwrap_or_default()
    );
    let refused = || Failure::from(Refusal::new(Class::CannotAuthenticate, message.clone()));
    let asked = asked
        .map(str::parse::<AccountName>)
        .transpose()
        .map_err(|_| refused())?;
    let of = identity.to_owned();
    let read = move |session: &mut dyn Session| identities::accounts_of(session, &of, kind);
    let accounts = door.database.read(read).await?;
    let chosen = match asked {
        Some(asked) => accounts.into_iter().find(|one| *one == asked),
        None => accounts.into_iter().next(),
    };
    chosen.ok_or_else(refused)
}
