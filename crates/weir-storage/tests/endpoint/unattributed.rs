//! File systems without extended attributes: files come and go as everywhere; checksums are compared on the way and computed when they are
//! asked for, but not kept.

use weir_units::Algorithm;

use super::{
    faulty::{Faults, FaultyAreas},
    lab::{Endpoint, Lab, digest, noise},
    namespace::balanced,
};

const SIZE: usize = 4_400_000;

async fn told(at: &Endpoint, path: &str, algorithm: Algorithm) -> String {
    let answer = at.ask("HEAD", path, &[("want-digest", algorithm.as_str())], "").await;
    answer.expect(200).header("digest").to_owned()
}

/// An endpoint on such a file system would refuse files, or vouch for nothing, or for the wrong bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_system_without_attributes_is_served() {
    let lab = Lab::new();
    let a = lab.endpoint("a", |_| {}).await;
    let faults = Faults::default();
    faults.keep_attributes(false);
    let b = lab.endpoint_on("b", FaultyAreas::new(&faults), |_| {}).await;
    let content = noise(SIZE);
    a.put("/f", content.clone()).await.expect(201);
    let source = a.url("/f");
    let adler32 = digest(Algorithm::Adler32, &content);
    // Every way in, with what is compared on the way.
    b.ask("PUT", "/put", &[("digest", &adler32)], content.clone())
        .await
        .expect(201);
    b.ask("PUT", "/wrong", &[("digest", "adler32=00000001")], content.clone())
        .await
        .expect(400);
    for streams in ["1", "4"] {
        let path = format!("/pulled{streams}");
        let more = [
            ("X-Number-Of-Streams", streams),
            ("RequireChecksumVerification", "true"),
        ];
        let pulled = b.pull(&path, &source, &more).await;
        pulled.copied();
        assert!(pulled.last_word().contains("(verified)"), "{}", pulled.text());
    }
    b.ask("COPY", "/put", &[("destination", &b.url("/copied"))], "")
        .await
        .expect(201);
    b.ask("MOVE", "/copied", &[("destination", &b.url("/moved"))], "")
        .await
        .expect(201);
    for path in ["/put", "/pulled1", "/pulled4", "/moved"] {
        for algorithm in [Algorithm::Adler32, Algorithm::Crc32c, Algorithm::Md5] {
            assert_eq!(told(&b, path, algorithm).await, digest(algorithm, &content), "{path}");
        }
        // An unknown checksum is left out, and keeps no client waiting; a second reading is no other than the first.
        for _ in 0..2 {
            let got = b.ask("GET", path, &[("want-digest", "adler32")], "").await.expect(200);
            assert!(got.body == content && got.header("digest").is_empty(), "{path}");
        }
        let asked = r#"<propfind xmlns="DAV:"><prop><getetag/><getcontentlength/></prop></propfind>"#;
        b.ask("PROPFIND", path, &[("depth", "0")], asked).await.expect(207);
    }
    // Every way out.
    b.push("/put", &a.url("/back"), &[("RequireChecksumVerification", "true")])
        .await
        .copied();
    assert!(a.get("/back").await.body == content);
    // Other bytes of the same size under the same name have other checksums at once.
    let other = noise(SIZE + 1).slice(1..);
    b.put("/put", other.clone()).await.expect(204);
    assert_eq!(
        told(&b, "/put", Algorithm::Adler32).await,
        digest(Algorithm::Adler32, &other)
    );
    balanced(&b).await;
    // Attributes that come back, as after a mount, are used again.
    faults.keep_attributes(true);
    assert_eq!(told(&b, "/moved", Algorithm::Adler32).await, adler32);
    let read = async || b.get("/.well-known/weir/metrics").await.text();
    let line = |page: &str| {
        page.lines()
            .find(|line| line.starts_with("weir_storage_checksums_read_total"))
            .map(str::to_owned)
    };
    let before = line(&read().await);
    assert_eq!(told(&b, "/moved", Algorithm::Adler32).await, adler32);
    assert_eq!(line(&read().await), before, "it was kept");
}
