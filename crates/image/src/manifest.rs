//! Manifests and configurations: chooses the base's image for an architecture, and adds a layer to it. Pure.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ImageError;
use crate::layer::ImageLayer;

/// The media types that requests accept: lists for several architectures, and single images.
pub(crate) const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// The type of an OCI manifest.
pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A blob, as manifests name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blob {
    /// What it is.
    pub media_type: String,
    pub digest: String,
    /// Its length in bytes.
    pub size: u64,
    /// Other fields of the manifest, kept unchanged.
    #[serde(flatten)]
    pub more: serde_json::Map<String, Value>,
}

/// A manifest of one image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageManifest {
    schema_version: u32,
    /// Of which kind.
    #[serde(default = "oci")]
    pub media_type: String,
    /// The configuration.
    pub config: Blob,
    /// The layers, the lowest first.
    pub layers: Vec<Blob>,
}

fn oci() -> String {
    OCI_MANIFEST.to_owned()
}

/// What a reference names.
pub(crate) enum ReferenceTarget {
    Image(ImageManifest),
    /// A list; the digest of the image for these processors.
    Listed(String),
}

/// Reads a manifest or a list of them.
pub(crate) fn read(
    what: &str,
    text: &[u8],
    architecture: &str,
) -> Result<ReferenceTarget, ImageError> {
    let strange = |reason: String| ImageError::Strange {
        what: what.to_owned(),
        reason,
    };
    let value: Value = serde_json::from_slice(text).map_err(|error| strange(error.to_string()))?;
    let Some(list) = value["manifests"].as_array() else {
        let manifest = serde_json::from_value(value).map_err(|error| strange(error.to_string()))?;
        return Ok(ReferenceTarget::Image(manifest));
    };
    let platform = |entry: &Value| {
        let text = |key: &str| entry["platform"][key].as_str().unwrap_or("?").to_owned();
        format!("{}/{}", text("os"), text("architecture"))
    };
    let wanted = format!("linux/{architecture}");
    let found = list.iter().find(|entry| platform(entry) == wanted);
    let digest = found.and_then(|entry| entry["digest"].as_str());
    digest
        .map(|digest| ReferenceTarget::Listed(digest.to_owned()))
        .ok_or_else(|| ImageError::NoPlatform {
            base: what.to_owned(),
            architecture: architecture.to_owned(),
            there: list.iter().map(platform).collect::<Vec<_>>().join(", "),
        })
}

/// An image: its manifest and its configuration, as bytes.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub manifest: ImageManifest,
    /// The configuration.
    pub config: Vec<u8>,
}

/// The base with our layer on top, started as the other images of ours are.
pub(crate) fn with_layer(
    base: &ImageManifest,
    config: &[u8],
    layer: &ImageLayer,
) -> Result<Image, ImageError> {
    let strange = |reason: &str| ImageError::Strange {
        what: "the base's configuration".to_owned(),
        reason: reason.to_owned(),
    };
    let mut config: Value =
        serde_json::from_slice(config).map_err(|error| strange(&error.to_string()))?;
    let ids = config["rootfs"]["diff_ids"].as_array_mut();
    ids.ok_or_else(|| strange("it lists no layers"))?
        .push(json!(layer.diff_id));
    if let Some(history) = config["history"].as_array_mut() {
        history.push(json!({"created_by": "canoe image", "comment": "the canoe binary"}));
    }
    for (key, value) in [
        ("Entrypoint", json!(["canoe"])),
        ("Cmd", json!(["--help"])),
        ("User", json!("10001:10001")),
        ("WorkingDir", json!("/tmp")),
    ] {
        config["config"][key] = value;
    }
    let bytes = serde_json::to_vec(&config).map_err(|error| strange(&error.to_string()))?;
    let is_docker = base.media_type == DOCKER_MANIFEST;
    let layer_type = if is_docker {
        "application/vnd.docker.image.rootfs.diff.tar.gzip"
    } else {
        "application/vnd.oci.image.layer.v1.tar+gzip"
    };
    let mut manifest = base.clone();
    manifest.config.digest = crate::digest::of(&bytes);
    manifest.config.size = bytes.len() as u64;
    manifest.layers.push(Blob {
        media_type: layer_type.to_owned(),
        digest: layer.digest.clone(),
        size: layer.bytes.len() as u64,
        more: serde_json::Map::new(),
    });
    Ok(Image {
        manifest,
        config: bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(digest: &str) -> Value {
        json!({"mediaType": "x", "digest": digest, "size": 1, "urls": []})
    }

    #[test]
    fn lists_lead_to_the_image_for_the_processors() {
        let list = json!({"manifests": [
            {"digest": "sha256:a", "platform": {"os": "linux", "architecture": "amd64"}},
            {"digest": "sha256:b", "platform": {"os": "linux", "architecture": "arm64"}},
        ]});
        let text = list.to_string();
        let ReferenceTarget::Listed(digest) = read("x", text.as_bytes(), "arm64").unwrap() else {
            panic!("a list");
        };
        assert_eq!(digest, "sha256:b");
        let error = read("x", text.as_bytes(), "s390x").err().unwrap();
        assert!(
            error
                .to_string()
                .ends_with("it has linux/amd64, linux/arm64")
        );
        assert!(read("x", b"{}", "amd64").is_err() && read("x", b"no", "amd64").is_err());
    }

    #[test]
    fn a_layer_is_put_on_top_and_the_rest_stays() {
        let base =
            json!({"schemaVersion": 2, "config": blob("sha256:c"), "layers": [blob("sha256:l")]});
        let ReferenceTarget::Image(base) = read("x", base.to_string().as_bytes(), "amd64").unwrap()
        else {
            panic!("an image");
        };
        let layer = ImageLayer {
            bytes: vec![1, 2, 3],
            digest: "sha256:new".into(),
            diff_id: "sha256:tar".into(),
        };
        let config = json!({"architecture": "amd64", "config": {"Env": ["A=b"]}, "rootfs": {"diff_ids": ["sha256:d"]}, "history": []});
        let image = with_layer(&base, config.to_string().as_bytes(), &layer).unwrap();
        assert_eq!(image.manifest.layers[0].digest, "sha256:l");
        assert!(image.manifest.layers[0].more.contains_key("urls"));
        assert_eq!(image.manifest.layers[1].digest, "sha256:new");
        let config: Value = serde_json::from_slice(&image.config).unwrap();
        assert_eq!(
            config["rootfs"]["diff_ids"],
            json!(["sha256:d", "sha256:tar"])
        );
        assert_eq!(config["config"]["Env"], json!(["A=b"]));
        assert_eq!(config["config"]["Entrypoint"], json!(["canoe"]));
        assert_eq!(
            image.manifest.config.digest,
            crate::digest::of(&image.config)
        );
        assert!(with_layer(&base, b"{}", &layer).is_err());
    }
}
