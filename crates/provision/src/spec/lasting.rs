//! What outlives a cluster file that is written anew: the id by which the cluster knows its own, and the names of its data.
//!
//! It is read leniently, because a file is mostly replaced when something in it is wrong: line by line if it is no YAML.

use crate::names::CLUSTER_ID;
use crate::spec::write::text_at;

/// These parts of a cluster file, as far as it has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lasting {
    /// The cluster's name.
    pub name: Option<String>,
    /// `region` of cluster.yaml.
    pub region: Option<String>,
    /// `id` of cluster.yaml.
    pub id: Option<String>,
    /// `storage.fileSystemId` of cluster.yaml.
    pub file_system_id: Option<String>,
    /// `kmsKeyArn` of cluster.yaml.
    pub kms_key_arn: Option<String>,
    /// The disk with its etcd.
    pub etcd_volume_id: Option<String>,
}

/// Reads them; `Err` says why the id may be lost.
pub fn read_lasting(text: &str) -> Result<Lasting, String> {
    if text.trim().is_empty() {
        return Ok(Lasting::default());
    }
    let is_yaml = yaml::parse(text).is_ok();
    let value = |path: &str| {
        if is_yaml {
            return text_at(text, path);
        }
        let key = path.rsplit('.').next().unwrap_or(path);
        text.lines().find_map(|line| line_value(line, key))
    };
    let lasting = Lasting {
        name: value("name"),
        region: value("region"),
        id: value("id"),
        file_system_id: value("storage.fileSystemId"),
        kms_key_arn: value("kmsKeyArn"),
        etcd_volume_id: value("controlPlane.etcdVolumeId"),
    };
    match &lasting.id {
        Some(id) if CLUSTER_ID.complaint(id).is_some() => Err(format!(
            "its id {id:?} is not one, so the cluster's own could be lost"
        )),
        None if !is_yaml => Err("it cannot be read, so the cluster's id could be lost".to_owned()),
        _ => Ok(lasting),
    }
}

/// The value of `key: value` in a line of its own, without quotes and comment.
fn line_value(line: &str, key: &str) -> Option<String> {
    let rest = line.trim_start().strip_prefix(key)?.strip_prefix(':')?;
    let value = rest.split(" #").next().unwrap_or_default().trim();
    let value = value.trim_matches(['"', '\'']);
    (!value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_where_the_file_is_no_yaml() {
        let id = "6f1c2f6e-5b0e-4c8e-9d55-0d8f4f2a7b11";
        let text = format!(
            "id: \"{id}\" # keep\nname: demo\nstorage:\n  fileSystemId: fs-1\n  # kmsKeyArn: none\nx: [\n"
        );
        let lasting = read_lasting(&text).unwrap();
        assert_eq!(lasting.id.as_deref(), Some(id));
        assert_eq!(lasting.name.as_deref(), Some("demo"));
        assert_eq!(lasting.file_system_id.as_deref(), Some("fs-1"));
        assert_eq!(lasting.kms_key_arn, None);
        assert_eq!(read_lasting("").unwrap(), Lasting::default());
    }
}
