//! The user of a submission, and its limits.

use uuid::Uuid;
use weir_auth::Secret;

/// The namespace of deterministic ids, the same in every FTS3.
pub(crate) const BASE_ID: Uuid = Uuid::from_u128(0x0187_4efb_4735_4595_bc9c_591a_ef82_40c9);

/// The submitter.
#[derive(Debug, Clone)]
pub(crate) struct Submitter {
    /// The token's subject.
    pub user_dn: String,
    /// FTS3's delegation id.
    pub cred_id: String,
    /// The VO.
    pub vo: String,
    /// The API token: used for files that bring none of their own. None: the user came with a certificate, and delegates.
    pub token: Option<Secret>,
}

/// Limits of a submission.
#[derive(Debug, Clone)]
pub(crate) struct SubmissionLimits {
    /// Files in one job.
    pub files: usize,
    /// Links that they may use.
    pub links: usize,
    /// Whether `http` and `dav` URLs are taken.
    pub plain_http: bool,
    /// Largest `job_metadata`, in bytes of JSON. FTS3: 2048.
    pub job_metadata: usize,
    /// Largest file `metadata`. FTS3: 4096.
    pub file_metadata: usize,
    /// Largest `staging_metadata` and `archive_metadata`. FTS3: 1024.
    pub other_metadata: usize,
}

impl Default for SubmissionLimits {
    fn default() -> Self {
        Self {
            files: 50_000,
            links: 2_000,
            plain_http: false,
            job_metadata: 2048,
            file_metadata: 4096,
            other_metadata: 1024,
        }
    }
}
