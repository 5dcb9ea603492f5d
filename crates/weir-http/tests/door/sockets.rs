use std::{io, num::NonZeroU64, sync::Arc};

use http::Request;
use parking_lot::Mutex;
use weir_http::{
    Client, ClientConfig, ConnectedTo, ConnectionInfo, ServerLimits, SocketSettings, TcpGroup, TrustRoots, bind_with,
    body, serve,
};

use crate::{echo, loopback};

/// A congestion control that the machine has and that is not its default.
fn another_congestion() -> String {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap();
    let usual = read("tcp_congestion_control");
    let allowed = read("tcp_allowed_congestion_control");
    let mut others = allowed.split_whitespace().filter(|name| *name != usual.trim());
    others.next().unwrap_or(usual.trim()).to_owned()
}

/// Settings that are read and never reach the kernel would be believed.
#[tokio::test]
async fn a_setting_holds_for_both_ends_of_a_connection() {
    let settings = SocketSettings {
        congestion: Some(another_congestion()),
        pacing: NonZeroU64::new(50_000_000),
        receive_buffer: Some(100_000),
        send_buffer: None,
    };
    settings.check().unwrap();
    let seen = Arc::new(Mutex::new(None));
    let service = tower::service_fn({
        let seen = seen.clone();
        move |request: Request<hyper::body::Incoming>| {
            let info = request.extensions().get::<ConnectionInfo>().unwrap().clone();
            let figures = info.socket.figures();
            *seen.lock() = Some((info, figures.unwrap()));
            echo(request)
        }
    });
    let listener = bind_with(loopback(), &settings).unwrap();
    let server = serve(listener, None, ServerLimits::default(), service).unwrap();
    let mut config = ClientConfig::new(TrustRoots::default());
    config.socket = settings.clone();
    let ledgers = [server.ledger(), config.ledger.clone()];
    let client = Client::new(config).unwrap();
    let request = Request::get(format!("http://{}/", server.address())).body(body::empty());
    let response = client.send(request.unwrap()).await.unwrap();
    let to = response.extensions().get::<ConnectedTo>().unwrap().clone();
    let (info, theirs) = seen.lock().clone().unwrap();
    assert_eq!((to.peer, to.local), (info.local, info.peer));
    let ours = to.socket.figures().unwrap();
    for figures in [&ours, &theirs] {
        assert_eq!(Some(&figures.congestion), settings.congestion.as_ref());
        assert!(
            figures.pacing_rate.is_some_and(|rate| rate <= 50_000_000),
            "{figures:?}"
        );
        assert!(
            figures.round_trip.as_micros() > 0 && figures.window > 0 && figures.segment > 0,
            "{figures:?}"
        );
        // Twice what was asked for is the kernel's own share of it.
        assert!((1..=200_000).contains(&figures.peer_window), "{figures:?}");
    }
    assert!(theirs.received > 0 && ours.sent > 0);
    let peers = [info.peer.ip(), to.peer.ip()];
    let totals = || {
        let of = |at: usize| {
            let group = TcpGroup {
                peer: Some(peers[at]),
                congestion: ours.congestion.clone(),
            };
            ledgers[at].totals()[&group].clone()
        };
        [of(0), of(1)]
    };
    let open = totals();
    for side in &open {
        assert!(side.open == 1 && side.window > 0 && side.sent > 0, "{side:?}");
        assert!(!side.round_trip.is_zero() && side.pacing_rate > 0, "{side:?}");
    }
    drop((response, client));
    server.shutdown().await;
    for (before, after) in open.iter().zip(totals()) {
        assert_eq!((after.open, after.window, after.pacing_rate), (0, 0, 0));
        assert!(after.sent >= before.sent, "what was counted is forgotten: {after:?}");
    }
    assert_eq!(to.socket.figures(), None, "a closed connection has no figures");
    assert_eq!(info.socket.figures(), None);
}

/// A congestion control that is misspelt would be noticed in the next data challenge.
#[test]
fn an_option_that_the_kernel_refuses_is_named() {
    let settings = SocketSettings {
        congestion: Some("nosuch".into()),
        ..SocketSettings::default()
    };
    let error = settings.check().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().contains("nosuch"), "{error}");
}
