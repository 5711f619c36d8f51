//! A run over servers gives the bytes of one process, for any number of servers, ports and trainers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use support::{Job, same, table};

fn check(job: &Job) {
    let cluster = job.start(None);
    let remote = job.run(&cluster);
    same(&remote, &job.local());
}

#[test]
fn one_trainer_one_server() {
    check(&Job {
        servers: 1,
        ..Job::new(&[5])
    });
}

#[test]
fn trainers_with_different_amounts_of_data() {
    check(&Job::new(&[3, 6, 0]));
}

#[test]
fn several_servers_and_ports() {
    for (servers, ports, sparse_ports) in [(1, 3, 0), (2, 2, 1), (3, 1, 2)] {
        check(&Job {
            servers,
            ports,
            sparse_ports,
            ..Job::new(&[4, 3])
        });
    }
}

#[test]
fn unix_sockets_carry_the_same() {
    check(&Job {
        local_sockets: true,
        ..Job::new(&[4, 4])
    });
}

#[test]
fn tls_carries_the_same_in_frames_that_are_sent_together_and_in_large_ones() {
    let mut job = Job {
        ports: 2,
        keys: Some(pserver::bench::keys::BenchKeys::new().unwrap()),
        ..Job::new(&[3, 2])
    };
    // Per service: tables of a few bytes, and one that fills several records and buffers.
    job.tables
        .push(table("large", 1000, 301, false, support::adam()));
    check(&job);
    check(&Job { keys: None, ..job });
}

#[test]
fn more_servers_than_blocks() {
    let mut job = Job {
        servers: 4,
        ports: 2,
        ..Job::new(&[3, 3])
    };
    job.tables = vec![table("tiny", 1, 3, false, support::adam())];
    check(&job);
}

#[test]
fn sparse_tables_alone() {
    for rule in [
        optim::Rule::sgd(0.1),
        support::adagrad(),
        support::momentum(),
    ] {
        let mut job = Job {
            passes: 1,
            ..Job::new(&[5, 4])
        };
        job.tables = vec![
            table("emb", 300, 4, true, rule.clone()),
            table("other", 50, 7, true, rule),
        ];
        check(&job);
    }
}
