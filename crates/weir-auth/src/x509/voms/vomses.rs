//! `vomses`: the addresses and names of the VOMS servers of VOs. A line each, as every VOMS client reads it:
//!
//! ```text
//! "alias" "host" "port" "name of the server's certificate" "vo"
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::super::error::X509Error;
use super::super::folder::list;
use super::super::name::usual_form;

/// A VOMS server, as a line of `vomses` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VomsServer {
    /// Its name for users: usually the VO.
    pub alias: String,
    /// A DNS name or an IPv4 address.
    pub host: String,
    /// Never 0.
    pub port: u16,
    /// The name of its certificate in slash form.
    pub subject: String,
    /// Its VO.
    pub vo: String,
}

/// A line of `vomses` that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {wanted} expected")]
pub struct VomsesLine {
    /// From 1.
    pub line: usize,
    /// The expected element.
    pub wanted: &'static str,
}

/// Why `vomses` cannot be used.
#[derive(Debug, Error)]
pub enum VomsesError {
    /// The file or the folder cannot be read.
    #[error("could not read {path}")]
    Read {
        /// The path.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The file cannot be understood.
    #[error("could not understand {path}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: VomsesLine,
    },
}

/// The servers of all VOs, in the order of their lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vomses(Vec<VomsServer>);

impl Vomses {
    /// Parses a file's text. Empty lines and comments (`#`) are ignored, and so is a sixth field, the version of
    /// Globus.
    ///
    /// # Errors
    /// The first line that cannot be read.
    pub fn parse(text: &str) -> Result<Self, VomsesLine> {
        let mut servers = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let refuse = |wanted| VomsesLine {
                line: number + 1,
                wanted,
            };
            servers.push(server(line).map_err(refuse)?);
        }
        Ok(Self(servers))
    }

    /// Reads a file, or all files of a folder and of the folders in it, in the order of their paths. In a folder an
    /// unreadable file is left out, with a line in the log: one VO's odd file must not shut out the others. Names that
    /// begin with a dot are ignored.
    ///
    /// # Errors
    /// [`VomsesError`].
    pub fn load(path: &Path) -> Result<Self, VomsesError> {
        let unread = |source| VomsesError::Read {
            path: path.to_owned(),
            source,
        };
        if !fs::metadata(path).map_err(unread)?.is_dir() {
            return Self::file(path);
        }
        let entries = list(path, 1).map_err(|error| match error {
            X509Error::Trust { path, source } => VomsesError::Read { path, source },
            other => unread(io::Error::other(other)),
        })?;
        let mut all = Self::default();
        for entry in entries {
            let name = entry.path.file_name().unwrap_or_default();
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            match Self::file(&entry.path) {
                Ok(servers) => all.0.extend(servers.0),
                Err(error) => tracing::warn!(error = %crate::error_chain(&error), "file of VOMS servers left out"),
            }
        }
        Ok(all)
    }

    fn file(path: &Path) -> Result<Self, VomsesError> {
        let path_owned = || path.to_owned();
        let text = fs::read_to_string(path).map_err(|source| VomsesError::Read {
            path: path_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|source| VomsesError::Line {
            path: path_owned(),
            source,
        })
    }

    /// The servers with this alias; if there are none, those of the VO of this name.
    pub fn of(&self, name: &str) -> Vec<&VomsServer> {
        let those = |fits: fn(&VomsServer) -> &str| self.0.iter().filter(move |server| fits(server) == name).collect();
        let by_alias: Vec<_> = those(|server| &server.alias);
        if by_alias.is_empty() {
            those(|server| &server.vo)
        } else {
            by_alias
        }
    }

    /// All servers.
    pub fn servers(&self) -> &[VomsServer] {
        &self.0
    }
}

fn server(line: &str) -> Result<VomsServer, &'static str> {
    let mut rest = line;
    let mut next = |wanted| field(&mut rest).ok_or(wanted);
    let alias = next("an alias in quotes")?;
    let host = next("a host in quotes")?;
    let port = next("a port in quotes")?;
    let subject = next("the name of the server's certificate in quotes")?;
    let vo = next("a VO in quotes")?;
    let _globus_version = field(&mut rest);
    if !rest.trim().is_empty() {
        return Err("the end of the line behind the VO");
    }
    let port = port.parse().ok().filter(|port| *port != 0);
    if !is_word(host) {
        return Err("a host name");
    }
    if !is_word(vo) {
        return Err("a VO of letters, digits, dots, - and _");
    }
    if !subject.starts_with('/') || !subject.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Err("a name that begins with /");
    }
    Ok(VomsServer {
        alias: alias.to_owned(),
        host: host.to_owned(),
        port: port.ok_or("a port from 1 to 65535")?,
        subject: usual_form(subject),
        vo: vo.to_owned(),
    })
}

