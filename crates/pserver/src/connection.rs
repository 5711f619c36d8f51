//! A connection of a trainer, from its hello on: a thread admits it, then serves its commands, or hands it over to the
//! threads that receive heartbeats ([`crate::pulses`]) or serve data ([`crate::line_pool`]).

use crate::data::Line;
use crate::host::{Connection, DataConnection, Host};
use crate::pulses::PulseConnection;
use crate::saving;
use crate::server::Level;
use crate::service::invalid;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::channel::{Channel, ChannelError};
use wire::data::Request;
use wire::frame::{FrameKind, Head};
use wire::handshake::{refuse, welcome};
use wire::message::{Code, Command, ConnectionRole, Heartbeat, Hello, Refusal};
use wire::recovery::ServerReport;
use wire::stranger::Greeted;
use wire::{Generation, TrainerId};
use words::causes::chain;

/// Serves a member's connection on port index `port` (from 0) of the server until it ends.
pub(crate) fn serve(host: &Arc<Host>, port: usize, member: Greeted) {
    let Greeted {
        mut channel,
        nonce,
        hello,
    } = member;
    let peer = channel.peer().to_owned();
    let stream = channel.stream();
    let Ok(stopper) = stream.stopper() else {
        return;
    };
    let timed = stream
        .set_read_timeout(Some(host.config.silence))
        .and_then(|()| stream.set_write_timeout(Some(host.config.silence)));
    if timed.is_err() {
        return;
    }
    host.say(Level::Info, &format!("worker started, peer = {peer}"));
    let number = host.connection_number();
    host.register(number, Connection::new(stopper));
    if host.stopping.load(Ordering::Acquire) {
        // The server has cut all connections that it knew, and this was not yet one of them.
        host.unregister(number);
        return;
    }
    let id = ConnectionId { port, number };
    let done = match admit(host, id, &nonce, &hello, &mut channel) {
        Ok(Admitted::Ended) => Ok(()),
        Err(error) => Err(error),
        Ok(Admitted::Data(run)) => {
            let line = Line::open(host, &run, id, hello.trainer.index(), channel);
            match line.map(|line| host.lines.add(host, line)) {
                Some(Ok(())) => return,
                // The trainer sees its connection close, and tries again.
                Some(Err(_)) | None => Ok(()),
            }
        }
        Ok(Admitted::Pulse) => {
            let trainer = hello.trainer;
            let pulse = PulseConnection {
                trainer,
                number,
                channel,
            };
            let kept = match trainer {
                TrainerId(0) => Some(pulse),
                _ => host.pulses.add(pulse),
            };
            let Some(mut pulse) = kept else {
                return;
            };
            let done = pulse_alone(host, &mut pulse);
            end_pulse(host, trainer, number);
            done
        }
    };
    ended(host, number, &peer, done);
}

/// A connection has ended.
pub(crate) fn ended(host: &Host, number: u64, peer: &str, done: Result<(), ChannelError>) {
    host.unregister(number);
    match done {
        Ok(()) | Err(ChannelError::Closed { .. }) => {}
        Err(error @ (ChannelError::Frame { .. } | ChannelError::Refused { .. })) => {
            host.metrics.refused.add(1);
            host.say(Level::Warning, &chain(&error));
        }
        Err(ChannelError::Io { .. }) => {}
    }
    host.say(
        Level::Info,
        &format!("worker begin to finish, peer = {peer}"),
    );
}

/// What becomes of a connection that was admitted.
enum Admitted {
    /// A command connection: it has been served to its end.
    Ended,
    /// A pulse connection, to be handed over to [`crate::pulses`].
    Pulse,
    /// A data connection of this generation, to be handed over to [`crate::line_pool`].
    Data(Arc<crate::run::GenerationRun>),
}

/// Which connection of a server it is.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionId {
    /// Index of the port that it came to, from 0.
    pub(crate) port: usize,
    /// Its number on this server.
    pub(crate) number: u64,
}

