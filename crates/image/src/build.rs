//! Writes an image to a file or a registry: the base's layers, unchanged, and the layer with the canoe binary.

use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use serde_json::json;
use tar::{Builder, Header};

use crate::layer::{self, ImageLayer};
use crate::manifest::{self, Blob, Image, ImageManifest, ReferenceTarget};
use crate::registry::Repository;
use crate::{ImageError, digest};

/// The parts of the image.
pub struct ImageOptions<'a> {
    /// The image with Python, in its registry.
    pub base: &'a Repository,
    /// The Linux program.
    pub binary: &'a Path,
    /// The processor architecture in the words of registries: `amd64`, `arm64`.
    pub architecture: &'a str,
}

/// A complete image, and its base.
struct Whole {
    base: ImageManifest,
    image: Image,
    layer: ImageLayer,
}

fn whole(options: &ImageOptions<'_>) -> Result<Whole, ImageError> {
    let reference = options.base.reference();
    let what = reference.to_string();
    let mut text = options.base.manifest(&reference.version)?;
    let mut found = manifest::read(&what, &text, options.architecture)?;
    if let ReferenceTarget::Listed(digest) = &found {
        text = options.base.manifest(digest)?;
        found = manifest::read(&what, &text, options.architecture)?;
    }
    let ReferenceTarget::Image(base) = found else {
        return Err(ImageError::Strange {
            what,
            reason: "a list of lists".to_owned(),
        });
    };
    let config = options.base.small(&base.config)?;
    let layer = layer::of(options.binary)?;
    let image = manifest::with_layer(&base, &config, &layer)?;
    Ok(Whole { base, image, layer })
}

fn bytes_of(manifest: &ImageManifest) -> Vec<u8> {
    serde_json::to_vec(manifest).expect("a manifest has only plain values")
}

/// Writes an OCI archive, which `skopeo`, `podman load`, `docker load` and `ctr images import` read. Returns the image's digest.
/// `path` names the file in errors.
pub fn to_file(
    options: &ImageOptions<'_>,
    name: &str,
    file: &mut dyn Write,
    path: &Path,
) -> Result<String, ImageError> {
    let whole = whole(options)?;
    let failed = |source| ImageError::File {
        action: "write",
        path: path.to_owned(),
        source,
    };
    let mut tar = Builder::new(BufWriter::new(file));
    for blob in &whole.base.layers {
        let mut reader = options.base.open(blob)?;
        add(&mut tar, &place(&blob.digest), blob.size, &mut reader).map_err(failed)?;
        check(blob, reader.digest())?;
    }
    let manifest = bytes_of(&whole.image.manifest);
    let digest = digest::of(&manifest);
    let config = &whole.image.manifest.config;
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{
            "mediaType": whole.image.manifest.media_type,
            "digest": digest,
            "size": manifest.len(),
            "platform": {"os": "linux", "architecture": options.architecture},
            "annotations": {"org.opencontainers.image.ref.name": name},
        }],
    });
    let index = index.to_string();
    let layout: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;
    let small: [(String, &[u8]); 5] = [
        (place(&whole.layer.digest), whole.layer.bytes.as_slice()),
        (place(&config.digest), whole.image.config.as_slice()),
        (place(&digest), manifest.as_slice()),
        ("index.json".to_owned(), index.as_bytes()),
        ("oci-layout".to_owned(), layout),
    ];
    for (name, mut bytes) in small {
        let size = bytes.len() as u64;
        add(&mut tar, &name, size, &mut bytes).map_err(failed)?;
    }
    let mut out = tar.into_inner().map_err(failed)?;
    out.flush().map_err(failed)?;
    Ok(digest)
}

fn place(digest: &str) -> String {
    format!("blobs/{}", digest.replace(':', "/"))
}

fn add(
    tar: &mut Builder<impl Write>,
    name: &str,
    size: u64,
    content: &mut dyn Read,
) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_mode(0o644);
    header.set_size(size);
    header.set_mtime(0);
    tar.append_data(&mut header, name, content)
}

fn check(blob: &Blob, got: String) -> Result<(), ImageError> {
    if got == blob.digest {
        Ok(())
    } else {
        Err(ImageError::Damaged {
            what: "a layer of the base".to_owned(),
            got,
            want: blob.digest.clone(),
        })
    }
}

/// Pushes the image. Layers that the registry has already are not sent again; the tag appears last. Returns the image's
/// digest.
pub fn to_registry(
    options: &ImageOptions<'_>,
    target: &Repository,
    tell: &dyn Fn(String),
) -> Result<String, ImageError> {
    let whole = whole(options)?;
    let base = options.base.reference();
    let same_registry = base.registry == target.reference().registry;
    let from = same_registry.then_some(base.repository.as_str());
    for blob in &whole.base.layers {
        if target.has(&blob.digest)? {
            tell(format!("{}: there", short(&blob.digest)));
            continue;
        }
        // The registry compares what it receives with the digest in the request.
        target.write(&blob.digest, blob.size, from, &|| {
            let reader: Box<dyn Read + Send> = Box::new(options.base.open(blob)?);
            Ok(reader)
        })?;
        tell(format!("{}: copied from the base", short(&blob.digest)));
    }
    let config = &whole.image.manifest.config;
    for (digest, bytes) in [
        (&whole.layer.digest, &whole.layer.bytes),
        (&config.digest, &whole.image.config),
    ] {
        if !target.has(digest)? {
            target.write(digest, bytes.len() as u64, None, &|| {
                let reader: Box<dyn Read + Send> = Box::new(io::Cursor::new(bytes.clone()));
                Ok(reader)
            })?;
            tell(format!("{}: pushed", short(digest)));
        }
    }
    let manifest = bytes_of(&whole.image.manifest);
    let media_type = &whole.image.manifest.media_type;
    let version = &target.reference().version;
    target.write_manifest(version, media_type, &manifest)?;
    Ok(digest::of(&manifest))
}

fn short(digest: &str) -> &str {
    digest.get(..19).unwrap_or(digest)
}