/// The next quoted text, which is not empty.
fn field<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let (field, after) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
    *rest = after;
    Some(field).filter(|field| !field.is_empty())
}

/// The characters of hosts and VOs, which can stand in a URL unescaped.
pub(crate) fn is_word(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    !text.is_empty() && text.bytes().all(inside) && text.starts_with(|first: char| first.is_ascii_alphanumeric())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINE: &str = r#""dteam" "voms.example.org" "15004" "/C=XY/O=Grid/CN=voms.example.org" "dteam.org""#;

    /// A VO's users would be told that there is no server, or another VO's would be asked.
    #[test]
    fn servers_are_found_by_alias_and_else_by_vo() {
        let text = format!(
            "# servers\n\n{LINE}\r\n  {LINE} \"24\"  \n\"dteam.org\" \"b\" \"1\" \"/CN=b/Email=x\" \"other\"\n"
        );
        let vomses = Vomses::parse(&text).unwrap();
        assert_eq!(vomses.servers().len(), 3);
        assert_eq!(vomses.servers()[0], vomses.servers()[1]);
        assert_eq!(vomses.of("dteam").len(), 2);
        assert_eq!(vomses.of("dteam.org")[0].subject, "/CN=b/emailAddress=x");
        assert_eq!(vomses.of("other")[0].host, "b");
        assert!(vomses.of("nobody").is_empty());
    }

    /// An operator would look for a mistake in the wrong place.
    #[test]
    fn a_line_that_is_wrong_is_named() {
        let check = |line: &str, wanted: &str| {
            let error = Vomses::parse(&format!("{LINE}\n{line}")).unwrap_err();
            assert_eq!(error.line, 2, "{line}");
            assert!(error.wanted.contains(wanted), "{line}: {error}");
        };
        check("dteam voms 15000 /CN=x dteam", "alias");
        check("\"\" \"h\" \"1\" \"/CN=x\" \"v\"", "alias");
        check("\"a\" \"h\" \"1\" \"/CN=x\"", "a VO");
        check("\"a\" \"h\" \"1\" \"/CN=x\" \"v", "a VO");
        check("\"a\" \"h h\" \"1\" \"/CN=x\" \"v\"", "host");
        check("\"a\" \"h/p\" \"1\" \"/CN=x\" \"v\"", "host");
        check("\"a\" \"h\" \"0\" \"/CN=x\" \"v\"", "port");
        check("\"a\" \"h\" \"65536\" \"/CN=x\" \"v\"", "port");
        check("\"a\" \"h\" \"1\" \"CN=x\" \"v\"", "begins with /");
        check("\"a\" \"h\" \"1\" \"/CN=x\" \"v/w\"", "letters");
        check("\"a\" \"h\" \"1\" \"/CN=x\" \"v\" \"24\" more", "end of the line");
    }

    /// One VO's odd file would shut out all others; a missing folder would be no server at all.
    #[test]
    fn a_folder_is_read_file_by_file() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        put("b", "\"b\" \"h\" \"1\" \"/CN=x\" \"b\"");
        put("a", LINE);
        put("broken", "nonsense");
        put(".hidden", "\"c\" \"h\" \"1\" \"/CN=x\" \"c\"");
        let vomses = Vomses::load(dir.path()).unwrap();
        let aliases: Vec<_> = vomses.servers().iter().map(|server| server.alias.as_str()).collect();
        assert_eq!(aliases, ["dteam", "b"]);
        assert_eq!(Vomses::load(&dir.path().join("a")).unwrap().servers().len(), 1);
        let broken = Vomses::load(&dir.path().join("broken")).unwrap_err();
        assert!(
            crate::error_chain(&broken).contains("broken: line 1: an alias"),
            "{broken}"
        );
        assert!(matches!(
            Vomses::load(&dir.path().join("none")),
            Err(VomsesError::Read { .. })
        ));
    }

    proptest! {
        /// A line written by one program would be read differently here.
        #[test]
        fn lines_read_back(
            fields in proptest::collection::vec(
                ("[^\"\r\n]{1,20}", "[a-z0-9][a-z0-9.-]{0,20}", 1_u16.., "/[A-Z]{1,3}=[ !#-~]{1,20}", "[a-z][a-z0-9._-]{0,9}"),
                0..5,
            ),
        ) {
            let text: String = fields
                .iter()
                .map(|(alias, host, port, subject, vo)| format!("\"{alias}\"\t\"{host}\" \"{port}\"  \"{subject}\" \"{vo}\"\n"))
                .collect();
            let read = Vomses::parse(&text).unwrap();
            let expected = fields.into_iter().map(|(alias, host, port, subject, vo)| VomsServer {
                alias,
                host,
                port,
                subject: usual_form(&subject),
                vo,
            });
            prop_assert_eq!(read.0, expected.collect::<Vec<_>>());
        }
    }
}
