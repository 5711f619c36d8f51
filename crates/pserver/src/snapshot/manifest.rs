//! The manifest of a server's part of a snapshot: written last, it names the files of the part, with their checksums.
//!
//! A part may hold only those rows that changed since an earlier snapshot. Then the part of that snapshot, the base, is
//! in the same directory under a second name (a hard link). So each directory is complete by itself, and can be deleted,
//! moved and checked without any other.

use super::file::{OpenPart, StoreError, disk, format, open_file};
use super::format::FormatError;
use super::store::SnapshotOwner;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use wire::binding::Binding;
use wire::recovery::Boundary;
use wire::{Generation, Topology};

/// The format of manifests, and of the parts that they name.
pub(crate) const FORMAT: u32 = 2;

/// What a server's part of a snapshot consists of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotManifest {
    /// A manifest of another [`FORMAT`] is not read.
    pub format: u32,
    /// The run of the job.
    pub job: String,
    /// Hash of the tables' names and shapes.
    pub shapes: u64,
    /// The generation in which it was taken.
    pub epoch: Generation,
    /// The boundary at which it was taken.
    pub boundary: Boundary,
    /// Servers and ports of the job when it was taken.
    pub topology: Topology,
    /// Which of them wrote this.
    pub server: u32,
    /// Number of servers that held tables: the first ones. 0 in files that are older than this field: all servers.
    #[serde(default)]
    pub holders: u32,
    /// Hash of the map from blocks to services.
    #[serde(default)]
    pub map: u64,
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
    /// The file with the rows that did not change, if this one has the changed rows only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Box<BaseFile>>,
}

/// The part of an earlier snapshot of the same server and port, with all rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseFile {
    /// Its name in the step's directory.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// The checksum over its checksums.
    pub fingerprint: u32,
    /// The generation in which it was taken.
    pub epoch: Generation,
    /// The boundary at which it was taken.
    pub boundary: Boundary,
}

/// Which of the files of a port is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// The one that was written with the manifest.
    Own,
    /// Its base, read after it: rows that the table has by then are newer, and stay.
    Base,
}

/// The name of a server's manifest.
pub(super) fn manifest_name(server: u32) -> String {
    format!("server-{server:04}.json")
}

/// The name of a part.
pub(super) fn part_name(server: u32, port: usize) -> String {
    format!("server-{server:04}.port-{port:02}.part")
}

/// The name of a part's base.
pub(super) fn base_name(server: u32, port: usize) -> String {
    format!("server-{server:04}.port-{port:02}.base.part")
}

/// Reads the manifest of a server; none if there is none.
pub(super) fn read(directory: &Path, server: u32) -> Result<Option<SnapshotManifest>, StoreError> {
    /// The fields that manifests of all formats have; the first format had no number.
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
            reason: format!("it belongs to server {}", manifest.server),
        });
    }
    manifest.check_names(&path)?;
    Ok(Some(manifest))
}

impl SnapshotManifest {
    /// The binding that the header of a port's part must have.
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

    /// Whether another server's manifest belongs to the same snapshot.
    pub fn same_snapshot(&self, other: &Self) -> bool {
        let same_map = (self.holders, self.map) == (other.holders, other.map);
        same_map && self.binding(0).same_save(&other.binding(0))
    }

    /// Number of servers whose manifests the complete snapshot has.
    pub fn holders(&self) -> u32 {
        match self.holders {
            0 => self.topology.servers,
            holders => holders,
        }
    }

    /// Whether a server still holds the same shards as when it wrote this: same servers, holders and map.
    pub fn lies_as(&self, wanted: &SnapshotOwner) -> bool {
        self.topology == wanted.topology && self.map == wanted.map
    }

    /// Fails unless the manifest names one file per port, under the names that belong there.
    fn check_names(&self, path: &Path) -> Result<(), StoreError> {
        let ports = self.topology.ports_of_server() as usize;
        let named = |(port, file): (usize, &PartFile)| {
            let base = file.base.as_ref().map(|base| &base.name);
            file.name == part_name(self.server, port)
                && base.is_none_or(|base| *base == base_name(self.server, port))
        };
        if self.files.len() == ports && self.files.iter().enumerate().all(named) {
            return Ok(());
        }
        Err(StoreError::Unfit {
            path: path.to_owned(),
            reason: "it does not name one part for each port".to_owned(),
        })
    }

    /// The files of a port.
    fn parts(&self, port: usize) -> impl Iterator<Item = ExpectedPart<'_>> {
        let file = &self.files[port];
        let own = ExpectedPart {
            kind: PartKind::Own,
            name: &file.name,
            bytes: file.bytes,
            fingerprint: file.fingerprint,
            binding: self.binding(port),
        };
        let base = file.base.as_ref().map(|base| {
            let binding = Binding {
                epoch: base.epoch,
                boundary: base.boundary.clone(),
                ..self.binding(port)
            };
            ExpectedPart {
                kind: PartKind::Base,
                name: &base.name,
                bytes: base.bytes,
                fingerprint: base.fingerprint,
                binding,
            }
        });
        std::iter::once(own).chain(base)
    }

    /// The names of all files.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().flat_map(|file| {
            let base = file.base.as_ref().map(|base| &*base.name);
            std::iter::once(&*file.name).chain(base)
        })
    }

    /// Whether the files of a port have the lengths and headers of this snapshot.
    pub(super) fn check(&self, directory: &Path, port: usize) -> Result<(), StoreError> {
        for part in self.parts(port) {
            open_bound(&directory.join(part.name), &part)?;
        }
        Ok(())
    }

    /// Passes the files of a port on, section by section, and then checks by their fingerprints that they were written
    /// with this manifest.
    pub(super) fn take(
        &self,
        directory: &Path,
        port: usize,
        take: &mut super::file::Take<'_>,
    ) -> Result<(), StoreError> {
        for part in self.parts(port) {
            let path = directory.join(part.name);
            let mut reader = open_bound(&path, &part)?;
            take(part.kind, &mut reader).map_err(format(&path))?;
            if reader.fingerprint() != part.fingerprint {
                let reason =
                    "its checksum is not the one in the manifest: it was written at another time"
                        .to_owned();
                return Err(StoreError::Unfit { path, reason });
            }
        }
        Ok(())
    }
}

/// A file that a manifest names, with the length and header that it must have.
struct ExpectedPart<'a> {
    kind: PartKind,
    name: &'a str,
    bytes: u64,
    fingerprint: u32,
    binding: Binding,
}

/// Opens a part and checks its length and header.
fn open_bound(path: &Path, part: &ExpectedPart<'_>) -> Result<OpenPart, StoreError> {
    let unfit = |reason: String| StoreError::Unfit {
        path: path.to_owned(),
        reason,
    };
    let length = fs::metadata(path).map_err(disk("look at", path))?.len();
    if length != part.bytes {
        return Err(unfit(format!(
            "it has {length} bytes, its manifest says {}",
            part.bytes
        )));
    }
    let reader = open_file(path)?;
    match reader.header().binding.differs(&part.binding) {
        Some(reason) => Err(unfit(reason)),
        None => Ok(reader),
    }
}
