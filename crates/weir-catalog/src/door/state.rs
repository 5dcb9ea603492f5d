//! The state that the requests of the door share.

use std::sync::Arc;

use tokio::sync::{Notify, Semaphore};
use weir_auth::Secret;
use weir_database::Database;

use crate::{logins::Logins, requests::uid::Tag, transfers::ServiceStates};

/// The state that requests share.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) database: Database,
    pub(crate) logins: Semaphore,
    pub(crate) tasks: Tasks,
    pub(crate) by: Logins,
}

/// The door's view of the catalogue's tasks.
#[derive(Debug, Clone)]
pub struct Tasks {
    /// Told when rules are to be evaluated.
    pub evaluator: Arc<Notify>,
    /// Told when jobs are to be asked for.
    pub transfers: Arc<Notify>,
    /// The token of webhooks, if they are heard.
    pub webhook: Option<Secret>,
    /// The catalogue's part of the ids of requests.
    pub tag: Tag,
    /// How the transfer services stand.
    pub services: ServiceStates,
    /// Requests that they may have.
    pub in_flight: usize,
}

pub(super) type State = axum::extract::State<Arc<Door>>;
