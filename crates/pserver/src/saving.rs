//! Saves and loads sparse tables that no trainer could hold (`--loadsave_parameters_in_pserver`).
//!
//! A file `pserver.NNNN` for each service, NNNN its number; the format is that of snapshots, so that another
//! number of servers can load them. As in v1 only values count: optimizer state starts anew after a load.

use crate::host::{Host, chain};
use crate::run::Run;
use crate::service::Piece;
use crate::snapshot::format::{FormatError, PartReader, Section};
use crate::snapshot::store::{StoreError, read_file, write_file};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::message::{Code, Refusal};
use wire::recovery::Boundary;

/// Writes this server's rows of all sparse tables.
pub(crate) fn save(host: &Host, directory: &Path) -> Result<(), Refusal> {
    let run = present(host)?;
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
    let run = present(host)?;
    let files = files(directory)
        .map_err(|cause| refused(format!("list {}: {cause}", directory.display())))?;
    if files.is_empty() {
        return Err(refused(format!(
            "no pserver.NNNN file in {}",
            directory.display()
        )));
    }
    for path in &files {
        read_file(path, &mut |reader| each(&run, reader, |_, _, _, _| Ok(()))).map_err(unable)?;
    }
    (0..run.tables.len())
        .for_each(|table| run.sparse_pieces(table).for_each(|piece| piece.clear()));
    for path in &files {
        read_file(path, &mut |reader| {
            each(&run, reader, |table, shard, ids, rows| {
                restore(&run, table, shard, ids, rows)
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
