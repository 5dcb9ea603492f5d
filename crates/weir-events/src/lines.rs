//! Lines of the spool: the kind of a message, its VO, and the message itself.

use crate::kind::MessageKind;

/// Lines to be appended at once.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    counts: [u64; 3],
}

/// A place in [`Lines`].
#[derive(Debug, Clone, Copy)]
pub struct Mark(usize, [u64; 3]);

impl Lines {
    /// Adds a message: JSON without line breaks.
    pub fn write(&mut self, kind: MessageKind, vo: &str, message: &[u8]) {
        self.bytes.extend_from_slice(kind.letters().as_bytes());
        self.bytes.push(b' ');
        // A VO has no spaces; were there one, the line could not be read.
        self.bytes.extend(vo.bytes().filter(|byte| !byte.is_ascii_whitespace()));
        self.bytes.push(b' ');
        self.bytes.extend_from_slice(message);
        self.bytes.push(b'\n');
        self.counts[kind as usize] += 1;
    }

    /// The place after the last line, for [`Lines::take_back`].
    pub fn mark(&self) -> Mark {
        Mark(self.bytes.len(), self.counts)
    }

    /// Removes the lines after a mark.
    pub fn take_back(&mut self, mark: Mark) {
        self.bytes.truncate(mark.0);
        self.counts = mark.1;
    }

    /// As they are appended.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many there are of each kind.
    pub fn counts(&self) -> impl Iterator<Item = (MessageKind, u64)> {
        MessageKind::ALL.into_iter().zip(self.counts)
    }
}

/// One message of the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub kind: MessageKind,
    pub vo: &'a str,
    pub json: &'a [u8],
}

/// The messages of a chunk. A line that cannot be understood is passed over: it is of another version, or damaged.
pub(crate) fn messages(lines: &[u8]) -> Vec<Message<'_>> {
    lines.split(|byte| *byte == b'\n').filter_map(message).collect()
}

fn message(line: &[u8]) -> Option<Message<'_>> {
    let kind = MessageKind::from_letters(std::str::from_utf8(line.get(..2)?).ok()?)?;
    let rest = line.get(3..)?;
    let space = rest.iter().position(|byte| *byte == b' ')?;
    Some(Message {
        kind,
        vo: std::str::from_utf8(&rest[..space]).ok()?,
        json: &rest[space + 1..],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[u8]) -> Vec<(MessageKind, &str, usize)> {
        let read = messages(lines).into_iter();
        read.map(|message| (message.kind, message.vo, message.json.len()))
            .collect()
    }

    #[test]
    fn a_line_that_makes_no_sense_is_passed_over() {
        let lines = b"CO atlas {\"a\":1}\nXX atlas {}\nCO\n\nST  {\"b\":\"\xc3\xa9 x\"}\n";
        assert_eq!(
            read(lines),
            [(MessageKind::Complete, "atlas", 7), (MessageKind::Start, "", 12)]
        );
    }

    #[test]
    fn a_written_value_reads_back() {
        // A sink would send messages of one VO as another's, or none.
        let mut lines = Lines::default();
        lines.write(MessageKind::State, "a tlas", b"{}");
        lines.write(MessageKind::Start, "cms", b"{ }");
        assert_eq!(
            read(lines.as_bytes()),
            [(MessageKind::State, "atlas", 2), (MessageKind::Start, "cms", 3)]
        );
        let counts: Vec<u64> = lines.counts().map(|(_, count)| count).collect();
        assert_eq!(counts, [1, 0, 1]);
    }
}
