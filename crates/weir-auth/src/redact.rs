//! Removal of secrets from texts before they reach a log, an error or a person.
//!
//! Five shapes are recognised in a text: JWTs (whole or cut off), credentials after `Bearer` and `Basic`,
//! everything after `Authorization:`, values of secret parameters (`authz=`, `access_token=`, …), and PEM keys. The
//! text around them stays, so that an error is still worth reading.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::secret::MASK;

/// Parameters and JSON members whose values are secrets; compared without regard to case.
const NAMES: [&str; 14] = [
    "authz",
    "access_token",
    "refresh_token",
    "id_token",
    "subject_token",
    "actor_token",
    "client_secret",
    "client_assertion",
    "assertion",
    "password",
    "passwd",
    "macaroon",
    "bearer_token",
    "authorization",
];

/// Schemes of the `Authorization` header that carry a credential.
const SCHEMES: [&str; 2] = ["bearer", "basic"];

/// Fewest characters after `{"`'s encoding that are taken for a cut-off JWT.
const JWT_MIN: usize = 12;

/// The same text without the secrets in it; each is replaced by `***`.
///
/// One pass, cost linear in the text. Errs on the side of taking away: a long random word after `Bearer` goes even if it was
/// none of ours.
pub fn redact(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    // The text between `kept` and `at` holds no secret, and is copied when one is found. Secrets and their names begin
    // with ASCII, so that looking at single bytes never stops within a character.
    let (mut kept, mut at) = (0, 0);
    while at < text.len() {
        match secret_at(text, at) {
            Some((start, end)) => {
                clean.push_str(&text[kept..start]);
                clean.push_str(MASK);
                (kept, at) = (end, end);
            }
            None => at += 1,
        }
    }
    clean.push_str(&text[kept..]);
    clean
}

/// The range of the secret that begins, or whose name begins, at this very place.
fn secret_at(text: &str, at: usize) -> Option<(usize, usize)> {
    let first = text.as_bytes()[at].to_ascii_lowercase();
    let begins = |name: &&str| name.as_bytes()[0] == first;
    match first {
        b'-' => private_key(&text[at..]).map(|length| (at, at + length)),
        b'e' => jwt(&text[at..]).map(|length| (at, at + length)),
        b'a' | b'b' | b'c' | b'i' | b'm' | b'p' | b'r' | b's' => {
            let scheme = SCHEMES
                .into_iter()
                .filter(begins)
                .find_map(|scheme| after_scheme(text, at, scheme));
            scheme.or_else(|| {
                NAMES
                    .into_iter()
                    .filter(begins)
                    .find_map(|name| after_name(text, at, name))
            })
        }
        _ => None,
    }
}

/// Length of a PEM block with a private key: to its end line, or to the end of the text if that was cut off.
fn private_key(rest: &str) -> Option<usize> {
    let label = rest.strip_prefix("-----BEGIN ")?;
    let label = &label[..label.find("-----")?];
    if !label.ends_with("PRIVATE KEY") || label.len() > 40 {
        return None;
    }
    let end = format!("-----END {label}-----");
    Some(rest.find(&end).map_or(rest.len(), |start| start + end.len()))
}

/// Length of a run that begins like the base64url of a JSON object: a JWT, whole or cut off.
fn jwt(rest: &str) -> Option<usize> {
    // Three bytes show an opening brace and its successor: a quote, or white space of pretty-printed JSON. This check
    // comes first, so that a long run is measured once and not from each of its letters.
    let first = URL_SAFE_NO_PAD.decode(rest.get(..4)?).ok()?;
    if first[0] != b'{' || !(first[1] == b'"' || first[1].is_ascii_whitespace()) {
        return None;
    }
    Some(token_run(rest)).filter(|run| *run >= JWT_MIN)
}

