//! A small job for tests: servers and trainers as threads, and the same job computed in one thread.
#![allow(dead_code, reason = "each test file uses a part of this")]
#![allow(clippy::print_stderr, reason = "SHOW=1 shows what servers say")]

pub(crate) mod authority;
pub(crate) mod lives;

use optim::{Initial, ParameterProgress, Rule};
use pserver::bench::keys::BenchKeys;
use pserver::{Server, ServerConfig};
use std::collections::BTreeMap;
use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::tls::{ClientTls, SERVER_NAME, ServerTls};
use wire::{
    Encoding, Error, JobSpec, Mode, ResumePoint, RowRequest, ServerAddress, Session, SessionConfig,
    SessionTiming, TableId, TableSpec, Token, TrainerId, View,
};

pub(crate) const LOCALHOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// A job: how many of everything, and how much data each trainer has.
#[derive(Clone)]
pub(crate) struct Job {
    pub servers: u32,
    pub ports: u32,
    pub sparse_ports: u32,
    pub batches: Vec<u64>,
    pub passes: u64,
    pub tables: Vec<(TableSpec, Rule, Initial)>,
    pub snapshot_every: u64,
    pub origin: Option<wire::spec::Origin>,
    pub mode: Mode,
    pub encoding: Encoding,
    pub local_sockets: bool,
    /// The keys of both ends, for TLS.
    pub keys: Option<BenchKeys>,
    pub name: String,
}

pub(crate) fn table(
    name: &str,
    rows: u64,
    cols: u32,
    sparse: bool,
    rule: Rule,
) -> (TableSpec, Rule, Initial) {
    let initial = Initial {
        distribution: optim::Distribution::Normal {
            mean: 0.1,
            std: 0.5,
        },
        seed: optim::init::seed(7, name),
    };
    let spec = TableSpec {
        name: name.to_owned(),
        rows,
        cols,
        sparse,
        rule: serde_json::to_string(&rule).unwrap(),
        initial: serde_json::to_string(&initial).unwrap(),
        values: None,
    };
    (spec, rule, initial)
}

pub(crate) fn adam() -> Rule {
    let method = optim::Method::Adam {
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-8,
    };
    Rule {
        method,
        l2: 0.01,
        ..Rule::sgd(0.05)
    }
}

pub(crate) fn momentum() -> Rule {
    Rule {
        momentum: 0.9,
        l1: 0.001,
        ..Rule::sgd(0.02)
    }
}

pub(crate) fn adagrad() -> Rule {
    Rule {
        method: optim::Method::AdaGrad { epsilon: 1e-6 },
        ..Rule::sgd(0.1)
    }
}

impl Job {
    pub(crate) fn new(batches: &[u64]) -> Self {
        Self {
            servers: 2,
            ports: 1,
            sparse_ports: 0,
            batches: batches.to_vec(),
            passes: 2,
            tables: vec![
                table("w", 70, 50, false, adam()),
                table("bias", 1, 3, false, momentum()),
                table("emb", 5000, 4, true, adagrad()),
            ],
            snapshot_every: 0,
            origin: None,
            mode: Mode::Sync,
            encoding: Encoding::F32,
            local_sockets: false,
            keys: None,
            name: "job".to_owned(),
        }
    }

    pub(crate) fn spec(&self) -> JobSpec {
        JobSpec {
            job: self.name.clone(),
            mode: self.mode,
            snapshot_every: self.snapshot_every,
            first_pass: 0,
            origin: self.origin.clone(),
            tables: self
                .tables
                .iter()
                .map(|(spec, _, _)| spec.clone())
                .collect(),
        }
    }

    pub(crate) fn server_config(&self, port: u16, snapshots: Option<PathBuf>) -> ServerConfig {
        ServerConfig {
            addresses: vec![LOCALHOST],
            port,
            ports: self.ports,
            sparse_ports: self.sparse_ports,
            trainers: self.batches.len() as u32,
            token: token(),
            tls: self
                .keys
                .as_ref()
                .map(|keys| ServerTls::new(&keys.identity, Some(&keys.authority)).unwrap()),
            snapshots,
            flush: pserver::snapshot::Flush::default(),
            silence: Duration::from_secs(3),
            stall: Duration::from_secs(60),
            log_period: 0,
            local_sockets: self.local_sockets,
        }
    }

    pub(crate) fn client_config(&self, trainer: u32, bases: &[u16]) -> SessionConfig {
        SessionConfig {
            servers: bases
                .iter()
                .map(|port| ServerAddress {
                    host: "127.0.0.1".to_owned(),
                    port: *port,
                })
                .collect(),
            ports: self.ports,
            sparse_ports: self.sparse_ports,
            trainer: TrainerId(trainer),
            trainers: self.batches.len() as u32,
            token: token(),
            tls: self.keys.as_ref().map(|keys| {
                ClientTls::new(&keys.authority, SERVER_NAME, Some(&keys.identity)).unwrap()
            }),
            encoding: self.encoding,
            local_sockets: self.local_sockets,
            timing: timing(),
            addresses: None,
            saves: None,
            watch: wire::Watch::default(),
            fresh: false,
        }
    }

