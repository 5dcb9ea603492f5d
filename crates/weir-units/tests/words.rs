//! Properties and examples of the words.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

use std::time::Duration;

use proptest::prelude::*;
use weir_units::{Algorithm, BitRate, Bytes, Checksum, Checksums, Hasher, Timestamp, combine, duration};
use weir_units::{ParseError, parse_digest_header};

fn size(text: &str) -> Result<u64, String> {
    text.parse::<Bytes>()
        .map(|b| b.0)
        .map_err(|e| format!("{e}; {}", e.remedy()))
}

fn rate(text: &str) -> Result<u64, String> {
    text.parse::<BitRate>()
        .map(|b| b.0)
        .map_err(|e| format!("{e}; {}", e.remedy()))
}

/// Sizes would be read wrongly, or a size without unit would pass.
#[test]
fn sizes() {
    assert_eq!(size("5 GB"), Ok(5_000_000_000));
    assert_eq!(size("256kB"), Ok(256_000));
    assert_eq!(size(" 10 GiB "), Ok(10 << 30));
    assert_eq!(size("0 B"), Ok(0));
    assert_eq!(size("1.5 KiB"), Ok(1536));
    assert_eq!(size("1_000 B"), Ok(1000));
    assert_eq!(size("18446744073709551615 B"), Ok(u64::MAX));
    assert_eq!(
        size("5"),
        Err("size \"5\" has no unit; add a unit, such as \"5 GB\"".into())
    );
    assert_eq!(
        size("-5 GB"),
        Err("size \"-5 GB\" is negative; write a number and a unit, such as \"5 GB\"".into())
    );
    assert!(
        size("5 Gb")
            .unwrap_err()
            .contains("unknown unit \"Gb\"; use one of B, kB")
    );
    assert!(size("5 GB GB").unwrap_err().contains("unknown unit"));
    assert!(size("0.5 B").unwrap_err().contains("finer than 1 B"));
    assert!(size("19 EB").unwrap_err().contains("too large"));
    assert!(
        size("99999999999999999999999999999999999999999 B")
            .unwrap_err()
            .contains("too large")
    );
    for bad in ["", " ", "GB", ".5 GB", "1.2.3 GB", "1e3 GB", "∞ GB", "NaN", "_ B"] {
        assert!(size(bad).is_err(), "{bad}");
    }
}

/// Rates would be read wrongly, or bits taken for bytes.
#[test]
fn rates() {
    assert_eq!(rate("44 Gb/s"), Ok(44_000_000_000));
    assert_eq!(rate("1.5 Mb/s"), Ok(1_500_000));
    assert_eq!(rate("10 Gbps"), Ok(10_000_000_000));
    assert_eq!(rate("7 GB/s"), Ok(56_000_000_000));
    assert_eq!(
        rate("44").unwrap_err(),
        "rate \"44\" has no unit; add a unit, such as \"44 Gb/s\""
    );
    assert!(rate("44 gb/s").is_err());
    assert!(rate("44 GB").is_err());
}

/// Durations would be read or written wrongly.
#[test]
fn durations() {
    let parsed = |text: &str| duration::parse(text).map_err(|e: ParseError| e.to_string());
    assert_eq!(parsed("90 s"), Ok(Duration::from_secs(90)));
    assert_eq!(parsed("2h"), Ok(Duration::from_secs(7200)));
    assert_eq!(parsed("1m30s"), Ok(Duration::from_secs(90)));
    assert_eq!(parsed("1 m 30 s"), Ok(Duration::from_secs(90)));
    assert_eq!(parsed("250 ms"), Ok(Duration::from_millis(250)));
    assert_eq!(parsed("1.5 s"), Ok(Duration::from_millis(1500)));
    for bad in ["", "10", "1m30", "-1s", "1 y", "600000 d", "1m,30s"] {
        assert!(parsed(bad).is_err(), "{bad}");
    }
    let written = |nanos| duration::format(Duration::from_nanos(nanos));
    assert_eq!(written(0), "0s");
    assert_eq!(written(250_000_000), "250ms");
    assert_eq!(written(90_000_000_000), "1m30s");
    assert_eq!(written(1_500_000_000), "1.5s");
    assert_eq!(written(90_061_000_000_001), "1d1h1m1.000000001s");
}

