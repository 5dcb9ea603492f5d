//! Chance that can be repeated: numbers and file contents drawn from a seed.

/// Random numbers from a seed (`SplitMix64`, Steele, Lea and Flood, OOPSLA 2014).
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// A number from `start` up to, and without, `end`.
    pub fn between(&mut self, start: u64, end: u64) -> u64 {
        start + self.below(end - start)
    }

    /// From 0 up to, and without, 1.
    pub fn fraction(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// So many bytes that no compression, block or repetition makes alike.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend(self.number().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

/// Adler-32 (RFC 1950 section 8.2) as storages and submissions write it: `ADLER32:0a1b2c3d`.
pub fn adler32(bytes: &[u8]) -> String {
    let (mut a, mut b) = (1_u32, 0_u32);
    // 5552 bytes: the most for which b stays below 2^32.
    for chunk in bytes.chunks(5552) {
        for byte in chunk {
            a += u32::from(*byte);
            b += a;
        }
        a %= 65_521;
        b %= 65_521;
    }
    format!("ADLER32:{:08x}", b << 16 | a)
}

#[cfg(test)]
mod tests {
    #[test]
    fn adler32_is_the_fields_own() {
        // Every checksum of these tests would be wrong. The value is that of RFC 1950's sample in its errata and Wikipedia.
        assert_eq!(super::adler32(b"Wikipedia"), "ADLER32:11e60398");
    }
}
