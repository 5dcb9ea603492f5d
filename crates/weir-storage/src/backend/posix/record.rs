//! Checksums and creator kept with a file, in the extended attribute `user.weir.checksums`.
//!
//! Text, so that people can read it with `getfattr`: `1 size=12 mtime_ns=1700000000000000000 by=… adler32:0a1b2c3d crc32c:…`.
//! It counts only while the file has that size and modification time: a file changed by other means has no checksums.
//!
//! The properties that clients give files and directories lie beside it, in `user.weir.properties`.

use std::{fmt, str::FromStr};

use rustix::{
    fd::OwnedFd,
    fs::{self, XattrFlags},
    io::Errno,
};
use weir_units::{Checksum, Checksums};

use super::Meta;
use crate::backend::Creator;

const NAME: &str = "user.weir.checksums";

/// Stands before the creator.
const BY: &str = "by=";

/// The content of the attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) size: u64,
    pub(super) modified_ns: i64,
    pub(super) checksums: Checksums,
    pub(super) creator: Option<Creator>,
}

impl Record {
    pub(super) fn belongs_to(&self, meta: &Meta) -> bool {
        (self.size, self.modified_ns) == (meta.size, meta.modified_ns)
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1 size={} mtime_ns={}", self.size, self.modified_ns)?;
        if let Some(creator) = self.creator {
            write!(f, " {BY}{creator}")?;
        }
        self.checksums.iter().try_for_each(|checksum| write!(f, " {checksum}"))
    }
}

impl FromStr for Record {
    type Err = ();

    /// Checksums of unknown algorithms are passed over: a newer endpoint may have written them.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split_ascii_whitespace();
        if words.next() != Some("1") {
            return Err(());
        }
        let mut number = |key: &str| words.next().and_then(|word| word.strip_prefix(key)).ok_or(());
        let size = number("size=")?.parse().map_err(drop)?;
        let modified_ns = number("mtime_ns=")?.parse().map_err(drop)?;
        // Versions that knew no creator pass it over, as a checksum of an unknown algorithm.
        let (mut creator, mut checksums) = (None, Checksums::default());
        for word in words {
            match word.strip_prefix(BY) {
                Some(text) => creator = text.parse().ok(),
                None => word
                    .parse::<Checksum>()
                    .into_iter()
                    .for_each(|checksum| checksums.insert(checksum)),
            }
        }
        Ok(Self {
            size,
            modified_ns,
            checksums,
            creator,
        })
    }
}

/// Whether the file system keeps extended attributes of users.
pub(super) fn probe(file: &OwnedFd) -> bool {
    fs::fsetxattr(file, "user.weir.probe", b"1", XattrFlags::empty()).is_ok()
}

pub(super) fn write(file: &OwnedFd, record: &Record) -> Result<(), Errno> {
    fs::fsetxattr(file, NAME, record.to_string().as_bytes(), XattrFlags::empty())
}

/// None if there is no record, or none that can be read.
pub(super) fn read(file: &OwnedFd) -> Option<Record> {
    // Four checksums take 200 bytes.
    let mut buffer = [0_u8; 1024];
    let length = fs::fgetxattr(file, NAME, &mut buffer[..]).ok()?;
    std::str::from_utf8(&buffer[..length]).ok()?.parse().ok()
}

/// Where a text that clients have given a file or directory is kept.
const PROPERTIES: &str = "user.weir.properties";

/// Sizes of the read buffer: enough for most, and the largest value that Linux stores.
const PROPERTIES_SIZES: [usize; 2] = [4 << 10, 64 << 10];

/// The text of a file or directory; none if there is none, or none that is text.
pub(super) fn properties(file: &OwnedFd) -> Result<Option<String>, Errno> {
    for size in PROPERTIES_SIZES {
        let mut text = vec![0; size];
        match fs::fgetxattr(file, PROPERTIES, &mut text[..]) {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(None),
            Err(Errno::RANGE) => {}
            length => {
                text.truncate(length?);
                return Ok(String::from_utf8(text).ok());
            }
        }
    }
    Ok(None)
}

pub(super) fn keep_properties(file: &OwnedFd, text: Option<&str>) -> Result<(), Errno> {
    match text {
        Some(text) => fs::fsetxattr(file, PROPERTIES, text.as_bytes(), XattrFlags::empty()),
        None => match fs::fremovexattr(file, PROPERTIES) {
            Err(Errno::NODATA) => Ok(()),
            outcome => outcome,
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    /// A record that is misread would give a wrong checksum for a good file.
    #[test]
    fn a_record_reads_as_it_was_written() {
        let checksums: Checksums = [Checksum::adler32(0x0a1b_2c3d), Checksum::crc32c(1)]
            .into_iter()
            .collect();
        let record = Record {
            size: 12,
            modified_ns: 1_700_000_000_000_000_001,
            checksums,
            creator: None,
        };
        assert_eq!(
            record.to_string(),
            "1 size=12 mtime_ns=1700000000000000001 adler32:0a1b2c3d crc32c:00000001"
        );
        assert_eq!(record.to_string().parse::<Record>().unwrap(), record);
        let signed = Record {
            creator: Some(Creator::of_token("https://i", "alice")),
            ..record.clone()
        };
        assert_eq!(signed.to_string().parse::<Record>().unwrap(), signed);
        let broken = signed.to_string().replace("by=", "by=0");
        assert_eq!(broken.parse::<Record>().unwrap(), record);
        let newer = format!("{record} blake9:00");
        assert_eq!(newer.parse::<Record>().unwrap(), record);
        for broken in [
            "",
            "1",
            "2 size=1 mtime_ns=1",
            "1 mtime_ns=1 size=1",
            "1 size=x mtime_ns=1",
            "1 size=-1 mtime_ns=1",
        ] {
            assert!(broken.parse::<Record>().is_err(), "{broken}");
        }
    }
}
