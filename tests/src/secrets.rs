//! Secrets that must be nowhere, and the search for them.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// Whether bytes hold something in the shape of a JWT, its signature cut off or not: `eyJ….eyJ…`.
pub fn holds_jwt(bytes: &[u8]) -> bool {
    let in_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let begins = |text: &[u8]| text.starts_with(b"eyJ") && text.len() >= 12;
    (0..bytes.len())
        .filter(|at| bytes[*at..].starts_with(b"eyJ"))
        .any(|at| {
            let end = bytes[at..]
                .iter()
                .position(|byte| !in_token(byte))
                .unwrap_or(bytes.len() - at);
            let mut parts = bytes[at..at + end].split(|byte| *byte == b'.');
            parts.next().is_some_and(begins) && parts.next().is_some_and(begins)
        })
}

/// Whether bytes hold others.
pub fn holds(bytes: &[u8], secret: &[u8]) -> bool {
    bytes.windows(secret.len()).any(|window| window == secret)
}

/// All files of a folder and of those in it.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            files.extend(files_below(&entry.path()));
        } else {
            files.push(entry.path());
        }
    }
    files
}

/// Secrets that only one file may hold, with the name of that file.
#[derive(Debug, Default)]
pub struct Secrets(pub BTreeMap<PathBuf, BTreeSet<Vec<u8>>>);

impl Secrets {
    /// Learns the secrets of a grid's directory as far as they are there by now.
    pub fn learn(&mut self, grid: &Path) {
        let lines = |text: &str| text.lines().map(|line| line.as_bytes().to_vec()).collect::<Vec<_>>();
        let data = grid.join("storage");
        for file in files_below(grid).into_iter().filter(|file| !file.starts_with(&data)) {
            let (Ok(bytes), Some(name)) = (fs::read(&file), file.file_name().and_then(|name| name.to_str())) else {
                continue;
            };
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let found = match name {
                "client.secret" => vec![text.trim().as_bytes().to_vec()],
                "signing-keys.json" => {
                    let ring: Value = serde_json::from_str(&text).unwrap();
                    let key = |name: &str| ring[name].as_str().unwrap().as_bytes().to_vec();
                    vec![key("current"), key("next")]
                }
                "seal.key" => vec![bytes.trim_ascii().to_vec()],
                _ if Path::new(name).extension().is_some_and(|e| e == "key") => lines(&text)
                    .into_iter()
                    .filter(|line| !line.starts_with(b"--"))
                    .collect(),
                // The user's certificate and key in one file, for programs that read one only.
                "both.pem" => lines(text.split("-----BEGIN PRIVATE KEY-----").nth(1).unwrap_or_default())
                    .into_iter()
                    .filter(|line| !line.starts_with(b"--"))
                    .collect(),
                _ if holds_jwt(&bytes) => vec![text.trim().as_bytes().to_vec()],
                _ => continue,
            };
            let known = self.0.entry(file).or_default();
            // A short line of a key's text is no secret by itself.
            known.extend(found.into_iter().filter(|secret| secret.len() >= 16));
        }
    }

    /// The file of the first secret that these bytes hold.
    fn in_bytes(&self, bytes: &[u8]) -> Option<&Path> {
        // Data areas are large: most positions are passed over by their first byte.
        let mut first = [false; 256];
        let all = || {
            self.0
                .iter()
                .flat_map(|(file, secrets)| secrets.iter().map(move |secret| (file, secret)))
        };
        all().for_each(|(_, secret)| first[usize::from(secret[0])] = true);
        let begins = (0..bytes.len()).filter(|at| first[usize::from(bytes[*at])]);
        begins
            .filter_map(|at| all().find(|(_, secret)| bytes[at..].starts_with(secret)))
            .map(|(file, _)| file.as_path())
            .next()
    }

    /// # Panics
    /// If the bytes hold one of them, or anything that looks like a token or a private key.
    pub fn assert_absent(&self, place: &str, bytes: &[u8]) {
        assert!(!holds_jwt(bytes), "a token is in {place}");
        assert!(!holds(bytes, b"PRIVATE KEY"), "a private key is in {place}");
        let found = self.in_bytes(bytes);
        assert!(
            found.is_none(),
            "what belongs into {} is in {place}",
            found.unwrap().display()
        );
    }
}

/// Arguments and environment of a process and of those that it started.
pub fn process_words(pid: u32) -> Vec<u8> {
    let mut words = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let own = entry.file_name().to_str() == Some(&pid.to_string());
        if own || status.lines().any(|line| line == format!("PPid:\t{pid}")) {
            words.extend(fs::read(entry.path().join("cmdline")).unwrap_or_default());
            words.push(0);
            words.extend(fs::read(entry.path().join("environ")).unwrap_or_default());
        }
    }
    words
}
