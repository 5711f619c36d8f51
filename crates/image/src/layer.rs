//! The binary as a layer: a tar file that depends on nothing but the binary.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use crate::{ImageError, digest};

/// Where the binary is in the image; on the PATH of every stock image.
const FOLDER: &str = "usr/local/bin";

/// A layer, ready to be sent.
#[derive(Debug, Clone)]
pub struct ImageLayer {
    /// The compressed tar file.
    pub bytes: Vec<u8>,
    /// Its digest, by which manifests know it.
    pub digest: String,
    /// The digest of the tar file, by which configurations know it.
    pub diff_id: String,
}

/// Makes the layer: `canoe`, and v1's name for it.
pub fn of(binary: &Path) -> Result<ImageLayer, ImageError> {
    let failed = |source| ImageError::File {
        action: "read",
        path: binary.to_owned(),
        source,
    };
    let size = fs::metadata(binary).map_err(failed)?.len();
    let mut tar = Builder::new(Vec::new());
    let mut program = header(EntryType::Regular, 0o755, size);
    let file = File::open(binary).map_err(failed)?;
    tar.append_data(&mut program, format!("{FOLDER}/canoe"), file)
        .map_err(failed)?;
    let mut link = header(EntryType::Symlink, 0o777, 0);
    tar.append_link(&mut link, format!("{FOLDER}/paddle"), "canoe")
        .map_err(failed)?;
    let tar = tar.into_inner().map_err(failed)?;
    let mut packed = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::new(6));
    packed.write_all(&tar).map_err(failed)?;
    let bytes = packed.finish().map_err(failed)?;
    Ok(ImageLayer {
        digest: digest::of(&bytes),
        diff_id: digest::of(&tar),
        bytes,
    })
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn the_same_binary_gives_the_same_layer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, b"program").unwrap();
        let layer = of(&path).unwrap();
        assert_eq!(layer.digest, of(&path).unwrap().digest);
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(layer.bytes.as_slice()));
        let names: Vec<(String, u32)> = tar
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let mut text = String::new();
                entry.read_to_string(&mut text).unwrap();
                let path = entry.path().unwrap().display().to_string();
                (path, entry.header().mode().unwrap())
            })
            .collect();
        assert_eq!(
            names,
            [
                ("usr/local/bin/canoe".to_owned(), 0o755),
                ("usr/local/bin/paddle".to_owned(), 0o777)
            ]
        );
        assert!(of(&folder.path().join("none")).is_err());
    }
}