/// Range of the credential after a scheme and blanks.
fn after_scheme(text: &str, at: usize, scheme: &str) -> Option<(usize, usize)> {
    let rest = &text[at..];
    if !starts_with_ignoring_case(rest, scheme) {
        return None;
    }
    let gap = blank(&rest[scheme.len()..]);
    if gap == 0 {
        return None;
    }
    let start = at + scheme.len() + gap;
    let run = token_run(&text[start..]);
    let said = &text[start..start + run];
    let is_challenge = PARAMETERS.contains(&said) && text[start + run..].starts_with('"');
    (run > 0 && !is_word(said) && !is_challenge).then_some((start, start + run))
}

/// Parameters that may follow a scheme where a server requests a credential (RFC 6750 section 3): they describe the
/// last error.
const PARAMETERS: [&str; 5] = ["realm=", "scope=", "error=", "error_description=", "error_uri="];

/// Range of the value after a name and `=` or `:`, quoted or not.
fn after_name(text: &str, at: usize, name: &str) -> Option<(usize, usize)> {
    if !starts_with_ignoring_case(&text[at..], name) {
        return None;
    }
    let mut start = at + name.len();
    // The quote that ends a JSON member's name, itself escaped where JSON lies within JSON.
    start += text[start..].bytes().take_while(|byte| b"\"'\\".contains(byte)).count();
    start += blank(&text[start..]);
    if !matches!(text.as_bytes().get(start), Some(b'=' | b':')) {
        return None;
    }
    // `/etc/passwd: No such file`: a file of that name, and its error.
    if text[..at].ends_with('/') && text[start..].starts_with(": ") {
        return None;
    }
    start += 1;
    start += blank(&text[start..]);
    start += text[start..].bytes().take_while(|byte| b"\"'\\".contains(byte)).count();
    // A scheme stays readable: `Authorization: Bearer ***`.
    for scheme in SCHEMES {
        if starts_with_ignoring_case(&text[start..], scheme) {
            start += scheme.len();
            start += blank(&text[start..]);
        }
    }
    let end = start + text[start..].find(ends_value).unwrap_or(text.len() - start);
    let said = text[start..end].trim_end_matches(['.', ':']);
    (end > start && said != MASK).then_some((start, end))
}

fn ends_value(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '&' | '"' | '\'' | '`' | '\\' | '<' | '>' | ',' | ';' | ')' | ']' | '}' | '#'
        )
}

/// Blanks, also as URLs encode them.
fn blank(text: &str) -> usize {
    let mut length = 0;
    loop {
        let rest = &text[length..];
        if rest.starts_with([' ', '\t', '+']) {
            length += 1;
        } else if rest.starts_with("%20") {
            length += 3;
        } else {
            return length;
        }
    }
}

/// Length of the run of characters that tokens are made of (RFC 6750 `b64token`).
fn token_run(text: &str) -> usize {
    text.bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte))
        .count()
}

/// Whether the word after a scheme is prose, as in "bearer token" or "basic authentication".
fn is_word(run: &str) -> bool {
    let word = run.trim_end_matches('.');
    word.len() <= 16 && word.bytes().all(|byte| byte.is_ascii_lowercase())
}

