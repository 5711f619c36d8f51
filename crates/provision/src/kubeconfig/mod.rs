//! Kubeconfig files: for people (EKS or self-managed) and for a worker that joins.
//!
//! An EKS kubeconfig holds no secret: whoever uses it runs `canoe cluster token`, which signs a short-lived
//! request with whatever AWS credentials the user has at that moment. A self-managed one points at
//! the admin pair by relative path, so that no private key is copied.

pub mod text;

use std::path::Path;

use serde_json::{Value, json};

use crate::spec::ClusterSpec;

/// Where and how the API server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiEndpoint {
    /// Such as `https://ABC.eks.amazonaws.com`.
    pub server: String,
    /// Base64 of the CA's PEM.
    pub certificate_authority: String,
}

/// Kubeconfig for EKS.
///
/// `program` is this program: by its full path, since it need not be on the search path of who uses the kubeconfig.
pub fn eks(spec: &ClusterSpec, endpoint: &ApiEndpoint, program: &str) -> Value {
    let cluster = json!({
        "server": endpoint.server,
        "certificate-authority-data": endpoint.certificate_authority,
    });
    let user = json!({
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": program,
            "args": ["cluster", "token", "--name", spec.name, "--region", spec.region],
            "interactiveMode": "Never",
            "provideClusterInfo": false,
            "installHint": "canoe has been moved; `canoe cluster kubeconfig` writes its new place, `aws eks get-token` does the same",
        },
    });
    whole(spec, cluster, user)
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
    whole(spec, cluster, user)
}

/// Name of the extension in which every entry carries the cluster's id; kubectl keeps extensions.
const EXTENSION: &str = "canoe.cluster";

fn whole(spec: &ClusterSpec, mut cluster: Value, mut user: Value) -> Value {
    let name = &spec.name;
    let mut context = json!({"cluster": name, "user": name});
    if let Some(id) = &spec.id {
        let content = json!({"id": id, "name": name, "region": spec.region});
        for entry in [&mut cluster, &mut user, &mut context] {
            entry["extensions"] = json!([{"name": EXTENSION, "extension": content}]);
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": context}],
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
    whole(spec, cluster, user).to_string()
}

/// The lists of a kubeconfig, and the key that holds an entry's content.
const LISTS: [(&str, &str); 3] = [
    ("clusters", "cluster"),
    ("users", "user"),
    ("contexts", "context"),
];

/// By what the entries of a cluster are found.
#[derive(Debug, Clone, Copy)]
pub struct ClusterKey<'a> {
    /// The id in its cluster.yaml.
    pub id: &'a str,
    /// Name of the cluster in cluster.yaml.
    pub name: &'a str,
}

/// What is left of a kubeconfig without the entries of a cluster.
#[derive(Debug, PartialEq)]
pub struct RemainingConfig {
    /// The kubeconfig.
    pub config: Value,
    /// The names of the contexts that were taken out.
    pub contexts: Vec<String>,
}

/// Whose a kubeconfig is that lies in a cluster's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KubeconfigOwner {
    /// The cluster's that `cluster.yaml` describes.
    Ours,
    /// That of the same cluster in this other region: `cluster.yaml` names another one since.
    InRegion(String),
    /// Somebody else's.
    Other,
}

/// Whose it is, by what its entries carry. An older one does not say its region.
pub fn owner(config: &Value, spec: &ClusterSpec) -> KubeconfigOwner {
    let entries = config["clusters"].as_array().into_iter().flatten();
    let cluster = ClusterKey {
        id: spec.id.as_deref().unwrap_or_default(),
        name: &spec.name,
    };
    let Some(entry) = entries
        .into_iter()
        .find(|entry| carries(entry, "cluster", cluster))
    else {
        return KubeconfigOwner::Other;
    };
    let extensions = entry["cluster"]["extensions"].as_array();
    let mut regions = extensions
        .into_iter()
        .flatten()
        .filter_map(|extension| extension["extension"]["region"].as_str());
    match regions.find(|region| *region != spec.region) {
        Some(region) => KubeconfigOwner::InRegion(region.to_owned()),
        None => KubeconfigOwner::Ours,
    }
}

/// The files that a kubeconfig names are relative to where it lies; in another place they need their whole paths.
pub fn with_whole_paths(mut config: Value, folder: &Path) -> Value {
    for (list, key) in LISTS {
        for entry in config[list].as_array_mut().into_iter().flatten() {
            for name in ["certificate-authority", "client-certificate", "client-key"] {
                if let Some(relative) = entry[key][name].as_str() {
                    entry[key][name] = json!(folder.join(relative));
                }
            }
        }
    }
    config
}

/// Whether an entry carries the id and the name of a cluster; an older one has the name only as its own.
fn carries(entry: &Value, key: &str, cluster: ClusterKey<'_>) -> bool {
    let extensions = entry[key]["extensions"].as_array().into_iter().flatten();
    let mut ours = extensions.filter(|extension| extension["name"] == EXTENSION);
    ours.any(|extension| {
        let content = &extension["extension"];
        let named = content["name"].as_str().or(entry["name"].as_str());
        content["id"] == cluster.id && named == Some(cluster.name)
    })
}

