//! However gradients are handed over and values are read, through shared memory, TCP or TLS, whole or by row, the bytes are
//! the same.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use pserver::bench::Transport;
use pserver::bench::keys::BenchKeys;
use pserver::{Server, ServerConfig};
use std::net::{IpAddr, Ipv4Addr};
use support::{Cluster, Job, free_ports, noise, quiet, same, table};
use wire::{Session, TableId, View};

const ROWS: usize = 700;
const COLS: usize = 120;
/// Values of a table of more than a megabyte.
const WIDE: usize = 270_000;
/// Another host, as far as a trainer at 127.0.0.1 can see.
const APART: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// How a trainer does it.
#[derive(Clone, Copy, Debug)]
struct Way {
    over: Transport,
    /// The second server is on another host.
    apart: bool,
    /// Tells the session which rows of a gradient are not zero.
    tells_rows: bool,
    /// Fetches only the rows that the next batch reads.
    reads: Reads,
}

/// Which values a trainer fetches for its next batch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reads {
    /// All.
    Whole,
    /// Its rows, when the batch before has ended.
    Rows,
    /// Its rows together with the other values; the rows of every third batch are not known so early.
    Announced,
}

fn rows_of(trainer: u32, batch: u64) -> Vec<u32> {
    // The last ones are so many that the whole table is fetched.
    let count = if batch < 6 { 30 } else { 300 };
    (0..count)
        .map(|i| (noise(&[u64::from(trainer), batch, i]) % ROWS as u64) as u32)
        .collect()
}

/// A gradient in the rows of the batch that depends on their values.
fn gradient(values: &[f32], rows: &[u32], batch: u64) -> Vec<f32> {
    let mut gradient = vec![0.0; ROWS * COLS];
    for row in rows {
        let range = *row as usize * COLS..(*row as usize + 1) * COLS;
        for (to, from) in gradient[range.clone()].iter_mut().zip(&values[range]) {
            *to += from * 0.3 + (batch as f32 - 4.0) / 7.0;
        }
    }
    gradient
}

fn train(job: &Job, trainer: u32, bases: &[u16], way: Way) -> Vec<Vec<f32>> {
    let mut config = job.client_config(trainer, bases);
    if way.apart {
        config.servers[1].host = APART.to_string();
    }
    let (mut session, _) = Session::connect(config, job.spec()).unwrap();
    let shares_memory = way.over == Transport::Unix && !way.apart;
    assert_eq!(session.shares_memory(), shares_memory);
    let (big, small, wide) = (TableId(0), TableId(1), TableId(2));
    if way.reads != Reads::Whole {
        session.fetch_by_row(vec![big]);
    }
    let mut values = vec![vec![0.0; ROWS * COLS], vec![0.0; 3], vec![0.0; WIDE]];
    fn all(values: &mut [Vec<f32>]) -> Vec<(TableId, &mut [f32])> {
        let tables = (0..).map(TableId).zip(values);
        tables.map(|(t, v)| (t, v.as_mut_slice())).collect()
    }
    session
        .pull_dense(&mut all(&mut values), View::Training)
        .unwrap();
    for batch in 0..8 {
        let rows = rows_of(trainer, batch);
        if way.reads != Reads::Whole {
            let mut wanted = [(big, rows.as_slice(), values[0].as_mut_slice())];
            session.read_rows(&mut wanted).unwrap();
        }
        session.start_batch(5);
        let pushed = gradient(&values[0], &rows, batch);
        let known = way.tells_rows.then_some(rows.as_slice());
        session.push_dense(small, &[0.5, -0.5, 1.0], None).unwrap();
        session.push_dense(big, &pushed, known).unwrap();
        let whole: Vec<f32> = values[2].iter().map(|v| v * 0.1 + batch as f32).collect();
        session.push_dense(wide, &whole, None).unwrap();
        if way.reads == Reads::Announced && batch % 3 != 0 {
            session.announce_rows(&[(big, &rows_of(trainer, batch + 1))]);
        }
        session.finish_batch(1.0).unwrap();
        session.wait_values(&mut all(&mut values)).unwrap();
    }
    session.finish_pass().unwrap();
    session.end_pass().unwrap();
    session
        .pull_dense(&mut all(&mut values), View::Training)
        .unwrap();
    session.close().unwrap();
    values
}

fn run(way: Way) -> Vec<Vec<f32>> {
    run_on(2, way)
}

fn run_on(servers: u32, way: Way) -> Vec<Vec<f32>> {
    let mut job = Job {
        local_sockets: way.over == Transport::Unix,
        keys: (way.over == Transport::Tls).then(|| BenchKeys::new().unwrap()),
        servers,
        ports: 2,
        passes: 1,
        ..Job::new(&[8, 8])
    };
    job.tables = vec![
        table("big", ROWS as u64, COLS as u32, false, support::adam()),
        table("small", 1, 3, false, support::momentum()),
        table("wide", 1, WIDE as u32, false, support::momentum()),
    ];
    let mut cluster = job.start(None);
    if way.apart {
        replace_second(&job, &mut cluster);
    }
    let (job, bases) = (&job, &cluster.bases);
    let models: Vec<_> = std::thread::scope(|scope| {
        let trainers: Vec<_> = (0..2)
            .map(|trainer| scope.spawn(move || train(job, trainer, bases, way)))
            .collect();
        trainers.into_iter().map(|t| t.join().unwrap()).collect()
    });
    same(&models[0], &models[1]);
    models.into_iter().next().unwrap()
}

