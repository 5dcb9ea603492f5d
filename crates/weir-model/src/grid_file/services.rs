//! The services of a grid that run elsewhere: `url` in `[issuer]`, `[transfer]` and `[catalog]`.

use std::time::Duration;

use weir_units::duration;

use super::place::{self, Wrong};
use super::url;
use crate::catalog::Scope;
use crate::file::{Refusal, Section};
use crate::services::{
    CatalogLogin, ClientCertificate, EmbeddedIssuer, ExternalCatalog, ExternalIssuer, ExternalTransfer, GridCatalog,
    GridIssuer,
};

/// Keys of `[issuer]` that make sense only where the issuer runs elsewhere.
const ISSUER_EXTERNAL: [&str; 3] = ["client_id", "secret_file", "ca"];

/// Keys of `[transfer]` that make sense only where the service runs elsewhere.
const TRANSFER_EXTERNAL: [&str; 5] = ["ca", "audience", "token_file", "certificate", "key"];

/// Keys of `[catalog]` that make sense only where the catalogue runs elsewhere.
const CATALOG_EXTERNAL: [&str; 11] = [
    "auth_url",
    "ca",
    "account",
    "scope",
    "user",
    "password_file",
    "certificate",
    "key",
    "audience",
    "token_scope",
    "token_file",
];

/// The scope of everything that a challenge adds to a catalogue, unless the grid file names another.
const SCOPE: &str = "weir-challenge";

/// The scope of tokens for a catalogue that runs elsewhere, unless the grid file names another. Weir's goes by the subject of a token alone.
const TOKEN_SCOPE: &str = "fts";