/// Why a cluster cannot be put into a kubeconfig.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmergeable {
    /// The file is something else; why, in words.
    #[error("it is no kubeconfig: {0}")]
    Other(&'static str),
    /// Entries of the cluster's name that are not the cluster's.
    #[error("it has entries of the same name that are not this cluster's: {}", .0.join(", "))]
    Strangers(Vec<String>),
}

/// Whether a cluster can be put into `existing`: it is a kubeconfig, or nothing, and nobody else has the cluster's name there.
pub fn fits(existing: &Value, cluster: ClusterKey<'_>) -> Result<(), Unmergeable> {
    let map = match existing {
        Value::Null => return Ok(()),
        Value::Object(map) => map,
        _ => return Err(Unmergeable::Other("it does not consist of keys and values")),
    };
    let has_list = LISTS.iter().any(|(list, _)| map.contains_key(*list));
    match map.get("kind") {
        Some(kind) if kind == "Config" => {}
        Some(_) => return Err(Unmergeable::Other("its kind is not Config")),
        None if has_list || map.is_empty() => {}
        None => return Err(Unmergeable::Other("it has no kind and no clusters")),
    }
    let mut strangers = Vec::new();
    for (list, key) in LISTS {
        let entries = match &existing[list] {
            Value::Null => continue,
            Value::Array(entries) => entries,
            _ => {
                return Err(Unmergeable::Other(
                    "its clusters, users and contexts are no lists",
                ));
            }
        };
        let named = entries.iter().find(|entry| entry["name"] == cluster.name);
        if let Some(entry) = named.filter(|entry| !carries(entry, key, cluster)) {
            strangers.push(format!("{key} {}", entry["name"]));
        }
    }
    if strangers.is_empty() {
        return Ok(());
    }
    Err(Unmergeable::Strangers(strangers))
}

