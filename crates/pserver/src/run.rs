//! The job in one generation: its tables and services. Created when a generation opens, replaced by the next one.

use crate::barrier::Barrier;
use crate::dense::{BlockValues, DensePiece};
use crate::service::{Service, TablePiece, TablePieces};
use crate::snapshot::format::{
    FormatError, Section, SnapshotHeader, SnapshotPartReader, SnapshotTableHeader,
};
use crate::snapshot::manifest::PartKind;
use crate::snapshot::{SnapshotOwner, SnapshotStore, StoreError};
use crate::sparse::SparsePiece;
use crate::table::{Table, TableError};
use optim::ParameterProgress;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wire::binding::Binding;
use wire::recovery::Boundary;
use wire::shard::Block;
use wire::shared::{SharedRegion, layout};
use wire::{Generation, JobSpec, Mode, ShardMap, Step, TableId, Topology};

/// Which server of which topology this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerIndex {
    /// Index of the server, from 0.
    pub server: u32,
    /// Servers and ports of the job.
    pub topology: Topology,
    /// Trainers of the job.
    pub trainers: u32,
}

/// The job in one generation.
#[derive(Debug)]
pub(crate) struct GenerationRun {
    /// Number of the generation.
    pub epoch: Generation,
    /// As trainer 0 sent it.
    pub spec: JobSpec,
    /// The tables, with their rules parsed.
    pub tables: Vec<Table>,
    /// Which of the servers this is.
    pub place: ServerIndex,
    /// Which servers hold what.
    pub map: ShardMap,
    /// The step at which this generation began.
    pub begun: Step,
    /// One per port.
    pub services: Vec<Arc<Service>>,
}

/// Why a generation cannot begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// A table's description is not valid.
    #[error("create tables")]
    Table(#[source] TableError),
    /// The snapshot cannot be restored.
    #[error("restore the snapshot of step {step}")]
    Restore {
        step: Step,
        #[source]
        source: StoreError,
    },
    /// The job's description is not valid.
    #[error("{0}")]
    Spec(String),
}

impl GenerationRun {
    /// A run from the initial values.
    pub(crate) fn fresh(
        epoch: Generation,
        spec: JobSpec,
        place: ServerIndex,
    ) -> Result<Self, OpenError> {
        let boundary = Boundary {
            step: Step(0),
            pass: spec.first_pass,
            batches: vec![0; place.trainers as usize],
        };
        Self::at(epoch, spec, place, &boundary)
    }

    /// A run of a server that holds nothing, while the others are at `step`.
    pub(crate) fn without_tables(
        epoch: Generation,
        spec: JobSpec,
        place: ServerIndex,
        step: Step,
    ) -> Result<Self, OpenError> {
        let boundary = Boundary {
            step,
            pass: spec.first_pass,
            batches: vec![0; place.trainers as usize],
        };
        Self::at(epoch, spec, place, &boundary)
    }

    /// A run from the initial values, at any boundary.
    fn at(
        epoch: Generation,
        spec: JobSpec,
        place: ServerIndex,
        boundary: &Boundary,
    ) -> Result<Self, OpenError> {
        let shared = spec.mode == Mode::Sync;
        let run = Self::build(epoch, spec, place, boundary, |tables, map, port| {
            new_pieces(tables, &place, map, port, shared)
        })?;
        for service in &run.services {
            for (table, piece) in run.tables.iter().zip(service.pieces()) {
                piece.change_progress(|p| table.rule.start_pass(p, boundary.pass));
            }
        }
        Ok(run)
    }

    /// A run that continues with the pieces of the last one, which was at `boundary`.
    pub(crate) fn resumed(
        epoch: Generation,
        old: &GenerationRun,
        spec: JobSpec,
        boundary: &Boundary,
    ) -> Result<Self, OpenError> {
        Self::build(epoch, spec, old.place, boundary, |_, _, port| {
            old.services[port as usize].same_pieces()
        })
    }

    /// A run from a snapshot.
    pub(crate) fn restored(
        epoch: Generation,
        spec: JobSpec,
        place: ServerIndex,
        store: &SnapshotStore,
        step: Step,
    ) -> Result<Self, OpenError> {
        let fresh = Self::fresh(epoch, spec.clone(), place)?;
        let failed = |source| OpenError::Restore { step, source };
        let mut take = |kind, reader: &mut SnapshotPartReader<_>| fresh.take_part(kind, reader);
        let boundary = store
            .restore(step, &fresh.wanted(), &mut take)
            .map_err(failed)?;
        if boundary.batches.len() != place.trainers as usize {
            let text = format!(
                "the snapshot was taken with {} trainers, the job has {}",
                boundary.batches.len(),
                place.trainers
            );
            return Err(OpenError::Spec(text));
        }
        Self::resumed(epoch, &fresh, spec, &boundary)
    }