fn admit(
    host: &Arc<Host>,
    id: ConnectionId,
    nonce: &str,
    hello: &Hello,
    channel: &mut Channel,
) -> Result<Admitted, ChannelError> {
    channel.name_peer(format!("trainer {} at {}", hello.trainer, channel.peer()));
    let admitted = match hello.role {
        ConnectionRole::Pulse => join(host, hello, id.number),
        ConnectionRole::Command => check_ports(host, hello)
            .and_then(|()| host.members().command(hello))
            .map(|()| None),
        ConnectionRole::Data => attach(host, hello, id, channel).map(Some),
    };
    let run = match admitted {
        Ok(run) => run,
        Err(refusal) => {
            refuse(channel, &refusal);
            return Err(ChannelError::Refused {
                peer: channel.peer().to_owned(),
                refusal,
            });
        }
    };
    welcome(channel, &host.config.token, nonce, hello, host.report())?;
    // Both ends begin to count bytes here: the trainer does when it has received this frame.
    channel.stream().meter().reset();
    // From here on, heartbeats detect a lost peer.
    channel
        .stream()
        .set_read_timeout(None)
        .map_err(|source| io(channel, source))?;
    match (hello.role, run) {
        (ConnectionRole::Data, Some(run)) => return Ok(Admitted::Data(run)),
        (ConnectionRole::Command, _) => commands(host, hello, channel)?,
        _ => return Ok(Admitted::Pulse),
    }
    Ok(Admitted::Ended)
}

fn io(channel: &Channel, source: std::io::Error) -> ChannelError {
    ChannelError::Io {
        peer: channel.peer().to_owned(),
        source,
    }
}

/// A trainer may know fewer sparse ports than the server has: v1's scripts for one machine start the server with one and
/// the trainer with none. The services are those of the trainers, so the other ports stay idle.
fn check_ports(host: &Host, hello: &Hello) -> Result<(), Refusal> {
    let (ours, theirs) = (&host.config, &hello.topology);
    if ours.ports == theirs.ports
        && theirs.sparse_ports <= ours.sparse_ports
        && hello.server < theirs.servers
    {
        return Ok(());
    }
    Err(Refusal {
        code: Code::Mismatch,
        text: format!(
            "trainer {} has ports_num={} and ports_num_for_sparse={}, this server {} and {}; start it with the same ports_num and at most as many ports_num_for_sparse",
            hello.trainer, theirs.ports, theirs.sparse_ports, ours.ports, ours.sparse_ports
        ),
    })
}

fn join(
    host: &Host,
    hello: &Hello,
    number: u64,
) -> Result<Option<Arc<crate::run::GenerationRun>>, Refusal> {
    check_ports(host, hello)?;
    let effect = host.members().join(hello, number, host.now())?;
    host.after(effect);
    Ok(None)
}

fn attach(
    host: &Host,
    hello: &Hello,
    id: ConnectionId,
    channel: &Channel,
) -> Result<Arc<crate::run::GenerationRun>, Refusal> {
    check_ports(host, hello)?;
    let stopper = channel.stream().stopper().map_err(|cause| Refusal {
        code: Code::Interrupted,
        text: cause.to_string(),
    })?;
    let line = Connection {
        stopper,
        line: Some(DataConnection {
            trainer: hello.trainer,
            port: id.port,
            meter: channel.stream().meter().clone(),
        }),
    };
    host.attach(hello, id.number, line)
}

/// Receives the heartbeats of one trainer on a thread of its own.
fn pulse_alone(host: &Host, pulse: &mut PulseConnection) -> Result<(), ChannelError> {
    while beat(host, pulse.trainer, pulse.number, &mut pulse.channel)? {}
    Ok(())
}

/// A pulse connection has ended: the trainer is lost.
pub(crate) fn end_pulse(host: &Host, trainer: TrainerId, number: u64) {
    let effect = host.members().lost(trainer, number);
    host.after(effect);
}

/// Receives a heartbeat and replies with a report. Returns false if the connection must end.
pub(crate) fn beat(
    host: &Host,
    trainer: TrainerId,
    number: u64,
    channel: &mut Channel,
) -> Result<bool, ChannelError> {
    let beat: Heartbeat = channel.expect(FrameKind::Heartbeat)?;
    let heard = host.members().beat(trainer, number, beat.at, host.now());
    let effect = match heard {
        Ok(effect) => effect,
        Err(refusal) => {
            refuse(channel, &refusal);
            return Ok(false);
        }
    };
    host.after(effect);
    if trainer == TrainerId(0) && beat.at != Generation(0) {
        host.confirm(beat.stable, &beat.dead);
    }
    let report = ServerReport {
        lines: host.lines(trainer),
        ..host.report()
    };
    channel.send(FrameKind::Report, &report)?;
    Ok(true)
}

