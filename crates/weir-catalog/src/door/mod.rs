//! The door: Rucio's REST interface. `tests/rucio/exchanges.json` holds exchanges with Rucio 41.5.1, to which its answers are compared.

mod accounts;
mod analysis;
mod answer;
mod auth;
mod body;
mod caller;
mod data;
mod dids;
mod identity;
mod keys;
mod listing;
mod loads;
mod located;
mod locks;
mod metadata;
mod order;
mod pages;
mod replicas;
mod requests;
mod rses;
mod rules;
mod search;
mod state;
mod status;
mod told;

use std::sync::Arc;

use axum::{
    Router,
    http::{Method, Uri},
    routing::{delete, get, post, put},
};
use tokio::sync::Semaphore;

use crate::logins::Logins;
use answer::{Failure, json_answer};
pub(crate) use rses::uid;
pub(crate) use state::Door;
use state::State;
pub use state::Tasks;
use weir_database::Database;

/// The version of Rucio that clients are told: they behave as to a server of theirs.
pub const RUCIO_VERSION: &str = "41.5.1";

/// Passwords that are checked at once: each costs a tenth of a second of a processor.
const LOGINS: usize = 2;

/// All that the door answers. Beside passwords it takes the identities of `by`.
pub fn router(database: Database, tasks: Tasks, by: Logins) -> Router {
    let door = Arc::new(Door {
        database,
        logins: Semaphore::new(LOGINS),
        tasks,
        by,
    });
    Router::new()
        .route("/ping", get(ping))
        .merge(of_auth())
        .merge(of_accounts())
        .merge(of_rses())
        .merge(of_data())
        .merge(of_rules())
        .merge(of_loads())
        .route_layer(axum::middleware::from_fn(keys::check))
        .fallback(not_built)
        .method_not_allowed_fallback(not_built)
        .with_state(door)
}

fn of_auth() -> Router<Arc<Door>> {
    Router::new()
        .route("/auth/userpass", get(auth::userpass))
        .route("/auth/x509", get(auth::certificate))
        .route("/auth/x509_proxy", get(auth::certificate))
        .route("/auth/validate", get(auth::validate))
}

/// Paths of collections end with a slash or not: the client's classes differ.
fn of_accounts() -> Router<Arc<Door>> {
    let one = get(accounts::get).post(accounts::add).put(accounts::change);
    let identities = get(accounts::identities).post(accounts::add_identity);
    let limits = post(accounts::set_limit).delete(accounts::remove_limit);
    Router::new()
        .route("/accounts", get(accounts::list))
        .route("/accounts/", get(accounts::list))
        .route("/accounts/whoami", get(accounts::whoami))
        .route("/accounts/{account}", one.delete(accounts::delete))
        .route("/accounts/{account}/attr", get(accounts::attributes))
        .route("/accounts/{account}/attr/", get(accounts::attributes))
        .route(
            "/accounts/{account}/attr/{key}",
            post(accounts::add_attribute).delete(accounts::remove_attribute),
        )
        .route(
            "/accounts/{account}/identities",
            identities.delete(accounts::remove_identity),
        )
        .route("/accounts/{account}/scopes", get(accounts::scopes))
        .route("/accounts/{account}/scopes/", get(accounts::scopes))
        .route("/accounts/{account}/scopes/{scope}", post(accounts::add_scope))
        .route("/accounts/{account}/limits/local", get(accounts::limits))
        .route(
            "/accounts/{account}/limits/local/{rse}",
            limits.get(accounts::limits_at),
        )
        .route("/accounts/{account}/limits/global", get(accounts::global_limits))
        .route("/accounts/{account}/usage/global", get(accounts::global_usage))
        .route("/accounts/{account}/usage/local", get(accounts::usage))
        .route("/accounts/{account}/usage/local/{rse}", get(accounts::usage_at))
        .route("/scopes", get(accounts::all_scopes))
        .route("/scopes/", get(accounts::all_scopes))
        .route("/scopes/owner", get(accounts::scope_owners))
        .route("/scopes/owner/", get(accounts::scope_owners))
}

