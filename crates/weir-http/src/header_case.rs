//! Header names in their customary spelling.
//!
//! Names are case-insensitive (RFC 9110 section 5.1), and hyper sends them in lower case. XRootD looks for
//! `Authorization`, `Source` or `TransferHeaderAuthorization` letter by letter (measured with 5.5.3: a lower-case
//! `authorization` is a request without a token). hyper spells a request's names like those of an earlier request if it
//! finds that one's map in the extensions. So one request with the right names is parsed in memory, once, and its map
//! goes along with every request.

use std::{convert::Infallible, sync::OnceLock};

use http::{Extensions, Request, Response};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;

/// Names that title case (`Want-Digest`) gets wrong, and those on which a transfer depends.
const NAMES: [&str; 8] = [
    "TransferHeaderAuthorization",
    "TransferHeaderSciTag",
    "TransferHeaderArchiveMetadata",
    "SciTag",
    "ClientInfo",
    "RequireChecksumVerification",
    "ArchiveMetadata",
    "TE",
];

/// The extensions that make hyper write [`NAMES`] as they stand here.
pub(crate) fn extensions() -> &'static Extensions {
    static MAP: OnceLock<Extensions> = OnceLock::new();
    MAP.get_or_init(|| {
        // A thread of its own, because the caller may be inside a runtime.
        std::thread::spawn(parse)
            .join()
            .expect("parsing a constant does not panic")
    })
}

fn parse() -> Extensions {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime without I/O needs nothing of the system");
    runtime.block_on(async {
        let mut text = String::from("GET / HTTP/1.1\r\nHost: weir\r\n");
        for name in NAMES {
            text.push_str(name);
            text.push_str(": x\r\n");
        }
        text.push_str("Connection: close\r\n\r\n");
        let (mut near, far) = tokio::io::duplex(text.len() + 1024);
        near.write_all(text.as_bytes()).await.expect("the pipe is large enough");
        let (put, get) = std::sync::mpsc::channel();
        let service = service_fn(move |request: Request<Incoming>| {
            let _ = put.send(request.extensions().clone());
            async { Ok::<_, Infallible>(Response::new(crate::body::empty())) }
        });
        let _ = hyper::server::conn::http1::Builder::new()
            .preserve_header_case(true)
            .serve_connection(TokioIo::new(far), service)
            .await;
        get.recv().expect("the constant is a well-formed request")
    })
}
