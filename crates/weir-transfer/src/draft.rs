//! A submission on its way from the door to the store.

use std::collections::BTreeMap;

use weir_auth::Secret;
use weir_executor::job::{NewFile, NewJob, TokenHash};

/// A submission that passed the door.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The job.
    pub job: NewJob,
    /// Its files, in order; at least one. Their `id` is not set yet.
    pub files: Vec<NewFile>,
    /// Every token the files name, each once.
    pub tokens: BTreeMap<TokenHash, Secret>,
    /// The storage elements of its files, each once.
    pub storages: Vec<String>,
    /// The links that they use, each once.
    pub links: Vec<(String, String)>,
    /// Whether the id was made from the client's `sid`: only then can it exist already.
    pub deterministic: bool,
}

impl Draft {
    /// Whether a file is to be moved with the proxy that the user delegated.
    pub fn needs_proxy(&self) -> bool {
        let lacks = |file: &NewFile| file.source_token.is_none() || file.destination_token.is_none();
        self.job.params.certificate && self.files.iter().any(lacks)
    }
}
