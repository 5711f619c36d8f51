#!/usr/bin/env bash
# Builds the second stage of deploy/Dockerfile without a registry and trains in it: the base image is made from Debian's packages,
# the binary is the one given. Then the container runs as in a pod: user 10001, no capabilities, read-only root, /tmp and
# the volume mounted, no network but its own.
#
# Usage: e2e/k8s/image.sh CANOE       needs root, buildah and mmdebstrap (Debian packages); about a minute
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
canoe=$(realpath "$1")
for tool in buildah mmdebstrap; do
    command -v "$tool" > /dev/null || { echo "skipped: $tool is not there (apt-get install buildah mmdebstrap)"; exit 0; }
done
work=$(mktemp -d)
store=(--root "$work/store" --runroot "$work/run" --storage-driver vfs)
trap 'umount "$work/volume" 2> /dev/null || true; buildah "${store[@]}" umount --all > /dev/null 2>&1 || true; rm -rf "$work"' EXIT

echo "== a base image from Debian's packages"
mmdebstrap --variant=minbase --quiet bookworm "$work/base.tar"
cp -r /etc/apt/apt.conf.d "$work/apt" # a proxy, if this machine has one
container=$(buildah "${store[@]}" from scratch)
buildah "${store[@]}" add --quiet "$container" "$work/base.tar" / > /dev/null
buildah "${store[@]}" commit --quiet "$container" base > /dev/null

echo "== the Dockerfile's last stage, step by step"
# Only the stage that compiles is left out: it needs the toolchain's image. What it would hand over comes from here.
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
