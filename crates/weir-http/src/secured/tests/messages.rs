//! Messages after the handshake.

use proptest::prelude::*;
use rustls::AlertDescription::*;

use super::{
    super::{
        established::{EMPTY, RECORDS_OF_A_KEY, UPDATES},
        records::{ALERT, DATA, HANDSHAKE},
    },
    pair, pair_with,
};

const UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
const UPDATE_BOTH: [u8; 5] = [24, 0, 0, 1, 1];

#[test]
fn a_key_that_has_done_enough_is_replaced() {
    let (mut server, mut client) = pair(None);
    for used in [RECORDS_OF_A_KEY - 1, RECORDS_OF_A_KEY] {
        // Both ends count, so both are set forward.
        client.keyed.sealer().set_used(used);
        server.keyed.opener().set_used(used);
        for number in 0..4 {
            let sealed = client.says(&vec![number; 20_000]);
            assert!(
                server.hears(&sealed).unwrap().0 == vec![number; 20_000],
                "{used} {number}"
            );
        }
        assert!(client.keyed.sealer().used() < 20);
    }
}

#[test]
fn a_new_key_that_is_asked_for_comes_before_the_next_data() {
    let (mut server, mut client) = pair(None);
    // As rustls does, which seals the update with the old key.
    let asked = client.crafts(HANDSHAKE, &UPDATE_BOTH);
    client.keyed.renew_sealer();
    assert_eq!(server.hears(&asked).unwrap().0, b"");
    let sealed = client.says(b"under the new key");
    assert_eq!(server.hears(&sealed).unwrap().0, b"under the new key");
    let answer = server.says(b"answer");
    assert_eq!(client.hears(&answer).unwrap().0, b"answer");
    assert_eq!(server.keyed.sealer().used(), 1, "it has a new key too");
}

#[test]
fn new_keys_without_end_are_refused() {
    let (mut server, mut client) = pair(None);
    let mut renewed = |client: &mut super::End<_>| {
        let update = client.crafts(HANDSHAKE, &UPDATE);
        client.keyed.renew_sealer();
        server.hears(&update).map(|_| ())
    };
    for _ in 0..UPDATES {
        renewed(&mut client).unwrap();
    }
    assert_eq!(renewed(&mut client).unwrap_err().alert, Some(UnexpectedMessage));
}

#[test]
fn alerts_end_what_the_other_side_says() {
    for (alert, ends) in [
        (&[1, 0][..], Ok(true)),
        (&[1, 90], Ok(false)),
        (&[2, 40], Err(None)),
        (&[1], Err(Some(DecodeError))),
    ] {
        let (mut server, mut client) = pair(None);
        let sealed = client.crafts(ALERT, alert);
        let heard = server.hears(&sealed).map(|(_, end)| end).map_err(|fault| fault.alert);
        assert_eq!(heard, ends, "{alert:?}");
    }
    let (mut server, mut client) = pair(None);
    let mut out = client.says(b"last");
    out.extend(client.crafts(ALERT, &[1, 0]));
    assert_eq!(server.hears(&out).unwrap(), (b"last".to_vec(), true));
}

#[test]
fn messages_that_nobody_asked_for_are_refused() {
    let ticket = [4, 0, 0, 3, 0, 0, 0];
    let certificate_request = [13, 0, 0, 1, 0];
    let behind = [UPDATE, UPDATE].concat();
    let endless = [4, 0xff, 0xff, 0xff];
    for (message, alert) in [
        (&ticket[..], UnexpectedMessage),
        (&certificate_request, UnexpectedMessage),
        (&behind, UnexpectedMessage),
        (&[24, 0, 0, 1, 2], IllegalParameter),
        (&[24, 0, 0, 2, 0, 0], UnexpectedMessage),
        (&endless, UnexpectedMessage),
        (&[], UnexpectedMessage),
    ] {
        let (mut server, mut client) = pair(None);
        let sealed = client.crafts(HANDSHAKE, message);
        assert_eq!(server.hears(&sealed).unwrap_err().alert, Some(alert), "{message:?}");
    }
    // A client takes tickets, and none that is broken.
    let (mut server, mut client) = pair(None);
    let sealed = server.crafts(HANDSHAKE, &ticket);
    assert_eq!(client.hears(&sealed).unwrap_err().alert, Some(DecodeError));
    // Nothing comes between the parts of a message.
    let (mut server, mut client) = pair(None);
    let mut sealed = client.crafts(HANDSHAKE, &UPDATE[..3]);
    sealed.extend(client.says(b"data"));
    assert_eq!(server.hears(&sealed).unwrap_err().alert, Some(UnexpectedMessage));
}

/// A client need not wait after its last handshake message, and the network may put both into one packet.
#[test]
fn bytes_behind_the_handshake_are_kept() {
    let (_, _, heard) = pair_with(None, |client| {
        let mut out = client.says(b"data");
        out.extend(client.crafts(ALERT, &[1, 0]));
        out.extend(client.says(b"behind the end"));
        out
    });
    assert_eq!(heard, (b"data".to_vec(), true));
    let (mut server, mut client, heard) = pair_with(None, |client| {
        let mut out = client.crafts(HANDSHAKE, &UPDATE_BOTH[..2]);
        out.extend(client.crafts(HANDSHAKE, &UPDATE_BOTH[2..]));
        client.keyed.renew_sealer();
        out.extend(client.says(b"new key"));
        out
    });
    assert_eq!(heard, (b"new key".to_vec(), false));
    let answer = server.says(b"answer");
    assert_eq!(client.hears(&answer).unwrap().0, b"answer");
}

#[test]
fn a_message_may_come_in_any_pieces() {
    for cut in 1..UPDATE.len() {
        let (mut server, mut client) = pair(None);
        let mut sealed = client.crafts(HANDSHAKE, &UPDATE[..cut]);
        sealed.extend(client.crafts(HANDSHAKE, &UPDATE[cut..]));
        client.keyed.renew_sealer();
        sealed.extend(client.says(b"data"));
        assert_eq!(server.hears(&sealed).unwrap().0, b"data");
    }
}

/// Each costs a decryption.
#[test]
fn records_without_end_that_say_nothing_are_refused() {
    for (kind, bytes) in [(DATA, &[][..]), (ALERT, &[1, 90])] {
        let (mut server, mut client) = pair(None);
        for _ in 0..EMPTY {
            let sealed = client.crafts(kind, bytes);
            server.hears(&sealed).unwrap();
        }
        let sealed = client.crafts(kind, bytes);
        assert_eq!(server.hears(&sealed).unwrap_err().alert, Some(UnexpectedMessage));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any message of a peer after the handshake is refused, or without effect, and never data.
    #[test]
    fn no_message_is_data(
        messages in proptest::collection::vec((20u8..26, proptest::collection::vec(0u8..26, 0..40)), 1..6)
    ) {
        let (mut server, mut client) = pair(None);
        for (kind, bytes) in messages {
            let sealed = client.crafts(kind, &bytes);
            match server.hears(&sealed) {
                Ok((heard, _)) => {
                    let data = if kind == 23 { bytes } else { Vec::new() };
                    prop_assert_eq!(heard, data);
                }
                Err(_) => break,
            }
        }
    }
}
