//! Orders for the executor, and the notes it leaves: traits that the service implements on its store.

use futures_util::future::BoxFuture;
use serde_json::value::RawValue;
use weir_auth::Secret;
use weir_service::time::Millis;
use weir_store::StoreError;
use weir_world::OpId;

use crate::{
    job::{Claim, File, NewJob, TokenHash},
    surl::Surl,
    timeline::Timeline,
};

/// Everything the executor needs to know of one transfer.
#[derive(Debug, Clone)]
pub struct Order {
    /// The file.
    pub file: File,
    /// Its job.
    pub job: NewJob,
    /// Opened.
    pub source_token: Option<Secret>,
    /// Opened.
    pub destination_token: Option<Secret>,
    /// The proxy that the job's user delegated, with its key, in PEM; only if the job is to use it, and it is still there.
    pub proxy: Option<Kept>,
}

/// A secret that a user left with the service for a while, sealed at rest.
#[derive(Debug, Clone)]
pub struct Kept {
    /// Its kind and owner.
    pub name: String,
    /// Opened.
    pub secret: Secret,
    /// When it is of no use any more.
    pub until: Millis,
}

/// The name under which the proxy is kept that a user delegated ([`NewJob::owner`]).
pub fn proxy_name(owner: &str) -> String {
    format!("proxy/{owner}")
}

/// A file that a storage was asked to bring online, and that was not given back since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The file.
    pub file: u64,
    /// Where it is.
    pub source: Surl,
    /// Whether the file has come to its end: the pin is to be given back.
    pub over: bool,
}

/// When a token expires that may be renewed, and when it is to be exchanged at the latest, used or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiring {
    /// `exp`.
    pub expires: Millis,
    /// Some time before: an expired token cannot be exchanged.
    pub due: Millis,
}

/// An issuer's tokens for a submitted one.
#[derive(Debug, Clone)]
pub struct Renewal {
    /// The newest access token.
    pub access: Option<Secret>,
    /// When that expires.
    pub expires: Millis,
    /// Until when it is handed out: some time before.
    pub good_until: Millis,
    /// For the next one.
    pub refresh: Option<Secret>,
}

/// The result of claiming a token's renewal.
#[derive(Debug, Clone)]
pub enum Turn {
    /// The claim is ours; with the stored tokens.
    Ours(Option<Renewal>),
    /// Another node's.
    Theirs,
}

/// A token that is to be exchanged.
#[derive(Debug, Clone)]
pub struct Due {
    /// Its name.
    pub hash: TokenHash,
    /// Opened; none if it was sealed with another key.
    pub token: Option<Secret>,
    /// Whether a file that names it has not ended, as far as was looked.
    pub needed: bool,
}

/// Where orders and secrets are kept. Calls block; the executor makes them on threads that may.
pub trait Orders: Send + Sync + 'static {
    /// The executor's data for one transfer.
    fn order(&self, file: u64) -> Result<Option<Order>, StoreError>;

    /// Files with a pin at their source.
    fn pins(&self) -> Result<Vec<Pin>, StoreError>;

    /// The secret of this name, also if its time is over.
    fn kept(&self, name: &str) -> Result<Option<Kept>, StoreError>;

    /// The issuer's tokens for a submitted one.
    fn renewal(&self, token: TokenHash) -> Result<Option<Renewal>, StoreError>;

    /// Takes the right to ask the issuer for this token, for so long by the backend's clock: of several nodes one at a time has it. It
    /// goes with [`Self::renewed`]. A backend that only one process can open always gives it.
    fn claim_renewal(&self, token: TokenHash, life: Millis) -> Result<Turn, StoreError> {
        let _ = life;
        self.renewal(token).map(Turn::Ours)
    }

    /// Stores the issuer's tokens for these submitted ones, as long as live files name them; `None`: there are none,
    /// and they are not due any more. Any node may call it, the leader or not.
    fn renewed(&self, outcomes: &[(TokenHash, Option<Renewal>)]) -> Result<(), StoreError>;

    /// Releases claims, and changes nothing else.
    fn release_renewals(&self, tokens: &[TokenHash]) -> Result<(), StoreError> {
        let _ = tokens;
        Ok(())
    }

    /// Tokens whose exchange is due, in the order of their expiry, without the first `skip` of them.
    fn due_renewals(&self, now: Millis, skip: usize, limit: usize) -> Result<Vec<Due>, StoreError>;
}

/// A note of the executor's that must outlive the process.
#[derive(Debug, Clone)]
pub enum Note {
    /// The file that attempts may have left at the destination; `None`: nothing.
    Claim {
        /// The file.
        file: u64,
        /// See [`Claim`].
        claim: Option<Claim>,
    },
    /// A storage was asked to bring files online, and named the request.
    Requested {
        /// The files.
        files: Vec<u64>,
        /// Its name.
        request: String,
    },
    /// Pins were released, or their storage is unknown.
    Unpinned {
        /// The ids of the files.
        files: Vec<u64>,
    },
    /// A report on an existing destination, in the file's metadata.
    Metadata {
        /// The file.
        file: u64,
        /// All of it.
        metadata: Box<RawValue>,
    },
}

/// Keeps notes, in their order.
pub trait Journal: Send + Sync {
    /// Soon.
    fn note(&self, note: Note);

    /// Before it returns. Whether it did: a service that goes down, or schedules no more, keeps nothing.
    fn make_durable(&self, note: Note) -> BoxFuture<'_, bool>;
}

/// Is told when attempts begin and end.
pub trait Told: Send + Sync {
    /// An attempt begins.
    fn began(&self, op: OpId, order: &Order, timeline: Timeline);

    /// An attempt is over, and this is how its time went.
    fn over(&self, op: OpId, timeline: Timeline);
}

/// Drops the report.
impl Told for () {
    fn began(&self, _: OpId, _: &Order, _: Timeline) {}

    fn over(&self, _: OpId, _: Timeline) {}
}
