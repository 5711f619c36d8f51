//! Cloud-init user data of a self-managed cluster: what a machine does at its first boot.
//!
//! The machine installs containerd and kubeadm from signed packages, decrypts its TLS assets with its
//! own role (they travel encrypted by KMS, with the cluster's name as encryption context), and runs
//! kubeadm: `init` on the controller with our CA and certificates, `join` on a worker, which
//! identifies itself by the worker certificate and then gets one of its own. No bootstrap token
//! exists, so nothing expires between two scale-ups.
//!
//! User data has a limit of 16 KiB; [`UserData::oversize`] tells before AWS does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::spec::ClusterSpec;

/// Stands in the worker's user data where the id of the file system goes.
pub const FILE_SYSTEM: &str = "@FILE_SYSTEM@";

/// The largest user data that EC2 takes, before base64.
pub const MAX_USER_DATA: usize = 16_384;

/// Fingerprint of the key that signs the packages of pkgs.k8s.io.
const PACKAGE_KEY: &str = "DE15B14486CD377B9E876E1A234654DA9A296436";

/// Manifest of the pod network, pinned.
const POD_NETWORK: &str =
    "https://github.com/flannel-io/flannel/releases/download/v0.26.7/kube-flannel.yml";

/// Names of the assets that the controller needs, and where kubeadm looks for them.
const CONTROLLER_FILES: [(&str, &[&str]); 8] = [
    ("ca.pem", &["pki/ca.crt", "pki/etcd/ca.crt"]),
    ("ca-key.pem", &["pki/ca.key", "pki/etcd/ca.key"]),
    ("apiserver.pem", &["pki/apiserver.crt"]),
    ("apiserver-key.pem", &["pki/apiserver.key"]),
    ("etcd.pem", &["pki/etcd/server.crt", "pki/etcd/peer.crt"]),
    (
        "etcd-key.pem",
        &["pki/etcd/server.key", "pki/etcd/peer.key"],
    ),
    ("etcd-client.pem", &["pki/apiserver-etcd-client.crt"]),
    ("etcd-client-key.pem", &["pki/apiserver-etcd-client.key"]),
];

/// Names of the assets that a worker needs.
const WORKER_FILES: [&str; 3] = ["ca.pem", "worker.pem", "worker-key.pem"];

/// TLS assets encrypted by KMS, by file name (`ca.pem` and so on).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assets {
    encrypted: std::collections::BTreeMap<String, Vec<u8>>,
}

impl Assets {
    /// Adds the ciphertext of one file.
    pub fn insert(&mut self, name: &str, ciphertext: Vec<u8>) {
        self.encrypted.insert(name.to_owned(), ciphertext);
    }

    /// Names that user data needs and that are not there yet.
    pub fn missing(&self) -> Vec<&'static str> {
        let controller = CONTROLLER_FILES.iter().map(|(name, _)| *name);
        let mut names: Vec<&str> = controller
            .chain(WORKER_FILES)
            .filter(|n| !self.encrypted.contains_key(*n))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Names of every file that goes into user data.
    pub fn wanted() -> Vec<&'static str> {
        Self::default().missing()
    }

    fn text(&self, name: &str) -> String {
        match self.encrypted.get(name) {
            Some(bytes) => STANDARD.encode(bytes),
            // Valid base64 that decrypts to nothing: an offline render is complete in form.
            None => STANDARD.encode(format!("not encrypted yet: {name}")),
        }
    }
}

/// User data of both kinds of machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserData {
    /// Of the controller.
    pub controller: String,
    /// Of a worker; [`FILE_SYSTEM`] stands for the id of the file system.
    pub worker: String,
}

impl UserData {
    /// Renders both.
    pub fn render(spec: &ClusterSpec, assets: &Assets) -> Self {
        Self {
            controller: controller(spec, assets),
            worker: worker(spec, assets),
        }
    }

    /// The kind of machine whose user data is too large, and its size.
    pub fn oversize(&self) -> Option<(&'static str, usize)> {
        [("controller", &self.controller), ("worker", &self.worker)]
            .into_iter()
            .map(|(kind, text)| (kind, text.len()))
            .find(|(_, size)| *size > MAX_USER_DATA)
    }
}

/// One entry of `write_files`.
struct File<'a> {
    path: String,
    mode: &'a str,
    content: String,
    base64: bool,
}

fn text_file(path: &str, mode: &'static str, content: String) -> File<'static> {
    File {
        path: path.to_owned(),
        mode,
        content,
        base64: false,
    }
}

fn encrypted_file(assets: &Assets, name: &str) -> File<'static> {
    File {
        path: format!("/etc/canoe/assets/{name}.enc"),
        mode: "0600",
        content: assets.text(name),
        base64: true,
    }
}