/// Reads `[issuer]`.
pub(super) fn issuer(table: &Section<'_>) -> Option<GridIssuer> {
    if !table.has("url") {
        refuse_external(table, &ISSUER_EXTERNAL, "an issuer that runs elsewhere");
        return embedded_issuer(table).map(GridIssuer::Embedded);
    }
    let own = ["listen", "host", "token_lifetime", "answer_delay"];
    for key in own.into_iter().filter(|key| table.has(key)) {
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

fn embedded_issuer(table: &Section<'_>) -> Option<EmbeddedIssuer> {
    let within = |least: u64, most: u64| {
        move |time: &Duration| {
            if (Duration::from_secs(least)..=Duration::from_secs(most)).contains(time) {
                return Ok(());
            }
            let [least, most] = [least, most].map(|seconds| duration::format(Duration::from_secs(seconds)));
            let remedy = format!("write a time from \"{least}\" to \"{most}\"");
            Err(Refusal::new("is out of bounds", remedy))
        }
    };
    let usual = EmbeddedIssuer::default();
    let lifetime = table.checked("token_lifetime", within(10, 86_400));
    let delay = table.checked("answer_delay", within(0, 60));
    Some(EmbeddedIssuer {
        place: place::read(table).ok()?,
        token_lifetime: lifetime.unwrap_or(usual.token_lifetime),
        answer_delay: delay.unwrap_or(usual.answer_delay),
    })
}

/// Reads the keys of `[transfer]` that are not limits.
pub(super) fn transfer(table: &Section<'_>) -> Result<Option<ExternalTransfer>, Wrong> {
    if !table.has("url") {
        refuse_external(table, &TRANSFER_EXTERNAL, "a transfer service that runs elsewhere");
        return Ok(None);
    }
    let (ca, token_file) = (table.file("ca"), table.file("token_file"));
    let audience = table.optional("audience");
    let is_certified = table.has("certificate") || table.has("key");
    for key in ["token_file", "audience"]
        .into_iter()
        .filter(|key| is_certified && table.has(key))
    {
        let message = "is for a service that is shown a token, and this one is shown a certificate";
        table.refuse(key, Refusal::new(message, "keep certificate, or the keys of a token"));
    }
    let certificate = if is_certified {
        Some(certificate(table).ok_or(Wrong)?)
    } else {
        None
    };
    let url = table
        .checked("url", |url: &String| url::https(url).map(drop))
        .ok_or(Wrong)?;
    let url = url.trim_end_matches('/').to_owned();
    Ok(Some(ExternalTransfer {
        audience: audience.unwrap_or_else(|| url.clone()),
        url,
        ca,
        token_file,
        certificate,
    }))
}

/// Reads `[catalog]`.
pub(super) fn catalog(table: &Section<'_>) -> Option<GridCatalog> {
    let defaults = GridCatalog::default();
    if !table.has("url") {
        refuse_external(table, &CATALOG_EXTERNAL, "a catalogue that runs elsewhere");
        return Some(GridCatalog {
            poll: table.checked("poll", fits).unwrap_or(defaults.poll),
            ..defaults
        });
    }
    if table.has("poll") {
        let message = "is for the grid's own catalogue";
        table.refuse("poll", Refusal::new(message, "remove this key, or remove url"));
    }
    if !table.has("account") {
        table.miss("account", "add account (text), the owner of the rules");
    }
    let https = |key| table.checked(key, |url: &String| url::https(url).map(drop));
    let (url, auth_url, ca) = (https("url"), https("auth_url"), table.file("ca"));
    let named = |account: &String| {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if (1..=25).contains(&account.len()) && account.chars().all(fits) {
            return Ok(());
        }
        let remedy = "write 1 to 25 letters, digits, \"-\", \"_\" or \".\"";
        Err(Refusal::new("is not the name of an account", remedy))
    };
    let account = table.checked("account", named);
    let scope = |scope: &String| match scope.parse::<Scope>() {
        Ok(_) => Ok(()),
        Err(error) => Err(Refusal::new(error.to_string(), "write such as \"user.jdoe\"")),
    };
    let scope = table.checked("scope", scope).unwrap_or_else(|| SCOPE.to_owned());
    let url = url.map(|url| url.trim_end_matches('/').to_owned());
    let login = login(table, url.as_deref());
    let (url, account) = (url?, account?);
    let service = ExternalCatalog {
        auth_url: auth_url.map_or_else(|| url.clone(), |url| url.trim_end_matches('/').to_owned()),
        url,
        ca,
        account,
        scope: scope.parse().ok()?,
        login: login?,
    };
    Some(GridCatalog {
        service: Some(service),
        ..defaults
    })
}

fn fits(poll: &Duration) -> Result<(), Refusal> {
    if (Duration::from_millis(10)..=Duration::from_secs(3600)).contains(poll) {
        return Ok(());
    }
    let remedy = "write a time from \"10 ms\" to \"1 h\"";
    Err(Refusal::new("is too short or too long", remedy))
}

/// How the catalogue with this URL lets challenges in: by one of the ways that the keys tell.
fn login(table: &Section<'_>, url: Option<&str>) -> Option<CatalogLogin> {
    let by_password = table.has("user") || table.has("password_file");
    let by_certificate = table.has("certificate") || table.has("key");
    let by_token = ["token_file", "audience", "token_scope"]
        .iter()
        .any(|key| table.has(key));
    let last = [
        ("token_file", by_token),
        ("certificate", by_certificate),
        ("user", by_password),
    ];
    let ways: Vec<&str> = last
        .into_iter()
        .filter(|(_, is_there)| *is_there)
        .map(|(key, _)| key)
        .collect();
    if let [first, _, ..] = ways[..] {
        let message = "is one of several ways to log in";
        table.refuse(
            first,
            Refusal::new(message, "keep the keys of one: a password, a certificate, or a token"),
        );
        return None;
    }
    if by_password {
        for (key, what) in [("user", "text"), ("password_file", "path")] {
            if !table.has(key) {
                table.miss(key, format!("add {key} ({what})"));
            }
        }
        let (user, password_file) = (table.optional("user"), table.file("password_file"));
        return Some(CatalogLogin::Password {
            user: user?,
            password_file: password_file?,
        });
    }
    if by_certificate {
        return certificate(table).map(CatalogLogin::Certificate);
    }
    let (audience, token_file) = (table.optional("audience"), table.file("token_file"));
    let scope = table.optional("token_scope");
    Some(CatalogLogin::Token {
        audience: audience.or_else(|| url.map(str::to_owned))?,
        scope: scope.unwrap_or_else(|| TOKEN_SCOPE.to_owned()),
        token_file,
    })
}

/// Reads `certificate` and `key`, which may be one file.
fn certificate(table: &Section<'_>) -> Option<ClientCertificate> {
    if !table.has("certificate") {
        table.miss("certificate", "add certificate (path)");
    }
    let (certificate, key) = (table.file("certificate"), table.file("key"));
    let certificate = certificate?;
    let key = if table.has("key") { key? } else { certificate.clone() };
    Some(ClientCertificate { certificate, key })
}

fn refuse_external(table: &Section<'_>, keys: &[&str], of: &str) {
    for key in keys.iter().filter(|key| table.has(key)) {
        table.refuse(key, Refusal::new(format!("is for {of}"), "add url, or remove this key"));
    }
}
