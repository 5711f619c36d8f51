//! Tests of the fold.

use super::*;

const TRAINER: RecordSource = RecordSource::Process(0, Role::Trainer);

fn line(t: f64, event: Event) -> EventLine {
    EventLine { t, event }
}

fn start(run: &str) -> Event {
    let text = format!(r#"{{"t":0,"kind":"start","role":"trainer","node":0,"run":"{run}"}}"#);
    EventLine::parse(text.as_bytes()).unwrap().event
}

fn batch(pass: u64, batch: u64, samples: u64, cost: f64) -> Event {
    Event::Batch(Figures {
        pass,
        batch,
        samples,
        cost: Some(cost),
        evaluators: EvaluatorValues::new(),
    })
}

fn pass_end(pass: u64, batch: u64, samples: u64) -> Event {
    Event::PassFinished {
        figures: Figures {
            pass,
            batch,
            samples,
            cost: Some(0.5),
            evaluators: [("error".to_owned(), 0.25)].into(),
        },
        seconds: 2.0,
        waited: 1.0,
    }
}

fn curve(history: &History, metric: &str) -> Vec<(f64, f64)> {
    let key = Key {
        node: 0,
        metric: metric.into(),
        test: false,
    };
    let points = history.series.get(&key).map_or(&[][..], |s| s.points());
    points.iter().map(|p| (p.samples, p.value)).collect()
}

#[test]
fn samples_continue_over_passes() {
    let mut history = History::default();
    for (t, record) in [
        start("a"),
        Event::PassStarted { pass: 0, batch: 0 },
        batch(0, 10, 100, 0.9),
        pass_end(0, 20, 200),
        Event::PassStarted { pass: 1, batch: 0 },
        batch(1, 10, 100, 0.4),
    ]
    .into_iter()
    .enumerate()
    {
        history.take(TRAINER, line(t as f64, record));
    }
    assert_eq!(curve(&history, "cost"), [(100.0, 0.9), (300.0, 0.4)]);
    assert_eq!(curve(&history, "error"), [(200.0, 0.25)]);
    assert_eq!(history.passes.len(), 1);
    assert_eq!(history.samples_at(2.5), 100.0);
    assert_eq!(history.samples_at(9.0), 300.0);
}

#[test]
fn a_pass_is_news_again_when_its_test_comes_after_the_next_pass_began() {
    let mut history = History::default();
    let take = |history: &mut History, event| history.take(TRAINER, line(0.0, event));
    take(&mut history, start("a"));
    take(&mut history, pass_end(0, 20, 200));
    let seen = history.order();
    let Event::Batch(figures) = batch(0, 20, 200, 0.5) else {
        panic!("figures");
    };
    take(&mut history, Event::Tested(figures));
    assert!(
        history.passes[0].order > seen,
        "the page asks for what is newer"
    );
    let seen = history.order();
    let second = RecordSource::Process(1, Role::Trainer);
    history.take(second, line(0.0, pass_end(0, 20, 200)));
    assert!(history.passes[0].order > seen, "samples are those of all");
}

#[test]
fn what_a_roll_back_undid_is_not_shown() {
    let mut history = History::default();
    let records = [
        start("a"),
        Event::PassStarted { pass: 0, batch: 0 },
        batch(0, 10, 100, 0.9),
        batch(0, 20, 200, 0.8),
        batch(0, 30, 300, 0.7),
        Event::RolledBack { pass: 0, batch: 20 },
        Event::PassStarted { pass: 0, batch: 20 },
        batch(0, 30, 100, 0.75),
    ];
    for record in records {
        history.take(TRAINER, line(1.0, record));
    }
    assert_eq!(
        curve(&history, "cost"),
        [(100.0, 0.9), (200.0, 0.8), (300.0, 0.75)]
    );
    assert_eq!(history.marks[0].kind, MarkKind::RolledBack);
}

#[test]
fn a_restart_counts_and_another_run_begins_anew() {
    let mut history = History::default();
    for record in [
        start("a"),
        Event::PassStarted { pass: 0, batch: 0 },
        batch(0, 10, 100, 0.9),
        start("a"),
    ] {
        history.take(TRAINER, line(1.0, record));
    }
    assert_eq!(history.processes[&(0, Role::Trainer)].restarts(), 1);
    assert_eq!(history.marks.len(), 1);
    history.take(TRAINER, line(2.0, start("b")));
    assert_eq!(history.processes[&(0, Role::Trainer)].restarts(), 0);
    assert!(history.marks.is_empty() && curve(&history, "cost").is_empty());
}

#[test]
fn what_all_processes_tell_is_shown_once() {
    let mut history = History::default();
    for node in 0..3 {
        let source = RecordSource::Process(node, Role::Pserver);
        history.take(source, line(5.0, Event::Snapshot { step: 40 }));
        let tables = vec![TableSize {
            name: "emb".into(),
            rows: 10,
            bytes: 1000,
        }];
        history.take(source, line(6.0, Event::Tables { tables }));
    }
    assert_eq!(history.marks.len(), 1);
    assert_eq!(history.tables["emb"].bytes, 3000);
    assert_eq!(
        history.tables["emb"].rows.points().last().unwrap().value,
        30.0
    );
}

#[test]
fn the_runner_tells_of_deaths_and_of_the_end() {
    let mut history = History::default();
    let died = Event::Process {
        role: Role::Trainer,
        node: 2,
        what: ProcessChange::Died,
        restarts: 0,
        text: "was ended by SIGKILL".into(),
    };
    history.take(RecordSource::Runner, line(1.0, died));
    let end = Event::JobEnd {
        outcome: JobOutcome::Failed,
        text: "no".into(),
    };
    history.take(RecordSource::Runner, line(2.0, end));
    assert_eq!(history.marks[0].text, "trainer 2 was ended by SIGKILL");
    assert_eq!(history.marks[1].text, "the job failed: no");
    assert!(matches!(history.end, Some((_, JobOutcome::Failed, _))));
}

fn run(name: &str, nodes: u32) -> Event {
    Event::Run(Run {
        run: name.to_owned(),
        nodes,
        ..Run::default()
    })
}

fn job_end(outcome: JobOutcome) -> Event {
    Event::JobEnd {
        outcome,
        text: String::new(),
    }
}

#[test]
fn a_run_that_does_not_resume_counts_nothing_of_the_run_before_it() {
    let mut history = History::default();
    let died = Event::Process {
        role: Role::Trainer,
        node: 1,
        what: ProcessChange::Died,
        restarts: 0,
        text: "exited with code 1".into(),
    };
    // A runner's file is read before those of its processes.
    for (t, event) in [
        (1.0, run("a", 2)),
        (2.0, died),
        (3.0, job_end(JobOutcome::Failed)),
        (200.0, run("b", 1)),
        (203.0, job_end(JobOutcome::Finished)),
    ] {
        history.take(RecordSource::Runner, line(t, event));
    }
    let second = RecordSource::Process(1, Role::Trainer);
    history.take(second, line(1.5, start("a")));
    history.take(second, line(1.6, batch(0, 10, 100, 0.9)));
    history.take(TRAINER, line(1.5, start("a")));
    history.take(TRAINER, line(1.6, batch(0, 10, 100, 0.9)));
    history.take(TRAINER, line(201.0, start("b")));
    history.take(TRAINER, line(202.0, batch(0, 10, 100, 0.7)));
    assert_eq!((history.began, history.last), (Some(200.0), Some(203.0)));
    let processes: Vec<_> = history.processes.keys().copied().collect();
    assert_eq!(processes, [(0, Role::Trainer)]);
    assert_eq!(curve(&history, "cost"), [(100.0, 0.7)]);
    assert_eq!(history.marks.len(), 1, "{:?}", history.marks);
    assert_eq!(history.replaced(), 1);
}

#[test]
fn a_training_without_a_runner_replaces_the_run_before_it() {
    let mut history = History::default();
    let runner = RecordSource::Runner;
    history.take(runner, line(1.0, run("a", 2)));
    history.take(runner, line(3.0, job_end(JobOutcome::Finished)));
    history.take(TRAINER, line(2.0, start("a")));
    history.take(TRAINER, line(2.5, batch(0, 10, 100, 0.9)));
    history.take(TRAINER, line(9.0, start("by hand")));
    history.take(TRAINER, line(9.5, batch(0, 10, 50, 0.5)));
    assert_eq!(curve(&history, "cost"), [(50.0, 0.5)]);
    assert!(history.run.is_none() && history.end.is_none());
    assert_eq!(history.began, Some(9.0));
}

#[test]
fn a_run_that_resumes_keeps_what_was_trained() {
    let mut history = History::default();
    let runner = RecordSource::Runner;
    history.take(runner, line(1.0, run("a", 1)));
    history.take(TRAINER, line(1.5, start("a")));
    history.take(TRAINER, line(2.0, batch(0, 10, 100, 0.9)));
    history.take(runner, line(3.0, job_end(JobOutcome::Interrupted)));
    history.take(runner, line(9.0, run("a", 1)));
    assert!(history.end.is_none());
    assert_eq!((history.began, history.replaced()), (Some(1.0), 0));
    assert_eq!(curve(&history, "cost"), [(100.0, 0.9)]);
}

#[test]
fn the_figures_of_a_pass_are_those_of_all_its_samples() {
    let mut history = History::default();
    let done = |samples, cost| Event::PassFinished {
        figures: Figures {
            samples,
            cost: Some(cost),
            evaluators: EvaluatorValues::from([("error".to_owned(), cost / 4.0)]),
            ..Figures::default()
        },
        seconds: 1.0,
        waited: 0.0,
    };
    history.take(TRAINER, line(1.0, done(300, 0.4)));
    let second = RecordSource::Process(1, Role::Trainer);
    history.take(second, line(1.0, done(100, 0.8)));
    let whole = history.figures_of(0);
    assert!((whole.cost.unwrap() - 0.5).abs() < 1e-12);
    assert!((whole.evaluators["error"] - 0.125).abs() < 1e-12);
    assert_eq!((whole.samples, history.figures_of(1).cost), (400, None));
}

#[test]
fn a_run_that_continues_after_passes_of_another_keeps_them() {
    let run = |name: &str, first_pass: Option<u64>| {
        Event::Run(Run {
            run: name.to_owned(),
            first_pass,
            ..Run::default()
        })
    };
    let begin = |name: &str, first: u64| {
        let Event::Start(mut start) = start(name) else {
            panic!("a start");
        };
        start.first_pass = (first > 0).then_some(first);
        Event::Start(start)
    };
    let first = [
        begin("a", 0),
        Event::PassStarted { pass: 0, batch: 0 },
        batch(0, 10, 100, 0.9),
        pass_end(0, 20, 200),
        Event::PassStarted { pass: 1, batch: 0 },
        batch(1, 10, 100, 0.8),
        pass_end(1, 20, 200),
    ];
    // The second run repeats pass 1.
    let second = [
        begin("b", 1),
        Event::PassStarted { pass: 1, batch: 0 },
        batch(1, 10, 100, 0.4),
        pass_end(1, 20, 200),
    ];
    let mut live = History::default();
    live.take(RecordSource::Runner, line(0.0, run("a", None)));
    for (t, event) in (0..).zip(first.clone()) {
        live.take(TRAINER, line(f64::from(t), event));
    }
    live.take(RecordSource::Runner, line(100.0, run("b", Some(1))));
    for (t, event) in (100..).zip(second.clone()) {
        live.take(TRAINER, line(f64::from(t), event));
    }
    // Whoever looks later reads the runner's record first.
    let mut late = History::default();
    late.take(RecordSource::Runner, line(0.0, run("a", None)));
    late.take(RecordSource::Runner, line(100.0, run("b", Some(1))));
    for (t, event) in (0..).zip(first).chain((100..).zip(second)) {
        late.take(TRAINER, line(f64::from(t), event));
    }
    for history in [&live, &late] {
        let points = [(100.0, 0.9), (300.0, 0.4)];
        assert_eq!(curve(history, "cost"), points);
        let passes: Vec<u64> = history.passes.iter().map(|p| p.figures.pass).collect();
        assert_eq!(passes, [0, 1]);
        assert_eq!(history.samples(), 300.0);
        assert_eq!(history.processes[&(0, Role::Trainer)].starts, 1);
    }
    assert_eq!(live.took(), Some(9.0), "without the 94 s between the runs");
    let mut anew = late;
    anew.take(RecordSource::Runner, line(200.0, run("c", None)));
    anew.take(TRAINER, line(200.0, begin("c", 0)));
    assert_eq!((anew.passes.len(), anew.samples()), (0, 0.0));
}
