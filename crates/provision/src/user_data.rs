//! Cloud-init user data of a self-managed cluster: what a machine does at its first boot.
//!
//! It is short and never changes: the machine gets a service that fetches its script from the cluster's bucket
//! ([`crate::node`]) and runs it, at every boot and, on the controller, whenever the script changes. So a new
//! version or new certificates replace no machine, and EC2's limit of 16 KiB plays no part.

use crate::policy::bucket_name;
use crate::spec::ClusterSpec;

/// User data of both kinds of machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserData {
    /// For the machine of a self-managed control plane.
    pub controller: String,
    /// For every worker.
    pub worker: String,
}

impl UserData {
    /// Renders both.
    pub fn render(spec: &ClusterSpec) -> Self {
        Self {
            controller: document(spec, "controller", None),
            worker: Self::of_worker(spec, None),
        }
    }

    /// Of a worker in one of `workers.groups`.
    pub(crate) fn of_worker(spec: &ClusterSpec, group: Option<&str>) -> String {
        document(spec, "worker", group)
    }
}

/// One text as an entry of `write_files`.
pub(crate) fn indented(text: &str) -> String {
    let line = |line: &str| {
        if line.is_empty() {
            "\n".to_owned()
        } else {
            format!("    {line}\n")
        }
    };
    text.lines().map(line).collect()
}

fn document(spec: &ClusterSpec, role: &str, group: Option<&str>) -> String {
    let boot = include_str!("node/boot.sh")
        .replace("@REGION@", &spec.region)
        .replace(
            "@BUCKET@",
            &bucket_name(spec.id.as_deref().unwrap_or("none")),
        )
        .replace("@ROLE@", role);
    let service = "[Unit]
Description=Sets this machine up as a node of the cluster
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStart=/usr/local/sbin/canoe-node
Restart=on-failure
RestartSec=30

[Install]
WantedBy=multi-user.target
";
    let mut files = vec![
        ("/usr/local/sbin/canoe-node", "0700", boot),
        (
            "/etc/systemd/system/canoe-node.service",
            "0644",
            service.to_owned(),
        ),
    ];
    if let Some(group) = group {
        files.push(("/etc/canoe/group", "0644", group.to_owned()));
    }
    let mut units = "canoe-node.service".to_owned();
    if role == "controller" {
        let timer = "[Unit]
Description=Looks for changes of the cluster

[Timer]
OnUnitInactiveSec=2min

[Install]
WantedBy=timers.target
";
        files.push((
            "/etc/systemd/system/canoe-node.timer",
            "0644",
            timer.to_owned(),
        ));
        units.push_str(", canoe-node.timer");
    }
    let mut out = String::from("#cloud-config\nwrite_files:\n");
    for (path, mode, text) in files {
        out.push_str(&format!(
            "- path: {path}\n  owner: root:root\n  permissions: '{mode}'\n  content: |\n{}",
            indented(&text)
        ));
    }
    out.push_str(&format!(
        "runcmd:\n- [systemctl, daemon-reload]\n- [systemctl, enable, --now, --no-block, {units}]\n"
    ));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix;
    use crate::spec::ControlPlaneMode;

    /// The largest user data that EC2 takes, before base64.
    const MAX_USER_DATA: usize = 16_384;

    #[test]
    fn it_is_short_and_the_same_for_every_version() {
        for (name, mut spec) in matrix::cases() {
            if spec.control_plane.mode == ControlPlaneMode::Eks {
                continue;
            }
            let data = UserData::render(&spec);
            spec.kubernetes_version = "1.36".to_owned();
            assert_eq!(
                data,
                UserData::render(&spec),
                "{name}: a new version would replace machines"
            );
            for text in [&data.controller, &data.worker] {
                assert!(text.len() < MAX_USER_DATA / 4, "{name}: {}", text.len());
                assert!(!text.contains('@') || !text.contains("@BUCKET@"), "{name}");
                let document = yaml::parse(text).unwrap().value;
                let boot = &document["write_files"][0];
                assert_eq!(boot["permissions"], "0700");
                assert!(
                    boot["content"]
                        .as_str()
                        .unwrap()
                        .starts_with("#!/bin/bash\n")
                );
            }
            assert!(
                data.controller.contains("node/controller.sh")
                    && data.worker.contains("node/worker.sh")
            );
        }
    }
}
