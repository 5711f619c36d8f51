#!/bin/bash
# Does what the cluster's bucket says that this machine has to do: at boot, and on the controller every two minutes.
# The script there only changes what is not as it should be, so it can run at any time.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
umask 077
exec 9> /run/canoe-node.lock
flock -n 9 || exit 0
if ! command -v aws > /dev/null; then
  apt-get -o DPkg::Lock::Timeout=300 update
  apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends awscli ca-certificates
fi
mkdir -p /etc/canoe /var/lib/canoe
aws s3 cp --only-show-errors --region @REGION@ s3://@BUCKET@/node/@ROLE@.sh /etc/canoe/node.sh.new
state="$(sha256sum < /etc/canoe/node.sh.new) $(cat /proc/sys/kernel/random/boot_id)"
if [ "$state" = "$(cat /var/lib/canoe/done 2> /dev/null)" ]; then
  exit 0
fi
mv /etc/canoe/node.sh.new /etc/canoe/node.sh
bash /etc/canoe/node.sh 2>&1 | tee -a /var/log/canoe-node.log
echo "$state" > /var/lib/canoe/done
