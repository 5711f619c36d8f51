//! What strangers, broken programs and wrong settings send: each gets a clear answer, and the job of the others
//! goes on.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use std::time::Duration;
use support::{Job, LOCALHOST, Model, Trainer, noise, same, table, timing, token};
use wire::auth::Token;
use wire::channel::{Channel, ChannelError};
use wire::encoding::Encoding;
use wire::frame::{HEAD, Head, Kind, VERSION};
use wire::handshake::greet;
use wire::message::{Code, Hello, Hot, Role};
use wire::shared::{Access, Region};
use wire::stream::{Dial, Stream};
use wire::{Config, Epoch, Error, Session, Step, TableId, Topology, TrainerId};

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

fn start(job: &Job, config: Config) -> std::thread::JoinHandle<Result<Model, Error>> {
    let job = job.clone();
    std::thread::spawn(move || {
        let mut trainer = Trainer::new(job, config);
        trainer.after_batch = Box::new(|_, _| std::thread::sleep(Duration::from_millis(5)));
        trainer.train()
    })
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect((LOCALHOST, port)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
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
        kind: Kind::Hello,
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

fn connect_error(config: Config, job: &Job) -> Error {
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
        ..Job::new(&[300, 300])
    };
    let cluster = job.start(None);
    let threads: Vec<_> = (0..2)
        .map(|trainer| start(&job, job.client_config(trainer, &cluster.bases)))
        .collect();
    std::thread::sleep(Duration::from_millis(50));
    let refused = |change: &dyn Fn(&mut Config, &mut Job), words: &str| {
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
        "another model",
    );
    refused(
        &|config, _| config.servers[0].host = "localhost".to_owned(),
        "list of servers",
    );
    refused(&|config, _| config.ports = 2, "ports_num");
    refused(
        &|config, _| {
            config.timing.join = Duration::from_millis(300);
        },
        "trainer id 1 is taken",
    );
    let models: Vec<Model> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap().unwrap())
        .collect();
    same(&models[0], &job.local());
}

