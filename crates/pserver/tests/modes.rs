//! Asynchronous training, local updates, 16-bit payloads, averages and sums over trainers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use optim::{Average, Rule};
use std::time::Duration;
use support::{Job, Trainer, same, table};
use wire::{Encoding, Mode, Session, TableId, View};

#[test]
fn async_with_one_trainer_is_sync_with_one_trainer() {
    let sync = Job {
        passes: 2,
        ..Job::new(&[7])
    };
    let alone = Job {
        mode: Mode::Async { staleness: 0 },
        ..sync.clone()
    };
    let cluster = alone.start(None);
    same(&alone.run(&cluster), &sync.local());
}

#[test]
fn async_drops_nothing_and_keeps_its_bound() {
    // Plain SGD with gradients that do not depend on the values: the sum is the same in any order, up to rounding.
    let mut job = Job {
        mode: Mode::Async { staleness: 3 },
        passes: 1,
        servers: 1,
        ..Job::new(&[40, 40, 40])
    };
    job.tables = vec![table("w", 1, 1000, false, Rule::sgd(1.0))];
    let cluster = job.start(None);
    let threads: Vec<_> = (0..3)
        .map(|trainer| {
            let (config, spec) = (job.client_config(trainer, &cluster.bases), job.spec());
            std::thread::spawn(move || {
                let (mut session, _) = Session::connect(config, spec).unwrap();
                let mut values = vec![0.0; 1000];
                for batch in 0..40 {
                    if trainer == 2 && batch % 10 == 0 {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    session.start_batch(1);
                    session
                        .push_dense(TableId(0), &vec![1.0; 1000], None)
                        .unwrap();
                    session.finish_batch(0.0).unwrap();
                    session
                        .wait_values(&mut [(TableId(0), values.as_mut_slice())])
                        .unwrap();
                }
                session.finish_pass().unwrap();
                session
                    .pull_dense(&mut [(TableId(0), values.as_mut_slice())], View::Current)
                    .unwrap();
                session.close().unwrap();
                values
            })
        })
        .collect();
    let models: Vec<Vec<f32>> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    let mut first = vec![0.0; 1000];
    job.tables[0].2.fill(0, &mut first);
    for (value, start) in models[0].iter().zip(first) {
        assert!(
            (value - (start - 120.0)).abs() < 1e-3,
            "{value} from {start}"
        );
    }
    let metrics = cluster.servers[0].as_ref().unwrap().metrics();
    let line = metrics
        .lines()
        .find(|l| l.starts_with("canoe_pserver_staleness_batches_max "))
        .unwrap();
    let most: u64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(most <= 3, "{line}");
    assert!(
        metrics.contains("canoe_pserver_pushes_total 120"),
        "{metrics}"
    );
}

#[test]
fn local_updates_average_the_differences() {
    let add = Rule {
        method: optim::Method::Add { rate: 0.5 },
        ..Rule::sgd(1.0)
    };
    let mut job = Job {
        servers: 1,
        passes: 1,
        ..Job::new(&[1, 1])
    };
    job.tables = vec![table("w", 1, 10, false, add)];
    let cluster = job.start(None);
    let threads: Vec<_> = (0..2_u32)
        .map(|trainer| {
            let (config, spec) = (job.client_config(trainer, &cluster.bases), job.spec());
            std::thread::spawn(move || {
                let (mut session, _) = Session::connect(config, spec).unwrap();
                let mut values = vec![0.0; 10];
                session
                    .pull_dense(&mut [(TableId(0), values.as_mut_slice())], View::Training)
                    .unwrap();
                let before = values.clone();
                session.start_batch(1);
                session
                    .push_dense(TableId(0), &[2.0 + trainer as f32; 10], None)
                    .unwrap();
                session.finish_batch(0.0).unwrap();
                session
                    .wait_values(&mut [(TableId(0), values.as_mut_slice())])
                    .unwrap();
                session.close().unwrap();
                (before, values)
            })
        })
        .collect();
    for thread in threads {
        let (before, after) = thread.join().unwrap();
        for (before, after) in before.iter().zip(after) {
            assert_eq!(after, before + 0.5 * 5.0);
        }
    }
}

#[test]
fn sixteen_bit_payloads_come_near() {
    for (encoding, bound) in [(Encoding::F16, 0.002), (Encoding::Bf16, 0.02)] {
        let mut exact = Job {
            passes: 1,
            ..Job::new(&[3, 3])
        };
        let plain = Rule::sgd(0.1);
        exact.tables = vec![
            table("w", 70, 50, false, plain.clone()),
            table("emb", 5000, 4, true, plain),
        ];
        let job = Job {
            encoding,
            ..exact.clone()
        };
        let cluster = job.start(None);
        let (got, wanted) = (job.run(&cluster), exact.local());
        assert_ne!(got, wanted, "{encoding:?} rounds");
        for (got, wanted) in got.iter().flatten().zip(wanted.iter().flatten()) {
            assert!(
                (got - wanted).abs() < bound,
                "{encoding:?}: {got} and {wanted}"
            );
        }
    }
}

#[test]
fn averages_are_served_beside_values() {
    let average = Average {
        window: 0.5,
        max_window: None,
    };
    let mut job = Job {
        servers: 2,
        passes: 1,
        ..Job::new(&[12])
    };
    let rule = Rule {
        average: Some(average),
        ..Rule::sgd(0.1)
    };
    job.tables = vec![
        table("w", 1, 3000, false, rule.clone()),
        table("emb", 100, 4, true, rule),
    ];
    let cluster = job.start(None);
    let mut trainer = Trainer::new(job.clone(), job.client_config(0, &cluster.bases));
    let checked = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let done = checked.clone();
    trainer.before_close = Box::new(move |session| {
        let (mut values, mut averaged) = (vec![0.0; 3000], vec![0.0; 3000]);
        session
            .pull_dense(&mut [(TableId(0), values.as_mut_slice())], View::Current)
            .unwrap();
        session
            .pull_dense(&mut [(TableId(0), averaged.as_mut_slice())], View::Averaged)
            .unwrap();
        assert_ne!(values, averaged);
        let (mut rows, mut means) = (Vec::new(), Vec::new());
        session
            .download(TableId(1), View::Current, &mut |_, part| {
                rows.extend_from_slice(part)
            })
            .unwrap();
        session
            .download(TableId(1), View::Averaged, &mut |_, part| {
                means.extend_from_slice(part)
            })
            .unwrap();
        assert_eq!(rows.len(), means.len());
        assert_ne!(rows, means);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    trainer.train().unwrap();
    assert!(checked.load(std::sync::atomic::Ordering::Relaxed));
}

#[test]
fn sums_over_trainers_are_the_same_everywhere() {
    let job = Job {
        passes: 1,
        ..Job::new(&[1, 1, 1])
    };
    let cluster = job.start(None);
    let threads: Vec<_> = (0..3_u32)
        .map(|trainer| {
            let (config, spec) = (job.client_config(trainer, &cluster.bases), job.spec());
            std::thread::spawn(move || {
                let (mut session, _) = Session::connect(config, spec).unwrap();
                let mut all = Vec::new();
                for round in 0..5 {
                    let mut numbers = [f64::from(trainer) + 0.25, f64::from(round)];
                    session.reduce(&mut numbers).unwrap();
                    all.push(numbers);
                }
                session.close().unwrap();
                all
            })
        })
        .collect();
    for thread in threads {
        let all = thread.join().unwrap();
        assert!(
            all.iter()
                .enumerate()
                .all(|(round, got)| *got == [3.75, 3.0 * round as f64]),
            "{all:?}"
        );
    }
}

#[test]
fn a_failed_trainer_ends_the_job_everywhere_with_its_reason() {
    let job = Job {
        passes: 1,
        ..Job::new(&[1, 1])
    };
    let cluster = job.start(None);
    let threads: Vec<_> = (0..2_u32)
        .map(|trainer| {
            let (config, spec) = (job.client_config(trainer, &cluster.bases), job.spec());
            std::thread::spawn(move || {
                // The other trainer may fail before this one is let in; it is told the same then.
                let mut session = match Session::connect(config, spec) {
                    Ok((session, _)) => session,
                    Err(error) => return error.to_string(),
                };
                if trainer == 1 {
                    session.fail("the cost is not a number");
                    return String::new();
                }
                session.finish_pass().unwrap_err().to_string()
            })
        })
        .collect();
    let texts: Vec<String> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    assert!(
        texts[0].contains("the cost is not a number"),
        "{}",
        texts[0]
    );
    for server in cluster.servers.iter().flatten() {
        assert!(
            matches!(server.wait(), pserver::ServerOutcome::Failed(reason) if reason.contains("not a number"))
        );
    }
}

#[test]
fn values_of_trainer_0_replace_initial_ones() {
    let mut job = Job {
        servers: 2,
        ports: 2,
        passes: 0,
        ..Job::new(&[1, 1])
    };
    let given: Vec<f32> = (0..3500).map(|i| i as f32).collect();
    job.tables[0].0.values = Some(given.clone().into());
    let cluster = job.start(None);
    let model = job.run(&cluster);
    same(&vec![model[0].clone()], &vec![given]);
}

/// One trainer pushes values that layers maintain: they replace the server's, bit for bit whatever the encoding of
/// gradients, and stay in a step in which nobody pushes them.
#[test]
fn pushed_values_replace_those_of_the_server_exactly() {
    for encoding in [Encoding::F32, Encoding::F16, Encoding::Bf16] {
        let mut job = Job {
            servers: 1,
            passes: 1,
            encoding,
            ..Job::new(&[1, 1])
        };
        job.tables = vec![
            table("mean", 1, 10, false, Rule::assign()),
            table("w", 1, 10, false, Rule::sgd(0.1)),
        ];
        let cluster = job.start(None);
        // More than 16 bits have, and beyond their range.
        let pushed: Vec<f32> = (0..10).map(|at| 1e5 / 3.0 * at as f32).collect();
        let threads: Vec<_> = (0..2_u32)
            .map(|trainer| {
                let (config, spec) = (job.client_config(trainer, &cluster.bases), job.spec());
                let pushed = pushed.clone();
                std::thread::spawn(move || {
                    let (mut session, _) = Session::connect(config, spec).unwrap();
                    let (mut mean, mut w) = (vec![0.0; 10], vec![0.0; 10]);
                    for batch in 0..2 {
                        session.start_batch(1);
                        if trainer == 0 && batch == 0 {
                            session.push_values(TableId(0), &pushed).unwrap();
                        }
                        session.push_dense(TableId(1), &[1.0; 10], None).unwrap();
                        session.finish_batch(0.0).unwrap();
                        let mut places = [
                            (TableId(0), mean.as_mut_slice()),
                            (TableId(1), w.as_mut_slice()),
                        ];
                        session.wait_values(&mut places).unwrap();
                        assert_eq!(
                            mean, pushed,
                            "batch {batch} of trainer {trainer}, {encoding:?}"
                        );
                    }
                    session.close().unwrap();
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    }
}
