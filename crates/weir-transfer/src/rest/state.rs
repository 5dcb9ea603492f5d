//! What handlers share.

use std::sync::Arc;

use crate::service::Service;

pub(super) type State = axum::extract::State<Arc<Service>>;
