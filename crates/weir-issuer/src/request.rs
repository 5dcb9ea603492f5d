//! A request for a token: client and wanted rights (RFC 6749 sections 2.3.1, 3.2 and 4.4, RFC 8707 for the audience).
//!
//! The parsers take data off the wire and never panic.

use base64::Engine as _;
use http::{HeaderMap, StatusCode, header};
use weir_auth::{Scope, Secret};
use weir_http::form;

use crate::config::is_scope_text;

/// Most audiences of one token.
const AUDIENCES_MAX: usize = 32;

/// Why there is no token: status, error code of RFC 6749 section 5.2 and a sentence for the client's user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// 400, 401, 413 or 429.
    pub status: StatusCode,
    /// `invalid_scope` and the like.
    pub error: &'static str,
    /// For the person behind the client; holds no secret.
    pub description: String,
}

impl Refusal {
    pub(crate) fn bad(error: &'static str, description: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            error,
            description: description.into(),
        }
    }

    /// One answer for an unknown client and for a wrong secret, so that ids cannot be found out.
    pub(crate) fn client() -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            error: "invalid_client",
            description: "the client is not known, or its secret is wrong".to_owned(),
        }
    }
}

/// A client's claimed identity and secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// `client_id`.
    pub id: String,
    /// The secret, in each way that the text can be read: clients differ in whether they encode it.
    pub secrets: Vec<Secret>,
}

/// The basis of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Basis {
    /// The client's own rights: RFC 6749 section 4.4.
    Client,
    /// A token of another user: RFC 8693.
    Exchange {
        /// The token.
        subject: Secret,
        /// Whether a refresh token is asked for as well.
        refresh: bool,
    },
    /// A refresh token that the client got by exchange: RFC 6749 section 6.
    Refresh(Secret),
}

/// The content of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRequest {
    /// The basis of the token.
    pub basis: Basis,
    /// The client, in each way that the header can be read. Never empty.
    pub credentials: Vec<Credentials>,
    /// In their order, none twice; may be empty.
    pub scopes: Vec<Scope>,
    /// Empty: the client's default.
    pub audiences: Vec<String>,
    /// Whether the resulting token is to be renewable: `offline_access` is no right of an exchanged token by itself.
    pub offline: bool,
}

/// Parses a request's headers and body. Never panics, whatever their content.
///
/// # Errors
/// [`Refusal`], to be sent as it is.
pub fn read(headers: &HeaderMap, body: &[u8]) -> Result<TokenRequest, Refusal> {
    let form_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|value| value.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded"));
    if !form_type {
        return Err(Refusal::bad(
            "invalid_request",
            "the body must be application/x-www-form-urlencoded",
        ));
    }
    let form = Form::parse(body)?;
    let credentials = credentials(headers, &form)?;
    let mut scopes = scopes(&form)?;
    let named = scopes.len();
    let grant_type = form.single("grant_type")?;
    if grant_type != Some("client_credentials") {
        // It asks for a refresh token; a client's own token has it as a scope, if the client may have that.
        scopes.retain(|scope| !matches!(scope, Scope::Other(text) if text == OFFLINE));
    }
    let offline = scopes.len() < named;
    let basis = match grant_type {
        Some("client_credentials") => Basis::Client,
        Some("refresh_token") => Basis::Refresh(token(&form, "refresh_token")?),
        Some(EXCHANGE) => exchange(&form, offline)?,
        Some(_) => {
            return Err(Refusal::bad(
                "unsupported_grant_type",
                "only client_credentials, refresh_token and token exchange are offered",
            ));
        }
        None => return Err(Refusal::bad("invalid_request", "grant_type is missing")),
    };
    Ok(TokenRequest {
        basis,
        credentials,
        scopes,
        audiences: audiences(&form)?,
        offline,
    })
}

/// RFC 8693 section 2.1.
pub(crate) const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// RFC 8693 section 3.
pub(crate) const ACCESS: &str = "urn:ietf:params:oauth:token-type:access_token";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
/// RFC 8693 section 3.
const REFRESH: &str = "urn:ietf:params:oauth:token-type:refresh_token";
/// OpenID Connect Core 1.0 section 11.
pub(crate) const OFFLINE: &str = "offline_access";

fn token(form: &Form, name: &'static str) -> Result<Secret, Refusal> {
    let text = form.single(name)?.filter(|text| !text.is_empty());
    text.map(Secret::new)
        .ok_or_else(|| Refusal::bad("invalid_request", format!("{name} is missing")))
}

