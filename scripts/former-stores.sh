#!/bin/bash
# Makes copies of the transfer service's databases as a version of Weir leaves them when it is killed: one of SQLite, one of PostgreSQL, each
# with a job that has finished and one that waits, and the keys that sealed their tokens. Tests open them with the newest version
# (crates/weir-transfer/src/store/former.rs). Needs Debian's postgresql; root, or a user who may run initdb.
# usage: former-stores.sh WEIR DIRECTORY
set -euo pipefail
weir=$(realpath "$1") out=$2 grid=$(dirname "$0")/../grids/juno.toml
work=$(mktemp -d)
chmod 755 "$work"
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
as_postgres() { if [ "$(id -u)" -eq 0 ]; then setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; else "$@"; fi; }
pids=()
stop() { for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done; rm -rf "$work"; }
trap stop EXIT
mkdir -p "$out"

"$weir" grid up "$grid" --dir "$work/grid" --detach >"$work/up.log"
pids+=("$(cat "$work/grid/grid.lock")")
eval "$("$weir" grid env "$work/grid")"
json() { python3 -c "import json,sys; d=json.load(open('$work/grid/grid.json')); print($1)"; }
fill() { # ENDPOINT
    "$weir" transfer submit --endpoint "$1" "$source" "$target/$2" --watch >/dev/null
    printf '{"files": [{"sources": ["%s"], "destinations": ["https://127.0.1.1:9/no-one"]}], "params": {"retry": 5, "retry_delay": 86400}}' \
        "$source" >"$work/job.json"
    "$weir" transfer submit --endpoint "$1" --file "$work/job.json" >/dev/null
    sleep 1
}
source=$(json "d['rses'][0]['url']")/data target=$(json "d['rses'][1]['url']")
head -c 100000 /dev/urandom >"$work/data"
"$weir" storage put "$work/data" "$source" >/dev/null
fill "$(json "d['transfer']['url']")" on-sqlite

mkdir "$work/pg"; [ "$(id -u)" -ne 0 ] || chown postgres "$work/pg"
as_postgres "$bin/initdb" -D "$work/pg/data" -U weir -A trust -E UTF8 --locale=C --no-sync >/dev/null
as_postgres "$bin/postgres" -D "$work/pg/data" -k "$work/pg" -c listen_addresses= >"$work/pg.log" 2>&1 &
pids+=($!)
until "$bin/pg_isready" -q -h "$work/pg"; do sleep 0.1; done
"$bin/createdb" -h "$work/pg" -U weir transfer
cat >"$work/transfer.toml" <<T
listen = "127.0.0.1:0"
key_file = "transfer.pg.key"
audiences = ["$(json "d['transfer']['url']")"]
[postgres]
host = "$work/pg"
database = "transfer"
user = "weir"
[copy]
allow = ["127.0.0.0/8"]
[trust]
files = ["$work/grid/authority/ca.pem"]
[[issuer]]
url = "$(json "d['issuer']['url']")"
vo = "juno"
T
"$weir" --json serve transfer --config "$work/transfer.toml" >"$work/serve.log" &
pids+=($!)
until grep -q '"url"' "$work/serve.log"; do sleep 0.1; done
fill "$(grep -o 'http[^"]*' "$work/serve.log" | head -1)" on-postgres

for pid in "${pids[0]}" "${pids[2]}"; do kill -KILL "$pid"; done
# Older versions of psql do not know \\restrict.
"$bin/pg_dump" -h "$work/pg" -U weir --no-owner transfer | sed '/^\\\(un\)\?restrict/d' | gzip -9n >"$out/transfer.sql.gz"
cp "$work/transfer.pg.key" "$out/transfer.sql.key"
store=$(find "$work/grid/transfer" -name '*.sqlite')
tar -C "$(dirname "$store")" -czf "$out/transfer.sqlite.tar.gz" --owner=0 --group=0 "$(basename "$store")" "$(basename "$store")-wal"
cp "$(find "$work/grid/transfer" -name "*.key")" "$out/transfer.sqlite.key"
ls -l "$out"
