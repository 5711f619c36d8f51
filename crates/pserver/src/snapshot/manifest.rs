//! The manifest of a server's part of a snapshot: written last, it says which files belong to it, and proves them.

use super::file::{StoreError, disk, format, open_file};
use super::format::{FormatError, SnapshotPartReader};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use wire::binding::Binding;
use wire::recovery::Boundary;
use wire::{Generation, Topology};

/// The format of manifests, and of the parts that they name.
pub const FORMAT: u32 = 2;

/// What a server's part of a snapshot consists of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotManifest {
    /// [`FORMAT`].
    pub format: u32,
    /// The run of the job.
    pub job: String,
    /// Hash of the tables' names and shapes.
    pub shapes: u64,
    /// The epoch in which it was taken.
    pub epoch: Generation,
    /// Where the job stood.
    pub boundary: Boundary,
    /// The servers of that time.
    pub topology: Topology,
    /// Which of them wrote this.
    pub server: u32,
    /// The files, one for each port.
    pub files: Vec<PartFile>,
}

/// A file of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartFile {
    /// Its name in the step's directory.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// The checksum over its checksums.
    pub fingerprint: u32,
}

/// The name of a server's manifest.
pub(super) fn manifest_name(server: u32) -> String {
    format!("server-{server:04}.json")
}

/// The name of a part.
pub(super) fn part_name(server: u32, port: usize) -> String {
    format!("server-{server:04}.port-{port:02}.part")
}

/// Reads the manifest of a server; none if there is none.
pub(super) fn read(directory: &Path, server: u32) -> Result<Option<SnapshotManifest>, StoreError> {
    /// What manifests of all formats have; the first one did not name itself.
    #[derive(Deserialize)]
    struct Front {
        format: Option<u32>,
    }
    let path = directory.join(manifest_name(server));
    let text = match fs::read(&path) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(disk("read", &path))?,
    };
    let damaged = |cause| format(&path)(FormatError::Header(cause));
    let front: Front = serde_json::from_slice(&text).map_err(damaged)?;
    match front.format {
        Some(FORMAT) => {}
        other => return Err(format(&path)(FormatError::Version(other.unwrap_or(1)))),
    }
    let manifest: SnapshotManifest = serde_json::from_slice(&text).map_err(damaged)?;
    if manifest.server != server {
        return Err(StoreError::Unfit {
            path,
            reason: format!("it is of server {}", manifest.server),
        });
    }
    manifest.check_names(&path)?;
    Ok(Some(manifest))
}

impl SnapshotManifest {
    /// What the part of a port must say about itself.
    pub fn binding(&self, port: usize) -> Binding {
        Binding {
            job: self.job.clone(),
            shapes: self.shapes,
            epoch: self.epoch,
            boundary: self.boundary.clone(),
            topology: self.topology,
            server: self.server,
            port: port as u32,
        }
    }

    /// Whether another server's manifest is of the same snapshot.
    pub fn same_snapshot(&self, other: &Self) -> bool {
        self.binding(0).same_save(&other.binding(0))
    }

    /// All files are there, one for each port, under their own names.
    fn check_names(&self, path: &Path) -> Result<(), StoreError> {
        let names = self.files.iter().map(|file| &file.name);
        let ports = 0..self.topology.ports_of_server() as usize;
        if names.eq(ports
            .map(|port| part_name(self.server, port))
            .collect::<Vec<_>>()
            .iter())
        {
            return Ok(());
        }
        Err(StoreError::Unfit {
            path: path.to_owned(),
            reason: "it does not name one part for each port".to_owned(),
        })
    }

    /// Opens the part of a port, if its length and header are those of this snapshot.
    pub(super) fn open(
        &self,
        directory: &Path,
        port: usize,
    ) -> Result<SnapshotPartReader<BufReader<File>>, StoreError> {
        let file = &self.files[port];
        let path = directory.join(&file.name);
        let unfit = |reason: String| StoreError::Unfit {
            path: path.clone(),
            reason,
        };
        let length = fs::metadata(&path).map_err(disk("look at", &path))?.len();
        if length != file.bytes {
            let wanted = file.bytes;
            return Err(unfit(format!(
                "it has {length} bytes, its manifest says {wanted}"
            )));
        }
        let reader = open_file(&path)?;
        match reader.header().binding.differs(&self.binding(port)) {
            Some(reason) => Err(unfit(reason)),
            None => Ok(reader),
        }
    }

    /// Hands the part of a port over, section by section, and checks that it was the one that was written with this
    /// manifest.
    pub(super) fn take(
        &self,
        directory: &Path,
        port: usize,
        take: &mut super::file::Take<'_>,
    ) -> Result<(), StoreError> {
        let path = directory.join(&self.files[port].name);
        let mut reader = self.open(directory, port)?;
        take(&mut reader).map_err(format(&path))?;
        if reader.fingerprint() == self.files[port].fingerprint {
            return Ok(());
        }
        let reason = "its contents are not those that its manifest was written for".to_owned();
        Err(StoreError::Unfit { path, reason })
    }
}
