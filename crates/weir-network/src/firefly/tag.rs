//! The SciTag: a number that names a flow's owner and purpose.

/// The least number with an experiment in it.
const LEAST: u32 = 65;
const MOST: u32 = 65_535;

/// Bits of the activity.
const ACTIVITY: u32 = 6;

/// An experiment and an activity, as the Scitags registry numbers them: `experiment << 6 | activity`, 65 to 65535.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(u16);

impl Tag {
    /// The tag of a number; `None` outside the range.
    pub fn of(number: u32) -> Option<Self> {
        let number = (LEAST..=MOST).contains(&number).then_some(number)?;
        u16::try_from(number).ok().map(Self)
    }

    /// The tag in the values of a `SciTag` header. A missing, repeated or invalid value gives no tag instead of an error: a transfer is
    /// worth more than its mark.
    pub fn from_header<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Option<Self> {
        let mut values = values.into_iter();
        let (first, None) = (values.next()?, values.next()) else {
            return None;
        };
        let text = std::str::from_utf8(first).ok()?.trim();
        let digits = !text.is_empty() && text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok().and_then(Self::of))?
    }

    /// The number.
    pub fn number(self) -> u16 {
        self.0
    }

    /// The experiment's number in the registry.
    pub fn experiment(self) -> u16 {
        self.0 >> ACTIVITY
    }

    /// The activity's number, within the experiment.
    pub fn activity(self) -> u16 {
        self.0 & ((1 << ACTIVITY) - 1)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use proptest::prelude::*;

    use super::*;

    fn of(values: &[&str]) -> Option<u16> {
        Tag::from_header(values.iter().map(|value| value.as_bytes())).map(Tag::number)
    }

    #[test]
    fn a_data_challenge_of_atlas_is_154() {
        let tag = Tag::of(154).unwrap();
        assert_eq!((tag.experiment(), tag.activity()), (2, 26));
    }

    /// One of these once crashed a storage server.
    #[test]
    fn odd_headers_are_no_tag_and_no_error() {
        assert_eq!(of(&["65"]), Some(65));
        assert_eq!(of(&[" 65535 "]), Some(65_535));
        assert_eq!(of(&["00066"]), Some(66));
        for odd in [
            "",
            " ",
            "64",
            "0",
            "-1",
            "+66",
            "65536",
            "99999999999999999999",
            "atlas",
            "0x42",
            "6 6",
            "66,67",
            "٦٦",
        ] {
            assert_eq!(of(&[odd]), None, "{odd:?}");
        }
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["66", "66"]), None);
        assert_eq!(Tag::from_header([&[0xff, 0x36][..]]), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_tag_in_range_or_none(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..3)) {
            if let Some(tag) = Tag::from_header(values.iter().map(Vec::as_slice)) {
                prop_assert!((LEAST..=MOST).contains(&u32::from(tag.number())));
                prop_assert_eq!(tag.number(), tag.experiment() << 6 | tag.activity());
            }
        }
    }
}
