//! The readiness of a service, as reported at `/.well-known/weir/ready`.

use std::time::{Duration, Instant, SystemTime};

use http::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use weir_auth::Verifier;

/// How long before its end a certificate is worth a warning.
const SOON: Duration = Duration::from_secs(7 * 86_400);

/// Timeout for issuer keys in a readiness probe, shorter than usual probe timeouts.
const KEYS: Duration = Duration::from_millis(500);

/// The result of a readiness check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Problems that keep the service from working.
    pub troubles: Vec<String>,
    /// Problems that affect some clients, or soon will.
    pub warnings: Vec<String>,
}

impl Readiness {
    /// Puts down how long the certificate is good that clients are shown; `None`: they are shown none.
    pub fn certificate(&mut self, end: Option<SystemTime>, now: SystemTime) {
        match end.map(|end| end.duration_since(now)) {
            Some(Err(_)) => self.troubles.push("the server's certificate has expired".to_owned()),
            Some(Ok(left)) if left < SOON => {
                let hours = left.as_secs() / 3600;
                let text = format!("the server's certificate expires in {hours} h");
                self.warnings.push(text);
            }
            _ => {}
        }
    }

    /// Adds the issuers whose keys are missing, of so many accepted ones, after they were [queried](ask_issuers). One
    /// absent issuer is a trouble of its users; without any, no caller with a token is accepted.
    pub async fn issuers(
        &mut self,
        verifier: &Verifier,
        issuers: usize,
        now: SystemTime,
        asked: Option<JoinHandle<()>>,
    ) {
        let without = issuers_away(verifier, issuers, now, asked).await;
        let all_away = !without.is_empty() && without.len() == issuers;
        let list = if all_away {
            &mut self.troubles
        } else {
            &mut self.warnings
        };
        let texts = without.into_iter();
        list.extend(texts.map(|url| format!("the keys of issuer {url} are not known")));
    }

    /// 200 if the service can serve requests, else 503. `reasons`: whether the caller may read them.
    pub fn answer(&self, reasons: bool) -> (StatusCode, Value) {
        let (status, word) = if self.troubles.is_empty() {
            (StatusCode::OK, "ok")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "trouble")
        };
        let mut answer = json!({ "status": word });
        if reasons {
            answer["troubles"] = json!(self.troubles);
            answer["warnings"] = json!(self.warnings);
        }
        (status, answer)
    }
}

/// Queries the issuers with missing keys, unless that failed a moment ago; `None` if no keys are missing.
pub fn ask_issuers(verifier: &Verifier, now: SystemTime) -> Option<JoinHandle<()>> {
    if verifier.without_keys(now).is_empty() {
        return None;
    }
    let verifier = verifier.clone();
    // It continues even if its caller leaves.
    Some(tokio::spawn(async move {
        let _said_in_the_log = verifier.warm(now).await;
    }))
}

/// The issuers with missing keys. If no keys are known at all, queried issuers have a moment to answer: a service that
/// has just started has no keys yet.
async fn issuers_away(
    verifier: &Verifier,
    issuers: usize,
    now: SystemTime,
    asked: Option<JoinHandle<()>>,
) -> Vec<String> {
    let Some(asked) = asked else { return Vec::new() };
    let until = Instant::now() + KEYS;
    loop {
        let is_late = asked.is_finished() || Instant::now() >= until;
        let away = verifier.without_keys(now);
        if is_late || away.len() < issuers {
            return away;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_warns_before_it_ends() {
        // A load balancer would send requests to a service whose certificate no client accepts, without a warning.
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let check = |end: Option<i64>, troubles: usize, warnings: &[&str], status: u16| {
            let mut found = Readiness::default();
            let end = end.map(|hours| match u64::try_from(hours) {
                Ok(hours) => now + Duration::from_secs(hours * 3600),
                Err(_) => now - Duration::from_secs(hours.unsigned_abs() * 3600),
            });
            found.certificate(end, now);
            assert_eq!(found.troubles.len(), troubles);
            assert_eq!(found.warnings, warnings);
            let (answered, shown) = found.answer(true);
            assert_eq!(answered, status);
            assert_eq!(shown["warnings"], json!(warnings));
            assert_eq!(
                found.answer(false).1.get("troubles"),
                None,
                "strangers are told no reasons"
            );
        };
        check(None, 0, &[], 200);
        check(Some(8 * 24), 0, &[], 200);
        check(Some(30), 0, &["the server's certificate expires in 30 h"], 200);
        check(Some(-1), 1, &[], 503);
    }
}
