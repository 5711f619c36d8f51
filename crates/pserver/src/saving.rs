//! Saves and loads at the request of trainer 0, in addition to the model that trainer 0 writes.
//!
//! - Rows: sparse tables that do not fit into a trainer (`--loadsave_parameters_in_pserver`). One file `pserver.NNNN`
//!   per service, NNNN is its number. As in v1 only values are kept: optimizer state starts from zero after a load.
//! - State: everything, so that another job continues exactly. A snapshot of its own in the directory that is named.
//!
//! The format is that of snapshots, so that a different number of servers can load what was saved.

use crate::host::Host;
use crate::run::{GenerationRun, OpenError, ServerIndex};
use crate::service::TablePiece;
use crate::snapshot::file::{StoreError, open_file, read_file, write_file};
use crate::snapshot::format::{FormatError, Section, SnapshotHeader, SnapshotPartReader};
use crate::snapshot::manifest::{FORMAT, PartKind, SnapshotManifest};
use crate::snapshot::writer::write_blocks;
use crate::snapshot::{Flush, SnapshotOwner, SnapshotStore};
use optim::ParameterProgress;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::message::{Code, Refusal, Saved};
use wire::recovery::Boundary;
use wire::spec::Origin;
use wire::{Generation, JobSpec};
use words::causes::chain;

/// The name of the job in saved state: any job with the same tables may continue from it.
const ANY_JOB: &str = "saved";

/// Writes this server's part into a directory that exists.
pub(crate) fn save(host: &Host, directory: &Path, what: Saved) -> Result<(), Refusal> {
    let run = present(host)?;
    if !run.holds() {
        return Ok(());
    }
    // If the server created it, it could be a local directory that the trainer does not see.
    if !directory.is_dir() {
        let text = format!(
            "there is no directory {}; trainers and servers must share it",
            directory.display()
        );
        return Err(Refusal {
            code: Code::Invalid,
            text,
        });
    }
    match what {
        Saved::Rows => save_rows(&run, directory),
        Saved::State => save_state(&run, directory).map_err(|error| match is_lasting(&error) {
            true => Refusal {
                code: Code::Invalid,
                text: chain(&error),
            },
            false => unable(error),
        }),
    }
}

/// Whether another attempt must fail too, such as in a directory that this server may read but not write.
fn is_lasting(error: &StoreError) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error, StoreError::Disk { source, .. } if matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem))
}

/// Writes values, state and scalars of all tables. The tables must not change meanwhile.
fn save_state(run: &GenerationRun, directory: &Path) -> Result<(), StoreError> {
    let store = SnapshotStore::new(directory.to_owned());
    let first = run.services.first();
    let (step, pass) = first.map_or((wire::Step(0), 0), |service| {
        let boundary = service.saved(&run.tables).boundary;
        (boundary.step, boundary.pass)
    });
    // Another job may have another number of trainers.
    let boundary = Boundary {
        step,
        pass,
        batches: Vec::new(),
    };
    let mut files = Vec::new();
    for (port, service) in run.services.iter().enumerate() {
        let progress = service.saved(&run.tables).progress;
        let header = saved_header(run, boundary.clone(), port, progress);
        let server = run.place.server;
        let part = store.write_part(boundary.step, server, port, &header, |writer| {
            for (table, piece) in service.pieces().iter().enumerate() {
                match piece {
                    TablePiece::Absent => {}
                    TablePiece::Dense(piece) => {
                        write_blocks(writer, table, piece.blocks(), &piece.read())?;
                    }
                    TablePiece::Sparse(piece) => piece.dump(|shard, ids, rows| {
                        writer.section(&Section::Rows {
                            table,
                            shard,
                            ids,
                            rows,
                        })
                    })?,
                }
            }
            Ok(())
        })?;
        files.push(part);
    }
    let wanted = run.wanted();
    store.write_manifest(&SnapshotManifest {
        format: FORMAT,
        job: ANY_JOB.to_owned(),
        shapes: wanted.shapes,
        epoch: Generation(0),
        boundary,
        topology: wanted.topology,
        server: wanted.server,
        holders: wanted.holders,
        map: wanted.map,
        files,
    })
}

/// The header of a part in a pass directory. The name of the run, and how many recoveries it had, would make the files
/// of two equal runs differ.
fn saved_header(
    run: &GenerationRun,
    boundary: Boundary,
    port: usize,
    progress: Vec<Option<ParameterProgress>>,
) -> SnapshotHeader {
    let mut header = run.header(boundary, port, progress);
    header.binding.job = ANY_JOB.to_owned();
    header.binding.epoch = Generation(0);
    header
}

