#!/bin/bash
# canoe-etcd-restore NAME: puts a saved etcd (such as 3-12.db) in the place of the present one, which is kept beside it.
set -euo pipefail
saved=/var/lib/etcd/$1
manifest=/etc/kubernetes/manifests/etcd.yaml
aws s3 cp --only-show-errors --region @REGION@ "s3://@BUCKET@/etcd/$1" "$saved"
image=$(sed -n 's/^ *image: //p' "$manifest" | head -n 1)
mkdir -p /etc/kubernetes/held
mv /etc/kubernetes/manifests/*.yaml /etc/kubernetes/held/
while [ -n "$(crictl ps --name etcd --state Running -q)" ]; do sleep 1; done
mv /var/lib/etcd/data "/var/lib/etcd/data-until-$(date -u +%Y%m%dT%H%M%SZ)"
ctr --namespace k8s.io run --rm --mount type=bind,src=/var/lib/etcd,dst=/var/lib/etcd,options=rbind:rw "$image" \
  canoe-etcd-restore etcdutl snapshot restore "$saved" --data-dir /var/lib/etcd/data --name @NODE@ \
  --initial-cluster @NODE@=https://@ADDRESS@:2380 --initial-advertise-peer-urls https://@ADDRESS@:2380
mv /etc/kubernetes/held/*.yaml /etc/kubernetes/manifests/
echo "restored $1; the etcd of before is in /var/lib/etcd/data-until-…"