fn of_rses() -> Router<Arc<Door>> {
    let one = get(rses::get).post(rses::add).put(rses::change);
    let protocol = post(rses::add_protocol).delete(rses::remove_protocols);
    let at_host = put(rses::change_protocol).delete(rses::remove_protocols);
    let distances = get(rses::distances).post(rses::set_distance);
    Router::new()
        .route("/rses", get(rses::list))
        .route("/rses/", get(rses::list))
        .route("/rses/{rse}", one.delete(rses::delete))
        .route("/rses/{rse}/attr", get(rses::attributes))
        .route("/rses/{rse}/attr/", get(rses::attributes))
        .route(
            "/rses/{rse}/attr/{key}",
            post(rses::set_attribute).delete(rses::remove_attribute),
        )
        .route("/rses/{rse}/protocols", get(rses::protocols))
        .route("/rses/{rse}/protocols/{scheme}", protocol.get(rses::get_of_scheme))
        .route("/rses/{rse}/protocols/{scheme}/{host}", delete(rses::remove_protocols))
        .route("/rses/{rse}/protocols/{scheme}/{host}/{port}", at_host)
        .route(
            "/rses/{rse}/limits",
            get(rses::limits).put(rses::set_limit).delete(rses::remove_limit),
        )
        .route("/rses/{rse}/usage", get(rses::usage).put(rses::set_usage))
        .route(
            "/rses/{rse}/distances/{destination}",
            distances.put(rses::set_distance).delete(rses::remove_distance),
        )
}

fn of_data() -> Router<Arc<Door>> {
    let content = get(dids::content).post(dids::attach).delete(dids::detach);
    let metadata = get(metadata::get).post(metadata::set_many);
    Router::new()
        .route("/dids", post(dids::add_many))
        .route("/dids/{scope}/{name}", get(dids::get).post(dids::add))
        .route("/dids/{scope}/{name}/dids", content)
        .route("/dids/{scope}/{name}/files", get(dids::files))
        .route("/dids/{scope}/{name}/parents", get(dids::parents))
        .route("/dids/{scope}/{name}/status", put(dids::set_status))
        .route("/dids/bulkmeta", post(metadata::of_many))
        .route("/dids/{scope}/dids/search", get(search::search))
        .route("/dids/{scope}/{name}/meta", metadata.delete(metadata::remove))
        .route("/dids/{scope}/{name}/meta/{key}", post(metadata::set))
        .route("/replicas", post(replicas::add).put(replicas::set_states))
        .route("/replicas/list", post(located::list_replicas))
        .route("/replicas/{scope}/{name}/datasets", get(replicas::of_dataset))
        .route("/rses/{rse}/lfns2pfns", get(replicas::paths_of))
}

fn of_rules() -> Router<Arc<Door>> {
    let one = get(rules::get).put(rules::change).delete(rules::delete);
    Router::new()
        .route("/rules", get(rules::list).post(rules::add))
        .route("/rules/", get(rules::list).post(rules::add))
        .route("/rules/{id}", one)
        .route("/rules/{id}/locks", get(rules::locks))
        .route("/locks/{rse}", get(locks::at))
        .route("/locks/{scope}/{name}", get(locks::of))
        .route("/locks/bulk_locks_for_dids", post(locks::of_many))
        .route("/rules/{id}/analysis", get(analysis::analysis))
        .route("/.well-known/weir/rules/{id}/why", get(analysis::why))
        .route("/.well-known/weir/catalog", get(status::status))
        .route("/.well-known/weir/transfers", post(told::told))
        .route("/requests/list", get(requests::list))
        .route("/requests/history/list", get(requests::list_ended))
        .route("/requests/{scope}/{name}/{rse}", get(requests::get))
        .route("/requests/history/{scope}/{name}/{rse}", get(requests::get_ended))
        .route("/dids/{scope}/{name}/rules", get(rules::of))
}

fn of_loads() -> Router<Arc<Door>> {
    Router::new()
        .route("/loads", get(loads::list).post(loads::add))
        .route("/loads/", get(loads::list).post(loads::add))
        .route("/loads/stop", post(loads::stop_all))
        .route("/loads/{id}", get(loads::get))
        .route("/loads/{id}/cycles", get(loads::cycles))
        .route("/loads/{id}/stop", post(loads::stop))
}

async fn ping() -> axum::response::Response {
    json_answer(&serde_json::json!({ "version": RUCIO_VERSION }))
}

/// Answers 501 for operations that are not built: after 404 a client would take the object for missing.
async fn not_built(method: Method, uri: Uri) -> Failure {
    Failure::not_built(&format!("{method} {} is not built here yet", uri.path()))
}

/// Reads a body as each operation does that takes lists of DIDs and files.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(data: &[u8]) {
    let Ok(serde_json::Value::Object(body)) = serde_json::from_slice(data) else {
        return;
    };
    let body = body::Object::new(body);
    for key in ["dids", "files", "rules"] {
        for one in body.list(key).unwrap_or_default() {
            let _ = (
                data::did_of(&one),
                data::new_replica(&one),
                one.text("state"),
                one.number("lifetime"),
            );
            let _ = one.json();
        }
    }
    loads::fuzz(&body);
    let _ = (
        body.object("options"),
        body.flag("open"),
        body.needed("rse").map(rses::name),
    );
}
