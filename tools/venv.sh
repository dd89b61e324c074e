#!/usr/bin/env bash
# Makes a virtual environment that holds exactly what a lock file names, and this project.
# usage: tools/venv.sh FOLDER LOCK          (PYTHON=python3.12 picks the interpreter)
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1 lock=$2

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if is_new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo "Dally needs Python 3.11 or newer; PYTHON=/path/to/python make ... picks one." >&2
    exit 1
}

has_pip() {
    "$folder/bin/python" -m pip --version >/dev/null 2>&1
}

make_folder() {
    local python packages
    python=$(find_python)
    if "$python" -m venv --clear "$folder" >/dev/null && has_pip; then
        return
    fi
    # Debian splits ensurepip off; without it venv can not bring pip.
    packages=$("$python" -c 'import sys; print("python{}.{}-venv".format(*sys.version_info))')
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$packages" >/dev/null
        "$python" -m venv --clear "$folder"
    else
        echo "$python can not make virtual environments. On Debian or Ubuntu this helps:" >&2
        echo "    sudo apt-get install $packages" >&2
        exit 1
    fi
}

if ! { is_new_enough "$folder/bin/python" && has_pip; }; then
    echo "Making $folder ..."
    make_folder
fi
echo "Installing $lock into $folder ..."
pip=("$folder/bin/python" -m pip --disable-pip-version-check --quiet --no-input)
"${pip[@]}" install --require-hashes -r "$lock"
projects=(-e .)
[ ! -f runtime/pyproject.toml ] || projects+=(-e runtime)
# Everything they need stands in the lock, setuptools too: nothing else is fetched.
"${pip[@]}" install --no-deps --no-build-isolation "${projects[@]}"
touch "$folder/.installed"
