//! How large the files of a link are.

use serde::Serialize;
use weir_units::Bytes;

/// The bounds within which file sizes are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FileSizes {
    /// Smallest file.
    pub min: Bytes,
    /// Largest file; not below `min`.
    pub max: Bytes,
    /// Files that must pass in the hold, so that one more or less does not decide.
    pub files_min: u32,
}

impl Default for FileSizes {
    /// 256 kB to 64 MB, 30 files. Below 256 kB the cost of a request outweighs that of its bytes; above 64 MB a
    /// laptop's page cache no longer holds the sources of six sites.
    fn default() -> FileSizes {
        FileSizes {
            min: Bytes(256_000),
            max: Bytes(64_000_000),
            files_min: 30,
        }
    }
}

/// The choice for one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Sizing {
    /// The size of every file; above zero.
    pub size: Bytes,
    /// Whole files of that size within the volume; above zero.
    pub n_files: u64,
}

impl FileSizes {
    /// Chooses a file size for a volume that is asked within the hold.
    ///
    /// The volume is cut into a whole number of files, so that the hold neither begins nor ends within one. These are
    /// `files_min` and a sixteenth more, for files at the edges of the hold. Bounds on the size come first: a large
    /// volume takes more files, a small one fewer, and one below `min` is a single file of its own size. Sizes are
    /// rounded down to four digits, at most 0.1 % below an exact cut. `None` if the volume is zero.
    pub fn choose(&self, volume: Bytes) -> Option<Sizing> {
        if volume.0 == 0 {
            return None;
        }
        let wanted = (u64::from(self.files_min) * 17).div_ceil(16);
        let fewest = volume.0.div_ceil(self.max.0.max(1));
        let most = (volume.0 / self.min.0.max(1)).max(1);
        let n_cuts = wanted.max(fewest).min(most);
        let size = four_digits(volume.0 / n_cuts).max(self.min.0.min(volume.0));
        Some(Sizing {
            size: Bytes(size),
            n_files: volume.0 / size,
        })
    }
}

fn four_digits(value: u64) -> u64 {
    let step = 10_u64.pow(value.max(1).ilog10().saturating_sub(3));
    value / step * step
}

#[cfg(test)]
mod tests {
    use super::{FileSizes, Sizing};
    use proptest::prelude::*;
    use weir_units::Bytes;

    fn check(volume: u64, size: u64, n_files: u64) {
        let expected = Sizing {
            size: Bytes(size),
            n_files,
        };
        assert_eq!(FileSizes::default().choose(Bytes(volume)), Some(expected), "{volume}");
    }

    /// A link would get an unexpected file size.
    #[test]
    fn examples() {
        check(1_065_825_000, 33_300_000, 32); // RAL→QMUL of the mini challenge at 1/100: 142.11 Mb/s for 60 s
        check(14_700_000, 459_300, 32); // GLA→RALPP: 1.96 Mb/s
        check(3_200_000_000_000, 64_000_000, 50_000);
        check(1_000_000, 333_300, 3);
        check(100, 100, 1);
        assert_eq!(FileSizes::default().choose(Bytes(0)), None);
    }

    proptest! {
        /// Too few files would pass in the hold, or a size would leave its bounds.
        #[test]
        fn bounds_hold(volume in 1_u64..10_000_000_000_000_000, min in 1_u64..1_000_000, span in 1_u64..1_000, files_min in 1_u32..500) {
            let sizes = FileSizes { min: Bytes(min), max: Bytes(min * span), files_min };
            let Sizing { size, n_files } = sizes.choose(Bytes(volume)).expect("the volume is not zero");
            prop_assert!(size <= sizes.max);
            prop_assert!(size >= sizes.min.min(Bytes(volume)));
            prop_assert_eq!(n_files, volume / size.0);
            prop_assert!(n_files >= u64::from(files_min).min(volume / min).max(1) || size == sizes.min);
            prop_assert!(volume >= 100 * min || n_files > 0);
        }
    }
}
