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

/// The request of a `Range` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requested {
    /// The whole file: no range, a unit other than bytes, or a malformed header (all may be answered by 200).
    Whole,
    /// One part: 206.
    Part(ByteRange),
    /// Several parts: 206 with a body of `multipart/byteranges`. Two or more, in the order asked. Together they have at most as many bytes as
    /// the file: of a set that has more, overlapping and adjacent ranges are joined and sorted (section 15.3.7.2).
    Parts(Vec<ByteRange>),
    /// Ranges that all begin beyond the end: 416.
    Unsatisfiable,
}

/// Parses a `Range` header for a file of `size` bytes.
///
/// Only the length of a request's head limits the number of ranges: analysis programs send vector reads of a thousand
/// ranges, and need exactly these parts. Ranges that begin beyond the end are left out, unless all of them do.
pub fn parse(header: &str, size: u64) -> Requested {
    let Some((unit, set)) = header.split_once('=') else {
        return Requested::Whole;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Requested::Whole;
    }
    // An empty element of a list counts for nothing (section 5.6.1.2).
    let mut parts = Vec::new();
    let mut n_asked = 0;
    for element in set.split(',').map(str::trim).filter(|element| !element.is_empty()) {
        n_asked += 1;
        match one(element, size) {
            Requested::Part(part) => parts.push(part),
            Requested::Unsatisfiable => {}
            // One malformed range makes the header malformed.
            other => return other,
        }
    }
    match parts.as_slice() {
        [] if n_asked == 0 => Requested::Whole,
        [] => Requested::Unsatisfiable,
        [part] => Requested::Part(*part),
        _ => several(parts, size),
    }
}

/// The parts of a set, which are together no longer than the file: a set that names the same bytes again and again would have them sent as often.
fn several(parts: Vec<ByteRange>, size: u64) -> Requested {
    let total = parts.iter().map(|part| u128::from(part.length())).sum::<u128>();
    if total <= u128::from(size) {
        return Requested::Parts(parts);
    }
    let mut sorted = parts;
    sorted.sort_unstable_by_key(|part| part.first);
    let mut joined = Vec::<ByteRange>::new();
    for part in sorted {
        match joined.last_mut() {
            Some(last) if part.first <= last.last.saturating_add(1) => last.last = last.last.max(part.last),
            _ => joined.push(part),
        }
    }
    match joined.as_slice() {
        [part] => Requested::Part(*part),
        _ => Requested::Parts(joined),
    }
}

/// Reads one range of a set.
fn one(range: &str, size: u64) -> Requested {
    let Some((first, last)) = range.split_once('-') else {
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

    fn check(header: &str, size: u64, expected: &Requested) {
        assert_eq!(&parse(header, size), expected, "{header} of {size} bytes");
    }

    fn part(first: u64, last: u64) -> Requested {
        Requested::Part(ByteRange { first, last })
    }

    /// Were these wrong, a client would read other bytes than it asked for.
    #[test]
    fn ranges_as_clients_send_them() {
        check("bytes=0-0", 10, &part(0, 0));
        check("bytes=0-9", 10, &part(0, 9));
        check("bytes=3-", 10, &part(3, 9));
        check("bytes=-3", 10, &part(7, 9));
        check("bytes=-30", 10, &part(0, 9));
        check("Bytes = 2-4", 10, &part(2, 4));
        check("bytes=9-99999999999999999999999999", 10, &part(9, 9));
        check("bytes=10-", 10, &Requested::Unsatisfiable);
        check("bytes=99999999999999999999999999-", 10, &Requested::Unsatisfiable);
        check("bytes=-0", 10, &Requested::Unsatisfiable);
        check("bytes=0-", 0, &Requested::Unsatisfiable);
        check("bytes=-5", 0, &Requested::Whole);
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
            "bytes=0-1,3-x",
            "bytes=,",
        ] {
            check(malformed, 10, &Requested::Whole);
        }
    }

    fn parts<const N: usize>(ranges: [(u64, u64); N]) -> Requested {
        Requested::Parts(ranges.map(|(first, last)| ByteRange { first, last }).to_vec())
    }

    /// Were these wrong, a vector read would get bytes under another name, or the same ones many times over.
    #[test]
    fn sets_of_ranges_as_readers_send_them() {
        check("bytes=0-1,4-5", 10, &parts([(0, 1), (4, 5)]));
        check("bytes=4-5, 0-1", 10, &parts([(4, 5), (0, 1)]));
        check("bytes=0-1,,\t4-5 ,", 10, &parts([(0, 1), (4, 5)]));
        check("bytes=0-3,2-5", 10, &parts([(0, 3), (2, 5)]));
        check("bytes=0-1,2-3", 10, &parts([(0, 1), (2, 3)]));
        check("bytes=0-1,-2", 10, &parts([(0, 1), (8, 9)]));
        check("bytes=0-1,20-30", 10, &part(0, 1));
        check("bytes=0-1,20-30,5-", 10, &parts([(0, 1), (5, 9)]));
        check("bytes=20-30,40-50", 10, &Requested::Unsatisfiable);
        check("bytes=0-,0-,0-", 10, &part(0, 9));
        check("bytes=5-9,0-6,0-1", 10, &part(0, 9));
        check("bytes=6-9,0-3,0-3", 10, &parts([(0, 3), (6, 9)]));
        check("bytes=0-1,-5", 0, &Requested::Whole);
    }

    proptest! {
        /// The model: each byte that the set names comes, at least once, and no others; never more bytes than the file has.
        #[test]
        fn parts_are_what_the_set_names(ranges in prop::collection::vec((0u64..60, 0u64..20), 1..12), size in 1u64..50) {
            let texts = ranges.iter().map(|(first, more)| format!("{first}-{}", first + more)).collect::<Vec<_>>();
            let named = |at: &u64| ranges.iter().any(|(first, more)| (*first..=first + more).contains(at));
            let wanted = (0..size).filter(named).collect::<Vec<_>>();
            let found = match parse(&format!("bytes={}", texts.join(",")), size) {
                Requested::Whole => return Err(TestCaseError::fail("well formed")),
                Requested::Unsatisfiable => Vec::new(),
                Requested::Part(part) => vec![part],
                Requested::Parts(parts) => parts,
            };
            let mut bytes = found.iter().flat_map(|part| part.first..=part.last).collect::<Vec<_>>();
            prop_assert!(found.len() < 2 || bytes.len() as u64 <= size);
            bytes.sort_unstable();
            bytes.dedup();
            prop_assert_eq!(bytes, wanted);
        }

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