    fn build(
        epoch: Generation,
        spec: JobSpec,
        place: ServerIndex,
        boundary: &Boundary,
        pieces: impl Fn(&[Table], &ShardMap, u32) -> TablePieces,
    ) -> Result<Self, OpenError> {
        spec.check().map_err(OpenError::Spec)?;
        let tables: Vec<Table> = spec
            .tables
            .iter()
            .map(Table::new)
            .collect::<Result<_, _>>()
            .map_err(OpenError::Table)?;
        let map = ShardMap::new(&spec.tables, &place.topology, place.trainers);
        let services = (0..place.topology.ports_of_server()).map(|port| {
            let barrier = Barrier::new(spec.mode, tables.len(), boundary);
            let pieces = pieces(&tables, &map, port);
            let trainers = place.trainers as usize;
            Arc::new(Service::new(port as usize, pieces, barrier, trainers))
        });
        Ok(Self {
            epoch,
            begun: boundary.step,
            services: services.collect(),
            spec,
            tables,
            place,
            map,
        })
    }

    /// Whether this server holds something, and so takes part in steps.
    pub(crate) fn holds(&self) -> bool {
        self.map.holds(self.place.server)
    }

    /// The boundary of the server: only if all its services are at the same one.
    pub(crate) fn boundary(&self) -> Option<Boundary> {
        let first = self.services.first()?.boundary()?;
        let same = self
            .services
            .iter()
            .all(|service| service.boundary().as_ref() == Some(&first));
        same.then_some(first)
    }

    /// Describes the snapshots that this run can use.
    pub(crate) fn wanted(&self) -> SnapshotOwner {
        SnapshotOwner {
            job: self.spec.job.clone(),
            shapes: self.spec.shapes() >> 11,
            topology: self.place.topology,
            server: self.place.server,
            holders: self.map.holders(),
            map: self.map.fingerprint(),
        }
    }

    /// The header of the part of a port.
    pub(crate) fn header(
        &self,
        boundary: Boundary,
        port: usize,
        progress: Vec<Option<ParameterProgress>>,
    ) -> SnapshotHeader {
        let tables =
            self.tables
                .iter()
                .zip(progress)
                .map(|(table, progress)| SnapshotTableHeader {
                    name: table.spec.name.clone(),
                    cols: table.spec.cols,
                    slots: table.slots as u32,
                    progress,
                });
        let wanted = self.wanted();
        SnapshotHeader {
            binding: Binding {
                job: wanted.job,
                shapes: wanted.shapes,
                epoch: self.epoch,
                boundary,
                topology: wanted.topology,
                server: wanted.server,
                port: port as u32,
            },
            tables: tables.collect(),
        }
    }

    /// The trainers that the server waits for, as a sentence; empty if it waits for none.
    pub(crate) fn waits_for(&self) -> String {
        for service in &self.services {
            let status = service.status();
            if !status.waits_for.is_empty() {
                let list: Vec<String> = status.waits_for.iter().map(ToString::to_string).collect();
                return format!("step {} waits for trainer {}", status.step, list.join(", "));
            }
        }
        String::new()
    }

    /// Wakes every waiting request with an error.
    pub(crate) fn end(&self, reason: &str) {
        self.services.iter().for_each(|service| service.end(reason));
    }

    /// Sets the values that trainer 0 sent for the blocks of a dense table on a port.
    pub(crate) fn set_initial(
        &self,
        table: TableId,
        port: usize,
        values: &[f32],
    ) -> Result<(), String> {
        match self
            .services
            .get(port)
            .and_then(|service| service.pieces().get(table.index()))
        {
            Some(TablePiece::Dense(piece)) if piece.len() == values.len() => {
                piece.change(|data| data.values.copy_from_slice(values));
                Ok(())
            }
            _ => Err(format!("initial values of table {table} do not fit")),
        }
    }

    /// Copies the blocks and rows that this server holds from a part of a snapshot.
    pub(crate) fn take_part<R: Read>(
        &self,
        kind: PartKind,
        reader: &mut SnapshotPartReader<R>,
    ) -> Result<(), FormatError> {
        self.check_header(reader.header())?;
        let progress: Vec<Option<ParameterProgress>> = reader
            .header()
            .tables
            .iter()
            .map(|table| table.progress.clone())
            .collect();
        while let Some(section) = reader.next_section()? {
            match section {
                // Dense blocks of a base are older than those of the part beside it, which has all of them.
                Section::Block { .. } if kind == PartKind::Base => {}
                Section::Block {
                    table,
                    index,
                    values,
                    state,
                } => self.take_block(table, index, values, state)?,
                Section::Rows {
                    table,
                    shard,
                    ids,
                    rows,
                } => {
                    for piece in self.sparse_pieces(table).filter(|piece| piece.holds(shard)) {
                        piece
                            .restore(kind, shard, ids, rows)
                            .map_err(FormatError::Impossible)?;
                    }
                }
            }
        }
        if kind == PartKind::Base {
            return Ok(());
        }
        for service in &self.services {
            for (piece, progress) in service.pieces().iter().zip(&progress) {
                if let Some(progress) = progress {
                    piece.change_progress(|own| *own = progress.clone());
                }
            }
        }
        Ok(())
    }

