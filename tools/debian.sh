#!/usr/bin/env bash
# Sees to the Debian packages that some tests need: those of a list, one a line.
# Installs them when run as root, else prints the one line that does.
# usage: tools/debian.sh [LIST]          (default: debian-packages.txt)
set -euo pipefail
cd "$(dirname "$0")/.."
list=${1:-debian-packages.txt}

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=()
while read -r package; do
    is_installed "$package" || missing+=("$package")
done < <(grep -v '^ *#' "$list" | grep .)
[ ${#missing[@]} -gt 0 ] || exit 0

install=(apt-get install -y --no-install-recommends "${missing[@]}")
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Debian packages that tests need: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    # The lists may be fresh enough although they can not be refreshed now.
    apt-get update -qq || true
    # Another apt-get may be at work.
    "${install[@]}" -qq -o DPkg::Lock::Timeout=300 >/dev/null && exit 0
    [ -z "${CI:-}" ] || exit 1
fi
echo "Tests that need these Debian packages will be reported as not run. To install them:"
echo "    sudo ${install[*]}"
