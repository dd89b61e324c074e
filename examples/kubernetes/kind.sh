#!/usr/bin/env bash
# Dally on kind: four workers in two racks with GPUs that are only counted, the chart, a training job.
#
#   examples/kubernetes/kind.sh          from nothing to a trained model; the cluster is deleted at the end
#   examples/kubernetes/kind.sh --keep   leaves the cluster, and says how to go on
#
# Needs docker, kind, kubectl and helm, and `dally` on the PATH (make setup; . .venv/bin/activate).
set -euo pipefail
cd "$(dirname "$0")/../.."

cluster=dally
version=$(sed -n 's/^appVersion: //p' helm/Chart.yaml)
keep=
[ "${1:-}" != --keep ] || keep=yes
forward=
config=$(mktemp -d)
export KUBECONFIG="$config/kubeconfig" DALLY_CONFIG="$config/dally.yaml"

for program in docker kind kubectl helm dally; do
    command -v "$program" >/dev/null || { echo "This needs $program on the PATH." >&2; exit 1; }
done

finish() {
    local code=$?
    [ -z "$forward" ] || kill "$forward" 2>/dev/null || true
    if [ -n "$keep" ] && [ "$code" = 0 ]; then
        echo "The cluster stays: export KUBECONFIG=$KUBECONFIG DALLY_CONFIG=$DALLY_CONFIG"
        echo "Delete it with: kind delete cluster --name $cluster"
    else
        kind delete cluster --name "$cluster" >/dev/null 2>&1 || true
        rm -rf "$config"
    fi
    exit "$code"
}
trap finish EXIT

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

show docker build --quiet --tag "dally:$version" .
# A base with PyTorch for the CPU is enough here, and much smaller than the default.
show docker build --quiet --tag "dally-examples:$version" --file examples/Dockerfile \
    --build-arg BASE=docker.io/library/python:3.12-slim-bookworm \
    --build-arg PACKAGES="torch numpy scikit-learn" .
show kind create cluster --name "$cluster" --config examples/kubernetes/kind.yaml
show kind load docker-image --name "$cluster" "dally:$version" "dally-examples:$version"

# Nobody has these GPUs: they are written into the nodes' status, where the kubelet leaves them.
for node in $(kubectl get nodes -l example.com/rack -o name); do
    kubectl patch "$node" --subresource=status --type=merge \
        -p '{"status":{"capacity":{"nvidia.com/gpu":"2"},"allocatable":{"nvidia.com/gpu":"2"}}}' >/dev/null
done

show helm install dally helm --namespace dally --create-namespace --wait --timeout 5m \
    --values examples/kubernetes/values.yaml
show helm test dally --namespace dally

kubectl --namespace dally port-forward svc/dally 8470:80 >/dev/null &
forward=$!
until curl --silent --fail --output /dev/null http://127.0.0.1:8470/readyz; do
    kill -0 "$forward"
    sleep 0.2
done
token=$(kubectl --namespace dally get secret dally-admin-token -o jsonpath='{.data.token}' | base64 -d)
dally config set-context kind --server http://127.0.0.1:8470 --token "$token" >/dev/null

show dally get nodes
show dally apply -f examples/kubernetes/pytorch-ddp.yaml
show dally logs -f pytorch-ddp
show dally wait job/pytorch-ddp --for=phase=Succeeded --timeout=5m
show dally describe job pytorch-ddp
show helm uninstall dally --namespace dally --wait
