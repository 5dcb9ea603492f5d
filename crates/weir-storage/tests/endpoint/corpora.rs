//! Runs every input that the fuzz targets begin with, and those that once found something.

use super::{connection::World, targets};

include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus.rs"));

/// A crash that was fixed must stay fixed, and a corpus must not get lost.
#[test]
fn corpora_hold() {
    run("storage_range", targets::range);
    run("storage_propfind", targets::propfind);
    run("storage_proppatch", targets::proppatch);
    run("storage_scitag", targets::scitag);
    run("storage_copy_headers", targets::copy_headers);
    run("storage_digests", targets::digests);
    run("storage_conditions", targets::conditions);
    run("storage_failure", targets::failure);
    run("storage_token_request", targets::token_request);
    let world = World::new();
    run("storage_connection", |data| {
        world.feed(data);
    });
}
