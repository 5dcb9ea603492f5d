#!/bin/bash
# Gets other people's programs, which the black-box tests and the benchmarks speak to: Debian packages and, in .peers/,
# the fts3 client, uproot, and Rucio, which drives our grid. As root on Debian or Ubuntu it installs what is
# missing and says so; as an ordinary user it prints the one command that does and stops. PEERS=no: asks for nothing but
# curl, with which all black-box tests speak.
# usage: peers.sh tests|bench
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-tests}

fts3_version=3.14.2
stomp_version=8.2.0
rucio_version=41.5.1
gunicorn_version=27.0.1
uproot_version=5.7.7
packages=(curl davix rclone
    gfal2-plugin-http gfal2-plugin-file gfal2-util-scripts python3-gfal2-util
    xrootd-server xrootd-server-plugins xrootd-plugins xrootd-client xrootd-client-plugins
    xrootd-client-http-plugins xrootd-scitokens-plugins
    activemq default-jre-headless voms-clients postgresql libfaketime strace systemd iproute2 nftables
    apache2-bin nginx-light libnginx-mod-http-dav-ext
    litmus openssl python3 python3-venv python3-dev swig libssl-dev pkg-config gcc g++ davix-dev chromium)
[ "$purpose" != bench ] || packages+=(mmdebstrap)

# What does without the peers, if anything.
[ "$purpose" != tests ] || without="(or run \`make test PEERS=no\` to leave them out)"

if [ "${PEERS:-yes}" = no ] && [ "$purpose" = tests ]; then
    command -v curl >/dev/null && exit 0
    echo "error: the black-box tests speak to Weir with curl, and it is missing" >&2
    echo "remedy: install curl (on Debian and Ubuntu: sudo apt-get install -y curl), or run \`make check\`" >&2
    exit 2
fi

installed() {
    case $1 in
    # any flavour of nginx will do; an ordinary user's PATH may lack sbin
    # nor need its server be the one that a distribution's own package stands for
    postgresql) compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null ;;
    nginx-light) command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] ;;
    *) dpkg-query -W -f='${Status}\n' "$1" 2>/dev/null | grep -q '^install ok installed$' ;;
    esac
}

if ! command -v dpkg-query >/dev/null; then
    echo "error: the peers come as Debian packages, and this is neither Debian nor Ubuntu" >&2
    echo "remedy: get these yourself: ${packages[*]}" >&2
    [ -z "${without:-}" ] || echo "        $without" >&2
    exit 2
fi
missing=()
for package in "${packages[@]}"; do
    installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ] && [ "$(id -u)" -ne 0 ]; then
    echo "error: these programs of other people are needed, and missing: ${missing[*]}" >&2
    echo "remedy: sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends ${missing[*]}'" >&2
    [ -z "${without:-}" ] || echo "        $without" >&2
    exit 2
fi
if [ ${#missing[@]} -gt 0 ]; then
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

# A virtual environment holds its own path: one that was moved does not run.
stamp=.peers/fts3-$fts3_version-stomp-$stomp_version-rucio-$rucio_version-gunicorn-$gunicorn_version-uproot-$uproot_version.installed
if [ "$(cat "$stamp" 2>/dev/null)" != "$PWD" ]; then
    echo "installing the fts3 client $fts3_version, stomp.py $stomp_version, Rucio $rucio_version and uproot $uproot_version into .peers/"
    rm -rf .peers
    /usr/bin/python3 -m venv .peers
    if ! .peers/bin/pip install --quiet --disable-pip-version-check "fts3==$fts3_version" \
        "stomp.py==$stomp_version" "rucio[postgresql]==$rucio_version" "rucio-clients==$rucio_version" \
        "gunicorn==$gunicorn_version" "uproot==$uproot_version" </dev/null; then
        echo "error: pip could not install fts3 $fts3_version, stomp.py $stomp_version, rucio $rucio_version and uproot $uproot_version; what it said is above" >&2
        [ -z "${without:-}" ] || echo "remedy: give it a way to a Python package index $without" >&2
        exit 2
    fi
    echo "$PWD" >"$stamp"
fi

if [ "$purpose" = bench ] && ! scripts/xrootd-root.sh .peers/xrootd; then
    echo "left out of the benchmarks: Debian's newest XRootD; this system's own is measured" >&2
fi
