//! Steps: the workloads that try things one after the other.

use serde::Serialize;
use weir_model::Link;
use weir_units::Bytes;

use crate::mode::Mode;
use crate::spec::{MatrixSpec, RampSpec};

/// Cells that run together; the next step begins when all of them have ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The step's number within its workload, from 0.
    pub index: u32,
    /// The cells; at least one.
    pub cells: Vec<Cell>,
}

/// Transfers of one size on one link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// The link.
    pub link: Link,
    /// The mode; the transfer service chooses if absent.
    pub mode: Option<Mode>,
    /// The size of each file; above zero.
    pub size: Bytes,
    /// Transfers in all; above zero.
    pub transfers: u32,
    /// Transfers that are under way at once; above zero, at most `transfers`.
    pub parallel: u32,
    /// Different files of this size at the source: transfer number N reads file N modulo this.
    pub source_files: u32,
}

/// Every link in every mode with every size, small sizes first: broken combinations show at once.
pub(crate) fn matrix(spec: &MatrixSpec, scale: f64) -> Vec<Step> {
    let mut sizes = spec.sizes.clone();
    sizes.sort_unstable();
    let mut cells = Vec::new();
    for size in sizes {
        for link in &spec.links {
            for mode in &spec.modes {
                cells.push(Cell {
                    link: link.clone(),
                    mode: Some(*mode),
                    size: scaled(size, scale),
                    transfers: spec.repeat,
                    parallel: 1,
                    source_files: 1,
                });
            }
        }
    }
    numbered(cells.chunks(spec.at_once as usize).map(<[Cell]>::to_vec))
}

/// Every link, one after the other, with more and more parallel transfers.
pub(crate) fn ramp(spec: &RampSpec, scale: f64) -> Vec<Step> {
    let mut cells = Vec::new();
    for link in &spec.links {
        for parallel in &spec.parallel {
            let transfers = parallel.saturating_mul(spec.repeat);
            cells.push(vec![Cell {
                link: link.clone(),
                mode: spec.mode,
                size: scaled(spec.file_size, scale),
                transfers,
                parallel: *parallel,
                source_files: spec.source_files.min(transfers),
            }]);
        }
    }
    numbered(cells)
}

fn numbered(cells: impl IntoIterator<Item = Vec<Cell>>) -> Vec<Step> {
    (0..).zip(cells).map(|(index, cells)| Step { index, cells }).collect()
}

/// A scaled file keeps at least one byte.
fn scaled(size: Bytes, scale: f64) -> Bytes {
    size.scale(scale).max(Bytes(1))
}
