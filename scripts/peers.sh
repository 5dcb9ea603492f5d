#!/bin/bash
# Gets other people's programs, which the black-box tests and the benchmarks speak to: Debian packages and, in .peers/,
# the fts3 client. As root on Debian or Ubuntu it installs what is missing and says so; as an ordinary user it prints
# the one command that does and stops. PEERS=no: does nothing.
# usage: peers.sh tests|bench
set -euo pipefail
cd "$(dirname "$0")/.."
[ "${PEERS:-yes}" != no ] || exit 0

fts3_version=3.14.2
packages=(curl davix rclone
    gfal2-plugin-http gfal2-plugin-file gfal2-util-scripts python3-gfal2-util
    xrootd-server xrootd-server-plugins xrootd-plugins xrootd-client xrootd-client-plugins
    xrootd-client-http-plugins xrootd-scitokens-plugins
    openssl python3 python3-venv python3-dev swig libssl-dev gcc chromium)
[ "${1:-tests}" != bench ] || packages+=(nginx-light)

installed() { dpkg-query -W -f='${Status}\n' "$1" 2>/dev/null | grep -q '^install ok installed$'; }

if ! command -v dpkg-query >/dev/null; then
    echo "error: the peers come as Debian packages, and this is neither Debian nor Ubuntu" >&2
    echo "remedy: run \`make test PEERS=no\`, or get these yourself: ${packages[*]}" >&2
    exit 2
fi
missing=()
for package in "${packages[@]}"; do
    # any flavour of nginx will do
    [ "$package" != nginx-light ] || { command -v nginx >/dev/null && continue; }
    installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "error: the tests speak to other people's programs, and these are missing: ${missing[*]}" >&2
        echo "remedy: sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
        echo "        (or run \`make test PEERS=no\` to leave them out)" >&2
        exit 2
    fi
    echo "installing the peers: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q </dev/null
    # no service starts by itself: the tests bring up their own on free ports
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
        trap 'rm -f "$policy"' EXIT
    fi
    apt-get install -y -q --no-install-recommends "${missing[@]}" </dev/null
fi

stamp=.peers/fts3-$fts3_version.installed
if [ ! -e "$stamp" ]; then
    echo "installing the fts3 client $fts3_version into .peers/"
    rm -rf .peers
    /usr/bin/python3 -m venv .peers
    .peers/bin/pip install --quiet --disable-pip-version-check "fts3==$fts3_version" </dev/null
    touch "$stamp"
fi
