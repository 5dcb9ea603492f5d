//! The signing keys: the current one, the next one, which is published in advance, and former ones whose tokens still
//! live.
//!
//! The ring is one file, written whole (mode 0600, renamed into place) before any key of it is used. A crash
//! at any point leaves a ring whose keys services already know. A key is published for a whole period before it signs:
//! a service that refreshes its keys now and then never meets an unknown one. After its period it stays published for
//! as long as a token that it signed may live.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weir_auth::files::{durable_folder, read_own, write_private};
use weir_auth::signing::{SigningKey, SigningKeyError};
use weir_auth::{LEEWAY, Secret};

/// The file within the key directory.
const FILE: &str = "signing-keys.json";
/// The file with the key of refresh tokens.
const REFRESH: &str = "refresh.key";
/// The file that is locked while an issuer uses the directory.
const LOCK: &str = "lock";

/// Why there are no signing keys.
#[derive(Debug, Error)]
pub enum KeyError {
    /// A file of the key directory cannot be read or written.
    #[error("could not access {path}")]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Another issuer uses the directory.
    #[error("{0} is in use by another issuer")]
    InUse(PathBuf),
    /// The file was not written by an issuer.
    #[error("{0} does not hold signing keys")]
    Content(PathBuf),
    /// No key could be made.
    #[error(transparent)]
    Make(#[from] SigningKeyError),
}

impl KeyError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::File {
            path: path.to_owned(),
            source,
        }
    }
}

/// The keys at one time. Seconds are since the Unix epoch.
#[derive(Debug, Clone)]
pub(crate) struct Ring {
    pub(crate) current: Arc<SigningKey>,
    /// Since when `current` signs.
    pub(crate) signs_since: u64,
    pub(crate) next: Arc<SigningKey>,
    /// Keys that signed before, each with the time until which it is published; latest last.
    pub(crate) previous: Vec<(Arc<SigningKey>, u64)>,
}

impl Ring {
    fn new(now: u64) -> Result<Self, KeyError> {
        let (current, next) = (SigningKey::generate()?, SigningKey::generate()?);
        Ok(Self {
            current: Arc::new(current),
            signs_since: now,
            next: Arc::new(next),
            previous: Vec::new(),
        })
    }

    /// All keys that services should know.
    pub(crate) fn published(&self) -> impl Iterator<Item = &SigningKey> {
        [&self.current, &self.next]
            .into_iter()
            .chain(self.previous.iter().map(|(key, _)| key))
            .map(Arc::as_ref)
    }

    /// Whether the next key's turn has come. A clock that was set back does not bring it forward.
    fn is_due(&self, now: u64, rotation: Duration) -> bool {
        now >= self.signs_since.saturating_add(rotation.as_secs())
    }

    /// Whether the next key is due, or a former one to be removed.
    pub(crate) fn changes(&self, now: u64, rotation: Duration) -> bool {
        self.is_due(now, rotation) || self.previous.iter().any(|(_, until)| *until <= now)
    }

    /// The ring after a rotation: the next key signs, and the former one is published while its tokens live.
    fn turned(self, now: u64, lifetime: Duration) -> Result<Self, KeyError> {
        let mut previous = self.previous;
        previous.push((self.current, now + (lifetime + LEEWAY).as_secs()));
        Ok(Self {
            current: self.next,
            signs_since: now,
            next: Arc::new(SigningKey::generate()?),
            previous,
        })
    }
}

/// The ring as it is on disk.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    schema: String,
    current: String,
    signs_since: u64,
    next: String,
    previous: Vec<StoredPrevious>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPrevious {
    key: String,
    published_until: u64,
}

/// The value of `schema`.
const SCHEMA: &str = "weir-signing-keys/1";

/// A key directory, held by this process.
#[derive(Debug)]
pub(crate) struct KeyStore {
    file: PathBuf,
    /// Locked until dropped.
    _lock: File,
}

