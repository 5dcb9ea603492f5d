//! States of the catalogue's objects.

use super::word::words;

words! {
    /// The state of a replica.
    ReplicaState, "replica state" {
        /// The file is there, with its size and checksum verified.
        Available = "AVAILABLE", 'A';
        /// The file is known not to be there.
        Unavailable = "UNAVAILABLE", 'U';
        /// A request is to bring the file.
        Copying = "COPYING", 'C';
        /// The reaper removes the file.
        BeingDeleted = "BEING_DELETED", 'B';
        /// The file is damaged or lost.
        Bad = "BAD", 'D';
        /// The storage is away for some time.
        TemporaryUnavailable = "TEMPORARY_UNAVAILABLE", 'T';
    }
}

words! {
    /// The state of a rule: it follows from the states of its locks, unless the rule is held back.
    RuleState, "rule state" {
        /// Some locks wait for their files, and none is stuck.
        Replicating = "REPLICATING", 'R';
        /// Every file is where the rule wants it.
        Ok = "OK", 'O';
        /// At least one file cannot be brought without help or time.
        Stuck = "STUCK", 'S';
        /// Its owner, or two weeks of being stuck, stopped its repair.
        Suspended = "SUSPENDED", 'U';
        /// It waits for an approver.
        WaitingApproval = "WAITING_APPROVAL", 'W';
        /// Its locks are being made.
        Inject = "INJECT", 'I';
    }
}

words! {
    /// The state of a load.
    LoadState, "load state" {
        /// Its start has not come.
        Waiting = "WAITING", 'W';
        /// It injects rules, cycle by cycle.
        Injecting = "INJECTING", 'I';
        /// Its end has come; rules that it made may live on.
        Ended = "ENDED", 'E';
        /// An administrator stopped it.
        Stopped = "STOPPED", 'S';
    }
}

words! {
    /// The state of a lock: of one file, or of one dataset, at one RSE for one rule.
    LockState, "lock state" {
        /// A request is to bring the file.
        Replicating = "REPLICATING", 'R';
        /// The file is there.
        Ok = "OK", 'O';
        /// The request failed for good, or there is no source.
        Stuck = "STUCK", 'S';
    }
}

words! {
    /// The reason why a request has not gone out.
    RequestWait, "reason of a waiting request" {
        /// The submitter: nothing else holds it.
        Turn = "TURN", 'D';
        /// The transfer services, which have as many requests of its activity into its RSE as they may have.
        Share = "SHARE", 'S';
        /// The time of its next attempt, after a failure.
        Retry = "RETRY", 'R';
        /// Room at its RSE.
        Room = "ROOM", 'F';
        /// A transfer service: none is configured for it, or the service takes nothing now.
        Service = "SERVICE", 'T';
        /// A token for a storage.
        Token = "TOKEN", 'A';
        /// The answer to its submission.
        Submission = "SUBMISSION", 'G';
        /// Something else: its reason says what.
        Other = "OTHER", 'O';
    }
}

words! {
    /// The state of a request, which brings one file to one RSE.
    RequestState, "request state" {
        /// It waits to be submitted.
        Queued = "QUEUED", 'Q';
        /// Its submission is under way.
        Submitting = "SUBMITTING", 'G';
        /// The transfer service has it.
        Submitted = "SUBMITTED", 'S';
        /// The transfer failed.
        Failed = "FAILED", 'F';
        /// The file is there.
        Done = "DONE", 'D';
        /// The transfer service does not know it any more.
        Lost = "LOST", 'L';
        /// No RSE can give the file.
        NoSources = "NO_SOURCES", 'N';
        /// Only tape can give the file, and the rule does not read from tape.
        OnlyTapeSources = "ONLY_TAPE_SOURCES", 'O';
        /// The transfer service refused it.
        SubmissionFailed = "SUBMISSION_FAILED", 'A';
        /// Source and destination share no scheme.
        MismatchScheme = "MISMATCH_SCHEME", 'M';
        /// It is held back.
        Suspend = "SUSPEND", 'U';
        /// A limit of its RSE or activity holds it back.
        Waiting = "WAITING", 'W';
        /// Its source is being chosen.
        Preparing = "PREPARING", 'P';
    }
}

words! {
    /// The purpose of a request.
    RequestType, "request type" {
        /// A copy from RSE to RSE.
        Transfer = "TRANSFER", 'T';
        /// A client's upload.
        Upload = "UPLOAD", 'U';
        /// A client's download.
        Download = "DOWNLOAD", 'D';
        /// A recall from tape.
        StageIn = "STAGEIN", 'I';
        /// A migration to tape.
        StageOut = "STAGEOUT", 'O';
    }
}

words! {
    /// The set of a rule's files that share their RSEs.
    Grouping, "grouping" {
        /// All of them.
        All = "ALL", 'A';
        /// The files of one dataset.
        Dataset = "DATASET", 'D';
        /// None: each file is placed by itself.
        None = "NONE", 'N';
    }
}

words! {
    /// When the owner of a rule is notified.
    Notification, "notification" {
        /// When the rule becomes OK.
        Yes = "YES", 'Y';
        /// Never.
        No = "NO", 'N';
        /// When a dataset of the rule is closed and complete.
        Close = "CLOSE", 'C';
        /// While it progresses.
        Progress = "PROGRESS", 'P';
    }
}

words! {
    /// The medium of an RSE.
    RseType, "RSE type" {
        /// Disk.
        Disk = "DISK", 'D';
        /// Tape: files are recalled before they are read.
        Tape = "TAPE", 'T';
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use std::{collections::BTreeSet, str::FromStr};

    use super::*;

    /// Two words with one letter would become one in the database.
    fn check<T: FromStr + Copy + PartialEq + std::fmt::Debug>(all: &[T], parts: impl Fn(T) -> (&'static str, char))
    where
        T::Err: std::fmt::Debug,
    {
        for word in all {
            let (name, letter) = parts(*word);
            for text in [name, &name.to_lowercase(), &letter.to_string()] {
                assert_eq!(text.parse::<T>().unwrap(), *word, "{text}");
            }
        }
        let letters = all.iter().map(|word| parts(*word).1).collect::<BTreeSet<_>>();
        assert_eq!(letters.len(), all.len());
    }

    #[test]
    fn names_and_letters_read_back() {
        check(ReplicaState::ALL, |word| (word.as_str(), word.letter()));
        check(RuleState::ALL, |word| (word.as_str(), word.letter()));
        check(LoadState::ALL, |word| (word.as_str(), word.letter()));
        check(LockState::ALL, |word| (word.as_str(), word.letter()));
        check(RequestState::ALL, |word| (word.as_str(), word.letter()));
        check(RequestType::ALL, |word| (word.as_str(), word.letter()));
        check(Grouping::ALL, |word| (word.as_str(), word.letter()));
        check(Notification::ALL, |word| (word.as_str(), word.letter()));
        check(RseType::ALL, |word| (word.as_str(), word.letter()));
        let refused = "SIDEWAYS".parse::<Grouping>().unwrap_err().to_string();
        assert_eq!(refused, "\"SIDEWAYS\" is no grouping; there is ALL, DATASET, NONE");
    }
}
