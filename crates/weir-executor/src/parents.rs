//! The directories above a destination.

use http::{Method, StatusCode, Uri};
use weir_world::{ErrorClass, Failure, Party, Phase};

use super::attempt::Attempt;

/// A missing parent collection: 409 by RFC 4918 section 9.7.1; XRootD 5.5 says 400 or 404 with "no such file or directory".
pub(super) fn lacks_parent(failure: &Failure) -> bool {
    let missing = failure.class == ErrorClass::NotFound && failure.party == Party::Destination;
    let conflict = failure.class == ErrorClass::Overload && failure.message.contains("HTTP 409");
    failure.bytes_moved.0 == 0 && (missing || conflict)
}

impl Attempt<'_> {
    /// Makes the directories above the destination, as far as that is possible; the copy then tells whether it was.
    pub(super) async fn make_parents(&self) {
        let Ok(uri) = self.destination.uri(Phase::Preparation) else {
            return;
        };
        let mkcol = Method::from_bytes(b"MKCOL").expect("MKCOL is a token");
        let path = uri.path().to_owned();
        let parents = path
            .match_indices('/')
            .map(|(at, _)| &path[..at])
            .filter(|parent| !parent.is_empty());
        let mut missing = Vec::new();
        for parent in parents.collect::<Vec<_>>().into_iter().rev() {
            match self.make(&uri, parent, &mkcol).await {
                Some(StatusCode::CONFLICT | StatusCode::NOT_FOUND) => missing.push(parent),
                _ => break,
            }
        }
        for parent in missing.into_iter().rev() {
            self.make(&uri, parent, &mkcol).await;
        }
    }

    async fn make(&self, uri: &Uri, path: &str, mkcol: &Method) -> Option<StatusCode> {
        let mut request = http::Request::new(weir_http::body::empty());
        *request.method_mut() = mkcol.clone();
        *request.uri_mut() = format!("{}://{}{path}/", uri.scheme_str()?, uri.authority()?)
            .parse()
            .ok()?;
        if let Some(token) = self.destination.bearer() {
            request.headers_mut().insert(http::header::AUTHORIZATION, token);
        }
        Some(
            self.client
                .send_within(request, self.settings.response_timeout)
                .await
                .ok()?
                .status(),
        )
    }
}
