//! A storage endpoint, from the client's side.

use std::time::Duration;

use anyhow::Context;
use http::{HeaderValue, Response, StatusCode, request::Builder};
use weir_auth::Secret;
use weir_http::{Body, Client, ClientConfig, body};
use weir_units::{Algorithm, Checksum, parse_digest_header};

use crate::cli::AccessArguments;
use crate::failure::Failure;
use weir_challenge::listing::{self, Entry};

/// An answer: its head, and a body that is read as it comes.
pub(super) type StorageAnswer = Response<hyper::body::Incoming>;

/// Text of refusals that is shown.
const REFUSAL_MAX: usize = 64 << 10;

/// A listing of a million names has some 600 MB.
const LISTING_MAX: usize = 1 << 30;

/// Limit from the end of an upload to its answer: a large file may have to reach disks or tape buffers first.
pub(super) const PATIENCE: Duration = Duration::from_secs(3600);

/// Silence in the middle of an answer's body.
pub(super) const SILENCE: Duration = Duration::from_secs(120);

/// The client and credential for files.
pub(super) struct StorageClient {
    pub(super) client: Client,
    authorization: Option<HeaderValue>,
}

impl StorageClient {
    pub(super) fn open(access: &AccessArguments) -> Result<Self, Failure> {
        let roots = crate::trust::roots(access)?;
        let client = Client::new(ClientConfig::new(roots)).context("could not use the certificate authorities")?;
        let token = crate::token::look(access.token_file.as_deref())?;
        Ok(Self {
            client,
            authorization: token.as_ref().map(bearer).transpose()?,
        })
    }

    /// A request with our credential.
    pub(super) fn request(&self, method: &str, url: &str) -> Builder {
        let request = http::Request::builder().method(method).uri(url);
        match &self.authorization {
            Some(value) => request.header(http::header::AUTHORIZATION, value),
            None => request,
        }
    }

    /// One exchange, of any status.
    pub(super) async fn send(&self, url: &str, request: Builder, content: Body) -> Result<StorageAnswer, Failure> {
        let request = request.body(content).with_context(|| format!("{url} is no URL"));
        let sent = self
            .client
            .send_within(request.map_err(Failure::bad_input)?, PATIENCE)
            .await;
        Ok(sent.with_context(|| format!("could not reach the storage of {url}"))?)
    }

    /// The entries of a path and its direct members; the path itself first.
    pub(super) async fn list(&self, url: &str) -> Result<Vec<Entry>, Failure> {
        entries(url, self.propfind(url, "1").await?).await
    }

    /// The entry of a path; `None` if it does not exist.
    pub(super) async fn look(&self, url: &str) -> Result<Option<Entry>, Failure> {
        let answer = self.propfind(url, "0").await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        Ok(entries(url, answer).await?.into_iter().next())
    }

    async fn propfind(&self, url: &str, depth: &str) -> Result<StorageAnswer, Failure> {
        let request = self
            .request("PROPFIND", url)
            .header("Depth", depth)
            .header(http::header::CONTENT_TYPE, "application/xml; charset=utf-8");
        self.send(url, request, body::full(listing::WANTED)).await
    }
}

async fn entries(url: &str, answer: StorageAnswer) -> Result<Vec<Entry>, Failure> {
    let answer = expect(url, answer).await?;
    let bytes = body::read_limited(answer.into_body(), LISTING_MAX, SILENCE).await;
    let bytes = bytes.with_context(|| format!("could not read the listing of {url}"))?;
    let entries = listing::parse(&bytes).with_context(|| format!("could not read the listing of {url}"))?;
    Ok(entries)
}

/// The checksum that an answer carries.
pub(super) fn told(answer: &StorageAnswer, algorithm: Algorithm) -> Option<Checksum> {
    let header = answer.headers().get("digest")?.to_str().ok()?;
    let mut checksums = parse_digest_header(header).into_iter();
    checksums.find(|checksum| checksum.algorithm == algorithm)
}

fn bearer(token: &Secret) -> Result<HeaderValue, Failure> {
    let value = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
    let mut value = value
        .context("the token holds what no header can")
        .map_err(Failure::bad_input)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The answer, if it is a yes.
pub(super) async fn expect(url: &str, answer: StorageAnswer) -> Result<StorageAnswer, Failure> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let text = body::read_limited(answer.into_body(), REFUSAL_MAX, SILENCE)
        .await
        .unwrap_or_default();
    let text = weir_auth::peer_line(&text);
    let said = if text.is_empty() {
        String::new()
    } else {
        format!(": {text}")
    };
    let error = anyhow::anyhow!("{url}: the storage answered {}{said}", status.as_u16());
    Err(match status {
        StatusCode::UNAUTHORIZED => Failure::could_not_run(error).with_remedy(
            "get a token for this storage, and name it with --token-file, BEARER_TOKEN_FILE or BEARER_TOKEN",
        ),
        StatusCode::FORBIDDEN => Failure::could_not_run(error).with_remedy("ask for a token with the right to do this"),
        StatusCode::PRECONDITION_FAILED => Failure::bad_input(error).with_remedy("allow it with --overwrite"),
        StatusCode::NOT_FOUND | StatusCode::CONFLICT => Failure::bad_input(error),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            Failure::could_not_run(error).with_remedy("try again later")
        }
        _ => Failure::could_not_run(error),
    })
}

/// The last component of a URL's path, decoded; `None` for a directory's URL.
pub(super) fn name_of(url: &str) -> Option<String> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let (_, rest) = path.split_once("://")?;
    let (_, name) = rest.rsplit_once('/')?;
    let name = percent_encoding::percent_decode_str(name).decode_utf8().ok()?;
    let usable = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
    usable.then(|| name.into_owned())
}

#[cfg(test)]
mod tests {
    use super::name_of;

    /// A server's or user's name for a file must not lead out of its directory.
    #[test]
    fn names_are_those_of_files() {
        assert_eq!(name_of("https://h/a/b%20c?x=/y").as_deref(), Some("b c"));
        for none in [
            "https://h/a/",
            "https://h",
            "https://h/a/..",
            "https://h/a/%2e%2e",
            "https://h/a/x%2Fy",
            "f",
        ] {
            assert_eq!(name_of(none), None, "{none}");
        }
    }
}