/// Figures would print without or with a wrong unit.
#[test]
fn printing() {
    assert_eq!(Bytes(1_421_000_000).to_string(), "1.421 GB");
    assert_eq!(format!("{:.1}", Bytes(1_451_000_000)), "1.5 GB");
    assert_eq!(format!("{:.1}", Bytes(999)), "999 B");
    assert_eq!(format!("{:.0}", BitRate(131_400_000_000)), "131 Gb/s");
    assert_eq!(format!("{:>10}", BitRate(1_000)), "    1 kb/s");
    assert_eq!(Timestamp(12_500_000_000).to_string(), "12.5 s");
    assert_eq!(Timestamp::from_secs(951_782_400).rfc3339(), "2000-02-29T00:00:00.000Z");
    assert_eq!(
        Timestamp(1_733_745_600_123_456_789).rfc3339(),
        "2024-12-09T12:00:00.123Z"
    );
}

/// A moment would be read as another one, or as one that does not exist.
#[test]
fn moments_read_back() {
    for seconds in [0, 951_782_400, 1_707_696_000, 4_107_542_399, 18_000_000_000] {
        let text = Timestamp::from_secs(seconds).rfc3339().replace(".000", "");
        assert_eq!(
            Timestamp::parse_rfc3339(&text),
            Some(Timestamp::from_secs(seconds)),
            "{text}"
        );
    }
    for text in [
        "",
        "2024-02-12",
        "2024-02-12T00:00:00",
        "2024-02-30T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "2024-13-01T00:00:00Z",
        "2024-00-01T00:00:00Z",
        "2024-01-00T00:00:00Z",
        "2024-01-01T24:00:00Z",
        "2024-01-01T00:60:00Z",
        "2024-01-01T00:00:00+01:00",
        "1969-12-31T23:59:59Z",
        "9999-12-31T23:59:59Z",
        "2024-1-01T00:00:00Z",
        "+024-01-01T00:00:00Z",
    ] {
        assert_eq!(Timestamp::parse_rfc3339(text), None, "{text}");
    }
}

/// A zero rate would divide by zero, or rounding would lose a byte.
#[test]
fn rate_arithmetic() {
    assert_eq!(BitRate(0).time_for(Bytes(5)), None);
    assert_eq!(BitRate(8).time_for(Bytes(1)), Some(Duration::from_secs(1)));
    assert_eq!(BitRate::of(Bytes(5), Duration::ZERO), BitRate(0));
    assert_eq!(BitRate::of(Bytes(1_000), Duration::from_secs(1)), BitRate(8_000));
    assert_eq!(BitRate(u64::MAX).bytes_in(Duration::MAX), Bytes(u64::MAX));
    assert_eq!(
        BitRate(1).time_for(Bytes(u64::MAX)),
        Some(Duration::from_secs(u64::MAX))
    );
    assert_eq!(BitRate(131).scale(0.01), BitRate(1));
    assert_eq!(Bytes(3) - Bytes(5), Bytes(0));
}

