//! Fuzz targets for the readers of requests and of transfer services' answers. Built for tests and for the targets of
//! `fuzz/` only.
#![allow(
    clippy::missing_panics_doc,
    clippy::expect_used,
    reason = "a target panics where it finds something"
)]

use weir_rules::{
    expression::Expression,
    ids::{DidId, RequestId, RseId},
};

use crate::{
    filters::Filter,
    requests::{Attempt, outgoing::Carried, uid::Tag},
    transfers::{answer::JobAnswer, events},
};

/// Filters of searches.
pub fn filters(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(filter) = Filter::read(text) else { return };
    let row =
        serde_json::json!({ "name": text, "project": "data18", "run_number": 7, "hidden": false, "length": null });
    let row = row.as_object().expect("it is an object");
    if filter.matches(row) && !text.contains("type") {
        // A row that matches begins with the prefix that the database is asked for.
        assert!(text.starts_with(&filter.prefix()));
    }
}

/// RSE expressions: an expression that parses is written out, and parses to the same again.
pub fn expressions(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(expression) = text.parse::<Expression>() {
        let again = expression.to_string().parse::<Expression>();
        assert_eq!(again.as_ref(), Ok(&expression), "{text}");
    }
}

/// Answers and messages of transfer services. Ends are only of attempts that were asked for, each at most once.
pub fn answers(data: &[u8]) {
    let _ = events::job_of(data);
    let Ok(jobs) = weir_fts_api::Job::read_all(data) else {
        return;
    };
    let carried = |request: u64| Carried {
        attempt: Attempt {
            request: RequestId(request),
            at: (DidId(request), RseId(1)),
            number: 1,
        },
        is_cancelled: request == 2,
    };
    let carried = [1, 2, 3].map(carried);
    for job in jobs.into_iter().filter_map(JobAnswer::of) {
        let ends = job.ends(&carried, Tag::new(5));
        let mut requests = ends.iter().map(|end| end.attempt.request).collect::<Vec<_>>();
        requests.dedup();
        assert!(requests.len() == ends.len() && ends.len() <= carried.len());
        let _ = job.file_ids(&carried.map(|one| one.attempt), Tag::new(5));
    }
}

/// Bodies of the door, and ids of requests.
pub fn bodies(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Some((request, number)) = Tag::new(5).read(text)
    {
        assert_eq!(Tag::new(5).uid(request, number), text.to_lowercase());
    }
    crate::door::fuzz(data);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus.rs"));

    /// A crash that was fixed must stay fixed, and a corpus must not get lost.
    #[test]
    fn corpora_hold() {
        run("catalog_filters", super::filters);
        run("catalog_expressions", super::expressions);
        run("catalog_answers", super::answers);
        run("catalog_bodies", super::bodies);
    }
}
