//! Bodies of requests as FTS3 reads them, and answers in the shape that its clients read.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod json;
