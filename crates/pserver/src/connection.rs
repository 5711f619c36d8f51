//! A connection of a trainer, from its first byte to its last; runs on a thread of its own.

use crate::data;
use crate::host::{Host, chain};
use crate::saving;
use crate::server::Level;
use crate::service::invalid;
use std::sync::Arc;
use wire::channel::{Channel, ChannelError};
use wire::frame::{FrameError, Kind};
use wire::handshake::{challenge, refuse, welcome};
use wire::message::{Code, Command, Heartbeat, Hello, Refusal, Role};
use wire::stream::{Stopper, Stream};
use wire::{Epoch, TrainerId};

/// Serves a connection on port number `port` (0..) of the server until it ends.
pub(crate) fn serve(host: &Arc<Host>, port: usize, stream: Stream) {
    let peer = stream.peer();
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
    let mut channel = Channel::new(stream);
    let number = host.connection_number();
    host.register(number, stopper, false);
    let ended = greet(host, port, number, &mut channel);
    host.unregister(number);
    match ended {
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

fn greet(
    host: &Arc<Host>,
    port: usize,
    number: u64,
    channel: &mut Channel,
) -> Result<(), ChannelError> {
    let (nonce, hello) = match challenge(channel, &host.config.token) {
        Ok(greeting) => greeting,
        Err(error) => {
            if let ChannelError::Frame { source, .. } = &error {
                refuse(
                    channel,
                    &Refusal {
                        code: Code::Invalid,
                        text: source.to_string(),
                    },
                );
            }
            return Err(error);
        }
    };
    channel.name_peer(format!("trainer {} at {}", hello.trainer, channel.peer()));
    let admitted = match hello.role {
        Role::Pulse => join(host, &hello, number),
        Role::Command => check_ports(host, &hello)
            .and_then(|()| host.members().command(&hello))
            .map(|()| None),
        Role::Data => attach(host, &hello, number, channel).map(Some),
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
    welcome(channel, &host.config.token, &nonce, &hello, host.report())?;
    // Liveness is the business of heartbeats from here on.
    channel
        .stream()
        .set_read_timeout(None)
        .map_err(|source| io(channel, source))?;
    match (hello.role, run) {
        (Role::Data, Some(run)) => data::serve(host, &run, port, hello.trainer.index(), channel),
        (Role::Command, _) => commands(host, &hello, channel),
        _ => {
            let ended = pulse(host, hello.trainer, number, channel);
            let effect = host.members().lost(hello.trainer, number);
            host.after(effect);
            ended
        }
    }
}

fn io(channel: &Channel, source: std::io::Error) -> ChannelError {
    ChannelError::Io {
        peer: channel.peer().to_owned(),
        source,
    }
}

fn check_ports(host: &Host, hello: &Hello) -> Result<(), Refusal> {
    let (ours, theirs) = (&host.config, &hello.topology);
    if (ours.ports, ours.sparse_ports) == (theirs.ports, theirs.sparse_ports)
        && hello.server < theirs.servers
    {
        return Ok(());
    }
    Err(Refusal {
        code: Code::Mismatch,
        text: format!(
            "trainer {} has ports_num={} and ports_num_for_sparse={}, this server {} and {}",
            hello.trainer, theirs.ports, theirs.sparse_ports, ours.ports, ours.sparse_ports
        ),
    })
}

fn join(host: &Host, hello: &Hello, number: u64) -> Result<Option<Arc<crate::run::Run>>, Refusal> {
    check_ports(host, hello)?;
    let effect = host.members().join(hello, number, host.now())?;
    host.after(effect);
    Ok(None)
}

fn attach(
    host: &Host,
    hello: &Hello,
    number: u64,
    channel: &Channel,
) -> Result<Arc<crate::run::Run>, Refusal> {
    check_ports(host, hello)?;
    let stopper: Stopper = channel.stream().stopper().map_err(|cause| Refusal {
        code: Code::Interrupted,
        text: cause.to_string(),
    })?;
    host.attach(hello, number, stopper)
}

fn pulse(
    host: &Host,
    trainer: TrainerId,
    number: u64,
    channel: &mut Channel,
) -> Result<(), ChannelError> {
    loop {
        let beat: Heartbeat = channel.expect(Kind::Heartbeat)?;
        let heard = host.members().beat(trainer, number, beat.at, host.now());
        let effect = match heard {
            Ok(effect) => effect,
            Err(refusal) => {
                refuse(channel, &refusal);
                return Ok(());
            }
        };
        host.after(effect);
        host.set_status(trainer, beat.status);
        if trainer == TrainerId(0) && beat.at != Epoch(0) {
            host.set_stable(beat.stable);
        }
        channel.send(Kind::Report, &host.report())?;
    }
}

fn commands(host: &Arc<Host>, hello: &Hello, channel: &mut Channel) -> Result<(), ChannelError> {
    loop {
        let command: Command = channel.expect(Kind::Command)?;
        let done = match command {
            Command::Open {
                epoch,
                spec,
                start,
                initial,
            } => {
                let fill = |run: &crate::run::Run| receive_initial(channel, run, &initial);
                host.open(hello.trainer, (epoch, start), *spec, fill)
            }
            Command::Save { directory, what } => saving::save(host, directory.as_ref(), what),
            Command::Load { directory } => saving::load(host, directory.as_ref()),
            Command::Fail { reason } => {
                let effect = host
                    .members()
                    .fail(&format!("trainer {}: {reason}", hello.trainer));
                host.after(effect);
                Ok(())
            }
            Command::Leave => host.leave(hello.trainer, hello.epoch),
        };
        match done {
            Ok(()) => channel.send(Kind::Report, &host.report())?,
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

/// Receives the values that trainer 0 brings: one frame for each port of an announced dense table, or rows.
fn receive_initial(
    channel: &mut Channel,
    run: &crate::run::Run,
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
            let (head, hot) = channel
                .expect_hot(Kind::Initial)
                .map_err(|error| invalid(chain(&error)))?;
            let piece = run.services[port].pieces().get(table.index());
            let len = match piece {
                Some(crate::service::Piece::Dense(piece)) => piece.len(),
                _ => return Err(invalid(format!("table {table} takes no initial values"))),
            };
            if hot.table != *table || head.payload != (len * head.encoding.bytes()) as u64 {
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

/// Receives the rows of a sparse table that trainer 0 brings, until a frame without rows.
fn receive_initial_rows(
    channel: &mut Channel,
    run: &crate::run::Run,
    table: wire::TableId,
) -> Result<(), Refusal> {
    let broken = |error: ChannelError| invalid(chain(&error));
    let unfit = || invalid(format!("initial rows of table {table} do not fit"));
    let cols = run.tables[table.index()].cols();
    let (mut ids, mut values) = (Vec::new(), Vec::new());
    loop {
        let (head, hot) = channel.expect_hot(Kind::Initial).map_err(broken)?;
        let count = hot.count as usize;
        let bytes = 4 + cols * head.encoding.bytes();
        if hot.table != table || head.payload != (count * bytes) as u64 || hot.count > INITIAL_ROWS
        {
            return Err(unfit());
        }
        if count == 0 {
            return Ok(());
        }
        let service = run.services.get(hot.value as usize).ok_or_else(unfit)?;
        let Some(crate::service::Piece::Sparse(piece)) = service.pieces().get(table.index()) else {
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

/// The error for a frame that a data connection must not carry.
pub(crate) fn unexpected(channel: &Channel, got: Kind) -> ChannelError {
    channel.violation(FrameError::Unexpected {
        got,
        wanted: "a push, pull, finish or reduce",
    })
}
