//! Data, as records carry them.

use proptest::prelude::*;
use rustls::AlertDescription;

use super::{
    super::layout::{BEYOND, HEADER, PLAIN},
    super::outgoing::Outgoing,
    super::pieces::Pieces,
    super::records::{ALERT, DATA},
    SUITES, pair,
};

#[test]
fn data_arrive_under_every_suite_in_both_directions() {
    for suite in SUITES {
        let (mut server, mut client) = pair(Some(suite));
        for length in [1, 100, PLAIN - 1, PLAIN, PLAIN + 1, 3 * PLAIN + 7] {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let sealed = client.says(&bytes);
            assert_eq!(sealed.len(), length + BEYOND * length.div_ceil(PLAIN));
            assert!(server.hears(&sealed).unwrap() == (bytes.clone(), false));
            let sealed = server.says(&bytes);
            // Its tickets come first.
            assert!(client.hears(&sealed).unwrap() == (bytes, false));
        }
    }
}

#[test]
fn padding_is_no_data() {
    let (mut server, mut client) = pair(None);
    let padded = client.crafts(0, b"data\x17\0\0\0");
    assert_eq!(server.hears(&padded).unwrap().0, b"data");
    let empty = client.crafts(DATA, b"");
    assert_eq!(server.hears(&empty).unwrap().0, b"");
    let nothing = client.crafts(0, b"\0\0");
    assert_eq!(
        server.hears(&nothing).unwrap_err().alert,
        Some(AlertDescription::UnexpectedMessage)
    );
}

/// An old record that is taken again is a byte written twice.
#[test]
fn records_are_taken_once_and_in_order() {
    for order in [&[0, 0][..], &[1], &[0, 2], &[0, 1, 0]] {
        let (mut server, mut client) = pair(None);
        let records: Vec<_> = (0..3).map(|byte| client.says(&[byte; 10])).collect();
        let (last, first) = order.split_last().unwrap();
        for at in first {
            server.hears(&records[*at]).unwrap();
        }
        assert_eq!(
            server.hears(&records[*last]).unwrap_err().alert,
            Some(AlertDescription::BadRecordMac)
        );
    }
}

#[test]
fn records_that_nobody_may_send_are_refused() {
    let plain_data = [DATA, 3, 3, 0, 3, 1, 2, 3];
    let plain_alert = [ALERT, 3, 3, 0, 2, 1, 0];
    let change_cipher_spec = [20, 3, 3, 0, 1, 1];
    let huge = [DATA, 3, 3, 0x41, 0x01];
    for (bytes, alert) in [
        (&plain_data[..], AlertDescription::BadRecordMac),
        (&plain_alert, AlertDescription::UnexpectedMessage),
        (&change_cipher_spec, AlertDescription::UnexpectedMessage),
        (&huge, AlertDescription::RecordOverflow),
        (b"GET / HTTP/1.1\r\n", AlertDescription::UnexpectedMessage),
    ] {
        let (mut server, _client) = pair(None);
        assert_eq!(server.hears(bytes).unwrap_err().alert, Some(alert), "{bytes:?}");
    }
    let (mut server, mut client) = pair(None);
    let long = client.crafts(DATA, &vec![7; PLAIN + 1]);
    assert_eq!(
        server.hears(&long).unwrap_err().alert,
        Some(AlertDescription::RecordOverflow)
    );
}

/// Unencrypted bytes must not be sent.
#[test]
fn a_record_that_cannot_be_sealed_leaves_nothing() {
    let (_, mut client) = pair(None);
    client.keyed.sealer().set_used(u64::MAX);
    let mut out = Outgoing::default();
    out.extend(6).copy_from_slice(b"before");
    assert!(client.keyed.sealer().seal_message(DATA, b"secret", &mut out).is_err());
    assert_eq!(out.take(), b"before");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The socket cuts records anywhere.
    #[test]
    fn records_may_come_in_any_pieces(
        lengths in proptest::collection::vec(0usize..40_000, 1..5),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let (mut server, mut client) = pair(None);
        let (mut said, mut sealed) = (Vec::new(), Vec::new());
        for (number, length) in lengths.into_iter().enumerate() {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + number) as u8).collect();
            sealed.extend(client.says(&bytes));
            said.extend(bytes);
        }
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.index(sealed.len() + 1)).collect();
        cuts.extend([0, sealed.len()]);
        cuts.sort_unstable();
        let mut heard = Vec::new();
        for cut in cuts.windows(2) {
            heard.extend(server.hears(&sealed[cut[0]..cut[1]]).unwrap().0);
        }
        prop_assert!(heard == said);
    }

    /// A head and a body lie in several places, and records end where they like.
    #[test]
    fn secrets_of_several_places_are_sealed_in_order(lengths in proptest::collection::vec(0usize..40_000, 1..6)) {
        let (mut server, mut client) = pair(None);
        let pieces: Vec<Vec<u8>> = lengths
            .iter()
            .enumerate()
            .map(|(number, length)| (0..*length).map(|at| (at * 7 + number) as u8).collect())
            .collect();
        let slices: Vec<_> = pieces.iter().map(|piece| std::io::IoSlice::new(piece)).collect();
        let said = pieces.concat();
        let mut out = Outgoing::default();
        client.keyed.seal(Pieces::new(&slices), said.len(), &mut out).unwrap();
        let sealed = out.take();
        prop_assert_eq!(sealed.len(), said.len() + BEYOND * said.len().div_ceil(PLAIN));
        prop_assert!(server.hears(&sealed).unwrap().0 == said);
    }

    /// A bit that was turned on the way must never be taken for data.
    #[test]
    fn a_record_that_was_touched_is_refused(length in 1usize..200, at: prop::sample::Index, bit in 0u8..8) {
        let (mut server, mut client) = pair(None);
        let mut sealed = client.says(&vec![1; length]);
        let at = at.index(sealed.len());
        sealed[at] ^= 1 << bit;
        // Behind it there is enough for a record that says it is longer.
        sealed.extend(vec![0; 70_000]);
        let fault = server.hears(&sealed).unwrap_err();
        // The type and the length are looked at before the whole.
        prop_assert!(at < HEADER || fault.alert == Some(AlertDescription::BadRecordMac), "{:?} at {at}", fault);
    }
}
