//! Shared state of the handlers.

use std::{ops::Deref, sync::Arc};

use weir_http::Reloadable;
use weir_service::reload::Reloads;
use weir_transfer::service::Service;

use crate::{access::callers::Callers, jobs::submission::SubmissionLimits};

pub(crate) type State = axum::extract::State<Arc<Door>>;

/// The door of a service, and the service behind it.
pub(crate) struct Door {
    pub(crate) service: Arc<Service>,
    /// How clients write it.
    pub(crate) url: String,
    /// The accepted callers.
    pub(crate) callers: Reloadable<Callers>,
    pub(crate) submission: SubmissionLimits,
    /// Of the body of a request, in bytes.
    pub(crate) body_max: usize,
    /// Reloads by kind, and the end of the certificate.
    pub(crate) reloads: Reloads,
}

impl Deref for Door {
    type Target = Arc<Service>;

    fn deref(&self) -> &Arc<Service> {
        &self.service
    }
}
