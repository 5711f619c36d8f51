//! What strangers, broken programs and wrong settings send: each gets a clear answer, and the job of the others
//! continues.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Barrier};

use std::time::Duration;
use support::authority::Authority;
use support::{Job, LOCALHOST, Model, Trainer, noise, same, table, timing, token};
use wire::auth::Token;
use wire::channel::{Channel, ChannelError};
use wire::data::{Carrier, Encoded, Reply, Request, Stamped, Ticket, View};
use wire::encoding::Encoding;
use wire::frame::{FrameKind, HEAD, Head, VERSION};
use wire::handshake::greet;
use wire::message::{Code, ConnectionRole, Hello};
use wire::shared::{RegionAccess, SharedRegion};
use wire::stream::{Dial, Stream};
use wire::{Error, Generation, Session, SessionConfig, Step, TableId, Topology, TrainerId};

/// Runs `disturb` against the first server while a job trains on it; the job must end as if nothing had happened.
fn beside_a_job(disturb: impl FnOnce(&Job, u16)) {
    let job = Job {
        passes: 1,
        ..Job::new(&[30, 30])
    };
    let cluster = job.start(None);
    let threads: Vec<_> = (0..2)
        .map(|trainer| start(&job, job.client_config(trainer, &cluster.bases)))
        .collect();
    std::thread::sleep(Duration::from_millis(30));
    disturb(&job, cluster.bases[0]);
    let models: Vec<Model> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap().unwrap())
        .collect();
    same(&models[0], &job.local());
}

fn start(job: &Job, config: SessionConfig) -> std::thread::JoinHandle<Result<Model, Error>> {
    let job = job.clone();
    std::thread::spawn(move || {
        let mut trainer = Trainer::new(job, config);
        trainer.after_batch = Box::new(|_, _| std::thread::sleep(Duration::from_millis(5)));
        trainer.train()
    })
}

/// Like `start`, but after its first batch the trainer waits twice: until all are there, and until they may continue.
fn start_held(
    job: &Job,
    config: SessionConfig,
    held: &Arc<Barrier>,
) -> std::thread::JoinHandle<Result<Model, Error>> {
    let (job, held) = (job.clone(), held.clone());
    std::thread::spawn(move || {
        let mut trainer = Trainer::new(job, config);
        let mut first = true;
        trainer.after_batch = Box::new(move |_, _| {
            if std::mem::take(&mut first) {
                held.wait();
                held.wait();
            }
        });
        trainer.train()
    })
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect((LOCALHOST, port)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(120)))
        .unwrap();
    stream
}

/// Everything the server says until it hangs up.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hello_head(body: u32, payload: u64, sequence: u32) -> Head {
    Head {
        kind: FrameKind::Hello,
        encoding: Encoding::F32,
        body,
        payload,
        sequence,
        body_crc: 0,
    }
}

#[test]
fn garbage_and_truncated_frames() {
    beside_a_job(|_, port| {
        let mut stream = connect(port);
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: somebody\r\n\r\n")
            .unwrap();
        assert!(rest(&mut stream).contains("not a canoe frame"));
        for length in [1, 5, HEAD - 1] {
            let mut stream = connect(port);
            stream
                .write_all(&hello_head(10, 0, 0).encode()[..length])
                .unwrap();
        }
        let mut stream = connect(port);
        stream.write_all(&hello_head(100, 0, 0).encode()).unwrap();
        stream.write_all(b"{").unwrap();
    });
}

#[test]
fn oversized_and_wrong_version_frames() {
    beside_a_job(|_, port| {
        let mut stream = connect(port);
        stream
            .write_all(&hello_head(u32::MAX, 0, 0).encode())
            .unwrap();
        assert!(rest(&mut stream).contains("exceeds the limit"));
        let mut stream = connect(port);
        stream
            .write_all(&hello_head(10, u64::MAX, 0).encode())
            .unwrap();
        assert!(rest(&mut stream).contains("exceeds the limit"));
        let mut old = hello_head(10, 0, 0).encode();
        old[4] = VERSION + 1;
        let mut stream = connect(port);
        stream.write_all(&old).unwrap();
        assert!(rest(&mut stream).contains("version"));
    });
}

#[test]
fn replayed_and_out_of_order_frames() {
    beside_a_job(|_, port| {
        let mut stream = connect(port);
        stream.write_all(&hello_head(0, 0, 7).encode()).unwrap();
        assert!(rest(&mut stream).contains("replayed, lost or out of order"));
    });
}

