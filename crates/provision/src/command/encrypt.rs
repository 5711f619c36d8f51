//! What the machines of a self-managed cluster need before they start: their scripts in the cluster's bucket, with
//! TLS assets that only they can decrypt.

use super::{CommandError, Sink, Talk, bucket};
use crate::assets::AssetFolder;
use crate::cloud::Cloud;
use crate::node::{Disks, Scripts};
use crate::spec::ClusterSpec;

/// Encrypts the assets, renders the scripts and puts them into the bucket.
///
/// Ciphertexts that are already there and not older than what they encrypt are used again, so that a
/// second `up` changes no machine.
pub(crate) async fn scripts(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    folder: &AssetFolder,
    key: &str,
    disks: &Disks,
    sink: &mut impl Sink,
) -> Result<Scripts, CommandError> {
    let mut assets = folder.encrypted_assets();
    for name in assets.missing() {
        let plain = folder.read_credential(name)?;
        let ciphertext = cloud.encrypt(key, &spec.name, plain.as_bytes()).await?;
        folder.write_encrypted(name, &ciphertext)?;
        assets.insert(name, ciphertext);
        sink.talk(Talk::Detail(format!("credentials/{name} encrypted")));
    }
    let scripts = Scripts::render(spec, &assets, disks);
    let bucket = bucket::ready(cloud, spec, "scripts of machines and copies of etcd", sink).await?;
    for (name, text) in scripts.objects() {
        cloud.put_object(&bucket, name, text).await?;
    }
    Ok(scripts)
}