    pub(crate) fn start(&self, snapshots: Option<&std::path::Path>) -> Cluster {
        let mut servers = Vec::new();
        let mut bases = Vec::new();
        for index in 0..self.servers {
            let directory = snapshots.map(|root| root.join(format!("private-{index}")));
            let (server, base) = self.start_server(directory);
            servers.push(Some(server));
            bases.push(base);
        }
        Cluster { servers, bases }
    }

    /// Why the servers refuse to open the job.
    pub(crate) fn refused(&self) -> String {
        let cluster = self.start(None);
        match Session::connect(self.client_config(0, &cluster.bases), self.spec()) {
            Ok(_) => panic!("the job is not refused"),
            Err(error) => error.to_string(),
        }
    }

    pub(crate) fn start_server(&self, snapshots: Option<PathBuf>) -> (Server, u16) {
        self.start_changed_server(|config| config.snapshots.clone_from(&snapshots))
    }

    /// For tests that send no heartbeats.
    pub(crate) fn start_patient_server(&self) -> (Server, u16) {
        self.start_changed_server(|config| config.silence = Duration::from_secs(180))
    }

    fn start_changed_server(&self, change: impl Fn(&mut ServerConfig)) -> (Server, u16) {
        for _ in 0..50 {
            let base = free_ports(self.ports + self.sparse_ports);
            let mut config = self.server_config(base, None);
            change(&mut config);
            if let Ok(server) = Server::start(config, quiet()) {
                return (server, base);
            }
        }
        panic!("no free ports");
    }

    /// Runs all trainers to the end; returns the model as trainer 0 downloads it.
    pub(crate) fn run(&self, cluster: &Cluster) -> Model {
        let threads: Vec<_> = (0..self.batches.len() as u32)
            .map(|trainer| {
                let (job, config) = (self.clone(), self.client_config(trainer, &cluster.bases));
                std::thread::spawn(move || Trainer::new(job, config).train())
            })
            .collect();
        let models: Vec<Model> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap().unwrap())
            .collect();
        models.into_iter().next().unwrap()
    }

    /// The rows of sparse table `table` that a trainer touches in a batch, ascending.
    pub(crate) fn rows(&self, table: usize, trainer: u32, pass: u64, batch: u64) -> Vec<u32> {
        let rows = self.tables[table].0.rows;
        let mut ids: Vec<u32> = (0..40)
            .map(|i| {
                (noise(&[table as u64, u64::from(trainer), pass, batch, i]) % rows.min(900)) as u32
            })
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// A gradient that depends on the values, so that a wrong value shows in all that follow.
    pub(crate) fn gradient(&self, values: &[f32], key: &[u64]) -> Vec<f32> {
        let base = noise(key);
        values
            .iter()
            .enumerate()
            .map(|(i, value)| value * 0.3 + (noise(&[base, i as u64]) % 2001) as f32 / 1000.0 - 1.0)
            .collect()
    }

    pub(crate) fn samples(&self, trainer: u32, batch: u64) -> u64 {
        10 + u64::from(trainer) + batch
    }

    /// The same job in one thread: trainers in order, the first gradient copied, the others added.
    pub(crate) fn local(&self) -> Model {
        let mut tables: Vec<Local> = self.tables.iter().map(Local::new).collect();
        for pass in 0..self.passes {
            let longest = self.batches.iter().copied().max().unwrap();
            for batch in 0..longest {
                let active: Vec<u32> = (0..self.batches.len() as u32)
                    .filter(|t| batch < self.batches[*t as usize])
                    .collect();
                let samples = active.iter().map(|t| self.samples(*t, batch)).sum();
                for (at, table) in tables.iter_mut().enumerate() {
                    table.step(self, at, &active, pass, batch, samples);
                }
            }
            for table in &mut tables {
                table.rule.finish_pass(&mut table.progress);
                table.rule.start_pass(&mut table.progress, pass + 1);
            }
        }
        tables.iter().map(Local::values).collect()
    }
}

/// All values of all tables.
pub(crate) type Model = Vec<Vec<f32>>;

/// Fails with the first difference, if the models are not the same bytes.
#[track_caller]
pub(crate) fn same(got: &Model, wanted: &Model) {
    assert_eq!(got.len(), wanted.len(), "number of tables");
    for (table, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        assert_eq!(got.len(), wanted.len(), "length of table {table}");
        let differ = got
            .iter()
            .zip(wanted)
            .filter(|(a, b)| a.to_bits() != b.to_bits())
            .count();
        let first = got
            .iter()
            .zip(wanted)
            .position(|(a, b)| a.to_bits() != b.to_bits());
        assert_eq!(
            first,
            None,
            "table {table}: {differ} of {} values differ",
            got.len()
        );
    }
}