/// Puts `ours`, whose entries carry id and name of the cluster, into `existing`: entries that are the cluster's are
/// replaced, everything else stays, and the current context becomes ours.
pub fn merge(existing: Value, ours: &Value, cluster: ClusterKey<'_>) -> Result<Value, Unmergeable> {
    fits(&existing, cluster)?;
    let mut merged = if existing.is_object() {
        existing
    } else {
        json!({"apiVersion": "v1", "kind": "Config"})
    };
    for (list, _) in LISTS {
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
    Ok(merged)
}

/// Takes the entries of the cluster out again, for `down`; `None` if there are none.
pub fn remove(existing: &Value, cluster: ClusterKey<'_>) -> Option<RemainingConfig> {
    let mut left = existing.clone();
    let current = left["current-context"].clone();
    let (mut changed, mut contexts) = (false, Vec::new());
    for (list, key) in LISTS {
        let Some(entries) = left.get_mut(list).and_then(Value::as_array_mut) else {
            continue;
        };
        let was_current = |entry: &Value| list == "contexts" && entry["name"] == current;
        let mut current_goes = false;
        entries.retain(|entry| {
            let ours = carries(entry, key, cluster);
            changed |= ours;
            if ours && list == "contexts" {
                contexts.extend(entry["name"].as_str().map(str::to_owned));
            }
            current_goes |= ours && was_current(entry);
            !ours
        });
        if current_goes {
            left["current-context"] = json!("");
        }
    }
    changed.then_some(RemainingConfig {
        config: left,
        contexts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClusterKey<'_> = key("a", "demo");

    const fn key<'a>(id: &'a str, name: &'a str) -> ClusterKey<'a> {
        ClusterKey { id, name }
    }

    fn owned(id: &str) -> ClusterSpec {
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        spec.id = Some(id.to_owned());
        spec
    }

    fn endpoint() -> ApiEndpoint {
        ApiEndpoint {
            server: "https://x.eks.amazonaws.com".to_owned(),
            certificate_authority: "Q0E=".to_owned(),
        }
    }

    /// With another region in cluster.yaml, `up` made a second cluster and the first was forgotten, while it cost.
    #[test]
    fn a_kubeconfig_says_whose_it_is_and_in_which_region() {
        let spec = owned("a");
        let config = eks(&spec, &endpoint(), "canoe");
        assert_eq!(owner(&config, &spec), KubeconfigOwner::Ours);
        let mut moved = spec.clone();
        moved.region = "eu-west-1".to_owned();
        let there = KubeconfigOwner::InRegion("us-west-2".to_owned());
        assert_eq!(owner(&config, &moved), there);
        let text = config.to_string().replace(r#","region":"us-west-2"}"#, "}");
        let older: Value = serde_json::from_str(&text).unwrap();
        assert_ne!(older, config);
        assert_eq!(owner(&older, &moved), KubeconfigOwner::Ours);
        assert_eq!(owner(&config, &owned("b")), KubeconfigOwner::Other);
        assert_eq!(owner(&Value::Null, &spec), KubeconfigOwner::Other);
    }

    /// Merged into ~/.kube/config, `credentials/ca.pem` was looked for in ~/.kube.
    #[test]
    fn files_are_named_by_their_whole_paths_in_another_place() {
        let config = with_whole_paths(
            self_managed(&owned("a"), "https://x"),
            Path::new("/home/me/mine"),
        );
        let user = &config["users"][0]["user"];
        assert_eq!(
            user["client-key"],
            "/home/me/mine/credentials/admin-key.pem"
        );
        let authority = &config["clusters"][0]["cluster"]["certificate-authority"];
        assert_eq!(*authority, "/home/me/mine/credentials/ca.pem");
        let plain = eks(&owned("a"), &endpoint(), "canoe");
        assert_eq!(with_whole_paths(plain.clone(), Path::new("/x")), plain);
    }

    #[test]
    fn merging_twice_is_merging_once_and_keeps_the_rest() {
        let spec = owned("a");
        let ours = eks(&spec, &endpoint(), "/usr/bin/canoe");
        let theirs = self_managed(&ClusterSpec::new("other", "us-west-2"), "https://other");
        let once = merge(theirs.clone(), &ours, A).unwrap();
        assert_eq!(merge(once.clone(), &ours, A).unwrap(), once);
        assert_eq!(once["clusters"].as_array().unwrap().len(), 2);
        assert_eq!(once["current-context"], "demo");
        let RemainingConfig {
            config: back,
            contexts,
        } = remove(&once, A).unwrap();
        assert_eq!(contexts, ["demo"]);
        assert_eq!(back["clusters"], theirs["clusters"]);
        assert_eq!(back["current-context"], "");
        let alone = merge(Value::Null, &ours, A).unwrap();
        assert_eq!(alone["users"], ours["users"]);
    }

    /// `down` used to take a context with a token out of the user's file because it was called `demo`.
    #[test]
    fn an_entry_of_the_same_name_that_is_not_ours_is_neither_replaced_nor_removed() {
        let theirs = json!({
            "clusters": [{"name": "demo", "cluster": {"server": "https://theirs"}}],
            "users": [{"name": "demo", "user": {"token": "secret"}}],
            "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "demo"}}],
            "current-context": "demo",
        });
        assert_eq!(remove(&theirs, A), None);
        let refused =
            merge(theirs, &eks(&owned("a"), &endpoint(), "/usr/bin/canoe"), A).unwrap_err();
        assert!(
            matches!(&refused, Unmergeable::Strangers(entries) if entries.len() == 3),
            "{refused}"
        );
        let colleague = eks(&owned("b"), &endpoint(), "/usr/bin/canoe");
        assert_eq!(remove(&colleague, A), None);
        assert!(
            merge(
                colleague,
                &eks(&owned("a"), &endpoint(), "/usr/bin/canoe"),
                A
            )
            .is_err()
        );
    }

    /// Whatever KUBECONFIG named was replaced by a kubeconfig, a Deployment too.
    #[test]
    fn what_is_no_kubeconfig_is_not_merged_into() {
        let ours = eks(&owned("a"), &endpoint(), "/usr/bin/canoe");
        for other in [
            json!([1, 2]),
            json!("just text"),
            json!(42),
            json!({"clusters": {"a": 1}}),
            json!({"kind": "Deployment", "clusters": []}),
            json!({"name": "a"}),
        ] {
            let refused = merge(other.clone(), &ours, A).unwrap_err();
            assert!(matches!(refused, Unmergeable::Other(_)), "{other}");
            assert_eq!(remove(&other, A), None);
        }
        for good in [json!({}), json!({"kind": "Config", "users": null})] {
            merge(good, &ours, A).unwrap();
        }
    }

    /// A copy of the folder with another name took the first cluster's entries out.
    #[test]
    fn a_copy_does_not_take_out_the_entries_of_its_original() {
        let first = eks(&owned("a"), &endpoint(), "/usr/bin/canoe");
        assert_eq!(remove(&first, key("a", "other")), None);
        let mut older = first;
        for (list, key) in LISTS {
            let extension = &mut older[list][0][key]["extensions"][0]["extension"];
            extension.as_object_mut().unwrap().remove("name");
        }
        assert_eq!(remove(&older, key("a", "other")), None);
        assert!(remove(&older, A).is_some());
    }

    /// It used to write a file of nulls where there was none.
    #[test]
    fn nothing_is_removed_from_a_file_that_is_not_there() {
        assert_eq!(remove(&Value::Null, A), None);
        assert_eq!(remove(&json!({"users": null}), A), None);
    }

    #[test]
    fn no_secret_is_written() {
        let spec = ClusterSpec::new("demo", "us-west-2");
        let text = eks(&spec, &endpoint(), "/usr/bin/canoe").to_string()
            + &self_managed(&spec, "https://a").to_string();
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