/// Checksums would be wrong against the RFCs' own check values, or a dropped zero would change one.
#[test]
fn checksum_values_and_forms() {
    let mut hasher = Hasher::new(&Algorithm::ALL);
    hasher.update(b"123456789");
    let sums = hasher.finish();
    let text: Vec<String> = sums.iter().map(ToString::to_string).collect();
    assert_eq!(
        text[..3],
        [
            "adler32:091e01de",
            "crc32c:e3069283",
            "md5:25f9e794323b453885f5181f1b624d0b"
        ]
    );
    assert_eq!(
        text[3],
        "sha256:15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"
    );
    let adler = sums.get(Algorithm::Adler32).unwrap();
    assert_eq!("ADLER32:91E01DE".parse::<Checksum>().unwrap(), *adler);
    assert_eq!(adler.digest_header(), "adler32=091e01de");
    assert_eq!(
        sums.get(Algorithm::Md5).unwrap().digest_header(),
        "md5=JfnnlDI7RTiF9RgfG2JNCw=="
    );
    assert_eq!(adler.repr_digest(), "adler=:CR4B3g==:");
    for bad in [
        "adler32",
        "adler32:",
        "adler32:123456789",
        "adler32:xyz",
        "md5:25f9",
        "sha1:00",
        "crc32c:+1",
        ":1",
    ] {
        assert!(bad.parse::<Checksum>().is_err(), "{bad}");
    }
}