fn document(files: &[File<'_>]) -> String {
    let mut out = String::from("#cloud-config\nwrite_files:\n");
    for file in files {
        out.push_str(&format!(
            "- path: {}\n  owner: root:root\n  permissions: '{}'\n",
            file.path, file.mode
        ));
        if file.base64 {
            out.push_str(&format!("  encoding: b64\n  content: {}\n", file.content));
            continue;
        }
        out.push_str("  content: |\n");
        for line in file.content.lines() {
            if line.is_empty() {
                out.push('\n')
            } else {
                out.push_str(&format!("    {line}\n"))
            }
        }
    }
    out.push_str("runcmd:\n- [/usr/local/sbin/canoe-node-setup]\n");
    out
}

/// What both kinds of machine do first.
fn common(spec: &ClusterSpec) -> String {
    format!(
        r#"#!/bin/bash
set -euo pipefail
exec > >(tee -a /var/log/canoe-node-setup.log) 2>&1
modprobe overlay
modprobe br_netfilter
sysctl --system
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends awscli ca-certificates conntrack containerd curl gpg nfs-common
repository=https://pkgs.k8s.io/core:/stable:/v{version}/deb
curl -fsSL --retry 5 "$repository/Release.key" -o /tmp/kubernetes.asc
gpg --show-keys --with-colons /tmp/kubernetes.asc | grep -q '^fpr:*{PACKAGE_KEY}:'
gpg --dearmor --yes -o /usr/share/keyrings/kubernetes.gpg /tmp/kubernetes.asc
echo "deb [signed-by=/usr/share/keyrings/kubernetes.gpg] $repository/ /" > /etc/apt/sources.list.d/kubernetes.list
apt-get update
apt-get install -y --no-install-recommends kubeadm kubectl kubelet
apt-mark hold kubeadm kubectl kubelet
mkdir -p /etc/containerd
containerd config default | sed 's/SystemdCgroup = false/SystemdCgroup = true/' > /etc/containerd/config.toml
systemctl restart containerd
decrypt() {{
  aws kms decrypt --region {region} --encryption-context canoe={name} \
    --ciphertext-blob "fileb:///etc/canoe/assets/$1.enc" --query Plaintext --output text | base64 -d
}}
umask 077
"#,
        version = spec.kubernetes_version,
        region = spec.region,
        name = spec.name,
    )
}

fn system_files() -> Vec<File<'static>> {
    vec![
        text_file(
            "/etc/modules-load.d/kubernetes.conf",
            "0644",
            "overlay\nbr_netfilter\n".to_owned(),
        ),
        text_file(
            "/etc/sysctl.d/90-kubernetes.conf",
            "0644",
            "net.ipv4.ip_forward = 1\nnet.bridge.bridge-nf-call-iptables = 1\n".to_owned(),
        ),
    ]
}

fn controller(spec: &ClusterSpec, assets: &Assets) -> String {
    let mut script = common(spec);
    script.push_str("mkdir -p /etc/kubernetes/pki/etcd\n");
    for (name, places) in CONTROLLER_FILES {
        script.push_str(&format!("decrypt {name} > /etc/kubernetes/{}\n", places[0]));
        for place in &places[1..] {
            script.push_str(&format!(
                "cp /etc/kubernetes/{} /etc/kubernetes/{place}\n",
                places[0]
            ));
        }
    }
    script.push_str(
        "[ -e /etc/kubernetes/admin.conf ] || kubeadm init --config /etc/canoe/kubeadm.yaml\n",
    );
    script.push_str(&format!(
        "curl -fsSL --retry 5 {POD_NETWORK} | sed 's#10.244.0.0/16#{}#' \\\n  | kubectl --kubeconfig /etc/kubernetes/admin.conf apply -f -\n",
        spec.network.pod_cidr
    ));
    let mut files = system_files();
    files.push(text_file("/etc/canoe/kubeadm.yaml", "0600", kubeadm(spec)));
    files.push(text_file(
        "/usr/local/sbin/canoe-node-setup",
        "0700",
        script,
    ));
    files.extend(
        CONTROLLER_FILES
            .iter()
            .map(|(name, _)| encrypted_file(assets, name)),
    );
    document(&files)
}

