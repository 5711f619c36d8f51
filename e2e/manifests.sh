#!/usr/bin/env bash
# Validates the golden manifests of crates/k8s against the API schemas of several Kubernetes versions
# (kubernetes-validate from PyPI, strict: unknown fields are errors) and by kubectl without a cluster
# (it must read the same objects from our YAML). What it cannot find (names, labels and ports that must agree, pod
# security) is tested in crates/k8s/tests/objects.rs.
#
# Usage: e2e/manifests.sh [VENV]     VENV has kubernetes-validate; it is created if it does not exist.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:-${TMPDIR:-/tmp}/canoe-manifests-venv}
golden=crates/k8s/tests/golden
versions="1.31.0 1.32.0 1.33.0 1.34.0 1.36.0 1.37.0"

if [ ! -x "$venv/bin/kubernetes-validate" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" --quiet install kubernetes-validate pyyaml
fi

for version in $versions; do
    "$venv/bin/kubernetes-validate" --strict --quiet --no-warn -k "$version" "$golden"/*.yaml
    echo "schemas of Kubernetes $version: $(ls "$golden"/*.yaml | wc -l) files are valid"
done

# A seeded fault must be found, or the validator validates nothing.
fault=$(mktemp --suffix=.yaml)
trap 'rm -f "$fault"' EXIT
sed 's/completionMode:/completionMod:/' "$golden/plain.yaml" > "$fault"
if "$venv/bin/kubernetes-validate" --strict --quiet --no-warn -k 1.34.0 "$fault" > /dev/null 2>&1; then
    echo "a misspelt field was not found" >&2
    exit 1
fi

if command -v kubectl > /dev/null; then
    for file in "$golden"/*.yaml; do
        # `--local` works without a server; the label exists before, so that nothing changes.
        kubectl label --local --overwrite -f "$file" app.kubernetes.io/name=canoe -o json |
            "$venv/bin/python" e2e/same_objects.py "$file"
    done
    echo "kubectl reads the same objects"
    # The base for kustomize, with the files that its user adds.
    base=$(mktemp -d)
    cp deploy/kustomize/* "$base"
    echo 'settings(batch_size=128)' > "$base/trainer_config.lr.py"
    echo 0123456789abcdef > "$base/token"
    kubectl kustomize "$base" > "$base/made.yaml"
    "$venv/bin/kubernetes-validate" --strict --quiet --no-warn -k 1.34.0 "$base/made.yaml"
    "$venv/bin/python" e2e/kustomized.py "$base/made.yaml" deploy/kustomize/job.yaml
    rm -r "$base"
else
    echo "kubectl is not there: skipped" >&2
fi
