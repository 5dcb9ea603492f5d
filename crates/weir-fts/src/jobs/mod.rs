//! Jobs and files: submission, lists, single jobs, cancellation, and jobs that have ended.

pub(crate) mod archive;
pub(crate) mod cancel;
pub(crate) mod list;
pub(crate) mod objects;
pub(crate) mod query;
pub(crate) mod submission;
pub(crate) mod submit;
