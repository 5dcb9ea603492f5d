//! Whether a PostgreSQL server lets a service in.

use std::time::Duration;

use weir_http::TrustRoots;
use weir_service::check::{Check, Outcome};
use weir_store::postgres::{Address, reach};

/// Time for it to do so.
const PATIENCE: Duration = Duration::from_secs(10);

/// Opens a session, and closes it.
pub(super) async fn postgres(address: Address, trust: TrustRoots) -> Check {
    let shown = address.to_string();
    Check::of("postgres", async move {
        let tried = tokio::task::spawn_blocking(move || reach(&address, &trust, PATIENCE)).await;
        match tried {
            Ok(Ok(())) => Outcome::ok(shown),
            Ok(Err(error)) => Outcome::failed(
                weir_auth::redact(&weir_auth::error_chain(&error)),
                "see that the server runs, lets the user in (pg_hba.conf), and that the database was made beforehand",
            ),
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    })
    .await
}
