//! Users' requests to a VOMS server, in the syntax of `voms-proxy-init -voms`.

use thiserror::Error;

use super::attribute_certificate::CERTIFICATES_MAX;
use super::short_fqan;
use super::vomses::is_word;
use crate::error::printable;

/// A request to one VO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributeRequest {
    /// The VO, or the alias under which `vomses` has its servers.
    pub vo: String,
    /// Groups and roles, `/vo/group/Role=x`, without empty parts; empty: the VO's default attributes of a member.
    pub fqans: Vec<String>,
}

/// Why nothing can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RequestError {
    /// It is of another form.
    #[error("'{0}' is neither a VO nor of the form 'vo:/vo/group/Role=role'")]
    Form(String),
    /// More than any proxy needs.
    #[error("attributes of at most 16 VOs, and 64 of each, can be asked for")]
    TooMany,
}

/// Groups and roles of one VO that can be asked for.
const FQANS_MAX: usize = 64;

impl AttributeRequest {
    /// Reads `vo`, `vo:all` and `vo:/vo/group/Role=x`: one request for each VO, in the order in which they come up first.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn read(commands: &[String]) -> Result<Vec<Self>, RequestError> {
        let mut requests: Vec<Self> = Vec::new();
        for command in commands {
            let (vo, fqan) = parts(command).ok_or_else(|| RequestError::Form(printable(command)))?;
            let place = requests.iter().position(|request| request.vo == vo);
            let place = place.unwrap_or_else(|| {
                requests.push(Self {
                    vo: vo.to_owned(),
                    fqans: Vec::new(),
                });
                requests.len() - 1
            });
            let fqans = &mut requests[place].fqans;
            if let Some(fqan) = fqan.filter(|fqan| !fqans.iter().any(|known| known == fqan)) {
                fqans.push(fqan.to_owned());
            }
            if requests.len() > CERTIFICATES_MAX || requests[place].fqans.len() > FQANS_MAX {
                return Err(RequestError::TooMany);
            }
        }
        Ok(requests)
    }
}

fn parts(command: &str) -> Option<(&str, Option<&str>)> {
    let (vo, fqan) = match command.split_once(':') {
        Some((vo, "all")) => (vo, None),
        Some((vo, fqan)) => (vo, Some(short_fqan(fqan))),
        None => (command, None),
    };
    (is_word(vo) && fqan.is_none_or(is_fqan)).then_some((vo, fqan))
}

/// Servers take it out of a URL as it stands there, without decoding.
fn is_fqan(text: &str) -> bool {
    let inside =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'=' | b'.' | b'-' | b'_' | b':' | b'@');
    (2..=255).contains(&text.len()) && text.starts_with('/') && text.bytes().all(inside)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]
mod tests {
    use super::*;

    fn read(commands: &[&str]) -> Result<Vec<(String, Vec<String>)>, RequestError> {
        let commands: Vec<_> = commands.iter().map(|command| (*command).to_owned()).collect();
        let requests = AttributeRequest::read(&commands)?;
        Ok(requests
            .into_iter()
            .map(|request| (request.vo, request.fqans))
            .collect())
    }

    /// Other attributes would be asked for than the user meant.
    #[test]
    fn commands_are_those_of_voms_clients() {
        let check = |commands: &[&str], expected: &[(&str, &[&str])]| {
            let expected: Vec<_> = expected
                .iter()
                .map(|(vo, fqans)| ((*vo).to_owned(), fqans.iter().map(|fqan| (*fqan).to_owned()).collect()))
                .collect();
            assert_eq!(read(commands).unwrap(), expected, "{commands:?}");
        };
        check(&[], &[]);
        check(&["dteam"], &[("dteam", &[])]);
        check(&["dteam:all", "dteam"], &[("dteam", &[])]);
        check(
            &[
                "dteam",
                "atlas:/atlas/Role=production",
                "dteam:/dteam/it/Role=NULL/Capability=NULL",
            ],
            &[("dteam", &["/dteam/it"]), ("atlas", &["/atlas/Role=production"])],
        );
        check(&["a:/a/Role=x", "a:/a/Role=x", "a:/a"], &[("a", &["/a/Role=x", "/a"])]);
    }

    /// A user could write a request of their own into ours.
    #[test]
    fn a_name_that_no_url_can_hold_is_refused() {
        for wrong in [
            "",
            ":",
            "a:",
            "a:b",
            "a b",
            "-a",
            "a:/",
            "a:/a,/b",
            "a:/a&lifetime=1",
            "a:/a b",
            "a:/a%20b",
            "a:/a#b",
            "a:/a?b",
            "a:/\u{e9}",
            "a:/a\r\nX: y",
        ] {
            assert!(matches!(read(&[wrong]), Err(RequestError::Form(_))), "{wrong}");
        }
        assert!(matches!(
            read(&[&format!("a:/{}", "x".repeat(255))]),
            Err(RequestError::Form(_))
        ));
        let many: Vec<_> = (0..17).map(|number| format!("vo{number}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(read(&many), Err(RequestError::TooMany));
        assert_eq!(read(&many[1..]).unwrap().len(), 16);
    }
}
