//! The services of a grid that run elsewhere: `url` in `[issuer]` and `[transfer]`.

use super::place::{self, Wrong};
use super::url;
use crate::file::{Refusal, Section};
use crate::services::{ExternalIssuer, ExternalTransfer, GridIssuer};

/// Keys of `[issuer]` that make sense only where the issuer runs elsewhere.
const ISSUER_EXTERNAL: [&str; 3] = ["client_id", "secret_file", "ca"];

/// Keys of `[transfer]` that make sense only where the service runs elsewhere.
const TRANSFER_EXTERNAL: [&str; 3] = ["ca", "audience", "token_file"];

/// Reads `[issuer]`.
pub(super) fn issuer(table: &Section<'_>) -> Option<GridIssuer> {
    if !table.has("url") {
        refuse_external(table, &ISSUER_EXTERNAL, "an issuer that runs elsewhere");
        return place::read(table).ok().map(GridIssuer::Embedded);
    }
    for key in ["listen", "host"].into_iter().filter(|key| table.has(key)) {
        let message = "is for the grid's own issuer";
        table.refuse(key, Refusal::new(message, "remove this key, or remove url"));
    }
    for (key, what) in [("client_id", "text"), ("secret_file", "path")] {
        if !table.has(key) {
            table.miss(key, format!("add {key} ({what})"));
        }
    }
    // As it is written: tokens name it in these letters, some with a slash at the end.
    let url = table.checked("url", |url: &String| url::https(url).map(drop));
    let client_id = table.optional("client_id");
    let (secret_file, ca) = (table.file("secret_file"), table.file("ca"));
    Some(GridIssuer::External(ExternalIssuer {
        url: url?,
        client_id: client_id?,
        secret_file: secret_file?,
        ca,
    }))
}

/// Reads what `[transfer]` says beside limits.
pub(super) fn transfer(table: &Section<'_>) -> Result<Option<ExternalTransfer>, Wrong> {
    if !table.has("url") {
        refuse_external(table, &TRANSFER_EXTERNAL, "a transfer service that runs elsewhere");
        return Ok(None);
    }
    let (ca, token_file) = (table.file("ca"), table.file("token_file"));
    let audience = table.optional("audience");
    let url = table
        .checked("url", |url: &String| url::https(url).map(drop))
        .ok_or(Wrong)?;
    let url = url.trim_end_matches('/').to_owned();
    Ok(Some(ExternalTransfer {
        audience: audience.unwrap_or_else(|| url.clone()),
        url,
        ca,
        token_file,
    }))
}

fn refuse_external(table: &Section<'_>, keys: &[&str], of: &str) {
    for key in keys.iter().filter(|key| table.has(key)) {
        table.refuse(key, Refusal::new(format!("is for {of}"), "add url, or remove this key"));
    }
}
