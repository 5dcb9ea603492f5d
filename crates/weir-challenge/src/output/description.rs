//! `run.json`: the description of a run, written at its beginning for later readers of its folder.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weir_measure::report::{Build, Host};

use crate::RunError;
use crate::output::folder::RunFolder;

/// Name of the file in a run folder.
pub(crate) const FILE: &str = "run.json";

/// Version of the description, its `schema` key.
const SCHEMA: &str = "weir-run/1";

/// See the module.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunDescription {
    schema: String,
    /// Command line that runs the same again.
    pub(crate) command: String,
    /// Start of the ramp, RFC 3339 in UTC; none while source files go to their places.
    pub(crate) started_at: Option<String>,
    /// The build that runs.
    pub(crate) weir: Build,
    /// Where it runs.
    pub(crate) host: Host,
    /// Directory of the run below the base of every RSE: `/weir/<run>`. Everything that the run makes at a storage is in it.
    pub(crate) directory: String,
    /// Where the data areas of the embedded grid are, with its secrets.
    pub(crate) scratch: PathBuf,
    /// RSEs that tell no checksum.
    #[serde(default)]
    pub(crate) verified_by_size: Vec<String>,
}

impl RunDescription {
    pub(crate) fn new(command: &str, weir: Build, host: Host, run: &str, scratch: &Path) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            command: command.to_owned(),
            started_at: None,
            weir,
            host,
            directory: format!("/weir/{run}"),
            scratch: scratch.to_owned(),
            verified_by_size: Vec::new(),
        }
    }

    /// Writes it into a run folder.
    pub(crate) fn write(&self, folder: &RunFolder) -> Result<PathBuf, RunError> {
        let text = serde_json::to_string_pretty(self).expect("plain data can be written as JSON");
        folder.write(FILE, |to| writeln!(to, "{text}"))
    }

    /// Reads that of a run folder.
    pub(crate) fn read(folder: &Path) -> io::Result<Self> {
        let text = std::fs::read_to_string(folder.join(FILE))?;
        let description: Self = serde_json::from_str(&text).map_err(io::Error::other)?;
        if description.schema == SCHEMA {
            Ok(description)
        } else {
            Err(io::Error::other(format!(
                "its schema is {}, not {SCHEMA}",
                description.schema
            )))
        }
    }
}
