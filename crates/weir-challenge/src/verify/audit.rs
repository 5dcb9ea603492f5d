//! The audit: reads a sample of the delivered files back and compares their bytes with the sent ones.
//!
//! The sample follows from the seed and the numbers of the transfers alone. Its files are kept until the end of the
//! drain, so that reading them does not disturb the measurement.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt;
use weir_measure::report::Audit;

use crate::inject::injection::JobId;
use crate::prepare::seed::Sources;
use crate::services::storage::StorageDoor;

/// Files read at once.
const READS_AT_ONCE: usize = 4;

/// Failures that the report shows.
const SAMPLES_MAX: usize = 10;

/// Decides which delivered files are kept for the audit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keep {
    seed: u64,
    /// Out of 2³².
    share: u64,
}

impl Keep {
    /// Keeps this percentage of the files.
    pub(crate) fn percent(seed: u64, percent: Option<f64>) -> Self {
        let share = percent.unwrap_or(0.0).clamp(0.0, 100.0) / 100.0 * f64::from(u32::MAX);
        // Rounded up, so that 100 % is every file.
        Self {
            seed,
            share: if share > 0.0 { share as u64 + 1 } else { 0 },
        }
    }

    /// Returns whether the file of this transfer is kept.
    pub(crate) fn keeps(self, id: u64) -> bool {
        mix(self.seed ^ mix(id)) >> 32 < self.share
    }
}

/// Spreads a number evenly (the finaliser of SplitMix64, Steele, Lea and Flood, OOPSLA 2014).
fn mix(mut number: u64) -> u64 {
    number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// A file to be read back.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) door: usize,
    pub(crate) path: String,
    pub(crate) size: u64,
    /// Index of the source file with the expected bytes.
    pub(crate) source: usize,
    /// The job or the rule that brought it.
    pub(crate) job: Option<JobId>,
}

/// Reads the samples back.
pub(crate) async fn audit(
    percent: f64,
    samples: Vec<Sample>,
    sources: &Sources,
    doors: &Arc<Vec<StorageDoor>>,
) -> Audit {
    let read = |sample: Sample| async move {
        let door = &doors[sample.door];
        let found = match door.of_path(&sample.path).read_back(&sample.path).await {
            Err(error) => return (0, Some((sample.door, weir_auth::error_chain(&error)))),
            Ok(found) => found,
        };
        let (size, checksums) = found;
        let wrong = if size != sample.size {
            Some(format!(
                "{} at {}: {size} bytes, {} were sent",
                sample.path, door.name, sample.size
            ))
        } else if checksums == sources.file(sample.source).checksums {
            None
        } else {
            Some(format!(
                "{} at {}: its bytes differ from the sent ones",
                sample.path, door.name
            ))
        };
        (size, wrong.map(|text| (sample.door, text)))
    };
    let mut reads = futures_util::stream::iter(samples.into_iter().map(read)).buffer_unordered(READS_AT_ONCE);
    let mut audit = Audit {
        asked_percent: percent,
        files: 0,
        failed: 0,
        bytes: 0,
        failed_at: BTreeMap::new(),
        samples: Vec::new(),
    };
    while let Some((bytes, wrong)) = reads.next().await {
        audit.files += 1;
        audit.bytes += bytes;
        if let Some((door, text)) = wrong {
            audit.failed += 1;
            *audit.failed_at.entry(doors[door].name.clone()).or_default() += 1;
            if audit.samples.len() < SAMPLES_MAX {
                audit.samples.push(text);
            }
        }
    }
    audit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_about_as_large_as_asked() {
        // Wrong: 5 % keeps every file, or none, or other files with the same seed.
        let kept = |percent: f64| {
            (0..10_000)
                .filter(|id| Keep::percent(42, Some(percent)).keeps(*id))
                .count()
        };
        assert_eq!(kept(0.0), 0);
        assert_eq!(kept(100.0), 10_000);
        assert!((450..550).contains(&kept(5.0)), "{}", kept(5.0));
        assert_eq!(kept(5.0), kept(5.0));
    }
}
