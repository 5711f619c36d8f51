//! A data connection that swallows bytes while heartbeats pass is noticed and named, and the job continues over a new one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{Job, LOCALHOST, Trainer, same};

/// Which direction is swallowed.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    ToServer,
    ToTrainer,
}

/// Forwards connections to a port. While `swallow` is true, data connections that exist lose what passes one way.
fn proxy(to: u16, way: Way, swallow: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind((LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect((LOCALHOST, to)).unwrap();
            let hole = Arc::new(AtomicBool::new(false));
            let (up, down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (hole_up, hole_down) = (hole.clone(), hole);
            let (one, two) = (swallow.clone(), swallow.clone());
            std::thread::spawn(move || {
                pass(client, server, (way == Way::ToServer, true), &hole_up, &one)
            });
            std::thread::spawn(move || {
                pass(down, up, (way == Way::ToTrainer, false), &hole_down, &two)
            });
        }
    });
    port
}

fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    (mine, from_client): (bool, bool),
    is_data: &AtomicBool,
    swallow: &AtomicBool,
) {
    let mut buffer = [0; 65536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..count.min(2000)]).into_owned();
        if from_client && text.contains("\"role\":\"data\"") {
            is_data.store(true, Ordering::Release);
        }
        let lost = mine && is_data.load(Ordering::Acquire) && swallow.load(Ordering::Acquire);
        if !lost && to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

fn noticed(way: Way) {
    let job = Job {
        servers: 1,
        passes: 1,
        ..Job::new(&[6])
    };
    let (server, port) = job.start_server(None);
    let swallow = Arc::new(AtomicBool::new(false));
    let bases = [proxy(port, way, swallow.clone())];
    let mut trainer = Trainer::new(job.clone(), job.client_config(0, &bases));
    let hole = swallow.clone();
    let mut before = true;
    trainer.after_batch = Box::new(move |_, batch| {
        if batch == 2 && std::mem::take(&mut before) {
            hole.store(true, Ordering::Release);
        }
    });
    // The hole closes when the trainer has noticed it: the generation is over then.
    let watching = std::thread::spawn(move || {
        let mut running = false;
        loop {
            let phase = server.report().phase;
            running |= phase == words::status::Phase::Running;
            if running && swallow.load(Ordering::Acquire) && phase == words::status::Phase::Lobby {
                swallow.store(false, Ordering::Release);
            }
            if phase == words::status::Phase::Finished {
                return server;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    });
    let model = trainer.train().unwrap();
    drop(watching.join().unwrap());
    same(&model, &job.local());
    assert!(
        trainer
            .reasons
            .iter()
            .any(|reason| reason.contains("has swallowed")),
        "{:?}",
        trainer.reasons
    );
}

#[test]
fn what_does_not_reach_the_server_is_noticed() {
    noticed(Way::ToServer);
}

#[test]
fn what_does_not_reach_the_trainer_is_noticed() {
    noticed(Way::ToTrainer);
}