fn starts_with_ignoring_case(text: &str, prefix: &str) -> bool {
    text.as_bytes()
        .get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(input: &str, expected: &str) {
        assert_eq!(redact(input), expected, "{input}");
    }

    #[test]
    fn each_shape_is_taken_out_and_the_rest_stays() {
        // A secret would stand in a log, or an error would be unreadable.
        check("nothing here", "nothing here");
        check("Authorization: Bearer abc.DEF-123", "Authorization: Bearer ***");
        check(
            r#"WWW-Authenticate: Bearer error="invalid_token""#,
            r#"WWW-Authenticate: Bearer error="invalid_token""#,
        );
        check(r#"{"h":"Bearer YWJjZA=="}"#, r#"{"h":"Bearer ***"}"#);
        check("authorization: basic dXNlcjpwYXNz", "authorization: basic ***");
        check(
            "TransferHeaderAuthorization: Bearer XYZ987 x",
            "TransferHeaderAuthorization: Bearer *** x",
        );
        check("Authorization: 0a1b2c", "Authorization: ***");
        check(
            "sent `Authorization: Bearer abc.DEF-123`",
            "sent `Authorization: Bearer ***`",
        );
        check(
            "GET /f?authz=Bearer%20MDAxY2xvY2F0&x=1 failed",
            "GET /f?authz=Bearer%20***&x=1 failed",
        );
        check("/f?a=b&access_token=s3cr3t#top", "/f?a=b&access_token=***#top");
        check(
            r#"{"access_token": "s3cr3t", "expires_in": 60}"#,
            r#"{"access_token": "***", "expires_in": 60}"#,
        );
        check(r#"{\"client_secret\":\"s3cr3t\"}"#, r#"{\"client_secret\":\"***\"}"#);
        check(
            "token eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJ4In0.c2ln is bad",
            "token *** is bad",
        );
        check("cut eyJhbGciOiJFUzI1NiIsImtp", "cut ***");
        check(
            "key -----BEGIN EC PRIVATE KEY-----\nAAA\n-----END EC PRIVATE KEY----- end",
            "key *** end",
        );
        check("-----BEGIN PRIVATE KEY-----\nAAAA", "***");
        check("-----BEGIN CERTIFICATE-----\nAAAA", "-----BEGIN CERTIFICATE-----\nAAAA");
    }

    #[test]
    fn prose_about_tokens_stays_readable() {
        // Errors about tokens would lose the words that explain them.
        for text in [
            "the request carries no bearer token",
            "bearer authentication is required.",
            "basic authentication",
            "no access_token in the answer",
            "the token's issuer https://issuer.example:8443/ is not trusted here",
            "storage.read:/eyJ",
            "could not open /etc/passwd: No such file or directory",
            "/run/secrets/client_secret: permission denied",
            "send `Authorization: Bearer ***`, or `Authorization: Bearer ***.",
            "Grüße, Bärer überall",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn every_name_is_looked_for() {
        // If the first letter of a name were skipped, its secret would pass.
        for name in NAMES {
            check(&format!("x {name}=s3cr3t y"), &format!("x {name}=*** y"));
            check(
                &format!("{}: s3cr3t", name.to_uppercase()),
                &format!("{}: ***", name.to_uppercase()),
            );
        }
        for scheme in SCHEMES {
            check(&format!("{scheme} S3cr3t"), &format!("{scheme} ***"));
        }
    }

    #[test]
    fn redacting_twice_changes_nothing() {
        // A text that passes two doors would be mangled.
        let once = redact("Authorization: Bearer abc123 authz=xyz9 access_token=\"q\"");
        assert_eq!(redact(&once), once);
    }

    fn jwt_parts() -> impl Strategy<Value = (String, String, String)> {
        let json = |bytes: Vec<u8>| URL_SAFE_NO_PAD.encode([&b"{\""[..], &bytes].concat());
        (
            prop::collection::vec(any::<u8>(), 8..40).prop_map(json),
            prop::collection::vec(any::<u8>(), 8..200).prop_map(json),
            prop::collection::vec(any::<u8>(), 32..70).prop_map(|bytes| URL_SAFE_NO_PAD.encode(bytes)),
        )
    }

    proptest! {
        #[test]
        fn no_jwt_survives_in_any_text(before in ".{0,60}", after in ".{0,60}", (header, payload, signature) in jwt_parts()) {
            // A token in an unforeseen place would reach a log.
            let clean = redact(&format!("{before}{header}.{payload}.{signature}{after}"));
            prop_assert!(!clean.contains(&signature), "{clean}");
            prop_assert!(!clean.contains(&payload), "{clean}");
            prop_assert!(!clean.contains(&header), "{clean}");
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            // A strange byte in an error would take the service down.
            redact(&text);
        }

        #[test]
        fn tokens_in_known_places_never_survive(
            place in prop::sample::select(vec!["authz=", "&access_token=", "Bearer ", "bearer%20", "Authorization: ", "\"refresh_token\":\""]),
            token in "[A-Za-z0-9_~/-]{17,80}",
            before in "[ -~]{0,40}",
        ) {
            // An opaque token (a macaroon, a SciToken of another make) would reach a log.
            let clean = redact(&format!("{before} {place}{token}"));
            prop_assert!(!clean.contains(&token), "{clean}");
        }
    }
}