fn exchange(form: &Form, offline: bool) -> Result<Basis, Refusal> {
    if !matches!(form.single("subject_token_type")?, Some(ACCESS | JWT)) {
        return Err(Refusal::bad("invalid_request", "only access tokens are exchanged"));
    }
    if form.single("actor_token")?.is_some() {
        return Err(Refusal::bad("invalid_request", "actor_token is not supported"));
    }
    let wanted = match form.single("requested_token_type")? {
        None | Some(ACCESS | JWT) => false,
        Some(REFRESH) => true,
        Some(_) => {
            return Err(Refusal::bad(
                "invalid_request",
                "tokens of the requested type are not issued",
            ));
        }
    };
    Ok(Basis::Exchange {
        subject: token(form, "subject_token")?,
        refresh: wanted || offline,
    })
}

fn scopes(form: &Form) -> Result<Vec<Scope>, Refusal> {
    let mut scopes = Vec::new();
    for text in form
        .single("scope")?
        .unwrap_or_default()
        .split(' ')
        .filter(|text| !text.is_empty())
    {
        if !is_scope_text(text) {
            return Err(Refusal::bad(
                "invalid_scope",
                "a scope holds a character that none may hold",
            ));
        }
        let scope = Scope::parse(text).map_err(|error| Refusal::bad("invalid_scope", error.to_string()))?;
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    Ok(scopes)
}

/// `audience` as issuers of the field take it (repeated, or separated by blanks), `resource` as RFC 8707 has it.
fn audiences(form: &Form) -> Result<Vec<String>, Refusal> {
    let mut audiences: Vec<String> = Vec::new();
    let named = form
        .all("audience")
        .flat_map(|value| value.split(' '))
        .filter(|value| !value.is_empty());
    for audience in named.chain(form.all("resource")) {
        if !is_scope_text(audience) {
            return Err(Refusal::bad(
                "invalid_target",
                "an audience holds a blank, a quote or no character at all",
            ));
        }
        if !audiences.iter().any(|known| known == audience) {
            audiences.push(audience.to_owned());
        }
    }
    if audiences.len() > AUDIENCES_MAX {
        return Err(Refusal::bad(
            "invalid_target",
            format!("more than {AUDIENCES_MAX} audiences"),
        ));
    }
    Ok(audiences)
}

/// From the `Authorization` header or the form, not from both.
fn credentials(headers: &HeaderMap, form: &Form) -> Result<Vec<Credentials>, Refusal> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (id, secret) = (form.single("client_id")?, form.single("client_secret")?);
    match (values.next(), values.next(), secret) {
        (Some(value), None, None) => {
            let all = value.to_str().ok().and_then(basic).ok_or_else(Refusal::client)?;
            // RFC 6749 section 3.2.1 lets the form repeat the client's id.
            match id {
                Some(id) if all.iter().all(|credentials| credentials.id != id) => Err(Refusal::client()),
                _ => Ok(all),
            }
        }
        (None, None, Some(secret)) => {
            let id = id.ok_or_else(Refusal::client)?;
            Ok(vec![Credentials {
                id: id.to_owned(),
                secrets: vec![Secret::new(secret)],
            }])
        }
        (None, None, None) => Err(Refusal::client()),
        _ => Err(Refusal::bad(
            "invalid_request",
            "the client authenticates in more than one way",
        )),
    }
}

/// Reads HTTP Basic. RFC 6749 wants both parts form-encoded, many clients send them plain: both readings are given.
fn basic(value: &str) -> Option<Vec<Credentials>> {
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = base64::engine::general_purpose::STANDARD.decode(encoded.trim()).ok()?;
    let pair = Secret::new(String::from_utf8(decoded).ok()?);
    let (id, secret) = pair.expose().split_once(':')?;
    let mut all = vec![Credentials {
        id: id.to_owned(),
        secrets: vec![Secret::new(secret)],
    }];
    if let (Ok(plain_id), Ok(plain_secret)) = (form::decode(id.as_bytes()), form::decode(secret.as_bytes())) {
        if plain_id == id {
            all[0].secrets.push(Secret::new(plain_secret));
        } else {
            all.push(Credentials {
                id: plain_id,
                secrets: vec![Secret::new(plain_secret)],
            });
        }
    }
    Some(all)
}

/// The fields of a form, in their order.
#[derive(Debug)]
pub(crate) struct Form(Vec<(String, Secret)>);

