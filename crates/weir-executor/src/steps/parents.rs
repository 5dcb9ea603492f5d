//! The directories above a destination.

use http::{HeaderMap, Method, StatusCode};
use weir_world::{
    ErrorClass, Failure, Party, Phase,
    class::{says, without_urls},
};

use crate::{
    requests::wire::{Forward, Side, send},
    steps::attempt::Attempt,
    surl::Surl,
};

/// A missing parent collection: 409 by RFC 4918 section 9.7.1, to this service or to the source that pushes. XRootD 5.5
/// says 400 or 404 with "no such file or directory".
pub(crate) fn lacks_parent(failure: &Failure) -> bool {
    let missing = failure.class == ErrorClass::NotFound && failure.party == Party::Destination;
    let is_conflict = || says(&without_urls(&failure.message), &["http 409", "409 conflict"]);
    let conflict = failure.class == ErrorClass::Overload && is_conflict();
    failure.bytes_moved.0 == 0 && (missing || conflict)
}

impl Attempt<'_> {
    /// Makes the directories above the destination, as far as that is possible; the copy then tells whether it was.
    pub(crate) async fn make_parents(&self) {
        let Ok(uri) = self.destination.uri(Phase::Preparation) else {
            return;
        };
        let path = uri.path().to_owned();
        let parents = path
            .match_indices('/')
            .map(|(at, _)| &path[..at])
            .filter(|parent| !parent.is_empty());
        let mut missing = Vec::new();
        for parent in parents.collect::<Vec<_>>().into_iter().rev() {
            match self.make(parent).await {
                Some(StatusCode::CONFLICT | StatusCode::NOT_FOUND) => missing.push(parent),
                _ => break,
            }
        }
        for parent in missing.into_iter().rev() {
            self.make(parent).await;
        }
    }

    /// The answer of the storage, or of the node to which it redirects.
    async fn make(&self, path: &str) -> Option<StatusCode> {
        let surl = Surl::parse_place(&format!("{}{path}/", self.destination.surl.endpoint())).ok()?;
        let side = Side {
            surl,
            ..self.destination.clone()
        };
        let mkcol = Method::from_bytes(b"MKCOL").expect("MKCOL is a token");
        let (request, limit) = ((mkcol, HeaderMap::new()), self.settings.response_timeout);
        let sent = send(self.client, &side, Phase::Preparation, request, Forward::Same, limit).await;
        Some(sent.ok()?.response.status())
    }
}
