//! Secrets at rest: AES-256-GCM under a key that lives in a file of its own.

use std::{
    fs::File,
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey},
    rand::{SecureRandom as _, SystemRandom},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use weir_auth::{
    Secret,
    files::{open_own, write_private},
};
use zeroize::Zeroizing;

use crate::error::StoreError;

const KEY_BYTES: usize = 32;
/// 96 bits: the nonce of GCM (NIST SP 800-38D section 5.2.1.1). Random ones are safe for 2^32 secrets under one key.
const NONCE_BYTES: usize = 12;

/// First byte of a packed token. No text begins so: UTF-8 has no such byte.
const PACKED: u8 = 0xff;

/// A token of three parts without its base64, which is a quarter of it. None if it would not come back as it was.
fn packed(token: &str) -> Option<Vec<u8>> {
    let (signed, signature) = token.rsplit_once('.')?;
    let (header, claims) = signed.split_once('.')?;
    let mut packed = Vec::with_capacity(token.len());
    packed.push(PACKED);
    for part in [header, claims] {
        let from = packed.len();
        packed.extend_from_slice(&[0, 0]);
        // Padding, and unused bits that are set, are errors: each value has exactly one encoding.
        URL_SAFE_NO_PAD.decode_vec(part, &mut packed).ok()?;
        let length = u16::try_from(packed.len() - from - 2).ok()?;
        packed[from..from + 2].copy_from_slice(&length.to_be_bytes());
    }
    URL_SAFE_NO_PAD.decode_vec(signature, &mut packed).ok()?;
    Some(packed)
}

fn unpacked(packed: &[u8]) -> Option<String> {
    let (mut token, mut rest) = (String::with_capacity(packed.len() * 4 / 3 + 4), packed);
    for _ in 0..2 {
        let (length, more) = rest.split_first_chunk::<2>()?;
        let (part, more) = more.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        URL_SAFE_NO_PAD.encode_string(part, &mut token);
        token.push('.');
        rest = more;
    }
    URL_SAFE_NO_PAD.encode_string(rest, &mut token);
    Some(token)
}

/// Seals and opens secrets. The sealed form is nonce, ciphertext and tag. The secret's name is bound to it: under another name it
/// does not open. Tokens of three parts are kept without their base64.
pub struct Sealer {
    key: RandomizedNonceKey,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer(***)")
    }
}

impl Sealer {
    /// Reads the key file. If there is none, returns a fresh key that is in no file yet: nothing may be sealed before
    /// [`FreshKey::keep`].
    ///
    /// # Errors
    /// Also if others than the owner may read it, for an exposed key must be replaced, not used. Also if it holds zeros, which a
    /// file system may leave after a power cut.
    pub fn from_file(path: &Path) -> Result<(Self, Option<FreshKey>), StoreError> {
        let problem = |reason: String| StoreError::Key {
            path: path.to_owned(),
            reason,
        };
        let mut file = match open_own(path, File::options().read(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let mut key = Zeroizing::new([0; KEY_BYTES]);
                let random = SystemRandom::new().fill(key.as_mut_slice());
                random.map_err(|_| problem("no randomness to be had".into()))?;
                let sealer = Self::from_key(key.as_slice()).ok_or_else(|| problem("a fresh key was refused".into()))?;
                let path = path.to_owned();
                return Ok((sealer, Some(FreshKey { path, key })));
            }
            Err(error) => return Err(problem(error.to_string())),
        };
        let mode = file
            .metadata()
            .map_err(|error| problem(error.to_string()))?
            .permissions()
            .mode()
            & 0o777;
        if mode & 0o077 != 0 {
            return Err(problem(format!(
                "its mode is {mode:04o}; make it 0600, or replace the key if others read it"
            )));
        }
        let mut key = Zeroizing::new(Vec::new());
        file.read_to_end(&mut key).map_err(|error| problem(error.to_string()))?;
        if key.iter().all(|byte| *byte == 0) {
            let lost = "it holds no key but zeros, or nothing; put back the key from a copy. If there is none, remove the file and what was \
                        sealed with it, or begin with a new store";
            return Err(problem(lost.into()));
        }
        let sealer =
            Self::from_key(&key).ok_or_else(|| problem(format!("it holds {} bytes, not {KEY_BYTES}", key.len())))?;
        Ok((sealer, None))
    }

    /// A key that dies with the process.
    ///
    /// # Panics
    /// The system gives no randomness.
    #[cfg(any(test, fuzzing, feature = "testing"))]
    pub fn ephemeral() -> Self {
        let mut key = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut key).expect("the system gives randomness");
        Self::from_key(&key).expect("the key has the right length")
    }

    fn from_key(key: &[u8]) -> Option<Self> {
        RandomizedNonceKey::new(&AES_256_GCM, key).ok().map(|key| Self { key })
    }

    /// Seals a secret under a name.
    ///
    /// # Panics
    /// It is longer than 64 GiB.
    pub fn seal(&self, name: impl AsRef<[u8]>, secret: &Secret) -> Vec<u8> {
        let text = secret.expose();
        let mut text = packed(text).unwrap_or_else(|| text.as_bytes().to_vec());
        let nonce = self
            .key
            .seal_in_place_append_tag(Aad::from(name.as_ref()), &mut text)
            .expect("a secret is far shorter than the 64 GiB that GCM takes");
        let mut sealed = nonce.as_ref().to_vec();
        sealed.extend_from_slice(&text);
        sealed
    }

    /// Opens a sealed secret. `None` if it was sealed with another key, under another name, or was changed.
    pub fn open(&self, name: impl AsRef<[u8]>, sealed: &[u8]) -> Option<Secret> {
        let (nonce, text) = sealed.split_at_checked(NONCE_BYTES)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = text.to_vec();
        let plain = self
            .key
            .open_in_place(nonce, Aad::from(name.as_ref()), &mut text)
            .ok()?;
        match plain.split_first() {
            Some((&PACKED, packed)) => unpacked(packed).map(Secret::new),
            _ => Some(Secret::new(std::str::from_utf8(plain).ok()?)),
        }
    }
}

