//! Comparison of a file with its expected properties. Pure.

use weir_units::{Algorithm, Checksum};
use weir_world::{ErrorClass, Failure, Party, Phase, Retry};

use crate::job::{ChecksumMode, File, JobParams};
use crate::{requests::failure::Scene, steps::stat::Stat};

/// The properties of the file from the submission.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    pub(crate) mode: ChecksumMode,
    pub(crate) algorithm: Algorithm,
    pub(crate) checksum: Option<Checksum>,
    pub(crate) size: Option<u64>,
}

impl Expected {
    pub(crate) fn of(file: &File, params: &JobParams) -> Self {
        let text = &file.spec.checksum;
        let checksum = text.parse::<Checksum>().ok();
        let name = text.split(':').next().unwrap_or_default();
        let algorithm = checksum
            .as_ref()
            .map(|checksum| checksum.algorithm)
            .or_else(|| name.parse().ok());
        Self {
            mode: params.verify_checksum,
            algorithm: algorithm.unwrap_or(Algorithm::Adler32),
            checksum,
            size: file.spec.user_filesize,
        }
    }

    /// Whether the source must tell its checksum: because it is compared itself, or stands in for the user's.
    pub(crate) fn needs_source_checksum(&self) -> bool {
        self.mode.source() || (self.mode.target() && self.checksum.is_none())
    }

    /// Compares the source with the submission.
    pub(crate) fn check_source(&self, source: &Stat) -> Result<(), Failure> {
        let scene = Scene::new(Party::Source, Phase::Preparation);
        if let (Some(told), Some(expected)) = (source.size, self.size)
            && told != expected
        {
            let mut failure = scene.fail(
                ErrorClass::Size,
                format!("the source has {told} bytes, the submission says {expected}"),
            );
            failure.retry = Retry::Never;
            return Err(failure);
        }
        if !self.needs_source_checksum() {
            return Ok(());
        }
        match (&source.checksum, &self.checksum) {
            // The submitted checksum decides at the destination.
            (None, Some(_)) if self.mode.target() => Ok(()),
            (None, _) => Err(self.silent(scene, "source", "target")),
            (Some(told), Some(expected)) if self.mode.source() && told != expected => Err(scene.fail(
                ErrorClass::Checksum,
                user_defined(&self.algorithm.to_string(), told, expected),
            )),
            _ => Ok(()),
        }
    }

    /// Compares the destination with the source and the submission. `relayed` is the checksum of the bytes that passed
    /// through this service, if they did.
    pub(crate) fn check_destination(
        &self,
        source: &Stat,
        relayed: Option<&Checksum>,
        destination: &Stat,
    ) -> Result<(), Failure> {
        let scene = Scene::new(Party::Destination, Phase::Finalization);
        if let Some(expected) = source.size.or(self.size) {
            match destination.size {
                Some(told) if told == expected => {}
                Some(told) => {
                    let text = format!("the destination has {told} bytes, the source {expected}");
                    return Err(scene.fail(ErrorClass::Size, text));
                }
                None => return Err(scene.fail(ErrorClass::Protocol, "the destination does not report the file's size")),
            }
        }
        if let (Some(relayed), Some(known)) = (relayed, self.checksum.as_ref().or(source.checksum.as_ref()))
            && relayed.algorithm == known.algorithm
            && relayed != known
        {
            let scene = Scene::new(Party::Source, Phase::Finalization);
            return Err(Self::in_transit(
                scene,
                &format!("the bytes read have {relayed}, expected {known}"),
            ));
        }
        if !self.mode.target() {
            return Ok(());
        }
        let Some(told) = &destination.checksum else {
            return Err(self.silent(scene, "destination", "source"));
        };
        let reference = self.checksum.as_ref().or(source.checksum.as_ref()).or(relayed);
        match reference {
            None => Err(scene.fail(
                ErrorClass::Checksum,
                format!(
                    "no {} to compare the destination's with: none was submitted, and the source reports none",
                    self.algorithm
                ),
            )),
            Some(expected) if expected == told => Ok(()),
            // The copy is true to its source: it is the submission that is wrong.
            Some(expected) if source.checksum.as_ref() == Some(told) => {
                Err(Scene::new(Party::Source, Phase::Finalization).fail(
                    ErrorClass::Checksum,
                    format!(
                        "{}; the destination has what the source has",
                        user_defined(&self.algorithm.to_string(), told, expected)
                    ),
                ))
            }
            Some(expected) if self.checksum.is_none() => Err(Self::in_transit(
                scene,
                &format!("Source and destination checksums do not match {expected} != {told}"),
            )),
            Some(expected) => Err(Self::in_transit(
                scene,
                &format!("User defined checksum and destination checksum do not match {expected} != {told}"),
            )),
        }
    }

    /// Whether the destination holds the whole file already: size and checksum are known and equal.
    pub(crate) fn is_whole(&self, source: &Stat, destination: &Stat) -> bool {
        let size = source.size.or(self.size);
        let checksum = self.checksum.as_ref().or(source.checksum.as_ref());
        size.is_some() && size == destination.size && checksum.is_some() && checksum == destination.checksum.as_ref()
    }

