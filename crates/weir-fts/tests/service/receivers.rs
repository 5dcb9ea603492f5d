//! Receivers of messages: a webhook, and as much of a STOMP broker as a sender sees.

use std::{
    collections::VecDeque,
    convert::Infallible,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::Arc,
};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use weir_http::{RunningServer, ServerLimits, body};

use crate::lab::loopback;

/// A webhook that answers as it is told, and then with 200.
pub(crate) struct Hook {
    address: std::net::SocketAddr,
    shared: Arc<Told>,
    _server: RunningServer,
}

#[derive(Default)]
struct Told {
    answers: Mutex<VecDeque<u16>>,
    seen: Mutex<Vec<Value>>,
}

impl Hook {
    pub(crate) fn start() -> Self {
        let shared = Arc::new(Told::default());
        let listener = weir_http::bind(loopback()).unwrap();
        let address = listener.local_addr().unwrap();
        let inner = shared.clone();
        let service = tower::service_fn(move |request: Request<Incoming>| {
            let told = inner.clone();
            async move {
                let bytes = request.into_body().collect().await.unwrap().to_bytes();
                told.seen.lock().push(serde_json::from_slice(&bytes).unwrap());
                let mut response = Response::new(body::empty());
                let status = told.answers.lock().pop_front().unwrap_or(200);
                *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
                Ok::<_, Infallible>(response)
            }
        });
        let server = weir_http::serve(listener, None, ServerLimits::default(), service).unwrap();
        Self {
            address,
            shared,
            _server: server,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) fn answer(&self, statuses: &[u16]) {
        self.shared.answers.lock().extend(statuses);
    }

    /// Every batch that came, taken or not.
    pub(crate) fn seen(&self) -> Vec<Value> {
        self.shared.seen.lock().clone()
    }
}

/// Takes frames, and gives receipts for them.
pub(crate) struct Broker {
    address: std::net::SocketAddr,
    shared: Arc<Frames>,
}

#[derive(Default)]
struct Frames {
    connections: Mutex<Vec<TcpStream>>,
    logins: Mutex<Vec<(String, String)>>,
    seen: Mutex<Vec<Value>>,
    poison: Mutex<Option<String>>,
}

impl Broker {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind(loopback()).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Frames::default());
        let inner = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                inner.connections.lock().push(stream.try_clone().unwrap());
                let frames = inner.clone();
                std::thread::spawn(move || frames.serve(stream));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Headers and body of every message.
    pub(crate) fn seen(&self) -> Vec<Value> {
        self.shared.seen.lock().clone()
    }

    pub(crate) fn logins(&self) -> Vec<(String, String)> {
        self.shared.logins.lock().clone()
    }

    /// From now on a message that holds this is answered with an error, as one that is too large.
    pub(crate) fn refuse(&self, text: &str) {
        *self.shared.poison.lock() = Some(text.to_owned());
    }

    pub(crate) fn drop_connections(&self) {
        for stream in self.shared.connections.lock().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Frames {
    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut wire = BufReader::new(stream.try_clone().unwrap());
        loop {
            let mut lines = Vec::new();
            loop {
                let mut line = String::new();
                if wire.by_ref().read_line(&mut line).ok()? == 0 {
                    return None;
                }
                match (line.trim_end_matches('\n'), lines.is_empty()) {
                    ("", true) => {}
                    ("", false) => break,
                    (line, _) => lines.push(line.to_owned()),
                }
            }
            let mut text = Vec::new();
            wire.read_until(0, &mut text).ok()?;
            text.pop();
            let poison = self.poison.lock().clone();
            if poison.is_some_and(|poison| String::from_utf8_lossy(&text).contains(&poison)) {
                stream.write_all(b"ERROR\nmessage:too large\n\n\0\n").ok()?;
                stream.shutdown(Shutdown::Both).ok()?;
                return None;
            }
            let mut frame: Map<String, Value> = lines[1..]
                .iter()
                .filter_map(|line| line.split_once(':'))
                .map(|(key, value)| (key.to_owned(), value.replace("\\c", ":").into()))
                .collect();
            let header = |frame: &Map<String, Value>, key: &str| {
                frame.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            if lines[0] == "CONNECT" {
                let login = (header(&frame, "login"), header(&frame, "passcode"));
                self.logins.lock().push(login);
                stream.write_all(b"CONNECTED\nversion:1.2\n\n\0\n").ok()?;
                continue;
            }
            frame.insert("space".into(), (text.pop() == Some(b' ')).into());
            frame.insert("body".into(), serde_json::from_slice(&text).unwrap());
            let receipt = header(&frame, "receipt");
            self.seen.lock().push(frame.into());
            if !receipt.is_empty() {
                write!(stream, "RECEIPT\nreceipt-id:{receipt}\n\n\0\n").ok()?;
            }
        }
    }
}
