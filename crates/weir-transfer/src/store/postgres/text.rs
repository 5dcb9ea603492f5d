//! Texts as PostgreSQL can hold them.

use std::borrow::Cow;

/// PostgreSQL's texts hold every character but NUL.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

pub(super) fn text(text: &str) -> String {
    clean(text).into_owned()
}

pub(super) fn optional(value: Option<&str>) -> Option<String> {
    value.map(text)
}
