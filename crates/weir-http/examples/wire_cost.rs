//! What a gigabyte costs a sender and a receiver together, over loopback, with nothing but this room between them.
//!
//! `cargo run --release -p weir-http --example wire_cost -- [--plain] [--push] [--rounds N] [--gigabytes N]`
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "printing is what it is for; a failure ends it"
)]

use std::{convert::Infallible, time::Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use weir_http::{
    Body, Client, ClientConfig, Identity, RunningServer, ServerLimits, TrustRoots, bind, body, serve, server_config,
};

/// As the storage endpoint sends a file.
const BLOCK: usize = 512 << 10;
/// As the storage endpoint gathers pieces before they are written.
const BATCH: usize = 1 << 20;

#[derive(Clone, Copy)]
struct Options {
    plain: bool,
    push: bool,
    rounds: usize,
    gigabytes: usize,
}

fn options() -> Options {
    let mut options = Options {
        plain: false,
        push: false,
        rounds: 5,
        gigabytes: 4,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--plain" => options.plain = true,
            "--push" => options.push = true,
            "--rounds" => options.rounds = arguments.next().unwrap().parse().unwrap(),
            "--gigabytes" => options.gigabytes = arguments.next().unwrap().parse().unwrap(),
            other => panic!("unknown argument {other}"),
        }
    }
    options
}

fn gigabytes(count: usize) -> (u64, Body) {
    let blocks: Vec<Bytes> = (0..8).map(|fill| Bytes::from(vec![fill; BLOCK])).collect();
    let count = count * 1_000_000_000 / BLOCK;
    let pieces = (0..count).map(move |index| Ok(blocks[index % blocks.len()].clone()));
    ((count * BLOCK) as u64, body::stream(futures_util::stream::iter(pieces)))
}

/// How much came, and in how many pieces.
async fn drain(mut body: Incoming) -> (u64, u64) {
    let (mut batch, mut gathered, mut read, mut pieces) = (Vec::new(), 0, 0, 0);
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.unwrap().into_data() else {
            continue;
        };
        gathered += piece.len();
        read += piece.len() as u64;
        pieces += 1;
        batch.push(piece);
        if gathered >= BATCH {
            batch.clear();
            gathered = 0;
        }
    }
    (read, pieces)
}

async fn answer(request: Request<Incoming>, options: Options) -> Response<Body> {
    if options.push {
        let (read, pieces) = drain(request.into_body()).await;
        return Response::new(body::full(format!("{read} {pieces}")));
    }
    let (length, body) = gigabytes(options.gigabytes);
    Response::builder().header("content-length", length).body(body).unwrap()
}

fn start(options: Options, runtime: &tokio::runtime::Runtime) -> (RunningServer, tempfile::NamedTempFile) {
    let _inside = runtime.enter();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), certificate.pem()).unwrap();
    let identity = Identity {
        chain_pem: certificate.pem(),
        key_pem: key.serialize_pem(),
    };
    let service = tower::service_fn(move |request| async move { Ok::<_, Infallible>(answer(request, options).await) });
    let tls = (!options.plain).then(|| server_config(&identity).unwrap());
    let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    (serve(listener, tls, ServerLimits::default(), service).unwrap(), file)
}

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn runtime(name: &str) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(1)
        .thread_name(name)
        .enable_all()
        .build()
        .unwrap()
}

fn main() {
    let options = options();
    let (near, far) = (runtime("client"), runtime("server"));
    let (server, roots) = start(options, &far);
    let client = near.block_on(async { Client::new(ClientConfig::new(TrustRoots::file(roots.path()))).unwrap() });
    let uri = format!(
        "{}://{}/",
        if options.plain { "http" } else { "https" },
        server.address()
    );
    for _ in 0..options.rounds {
        let (began, cpu) = (Instant::now(), cpu_seconds());
        let (client, uri) = (client.clone(), uri.clone());
        let work = near.spawn(async move {
            if !options.push {
                let request = Request::get(uri).body(body::empty()).unwrap();
                return drain(client.send(request).await.unwrap().into_body()).await;
            }
            let (length, body) = gigabytes(options.gigabytes);
            let request = Request::put(uri).header("content-length", length).body(body).unwrap();
            let response = client.send(request).await.unwrap();
            let said = response.into_body().collect().await.unwrap().to_bytes();
            let said = String::from_utf8_lossy(&said).into_owned();
            let (read, pieces) = said.split_once(' ').unwrap();
            (read.parse().unwrap(), pieces.parse().unwrap())
        });
        let (read, pieces) = near.block_on(work).unwrap();
        let (seconds, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu);
        let gb = read as f64 / 1e9;
        let size = read / pieces;
        println!(
            "{:.0} MB/s, {:.3} s of CPU per GB for both, pieces of {size} bytes",
            gb * 1e3 / seconds,
            cpu / gb
        );
    }
    far.block_on(server.shutdown());
}