pub(crate) struct Cluster {
    pub servers: Vec<Option<Server>>,
    pub bases: Vec<u16>,
}

pub(crate) fn token() -> Token {
    Token::new(b"the token of the tests").unwrap()
}

pub(crate) fn quiet() -> pserver::ServerLog {
    let show = std::env::var_os("SHOW").is_some();
    Arc::new(move |level, text| {
        if show {
            eprintln!("{level:?} {text}");
        }
    })
}

pub(crate) fn timing() -> SessionTiming {
    SessionTiming {
        heartbeat: Duration::from_millis(50),
        silence: Duration::from_secs(3),
        dial: Duration::from_secs(2),
        join: Duration::from_secs(60),
        stall: Duration::from_secs(60),
    }
}

pub(crate) fn noise(key: &[u64]) -> u64 {
    key.iter().fold(0x9e37_79b9_7f4a_7c15, |hash, part| {
        let mut x = (hash ^ part).wrapping_mul(0xff51_afd7_ed55_8ccd);
        x ^= x >> 33;
        x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        x ^ (x >> 29)
    })
}

static NEXT_PORT: Mutex<u16> = Mutex::new(0);

/// The first of `count` neighbouring free ports, below the range that the system gives to clients.
pub(crate) fn free_ports(count: u32) -> u16 {
    let mut next = NEXT_PORT.lock().unwrap();
    if *next == 0 {
        *next = 11_000 + (std::process::id() % 400) as u16 * 50;
    }
    loop {
        let base = *next;
        *next = if base > 31_000 {
            11_000
        } else {
            base + count as u16
        };
        if (0..count as u16).all(|i| TcpListener::bind((LOCALHOST, base + i)).is_ok()) {
            return base;
        }
    }
}

/// A trainer of the job, as a real one would be written.
pub(crate) struct Trainer {
    pub job: Job,
    config: SessionConfig,
    values: Model,
    /// Called after each batch: (pass, batch).
    pub after_batch: Box<dyn FnMut(u64, u64) + Send>,
    /// Called when all passes are done.
    pub before_close: Box<dyn FnMut(&mut Session) + Send>,
    pub rollbacks: u32,
    /// Why it was rolled back.
    pub reasons: Vec<String>,
}

impl Trainer {
    pub(crate) fn new(job: Job, config: SessionConfig) -> Self {
        let values = job
            .tables
            .iter()
            .map(|(spec, _, _)| vec![0.0; if spec.sparse { 0 } else { spec.len() as usize }]);
        Self {
            values: values.collect(),
            job,
            config,
            after_batch: Box::new(|_, _| {}),
            before_close: Box::new(|_| {}),
            rollbacks: 0,
            reasons: Vec::new(),
        }
    }

