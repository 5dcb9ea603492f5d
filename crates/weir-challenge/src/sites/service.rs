//! Looks at a transfer service that does not start with the grid.

use http::{Method, StatusCode};
use tokio::time::Instant;
use weir_http::Client;
use weir_model::ExternalTransfer;

use super::{Outcome, SiteChecks, endpoint, in_time, timed};
use crate::inject::injection::{InjectionDoor, InjectionError};

/// Its name in the table, in place of an RSE's.
const NAME: &str = "transfer service";

/// Tries its name, connection, certificate, clock, and whether it takes the token or the certificate of the run.
pub(super) async fn check<D: InjectionDoor>(
    service: &ExternalTransfer,
    door: &D,
    client: &Client,
    deadline: Instant,
) -> SiteChecks {
    let mut checks = endpoint::look_at(client, (Method::OPTIONS, &service.url), deadline).await;
    if !checks
        .iter()
        .any(|check| check.outcome.has_failed() && check.name != "clock")
    {
        let name = if service.certificate.is_some() {
            "login"
        } else {
            "token"
        };
        checks.push(timed(name, in_time(deadline, login(service, door))).await);
    }
    SiteChecks {
        rse: NAME.to_owned(),
        url: service.url.clone(),
        checks,
    }
}

async fn login<D: InjectionDoor>(service: &ExternalTransfer, door: &D) -> Outcome {
    let error = match door.known_as().await {
        Ok(who) => return Outcome::ok(format!("it knows the run as {who}")),
        Err(error) => error,
    };
    let remedy = match &error {
        InjectionError::Refused { status, .. }
            if service.certificate.is_some() && matches!(*status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) =>
        {
            "have the service trust the authority of the certificate and know its subject".to_owned()
        }
        InjectionError::Refused { status, .. }
            if *status == StatusCode::UNAUTHORIZED || *status == StatusCode::FORBIDDEN =>
        {
            format!(
                "have the service trust the issuer of the token and take tokens with the scope fts and the audience {}; or name a token that it takes \
             with token_file in [transfer]",
                service.audience
            )
        }
        InjectionError::Token { .. } => {
            "see [issuer] of the grid file, or name a token with token_file in [transfer]".to_owned()
        }
        _ => "see that the service runs and speaks the FTS3 REST API at this URL".to_owned(),
    };
    Outcome::failed(weir_auth::error_chain(&error), remedy)
}