impl Form {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let fields = form::read(body).map_err(|error| Refusal::bad("invalid_request", error.to_string()))?;
        let secret = |(name, value): (String, String)| (name, Secret::new(value));
        Ok(Self(fields.into_iter().map(secret).collect()))
    }

    fn all<'a>(&'a self, name: &'static str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(known, _)| known == name)
            .map(|(_, value)| value.expose())
    }

    /// RFC 6749 section 3.2: parameters must not be given more than once.
    fn single(&self, name: &'static str) -> Result<Option<&str>, Refusal> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (value, None) => Ok(value),
            _ => Err(Refusal::bad("invalid_request", format!("{name} is given twice"))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a panic is how a test fails

    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    const FORM: &str = "application/x-www-form-urlencoded";

    fn headers(authorization: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, FORM.parse().unwrap());
        if let Some(value) = authorization {
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        }
        headers
    }

    fn basic_header(pair: &str) -> String {
        format!("Basic {}", STANDARD.encode(pair))
    }

    fn fails(authorization: Option<&str>, body: &str, error: &str) {
        assert_eq!(
            read(&headers(authorization), body.as_bytes()).unwrap_err().error,
            error,
            "{body}"
        );
    }

    #[test]
    fn both_ways_to_authenticate_are_read() {
        // Clients of the field use either; some encode the secret, some do not.
        let body = "grant_type=client_credentials&scope=storage.read%3A%2Fa+fts&audience=https%3A%2F%2Fs";
        let request = read(&headers(Some(&basic_header("id:a+b%2F"))), body.as_bytes()).unwrap();
        assert_eq!(request.credentials[0].id, "id");
        let secrets: Vec<_> = request.credentials[0].secrets.iter().map(Secret::expose).collect();
        assert_eq!(secrets, ["a+b%2F", "a b/"]);
        assert_eq!(
            request.scopes.iter().map(Scope::to_string).collect::<Vec<_>>(),
            ["storage.read:/a", "fts"]
        );
        assert_eq!(request.audiences, ["https://s"]);
        let request = read(
            &headers(None),
            format!("{body}&client_id=id&client_secret=a%2Bb").as_bytes(),
        )
        .unwrap();
        assert_eq!(request.credentials[0].secrets[0].expose(), "a+b");
    }

    #[test]
    fn every_way_to_name_an_audience_is_read_once() {
        // A token would be for another service than the requested one.
        let body = "grant_type=client_credentials&audience=https://a+https://b&audience=https://b&resource=https://c";
        let request = read(&headers(Some(&basic_header("a:b"))), body.as_bytes()).unwrap();
        assert_eq!(request.audiences, ["https://a", "https://b", "https://c"]);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(value in "[ -~]{0,60}", text in "[a-z_&=%+:/.0-9A-F]{0,80}", bytes in any::<Vec<u8>>()) {
            // A strange request would take the issuer down.
            let plain = headers(Some(&value));
            let good = headers(Some(&basic_header(&value)));
            for body in [text.as_bytes(), &bytes, format!("grant_type=client_credentials&scope={text}").as_bytes()] {
                let _ = (read(&plain, body), read(&good, body));
            }
        }
    }

    #[test]
    fn malformed_requests_are_refused_by_the_right_code() {
        // Clients decide by the code whether to ask again, differently, or not at all.
        let good = basic_header("a:b");
        let good = Some(good.as_str());
        fails(None, "grant_type=client_credentials", "invalid_client");
        fails(Some("Bearer abc"), "grant_type=client_credentials", "invalid_client");
        fails(Some("Basic !"), "grant_type=client_credentials", "invalid_client");
        fails(good, "", "invalid_request");
        fails(good, "grant_type=password", "unsupported_grant_type");
        fails(
            good,
            "grant_type=client_credentials&grant_type=client_credentials",
            "invalid_request",
        );
        fails(
            good,
            "grant_type=client_credentials&client_id=a&client_secret=b",
            "invalid_request",
        );
        fails(good, "grant_type=client_credentials&client_id=other", "invalid_client");
        fails(good, "grant_type=client_credentials&scope=%FF", "invalid_request");
        fails(
            good,
            "grant_type=client_credentials&scope=storage.read",
            "invalid_scope",
        );
        fails(
            good,
            "grant_type=client_credentials&scope=storage.read:/a/../b",
            "invalid_scope",
        );
        fails(good, "grant_type=client_credentials&scope=a%22b", "invalid_scope");
        fails(good, "grant_type=client_credentials&resource=a%0Ab", "invalid_target");
        let mut json = headers(good);
        json.insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
        assert_eq!(read(&json, b"{}").unwrap_err().error, "invalid_request");
    }
}
