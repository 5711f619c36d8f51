//! Encrypts the TLS assets of a self-managed cluster with its key, once.

use super::{CommandError, Sink, Talk};
use crate::assets::AssetFolder;
use crate::cloud::Cloud;
use crate::spec::ClusterSpec;
use crate::user_data::UserData;

/// User data with assets that only the cluster's machines can decrypt.
///
/// Ciphertexts that are already there and not older than what they encrypt are used again, so that a
/// second `up` changes no machine.
pub async fn user_data(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    folder: &AssetFolder,
    key: &str,
    sink: &mut impl Sink,
) -> Result<UserData, CommandError> {
    let mut assets = folder.encrypted_assets();
    for name in assets.missing() {
        let plain = folder.read_credential(name)?;
        let ciphertext = cloud.encrypt(key, &spec.name, plain.as_bytes()).await?;
        folder.write_encrypted(name, &ciphertext)?;
        assets.insert(name, ciphertext);
        sink.talk(Talk::Detail(format!("credentials/{name} encrypted")));
    }
    let data = UserData::render(spec, &assets);
    match data.oversize() {
        None => Ok(data),
        Some((kind, size)) => Err(CommandError::Decision(format!(
            "user data of the {kind} has {size} bytes, EC2 takes {}; shorten names and tags, or use mode eks",
            crate::user_data::MAX_USER_DATA
        ))),
    }
}
