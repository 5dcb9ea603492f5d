#!/bin/bash
# Installs mdBook into DIR/bin, unoptimised: it builds the handbook in seconds either way, and builds itself in a third of
# the time.
# usage: install-mdbook.sh VERSION DIR
set -euo pipefail
version=$1 dir=$2
echo "installing mdbook $version into $dir (some minutes, once)"
export CARGO_TARGET_DIR=$dir/build CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256
export CARGO_PROFILE_RELEASE_LTO=false CARGO_PROFILE_RELEASE_DEBUG=0
cargo install --quiet --locked --no-default-features --features search --root "$dir" "mdbook@$version"
rm -rf "$dir/build"
