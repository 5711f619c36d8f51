export DEBIAN_FRONTEND=noninteractive
umask 077
log() { echo "$(date -u +%FT%TZ) $*"; }

# retry ATTEMPTS COMMAND…: packages, images and the other machine may need a while.
retry() {
  local left=$1
  shift
  until "$@"; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || { log "gave up: $*"; return 1; }
    sleep "$pause"
  done
}

packages() { retry 5 apt-get -o DPkg::Lock::Timeout=300 "$@"; }

# repository NAME KEY-URL FINGERPRINT ADDRESS…: a signed source of packages, with the key that we expect.
repository() {
  local name=$1 key=$2 fingerprint=$3
  shift 3
  curl -fsSL --retry 5 "$key" -o "/tmp/$name.asc"
  gpg --show-keys --with-colons "/tmp/$name.asc" | grep -q "^fpr:*$fingerprint:"
  gpg --dearmor --yes -o "/usr/share/keyrings/$name.gpg" "/tmp/$name.asc"
  chmod 0644 "/usr/share/keyrings/$name.gpg"
  (umask 022; echo "deb [signed-by=/usr/share/keyrings/$name.gpg] $*" > "/etc/apt/sources.list.d/$name.list")
}

system() {
  (umask 022
    printf 'overlay\nbr_netfilter\n' > /etc/modules-load.d/kubernetes.conf
    printf 'net.ipv4.ip_forward = 1\nnet.bridge.bridge-nf-call-iptables = 1\n' > /etc/sysctl.d/90-kubernetes.conf)
  modprobe overlay
  modprobe br_netfilter
  sysctl --system > /dev/null
  packages update
  packages install -y --no-install-recommends ca-certificates conntrack curl gpg nfs-common
}

# Debian's own containerd is too old for the kubelet; the project's packages are not.
container_runtime() {
  if ! dpkg -s containerd.io > /dev/null 2>&1; then
    # shellcheck disable=SC1091
    repository docker https://download.docker.com/linux/debian/gpg 9DC858229FC7DD38854AE2D88D81803C0EBFCD88 \
      https://download.docker.com/linux/debian "$(. /etc/os-release; echo "$VERSION_CODENAME")" stable
    packages update
    packages install -y --no-install-recommends containerd.io
    mkdir -p /etc/containerd
    containerd config default | sed 's/SystemdCgroup = false/SystemdCgroup = true/' > /etc/containerd/config.toml
    systemctl restart containerd
  fi
  # Without it crictl tries a list of places, which is deprecated and fails with some of its versions.
  (umask 022; echo 'runtime-endpoint: unix:///run/containerd/containerd.sock' > /etc/crictl.yaml)
  local found
  found=$(containerd --version | sed -n 's/.* v\{0,1\}\([0-9]*\.[0-9]*\)\..*/\1/p')
  if [ "$(printf '%s\n%s\n' "$least_containerd" "$found" | sort -V | head -n 1)" != "$least_containerd" ]; then
    log "containerd $found is too old: Kubernetes $version needs $least_containerd or later"
    return 1
  fi
}

# kubernetes PACKAGE…: the newest patch of the wanted minor version; one that is there already stays.
kubernetes() {
  local package wanted=()
  for package in "$@"; do
    [[ "$(dpkg-query -W -f '${Version}' "$package" 2> /dev/null)" = "$version".* ]] || wanted+=("$package")
  done
  [ ${#wanted[@]} -gt 0 ] || return 0
  local source=https://pkgs.k8s.io/core:/stable:/v$version/deb
  repository kubernetes "$source/Release.key" DE15B14486CD377B9E876E1A234654DA9A296436 "$source/" /
  packages update
  apt-mark unhold "${wanted[@]}" > /dev/null 2>&1 || true
  packages install -y --no-install-recommends "${wanted[@]}"
  apt-mark hold "${wanted[@]}"
}

# A shell without an open port (aws ssm start-session). Debian's images do not have the agent; work goes on without it.
session_manager() {
  dpkg -s amazon-ssm-agent > /dev/null 2>&1 && return 0
  local address=https://s3.$region.$suffix/amazon-ssm-$region/latest/debian_$(dpkg --print-architecture)/amazon-ssm-agent.deb
  if curl -fsSL --retry 5 "$address" -o /tmp/amazon-ssm-agent.deb && dpkg -i /tmp/amazon-ssm-agent.deb; then
    systemctl enable --now amazon-ssm-agent
  else
    log "the agent of Session Manager cannot be installed from $address"
  fi
}

# decrypt NAME FILE: puts an asset in its place; `changed` becomes 1 if it was another one.
decrypt() {
  base64 -d "/etc/canoe/assets/$1.b64" > "/etc/canoe/assets/$1.enc"
  retry 5 aws kms decrypt --region "$region" --encryption-context "canoe=$cluster" \
    --ciphertext-blob "fileb:///etc/canoe/assets/$1.enc" --query Plaintext --output text > /etc/canoe/assets/plain
  base64 -d /etc/canoe/assets/plain > "$2.new"
  rm /etc/canoe/assets/plain
  if cmp -s "$2.new" "$2"; then
    rm "$2.new"
  else
    mv "$2.new" "$2"
    changed=1
  fi
}

# metadata PATH: what EC2 says about this machine.
metadata() {
  local token
  token=$(curl -fsS -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' http://169.254.169.254/latest/api/token)
  curl -fsS -H "X-aws-ec2-metadata-token: $token" "http://169.254.169.254/latest/meta-data/$1"
}

# The name by which the cloud controller knows this machine.
provider_id() { echo "aws:///$(metadata placement/availability-zone)/$(metadata instance-id)"; }