/// A key that is in no file yet.
pub struct FreshKey {
    path: PathBuf,
    key: Zeroizing<[u8; KEY_BYTES]>,
}

impl FreshKey {
    /// Writes the key (mode 0600), so that it survives a power cut, before anything is sealed with it.
    ///
    /// # Errors
    /// Also if the store holds something that is sealed (`sealed`): then its key was lost, and a new one would open nothing of it.
    pub fn keep(self, sealed: bool) -> Result<(), StoreError> {
        let Self { path, key } = self;
        if sealed {
            let reason = "it is missing, and the store holds tokens that were sealed with it; put it back from a copy, or set key_file to \
                          where it is. If it is lost, begin with a new store: what waits with those tokens can not go on";
            return Err(StoreError::Key {
                path,
                reason: reason.to_owned(),
            });
        }
        write_private(&path, key.as_slice()).map_err(|error| StoreError::Key {
            path,
            reason: error.to_string(),
        })
    }
}

/// The sealer of a key file, which is made if it is missing, whatever the content of the store.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn for_tests(path: &Path) -> Sealer {
    let (sealer, fresh) = Sealer::from_file(path).expect("the file can be read");
    if let Some(fresh) = fresh {
        fresh.keep(false).expect("the file can be written");
    }
    sealer
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use std::fs;

    use super::*;

    #[test]
    fn a_sealed_secret_opens_with_its_key_and_name_only() {
        let (sealer, other) = (Sealer::ephemeral(), Sealer::ephemeral());
        let name = b"eyJ-token".as_slice();
        let sealed = sealer.seal(name, &Secret::new("eyJ-token"));
        assert_eq!(sealer.open(name, &sealed).unwrap().expose(), "eyJ-token");
        assert!(other.open(name, &sealed).is_none());
        assert!(sealer.open(b"x", &sealed).is_none());
        assert!(sealer.open(name, &sealed[..5]).is_none());
        assert!(!sealed.windows(5).any(|window| window == b"token"));
    }

    #[test]
    fn a_packed_value_comes_back_as_it_was() {
        let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let token = format!(
            "{}.{}.{}",
            part(b"{\"alg\":\"ES256\"}"),
            part(&[0, 255, 7]),
            part(&[9; 64])
        );
        let short = packed(&token).unwrap();
        assert!(short.len() < token.len() * 4 / 5, "{} of {}", short.len(), token.len());
        // The last but one has bits that say nothing: written anew, they would be gone.
        let texts = [
            "",
            ".",
            "..",
            "a.b",
            "YQ.YQ.YQ",
            "YQ.YQ.YQ.YQ",
            "YQ==.YQ.YQ",
            "YQ.YR.YQ",
            "opaque-token.YQ",
        ];
        let long = format!("YQ.{}.YQ", part(&vec![1; 70_000]));
        let sealer = Sealer::ephemeral();
        for text in texts.into_iter().chain([token.as_str(), &long]) {
            let sealed = sealer.seal(text.as_bytes(), &Secret::new(text));
            assert_eq!(sealer.open(text.as_bytes(), &sealed).unwrap().expose(), text);
        }
        assert!(
            [&[0, 9][..], &[0, 1, 5, 0], &[0]]
                .iter()
                .all(|broken| unpacked(broken).is_none())
        );
    }

    #[test]
    fn the_key_file_is_made_once_and_for_the_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token.key");
        let sealed = for_tests(&path).seal(b"t", &Secret::new("t"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(for_tests(&path).open(b"t", &sealed).unwrap().expose(), "t");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = Sealer::from_file(&path).err().unwrap().to_string();
        assert!(error.contains("0644"), "{error}");
    }

    #[test]
    fn a_key_that_a_power_cut_took_is_not_replaced_by_another() {
        // All waiting transfers with tokens would fail one by one, with an unknown cause.
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token.key");
        let refused = |content: &[u8], word: &str| {
            write_private(&path, content).unwrap();
            let error = Sealer::from_file(&path).err().unwrap().to_string();
            assert!(error.contains(word), "{error}");
        };
        refused(&[0; KEY_BYTES], "zeros");
        refused(&[], "nothing");
        refused(&[1; KEY_BYTES - 1], "31 bytes");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(
            Sealer::from_file(&path)
                .err()
                .unwrap()
                .to_string()
                .contains("symbolic link")
        );
        fs::remove_file(&path).unwrap();
        let (_, fresh) = Sealer::from_file(&path).unwrap();
        let error = fresh.unwrap().keep(true).unwrap_err().to_string();
        assert!(error.contains("it is missing") && !path.exists(), "{error}");
    }
}
