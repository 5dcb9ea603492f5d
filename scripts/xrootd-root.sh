#!/bin/bash
# Makes a root directory with the newest XRootD that Debian packages (unstable), beside the one of this system. As root on Debian: it takes
# packages from where this system takes its own. An existing directory is left as it is.
# usage: xrootd-root.sh DIR
set -euo pipefail
root=${1:?usage: xrootd-root.sh DIR}
[ ! -x "$root/usr/bin/xrootd" ] || exit 0
mirror=$(apt-cache policy | awk '$2 ~ /^http/ && $3 !~ /security/ && /\/main / && !found++ { print $2 }')
if [ "$(id -u)" -ne 0 ] || ! command -v mmdebstrap >/dev/null || [ -z "$mirror" ]; then
    echo "error: a root directory with the newest XRootD is made by root, with mmdebstrap, from a Debian mirror of this system's apt" >&2
    echo "remedy: install mmdebstrap, and run: sudo scripts/xrootd-root.sh $root" >&2
    exit 2
fi
echo "making $root with Debian's newest XRootD"
rm -rf "$root.new"
mkdir -p "$(dirname "$root")"
# An archive that is frozen at a day is older than its index says it may be.
mmdebstrap --quiet --variant=apt --aptopt='Acquire::Check-Valid-Until "false"' \
    --include=xrootd-server,xrootd-server-plugins,xrootd-plugins,xrootd-client,xrootd-client-plugins,xrootd-scitokens-plugins,ca-certificates \
    sid "$root.new" "deb $mirror sid main"
# With its name it is whole.
mv "$root.new" "$root"
