//! The incidents that come with the binary, and those of files.

use std::path::Path;

use anyhow::anyhow;
use weir_model::file::{Document, nearest};
use weir_plan::Incident;

use crate::failure::Failure;

/// Every incident: its id and its file.
pub(super) const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/incidents.rs"));

/// Reads every incident of the library.
pub(super) fn all() -> Result<Vec<Incident>, Failure> {
    FILES.iter().map(|(id, _)| find(id)).collect()
}

/// Reads an incident by its id, with or without `INC-`, or by the path of a file.
pub(super) fn find(id: &str) -> Result<Incident, Failure> {
    let (name, text) = text(id)?;
    Incident::parse(&text, Path::new(&name))
        .map_err(|problems| Failure::problems(&format!("the incident {id}"), &problems))
}

/// The name and the text of its file.
pub(super) fn text(id: &str) -> Result<(String, String), Failure> {
    let path = Path::new(id);
    if path.extension().is_some_and(|extension| extension == "toml") {
        let document =
            Document::read(path).map_err(|problem| Failure::problems(&format!("the incident {id}"), &[problem]))?;
        return Ok((id.to_owned(), document.text().to_owned()));
    }
    let upper = id.to_uppercase();
    let wanted = if upper.starts_with("INC-") {
        upper
    } else {
        format!("INC-{upper}")
    };
    if let Some((name, text)) = FILES.iter().find(|(name, _)| *name == wanted) {
        return Ok((format!("{name}.toml"), (*text).to_owned()));
    }
    if let Some((_, room)) = weir_plan::incident::WAITING.iter().find(|(name, _)| *name == wanted) {
        let error = anyhow!("{wanted} cannot be made yet: it needs {room}");
        return Err(Failure::bad_input(error).with_remedy("weir incident list shows those that can"));
    }
    let remedy = match nearest(&wanted, FILES.iter().map(|(name, _)| *name)) {
        Some(name) => format!("did you mean {name}?"),
        None => "weir incident list shows them all; a file of your own ends in .toml".to_owned(),
    };
    Err(Failure::bad_input(anyhow!("there is no incident {id}")).with_remedy(remedy))
}
