//! What `down` leaves is written into `cluster.yaml` before storage is touched, and what it deletes is taken out at once:
//! however it ends, the file says what the next `up` has to use.

use super::{CommandError, Sink, Talk};
use crate::assets::AssetFolder;
use crate::lifecycle::teardown::Inventory;
use crate::spec::{ClusterSpec, write};

/// Names of the file that hold what outlives a cluster.
const FILE_SYSTEM: &str = "storage.fileSystemId";
const KEY: &str = "kmsKeyArn";
const ETCD: &str = "controlPlane.etcdVolumeId";

/// Writes the file system, key and disk that stay.
pub(super) fn keep(
    folder: &AssetFolder,
    spec: &ClusterSpec,
    inventory: &Inventory,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    let etcd: Vec<String> = inventory.etcd_volume.iter().cloned().collect();
    let named = [
        (
            FILE_SYSTEM,
            &spec.storage.file_system_id,
            &inventory.file_systems,
        ),
        (KEY, &spec.kms_key_arn, &inventory.keys),
        (ETCD, &spec.control_plane.etcd_volume_id, &etcd),
    ];
    let mut text = folder.read_spec()?;
    for (path, given, there) in named {
        if there.is_empty() || given.as_ref().is_some_and(|given| there.contains(given)) {
            continue;
        }
        let Some(value) = chosen(there, &inventory.of_stacks) else {
            let all = there.join(", ");
            sink.talk(Talk::Warning(format!(
                "several things carry the id of this cluster: {all}; write the one that the next cluster is to use into \
                 cluster.yaml, as {path}"
            )));
            continue;
        };
        match write::with_text(&text, path, value) {
            Some(edited) => {
                text = edited;
                sink.talk(Talk::Step(format!("cluster.yaml: {path}: {value}")));
            }
            None => sink.talk(Talk::Warning(format!(
                "to use it again, add to cluster.yaml: {path}: {value}"
            ))),
        }
    }
    folder.update_spec(&text)?;
    Ok(())
}

/// The one that a stack names, or the only one. Of several nobody but the user can choose.
pub(super) fn chosen<'a>(there: &'a [String], of_stacks: &[String]) -> Option<&'a String> {
    match there {
        [only] => Some(only),
        many => many.iter().find(|id| of_stacks.contains(id)),
    }
}

/// Takes out what has gone, so that the next `up` makes its own.
pub(super) fn forget(
    folder: &AssetFolder,
    gone: &[String],
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    let mut text = folder.read_spec()?;
    for path in [FILE_SYSTEM, KEY, ETCD] {
        let value = write::text_at(&text, path);
        if value.is_some_and(|value| gone.contains(&value)) {
            text = write::without(&text, path);
            sink.talk(Talk::Step(format!("cluster.yaml: {path} is commented out")));
        }
    }
    folder.update_spec(&text)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_the_stacks_own_is_chosen_and_never_the_last() {
        let ids =
            |list: &[&str]| -> Vec<String> { list.iter().map(|id| (*id).to_owned()).collect() };
        let two = ids(&["fs-1", "fs-2"]);
        assert_eq!(chosen(&ids(&["fs-1"]), &[]).unwrap(), "fs-1");
        assert_eq!(chosen(&two, &ids(&["key", "fs-2"])).unwrap(), "fs-2");
        assert_eq!(chosen(&two, &[]), None);
    }
}
