//! Reading files that people write: TOML with spans, so that every complaint names file, line, key and remedy.
//!
//! A [`Document`] is a file's text. Its tables are read through [`Section`]s. Each has a [`Table`]: the list of the keys
//! that may stand there, with type, default and meaning. The same list refuses unknown keys, suggests the nearest known
//! one, and is the reference in the handbook, so the three cannot differ. Reading does not stop at the first problem.

mod document;
mod parse;
mod part;
mod problem;
mod reader;
mod section;
mod suggest;
mod table;
mod value;

pub use document::Document;
pub use part::Part;
pub use problem::Problem;
pub use reader::Reader;
pub use section::Section;
pub use suggest::nearest;
pub use table::{Key, Table};
pub use value::{FromValue, Refusal, one_of};
