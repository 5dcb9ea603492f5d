//! Bodies of `multipart/byteranges` (RFC 9110 section 14.6): several ranges of a file in one answer.

use bytes::Bytes;

use crate::range::ByteRange;

/// The ranges of an answer, with the lines between them. A line is made when it is sent: memory is bounded by the ranges' numbers, 16 bytes each.
#[derive(Debug, Clone)]
pub struct Multipart {
    boundary: String,
    size: u64,
    parts: Vec<ByteRange>,
}

impl Multipart {
    /// These ranges of a file of `size` bytes. The boundary is at most 70 letters and digits, drawn at random: the
    /// author of the file cannot have known it.
    pub fn new(parts: Vec<ByteRange>, size: u64, boundary: String) -> Self {
        Self { boundary, size, parts }
    }

    /// The value of `Content-Type`.
    pub fn content_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", self.boundary)
    }

    /// The ranges, in order.
    pub fn parts(&self) -> &[ByteRange] {
        &self.parts
    }

    /// The lines before a range. The file's own type is always the same here.
    pub fn before(&self, part: ByteRange) -> Bytes {
        let range = part.content_range(self.size);
        let text = format!(
            "\r\n--{}\r\nContent-Type: application/octet-stream\r\nContent-Range: {range}\r\n\r\n",
            self.boundary
        );
        text.into()
    }

    /// The line after the last range.
    pub fn end(&self) -> Bytes {
        format!("\r\n--{}--\r\n", self.boundary).into()
    }

    /// The length of the whole body, in bytes.
    pub fn length(&self) -> u64 {
        let part = |part: &ByteRange| self.before(*part).len() as u64 + part.length();
        self.parts.iter().map(part).sum::<u64>() + self.end().len() as u64
    }
}