    /// Rejects a file of another model.
    pub(crate) fn check_header(&self, header: &SnapshotHeader) -> Result<(), FormatError> {
        let same = header.tables.len() == self.tables.len()
            && header
                .tables
                .iter()
                .zip(&self.tables)
                .all(|(saved, table)| {
                    saved.name == table.spec.name
                        && saved.cols == table.spec.cols
                        && saved.slots as usize == table.slots
                });
        if same {
            return Ok(());
        }
        let text = "its tables belong to another model or another learning method".to_owned();
        Err(FormatError::Impossible(text))
    }

    /// The pieces of a sparse table on all ports.
    pub(crate) fn sparse_pieces(&self, table: usize) -> impl Iterator<Item = &Arc<SparsePiece>> {
        self.services
            .iter()
            .filter_map(move |service| match service.pieces().get(table) {
                Some(TablePiece::Sparse(piece)) => Some(piece),
                _ => None,
            })
    }

    fn take_block(
        &self,
        table: usize,
        index: u64,
        values: &[f32],
        state: &[f32],
    ) -> Result<(), FormatError> {
        let slots = self.tables[table].slots;
        for service in &self.services {
            let TablePiece::Dense(piece) = &service.pieces()[table] else {
                continue;
            };
            let Ok(place) = piece
                .blocks()
                .binary_search_by_key(&index, |block| block.index)
            else {
                continue;
            };
            let block = piece.blocks()[place];
            // All blocks but a table's last have the same length, so offsets are multiples of the first one's.
            let at = place * piece.blocks()[0].len;
            if block.len != values.len() || state.len() != slots * values.len() {
                let text = format!(
                    "block {index} has {} values, {} belong there",
                    values.len(),
                    block.len
                );
                return Err(FormatError::Impossible(text));
            }
            piece.change(|data| {
                data.values[at..at + block.len].copy_from_slice(values);
                data.state[at * slots..(at + block.len) * slots].copy_from_slice(state);
            });
        }
        Ok(())
    }
}

/// The pieces of a port, with initial values. Values of dense tables are in memory that trainers on this host can
/// read, if `shared` and the system allow it.
fn new_pieces(
    tables: &[Table],
    place: &ServerIndex,
    map: &ShardMap,
    port: u32,
    shared: bool,
) -> TablePieces {
    let service = place.topology.dense_service_at(place.server, port);
    // None for a sparse table and on a port for sparse tables.
    let dense = |(at, table): (usize, &Table)| {
        let service = service.filter(|_| !table.spec.sparse)?;
        Some(map.blocks(at, &table.spec, service).collect())
    };
    let blocks: Vec<Option<Vec<Block>>> = tables.iter().enumerate().map(dense).collect();
    let len = |blocks: &Option<Vec<Block>>| blocks.iter().flatten().map(|block| block.len).sum();
    let lens: Vec<usize> = blocks.iter().map(len).collect();
    let memory = if shared { shared_values(&lens) } else { None };
    let memory = memory.unwrap_or_else(|| own_values(&lens));
    let parts = tables.iter().zip(blocks).zip(memory.values);
    let all = parts.map(|((table, blocks), values)| match blocks {
        Some(blocks) => TablePiece::Dense(Arc::new(DensePiece::new(table, blocks, values))),
        None => sparse_piece(table, place, port),
    });
    TablePieces {
        all: all.collect(),
        values: memory.descriptor.map(Arc::new),
    }
}

/// Memory for the dense pieces of a port.
struct BlockMemory {
    /// The descriptor with which a trainer on this host maps the memory.
    descriptor: Option<OwnedFd>,
    values: Vec<BlockValues>,
}

fn own_values(lens: &[usize]) -> BlockMemory {
    let values = lens.iter().map(|len| BlockValues::Own(vec![0.0; *len]));
    BlockMemory {
        descriptor: None,
        values: values.collect(),
    }
}

/// `None` where the system has no shared memory.
fn shared_values(lens: &[usize]) -> Option<BlockMemory> {
    let len = layout(lens.iter().copied()).len;
    let region = SharedRegion::create(len).and_then(|region| region.divide(lens));
    let region = region.ok()?;
    let values = region.parts.into_iter().map(BlockValues::Shared);
    Some(BlockMemory {
        descriptor: Some(region.descriptor),
        values: values.collect(),
    })
}

fn sparse_piece(table: &Table, place: &ServerIndex, port: u32) -> TablePiece {
    let topology = &place.topology;
    let service = topology.sparse_service_at(place.server, port);
    match service.filter(|_| table.spec.sparse) {
        Some(service) => TablePiece::Sparse(Arc::new(SparsePiece::new(
            table,
            service,
            topology.sparse_services(),
        ))),
        None => TablePiece::Absent,
    }
}
