export KUBECONFIG=/etc/kubernetes/admin.conf
changed=0

# The disk with etcd outlives this machine. Nothing is ever written to a disk that has something on it.
etcd_disk() {
  local disk
  for disk in "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_${volume//-/}" /dev/sdf /dev/xvdf; do
    [ ! -e "$disk" ] || { echo "$disk"; return 0; }
  done
  return 1
}

mount_etcd() {
  mountpoint -q /var/lib/etcd && return 0
  retry 60 etcd_disk
  local disk code=0
  disk=$(etcd_disk)
  blkid -p "$disk" > /dev/null || code=$?
  if [ "$code" = 2 ] && [ -z "$(wipefs -n "$disk")" ]; then
    log "the disk of etcd is new"
    mkfs.ext4 -q -L canoe-etcd "$disk"
  elif [ "$code" != 0 ]; then
    log "the disk of etcd cannot be read (blkid: $code)"
    return 1
  fi
  mkdir -p /var/lib/etcd
  mount "$disk" /var/lib/etcd
  grep -q ' /var/lib/etcd ' /etc/fstab || echo "$disk /var/lib/etcd ext4 defaults,nofail 0 2" >> /etc/fstab
}

# Without it a kubelet that is faster than the disk would begin with an empty etcd.
kubelet_waits_for_disk() {
  (umask 022
    mkdir -p /etc/systemd/system/kubelet.service.d
    printf '[Unit]\nRequiresMountsFor=/var/lib/etcd\n' > /etc/systemd/system/kubelet.service.d/20-canoe-etcd.conf)
  systemctl daemon-reload
}

# Keys that kubeadm makes itself and that tokens of running pods depend on: they stay with etcd.
SHARED_KEYS='sa.key sa.pub front-proxy-ca.crt front-proxy-ca.key'
bring_keys() {
  local name
  mkdir -p /etc/kubernetes/pki/etcd /var/lib/etcd/pki
  for name in $SHARED_KEYS; do
    [ -e "/etc/kubernetes/pki/$name" ] || [ ! -e "/var/lib/etcd/pki/$name" ] ||
      cp -p "/var/lib/etcd/pki/$name" "/etc/kubernetes/pki/$name"
  done
}
keep_keys() {
  local name
  for name in $SHARED_KEYS; do
    [ ! -e "/etc/kubernetes/pki/$name" ] || cp -p "/etc/kubernetes/pki/$name" "/var/lib/etcd/pki/$name"
  done
}

start_cluster() {
  local ignore=()
  if [ -e /etc/kubernetes/admin.conf ]; then
    ignore=(--ignore-preflight-errors=all) # an earlier attempt did not get to its end
  elif [ -d /var/lib/etcd/data/member ]; then
    log "etcd has the data of an earlier controller; they are used"
    ignore=(--ignore-preflight-errors=DirAvailable--var-lib-etcd-data)
  fi
  sed -i "s#@PROVIDER_ID@#$(provider_id)#" /etc/canoe/kubeadm.yaml
  kubeadm init --config /etc/canoe/kubeadm.yaml "${ignore[@]}"
  keep_keys
  touch /var/lib/canoe/initialized
}

running_version() {
  sed -n 's/.*kube-apiserver:v\([0-9]*\.[0-9]*\)\..*/\1/p' /etc/kubernetes/manifests/kube-apiserver.yaml
}

upgrade_cluster() {
  log "Kubernetes $(running_version) becomes $version"
  /usr/local/sbin/canoe-etcd-backup
  kubeadm upgrade apply -y "$(kubeadm version -o short)"
}

# New certificates of ours: those that kubeadm made are as old, and what runs still has the old ones.
renew_certificates() {
  local name
  log "certificates have changed"
  for name in admin.conf apiserver-kubelet-client controller-manager.conf etcd-healthcheck-client front-proxy-client \
    scheduler.conf super-admin.conf; do
    kubeadm certs renew "$name"
  done
  mkdir -p /etc/kubernetes/held
  mv /etc/kubernetes/manifests/*.yaml /etc/kubernetes/held/
  sleep "$pause"
  sleep "$pause"
  mv /etc/kubernetes/held/*.yaml /etc/kubernetes/manifests/
}

# Pod network with network policies: flannel carries the packets, Calico decides which.
pod_network() {
  curl -fsSL --retry 5 "$pod_network" -o /etc/canoe/network.yaml
  sed "s#10\.244\.0\.0/16#$pods#" /etc/canoe/network.yaml | kubectl apply --server-side --force-conflicts -f -
}

cloud_controller() { kubectl apply --server-side --force-conflicts -f /etc/canoe/cloud-controller.yaml; }

system
container_runtime
mount_etcd
kubelet_waits_for_disk
bring_keys
assets
kubernetes kubeadm
if [ ! -e /var/lib/canoe/initialized ]; then
  kubernetes kubelet kubectl
  start_cluster
elif [ "$(running_version)" != "$version" ]; then
  upgrade_cluster
  kubernetes kubelet kubectl
  systemctl daemon-reload
  systemctl restart kubelet
elif [ "$changed" = 1 ]; then
  renew_certificates
fi
retry 30 pod_network
retry 30 cloud_controller
session_manager
systemctl enable --now canoe-etcd-backup.timer
log "the controller runs Kubernetes $version"