/// Starts the second server at another address.
fn replace_second(job: &Job, cluster: &mut Cluster) {
    for _ in 0..50 {
        let base = free_ports(job.ports);
        let config = ServerConfig {
            addresses: vec![IpAddr::V4(APART)],
            ..job.server_config(base, None)
        };
        if let Ok(server) = Server::start(config, quiet()) {
            cluster.servers[1] = Some(server);
            cluster.bases[1] = base;
            return;
        }
    }
    panic!("no free ports");
}

#[test]
fn every_way_gives_the_same_bytes() {
    let way = |(over, apart), tells_rows, reads| Way {
        over,
        apart,
        tells_rows,
        reads,
    };
    let wanted = run(way((Transport::Tcp, false), false, Reads::Whole));
    for over in [
        (Transport::Tcp, false),
        (Transport::Tls, false),
        (Transport::Unix, false),
        (Transport::Unix, true),
    ] {
        for reads in [Reads::Whole, Reads::Rows, Reads::Announced] {
            for tells_rows in [false, true] {
                same(&run(way(over, tells_rows, reads)), &wanted);
            }
        }
    }
    // Five of six servers hold the tables.
    for over in [(Transport::Tcp, false), (Transport::Unix, false)] {
        same(&run_on(6, way(over, true, Reads::Announced)), &wanted);
    }
}

#[test]
fn values_can_only_be_left_where_they_lie_if_they_can_be_read_there() {
    let mut job = Job::new(&[1]);
    job.tables = vec![table("w", 4, 4, false, support::adam())];
    let cluster = job.start(None);
    let (mut session, _) =
        Session::connect(job.client_config(0, &cluster.bases), job.spec()).unwrap();
    let refused = session.pull_dense(&mut [(TableId(0), &mut [])], View::Training);
    assert!(matches!(refused, Err(wire::Error::Usage(_))), "{refused:?}");
}

/// Rows of batch number `batch`: few and many by turns, so that row buffers grow; ascending.
fn sparse_rows(trainer: u32, batch: u64, rows: u64) -> Vec<u32> {
    let count = [20, 3, 150, 149, 400, 0, 7, 90][batch as usize % 8];
    let mut ids: Vec<u32> = (0..count)
        .map(|i| (noise(&[u64::from(trainer), batch, i, rows]) % rows) as u32)
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Trains two sparse tables; in some batches rows are pushed that were not pulled, or pulled and not pushed.
fn train_rows(job: &Job, trainer: u32, bases: &[u16]) -> Vec<Vec<f32>> {
    let config = job.client_config(trainer, bases);
    let (mut session, _) = Session::connect(config, job.spec()).unwrap();
    let (one, other) = (TableId(0), TableId(1));
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for batch in 0..16 {
        let (ids, more) = (
            sparse_rows(trainer, batch, 600),
            sparse_rows(trainer, batch + 3, 500),
        );
        let wanted = |table, ids, values| wire::RowRequest { table, ids, values };
        session
            .pull_rows(&mut [wanted(one, &ids, &mut a), wanted(other, &more, &mut b)])
            .unwrap();
        session.start_batch(5);
        let push = |values: &[f32]| -> Vec<f32> {
            let gradient = |value: &f32| value * 0.3 + batch as f32 / 7.0 - 1.0;
            values.iter().map(gradient).collect()
        };
        session.push_rows(one, &ids, &push(&a)).unwrap();
        match batch % 4 {
            1 => {}
            2 => session.push_rows(other, &[5, 77], &[0.5; 34]).unwrap(),
            _ => session.push_rows(other, &more, &push(&b)).unwrap(),
        }
        session.finish_batch(1.0).unwrap();
        session.wait_values(&mut []).unwrap();
    }
    session.finish_pass().unwrap();
    let mut tables = Vec::new();
    for table in [one, other] {
        let mut all = Vec::new();
        let mut keep = |_: u64, values: &[f32]| all.extend_from_slice(values);
        session.download(table, View::Current, &mut keep).unwrap();
        tables.push(all);
    }
    session.close().unwrap();
    tables
}

#[test]
fn rows_in_trays_give_the_same_bytes() {
    let run = |local_sockets, sparse_ports| {
        let mut job = Job {
            local_sockets,
            sparse_ports,
            passes: 1,
            ..Job::new(&[16, 16])
        };
        job.tables = vec![
            table("one", 600, 16, true, support::adagrad()),
            table("other", 500, 17, true, support::momentum()),
        ];
        let cluster = job.start(None);
        let (job, bases) = (&job, &cluster.bases);
        let models: Vec<_> = std::thread::scope(|scope| {
            let trainers: Vec<_> = (0..2)
                .map(|trainer| scope.spawn(move || train_rows(job, trainer, bases)))
                .collect();
            trainers.into_iter().map(|t| t.join().unwrap()).collect()
        });
        same(&models[0], &models[1]);
        models.into_iter().next().unwrap()
    };
    let wanted = run(false, 0);
    for sparse_ports in [0, 2] {
        same(&run(true, sparse_ports), &wanted);
    }
}
