#!/bin/bash
# Fuzzes every reader of network bytes, one after the other. New inputs go to target/fuzz-corpus; what crashes a target goes to
# fuzz/artifacts: fix it, and keep the input in fuzz/corpus under a name that tells what it was.
# usage: fuzz.sh SECONDS-PER-TARGET [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1
shift

if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
    echo "error: fuzzing needs a nightly Rust compiler and cargo-fuzz" >&2
    echo "remedy: rustup toolchain install nightly && cargo install --locked cargo-fuzz" >&2
    exit 2
fi
[ $# -gt 0 ] || mapfile -t targets < <(cargo +nightly fuzz list)
[ $# -eq 0 ] || targets=("$@")

# A static SQLite is in the program twice, once as a library and once as part of another: one definition in two places.
export ASAN_OPTIONS=detect_odr_violation=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
cargo +nightly fuzz build
failed=()
for target in "${targets[@]}"; do
    grown=${CARGO_TARGET_DIR:-target}/fuzz-corpus/$target
    mkdir -p "$grown"
    log=$grown.log
    status=ok
    cargo +nightly fuzz run "$target" "$grown" "fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -timeout=10 >"$log" 2>&1 || { status=FAILED; failed+=("$target"); }
    printf '%-22s %s  %s\n' "$target" "$status" "$(grep -o '^Done [0-9]* runs in [0-9]* second' "$log" || echo "see $log")"
done
[ ${#failed[@]} -eq 0 ] || { echo "error: failed: ${failed[*]}" >&2; exit 1; }
