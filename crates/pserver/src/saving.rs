//! Saves and loads on request of trainer 0, beside the model that it writes.
//!
//! - Rows: sparse tables that no trainer could hold (`--loadsave_parameters_in_pserver`). A file `pserver.NNNN` for
//!   each service, NNNN its number. As in v1 only values count: optimizer state starts anew after a load.
//! - State: everything, to go on exactly in another job. A snapshot of its own in the directory that is named.
//!
//! The format is that of snapshots, so that another number of servers can load what was saved.

use crate::host::{Host, chain};
use crate::run::{OpenError, Place, Run};
use crate::service::Piece;
use crate::snapshot::format::{FormatError, PartReader, Section};
use crate::snapshot::store::{Manifest, StoreError, read_file, write_file};
use crate::snapshot::writer::write_blocks;
use crate::snapshot::{Store, Wanted};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::message::{Code, Refusal, Saved};
use wire::recovery::Boundary;
use wire::spec::Origin;
use wire::{Epoch, JobSpec};

/// The name of the job in saved state: any job with the same tables may go on from it.
const ANY_JOB: &str = "saved";

/// Writes this server's part into a directory that exists.
pub(crate) fn save(host: &Host, directory: &Path, what: Saved) -> Result<(), Refusal> {
    let run = present(host)?;
    // Made here it would be another directory than the trainer's, on another machine.
    if !directory.is_dir() {
        return Err(refused(format!(
            "there is no directory {}; trainers and servers must share it",
            directory.display()
        )));
    }
    match what {
        Saved::Rows => save_rows(&run, directory),
        Saved::State => save_state(&run, directory).map_err(unable),
    }
}

/// Writes values, state and scalars of all tables. The tables must not change meanwhile.
fn save_state(run: &Run, directory: &Path) -> Result<(), StoreError> {
    let store = Store::new(directory.to_owned());
    let (step, pass, _) = run
        .services
        .first()
        .map_or((0, 0, Vec::new()), crate::service::Service::look);
    let boundary = Boundary {
        step: wire::Step(step),
        pass,
        batches: Vec::new(),
    };
    let mut files = Vec::new();
    for (port, service) in run.services.iter().enumerate() {
        let progress = service.pieces().iter().map(Piece::progress).collect();
        let header = run.header(boundary.clone(), progress);
        let name = (run.place.server, port);
        let part = store.write_part(boundary.step, name, &header, |writer| {
            for (table, piece) in service.pieces().iter().enumerate() {
                match piece {
                    Piece::Absent => {}
                    Piece::Dense(piece) => {
                        write_blocks(writer, table, piece.blocks(), &piece.read())?;
                    }
                    Piece::Sparse(piece) => piece.dump(|shard, ids, rows| {
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
    store.write_manifest(&Manifest {
        job: ANY_JOB.to_owned(),
        shapes: wanted.shapes,
        boundary,
        topology: wanted.topology,
        server: wanted.server,
        files,
    })
}

/// Opens a job from what another one saved.
pub(crate) fn open(
    epoch: Epoch,
    spec: JobSpec,
    place: Place,
    origin: &Origin,
) -> Result<Run, Refusal> {
    let failed = |error: OpenError| Refusal {
        code: Code::Invalid,
        text: chain(&error),
    };
    let run = Run::fresh(epoch, spec.clone(), place).map_err(failed)?;
    let directory = match origin {
        Origin::Rows(directory) => {
            load_rows(&run, directory.as_ref())?;
            return Ok(run);
        }
        Origin::State(directory) => Path::new(directory),
    };
    let store = Store::new(directory.to_owned());
    let wanted = Wanted {
        job: ANY_JOB.to_owned(),
        ..run.wanted()
    };
    let Some(step) = store.list(&wanted).pop() else {
        return Err(refused(format!(
            "{} has no complete state of this model's tables",
            directory.display()
        )));
    };
    let mut take = |reader: &mut PartReader<_>| run.take_part(reader);
    let boundary = store.restore(step, &wanted, &mut take).map_err(unable)?;
    let boundary = Boundary {
        batches: vec![0; place.trainers as usize],
        ..boundary
    };
    Run::resumed(epoch, &run, spec, &boundary).map_err(failed)
}

fn save_rows(run: &Run, directory: &Path) -> Result<(), Refusal> {
    let boundary = run.boundary().unwrap_or(Boundary {
        step: wire::Step(0),
        pass: 0,
        batches: Vec::new(),
    });
    for (port, service) in run.services.iter().enumerate() {
        let Some(number) = run
            .place
            .topology
            .sparse_service_at(run.place.server, port as u32)
        else {
            continue;
        };
        let progress = service.pieces().iter().map(Piece::progress).collect();
        let header = run.header(boundary.clone(), progress);
        let path = directory.join(format!("pserver.{number:04}"));
        write_file(&path, &header, |writer| {
            for (table, piece) in service.pieces().iter().enumerate() {
                let Piece::Sparse(piece) = piece else {
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

/// Replaces this server's rows by those saved in a directory. All files are checked first, so a bad one changes
/// nothing.
pub(crate) fn load(host: &Host, directory: &Path) -> Result<(), Refusal> {
    load_rows(&*present(host)?, directory)
}

fn load_rows(run: &Run, directory: &Path) -> Result<(), Refusal> {
    let files = files(directory)
        .map_err(|cause| refused(format!("list {}: {cause}", directory.display())))?;
    if files.is_empty() {
        return Err(refused(format!(
            "no pserver.NNNN file in {}",
            directory.display()
        )));
    }
    for (number, path) in files.iter().enumerate() {
        let part = format!("pserver.{number:04}");
        if !path.ends_with(&part) {
            return Err(lacks(directory, &part));
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
    (0..run.tables.len())
        .for_each(|table| run.sparse_pieces(table).for_each(|piece| piece.clear()));
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
    run: &Run,
    reader: &mut PartReader<R>,
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
    run: &Run,
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
            .restore(shard, ids, &plain)
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

/// Without the files of one server its rows would start anew, and nobody would know.
fn lacks(directory: &Path, part: &str) -> Refusal {
    refused(format!(
        "{} lacks {part}: the files of all servers that saved are needed",
        directory.display()
    ))
}

fn present(host: &Host) -> Result<Arc<Run>, Refusal> {
    host.run()
        .ok_or_else(|| refused("no job is open".to_owned()))
}

fn unable(error: StoreError) -> Refusal {
    refused(chain(&error))
}

fn refused(text: String) -> Refusal {
    Refusal {
        code: Code::Unable,
        text,
    }
}
