//! Byte ranges of a GET (RFC 9110 section 14).

/// A range with both ends included, as on the wire; never empty, and inside the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte.
    pub first: u64,
    /// The last byte, included.
    pub last: u64,
}

impl ByteRange {
    /// How many bytes it spans; at least 1.
    pub fn length(self) -> u64 {
        self.last - self.first + 1
    }

    /// The value of `Content-Range` for a file of `size` bytes.
    pub fn content_range(self, size: u64) -> String {
        format!("bytes {}-{}/{size}", self.first, self.last)
    }
}

/// What a `Range` header asks of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requested {
    /// The whole file: no range, a unit other than bytes, a malformed header or several ranges (all may be answered by 200).
    Whole,
    /// One part: 206.
    Part(ByteRange),
    /// A range that begins beyond the end: 416.
    Unsatisfiable,
}

/// Reads a `Range` header against a file of `size` bytes.
///
/// Several ranges at once are answered with the whole file, as section 14.2 permits: the clients of the field fall back to
/// single ranges, and a multipart answer would cost them a parser.
pub fn parse(header: &str, size: u64) -> Requested {
    let Some((unit, set)) = header.split_once('=') else {
        return Requested::Whole;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Requested::Whole;
    }
    let set = set.trim();
    if set.contains(',') {
        return Requested::Whole;
    }
    let Some((first, last)) = set.split_once('-') else {
        return Requested::Whole;
    };
    match (number(first.trim()), number(last.trim())) {
        (Field::Number(first), Field::Empty) => from_to(first, u64::MAX, size),
        (Field::Number(first), Field::Number(last)) if first <= last => from_to(first, last, size),
        (Field::Empty, Field::Number(suffix)) => last_bytes(suffix, size),
        _ => Requested::Whole,
    }
}

enum Field {
    Empty,
    Number(u64),
    Malformed,
}

/// Digits only; a number beyond `u64` is as good as the largest one.
fn number(text: &str) -> Field {
    if text.is_empty() {
        Field::Empty
    } else if text.bytes().all(|byte| byte.is_ascii_digit()) {
        Field::Number(text.parse().unwrap_or(u64::MAX))
    } else {
        Field::Malformed
    }
}

fn from_to(first: u64, last: u64, size: u64) -> Requested {
    if first >= size {
        return Requested::Unsatisfiable;
    }
    Requested::Part(ByteRange {
        first,
        last: last.min(size - 1),
    })
}

fn last_bytes(suffix: u64, size: u64) -> Requested {
    match (suffix, size) {
        (0, _) => Requested::Unsatisfiable,
        // Satisfiable by section 14.1.2, yet no Content-Range can say so.
        (_, 0) => Requested::Whole,
        _ => Requested::Part(ByteRange {
            first: size.saturating_sub(suffix),
            last: size - 1,
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(header: &str, size: u64, expected: Requested) {
        assert_eq!(parse(header, size), expected, "{header} of {size} bytes");
    }

    fn part(first: u64, last: u64) -> Requested {
        Requested::Part(ByteRange { first, last })
    }

    /// Were these wrong, a client would read other bytes than it asked for.
    #[test]
    fn ranges_as_clients_send_them() {
        check("bytes=0-0", 10, part(0, 0));
        check("bytes=0-9", 10, part(0, 9));
        check("bytes=3-", 10, part(3, 9));
        check("bytes=-3", 10, part(7, 9));
        check("bytes=-30", 10, part(0, 9));
        check("Bytes = 2-4", 10, part(2, 4));
        check("bytes=9-99999999999999999999999999", 10, part(9, 9));
        check("bytes=10-", 10, Requested::Unsatisfiable);
        check("bytes=99999999999999999999999999-", 10, Requested::Unsatisfiable);
        check("bytes=-0", 10, Requested::Unsatisfiable);
        check("bytes=0-", 0, Requested::Unsatisfiable);
        check("bytes=-5", 0, Requested::Whole);
        for malformed in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=4-2",
            "bytes=a-b",
            "bytes=1-2-3",
            "bytes=+1-2",
            "lines=1-2",
            "bytes=0-1,3-4",
        ] {
            check(malformed, 10, Requested::Whole);
        }
    }

    proptest! {
        /// A range that leaves the file, or is empty, would make a wrong Content-Length.
        #[test]
        fn a_part_lies_inside_the_file(header in "bytes=[0-9]{0,20}-[0-9]{0,20}", size: u64) {
            if let Requested::Part(range) = parse(&header, size) {
                prop_assert!(range.first <= range.last && range.last < size);
            }
        }

        /// The model: keep the positions that the two numbers name.
        #[test]
        fn agrees_with_counting(first in 0u64..40, last in 0u64..40, size in 0u64..40) {
            let wanted: Vec<u64> = (0..size).filter(|at| (first..=last).contains(at)).collect();
            let expected = match (first <= last, wanted.first(), wanted.last()) {
                (false, ..) => Requested::Whole,
                (true, Some(&first), Some(&last)) => part(first, last),
                _ => Requested::Unsatisfiable,
            };
            prop_assert_eq!(parse(&format!("bytes={first}-{last}"), size), expected);
        }

        /// No header may bring the endpoint down.
        #[test]
        fn any_text_is_survived(header in ".{0,80}", size: u64) {
            let _ = parse(&header, size);
        }
    }
}
