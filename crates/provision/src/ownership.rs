//! What belongs to this cluster, and what only has the same name.
//!
//! An account holds other things: a stack `web-base` of another team, a colleague's cluster `demo`. A
//! name proves nothing, so every cluster has an id (a UUID in `cluster.yaml`), and everything that is
//! made carries it as a tag, beside the cluster's name. Nothing is changed or deleted without exactly that
//! id and that name: the same id with another name says that this cluster file is a copy of another
//! cluster's. What Kubernetes makes by itself (load balancers, security groups, network interfaces) cannot
//! carry the id: such a thing is ours when it has Kubernetes' own mark of this cluster and lies in a VPC
//! that carries the id. In a VPC of the user's own the mark proves nothing; there an interface must also be
//! in a security group of our own stacks.

use std::collections::BTreeMap;

use ring::rand::{SecureRandom as _, SystemRandom};

use crate::spec::ClusterSpec;
use crate::template::CLUSTER_TAG;

/// Tag whose value is the cluster's id.
pub const ID_TAG: &str = "canoe:cluster-id";

/// Tags of a thing in the account.
pub type Tags = BTreeMap<String, String>;

/// Something in the account: its id (or name, or ARN) and its tags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Thing {
    /// Whatever AWS calls it by.
    pub id: String,
    /// Its tags.
    pub tags: Tags,
}

/// A new id: a random UUID (version 4).
pub fn fresh_id() -> String {
    let mut bytes = [0; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the operating system has random numbers");
    uuid(bytes)
}

fn uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

/// What to say to somebody whose cluster file has no id.
pub fn missing_id() -> String {
    format!(
        "cluster.yaml has no id, so nothing can be told to be this cluster's; add the line `id: \"{}\"`",
        fresh_id()
    )
}

/// Whether these are the tags of something that this cluster made: its id and its name.
pub fn is_ours(tags: &Tags, spec: &ClusterSpec) -> bool {
    has_id(tags, spec.id.as_deref()) && tags.get(CLUSTER_TAG) == Some(&spec.name)
}

/// Whether these tags hold this id, whatever the name.
pub(crate) fn has_id(tags: &Tags, id: Option<&str>) -> bool {
    id.is_some_and(|id| tags.get(ID_TAG).is_some_and(|value| value == id))
}

/// The name of the cluster whose id this cluster file has, if it is another one: the file is a copy.
pub(crate) fn copied_from<'a>(tags: &'a Tags, spec: &ClusterSpec) -> Option<&'a str> {
    let other = tags.get(CLUSTER_TAG).filter(|name| **name != spec.name)?;
    has_id(tags, spec.id.as_deref()).then_some(other)
}

/// Why something of one of our names is not ours.
pub fn stranger(what: &str, tags: &Tags, spec: &ClusterSpec) -> String {
    if let Some(name) = copied_from(tags, spec) {
        return format!(
            "{what} belongs to the cluster {name}, whose id this cluster.yaml has: it is a copy, or was renamed; write an id \
             of its own into it, `id: \"{}\"`",
            fresh_id()
        );
    }
    let own = spec.id.as_deref().map_or(String::new(), |id| {
        format!("; this cluster.yaml has the id {id}")
    });
    match (tags.get(ID_TAG), tags.get(CLUSTER_TAG)) {
        (Some(id), _) if spec.id.as_ref() == Some(id) => {
            format!("{what} carries this cluster's id but no tag {CLUSTER_TAG}")
        }
        (Some(other), Some(name)) if *name == spec.name => format!(
            "{what} belongs to the cluster with the id {other}{own} (if it is yours, put `id: \"{other}\"` back)"
        ),
        (Some(other), _) => format!("{what} belongs to the cluster with the id {other}{own}"),
        (None, _) => format!("{what} carries no tag {ID_TAG}{own}"),
    }
}

/// Whether Kubernetes says that it made this for the cluster `name`. Good only for what lies in our VPC.
pub(crate) fn made_by_kubernetes(tags: &Tags, name: &str) -> bool {
    let has = |key: &str, value: &str| tags.get(key).is_some_and(|found| found == value);
    has(&format!("kubernetes.io/cluster/{name}"), "owned")
        || has("elbv2.k8s.aws/cluster", name)
        || has("cluster.k8s.amazonaws.com/name", name)
}

/// Those of `things` that are ours, by their ids, in order.
pub(crate) fn own_ids(things: Vec<Thing>, spec: &ClusterSpec) -> Vec<String> {
    let own = things
        .into_iter()
        .filter(|thing| is_ours(&thing.tags, spec));
    let mut ids: Vec<String> = own.map(|thing| thing.id).collect();
    ids.sort();
    ids
}

/// Name tag of the disk with the etcd of a self-managed cluster.
pub(crate) fn etcd_disk_name(cluster: &str) -> String {
    format!("{cluster}-etcd")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Tags {
        let owned = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        owned.collect()
    }

    fn spec(id: Option<&str>) -> ClusterSpec {
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        spec.id = id.map(str::to_owned);
        spec
    }

    #[test]
    fn only_exactly_our_id_and_name_are_ours() {
        let ours = tags(&[(ID_TAG, "a"), (CLUSTER_TAG, "demo")]);
        assert!(is_ours(&ours, &spec(Some("a"))));
        assert!(!is_ours(&ours, &spec(Some("b"))));
        assert!(!is_ours(&ours, &spec(None)));
        assert!(!is_ours(&tags(&[(CLUSTER_TAG, "demo")]), &spec(Some("a"))));
        assert!(!is_ours(&tags(&[(ID_TAG, "a")]), &spec(Some("a"))));
        let said = stranger("stack demo-base", &ours, &spec(Some("b")));
        for words in ["the id a", "the id b", "put `id: \"a\"` back"] {
            assert!(said.contains(words), "{said}");
        }
        let said = stranger("stack web-base", &tags(&[]), &spec(Some("b")));
        assert!(said.contains("carries no tag canoe:cluster-id"), "{said}");
    }

    /// A folder that was copied and given another name held the first cluster's things for its own.
    #[test]
    fn our_id_with_another_name_is_a_copy() {
        let first = tags(&[(ID_TAG, "a"), (CLUSTER_TAG, "first")]);
        assert!(!is_ours(&first, &spec(Some("a"))));
        assert_eq!(copied_from(&first, &spec(Some("a"))), Some("first"));
        assert_eq!(copied_from(&first, &spec(Some("b"))), None);
        let said = stranger("file system fs-1", &first, &spec(Some("a")));
        assert!(
            said.contains("the cluster first") && said.contains("copy") && said.contains("`id: \""),
            "{said}"
        );
    }

    #[test]
    fn ids_are_uuids_and_differ() {
        assert_eq!(uuid([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        let (one, two) = (fresh_id(), fresh_id());
        assert_ne!(one, two);
        assert_eq!(crate::names::CLUSTER_ID.complaint(&one), None);
    }

    #[test]
    fn the_marks_of_kubernetes_name_the_cluster() {
        for (key, value, ours) in [
            ("kubernetes.io/cluster/demo", "owned", true),
            ("kubernetes.io/cluster/demo", "shared", false),
            ("kubernetes.io/cluster/other", "owned", false),
            ("elbv2.k8s.aws/cluster", "demo", true),
            ("cluster.k8s.amazonaws.com/name", "other", false),
            ("Name", "demo", false),
        ] {
            assert_eq!(
                made_by_kubernetes(&tags(&[(key, value)]), "demo"),
                ours,
                "{key}"
            );
        }
    }
}
