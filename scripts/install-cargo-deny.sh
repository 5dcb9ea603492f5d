#!/bin/bash
# Installs cargo-deny into DIR/bin, unoptimised: it checks a few hundred crates in a second either way, and builds in
# a third of the time.
# usage: install-cargo-deny.sh VERSION DIR
set -euo pipefail
version=$1 dir=$2
echo "installing cargo-deny $version into $dir (about two minutes, once)"
export CARGO_TARGET_DIR=$dir/build CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256
export CARGO_PROFILE_RELEASE_LTO=false CARGO_PROFILE_RELEASE_DEBUG=0
cargo install --quiet --locked --no-default-features --root "$dir" "cargo-deny@$version"
rm -rf "$dir/build"
