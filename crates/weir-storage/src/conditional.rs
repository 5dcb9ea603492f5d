//! Conditional requests (RFC 9110 section 13).

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::backend::Meta;

/// The result of a request's conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Proceed,
    /// The client has it already: 304.
    NotModified,
    /// A condition does not hold: 412.
    Failed(Broken),
}

/// The condition that does not hold, in words that follow a path and a colon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// `If-None-Match: *`.
    #[error("it exists, and the request says If-None-Match: *")]
    Exists,
    /// `If-None-Match` with entity tags.
    #[error("its ETag is among those of If-None-Match")]
    Listed,
    /// `If-Match`, where nothing is.
    #[error("it does not exist, and the request says If-Match")]
    Absent,
    /// `If-Match` with other entity tags.
    #[error("its ETag is not among those of If-Match")]
    Unlisted,
    /// `If-Unmodified-Since`.
    #[error("it was modified after the date of If-Unmodified-Since")]
    Modified,
}

/// Evaluates `If-Match`, `If-Unmodified-Since`, `If-None-Match` and `If-Modified-Since`, in the order of section
/// 13.2.2.
///
/// `current` is the current object; `reading` is true for GET and HEAD.
pub fn weigh(headers: &HeaderMap, current: Option<&Meta>, reading: bool) -> Verdict {
    if let Some(list) = text(headers, &header::IF_MATCH) {
        match current {
            None => return Verdict::Failed(Broken::Absent),
            Some(meta) if !names(&list, &meta.etag(), false) => return Verdict::Failed(Broken::Unlisted),
            Some(_) => {}
        }
    } else if let (Some(limit), Some(meta)) = (date(headers, &header::IF_UNMODIFIED_SINCE), current)
        && whole_seconds(meta) > limit
    {
        return Verdict::Failed(Broken::Modified);
    }
    if let Some(list) = text(headers, &header::IF_NONE_MATCH) {
        if current.is_some_and(|meta| names(&list, &meta.etag(), true)) {
            return match list.trim() {
                _ if reading => Verdict::NotModified,
                "*" => Verdict::Failed(Broken::Exists),
                _ => Verdict::Failed(Broken::Listed),
            };
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

/// The conditions of a request that changes something, for as long as they must hold.
#[derive(Debug, Clone, Default)]
pub struct Conditions(HeaderMap);

/// A condition that cannot be parsed. The request is refused, since its client does not want an unconditional change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no list of entity tags")]
pub struct Unreadable(HeaderName);

impl Conditions {
    /// Takes them out of a request's headers.
    ///
    /// # Errors
    /// `If-Match` or `If-None-Match` is no list of entity tags. Dates that cannot be read are no conditions (RFC 9110
    /// section 13.1.4).
    pub fn of(headers: &HeaderMap) -> Result<Self, Unreadable> {
        let mut conditions = HeaderMap::new();
        for name in [header::IF_MATCH, header::IF_NONE_MATCH] {
            if !headers.contains_key(&name) {
                continue;
            }
            let list = text(headers, &name).filter(|list| list.trim() == "*" || tags(list).is_some());
            let value = list.and_then(|list| HeaderValue::from_str(&list).ok());
            conditions.insert(name.clone(), value.ok_or(Unreadable(name))?);
        }
        if let Some(date) = headers.get(header::IF_UNMODIFIED_SINCE) {
            conditions.insert(header::IF_UNMODIFIED_SINCE, date.clone());
        }
        Ok(Self(conditions))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Evaluates them against the current object.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self, current: Option<&Meta>) -> Result<(), Broken> {
        match weigh(&self.0, current, false) {
            Verdict::Failed(broken) => Err(broken),
            Verdict::Proceed | Verdict::NotModified => Ok(()),
        }
    }

    /// Whether nothing at all may be there (`If-None-Match: *`).
    pub fn want_nothing_there(&self) -> bool {
        text(&self.0, &header::IF_NONE_MATCH).is_some_and(|list| list.trim() == "*")
    }
}

/// All lines of a header as one list; none if it is absent or no text.
fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines: Vec<&str> = headers
        .get_all(name)
        .iter()
        .map(HeaderValue::to_str)
        .collect::<Result<_, _>>()
        .ok()?;
    (!lines.is_empty()).then(|| lines.join(","))
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(&text(headers, name)?).ok()
}

/// The entity tags of a list (RFC 9110 section 8.8.3), as they are written; none if it is no such list.
fn tags(list: &str) -> Option<Vec<&str>> {
    let mut found = Vec::new();
    let mut rest = list.trim();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(',') {
            rest = after.trim_start();
            continue;
        }
        let opaque = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"')?;
        let length = rest.len() - opaque.len() + opaque.find('"')? + 1;
        found.push(&rest[..length]);
        rest = rest[length..].trim_start();
        if !rest.is_empty() && !rest.starts_with(',') {
            return None;
        }
    }
    (!found.is_empty()).then_some(found)
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
        || tags(list)
            .unwrap_or_default()
            .into_iter()
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
        use Broken::{Absent, Exists, Listed, Modified, Unlisted};
        use Verdict::{Failed, NotModified, Proceed};
        let etag = meta().etag();
        check(&header::IF_NONE_MATCH, "*", true, false, Failed(Exists));
        check(&header::IF_NONE_MATCH, &etag, true, false, Failed(Listed));
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
        check(&header::IF_MATCH, &format!("W/{etag}"), true, false, Failed(Unlisted));
        check(&header::IF_MATCH, "*", false, false, Failed(Absent));
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
            Failed(Modified),
        );
        check(&header::IF_UNMODIFIED_SINCE, "yesterday", true, false, Proceed);
    }

    /// A condition that is not understood, or only half read, lets a change through that it should have stopped.
    #[test]
    fn conditions_are_read_whole_or_not_at_all() {
        let of = |lines: &[&str]| {
            let lines = lines.iter().map(|line| (header::IF_MATCH, line.parse().unwrap()));
            let mut headers = HeaderMap::new();
            lines.for_each(|(name, value)| {
                headers.append(name, value);
            });
            Conditions::of(&headers)
        };
        for unreadable in ["", "abc", "\"a", "\"a\" \"b\"", "w/\"a\"", "*, \"a\"", "é"] {
            assert!(of(&[unreadable]).is_err(), "{unreadable}");
        }
        let etag = meta().etag();
        for lines in [
            vec!["\"x\"", etag.as_str()],
            vec![&format!("\"a,b\" , ,W/\"c\",{etag}")],
            vec!["*"],
        ] {
            let conditions = of(&lines).unwrap();
            assert!(conditions.check(Some(&meta())).is_ok(), "{lines:?}");
            assert_eq!(conditions.check(None), Err(Broken::Absent), "{lines:?}");
        }
        let others = of(&["\"x\"", "\"y\""]).unwrap();
        assert_eq!(others.check(Some(&meta())), Err(Broken::Unlisted));
        assert!(Conditions::of(&HeaderMap::new()).unwrap().is_empty());
    }

    /// A range of another content would be appended to the client's part.
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
