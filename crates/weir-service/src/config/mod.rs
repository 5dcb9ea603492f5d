//! Configuration files of services: TOML, read once. Problems are named by file, line, key and remedy, all of them at once, before anything
//! starts.
//!
//! Each service reads its own configuration with serde, whose errors know a position and a sentence; here they become
//! [`Problem`]s as grid and challenge files have them. Rules beyond the types are the service's own ([`Configuration::check`]); they are
//! checked once every key and value can be read.

mod parse;
mod place;

use std::path::{Path, PathBuf};

use serde::{Serialize, de::DeserializeOwned};
use weir_model::Problem;

use parse::parse;
use place::line_of_key;

/// The configuration of a service. Unknown keys are to be refused (`deny_unknown_fields`).
pub trait Configuration: DeserializeOwned {
    /// Every path in it. Relative ones are relative to the file.
    fn paths(&mut self) -> Vec<&mut PathBuf>;

    /// Checks the rules that the types do not express. Returns every violation.
    fn check(&self) -> Vec<Invalid>;
}

/// A value that makes no sense, alone or with others.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}; {remedy}")]
pub struct Invalid {
    /// The key: `area[0].name`.
    pub key: String,
    /// The violated rule.
    pub problem: String,
    /// The correction.
    pub remedy: String,
}

impl Invalid {
    /// A value that makes no sense.
    pub fn new(key: impl Into<String>, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Problems of a file.
    #[error("{}", lines(.0))]
    File(Vec<Problem>),
    /// Violations in a configuration that a program made.
    #[error("{}", lines(.0))]
    Invalid(Vec<Invalid>),
}

fn lines(problems: &[impl ToString]) -> String {
    let lines = problems.iter().map(ToString::to_string).collect::<Vec<_>>();
    lines.join("\n")
}

impl From<Invalid> for ConfigError {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(vec![invalid])
    }
}

/// Reads and checks a file.
///
/// # Errors
/// [`ConfigError::File`] with every problem: unreadable keys and values, or else contradictions between them.
pub fn load<C: Configuration>(path: &Path) -> Result<C, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        ConfigError::File(vec![Problem {
            file: path.to_owned(),
            line: None,
            key: String::new(),
            message: format!("could not be read: {error}"),
            remedy: "name a TOML file that you may read".to_owned(),
        }])
    })?;
    let mut config: C = parse(path, &text).map_err(ConfigError::File)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    for path in config.paths() {
        *path = folder.join(&*path);
    }
    checked(config, &text, path)
}

/// Reads and checks the text of a file. Never panics, whatever the text; paths stay as they are written.
///
/// # Errors
/// As [`load`].
pub fn read<C: Configuration>(text: &str, path: &Path) -> Result<C, ConfigError> {
    checked(parse(path, text).map_err(ConfigError::File)?, text, path)
}

fn checked<C: Configuration>(config: C, text: &str, path: &Path) -> Result<C, ConfigError> {
    let problem = |Invalid { key, problem, remedy }| Problem {
        file: path.to_owned(),
        line: line_of_key(text, &key),
        key,
        message: problem,
        remedy,
    };
    let problems = config.check().into_iter().map(problem).collect::<Vec<_>>();
    if problems.is_empty() {
        Ok(config)
    } else {
        Err(ConfigError::File(problems))
    }
}

/// Checks a configuration that came from no file.
///
/// # Errors
/// [`ConfigError::Invalid`] with every violation.
pub fn check<C: Configuration>(config: &C) -> Result<(), ConfigError> {
    let invalid = config.check();
    if invalid.is_empty() {
        Ok(())
    } else {
        Err(ConfigError::Invalid(invalid))
    }
}

impl ConfigError {
    /// As problems of the file from which the configuration came, or would have come.
    pub fn problems(self, path: &Path) -> Vec<Problem> {
        match self {
            Self::File(problems) => problems,
            Self::Invalid(invalid) => invalid
                .into_iter()
                .map(|Invalid { key, problem, remedy }| Problem {
                    file: path.to_owned(),
                    line: std::fs::read_to_string(path)
                        .ok()
                        .and_then(|text| line_of_key(&text, &key)),
                    key,
                    message: problem,
                    remedy,
                })
                .collect(),
        }
    }
}

/// A sentence for each top-level key whose value in `new` differs from the one in `taken`, the configuration now in
/// force.
pub fn waiting<C: Serialize>(taken: &C, new: &C) -> Vec<String> {
    let table = |config: &C| match serde_json::to_value(config) {
        Ok(serde_json::Value::Object(table)) => table,
        _ => serde_json::Map::new(),
    };
    let (taken, new) = (table(taken), table(new));
    let differs = new.into_iter().filter(|(key, value)| taken.get(key) != Some(value));
    differs
        .map(|(key, _)| format!("{key} changes with a restart only: the former value stays in force"))
        .collect()
}

#[cfg(test)]
mod tests;
