//! The certificate that a service shows, and its key.

use std::fs;
use std::time::SystemTime;

use super::files::{secret, unreadable};
use super::{Check, ENDS_SOON, Outcome};
use crate::tls::TlsFiles;

/// Files, dates, names and the key of a certificate; `host` is the one in the service's URL, if it is known.
pub fn identity(tls: &TlsFiles, host: Option<&str>, now: SystemTime) -> Vec<Check> {
    let shown = tls.certificate.display();
    let mut checks = Vec::new();
    match fs::read_to_string(&tls.certificate) {
        Err(error) => {
            let cause = format!("could not read {shown}: {error}");
            checks.push(Check::new("certificate", Outcome::failed(cause, unreadable(&error))));
        }
        Ok(chain) => {
            checks.push(Check::new("certificate", dates(&chain, &shown.to_string(), now)));
            if let Some(host) = host {
                checks.push(Check::new("certificate name", name(&chain, &shown.to_string(), host)));
            }
        }
    }
    checks.push(Check::new("key", secret(&tls.key)));
    let readable = checks
        .iter()
        .all(|check| check.name == "certificate name" || !check.outcome.has_failed());
    if readable {
        checks.push(Check::new("key pair", pair(tls)));
    }
    checks
}

fn dates(chain: &str, shown: &str, now: SystemTime) -> Outcome {
    let Some((start, end)) = weir_auth::x509::validity(chain) else {
        let remedy = "the file must hold the host's certificate in PEM, then those of the authorities between";
        return Outcome::failed(format!("{shown} holds no certificate that can be read"), remedy);
    };
    validity(start, end, now).unwrap_or_else(|(cause, remedy)| Outcome::failed(format!("{shown}: {cause}"), remedy))
}

/// Compares the dates of a certificate with the time; warns if it ends soon.
///
/// # Errors
/// Cause and remedy, if it is not valid yet or has ended.
pub fn validity(start: SystemTime, end: SystemTime, now: SystemTime) -> Result<Outcome, (String, String)> {
    let day = |time: SystemTime| {
        let time = jiff::Timestamp::try_from(time).unwrap_or(jiff::Timestamp::MAX);
        time.strftime("%Y-%m-%d %H:%M UTC").to_string()
    };
    if start > now {
        let remedy = "compare the clock of this machine with another's, or wait";
        return Err((format!("it is not valid before {}", day(start)), remedy.to_owned()));
    }
    let Ok(left) = end.duration_since(now) else {
        let remedy = "renew the certificate; a service that runs takes it within a minute";
        return Err((format!("it ended on {}", day(end)), remedy.to_owned()));
    };
    let days = left.as_secs() / 86_400;
    let detail = format!("ends in {days} days, {}", day(end));
    if left < ENDS_SOON {
        return Ok(Outcome::warning(
            detail,
            "renew the certificate; a service that runs takes it within a minute",
        ));
    }
    Ok(Outcome::ok(detail))
}

fn name(chain: &str, shown: &str, host: &str) -> Outcome {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match weir_http::certificate_names(chain, bare) {
        Ok(true) => Outcome::ok(format!("{shown} names {bare}")),
        Ok(false) => Outcome::failed(
            format!("{shown} does not name {bare}, the host of the service's URL"),
            format!("set url to a name that is in the certificate, or have one issued for {bare}"),
        ),
        Err(error) => Outcome::failed(
            format!("{shown}: {}", weir_auth::error_chain(&error)),
            "correct url, or the certificate",
        ),
    }
}

fn pair(tls: &TlsFiles) -> Outcome {
    match tls.serve(None) {
        Ok(_) => Outcome::ok("the key belongs to the certificate"),
        Err(error) => Outcome::failed(
            weir_auth::error_chain(&error),
            "name the certificate and the key that were made together, each in PEM",
        ),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
    use std::time::Duration;

    use weir_auth::ca::{CertificateAuthority, San, write_identity};

    use super::*;

    fn failed(checks: &[Check]) -> Vec<&str> {
        let failed = checks.iter().filter(|check| check.outcome.has_failed());
        failed.map(|check| check.name.as_ref()).collect()
    }

    #[test]
    fn every_fault_of_an_identity_is_named() {
        // Wrong: a service starts with a certificate that no client takes.
        let place = tempfile::tempdir().unwrap();
        let authority = CertificateAuthority::create(&place.path().join("ca")).unwrap();
        let write = |name: &str| {
            let identity = authority.issue(&[San::from("se.example.org")], name).unwrap();
            let (certificate, key) = write_identity(&identity, place.path(), name).unwrap();
            TlsFiles { certificate, key }
        };
        let (one, other) = (write("one"), write("other"));
        let now = SystemTime::now();
        let look = |tls: &TlsFiles, host: &str, now| identity(tls, Some(host), now);
        assert_eq!(failed(&look(&one, "se.example.org", now)), Vec::<&str>::new());
        assert_eq!(failed(&look(&one, "other.example.org", now)), ["certificate name"]);
        let later = now + Duration::from_secs(3_660 * 86_400);
        assert_eq!(failed(&look(&one, "se.example.org", later)), ["certificate"]);
        let before = now - Duration::from_secs(30 * 86_400);
        assert_eq!(failed(&look(&one, "se.example.org", before)), ["certificate"]);
        let mixed = TlsFiles {
            certificate: one.certificate.clone(),
            key: other.key.clone(),
        };
        let checks = look(&mixed, "se.example.org", now);
        assert_eq!(failed(&checks), ["key pair"]);
        let Outcome::Failed { cause, .. } = &checks.last().unwrap().outcome else {
            panic!()
        };
        assert!(cause.contains("other") && cause.contains("one"), "{cause}");
        let missing = TlsFiles {
            certificate: place.path().join("no.pem"),
            key: place.path().join("no.key"),
        };
        assert_eq!(failed(&look(&missing, "x", now)), ["certificate", "key"]);
    }
}
