//! The routes of the configuration.

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use super::{global, groups, links, machine, shares, storages};
use crate::state::Door;

/// The paths below `/config`.
pub(crate) fn routes() -> Router<Arc<Door>> {
    Router::new()
        .route("/config", get(machine::hosts))
        .route("/config/audit", get(machine::audit))
        .route("/config/drain", post(machine::drain))
        .route("/config/authorize", get(machine::administrators))
        .route("/config/links", get(links::all).post(links::set))
        .route("/config/links/{name}", get(links::one).delete(links::forget))
        .route(
            "/config/se",
            get(storages::all).post(storages::set).delete(storages::forget),
        )
        .route(
            "/config/global",
            get(global::all).post(global::set).delete(global::forget),
        )
        .route(
            "/config/shares",
            get(shares::all).post(shares::set).delete(shares::forget),
        )
        .route(
            "/config/activity_shares",
            get(shares::activities).post(shares::set_activities),
        )
        .route(
            "/config/activity_shares/{vo}",
            get(shares::activities_of).delete(shares::forget_activities),
        )
        .route("/config/weir/groups", get(groups::all).post(groups::set))
        .route("/config/weir/groups/{name}", get(groups::one).delete(groups::forget))
}