/// Opens a job from what another job saved.
pub(crate) fn open(
    epoch: Generation,
    spec: JobSpec,
    place: ServerIndex,
    origin: &Origin,
) -> Result<GenerationRun, Refusal> {
    let failed = |error: OpenError| Refusal {
        code: Code::Invalid,
        text: chain(&error),
    };
    let run = GenerationRun::fresh(epoch, spec.clone(), place).map_err(failed)?;
    let directory = match origin {
        Origin::Rows(directory) => {
            load_rows(&run, directory.as_ref())?;
            return Ok(run);
        }
        Origin::State(directory) => Path::new(directory),
    };
    let store = SnapshotStore::new(directory.to_owned());
    let wanted = SnapshotOwner {
        job: ANY_JOB.to_owned(),
        ..run.wanted()
    };
    let listing = store.list(&wanted).map_err(unable)?;
    let Some(step) = listing.usable.last().copied() else {
        let last = listing.unusable.last().map(|(_, error)| error);
        let why = last.map(|error| format!(": {}", chain(error)));
        let text = format!(
            "{} has no complete state of this model's tables{}",
            directory.display(),
            why.unwrap_or_default()
        );
        return Err(match last {
            Some(StoreError::Disk { .. }) => refused(text),
            _ => unfit(text),
        });
    };
    let mut take = |kind, reader: &mut SnapshotPartReader<_>| run.take_part(kind, reader);
    let boundary = store.restore(step, &wanted, &mut take).map_err(unable)?;
    let boundary = Boundary {
        batches: vec![0; place.trainers as usize],
        ..boundary
    };
    GenerationRun::resumed(epoch, &run, spec, &boundary).map_err(failed)
}

fn save_rows(run: &GenerationRun, directory: &Path) -> Result<(), Refusal> {
    for (port, service) in run.services.iter().enumerate() {
        let Some(number) = run
            .place
            .topology
            .sparse_service_at(run.place.server, port as u32)
        else {
            continue;
        };
        let saved = service.saved(&run.tables);
        let header = saved_header(run, saved.boundary, port, saved.progress);
        let path = directory.join(format!("pserver.{number:04}"));
        write_file(&path, &Flush::default(), &header, |writer| {
            for (table, piece) in service.pieces().iter().enumerate() {
                let TablePiece::Sparse(piece) = piece else {
                    continue;
                };
                piece.dump(|shard, ids, rows| {
                    writer.section(&Section::Rows {
                        table,
                        shard,
                        ids,
                        rows,
                    })
                })?;
            }
            Ok(())
        })
        .map_err(unable)?;
    }
    Ok(())
}

/// Takes this server's rows from those saved in a directory. All files are checked first.
fn load_rows(run: &GenerationRun, directory: &Path) -> Result<(), Refusal> {
    let files = files(directory)
        .map_err(|cause| refused(format!("list {}: {cause}", directory.display())))?;
    if files.is_empty() {
        return Err(unfit(format!(
            "no pserver.NNNN file in {}",
            directory.display()
        )));
    }
    let first = open_file(&files[0])
        .map_err(unable)?
        .header()
        .binding
        .clone();
    for (number, path) in files.iter().enumerate() {
        let part = format!("pserver.{number:04}");
        if !path.ends_with(&part) {
            return Err(lacks(directory, &part));
        }
        let binding = open_file(path).map_err(unable)?.header().binding.clone();
        if let Some(reason) = binding.stray_rows(&first, number as u32) {
            return Err(unfit(format!(
                "{} cannot be used: {reason}",
                path.display()
            )));
        }
        let mut whole = true;
        read_file(path, &mut |reader| {
            each(run, reader, |_, shard, _, _| {
                // Shard s was on service s mod services.
                whole &= shard as usize % files.len() == number;
                Ok(())
            })
        })
        .map_err(unable)?;
        if !whole {
            let part = format!("pserver.{:04} or later ones", files.len());
            return Err(lacks(directory, &part));
        }
    }
    for path in &files {
        read_file(path, &mut |reader| {
            each(run, reader, |table, shard, ids, rows| {
                restore(run, table, shard, ids, rows)
            })
        })
        .map_err(unable)?;
    }
    Ok(())
}

fn each<R: Read>(
    run: &GenerationRun,
    reader: &mut SnapshotPartReader<R>,
    mut with: impl FnMut(usize, u32, &[u32], &[f32]) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    run.check_header(reader.header())?;
    while let Some(section) = reader.next_section()? {
        if let Section::Rows {
            table,
            shard,
            ids,
            rows,
        } = section
        {
            with(table, shard, ids, rows)?;
        }
    }
    Ok(())
}

fn restore(
    run: &GenerationRun,
    table: usize,
    shard: u32,
    ids: &[u32],
    rows: &[f32],
) -> Result<(), FormatError> {
    let cols = run.tables[table].cols();
    for piece in run.sparse_pieces(table).filter(|piece| piece.holds(shard)) {
        let mut plain = rows.to_vec();
        plain.chunks_exact_mut(piece.stride()).for_each(|row| {
            row[0] = 0.0;
            row[1 + cols..].fill(0.0);
        });
        piece
            .restore(PartKind::Own, shard, ids, &plain)
            .map_err(FormatError::Impossible)?;
    }
    Ok(())
}

fn files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name
            .strip_prefix("pserver.")
            .is_some_and(|number| number.len() == 4 && number.bytes().all(|b| b.is_ascii_digit()))
        {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The refusal of a directory without the files of one server, whose rows would silently start from initial values.
fn lacks(directory: &Path, part: &str) -> Refusal {
    unfit(format!(
        "{} lacks {part}: the files of all servers that saved are needed",
        directory.display()
    ))
}

fn present(host: &Host) -> Result<Arc<GenerationRun>, Refusal> {
    host.run()
        .ok_or_else(|| refused("no job is open".to_owned()))
}

fn unable(error: StoreError) -> Refusal {
    refused(chain(&error))
}

/// The refusal of files that do not fit the job: another attempt would find the same.
fn unfit(text: String) -> Refusal {
    Refusal {
        code: Code::Mismatch,
        text,
    }
}

fn refused(text: String) -> Refusal {
    Refusal {
        code: Code::Unable,
        text,
    }
}
