//! Grid-mapfiles: certificate names to local accounts, one a line.
//!
//! ```text
//! # comment
//! "/DC=ch/DC=cern/CN=Somebody" .atlas
//! "/DC=ch/DC=cern/CN=Robot: \"transfers\"" robot,backup
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use thiserror::Error;

use super::name::usual_form;

/// A line of a grid-mapfile that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {wanted} expected")]
pub struct GridmapError {
    /// From 1.
    pub line: usize,
    /// The expected element.
    pub wanted: &'static str,
}

/// Accounts under the names of certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gridmap {
    accounts: BTreeMap<String, Vec<String>>,
}

impl Gridmap {
    /// Parses a file's text. A name on two lines has the accounts of both, in their order.
    ///
    /// In double quotes, `\"`, `\\` and `\xHH` stand for a character; without quotes a name ends at white space.
    ///
    /// # Errors
    /// The first line that cannot be read: half a file must not decide about access.
    pub fn parse(text: &str) -> Result<Self, GridmapError> {
        let mut map = Self::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let refuse = |wanted| GridmapError {
                line: number + 1,
                wanted,
            };
            let (name, rest) = name(line).map_err(refuse)?;
            let accounts: Vec<String> = accounts(rest).map_err(refuse)?;
            map.accounts.entry(name).or_default().extend(accounts);
        }
        Ok(map)
    }

    /// The accounts of a certificate's name in slash form, the default one first; empty if the file does not name it.
    pub fn accounts(&self, subject: &str) -> &[String] {
        self.accounts.get(&usual_form(subject)).map_or(&[], Vec::as_slice)
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.accounts.keys().map(String::as_str)
    }

    /// The VO of a certificate's name: that of its default account in `vos`, or the pool's name if the account is a
    /// pool (`.atlas`). This is how sites write a VO where there are no VOMS attributes.
    pub fn vo<'a>(&'a self, subject: &str, vos: &'a BTreeMap<String, String>) -> Option<&'a str> {
        let account = self.accounts(subject).first()?;
        let named = vos.get(account).map(String::as_str);
        named.or_else(|| account.strip_prefix('.').filter(|pool| !pool.is_empty()))
    }
}

/// The name at the start of a line in the form in which certificates print, and the rest of the line.
fn name(line: &str) -> Result<(String, &str), &'static str> {
    let (bytes, rest) = if let Some(quoted) = line.strip_prefix('"') {
        unquote(quoted)?
    } else {
        let end = line.find(char::is_whitespace).unwrap_or(line.len());
        (unescape(&line.as_bytes()[..end])?, &line[end..])
    };
    if bytes.first() != Some(&b'/') {
        return Err("a name that begins with /");
    }
    let mut name = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b' '..=b'~' => name.push(char::from(byte)),
            _ => write!(name, "\\x{byte:02X}").expect("writing to a string cannot fail"),
        }
    }
    Ok((usual_form(&name), rest))
}

/// Takes a text up to its closing quote.
fn unquote(quoted: &str) -> Result<(Vec<u8>, &str), &'static str> {
    let mut escaped = false;
    for (place, byte) in quoted.bytes().enumerate() {
        match byte {
            b'"' if !escaped => return Ok((unescape(&quoted.as_bytes()[..place])?, &quoted[place + 1..])),
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    Err("a closing quote")
}

fn unescape(text: &[u8]) -> Result<Vec<u8>, &'static str> {
    const WANTED: &str = "\\\", \\\\ or \\xHH";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let (byte, after) = match (byte, after) {
            (b'\\', [b'x' | b'X', high, low, after @ ..]) => (hex(*high, *low).ok_or(WANTED)?, after),
            (b'\\', [plain @ (b'"' | b'\\'), after @ ..]) => (*plain, after),
            (b'\\', _) => return Err(WANTED),
            (byte, after) => (byte, after),
        };
        bytes.push(byte);
        rest = after;
    }
    Ok(bytes)
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

fn accounts(rest: &str) -> Result<Vec<String>, &'static str> {
    const WANTED: &str = "an account, or several with commas between";
    if !rest.starts_with(char::is_whitespace) {
        return Err(WANTED);
    }
    let accounts: Vec<String> = rest.split(',').map(|account| account.trim().to_owned()).collect();
    let is_account = |text: &String| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if accounts.iter().all(is_account) {
        Ok(accounts)
    } else {
        Err(WANTED)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]
mod tests {
    use super::*;

    fn check(text: &str, subject: &str, expected: &[&str]) {
        assert_eq!(Gridmap::parse(text).unwrap().accounts(subject), expected, "{text}");
    }

    /// A name would be mapped to an account that the file does not give it.
    #[test]
    fn names_are_exact_whatever_their_spelling() {
        check("\"/CN=a b\" x", "/CN=a b", &["x"]);
        check("\"/CN=a b\" x", "/CN=a", &[]);
        check("\"/CN=a\" x", "/CN=A", &[]);
        check("  \"/CN=a\"\t x , y \r\n", "/CN=a", &["x", "y"]);
        check("/CN=a .pool", "/CN=a", &[".pool"]);
        check("# \"/CN=a\" x\n\n\"/CN=a\" y\n\"/CN=a\" z", "/CN=a", &["y", "z"]);
        check(r#""/CN=a \"b\" \\c" x"#, r#"/CN=a "b" \c"#, &["x"]);
        check("\"/CN=\u{e9}\" x", r"/CN=\xC3\xA9", &["x"]);
        check(r#""/CN=\xC3\xa9" x"#, r"/CN=\xC3\xA9", &["x"]);
        check("\"/CN=a/Email=b@c\" x", "/CN=a/emailAddress=b@c", &["x"]);
    }

    /// Half a file would decide about access.
    #[test]
    fn a_line_that_cannot_be_read_is_an_error() {
        for text in [
            "\"/CN=a\"",
            "\"/CN=a x",
            "\"CN=a\" x",
            "\"\" x",
            "\"/CN=a\"x",
            "/CN=a x,",
            "/CN=a x y",
            "\"/CN=\\q\" x",
            "\"/CN=\\x4\" x",
        ] {
            assert_eq!(Gridmap::parse(&format!("\n{text}\n")).unwrap_err().line, 2, "{text}");
        }
    }

    /// A user without VOMS attributes would have no VO, or a wrong one.
    #[test]
    fn an_account_leads_to_a_vo() {
        let map = Gridmap::parse("\"/CN=a\" .atlas\n\"/CN=b\" robot,.cms\n\"/CN=c\" joe\n\"/CN=d\" .").unwrap();
        let vos = BTreeMap::from([("robot".to_owned(), "dune".to_owned())]);
        assert_eq!(map.vo("/CN=a", &vos), Some("atlas"));
        assert_eq!(map.vo("/CN=b", &vos), Some("dune"));
        assert_eq!(map.vo("/CN=c", &vos), None);
        assert_eq!(map.vo("/CN=d", &vos), None);
        assert_eq!(map.vo("/CN=e", &vos), None);
    }
}
