//! Kubeconfig files: for people (EKS or self-managed) and for a worker that joins.
//!
//! An EKS kubeconfig holds no secret: kubectl runs `canoe cluster token`, which signs a short-lived
//! request with whatever AWS credentials the user has at that moment. A self-managed one points at
//! the admin pair by relative path, so that no private key is copied.

use serde_json::{Value, json};

use crate::spec::ClusterSpec;

/// Where and how the API server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Such as `https://ABC.eks.amazonaws.com`.
    pub server: String,
    /// Base64 of the CA's PEM.
    pub certificate_authority: String,
}

/// Kubeconfig for EKS.
pub fn eks(spec: &ClusterSpec, endpoint: &Endpoint) -> Value {
    let cluster = json!({
        "server": endpoint.server,
        "certificate-authority-data": endpoint.certificate_authority,
    });
    let user = json!({
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "canoe",
            "args": ["cluster", "token", "--name", spec.name, "--region", spec.region],
            "interactiveMode": "Never",
            "provideClusterInfo": false,
            "installHint": "canoe is not on the PATH; `aws eks get-token` does the same",
        },
    });
    whole(&spec.name, cluster, user)
}

/// Kubeconfig for a self-managed cluster; lies beside the `credentials` directory.
///
/// The certificate carries the name `kubernetes`, the load balancer's name is AWS's to choose: the
/// client is told to expect the former, unless there is a name of your own.
pub fn self_managed(spec: &ClusterSpec, server: &str) -> Value {
    let mut cluster = json!({"server": server, "certificate-authority": "credentials/ca.pem"});
    if spec.external_name().is_none() {
        cluster["tls-server-name"] = json!("kubernetes");
    }
    let user = json!({
        "client-certificate": "credentials/admin.pem",
        "client-key": "credentials/admin-key.pem",
    });
    whole(&spec.name, cluster, user)
}

fn whole(name: &str, cluster: Value, user: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    })
}

/// What a worker uses to find the controller and to ask for a certificate of its own.
pub(crate) fn worker(spec: &ClusterSpec) -> String {
    let cluster = json!({
        "server": format!("https://{}:6443", spec.controller_ip()),
        "certificate-authority": "/etc/canoe/tls/ca.pem",
    });
    let user = json!({
        "client-certificate": "/etc/canoe/tls/worker.pem",
        "client-key": "/etc/canoe/tls/worker-key.pem",
    });
    whole(&spec.name, cluster, user).to_string()
}

/// Puts `ours` into `existing`: entries of the same name are replaced, everything else stays, and
/// the current context becomes ours.
pub fn merge(existing: Value, ours: &Value) -> Value {
    let mut merged = if existing.is_object() {
        existing
    } else {
        json!({"apiVersion": "v1", "kind": "Config"})
    };
    for list in ["clusters", "users", "contexts"] {
        let mut entries = merged[list].as_array().cloned().unwrap_or_default();
        for entry in ours[list].as_array().into_iter().flatten() {
            match entries.iter_mut().find(|old| old["name"] == entry["name"]) {
                Some(old) => *old = entry.clone(),
                None => entries.push(entry.clone()),
            }
        }
        merged[list] = Value::Array(entries);
    }
    merged["current-context"] = ours["current-context"].clone();
    merged
}

/// Takes the entries of `name` out again, for `down`.
pub fn remove(existing: Value, name: &str) -> Value {
    let mut left = existing;
    for list in ["clusters", "users", "contexts"] {
        if let Some(entries) = left[list].as_array_mut() {
            entries.retain(|entry| entry["name"] != name);
        }
    }
    if left["current-context"] == name {
        left["current-context"] = json!("");
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Endpoint {
        Endpoint {
            server: "https://x.eks.amazonaws.com".to_owned(),
            certificate_authority: "Q0E=".to_owned(),
        }
    }

    #[test]
    fn merging_twice_is_merging_once_and_keeps_the_rest() {
        let spec = ClusterSpec::new("demo", "us-west-2");
        let ours = eks(&spec, &endpoint());
        let theirs = self_managed(&ClusterSpec::new("other", "us-west-2"), "https://other");
        let once = merge(theirs.clone(), &ours);
        assert_eq!(merge(once.clone(), &ours), once);
        assert_eq!(once["clusters"].as_array().unwrap().len(), 2);
        assert_eq!(once["current-context"], "demo");
        let back = remove(once, "demo");
        assert_eq!(back["clusters"], theirs["clusters"]);
        assert_eq!(back["current-context"], "");
        assert_eq!(merge(Value::Null, &ours)["users"], ours["users"]);
    }

    #[test]
    fn no_secret_is_written() {
        let spec = ClusterSpec::new("demo", "us-west-2");
        let text =
            eks(&spec, &endpoint()).to_string() + &self_managed(&spec, "https://a").to_string();
        assert!(
            !text.contains("token\":") && !text.contains("-key-data") && !text.contains("password")
        );
    }

    #[test]
    fn the_expected_name_is_that_of_the_certificate() {
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        assert_eq!(
            self_managed(&spec, "https://lb")["clusters"][0]["cluster"]["tls-server-name"],
            "kubernetes"
        );
        spec.dns.external_name = Some("paddle.example.com".to_owned());
        let config = self_managed(&spec, "https://paddle.example.com");
        assert_eq!(
            config["clusters"][0]["cluster"].get("tls-server-name"),
            None
        );
    }
}