/// A real server's digest would be missed, or garbage taken for one.
#[test]
fn digest_headers() {
    let read = |header: &str| {
        parse_digest_header(header)
            .iter()
            .map(Checksum::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(read("adler32=091e01de"), ["adler32:091e01de"]);
    assert_eq!(read("ADLER32=91E01DE"), ["adler32:091e01de"]);
    assert_eq!(read("adler32=CR4B3g=="), ["adler32:091e01de"]);
    assert_eq!(read("crc32c=4waSgw=="), ["crc32c:e3069283"]);
    assert_eq!(read("crc32c=e3069283"), ["crc32c:e3069283"]);
    assert_eq!(
        read("md5=25f9e794323b453885f5181f1b624d0b"),
        ["md5:25f9e794323b453885f5181f1b624d0b"]
    );
    assert_eq!(
        read("md5=JfnnlDI7RTiF9RgfG2JNCw"),
        ["md5:25f9e794323b453885f5181f1b624d0b"]
    );
    assert_eq!(read(" unixsum=5 , sha=abc, adler32 = 1 ;q=0.5"), ["adler32:00000001"]);
    assert_eq!(
        read("adler=:CR4B3g==:, crc32c=:4waSgw==:"),
        ["adler32:091e01de", "crc32c:e3069283"]
    );
    for nothing in [
        "",
        ",",
        "=",
        "adler32",
        "adler32=",
        "adler32=zz",
        "md5=:JfnnlDI7",
        "sha-256=abcd",
        "é=ü",
    ] {
        assert!(read(nothing).is_empty(), "{nothing}");
    }
}

/// Serde would accept a rate without unit, or not give a value back.
#[test]
fn serde_forms() {
    #[derive(serde::Deserialize, serde::Serialize, PartialEq, Debug)]
    struct All {
        size: Bytes,
        #[serde(with = "duration")]
        time: Duration,
        #[serde(default, with = "duration::option")]
        maybe: Option<Duration>,
        sums: Checksums,
    }
    let text = r#"{"size":"5 GB","time":"1m30s","sums":{"ADLER32":"1","md5":"25f9e794323b453885f5181f1b624d0b"}}"#;
    let all: All = serde_json::from_str(text).unwrap();
    assert_eq!(
        (all.size, all.time, all.maybe),
        (Bytes(5_000_000_000), Duration::from_secs(90), None)
    );
    let json = serde_json::to_string(&all).unwrap();
    assert!(json.starts_with(r#"{"size":5000000000,"time":"1m30s","maybe":null,"sums":{"adler32":"00000001""#));
    assert_eq!(serde_json::from_str::<All>(&json).unwrap(), all);
    assert!(serde_json::from_str::<Bytes>("-5").is_err());
    assert!(serde_json::from_str::<Bytes>("5.5").is_err());
    assert_eq!(
        serde_json::from_str::<BitRate>("\"1 Gb/s\"").unwrap(),
        BitRate(1_000_000_000)
    );
    assert!(serde_json::from_str::<BitRate>("44").is_err());
    assert_eq!(serde_json::to_string(&BitRate(44)).unwrap(), "44");
}

fn sums_of(data: &[u8]) -> Checksums {
    let mut hasher = Hasher::new(&Algorithm::ALL);
    hasher.update(data);
    hasher.finish()
}

/// Adler-32 as RFC 1950 words it, one byte at a time.
fn reference_adler32(data: &[u8]) -> u32 {
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in data {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    (high << 16) | low
}

proptest! {
    /// The printed text would not be what was meant.
    #[test]
    fn printed_values_parse_back(value: u64, shift in 0_u32..64) {
        let value = value >> shift;
        prop_assert_eq!(Bytes(value).to_string().parse::<Bytes>().unwrap(), Bytes(value));
        prop_assert_eq!(BitRate(value).to_string().parse::<BitRate>().unwrap(), BitRate(value));
        let time = Duration::from_nanos(value);
        prop_assert_eq!(duration::parse(&duration::format(time)).unwrap(), time);
    }

    /// A rounded figure would differ from the value by more than its last digit.
    #[test]
    fn rounding_stays_near(value in 1_000_u64..1_000_000_000_000) {
        let text = format!("{:.2}", Bytes(value));
        let rounded = text.parse::<Bytes>().unwrap().0;
        prop_assert!(rounded.abs_diff(value) * 150 <= value, "{} for {}", text, value);
    }

    /// A hostile text would crash a parser.
    #[test]
    fn no_text_crashes_a_parser(text in "\\PC{0,40}|[0-9.,:=;_ a-zA-Z+/-]{0,40}") {
        let _ = (text.parse::<Bytes>(), text.parse::<BitRate>(), duration::parse(&text));
        let _ = (text.parse::<Checksum>(), parse_digest_header(&text));
    }

    /// A checksum would depend on how the data arrives, or a combined one differ from that of the whole.
    #[test]
    fn combined_is_whole(data in prop::collection::vec(any::<u8>(), 0..70_000), cut: prop::sample::Index) {
        let cut = cut.index(data.len() + 1);
        let whole = sums_of(&data);
        let mut pieces = Hasher::new(&Algorithm::ALL);
        pieces.update(&data[..cut]);
        pieces.update(&data[cut..]);
        prop_assert_eq!(&pieces.finish(), &whole);
        prop_assert_eq!(whole.get(Algorithm::Adler32), Some(&Checksum::adler32(reference_adler32(&data))));
        let (a, b) = (sums_of(&data[..cut]), sums_of(&data[cut..]));
        for algorithm in [Algorithm::Adler32, Algorithm::Crc32c] {
            let both = combine(a.get(algorithm).unwrap(), b.get(algorithm).unwrap(), (data.len() - cut) as u64);
            prop_assert_eq!(both.as_ref(), whole.get(algorithm));
        }
        prop_assert_eq!(combine(a.get(Algorithm::Md5).unwrap(), b.get(Algorithm::Md5).unwrap(), 1), None);
    }

    /// A checksum that we send would be read back as another.
    #[test]
    fn headers_read_back(data in prop::collection::vec(any::<u8>(), 0..100)) {
        let sums = sums_of(&data);
        let digest: Vec<String> = sums.iter().map(Checksum::digest_header).collect();
        prop_assert_eq!(&parse_digest_header(&digest.join(",")).into_iter().collect::<Checksums>(), &sums);
        let repr: Vec<String> = sums.iter().map(Checksum::repr_digest).collect();
        prop_assert_eq!(&parse_digest_header(&repr.join(", ")).into_iter().collect::<Checksums>(), &sums);
    }

    /// A volume and the time it needs would not belong together.
    #[test]
    fn time_for_covers_the_volume(rate in 1_u64..10_000_000_000_000, volume in 0_u64..1_000_000_000_000_000) {
        let time = BitRate(rate).time_for(Bytes(volume)).unwrap();
        prop_assert!(BitRate(rate).bytes_in(time) >= Bytes(volume));
        let less = time.saturating_sub(Duration::from_nanos(2));
        prop_assert!(volume == 0 || BitRate(rate).bytes_in(less) <= Bytes(volume));
    }
}
