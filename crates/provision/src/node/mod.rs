//! What the machines of a self-managed cluster do: one script for the controller, one for workers.
//!
//! They lie in the cluster's bucket, and each machine fetches its own ([`crate::user_data`]). A script only changes
//! what is not as it should be, so it runs at every boot and whenever it changes. It installs containerd and
//! kubeadm from signed packages, decrypts its TLS assets with the machine's own role (they travel encrypted by KMS,
//! with the cluster's name as encryption context), and runs kubeadm: `init` on the controller with our CA and
//! certificates, over the etcd that its disk may already have; `join` on a worker, which identifies itself by the
//! worker certificate and then gets one of its own. No bootstrap token exists, so nothing expires between two
//! scale-ups. `e2e/aws/machines.py` runs both to their ends.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::catalog;
use crate::manifests::files_host;
use crate::partition::Partition;
use crate::policy::bucket_name;
use crate::spec::ClusterSpec;

/// Manifest of the pod network, pinned: flannel's network with Calico's policies ("canal").
const POD_NETWORK: &str =
    "https://raw.githubusercontent.com/projectcalico/calico/v3.32.4/manifests/canal.yaml";

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

/// Names of the scripts in the cluster's bucket.
pub(crate) const SCRIPTS: [&str; 2] = ["node/controller.sh", "node/worker.sh"];

/// Where the controller puts copies of etcd in the cluster's bucket.
pub(crate) const COPIES_OF_ETCD: &str = "etcd/";

/// Names of the assets that a worker needs.
const WORKER_FILES: [&str; 3] = ["ca.pem", "worker.pem", "worker-key.pem"];

/// TLS assets encrypted by KMS, by file name (`ca.pem` and so on).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assets {
    encrypted: BTreeMap<String, Vec<u8>>,
}

impl Assets {
    /// Adds the ciphertext of one file.
    pub fn insert(&mut self, name: &str, ciphertext: Vec<u8>) {
        self.encrypted.insert(name.to_owned(), ciphertext);
    }

    /// Names that the scripts need and that are not there yet.
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

    /// Names of every file that goes into a script.
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

/// Ids that are known only once the storage stack exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disks {
    /// The shared file system.
    pub file_system: String,
    /// The disk with etcd.
    pub etcd_volume: String,
}

/// Both scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scripts {
    /// `node/controller.sh` in the bucket.
    pub controller: String,
    /// `node/worker.sh`.
    pub worker: String,
}

impl Scripts {
    /// Renders both.
    pub fn render(spec: &ClusterSpec, assets: &Assets, disks: &Disks) -> Self {
        Self {
            controller: controller(spec, assets, disks),
            worker: worker(spec, assets, disks),
        }
    }

