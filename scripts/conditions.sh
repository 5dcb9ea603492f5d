#!/bin/bash
# Runs tests on an idle machine, beside two busy loops, and held to half a processor: a test that passes in one of these only
# depends on the machine. Further words choose tests as `cargo test` takes them; without any, all tests run.
# usage: conditions.sh ROUNDS [CARGO-TEST-WORDS...]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=$1
shift
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-20260801}

loops=()
group=
finish() {
    [ ${#loops[@]} = 0 ] || kill "${loops[@]}" 2>/dev/null || true
    loops=()
    [ -z "$group" ] || { echo $$ >"$(dirname "$group")/cgroup.procs"; rmdir "$group" || true; }
    group=
}
trap finish EXIT

busy() {
    for _ in 1 2; do
        (while :; do :; done) &
        loops+=($!)
    done
}

# Half a processor for this shell and all that it starts (cgroup version 1 or 2).
half() {
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        group=/sys/fs/cgroup/weir-half-$$
        mkdir "$group" && echo "50000 100000" >"$group/cpu.max" || return 1
    else
        group=/sys/fs/cgroup/cpu/weir-half-$$
        mkdir "$group" && echo 100000 >"$group/cpu.cfs_period_us" && echo 50000 >"$group/cpu.cfs_quota_us" || return 1
    fi
    echo $$ >"$group/cgroup.procs"
}

cargo test --workspace --locked --no-run "$@" 2>/dev/null || cargo test --workspace --locked --no-run "$@"
failed=0
for condition in idle busy half; do
    case $condition in
    idle) ;;
    busy) busy ;;
    half) half || { echo "error: the processor cannot be limited by a cgroup: run this as root, with the cpu controller enabled" >&2; exit 2; } ;;
    esac
    for round in $(seq "$rounds"); do
        begin=$SECONDS
        if cargo test --workspace --locked --no-fail-fast "$@"; then outcome=passed; else outcome=FAILED failed=$((failed + 1)); fi
        echo "conditions: $condition, round $round of $rounds: $outcome in $((SECONDS - begin)) s"
    done
    finish
done
[ $failed = 0 ] || { echo "conditions: $failed rounds failed" >&2; exit 1; }
