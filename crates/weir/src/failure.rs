//! Errors for the user: problem, cause, remedy, and the exit code.

use std::fmt;
use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done; a challenge passed.
    Done,
    /// A challenge gave the verdict fail or unstable.
    VerdictFail,
    /// The input is wrong: a file, an option. Nothing was started.
    BadInput,
    /// The input is right, but it could not run here and now.
    CouldNotRun,
    /// Stopped by SIGINT or SIGTERM before its end.
    Interrupted,
}

impl Exit {
    /// The exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::VerdictFail => 1,
            Self::BadInput => 2,
            Self::CouldNotRun => 3,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

/// An error of a command, ready to be shown.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    error: anyhow::Error,
    remedy: Option<String>,
}

impl Failure {
    /// The input is wrong (exit 2).
    pub(crate) fn bad_input(error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit: Exit::BadInput,
            error: error.into(),
            remedy: None,
        }
    }

    /// The command could not run (exit 3).
    pub(crate) fn could_not_run(error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit: Exit::CouldNotRun,
            error: error.into(),
            remedy: None,
        }
    }

    /// A signal came before the work had begun (exit 130).
    pub(crate) fn interrupted(error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit: Exit::Interrupted,
            error: error.into(),
            remedy: None,
        }
    }

    /// Wrong places in an input file (exit 2), each already a sentence `file:line: key: message; remedy`.
    pub(crate) fn problems<P: fmt::Display>(what: &str, problems: &[P]) -> Self {
        let mut chain: Option<anyhow::Error> = None;
        for problem in problems.iter().rev() {
            let text = problem.to_string();
            chain = Some(match chain {
                None => anyhow::Error::msg(text),
                Some(inner) => inner.context(text),
            });
        }
        let count = match problems.len() {
            1 => "1 problem".to_string(),
            n => format!("{n} problems"),
        };
        let summary = format!("{what} has {count}");
        let error = match chain {
            None => anyhow::Error::msg(summary),
            Some(inner) => inner.context(summary),
        };
        Self {
            exit: Exit::BadInput,
            error,
            remedy: None,
        }
    }

    /// Adds the remedy for the user: an imperative sentence without full stop.
    #[must_use]
    pub(crate) fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The exit code of the command.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// The outermost sentence, redacted.
    pub(crate) fn message(&self) -> String {
        weir_auth::redact(&self.error.to_string())
    }

    /// The sentences below it, outermost first, redacted; may be empty.
    pub(crate) fn causes(&self) -> Vec<String> {
        self.error
            .chain()
            .skip(1)
            .map(|cause| weir_auth::redact(&cause.to_string()))
            .collect()
    }

    /// The remedy.
    pub(crate) fn remedy(&self) -> Option<&str> {
        self.remedy.as_deref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "error: {}", self.message())?;
        for cause in self.causes() {
            writeln!(formatter, "  {cause}")?;
        }
        if let Some(remedy) = self.remedy() {
            writeln!(formatter, "remedy: {remedy}")?;
        }
        Ok(())
    }
}

/// An unclassified error: the command could not run.
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::could_not_run(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_error_causes_and_remedy() {
        let failure = Failure::could_not_run(anyhow::anyhow!("address in use").context("could not start storage RAL"))
            .with_remedy("stop the other grid");
        assert_eq!(
            failure.to_string(),
            "error: could not start storage RAL\n  address in use\nremedy: stop the other grid\n"
        );
        assert_eq!(failure.exit().code(), 3);
    }

    #[test]
    fn problems_keep_their_order() {
        let failure = Failure::problems("the grid file", &["g.toml:1: a: wrong", "g.toml:2: b: wrong"]);
        assert_eq!(
            failure.to_string(),
            "error: the grid file has 2 problems\n  g.toml:1: a: wrong\n  g.toml:2: b: wrong\n"
        );
        assert_eq!(failure.exit().code(), 2);
    }
}
