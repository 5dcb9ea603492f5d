#!/bin/bash
# Counts what tests have left out, by reason, and fails for reasons that tests/left-out.txt does not list.
# usage: left-out.sh LIST
set -euo pipefail
cd "$(dirname "$0")/.."
list=$1
[ -s "$list" ] || { echo "left out: nothing"; exit 0; }
unknown=no
while read -r count reason; do
    echo "left out: $count times: $reason"
    [ "$reason" = "PEERS=no" ] && [ "${PEERS:-yes}" = no ] && continue
    grep -v '^#' tests/left-out.txt | sed 's/  .*//' | grep -qxF -- "$reason" || { unknown=yes; echo "error: that is not listed in tests/left-out.txt" >&2; }
done < <(sort "$list" | uniq -c)
[ $unknown = no ]