impl KeyStore {
    /// Opens the directory, which is made if missing, for this process alone.
    pub(crate) fn open(dir: &Path) -> Result<Self, KeyError> {
        durable_folder(dir).map_err(KeyError::file(dir))?;
        let path = dir.join(LOCK);
        let lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(KeyError::file(&path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                file: dir.join(FILE),
                _lock: lock,
            }),
            Err(fs::TryLockError::WouldBlock) => Err(KeyError::InUse(dir.to_owned())),
            Err(fs::TryLockError::Error(source)) => Err(KeyError::File { path, source }),
        }
    }

    /// The key of refresh tokens; made and written if there is none. Without this file all of them are void.
    pub(crate) fn refresh_key(&self) -> Result<Secret, KeyError> {
        let path = self.file.with_file_name(REFRESH);
        match Secret::read(&path) {
            Ok(key) => Ok(key),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let fresh = SigningKey::generate()?.to_base64().clone();
                write_private(&path, fresh.expose().as_bytes()).map_err(KeyError::file(&path))?;
                Ok(fresh)
            }
            Err(source) => Err(KeyError::File { path, source }),
        }
    }

    /// The ring on disk; a new one, which is written, if there is none.
    pub(crate) fn load_or_create(&self, now: u64) -> Result<Ring, KeyError> {
        let ring = match read_own(&self.file) {
            Ok(text) => return read(&Secret::new(text)).ok_or_else(|| KeyError::Content(self.file.clone())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ring::new(now)?,
            Err(source) => {
                return Err(KeyError::File {
                    path: self.file.clone(),
                    source,
                });
            }
        };
        self.write(&ring)?;
        Ok(ring)
    }

    /// Rotates the ring if it is due, or if `force` is set, and drops keys whose tokens have all expired; `None` if
    /// nothing changes. The returned ring is on disk.
    pub(crate) fn advance(&self, ring: &Ring, now: u64, times: Times, force: bool) -> Result<Option<Ring>, KeyError> {
        if !force && !ring.changes(now, times.rotation) {
            return Ok(None);
        }
        let mut ring = ring.clone();
        ring.previous.retain(|(_, until)| *until > now);
        if force || ring.is_due(now, times.rotation) {
            ring = ring.turned(now, times.lifetime)?;
        }
        self.write(&ring)?;
        Ok(Some(ring))
    }

    fn write(&self, ring: &Ring) -> Result<(), KeyError> {
        let stored = Stored {
            schema: SCHEMA.to_owned(),
            current: ring.current.to_base64().expose().to_owned(),
            signs_since: ring.signs_since,
            next: ring.next.to_base64().expose().to_owned(),
            previous: ring
                .previous
                .iter()
                .map(|(key, until)| StoredPrevious {
                    key: key.to_base64().expose().to_owned(),
                    published_until: *until,
                })
                .collect(),
        };
        let text = Secret::new(serde_json::to_string_pretty(&stored).expect("texts and numbers are always JSON"));
        write_private(&self.file, text.expose().as_bytes()).map_err(KeyError::file(&self.file))
    }
}

/// How long keys and tokens live.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) rotation: Duration,
    pub(crate) lifetime: Duration,
}

/// The ring that the text holds; none if it holds none.
fn read(text: &Secret) -> Option<Ring> {
    let stored: Stored = serde_json::from_str(text.expose()).ok()?;
    if stored.schema != SCHEMA {
        return None;
    }
    let key = |text: String| SigningKey::from_base64(&Secret::new(text)).ok().map(Arc::new);
    let previous = stored
        .previous
        .into_iter()
        .map(|previous| Some((key(previous.key)?, previous.published_until)))
        .collect::<Option<_>>()?;
    Some(Ring {
        current: key(stored.current)?,
        signs_since: stored.signs_since,
        next: key(stored.next)?,
        previous,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a panic is how a test fails

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const TIMES: Times = Times {
        rotation: Duration::from_secs(1000),
        lifetime: Duration::from_secs(300),
    };

    fn ids(ring: &Ring) -> Vec<String> {
        ring.published().map(|key| key.id().to_owned()).collect()
    }

    #[test]
    fn keys_are_published_before_they_sign_and_until_their_tokens_are_dead() {
        // Services would refuse good tokens at every rotation.
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::open(dir.path()).unwrap();
        let first = store.load_or_create(0).unwrap();
        assert!(store.advance(&first, 999, TIMES, false).unwrap().is_none());
        let second = store.advance(&first, 1000, TIMES, false).unwrap().unwrap();
        assert_eq!(second.current.id(), first.next.id());
        assert!(ids(&second).contains(&first.current.id().to_owned()));
        assert!(store.advance(&second, 1359, TIMES, false).unwrap().is_none());
        let third = store.advance(&second, 1360, TIMES, false).unwrap().unwrap();
        assert_eq!(ids(&third), [second.current.id(), second.next.id()]);
    }

    #[test]
    fn the_ring_survives_a_restart_in_a_file_for_its_owner_alone() {
        // All tokens would become void at a restart, or anybody on the host could sign some.
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::open(dir.path()).unwrap();
        let before = store
            .advance(&store.load_or_create(0).unwrap(), 5000, TIMES, true)
            .unwrap()
            .unwrap();
        drop(store);
        let after = KeyStore::open(dir.path()).unwrap().load_or_create(5001).unwrap();
        assert_eq!(ids(&before), ids(&after));
        let mode = fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_directory_serves_one_issuer_at_a_time() {
        // Two issuers would overwrite each other's keys.
        let dir = tempfile::tempdir().unwrap();
        let first = KeyStore::open(dir.path()).unwrap();
        assert!(matches!(KeyStore::open(dir.path()), Err(KeyError::InUse(_))));
        drop(first);
        assert!(KeyStore::open(dir.path()).is_ok());
    }

    #[test]
    fn a_broken_file_is_not_replaced() {
        // A truncated or foreign file would silently become a new set of keys, and all tokens void.
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::open(dir.path()).unwrap();
        for text in ["", "{}", "null", "{\"schema\":\"weir-signing-keys/2\"}"] {
            fs::write(dir.path().join(FILE), text).unwrap();
            assert!(matches!(store.load_or_create(0), Err(KeyError::Content(_))), "{text}");
        }
    }
}
