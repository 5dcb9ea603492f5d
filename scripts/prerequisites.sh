#!/bin/bash
# Checks what a build needs, and names what is missing and how to get it.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
# at_least HAVE WANT: true if version HAVE is WANT or newer
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n1)" = "$2" ]; }

rust_wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
    missing+=("Rust $rust_wanted or newer: https://rustup.rs")
elif ! at_least "$(rustc --version | cut -d' ' -f2)" "$rust_wanted"; then
    missing+=("Rust $rust_wanted or newer (here: $(rustc --version | cut -d' ' -f2)): rustup update stable")
fi

if ! command -v node >/dev/null; then
    missing+=("Node 20.19 or newer: https://nodejs.org, or your distribution's nodejs package if it is new enough")
elif ! at_least "$(node --version | tr -d v)" 20.19; then
    missing+=("Node 20.19 or newer (here: $(node --version)): https://nodejs.org")
fi
command -v npm >/dev/null || missing+=("npm: it comes with Node; on Debian and Ubuntu: apt-get install npm")
command -v "${CC:-cc}" >/dev/null || missing+=("a C compiler; on Debian and Ubuntu: apt-get install gcc libc6-dev")
command -v pkg-config >/dev/null || missing+=("pkg-config, which finds OpenSSL; on Debian and Ubuntu: apt-get install pkg-config")
if command -v pkg-config >/dev/null && ! pkg-config --atleast-version=3 openssl; then
    missing+=("OpenSSL 3 with its headers; on Debian and Ubuntu: apt-get install libssl-dev")
fi

if [ ${#missing[@]} -gt 0 ]; then
    echo "error: Weir cannot be built here; missing:" >&2
    printf '  - %s\n' "${missing[@]}" >&2
    exit 2
fi