/// A bounded fuzzing run: mutations of good frames, from a fixed seed; `corpus/` holds what to start from.
#[test]
fn mutated_frames_never_end_the_server() {
    beside_a_job(|_, port| {
        let corpus: Vec<Vec<u8>> =
            std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/frames"))
                .unwrap()
                .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
                .collect();
        assert!(!corpus.is_empty());
        for round in 0..200_u64 {
            let mut bytes = corpus[(noise(&[round, 1]) % corpus.len() as u64) as usize].clone();
            for change in 0..1 + noise(&[round, 2]) % 4 {
                let at = (noise(&[round, 3, change]) % bytes.len() as u64) as usize;
                bytes[at] = noise(&[round, 4, change]) as u8;
            }
            bytes.truncate((noise(&[round, 5]) % (bytes.len() as u64 + 1)) as usize);
            let mut stream = connect(port);
            let _ = stream.write_all(&bytes);
        }
    });
}

fn connect_error(config: SessionConfig, job: &Job) -> Error {
    match Session::connect(config, job.spec()) {
        Ok(_) => panic!("it was let in"),
        Err(error) => error,
    }
}

#[test]
fn a_client_without_the_token() {
    beside_a_job(|job, port| {
        let mut config = job.client_config(1, &[port, port + 1]);
        config.token = Token::new(b"some other token").unwrap();
        let text = connect_error(config, job).to_string();
        assert!(text.contains("wrong job token"), "{text}");
    });
}

#[test]
fn contradicting_trainers() {
    let job = Job {
        servers: 1,
        passes: 1,
        ..Job::new(&[30, 30])
    };
    let cluster = job.start(None);
    // Both trainers are in the middle of the job until everything was refused.
    let held = Arc::new(Barrier::new(3));
    let threads: Vec<_> = (0..2)
        .map(|trainer| start_held(&job, job.client_config(trainer, &cluster.bases), &held))
        .collect();
    held.wait();
    let refused = |change: &dyn Fn(&mut SessionConfig, &mut Job), words: &str| {
        let mut other = job.clone();
        let mut config = job.client_config(1, &cluster.bases);
        change(&mut config, &mut other);
        let text = connect_error(config, &other).to_string();
        assert!(text.contains(words), "{text}");
    };
    refused(&|config, _| config.trainers = 3, "--num_gradient_servers");
    refused(&|config, _| config.trainer = TrainerId(2), "out of range");
    refused(
        &|_, other| {
            other
                .tables
                .push(table("more", 1, 1, false, support::adam()))
        },
        "a different model",
    );
    refused(
        &|config, _| config.servers[0].host = "localhost".to_owned(),
        "list of servers",
    );
    refused(&|config, _| config.ports = 2, "ports_num");
    // Who comes second asks again until its time is over; on a busy machine a short time is over before the first reply.
    let in_use = [300, 3_000, 30_000].into_iter().any(|millis| {
        let mut config = job.client_config(1, &cluster.bases);
        config.timing.join = Duration::from_millis(millis);
        let text = connect_error(config, &job).to_string();
        text.contains("trainer id 1 is in use")
    });
    assert!(in_use);
    held.wait();
    let models: Vec<Model> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap().unwrap())
        .collect();
    same(&models[0], &job.local());
}

