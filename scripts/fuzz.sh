#!/bin/bash
# Fuzzes every reader of network bytes, as many at a time as there are cores (or FUZZ_JOBS). New inputs go to target/fuzz-corpus;
# what crashes a target goes to fuzz/artifacts: fix it, and keep the input in fuzz/corpus under a name that tells what it was.
# usage: fuzz.sh SECONDS-PER-TARGET [TARGET...]
#        fuzz.sh --check: only whether what it needs is there
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1
shift

if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "error: fuzzing needs cargo-fuzz, and for its address sanitizer a nightly Rust compiler" >&2
    echo "remedy: cargo install --locked cargo-fuzz, rustup toolchain install nightly" >&2
    exit 2
fi
if cargo +nightly --version >/dev/null 2>&1; then
    export toolchain=+nightly sanitizer=address
else
    # What the targets assert, and panics, are found without it.
    export toolchain='' sanitizer=none
    echo "no nightly Rust compiler: fuzzing without the address sanitizer"
fi
[ "$seconds" != --check ] || exit 0
[ $# -gt 0 ] || mapfile -t targets < <(cargo fuzz list)
[ $# -eq 0 ] || targets=("$@")
jobs=${FUZZ_JOBS:-$(nproc)}

# A static SQLite is in the program twice, once as a library and once as part of another: one definition in two places.
export ASAN_OPTIONS=detect_odr_violation=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
# shellcheck disable=SC2086 # no toolchain is no word
cargo $toolchain fuzz build --sanitizer "$sanitizer"

# What targets write lies below this.
TMPDIR=$(mktemp -d)
trap 'rm -rf "$TMPDIR"' EXIT
export TMPDIR seconds grown=${CARGO_TARGET_DIR:-target}/fuzz-corpus

fuzz() {
    local target=$1 log=$grown/$1.log status=ok
    mkdir -p "$grown/$target"
    # shellcheck disable=SC2086
    cargo $toolchain fuzz run --sanitizer "$sanitizer" "$target" "$grown/$target" "fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -timeout=10 >"$log" 2>&1 || status=FAILED
    local runs took coverage
    read -r runs took < <(sed -n 's/^Done \([0-9]*\) runs in \([0-9]*\) second.*/\1 \2/p' "$log") || true
    coverage=$(grep -o 'cov: [0-9]*' "$log" | tail -1 | cut -d' ' -f2 || true)
    printf '%-24s %-6s %12s %8s %9s\n' "$target" $status "${runs:--}" "${took:--}" "${coverage:--}"
    [ $status = ok ] || { echo "  see $log"; return 1; }
}
export -f fuzz

minutes=$(((${#targets[@]} + jobs - 1) / jobs * seconds / 60))
echo "${#targets[@]} targets of $seconds s each, $jobs at a time: some $minutes minutes"
printf '%-24s %-6s %12s %8s %9s\n' target status runs seconds coverage
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -c 'fuzz {}' ||
    { echo "error: a target failed" >&2; exit 1; }
