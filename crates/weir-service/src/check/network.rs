//! Addresses, authorities and other services.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use http::{Request, header};
use weir_http::{Client, ClientConfig, body};

use super::{Check, Clock, Outcome};
use crate::tls::Trust;

/// Time for an issuer to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether an address can be listened on.
pub fn listen(address: SocketAddr) -> Check {
    let outcome = match std::net::TcpListener::bind(address) {
        Ok(_) => Outcome::ok(address.to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Outcome::warning(
            format!("another process listens on {address}"),
            "nothing to do if that is this service; else choose another port, or stop the other program",
        ),
        Err(error) => Outcome::failed(
            format!("could not listen on {address}: {error}"),
            "name an address of this machine, and a port that the user may have (1024 and above, or CAP_NET_BIND_SERVICE)",
        ),
    };
    Check::new("listen", outcome)
}

/// Whether the trusted authorities can be read; a client that trusts them.
pub fn trust(trust: &Trust) -> (Check, Option<Client>) {
    let places = trust.files().len();
    let (outcome, client) = match Client::new(ClientConfig::new(trust.roots())) {
        Ok(_) if places == 0 => (
            Outcome::warning(
                "no authority is trusted: no issuer, storage or service over TLS",
                "name files or directories in [trust], such as /etc/grid-security/certificates",
            ),
            None,
        ),
        Ok(client) => (Outcome::ok(format!("{places} files and directories")), Some(client)),
        Err(error) => (
            Outcome::failed(
                weir_auth::error_chain(&error),
                "correct [trust], or install the authorities (ca-policy-egi-core, or `weir authority new` for a laboratory's own)",
            ),
            None,
        ),
    };
    (Check::new("trust", outcome), client)
}

/// Whether an issuer answers and has keys, and by how much its clock is off.
pub async fn issuer(client: &Client, url: &str) -> Vec<Check> {
    let keys = Check::of(format!("issuer {url}"), async {
        match weir_auth::verifier::count_keys(client, url).await {
            Ok(keys) => Outcome::ok(format!("{keys} keys")),
            Err(cause) => Outcome::failed(
                cause,
                "see that url is what its tokens name as iss, letter by letter, that [trust] vouches for it, and that it runs",
            ),
        }
    });
    let mut checks = vec![keys.await];
    if !checks[0].outcome.has_failed()
        && let Some(clock) = clock(client, url).await
    {
        checks.push(Check::new(format!("clock of {url}"), clock.outcome()));
    }
    checks
}

async fn clock(client: &Client, url: &str) -> Option<Clock> {
    let request = Request::get(url).body(body::empty()).ok()?;
    let asked = SystemTime::now();
    let answer = client.send_within(request, PATIENCE).await.ok()?;
    let date = answer.headers().get(header::DATE)?.to_str().ok()?;
    let date = httpdate::parse_http_date(date).ok()?;
    Some(Clock::of(date, asked, SystemTime::now()))
}
