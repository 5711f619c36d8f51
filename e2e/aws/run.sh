#!/usr/bin/env bash
# The AWS side, judged by what is not ours: linters, openssl, cloud-init, two stand-ins for AWS, the aws command line.
# e2e/aws/run.sh TARGET VENV: TARGET holds debug/canoe, VENV has cfn-lint, ministack and awscli (with botocore).
# Debian packages of etcd (for the machines of a self-managed cluster; needs root), moto, checkov, parliament, policy_sentry (newer than the one that checkov asks for) and cloud-init go into TARGET; without Debian's packages cloud-init is left out.
set -euo pipefail
target=$1 venv=$2
here=$(dirname "$0")
judges=$target/judges-venv
if [ ! -x "$judges/bin/moto_server" ]; then
    python3 -m venv "$judges"
    "$judges/bin/python" -m pip --quiet install checkov 'moto[server]' configobj oauthlib
fi
references=$target/references-venv
if [ ! -x "$references/bin/parliament" ]; then
    python3 -m venv "$references"
    "$references/bin/python" -m pip --quiet install 'cfn-lint>=1.58' 'policy_sentry>=0.15.2' parliament moto pyyaml
fi
if [ ! -d "$target/cloud-init/usr" ] && command -v apt-get dpkg >/dev/null; then
    mkdir -p "$target/cloud-init"
    (cd "$target/cloud-init" && apt-get download -qq cloud-init 2>&1 && dpkg -x cloud-init_*.deb .) || echo "cloud-init is not to be had here"
fi
if [ ! -x "$target/etcd/etcd" ] && command -v apt-get dpkg >/dev/null; then
    mkdir -p "$target/etcd/packages"
    (cd "$target/etcd/packages" && apt-get download -qq etcd-server etcd-client 2>&1 && for file in *.deb; do dpkg -x "$file" .; done &&
        mv usr/bin/etcd usr/bin/etcdctl ..) || echo "etcd is not to be had here"
fi
# Examples are built with the features of the whole workspace, as `cargo test --workspace` has built them.
cargo build --quiet --workspace --example every_call --example render_matrix
logs=$(mktemp -d) matrix=$(mktemp -d)
"$target/debug/examples/render_matrix" "$matrix"
lint=(--matrix "$matrix" --checkov "$judges/bin/checkov")
if [ -d "$target/cloud-init/usr" ]; then
    lint+=(--cloud-init "env 'PYTHONPATH=$target/cloud-init/usr/lib/python3/dist-packages' '$judges/bin/python' -m cloudinit.cmd.main")
fi
canoe=(--canoe "$target/debug/canoe")
run() { # in the background: most of these wait more than they work
    local python=$venv/bin/python
    [ "$1" != policy ] || python=$references/bin/python # has AWS's own data
    "$python" "$here/$1.py" "${@:2}" >"$logs/$1" 2>&1 &
    names+=("$1") jobs+=($!)
}
run lint_templates "${lint[@]}"
run policy --matrix "$matrix"
run stand_in "${canoe[@]}" --ministack "$venv/bin/ministack"
run client "${canoe[@]}" --ministack "$venv/bin/ministack"
run documented "${canoe[@]}" --ministack "$venv/bin/ministack"
run second_stand_in "${canoe[@]}" --moto "$judges/bin/moto_server"
run tls_assets "${canoe[@]}"
if [ -x "$target/etcd/etcd" ] && [ "$(id -u)" = 0 ]; then
    run machines "${canoe[@]}" --etcd "$target/etcd"
else
    echo "the scripts of machines are not run: they need etcd and root"
fi
run conformance --every-call "$target/debug/examples/every_call"
failed=0
for index in "${!jobs[@]}"; do
    code=0
    wait "${jobs[$index]}" || code=$?
    echo "-- ${names[$index]} ($(date +%H:%M:%S))"
    cat "$logs/${names[$index]}"
    [ "$code" = 0 ] || { failed=1; echo "${names[$index]} ended with $code"; }
done
rm -rf "$logs" "$matrix"
exit $failed
