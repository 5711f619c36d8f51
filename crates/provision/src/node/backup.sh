#!/bin/bash
# Saves etcd to the cluster's bucket. 28 names, one for every sixth hour of a week, so a week is kept.
set -euo pipefail
container=$(crictl ps --name etcd --state Running -q | head -n 1)
[ -n "$container" ] || { echo "etcd does not run"; exit 1; }
pki=/etc/kubernetes/pki/etcd
rm -f /var/lib/etcd/data/backup.db
crictl exec "$container" etcdctl --endpoints https://127.0.0.1:2379 --cacert $pki/ca.crt \
  --cert $pki/healthcheck-client.crt --key $pki/healthcheck-client.key snapshot save /var/lib/etcd/data/backup.db
name=$(date -u +%u)-$(($(date -u +%-H) / 6 * 6)).db
aws s3 cp --only-show-errors --region @REGION@ /var/lib/etcd/data/backup.db "s3://@BUCKET@/etcd/$name"
rm /var/lib/etcd/data/backup.db
echo "saved etcd as $name"