#[test]
fn ports_that_cannot_be() {
    let job = Job::new(&[1]);
    let start = |change: &dyn Fn(&mut pserver::Config)| {
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

fn hello(job: &Job, port: u16, role: Role, epoch: Epoch) -> Hello {
    Hello {
        nonce: String::new(),
        proof: String::new(),
        role,
        trainer: TrainerId(0),
        instance: 5,
        trainers: 1,
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
    let (server, port) = job.start_server(None);
    let dial = Dial {
        timeout: Duration::from_secs(5),
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
    let pulse = line(Role::Pulse, Epoch(0));
    let mut command = line(Role::Command, Epoch(0));
    let open = wire::message::Command::Open {
        epoch: Epoch(1),
        spec: Box::new(job.spec()),
        start: wire::message::Start::Fresh,
        initial: Vec::new(),
    };
    command.send(Kind::Command, &open).unwrap();
    let _: wire::recovery::Report = command.expect(Kind::Report).unwrap();
    Rogue {
        channel: line(Role::Data, Epoch(1)),
        _pulse: pulse,
        _server: server,
    }
}

fn refusal(mut rogue: Rogue) -> (Code, String) {
    match rogue.channel.expect_hot(Kind::Values) {
        Err(ChannelError::Refused { refusal, .. }) => (refusal.code, refusal.text),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn wrong_requests_of_a_member() {
    let plain = Hot {
        epoch: Epoch(1),
        ..Hot::default()
    };
    let cases: Vec<(Kind, Hot, Vec<u8>, Code, &str)> = vec![
        (
            Kind::PushDense,
            plain,
            vec![0; 8],
            Code::Invalid,
            "values belong here",
        ),
        (
            Kind::PushDense,
            Hot {
                table: TableId(99),
                ..plain
            },
            vec![],
            Code::Invalid,
            "no table 99",
        ),
        (
            Kind::PushDense,
            Hot {
                table: TableId(2),
                ..plain
            },
            vec![],
            Code::Invalid,
            "not dense",
        ),
        (
            Kind::PushDense,
            Hot {
                epoch: Epoch(9),
                ..plain
            },
            vec![],
            Code::Interrupted,
            "epoch 9",
        ),
        (
            Kind::PushPlaced,
            plain,
            vec![],
            Code::Invalid,
            "shares no memory",
        ),
        (
            Kind::PushPlaced,
            plain,
            vec![0; 8],
            Code::Invalid,
            "values belong here",
        ),
        (
            Kind::PushPlaced,
            Hot { count: 4, ..plain },
            vec![255; 32],
            Code::Invalid,
            "values belong here",
        ),
        (
            Kind::PullRows,
            Hot {
                table: TableId(2),
                count: u32::MAX,
                ..plain
            },
            vec![0; 4],
            Code::Invalid,
            "row ids",
        ),
        (
            Kind::ShareRows,
            Hot {
                table: TableId(2),
                count: u32::MAX,
                ..plain
            },
            vec![],
            Code::Invalid,
            "has no 4294967295 rows",
        ),
        (
            Kind::ShareRows,
            Hot { count: 1, ..plain },
            vec![],
            Code::Invalid,
            "not sparse",
        ),
        (
            Kind::PushRowsPlaced,
            Hot {
                table: TableId(2),
                count: 1,
                ticket: 1,
                ..plain
            },
            vec![],
            Code::Invalid,
            "lie in no tray",
        ),
        (
            Kind::PullRows,
            Hot {
                table: TableId(2),
                count: 2,
                ..plain
            },
            vec![0; 8],
            Code::Invalid,
            "out of order",
        ),
        (
            Kind::PullRows,
            Hot {
                table: TableId(2),
                count: 1,
                ..plain
            },
            vec![255; 4],
            Code::Invalid,
            "outside",
        ),
        (
            Kind::PullRows,
            Hot {
                table: TableId(2),
                value: 77,
                ..plain
            },
            vec![],
            Code::Invalid,
            "no view",
        ),
        (
            Kind::PushRows,
            Hot {
                table: TableId(2),
                ticket: 3,
                ..plain
            },
            vec![],
            Code::Invalid,
            "ticket 3",
        ),
        (
            Kind::FinishBatch,
            Hot {
                step: Step(7),
                ..plain
            },
            vec![],
            Code::Invalid,
            "step 7",
        ),
        (
            Kind::FinishPass,
            Hot { value: 4, ..plain },
            vec![],
            Code::Invalid,
            "pass 4",
        ),
        (
            Kind::Reduce,
            Hot {
                count: u32::MAX,
                ..plain
            },
            vec![],
            Code::Invalid,
            "can be summed",
        ),
    ];
    for (kind, hot, payload, code, words) in cases {
        let mut rogue = rogue();
        rogue.channel.send_bytes(kind, &hot, &[&payload]).unwrap();
        let (got, text) = refusal(rogue);
        assert_eq!(got, code, "{kind:?} {hot:?}: {text}");
        assert!(text.contains(words), "{kind:?} {hot:?}: {text}");
    }
}

/// A trainer on the server's host that has a tray for 5 rows of the sparse table and has pulled 3 into it.
fn rogue_with_a_tray() -> (Rogue, Region, Hot) {
    let mut rogue = rogue_over(true);
    let hot = Hot {
        epoch: Epoch(1),
        table: TableId(2),
        samples: 1,
        ..Hot::default()
    };
    let channel = &mut rogue.channel;
    let ask = Hot { count: 5, ..hot };
    channel.send_bytes(Kind::ShareRows, &ask, &[]).unwrap();
    assert_eq!(channel.expect_hot(Kind::Shared).unwrap().1.count, 1);
    let memory = channel.stream().receive_descriptors().unwrap().remove(0);
    let tray = Region::open(memory, 5 * 4, Access::Write).unwrap();
    tray.write(0, &[7.0; 20]);
    let mut ids: Vec<u32> = vec![3, 1, 2];
    let hash = wire::shard::table_hash("emb");
    ids.sort_by_key(|id| (wire::shard::row_shard(hash, *id), *id));
    let ask = Hot { count: 3, ..hot };
    let payload: &[u8] = bytemuck::cast_slice(&ids);
    channel
        .send_bytes(Kind::PullRows, &ask, &[payload])
        .unwrap();
    let (head, answer) = channel.expect_values().unwrap();
    assert_eq!((head.kind, head.payload), (Kind::ValuesPlaced, 0));
    let mut rows = [0.0; 16];
    tray.read(0, &mut rows);
    assert!(rows[..12].iter().all(|value| *value != 7.0), "{rows:?}");
    assert_eq!(rows[12..], [7.0; 4]);
    (rogue, tray, answer)
}

#[test]
fn rows_in_a_tray_are_those_of_the_ticket() {
    let push = |change: &dyn Fn(&mut Hot), payload: &[u8]| {
        let (mut rogue, _tray, mut hot) = rogue_with_a_tray();
        change(&mut hot);
        let sent = rogue
            .channel
            .send_bytes(Kind::PushRowsPlaced, &hot, &[payload]);
        sent.unwrap();
        // Answered with values, unless the push was refused and the server has hung up.
        let after = Hot {
            count: 0,
            value: 0,
            ..hot
        };
        let _ = rogue.channel.send_bytes(Kind::PullRows, &after, &[]);
        match rogue.channel.expect_values() {
            Err(ChannelError::Refused { refusal, .. }) => Err(refusal.text),
            answer => Ok(answer.unwrap().0.kind),
        }
    };
    let refused = |change: &dyn Fn(&mut Hot), payload: &[u8], words: &str| {
        let text = push(change, payload).unwrap_err();
        assert!(text.contains(words), "{text}");
    };
    assert!(push(&|_| {}, &[]).is_ok());
    refused(&|hot| hot.ticket += 1, &[], "ticket 2");
    refused(&|hot| hot.ticket = 0, &[], "ticket 0");
    refused(&|hot| hot.count = 2, &[], "ticket 1");
    refused(&|hot| hot.count = 6, &[], "lie in no tray");
    refused(&|hot| hot.count = u32::MAX, &[], "lie in no tray");
    refused(&|_| {}, &[0; 48], "lie in no tray");
}

#[test]
fn the_same_push_twice_is_refused() {
    let mut rogue = rogue();
    let hot = Hot {
        epoch: Epoch(1),
        table: TableId(1),
        samples: 1,
        ..Hot::default()
    };
    for _ in 0..2 {
        rogue
            .channel
            .send_bytes(Kind::PushDense, &hot, &[&[0_u8; 12]])
            .unwrap();
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

struct Authority {
    pem: String,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: rcgen::Issuer::new(params, key),
        }
    }

    fn issue(&self, name: &str) -> wire::tls::Identity {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        wire::tls::Identity {
            certificates: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}
