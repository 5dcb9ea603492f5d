//! What every reader of this crate must survive, and hold to, for any input. Built for tests and for the targets of `fuzz/`
//! only.

use std::path::Path;

pub use crate::rest::fuzzing::{bodies, limits, queries};

use std::time::Instant;

use serde_json::Value;
use weir_auth::Secret;
use weir_executor::{job::SEVERAL_SOURCES, surl::Surl};

use crate::{
    config::TransferConfig,
    submission::{self, SubmissionLimits, Submitter},
};

/// A token that no message may hold.
const TOKEN: &str = "s3cr3t-0f-the-call";

/// The body of a submission: a job that is taken must be one that can be kept, carried out and shown.
pub fn submissions(data: &[u8]) {
    let Ok(body) = serde_json::from_slice::<Value>(data) else {
        return;
    };
    let user = Submitter {
        user_dn: "alice".into(),
        cred_id: "0123".into(),
        vo: "test".into(),
        token: Some(Secret::new(TOKEN)),
    };
    let limits = SubmissionLimits::default();
    let draft = match submission::read(&body, &user, &limits, 1_700_000_000_000) {
        Ok(draft) => draft,
        Err(refusal) => {
            assert!(!refusal.to_string().contains(TOKEN));
            return;
        }
    };
    assert!(!draft.files.is_empty() && draft.files.len() <= limits.files);
    assert!((1..=5).contains(&draft.job.priority));
    // What a clock cannot hold would take down whoever waits for it.
    let wait = draft.job.params.timeout.unwrap_or_default();
    assert!(
        Instant::now()
            .checked_add(std::time::Duration::from_secs(wait))
            .is_some()
    );
    for (place, file) in draft.files.iter().enumerate() {
        let index = if draft.job.kind == SEVERAL_SOURCES { 0 } else { place };
        assert_eq!(file.index as usize, index);
        assert!(file.source_url() != file.destination_url() || draft.job.params.bring_online.is_some());
        for url in [&file.source, &file.destination] {
            check_surl(&Surl::parse(url).expect("a URL that was taken reads back"));
        }
        for token in [file.source_token, file.destination_token] {
            assert!(token.is_none_or(|hash| draft.tokens.contains_key(&hash)));
        }
    }
}

/// A configuration: what cannot be used is said in lines that an operator can read.
pub fn configs(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let path = Path::new("transfer.toml");
    if let Err(error) = weir_service::config::read::<TransferConfig>(text, path) {
        let problems = error.problems(path);
        assert!(!problems.is_empty() && problems.iter().all(|problem| !problem.message.is_empty()));
    }
}

/// What a STOMP broker says.
pub fn frames(data: &[u8]) {
    crate::events::fuzz(data);
}

/// A URL of a file, as it is and with a secret in its query.
pub fn surls(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(surl) = Surl::parse(text) {
        check_surl(&surl);
    }
    let shown = match Surl::parse(&format!("{text}?authz={TOKEN}")) {
        Ok(surl) => surl.to_string(),
        Err(error) => error.to_string(),
    };
    assert!(text.contains(TOKEN) || !shown.contains(TOKEN), "{shown}");
}

/// It must lead to the host that it names, and messages must not carry its query.
fn check_surl(surl: &Surl) {
    assert_eq!(Surl::parse(surl.as_str()).as_ref(), Ok(surl));
    let shown = surl.to_string();
    assert!(
        shown
            .split_once('?')
            .is_none_or(|(_, query)| query.is_empty() || query == "***"),
        "{shown}"
    );
    if let Ok(uri) = surl.http_url().parse::<http::Uri>() {
        let host = surl.se();
        assert_eq!(
            uri.host().map(str::to_ascii_lowercase).as_deref(),
            host.split_once("://").map(|(_, host)| host)
        );
        assert_eq!(surl.scheme().is_encrypted(), uri.scheme_str() == Some("https"));
        assert!(surl.endpoint().starts_with(&format!("{}://", surl.scheme().wire())));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus.rs"));

    /// A crash that was fixed must stay fixed, and a corpus must not get lost.
    #[test]
    fn corpora_hold() {
        run("transfer_submissions", super::submissions);
        run("transfer_surls", super::surls);
        run("transfer_bodies", super::bodies);
        run("transfer_queries", super::queries);
        run("transfer_limits", super::limits);
        run("transfer_frames", super::frames);
        run("transfer_configs", super::configs);
    }
}
