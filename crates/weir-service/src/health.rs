//! Whether a service can do its work, as those are told who ask at `/.well-known/weir/ready`.

use std::time::{Duration, Instant, SystemTime};

use http::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use weir_auth::Verifier;

/// How long before its end a certificate is worth a warning.
const SOON: Duration = Duration::from_secs(7 * 86_400);

/// What issuers may take where the keys of none are known: less than those allow who ask whether it is ready.
const KEYS: Duration = Duration::from_millis(500);

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readiness {
    /// What keeps the service from its work.
    pub troubles: Vec<String>,
    /// What keeps some from theirs, or soon will.
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

    /// Puts down whose keys are not known of the issuers whose tokens are taken, so many, which were [asked](ask_issuers). One that is
    /// away is a trouble of its users; without any, nobody with a token is let in.
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

    /// 200 if requests are worth sending, else 503. `reasons`: whoever asks may know why.
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

/// Asks the issuers whose keys are not known, unless that failed a moment ago; none if all are.
pub fn ask_issuers(verifier: &Verifier, now: SystemTime) -> Option<JoinHandle<()>> {
    if verifier.without_keys(now).is_empty() {
        return None;
    }
    let verifier = verifier.clone();
    // It goes on when nobody waits for it any more.
    Some(tokio::spawn(async move {
        let _said_in_the_log = verifier.warm(now).await;
    }))
}

/// The issuers whose keys are not known. Where there are none of any, those that were asked have a moment: nobody has heard of a
/// service yet that has just started.
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
        // A balancer would send requests to a service that no client believes, and nobody would have been warned.
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
