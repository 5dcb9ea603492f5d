//! Removal of URL credentials from storages' errors: storages repeat the requested URLs, and errors are public.

use weir_auth::{MASK, Secret};
use weir_world::{Failure, Outcome, WorldEvent};

use crate::job::{NewFile, UrlSecrets};

/// Shorter values are words like `1` or `rw`, and stand everywhere.
const VALUE_MIN: usize = 6;

/// Removes URL credentials from messages about the file.
pub(crate) fn hide(file: &NewFile, event: WorldEvent) -> WorldEvent {
    match (event, file.secrets.as_deref()) {
        (WorldEvent::Ended(Outcome::Failed(mut failure)), Some(secrets)) => {
            failure.message = hidden(&failure.message, secrets);
            WorldEvent::Ended(Outcome::Failed(failure))
        }
        (event, _) => event,
    }
}

/// A failure as the log may have it.
pub(crate) fn shown(file: &NewFile, failure: &Failure) -> String {
    let text = failure.to_string();
    match file.secrets.as_deref() {
        Some(secrets) => hidden(&text, secrets),
        None => text,
    }
}

fn hidden(text: &str, secrets: &UrlSecrets) -> String {
    let tails = [&secrets.source, &secrets.destination].into_iter().flatten();
    without(text, tails.map(Secret::expose))
}

/// Removes the credentials in these URL queries from a text.
pub(crate) fn without<'a>(text: &str, tails: impl Iterator<Item = &'a str>) -> String {
    let mut words = tails.flat_map(words).collect::<Vec<_>>();
    // The longest first, or a part would be taken out of the middle of a whole.
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    let hidden = words
        .iter()
        .fold(text.to_owned(), |text, word| text.replace(word.as_str(), MASK));
    if !hidden.contains('…') {
        return hidden;
    }
    words.iter().fold(hidden, |text, word| without_start(text, word))
}

/// A long text was cut, maybe within the word: the longest start first.
fn without_start(text: String, word: &str) -> String {
    let ends = (VALUE_MIN..word.len()).rev().filter(|end| word.is_char_boundary(*end));
    ends.fold(text, |text, end| {
        text.replace(&format!("{}…", &word[..end]), &format!("{MASK}…"))
    })
}

/// A tail of a URL as a whole, and each of its values, as they were written and decoded.
fn words(tail: &str) -> Vec<String> {
    let whole = tail.trim_start_matches(['?', '#']);
    let values = whole
        .split(['&', ';', '#'])
        .map(|part| part.split_once('=').map_or(part, |(_, value)| value));
    let written = values.chain([whole]).map(str::to_owned);
    let decoded = |word: String| {
        let plain = percent_encoding::percent_decode_str(&word)
            .decode_utf8_lossy()
            .into_owned();
        [word, plain]
    };
    let words = written.flat_map(decoded).filter(|word| word.len() >= VALUE_MIN);
    words.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;
    use crate::surl::Surl;

    fn shows(text: &str, expected: &str) {
        let urls = ["https://a/f?authz=s%65cret-a&rw=1", "https://b/f#secret-b"];
        let [source, destination] = urls.map(|url| Surl::parse(url).unwrap());
        let secrets = NewFile::new(&source, &destination).secrets.unwrap_or_default();
        assert_eq!(hidden(text, &secrets), expected);
    }

    #[test]
    fn a_repeated_secret_is_hidden_however_it_is_written() {
        shows("no /f?authz=s%65cret-a&rw=1 here", "no /f?*** here");
        shows("bad signature s%65cret-a", "bad signature ***");
        shows("bad signature secret-a, 1 time", "bad signature ***, 1 time");
        shows("secret-b", "***");
        shows("nothing of it", "nothing of it");
        shows("cut at secret…", "cut at ***…");
        shows("cut at secr…", "cut at secr…");
        shows("pull: cut at secret-…; push: no", "pull: cut at ***…; push: no");
    }
}
