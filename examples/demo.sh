#!/usr/bin/env bash
# A real training job through the service, from nothing to its end: `make demo` runs this.
# The server, its data and the client's configuration live in a folder that is removed afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/${1:-.venv-demo}/bin:$PATH"

folder=$(mktemp -d "${TMPDIR:-/tmp}/dally-demo.XXXXXX")
export DALLY_CONFIG="$folder/config.yaml"
server=

stop_server() {
    [ -n "$server" ] || return 0
    kill -TERM "$server" 2>/dev/null || true
    wait "$server"
    server=
}

finish() {
    local code=$?
    trap - EXIT INT TERM
    # A job that still runs would outlive the server, by design.
    if [ "$code" != 0 ] && [ -n "$server" ]; then
        dally cancel job/numpy-ddp --now && dally wait job/numpy-ddp --for=phase=Cancelled --timeout=10s
    fi >/dev/null 2>&1 || true
    stop_server || true
    rm -rf "$folder"
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

echo "$ dallyd serve"
# In a session of its own: Ctrl-C must not end it before the job is cancelled.
setsid dallyd serve --data-dir "$folder/data" --port 0 >"$folder/server.log" 2>&1 &
server=$!
deadline=$((SECONDS + 30))
until config=$(grep -m 1 -o 'dally config set-context .*' "$folder/server.log"); do
    if ! kill -0 "$server" 2>/dev/null || [ "$SECONDS" -ge "$deadline" ]; then
        echo "The server did not start:" >&2
        cat "$folder/server.log" >&2
        exit 1
    fi
    sleep 0.1
done
head -n 1 "$folder/server.log"
$config >/dev/null

job=examples/numpy-ddp/job.yaml
gpus=$(sed -nE '1s/.*; ([0-9]+) (GPU|slot)s? on .*/\1/p' "$folder/server.log")
if [ "${gpus:-0}" -lt 4 ]; then
    echo "Four workers would need 4 GPUs or slots, and here are ${gpus:-0}: they go without."
    sed 's/gpusPerWorker: 1 /gpusPerWorker: 0 /' "$job" >"$folder/job.yaml"
    job=$folder/job.yaml
fi
show dally apply -f "$job"
show dally logs -f numpy-ddp
show dally wait job/numpy-ddp --for=phase=Succeeded --timeout=60s
show dally describe job numpy-ddp
stop_server
printf '\nThe job has succeeded, and the server is stopped.\n'