#[test]
fn ports_that_cannot_be() {
    let job = Job::new(&[1]);
    let start = |change: &dyn Fn(&mut pserver::ServerConfig)| {
        let mut config = job.server_config(support::free_ports(1), None);
        change(&mut config);
        pserver::Server::start(config, support::quiet())
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    assert!(start(&|config| config.ports = 0).contains("--ports_num"));
    assert!(start(&|config| config.trainers = 0).contains("--num_gradient_servers"));
    assert!(start(&|config| (config.port, config.ports) = (65_535, 2)).contains("65535"));
    let (_server, port) = job.start_server(None);
    let text = start(&|config| config.port = port);
    assert!(
        text.contains(&port.to_string()) && text.contains("--port"),
        "{text}"
    );
}

/// A trainer that has been let in, whose data connection is in the hands of the test.
struct Rogue {
    channel: Channel,
    _pulse: Channel,
    _server: pserver::Server,
}

fn hello(job: &Job, port: u16, role: ConnectionRole, epoch: Generation) -> Hello {
    hello_of(job, 0, port, role, epoch)
}

fn hello_of(job: &Job, trainer: u32, port: u16, role: ConnectionRole, epoch: Generation) -> Hello {
    Hello {
        nonce: String::new(),
        proof: String::new(),
        role,
        trainer: TrainerId(trainer),
        instance: 5 + u64::from(trainer),
        trainers: job.batches.len() as u32,
        topology: Topology {
            servers: 1,
            ports: 1,
            sparse_ports: 0,
        },
        server: 0,
        servers_hash: u64::from(port),
        job_hash: job.spec().fingerprint() >> 11,
        job: job.name.clone(),
        shapes: job.spec().shapes() >> 11,
        holders: 1,
        map: 1,
        epoch,
    }
}

fn rogue() -> Rogue {
    rogue_over(false)
}

/// Over a unix socket, or over TCP.
fn rogue_over(local: bool) -> Rogue {
    let job = Job {
        servers: 1,
        local_sockets: local,
        ..Job::new(&[1])
    };
    let (server, port) = job.start_patient_server();
    let dial = Dial {
        timeout: Duration::from_secs(180),
        tls: None,
        local,
    };
    let line = |role, epoch| {
        let stream = Stream::connect(&LOCALHOST.to_string(), port, &dial).unwrap();
        stream.set_read_timeout(Some(dial.timeout)).unwrap();
        let mut channel = Channel::new(stream);
        greet(&mut channel, &token(), hello(&job, port, role, epoch)).unwrap();
        channel
    };
    let pulse = line(ConnectionRole::Pulse, Generation(0));
    let mut command = line(ConnectionRole::Command, Generation(0));
    let open = wire::message::Command::Open {
        epoch: Generation(1),
        spec: Box::new(job.spec()),
        start: wire::message::GenerationStart::Fresh,
        initial: Vec::new(),
        saved: None,
    };
    command.send(FrameKind::Command, &open).unwrap();
    let _: wire::recovery::ServerReport = command.expect(FrameKind::Report).unwrap();
    Rogue {
        channel: line(ConnectionRole::Data, Generation(1)),
        _pulse: pulse,
        _server: server,
    }
}

fn refusal(mut rogue: Rogue) -> (Code, String) {
    match rogue.channel.expect_reply() {
        Err(ChannelError::Refused { refusal, .. }) => (refusal.code, refusal.text),
        other => panic!("not refused: {other:?}"),
    }
}

/// A request of the first generation, as it is sent.
fn encoded(step: u64, message: Request) -> Encoded {
    in_generation(1, step, message)
}

fn in_generation(generation: u64, step: u64, message: Request) -> Encoded {
    let request = Stamped {
        generation: Generation(generation),
        step: Step(step),
        message,
    };
    request.encode()
}

fn push_dense(table: u32, blocks: u32, carrier: Carrier) -> Request {
    Request::PushDense {
        table: TableId(table),
        samples: 1,
        blocks,
        carrier,
    }
}

fn push_rows(rows: u32, ticket: Option<u64>, carrier: Carrier) -> Request {
    Request::PushRows {
        table: TableId(2),
        rows,
        samples: 1,
        ticket: ticket.map(Ticket),
        carrier,
    }
}

fn pull_rows(rows: u32) -> Request {
    Request::PullRows {
        table: TableId(2),
        rows,
        view: View::Training,
    }
}

fn dense_rows(table: u32, rows: u32) -> Request {
    Request::PullDenseRows {
        table: TableId(table),
        rows,
    }
}

fn push_share(table: u32, rows: u32, ticket: Option<u64>) -> Request {
    Request::PushDenseRows {
        table: TableId(table),
        rows,
        samples: 1,
        ticket: ticket.map(Ticket),
    }
}

fn share_rows(table: u32, rows: u32) -> Request {
    Request::ShareRows {
        table: TableId(table),
        rows,
    }
}

#[test]
fn wrong_requests_of_a_member() {
    let dense = |table, blocks, carrier| encoded(0, push_dense(table, blocks, carrier));
    let plain = |message| encoded(0, message);
    let mut no_view = plain(pull_rows(0));
    no_view.body[40] = 77;
    let finish = Request::FinishBatch {
        samples: 0,
        cost: 0.0,
        order: None,
    };
    let many = Request::Reduce {
        round: 0,
        count: u32::MAX,
    };
    let initial = Request::Initial {
        table: TableId(0),
        rows: 0,
        port: 0,
    };
    let late = in_generation(9, 0, push_dense(0, 0, Carrier::Payload));
    let (sent, placed) = (Carrier::Payload, Carrier::Memory);
    let cases: Vec<(Encoded, Vec<u8>, Code, &str)> = vec![
        (
            dense(0, 0, sent),
            vec![0; 8],
            Code::Invalid,
            "values belong here",
        ),
        (dense(99, 0, sent), vec![], Code::Invalid, "no table 99"),
        (dense(2, 0, sent), vec![], Code::Invalid, "not dense"),
        (late, vec![], Code::Interrupted, "generation 9"),
        (
            dense(0, 0, placed),
            vec![],
            Code::Invalid,
            "shares no memory",
        ),
        (
            dense(0, 0, placed),
            vec![0; 8],
            Code::Invalid,
            "values belong here",
        ),
        (
            dense(0, 4, placed),
            vec![255; 32],
            Code::Invalid,
            "values belong here",
        ),
        (
            plain(pull_rows(u32::MAX)),
            vec![0; 4],
            Code::Invalid,
            "row ids",
        ),
        (
            plain(dense_rows(0, u32::MAX)),
            vec![],
            Code::Invalid,
            "row ids",
        ),
        (
            plain(dense_rows(2, 1)),
            vec![0; 4],
            Code::Invalid,
            "not dense",
        ),
        (
            plain(dense_rows(0, 2)),
            vec![0; 8],
            Code::Invalid,
            "do not ascend",
        ),
        (
            plain(dense_rows(0, 1)),
            vec![255; 4],
            Code::Invalid,
            "outside",
        ),
        (
            plain(push_share(0, u32::MAX, None)),
            vec![],
            Code::Invalid,
            "row ids",
        ),
        (
            plain(push_share(2, 0, None)),
            vec![],
            Code::Invalid,
            "not dense",
        ),
        (
            plain(push_share(0, 2, None)),
            vec![0; 8],
            Code::Invalid,
            "do not ascend",
        ),
        (
            plain(push_share(0, 1, None)),
            vec![0; 5],
            Code::Invalid,
            "are not 1 rows",
        ),
        (
            plain(push_share(0, 1, Some(7))),
            vec![0; 4],
            Code::Invalid,
            "ticket 7 of table 0 is not known",
        ),
        (
            plain(Request::PullDense {
                view: View::Training,
                except: u32::MAX,
            }),
            vec![],
            Code::Invalid,
            "tables",
        ),
        (
            plain(share_rows(2, u32::MAX)),
            vec![],
            Code::Invalid,
            "has no 4294967295 rows",
        ),
        (plain(share_rows(0, 1)), vec![], Code::Invalid, "not sparse"),
        (
            plain(push_rows(1, Some(1), placed)),
            vec![],
            Code::Invalid,
            "are not in the row buffer",
        ),
        (
            plain(pull_rows(2)),
            vec![0; 8],
            Code::Invalid,
            "out of order",
        ),
        (plain(pull_rows(1)), vec![255; 4], Code::Invalid, "outside"),
        (no_view, vec![], Code::Invalid, "no view"),
        (
            plain(push_rows(0, Some(3), sent)),
            vec![],
            Code::Invalid,
            "ticket 3",
        ),
        (encoded(7, finish), vec![], Code::Invalid, "step 7"),
        (
            plain(Request::FinishPass { pass: 4 }),
            vec![],
            Code::Invalid,
            "pass 4",
        ),
        (plain(many), vec![], Code::Invalid, "can be summed"),
    ];
    for (message, payload, code, words) in cases {
        let mut rogue = rogue();
        rogue.channel.send_bytes(&message, &[&payload]).unwrap();
        let (got, text) = refusal(rogue);
        assert_eq!(got, code, "{message:?}: {text}");
        assert!(text.contains(words), "{message:?}: {text}");
    }
    // Not a request of a data connection: the server hangs up.
    let mut rogue = rogue();
    rogue.channel.send_bytes(&plain(initial), &[]).unwrap();
    assert!(rogue.channel.expect_reply().is_err());
}

/// A trainer on the server's host that has a row buffer for 5 rows of the sparse table and has pulled 3 into it.
fn rogue_with_a_row_buffer() -> (Rogue, SharedRegion, u64) {
    let mut rogue = rogue_over(true);
    let channel = &mut rogue.channel;
    channel
        .send_bytes(&encoded(0, share_rows(2, 5)), &[])
        .unwrap();
    let (_, reply) = channel.expect_reply().unwrap();
    assert_eq!(reply.message, Reply::Shared { descriptors: 1 });
    let memory = channel.stream().receive_descriptors().unwrap().remove(0);
    let buffer = SharedRegion::open(memory, 5 * 4, RegionAccess::Write).unwrap();
    buffer.write(0, &[7.0; 20]);
    let mut ids: Vec<u32> = vec![3, 1, 2];
    let hash = wire::shard::table_hash("emb");
    ids.sort_by_key(|id| (wire::shard::row_shard(hash, *id), *id));
    let payload: &[u8] = bytemuck::cast_slice(&ids);
    channel
        .send_bytes(&encoded(0, pull_rows(3)), &[payload])
        .unwrap();
    let (head, reply) = channel.expect_reply().unwrap();
    let Reply::Values {
        ticket: Some(ticket),
        carrier: Carrier::Memory,
        ..
    } = reply.message
    else {
        panic!("{reply:?}");
    };
    assert_eq!(head.payload, 0);
    let mut rows = [0.0; 16];
    buffer.read(0, &mut rows);
    assert!(rows[..12].iter().all(|value| *value != 7.0), "{rows:?}");
    assert_eq!(rows[12..], [7.0; 4]);
    (rogue, buffer, ticket.0)
}

#[test]
fn rows_in_a_row_buffer_are_those_of_the_ticket() {
    let push = |rows: u32, ticket: &dyn Fn(u64) -> Option<u64>, payload: &[u8]| {
        let (mut rogue, _buffer, known) = rogue_with_a_row_buffer();
        let push = push_rows(rows, ticket(known), Carrier::Memory);
        rogue
            .channel
            .send_bytes(&encoded(0, push), &[payload])
            .unwrap();
        // Answered with values, unless the push was refused and the server has hung up.
        let _ = rogue.channel.send_bytes(&encoded(0, pull_rows(0)), &[]);
        match rogue.channel.expect_reply() {
            Err(ChannelError::Refused { refusal, .. }) => Err(refusal.text),
            reply => Ok(reply.unwrap().1.message),
        }
    };
    let refused = |rows, ticket: &dyn Fn(u64) -> Option<u64>, payload: &[u8], words: &str| {
        let text = push(rows, ticket, payload).unwrap_err();
        assert!(text.contains(words), "{text}");
    };
    assert!(push(3, &Some, &[]).is_ok());
    refused(3, &|ticket| Some(ticket + 1), &[], "ticket 2");
    refused(3, &|_| None, &[], "ticket 0");
    refused(2, &Some, &[], "ticket 1");
    refused(6, &Some, &[], "are not in the row buffer");
    refused(u32::MAX, &Some, &[], "are not in the row buffer");
    refused(3, &Some, &[0; 48], "are not in the row buffer");
}

/// A trainer keeps a connection for its commands. When another process has its seat, it may no longer end the job.
#[test]
fn commands_of_a_process_that_lost_its_seat_are_refused() {
    let job = Job {
        servers: 1,
        ..Job::new(&[1])
    };
    let (_server, port) = job.start_patient_server();
    let dial = Dial {
        timeout: Duration::from_secs(180),
        tls: None,
        local: false,
    };
    let line = |role, instance| {
        let stream = Stream::connect(&LOCALHOST.to_string(), port, &dial).unwrap();
        stream.set_read_timeout(Some(dial.timeout)).unwrap();
        let mut channel = Channel::new(stream);
        let hello = Hello {
            instance,
            ..hello(&job, port, role, Generation(0))
        };
        greet(&mut channel, &token(), hello).map(|_| channel)
    };
    let pulse = line(ConnectionRole::Pulse, 1).unwrap();
    let mut command = line(ConnectionRole::Command, 1).unwrap();
    drop(pulse);
    // The seat is taken until the server has noticed.
    let _seat = loop {
        if let Ok(pulse) = line(ConnectionRole::Pulse, 2) {
            break pulse;
        }
    };
    let fail = wire::message::Command::Fail {
        reason: "it may not say this".to_owned(),
    };
    command.send(FrameKind::Command, &fail).unwrap();
    let reply: Result<wire::recovery::ServerReport, _> = command.expect(FrameKind::Report);
    match reply {
        Err(ChannelError::Refused { refusal, .. }) => assert_eq!(refusal.code, Code::Interrupted),
        other => panic!("not refused: {other:?}"),
    }
}

/// More trainers than threads stop in the middle of a frame: those that have something to say are heard all the same.
#[test]
fn members_that_stop_in_the_middle_of_a_frame_hold_nobody_up() {
    const STUCK: u32 = 24;
    let job = Job {
        servers: 1,
        ..Job::new(&[1; STUCK as usize + 1])
    };
    let (_server, port) = job.start_patient_server();
    let dial = Dial {
        timeout: Duration::from_secs(180),
        tls: None,
        local: false,
    };
    let line = |trainer, role, epoch| {
        let stream = Stream::connect(&LOCALHOST.to_string(), port, &dial).unwrap();
        stream.set_read_timeout(Some(dial.timeout)).unwrap();
        let mut channel = Channel::new(stream);
        let hello = hello_of(&job, trainer, port, role, epoch);
        greet(&mut channel, &token(), hello).unwrap();
        channel
    };
    let _pulses: Vec<Channel> = (0..=STUCK)
        .map(|trainer| line(trainer, ConnectionRole::Pulse, Generation(0)))
        .collect();
    let mut command = line(0, ConnectionRole::Command, Generation(0));
    let open = wire::message::Command::Open {
        epoch: Generation(1),
        spec: Box::new(job.spec()),
        start: wire::message::GenerationStart::Fresh,
        initial: Vec::new(),
        saved: None,
    };
    command.send(FrameKind::Command, &open).unwrap();
    let _: wire::recovery::ServerReport = command.expect(FrameKind::Report).unwrap();
    let _stuck: Vec<Channel> = (0..STUCK)
        .map(|trainer| {
            let mut channel = line(trainer, ConnectionRole::Data, Generation(1));
            let push = encoded(0, push_dense(0, 0, Carrier::Payload));
            // The head announces all values of the table, and none follow.
            channel
                .begin_values(&push, Encoding::F32, &[], 70 * 50)
                .unwrap();
            channel
        })
        .collect();
    let mut heard = line(STUCK, ConnectionRole::Data, Generation(1));
    let pull = Request::PullDense {
        view: View::Training,
        except: 0,
    };
    heard.ask(&encoded(0, pull), Encoding::F32, &[]).unwrap();
    let (_, reply) = heard.expect_reply().unwrap();
    assert!(matches!(reply.message, Reply::Values { .. }), "{reply:?}");
}

#[test]
fn the_same_push_twice_is_refused() {
    let mut rogue = rogue();
    let push = encoded(0, push_dense(1, 0, Carrier::Payload));
    for _ in 0..2 {
        rogue.channel.send_bytes(&push, &[&[0_u8; 12]]).unwrap();
    }
    let (code, text) = refusal(rogue);
    assert_eq!(code, Code::Invalid);
    assert!(text.contains("twice"), "{text}");
}

#[test]
fn a_foreign_certificate_and_none() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let job = Job {
        servers: 1,
        passes: 1,
        ..Job::new(&[3])
    };
    let port = support::free_ports(1);
    let mut config = job.server_config(port, None);
    let identity = authority.issue("canoe-server");
    config.tls = Some(wire::tls::ServerTls::new(&identity, Some(&authority.pem)).unwrap());
    let _server = pserver::Server::start(config, support::quiet()).unwrap();
    let client = |trusted: &Authority, own: Option<&wire::tls::Identity>| {
        let mut config = job.client_config(0, &[port]);
        config.tls = Some(wire::tls::ClientTls::new(&trusted.pem, "canoe-server", own).unwrap());
        config.timing.join = Duration::from_millis(500);
        config
    };
    let foreign = stranger.issue("trainer");
    assert!(Session::connect(client(&authority, Some(&foreign)), job.spec()).is_err());
    assert!(Session::connect(client(&authority, None), job.spec()).is_err());
    assert!(
        Session::connect(
            client(&stranger, Some(&authority.issue("trainer"))),
            job.spec()
        )
        .is_err()
    );
    let good = authority.issue("trainer");
    let mut config = client(&authority, Some(&good));
    config.timing = timing();
    let model = Trainer::new(job.clone(), config).train().unwrap();
    same(&model, &job.local());
}