fn commands(host: &Arc<Host>, hello: &Hello, channel: &mut Channel) -> Result<(), ChannelError> {
    loop {
        let command: Command = channel.expect(FrameKind::Command)?;
        // Another process may have taken the seat since.
        let seated = host.members().command(hello);
        let done = seated.and_then(|()| match command {
            Command::Open {
                epoch,
                spec,
                start,
                initial,
                saved,
            } => {
                let fill =
                    |run: &crate::run::GenerationRun| receive_initial(channel, run, &initial);
                host.open(hello.trainer, epoch, start, saved, *spec, fill)
            }
            Command::Save { directory, what } => saving::save(host, directory.as_ref(), what),
            Command::Fail { reason } => {
                let effect = host
                    .members()
                    .fail(&format!("trainer {}: {reason}", hello.trainer));
                host.after(effect);
                Ok(())
            }
            Command::Leave => host.leave(hello.trainer, hello.epoch),
        });
        match done {
            Ok(()) => channel.send(FrameKind::Report, &host.report())?,
            Err(refusal) => {
                refuse(channel, &refusal);
                return Err(ChannelError::Refused {
                    peer: channel.peer().to_owned(),
                    refusal,
                });
            }
        }
    }
}

/// Rows that one frame of initial values may have.
const INITIAL_ROWS: u32 = 1 << 20;

/// The head of a frame of initial values.
struct Initial {
    head: Head,
    table: wire::TableId,
    rows: u32,
    port: u32,
}

impl Initial {
    fn receive(channel: &mut Channel) -> Result<Self, Refusal> {
        let head = channel.receive().map_err(|error| invalid(chain(&error)))?;
        let request = channel.request(&head);
        match request.map(|request| request.message) {
            Ok(Request::Initial { table, rows, port }) => Ok(Self {
                head,
                table,
                rows,
                port,
            }),
            Ok(_) => {
                let error = channel.unexpected(&head, "initial values");
                Err(invalid(chain(&error)))
            }
            Err(error) => Err(invalid(error.to_string())),
        }
    }
}

/// Receives the values that trainer 0 sends: one frame per port of an announced dense table, or rows.
fn receive_initial(
    channel: &mut Channel,
    run: &crate::run::GenerationRun,
    tables: &[wire::TableId],
) -> Result<(), Refusal> {
    let mut values = Vec::new();
    for table in tables {
        let sparse = run.tables.get(table.index()).is_some_and(|t| t.spec.sparse);
        if sparse {
            receive_initial_rows(channel, run, *table)?;
            continue;
        }
        for port in 0..run.place.topology.ports as usize {
            let initial = Initial::receive(channel)?;
            let piece = run.services[port].pieces().get(table.index());
            let len = match piece {
                Some(crate::service::TablePiece::Dense(piece)) => piece.len(),
                _ => return Err(invalid(format!("table {table} takes no initial values"))),
            };
            let head = initial.head;
            if initial.table != *table || head.payload != (len * head.encoding.bytes()) as u64 {
                return Err(invalid(format!(
                    "initial values of table {table} do not fit"
                )));
            }
            values.resize(len, 0.0);
            channel
                .read_values(head.encoding, &mut values)
                .map_err(|error| invalid(chain(&error)))?;
            run.set_initial(*table, port, &values).map_err(invalid)?;
        }
    }
    Ok(())
}

/// Receives the rows of a sparse table that trainer 0 sends, until a frame without rows.
fn receive_initial_rows(
    channel: &mut Channel,
    run: &crate::run::GenerationRun,
    table: wire::TableId,
) -> Result<(), Refusal> {
    let broken = |error: ChannelError| invalid(chain(&error));
    let unfit = || invalid(format!("initial rows of table {table} do not fit"));
    let cols = run.tables[table.index()].cols();
    let (mut ids, mut values) = (Vec::new(), Vec::new());
    loop {
        let initial = Initial::receive(channel)?;
        let (head, count) = (initial.head, initial.rows as usize);
        let bytes = 4 + cols * head.encoding.bytes();
        let fits = initial.table == table && initial.rows <= INITIAL_ROWS;
        if !fits || head.payload != (count * bytes) as u64 {
            return Err(unfit());
        }
        if count == 0 {
            return Ok(());
        }
        let service = run.services.get(initial.port as usize);
        let service = service.ok_or_else(unfit)?;
        let Some(crate::service::TablePiece::Sparse(piece)) = service.pieces().get(table.index())
        else {
            return Err(unfit());
        };
        ids.resize(count, 0_u32);
        values.resize(count * cols, 0.0);
        channel
            .read_bytes(bytemuck::cast_slice_mut(&mut ids))
            .map_err(broken)?;
        channel
            .read_values(head.encoding, &mut values)
            .map_err(broken)?;
        piece
            .set_values(&run.tables[table.index()], &ids, &values)
            .map_err(invalid)?;
    }
}