fn kubeadm(spec: &ClusterSpec) -> String {
    let address = spec.controller_ip();
    let mut names = vec!["kubernetes".to_owned(), address.clone()];
    names.extend(spec.external_name().map(str::to_owned));
    let names: Vec<String> = names
        .into_iter()
        .map(|name| format!("  - {name}\n"))
        .collect();
    format!(
        "apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint:
  advertiseAddress: {address}
  bindPort: 6443
nodeRegistration:
  name: {node}
  criSocket: unix:///run/containerd/containerd.sock
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
clusterName: {name}
kubernetesVersion: stable-{version}
controlPlaneEndpoint: {address}:6443
apiServer:
  certSANs:
{names}networking:
  podSubnet: {pods}
  serviceSubnet: {services}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
",
        node = controller_node(spec),
        name = spec.name,
        version = spec.kubernetes_version,
        names = names.concat(),
        pods = spec.network.pod_cidr,
        services = spec.network.service_cidr,
    )
}

/// Kubernetes name of the controller node, which its certificate carries.
pub fn controller_node(spec: &ClusterSpec) -> String {
    format!("{}-controller", spec.name.to_ascii_lowercase())
}

fn worker(spec: &ClusterSpec, assets: &Assets) -> String {
    let mut script = common(spec);
    script.push_str("mkdir -p /etc/kubernetes/pki /etc/canoe/tls /mnt/canoe\n");
    script.push_str("decrypt ca.pem > /etc/canoe/tls/ca.pem\n");
    script.push_str("decrypt worker.pem > /etc/canoe/tls/worker.pem\n");
    script.push_str("decrypt worker-key.pem > /etc/canoe/tls/worker-key.pem\n");
    script.push_str(&format!(
        "mount -t nfs4 -o nfsvers=4.1,hard,timeo=600,retrans=2 {FILE_SYSTEM}.efs.{}.amazonaws.com:/ /mnt/canoe\n",
        spec.region
    ));
    let (directory, uid) = (&spec.storage.directory, spec.storage.uid);
    script.push_str(&format!(
        "install -d -m 0750 -o {uid} -g {uid} /mnt/canoe{directory}\numount /mnt/canoe\n"
    ));
    script.push_str(
        "[ -e /etc/kubernetes/kubelet.conf ] || kubeadm join --discovery-file /etc/canoe/worker.kubeconfig\n",
    );
    let mut files = system_files();
    files.push(text_file(
        "/etc/canoe/worker.kubeconfig",
        "0600",
        crate::kubeconfig::worker(spec),
    ));
    files.push(text_file(
        "/usr/local/sbin/canoe-node-setup",
        "0700",
        script,
    ));
    files.extend(WORKER_FILES.iter().map(|name| encrypted_file(assets, name)));
    document(&files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Mode;

    fn spec() -> ClusterSpec {
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        spec.control_plane.mode = Mode::SelfManaged;
        spec
    }

    #[test]
    fn is_yaml_with_every_asset_and_no_plain_text() {
        let mut assets = Assets::default();
        for name in Assets::wanted() {
            assets.insert(name, format!("cipher of {name}").into_bytes());
        }
        assert!(assets.missing().is_empty());
        let data = UserData::render(&spec(), &assets);
        for (text, names) in [
            (
                &data.controller,
                CONTROLLER_FILES.map(|(name, _)| name).to_vec(),
            ),
            (&data.worker, WORKER_FILES.to_vec()),
        ] {
            let document = crate::yaml::parse(text).unwrap().value;
            let files = document["write_files"].as_array().unwrap();
            for name in names {
                let path = format!("/etc/canoe/assets/{name}.enc");
                let file = files.iter().find(|f| f["path"] == path.as_str()).unwrap();
                assert_eq!(
                    file["content"],
                    STANDARD.encode(format!("cipher of {name}"))
                );
                assert_eq!(file["permissions"], "0600");
            }
            assert!(!text.contains("PRIVATE KEY"));
        }
        assert!(data.worker.contains(FILE_SYSTEM) && !data.controller.contains(FILE_SYSTEM));
        assert_eq!(data.oversize(), None);
    }

    #[test]
    fn the_controller_never_gets_the_worker_key_and_workers_never_the_ca_key() {
        let data = UserData::render(&spec(), &Assets::default());
        assert!(!data.controller.contains("worker-key.pem"));
        assert!(!data.worker.contains("ca-key.pem") && !data.worker.contains("admin"));
    }

    #[test]
    fn what_does_not_fit_is_noticed() {
        let mut assets = Assets::default();
        assets.insert("ca.pem", vec![7; 14_000]);
        let (kind, size) = UserData::render(&spec(), &assets).oversize().unwrap();
        assert_eq!(kind, "controller");
        assert!(size > MAX_USER_DATA);
    }
}
