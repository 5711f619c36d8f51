#!/usr/bin/env bash
# Builds deploy/Dockerfile without a registry and trains in the image. The base images are made from Debian's packages and, for the
# stage that compiles, this machine's Rust. Then the container runs as in a pod: user 10001, no capabilities, read-only root,
# /tmp and the volume mounted, no network but its own.
#
# Usage: e2e/k8s/image.sh CANOE       with this binary in place of the stage that compiles; about a minute
#        e2e/k8s/image.sh --compile   with both stages; as long as a release build takes (TARGET=DIR keeps what it compiled)
# Needs root, buildah and mmdebstrap (Debian packages).
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
for tool in buildah mmdebstrap; do
    command -v "$tool" > /dev/null || { echo "skipped: $tool is not there (apt-get install buildah mmdebstrap)"; exit 0; }
done
work=$(mktemp -d)
store=(--root "$work/store" --runroot "$work/run" --storage-driver vfs)
trap 'umount "$work/volume" 2> /dev/null || true; buildah "${store[@]}" umount --all > /dev/null 2>&1 || true; rm -rf "$work"' EXIT

# The stage that compiles: its sources and its command, in a root of Debian's packages.
compile() {
    local root=$work/rust cargo_home=${CARGO_HOME:-$HOME/.cargo} toolchain target=${TARGET:-$work/target}
    toolchain=$(cd "$here" && rustc --print sysroot)
    mmdebstrap --variant=minbase --include=gcc,libc6-dev,ca-certificates --quiet bookworm "$root"
    mkdir -p "$root/src/target" "$root/toolchain" "$root$cargo_home" "$target"
    # What the Dockerfile copies, no more: a build that needs other files fails here.
    sed -n '/ AS build/,/^FROM/s/^COPY \(.*\) [^ ]*$/\1/p' "$here/deploy/Dockerfile" | tr ' ' '\n' | (cd "$here" && xargs cp -r --parents -t "$root/src")
    sed -n '/^RUN --mount/,/^$/p' "$here/deploy/Dockerfile" | sed 's/^RUN//; s/--mount=[^ ]* *\\*//' | sed '/^ *$/d' > "$root/src/command"
    unshare --mount sh -euc '
        root=$1 toolchain=$2 cargo_home=$3 target=$4
        mount --make-rprivate /
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount --bind "$toolchain" "$root/toolchain"
        mount -o remount,bind,ro "$root/toolchain"
        mount --bind "$cargo_home" "$root$cargo_home"
        mount --bind "$target" "$root/src/target"
        cp /etc/resolv.conf "$root/etc/"
        exec chroot "$root" env -i PATH=/toolchain/bin:/usr/bin:/bin HOME=/tmp CARGO_HOME="$cargo_home" SOURCE_DATE_EPOCH=0 \
            ${CARGO_BUILD_JOBS:+CARGO_BUILD_JOBS=$CARGO_BUILD_JOBS} sh -euc "cd /src; . ./command"
    ' sh "$root" "$toolchain" "$cargo_home" "$target"
    canoe=$root/out/usr/local/bin/canoe
    "$canoe" --version
}

if [ "$1" = --compile ]; then
    echo "== the Dockerfile's stage that compiles"
    compile
else
    canoe=$(realpath "$1")
fi

echo "== a base image from Debian's packages"
mmdebstrap --variant=minbase --quiet bookworm "$work/base.tar"
cp -r /etc/apt/apt.conf.d "$work/apt" # a proxy, if this machine has one
container=$(buildah "${store[@]}" from scratch)
buildah "${store[@]}" add --quiet "$container" "$work/base.tar" / > /dev/null
buildah "${store[@]}" commit --quiet "$container" base > /dev/null

echo "== the Dockerfile's last stage, step by step"
# What the stage that compiles hands over comes from here.
mkdir -p "$work/context/out/usr/local/bin"
install -s "$canoe" "$work/context/out/usr/local/bin/canoe"
ln -s canoe "$work/context/out/usr/local/bin/paddle"
{
    echo 'FROM scratch AS build'
    echo 'COPY out /out'
    sed -n '/^FROM ${BASE}/,$p' "$here/deploy/Dockerfile" | sed 's/^FROM ${BASE}/FROM base/'
} > "$work/context/Dockerfile"
buildah "${store[@]}" bud --quiet --isolation chroot --pull-never --tag canoe:test "$work/context" > /dev/null
config=$(buildah "${store[@]}" inspect --type image canoe:test)
grep -q '"User": "10001:10001"' <<< "$config" || { echo "the image does not run as 10001" >&2; exit 1; }

echo "== train in it"
container=$(buildah "${store[@]}" from --pull-never canoe:test)
root=$(buildah "${store[@]}" mount "$container")
echo "root file system: $(du -sm --one-file-system "$root" | cut -f1) MB"
mkdir -p "$work/volume"
mount -t tmpfs -o mode=1777 volume "$work/volume"
cat > "$work/start" <<'END'
set -eu
root=$1 volume=$2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mkdir -p "$root/home/jobpath"
mount --bind "$volume" "$root/home/jobpath"
mount -o remount,bind,ro "$root"
ip link set lo up 2> /dev/null || true
exec chroot "$root" setpriv --reuid=10001 --regid=10001 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp sh -euc '
        if touch /nobody-may 2> /dev/null; then echo "the root is not read-only" >&2; exit 1; fi
        [ "$(id -u)" = 10001 ]
        canoe demo quick_start /home/jobpath/job --train-samples=600 --test-samples=50 --shards=2
        canoe run /home/jobpath/job --nodes=2 --config trainer_config.lr.py --passes=2
        paddle version'
END
unshare --mount --pid --net --fork --kill-child sh "$work/start" "$root" "$work/volume"
test -e "$work/volume/job/output/pass-00001/done"
echo "== a model was trained in the image, by user 10001 on a read-only root"
