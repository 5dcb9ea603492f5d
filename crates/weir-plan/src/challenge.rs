//! From a challenge's file to its plan.

use std::path::Path;

use weir_model::file::{Document, Problem};

use crate::keys::CHALLENGE;
use crate::plan::Plan;
use crate::spec::{Challenge, Overrides};
use crate::{read, resolve};

impl Challenge {
    /// Reads a challenge file, its grid file and its tables.
    ///
    /// # Errors
    /// Every problem found in any of them, each with its file, in the order of the lines.
    pub fn load(file: &Path) -> Result<Challenge, Vec<Problem>> {
        let document = Document::read(file).map_err(|problem| vec![problem])?;
        document.parse(&CHALLENGE, read::challenge)
    }

    /// Reads the text of a challenge file; `file` names it in problems, and its folder is joined with the paths in it.
    ///
    /// # Errors
    /// Every problem found, in the order of the lines.
    pub fn parse(text: &str, file: &Path) -> Result<Challenge, Vec<Problem>> {
        Document::new(text, file).parse(&CHALLENGE, read::challenge)
    }

    /// Resolves the challenge to a plan in which every value is decided.
    ///
    /// # Errors
    /// Overrides out of range, and workloads that become impossible at this scale and duration.
    pub fn resolve(&self, overrides: &Overrides) -> Result<Plan, Vec<Problem>> {
        resolve::plan(self, overrides)
    }
}
