//! Conditional requests (RFC 9110 section 13).

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, header};

use crate::backend::Meta;

/// What the conditions of a request amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Proceed,
    /// The client has it already: 304.
    NotModified,
    /// A condition does not hold: 412.
    Failed,
}

/// Weighs `If-Match`, `If-Unmodified-Since`, `If-None-Match` and `If-Modified-Since`, in the order of section 13.2.2.
///
/// `current` is what is there now; `reading` says whether the request is a GET or HEAD.
pub fn weigh(headers: &HeaderMap, current: Option<&Meta>, reading: bool) -> Verdict {
    if let Some(list) = text(headers, &header::IF_MATCH) {
        if !current.is_some_and(|meta| names(list, &meta.etag(), false)) {
            return Verdict::Failed;
        }
    } else if let (Some(limit), Some(meta)) = (date(headers, &header::IF_UNMODIFIED_SINCE), current)
        && whole_seconds(meta) > limit
    {
        return Verdict::Failed;
    }
    if let Some(list) = text(headers, &header::IF_NONE_MATCH) {
        if current.is_some_and(|meta| names(list, &meta.etag(), true)) {
            return if reading { Verdict::NotModified } else { Verdict::Failed };
        }
    } else if let (true, Some(limit), Some(meta)) = (reading, date(headers, &header::IF_MODIFIED_SINCE), current)
        && whole_seconds(meta) <= limit
    {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}

/// Whether a `Range` counts under `If-Range` (section 13.1.5): only if the validator still names this very content.
pub fn range_counts(headers: &HeaderMap, meta: &Meta) -> bool {
    match text(headers, &header::IF_RANGE) {
        None => true,
        Some(validator) if validator.contains('"') => validator.trim() == meta.etag(),
        Some(_) => date(headers, &header::IF_RANGE) == Some(whole_seconds(meta)),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(text(headers, name)?).ok()
}

/// HTTP dates know seconds only.
fn whole_seconds(meta: &Meta) -> SystemTime {
    let since = meta
        .modified()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

/// Whether a list of entity tags holds this one. Weak tags of the client match in weak comparison only.
fn names(list: &str, etag: &str, weak: bool) -> bool {
    list.trim() == "*"
        || list
            .split(',')
            .map(str::trim)
            .any(|tag| tag == etag || (weak && tag.strip_prefix("W/") == Some(etag)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    fn meta() -> Meta {
        Meta {
            directory: false,
            size: 3,
            modified_ns: 1_700_000_000_500_000_000,
            created: None,
            identity: 7,
        }
    }

    fn check(name: &HeaderName, value: &str, there: bool, reading: bool, expected: Verdict) {
        let headers = HeaderMap::from_iter([(name.clone(), value.parse().unwrap())]);
        assert_eq!(
            weigh(&headers, there.then_some(&meta()), reading),
            expected,
            "{name}: {value}"
        );
    }

    /// A condition misread overwrites a file that should have stayed.
    #[test]
    fn conditions_hold_or_fail() {
        use Verdict::{Failed, NotModified, Proceed};
        let etag = meta().etag();
        check(&header::IF_NONE_MATCH, "*", true, false, Failed);
        check(&header::IF_NONE_MATCH, "*", false, false, Proceed);
        check(
            &header::IF_NONE_MATCH,
            &format!("\"x\", W/{etag}"),
            true,
            true,
            NotModified,
        );
        check(&header::IF_NONE_MATCH, "\"x\"", true, true, Proceed);
        check(&header::IF_MATCH, &etag, true, false, Proceed);
        check(&header::IF_MATCH, &format!("W/{etag}"), true, false, Failed);
        check(&header::IF_MATCH, "*", false, false, Failed);
        check(&header::IF_MATCH, "*", true, false, Proceed);
        check(
            &header::IF_MODIFIED_SINCE,
            "Tue, 14 Nov 2023 22:13:20 GMT",
            true,
            true,
            NotModified,
        );
        check(
            &header::IF_MODIFIED_SINCE,
            "Tue, 14 Nov 2023 22:13:19 GMT",
            true,
            true,
            Proceed,
        );
        check(
            &header::IF_MODIFIED_SINCE,
            "Tue, 14 Nov 2023 22:13:20 GMT",
            true,
            false,
            Proceed,
        );
        check(
            &header::IF_UNMODIFIED_SINCE,
            "Tue, 14 Nov 2023 22:13:20 GMT",
            true,
            false,
            Proceed,
        );
        check(
            &header::IF_UNMODIFIED_SINCE,
            "Tue, 14 Nov 2023 22:13:19 GMT",
            true,
            false,
            Failed,
        );
        check(&header::IF_UNMODIFIED_SINCE, "yesterday", true, false, Proceed);
    }

    /// A range of another content would be glued to what the client has.
    #[test]
    fn a_range_counts_for_the_same_content_only() {
        let check = |value: &str, expected| {
            let headers = HeaderMap::from_iter([(header::IF_RANGE, value.parse().unwrap())]);
            assert_eq!(range_counts(&headers, &meta()), expected, "{value}");
        };
        check(&meta().etag(), true);
        check("\"x\"", false);
        check(&format!("W/{}", meta().etag()), false);
        check("Tue, 14 Nov 2023 22:13:20 GMT", true);
        check("Tue, 14 Nov 2023 22:13:21 GMT", false);
        check("x", false);
        assert!(range_counts(&HeaderMap::new(), &meta()));
    }
}
