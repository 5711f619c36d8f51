//! Strangers do not stop a job: thousands of idle connections, hellos that never end, and none of them gets a thread.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use pserver::Server;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Job, LOCALHOST, free_ports, same};
use wire::Session;

/// As many descriptors as the system allows.
fn many_descriptors() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid during both calls.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max.min(16_384);
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
    limit.rlim_cur
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn a_job_trains_through_a_crowd() {
    let descriptors = many_descriptors();
    let job = Job {
        servers: 1,
        ..Job::new(&[8, 8])
    };
    let lines = Arc::new(Mutex::new(0));
    let count = lines.clone();
    let log = Arc::new(move |_, _: &str| *count.lock().unwrap() += 1);
    let (server, port) = loop {
        let port = free_ports(1);
        if let Ok(server) = Server::start(job.server_config(port, None), log.clone()) {
            break (server, port);
        }
    };
    let before = threads();
    let crowd = (descriptors as usize / 3).min(3000);
    let mut strangers = Vec::new();
    for at in 0..crowd {
        let mut stream = TcpStream::connect((LOCALHOST, port)).unwrap();
        // Some begin a hello; the server has sent others away by now.
        let _ = stream.write(&b"CANO\x02\x02\0\0"[..at % 8]);
        strangers.push(stream);
    }
    // Other tests of this process have some, too.
    assert!(threads() < before + crowd / 4, "strangers have threads");
    // One that never stops sending.
    let over = Arc::new(AtomicBool::new(false));
    let drip = {
        let over = over.clone();
        std::thread::spawn(move || {
            while !over.load(Ordering::Acquire) {
                let Ok(mut stream) = TcpStream::connect((LOCALHOST, port)) else {
                    continue;
                };
                while stream.write_all(b"C").is_ok() && !over.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        })
    };
    let cluster = support::Cluster {
        servers: vec![Some(server)],
        bases: vec![port],
    };
    let model = job.run(&cluster);
    over.store(true, Ordering::Release);
    drip.join().unwrap();
    same(&model, &job.local());
    let server = cluster.servers[0].as_ref().unwrap();
    let refused = server.metrics().lines().find_map(|line| {
        let count = line.strip_prefix("canoe_pserver_refused_connections_total ")?;
        count.parse::<f64>().ok()
    });
    assert!(
        refused.unwrap_or(0.0) > 100.0,
        "nobody was sent away: {refused:?}"
    );
    assert!(server.health().is_ok());
    let lines = *lines.lock().unwrap();
    assert!(lines < 300, "{lines} lines in the log");
}

/// While all trainers are there, who connects waits behind a crowd: a trainer that saves at the end of a pass must not.
#[test]
fn commands_of_a_generation_need_no_new_connection() {
    let job = Job {
        servers: 1,
        ..Job::new(&[1])
    };
    let opened = Arc::new(AtomicUsize::new(0));
    let count = opened.clone();
    let log = Arc::new(move |_, text: &str| {
        if text.starts_with("worker started") {
            count.fetch_add(1, Ordering::AcqRel);
        }
    });
    let (_server, port) = loop {
        let port = free_ports(1);
        if let Ok(server) = Server::start(job.server_config(port, None), log.clone()) {
            break (server, port);
        }
    };
    let connected = Session::connect(job.client_config(0, &[port]), job.spec());
    let (mut session, _) = connected.unwrap();
    let before = opened.load(Ordering::Acquire);
    for _ in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().to_str().unwrap();
        session.save_state_on_servers(folder).unwrap();
    }
    assert_eq!(opened.load(Ordering::Acquire), before);
    // A refusal ends the connection; the next command has another one, which is kept, too.
    session
        .save_state_on_servers("/no/such/folder")
        .unwrap_err();
    for _ in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().to_str().unwrap();
        session.save_state_on_servers(folder).unwrap();
    }
    assert_eq!(opened.load(Ordering::Acquire), before + 1);
    session.close().unwrap();
}

#[test]
fn a_hello_that_does_not_end_is_not_heard_out() {
    let job = Job {
        servers: 1,
        ..Job::new(&[1])
    };
    let (_server, port) = job.start_server(None);
    let mut stream = TcpStream::connect((LOCALHOST, port)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut writer = stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        let head = wire::frame::Head {
            kind: wire::frame::FrameKind::Hello,
            encoding: wire::Encoding::F32,
            body: 16 << 10,
            payload: 0,
            sequence: 0,
            body_crc: 0,
        };
        let _ = writer.write_all(&head.encode());
        while writer.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    // It ends, although there is always something new to read.
    let _ = stream.read_to_end(&mut Vec::new());
    writing.join().unwrap();
}
