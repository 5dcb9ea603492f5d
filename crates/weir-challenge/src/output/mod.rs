//! The run folder: rows that grow with the run, the report, and the pages.

pub(crate) mod append;
pub(crate) mod assemble;
pub(crate) mod books;
pub(crate) mod description;
pub(crate) mod folder;
#[cfg(test)]
pub(crate) mod golden;
pub(crate) mod html;
pub(crate) mod rebuild;