    /// Bytes that changed on their way may arrive unharmed next time.
    fn in_transit(scene: Scene, text: &str) -> Failure {
        let mut failure = scene.fail(ErrorClass::Checksum, format!("TRANSFER CHECKSUM MISMATCH {text}"));
        failure.retry = Retry::Later;
        failure.remedy = "it is tried again; if it stays, check the storages' memory, disks and network cards".into();
        failure
    }

    fn silent(&self, scene: Scene, who: &str, instead: &str) -> Failure {
        let mut failure = scene.fail(
            ErrorClass::Checksum,
            format!("the {who} does not report the file's {}", self.algorithm),
        );
        failure.remedy = format!(
            "have the {who} compute {} checksums, or submit with verify_checksum={instead} or none",
            self.algorithm
        );
        failure
    }
}

/// In gfal2's words, by which Rucio's `suspicious_pattern` and sites' own scripts know a replica that is broken.
fn user_defined(algorithm: &str, told: &Checksum, expected: &Checksum) -> String {
    format!("SOURCE CHECKSUM MISMATCH Source and user-defined {algorithm} do not match ({told} != {expected})")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    fn expected(mode: ChecksumMode, checksum: Option<&str>) -> Expected {
        let checksum = checksum.map(|text| text.parse().unwrap());
        Expected {
            mode,
            algorithm: Algorithm::Adler32,
            checksum,
            size: Some(10),
        }
    }

    fn stat(checksum: Option<&str>) -> Stat {
        Stat {
            size: Some(10),
            checksum: checksum.map(|text| text.parse().unwrap()),
            ..Stat::default()
        }
    }

    const A: Option<&str> = Some("adler32:0000000a");
    const B: Option<&str> = Some("adler32:0000000b");

    /// Sums of the user, the source and the destination; the expected party, class and advice on retries.
    fn check(mode: ChecksumMode, [user, source, destination]: [Option<&str>; 3], blamed: Option<(Party, Retry)>) {
        let (expected, source) = (expected(mode, user), stat(source));
        let outcome = expected
            .check_source(&source)
            .and_then(|()| expected.check_destination(&source, None, &stat(destination)));
        let outcome = outcome.err().map(|failure| {
            assert_eq!(failure.class, ErrorClass::Checksum, "{failure}");
            (failure.party, failure.retry)
        });
        assert_eq!(outcome, blamed, "{mode:?} {user:?} {destination:?}");
    }

    #[test]
    fn each_mode_compares_what_it_should() {
        use ChecksumMode::{Both, None as No, Source, Target};
        let (source, destination) = (Party::Source, Party::Destination);
        check(No, [A, B, B], None);
        check(Both, [A, A, A], None);
        check(Both, [None, A, A], None);
        check(Both, [A, B, B], Some((source, Retry::Never)));
        check(Both, [A, A, B], Some((destination, Retry::Later)));
        check(Both, [None, A, B], Some((destination, Retry::Later)));
        check(Both, [A, None, A], None);
        check(Both, [A, None, B], Some((destination, Retry::Later)));
        check(Both, [None, None, A], Some((source, Retry::Never)));
        check(Source, [A, None, A], Some((source, Retry::Never)));
        check(Both, [A, A, None], Some((destination, Retry::Never)));
        check(Source, [A, A, None], None);
        check(Source, [A, B, A], Some((source, Retry::Never)));
        check(Target, [A, None, A], None);
        check(Target, [A, B, B], Some((source, Retry::Never)));
        check(Target, [A, None, B], Some((destination, Retry::Later)));
        check(Target, [None, None, A], Some((source, Retry::Never)));
    }

    #[test]
    fn sizes_are_compared_always() {
        let expected = expected(ChecksumMode::None, None);
        let other = Stat {
            size: Some(11),
            ..Stat::default()
        };
        let failure = expected.check_source(&other).unwrap_err();
        assert_eq!((failure.class, failure.retry), (ErrorClass::Size, Retry::Never));
        let failure = expected.check_destination(&stat(None), None, &other).unwrap_err();
        assert_eq!((failure.class, failure.party), (ErrorClass::Size, Party::Destination));
    }

    #[test]
    fn bytes_that_pass_through_are_compared_too() {
        let relayed: Checksum = B.unwrap().parse().unwrap();
        let failure = expected(ChecksumMode::None, A)
            .check_destination(&stat(None), Some(&relayed), &stat(None))
            .unwrap_err();
        assert_eq!((failure.class, failure.party), (ErrorClass::Checksum, Party::Source));
    }

    #[test]
    fn only_a_file_that_is_surely_whole_is_adopted() {
        let user = expected(ChecksumMode::None, A);
        assert!(user.is_whole(&stat(None), &stat(A)));
        assert!(!user.is_whole(&stat(None), &stat(B)));
        assert!(!user.is_whole(&stat(None), &stat(None)));
        let nothing = expected(ChecksumMode::Both, None);
        assert!(nothing.is_whole(&stat(A), &stat(A)));
        assert!(!nothing.is_whole(&stat(None), &stat(None)));
        assert!(!nothing.is_whole(
            &stat(A),
            &Stat {
                size: Some(9),
                ..stat(A)
            }
        ));
    }
}