    pub(crate) fn train(&mut self) -> Result<Model, Error> {
        let (mut session, mut position) = Session::connect(self.config.clone(), self.job.spec())?;
        loop {
            match self.from(&mut session, position) {
                Ok(model) => return Ok(model),
                Err(Error::RolledBack {
                    position: back,
                    reason,
                }) => {
                    self.reasons.push(reason);
                    self.rollbacks += 1;
                    position = back;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn from(&mut self, session: &mut Session, position: ResumePoint) -> Result<Model, Error> {
        let mut pass = position.pass;
        let mut batch = position.batch;
        session.pull_dense(&mut targets(&self.job, &mut self.values), View::Training)?;
        while pass < self.job.passes {
            let me = self.config.trainer.0;
            while batch < self.job.batches[me as usize] {
                self.batch(session, pass, batch)?;
                (self.after_batch)(pass, batch);
                batch += 1;
            }
            session.finish_pass()?;
            pass = session.end_pass()?;
            batch = 0;
            session.pull_dense(&mut targets(&self.job, &mut self.values), View::Current)?;
        }
        let model = self.download(session)?;
        (self.before_close)(session);
        session.close()?;
        Ok(model)
    }

    fn batch(&mut self, session: &mut Session, pass: u64, batch: u64) -> Result<(), Error> {
        let me = self.config.trainer.0;
        let job = self.job.clone();
        session.start_batch(job.samples(me, batch));
        for (at, (spec, _, _)) in job.tables.iter().enumerate() {
            let table = TableId(at as u32);
            let key = [at as u64, u64::from(me), pass, batch];
            if spec.sparse {
                let ids = job.rows(at, me, pass, batch);
                let mut rows = Vec::new();
                session.pull_rows(&mut [RowRequest {
                    table,
                    ids: &ids,
                    values: &mut rows,
                }])?;
                let gradient = job.gradient(&rows, &key);
                session.push_rows(table, &ids, &gradient)?;
            } else {
                let gradient = job.gradient(&self.values[at], &key);
                session.push_dense(table, &gradient, None)?;
            }
        }
        session.finish_batch(1.0)?;
        session.wait_values(&mut targets(&job, &mut self.values))
    }

    pub(crate) fn download(&mut self, session: &mut Session) -> Result<Model, Error> {
        let mut model = self.values.clone();
        for (at, (spec, _, _)) in self.job.tables.iter().enumerate() {
            if spec.sparse {
                let values = &mut model[at];
                session.download(TableId(at as u32), View::Current, &mut |_, rows| {
                    values.extend_from_slice(rows)
                })?;
            }
        }
        Ok(model)
    }
}

fn targets<'a>(job: &Job, values: &'a mut Model) -> Vec<(TableId, &'a mut [f32])> {
    values
        .iter_mut()
        .enumerate()
        .filter(|(at, _)| !job.tables[*at].0.sparse)
        .map(|(at, values)| (TableId(at as u32), values.as_mut_slice()))
        .collect()
}

struct Local {
    spec: TableSpec,
    rule: Rule,
    initial: Initial,
    progress: ParameterProgress,
    values: Vec<f32>,
    state: Vec<f32>,
    rows: BTreeMap<u32, (Vec<f32>, u32)>,
}

impl Local {
    fn new((spec, rule, initial): &(TableSpec, Rule, Initial)) -> Self {
        let mut values = Vec::new();
        if !spec.sparse {
            let mut row = vec![0.0; spec.cols as usize];
            for at in 0..spec.rows {
                initial.fill(at, &mut row);
                values.extend_from_slice(&row);
            }
        }
        Self {
            state: vec![0.0; values.len() * rule.slots()],
            values,
            spec: spec.clone(),
            rule: rule.clone(),
            initial: *initial,
            progress: ParameterProgress::default(),
            rows: BTreeMap::new(),
        }
    }

    fn row(&mut self, id: u32) -> &mut (Vec<f32>, u32) {
        let (cols, slots, initial) = (self.spec.cols as usize, self.rule.slots(), self.initial);
        self.rows.entry(id).or_insert_with(|| {
            let mut row = vec![0.0; cols * (1 + slots)];
            initial.fill(u64::from(id), &mut row[..cols]);
            (row, 0)
        })
    }

    fn step(&mut self, job: &Job, at: usize, active: &[u32], pass: u64, batch: u64, samples: u64) {
        let key = |t: u32| [at as u64, u64::from(t), pass, batch];
        if !self.spec.sparse {
            let mut sum: Option<Vec<f32>> = None;
            for trainer in active {
                let gradient = job.gradient(&self.values, &key(*trainer));
                match &mut sum {
                    None => sum = Some(gradient),
                    Some(sum) => sum.iter_mut().zip(gradient).for_each(|(s, g)| *s += g),
                }
            }
            let step = self.rule.begin(&mut self.progress, samples);
            self.rule
                .update(&step, &mut self.values, &mut self.state, &sum.unwrap());
            return;
        }
        let cols = self.spec.cols as usize;
        let mut sums: BTreeMap<u32, Vec<f32>> = BTreeMap::new();
        for trainer in active {
            let ids = job.rows(at, *trainer, pass, batch);
            let mut values = Vec::new();
            for id in &ids {
                let (rule, progress) = (self.rule.clone(), self.progress.clone());
                let (row, last) = self.row(*id);
                rule.catch_up(&progress, row, last);
                values.extend_from_slice(&row[..cols]);
            }
            let gradient = job.gradient(&values, &key(*trainer));
            for (id, part) in ids.iter().zip(gradient.chunks(cols)) {
                match sums.get_mut(id) {
                    None => {
                        sums.insert(*id, part.to_vec());
                    }
                    Some(sum) => sum.iter_mut().zip(part).for_each(|(s, g)| *s += g),
                }
            }
        }
        let step = self.rule.begin(&mut self.progress, samples);
        for (id, sum) in sums {
            let rule = self.rule.clone();
            let (row, last) = self.row(id);
            rule.update_row(&step, row, last, &sum);
        }
    }

    fn values(&self) -> Vec<f32> {
        if !self.spec.sparse {
            return self.values.clone();
        }
        let cols = self.spec.cols as usize;
        let mut all = Vec::new();
        for id in 0..self.spec.rows as u32 {
            let (mut row, mut last) = self.rows.get(&id).cloned().unwrap_or_else(|| {
                let mut row = vec![0.0; cols * (1 + self.rule.slots())];
                self.initial.fill(u64::from(id), &mut row[..cols]);
                (row, 0)
            });
            self.rule.catch_up(&self.progress, &mut row, &mut last);
            all.extend_from_slice(&row[..cols]);
        }
        all
    }
}