    /// Name in the bucket and content of each.
    pub fn objects(&self) -> [(&'static str, &str); 2] {
        [(SCRIPTS[0], &self.controller), (SCRIPTS[1], &self.worker)]
    }
}

/// Writes a file, as lines of a script.
fn file(path: &str, mode: &str, text: &str) -> String {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("install -D -m {mode} /dev/stdin {path} <<'END_OF_FILE'\n{text}{end}END_OF_FILE\n")
}

/// The beginning of both scripts: what differs between clusters, and the encrypted assets.
fn head(spec: &ClusterSpec, assets: &Assets, names: &[&str], version: &str) -> String {
    let minor = catalog::minor(version).unwrap_or(catalog::VERSIONS.1);
    let containerd = catalog::least_containerd(minor);
    let mut script = format!(
        "#!/bin/bash
set -euo pipefail
cluster={name}
region={region}
suffix={suffix}
version={version}
least_containerd={containerd}
pause=${{CANOE_PAUSE:-10}}
",
        name = spec.name,
        region = spec.region,
        suffix = Partition::of(&spec.region).suffix,
    );
    for name in names {
        let path = format!("/etc/canoe/assets/{name}.b64");
        script.push_str(&file(&path, "0600", &assets.text(name)));
    }
    script
}

fn filled(spec: &ClusterSpec, text: &str) -> String {
    text.replace("@REGION@", &spec.region)
        .replace(
            "@BUCKET@",
            &bucket_name(spec.id.as_deref().unwrap_or("none")),
        )
        .replace("@NODE@", &controller_node(spec))
        .replace("@ADDRESS@", &spec.controller_ip())
}

fn controller(spec: &ClusterSpec, assets: &Assets, disks: &Disks) -> String {
    let names: Vec<&str> = CONTROLLER_FILES.iter().map(|(name, _)| *name).collect();
    let mut script = head(spec, assets, &names, &spec.kubernetes_version);
    script.push_str(&format!(
        "volume={}\npods={}\npod_network={POD_NETWORK}\n",
        disks.etcd_volume, spec.network.pod_cidr
    ));
    script.push_str(&file("/etc/canoe/kubeadm.yaml", "0600", &kubeadm(spec)));
    script.push_str(&file(
        "/etc/canoe/cloud-controller.yaml",
        "0600",
        &cloud_controller(spec),
    ));
    let tools = [
        ("backup", include_str!("backup.sh")),
        ("restore", include_str!("restore.sh")),
    ];
    for (name, text) in tools {
        let path = format!("/usr/local/sbin/canoe-etcd-{name}");
        script.push_str(&file(&path, "0700", &filled(spec, text)));
    }
    script.push_str(&file(
        "/etc/systemd/system/canoe-etcd-backup.service",
        "0644",
        "[Unit]\nDescription=Saves etcd to the cluster's bucket\n\n[Service]\nType=oneshot\nExecStart=/usr/local/sbin/canoe-etcd-backup\n",
    ));
    script.push_str(&file(
        "/etc/systemd/system/canoe-etcd-backup.timer",
        "0644",
        "[Unit]\nDescription=Saves etcd every six hours\n\n[Timer]\nOnCalendar=00/6:00:00\nPersistent=true\n\n[Install]\nWantedBy=timers.target\n",
    ));
    script.push_str("assets() {\n");
    for (name, places) in CONTROLLER_FILES {
        for place in places {
            script.push_str(&format!("  decrypt {name} /etc/kubernetes/{place}\n"));
        }
    }
    script.push_str("}\n");
    script.push_str(include_str!("common.sh"));
    script.push_str(include_str!("controller.sh"));
    script
}

fn worker(spec: &ClusterSpec, assets: &Assets, disks: &Disks) -> String {
    let mut script = head(spec, assets, &WORKER_FILES, spec.worker_version());
    script.push_str(&format!(
        "files={}\ndirectory={}\nowner={}\n",
        files_host(spec, &disks.file_system),
        spec.storage.directory,
        spec.storage.uid
    ));
    let config = crate::kubeconfig::worker(spec);
    script.push_str(&file("/etc/canoe/worker.kubeconfig", "0600", &config));
    script.push_str(&file("/etc/canoe/join.yaml", "0600", &join(spec)));
    script.push_str("assets() {\n");
    for name in WORKER_FILES {
        script.push_str(&format!("  decrypt {name} /etc/canoe/tls/{name}\n"));
    }
    script.push_str("}\n");
    script.push_str(include_str!("common.sh"));
    script.push_str(include_str!("worker.sh"));
    script
}

fn kubeadm(spec: &ClusterSpec) -> String {
    let address = spec.controller_ip();
    let mut names = vec!["kubernetes".to_owned(), address.clone()];
    names.extend(spec.external_name().map(str::to_owned));
    let names: String = names.iter().map(|name| format!("  - {name}\n")).collect();
    format!(
        "apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint:
  advertiseAddress: {address}
  bindPort: 6443
nodeRegistration:
  name: {node}
  criSocket: unix:///run/containerd/containerd.sock
  kubeletExtraArgs:
  - name: provider-id
    value: \"@PROVIDER_ID@\"
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
clusterName: {name}
kubernetesVersion: stable-{version}
controlPlaneEndpoint: {address}:6443
apiServer:
  certSANs:
{names}etcd:
  local:
    dataDir: /var/lib/etcd/data
networking:
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
        pods = spec.network.pod_cidr,
        services = spec.network.service_cidr,
    )
}

fn join(spec: &ClusterSpec) -> String {
    format!(
        "apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  file:
    kubeConfigPath: /etc/canoe/worker.kubeconfig
nodeRegistration:
  criSocket: unix:///run/containerd/containerd.sock
  kubeletExtraArgs:
  - name: provider-id
    value: \"@PROVIDER_ID@\"
  - name: node-labels
    value: canoe.cluster={}@GROUP@
",
        spec.name
    )
}

/// The part of AWS's cloud controller that removes nodes whose machine has gone. Nothing waits for it: without it
/// dead nodes stay in the list, and that is all. It ends at once if it may not read how the API server authenticates.
fn cloud_controller(spec: &ClusterSpec) -> String {
    format!(
        "apiVersion: v1
kind: ServiceAccount
metadata: {{name: cloud-controller-manager, namespace: kube-system}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: canoe:cloud-controller-manager}}
rules:
- {{apiGroups: [\"\"], resources: [nodes], verbs: [get, list, watch, delete, patch, update]}}
- {{apiGroups: [\"\"], resources: [events], verbs: [create, patch, update]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: canoe:cloud-controller-manager}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: canoe:cloud-controller-manager}}
subjects:
- {{kind: ServiceAccount, name: cloud-controller-manager, namespace: kube-system}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: canoe:cloud-controller-manager, namespace: kube-system}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}}
subjects:
- {{kind: ServiceAccount, name: cloud-controller-manager, namespace: kube-system}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: cloud-controller-manager, namespace: kube-system}}
spec:
  selector: {{matchLabels: {{app: cloud-controller-manager}}}}
  template:
    metadata: {{labels: {{app: cloud-controller-manager}}}}
    spec:
      serviceAccountName: cloud-controller-manager
      hostNetwork: true
      priorityClassName: system-cluster-critical
      nodeSelector: {{node-role.kubernetes.io/control-plane: \"\"}}
      tolerations:
      - {{key: node-role.kubernetes.io/control-plane, operator: Exists, effect: NoSchedule}}
      containers:
      - name: cloud-controller-manager
        image: registry.k8s.io/provider-aws/cloud-controller-manager:v{version}.0
        args:
        - --cloud-provider=aws
        - --controllers=cloud-node-lifecycle-controller
        - --configure-cloud-routes=false
        - --allow-untagged-cloud=true
        - --leader-elect=false
        - --cluster-name={name}
        resources: {{requests: {{cpu: 50m, memory: 64Mi}}}}
",
        version = spec.kubernetes_version,
        name = spec.name,
    )
}

/// Kubernetes name of the controller node, which its certificate carries.
pub(crate) fn controller_node(spec: &ClusterSpec) -> String {
    format!("{}-controller", spec.name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::ControlPlaneMode;

    fn spec() -> ClusterSpec {
        let mut spec = ClusterSpec::new("Demo", "us-west-2");
        spec.control_plane.mode = ControlPlaneMode::SelfManaged;
        spec.id = Some("6f1c2f6e-5b0e-4c8e-9d55-0d8f4f2a7b11".to_owned());
        spec.dns.external_name = Some("paddle.example.com".to_owned());
        spec
    }

    fn disks() -> Disks {
        Disks {
            file_system: "fs-1".to_owned(),
            etcd_volume: "vol-0abc".to_owned(),
        }
    }

    /// Without this the cloud controller ended at its start, again and again.
    #[test]
    fn the_cloud_controller_may_read_how_the_api_server_authenticates() {
        let text = cloud_controller(&ClusterSpec::new("demo", "us-west-2"));
        let binding = text
            .split("---\n")
            .find(|document| document.contains("kind: RoleBinding"))
            .unwrap();
        let binding = yaml::parse(binding).unwrap().value;
        let role = "extension-apiserver-authentication-reader";
        assert_eq!(binding["roleRef"]["name"], role);
        assert_eq!(binding["metadata"]["namespace"], "kube-system");
        assert_eq!(binding["subjects"][0]["name"], "cloud-controller-manager");
    }

    #[test]
    fn each_machine_has_what_it_needs_and_no_more() {
        let mut assets = Assets::default();
        for name in Assets::wanted() {
            assets.insert(name, format!("cipher of {name}").into_bytes());
        }
        assert!(assets.missing().is_empty());
        let scripts = Scripts::render(&spec(), &assets, &disks());
        let has = |script: &str, name: &str| {
            script.contains(&STANDARD.encode(format!("cipher of {name}")))
        };
        for (name, _) in CONTROLLER_FILES {
            assert!(has(&scripts.controller, name), "{name}");
        }
        for name in WORKER_FILES {
            assert!(has(&scripts.worker, name), "{name}");
        }
        assert!(!has(&scripts.controller, "worker-key.pem"));
        assert!(!has(&scripts.worker, "ca-key.pem") && !scripts.worker.contains("admin"));
        assert!(
            scripts.controller.contains("volume=vol-0abc") && scripts.worker.contains("fs-1.efs")
        );
    }

    /// With public subnets the address was that of a private one, and no machine could start.
    #[test]
    fn the_controllers_address_lies_in_its_subnet() {
        for (name, spec) in crate::matrix::cases() {
            if spec.control_plane.mode == ControlPlaneMode::Eks {
                continue;
            }
            let stacks = crate::template::render(&spec, &crate::template::Render::default());
            let controller = &stacks[2].body["Resources"]["Controller"]["Properties"];
            let subnet = controller["SubnetId"]["Fn::ImportValue"].as_str().unwrap();
            let subnet = subnet.trim_start_matches("demo-");
            let network = &stacks[0].body["Resources"][subnet]["Properties"]["CidrBlock"];
            let network: crate::cidr::Cidr = network.as_str().unwrap().parse().unwrap();
            let address = format!("{}/32", controller["PrivateIpAddress"].as_str().unwrap());
            assert!(
                network.contains(address.parse().unwrap()),
                "{name}: {address} is not in {network}"
            );
        }
    }

    #[test]
    fn nothing_is_left_to_fill_in_but_the_machines_own_id() {
        let scripts = Scripts::render(&spec(), &Assets::default(), &disks());
        for (name, text) in scripts.objects() {
            let rest = text.replace("@PROVIDER_ID@", "");
            assert!(
                !rest.contains("@REGION@") && !rest.contains("@BUCKET@"),
                "{name}"
            );
            assert!(
                !rest.contains("@NODE@") && !rest.contains("@ADDRESS@"),
                "{name}"
            );
        }
        assert!(scripts.controller.contains("least_containerd=1.7"));
        let mut newer = spec();
        newer.kubernetes_version = "1.36".to_owned();
        let scripts = Scripts::render(&newer, &Assets::default(), &disks());
        assert!(scripts.worker.contains("least_containerd=2.0"));
    }
}
