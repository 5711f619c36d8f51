//! Heartbeats: a thread for each server. They notice that a server is silent, has ended the epoch or has failed,
//! and then cut the data connections, so that a call that waits on one ends at once.

use super::link::Dialer;
use crate::channel::{Channel, ChannelError};
use crate::frame::Kind;
use crate::ids::{Epoch, Step};
use crate::message::Heartbeat;
use crate::order::{self, Orders};
use crate::recovery::{Phase, Report, stable};
use crate::status::Status;
use crate::stream::Stopper;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two heartbeats of a trainer that waits to be let in.
const EAGER: Duration = Duration::from_millis(5);

/// What the pulse threads and the session share.
#[derive(Debug)]
struct State {
    at: Epoch,
    reports: Vec<Report>,
    versions: u64,
    broken: Option<String>,
    failed: Option<String>,
    status: Status,
    stoppers: Vec<Stopper>,
    waits_for: String,
    stopping: bool,
    orders: Orders,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    dialer: Arc<Dialer>,
    begun: Instant,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The heartbeat threads of a session.
#[derive(Debug)]
pub(super) struct Pulses {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Lets other threads look at a session.
#[derive(Debug, Clone)]
pub struct Watch(Arc<Shared>);

impl Watch {
    /// Whom this trainer or the servers wait for; empty while nothing waits.
    pub fn waits_for(&self) -> String {
        let state = self.0.lock();
        if !state.waits_for.is_empty() {
            return state.waits_for.clone();
        }
        let sentences = state.reports.iter().map(|report| &report.status.waits_for);
        sentences
            .max_by_key(|text| text.len())
            .cloned()
            .unwrap_or_default()
    }

    /// The newest status of every server, in the order of the list.
    pub fn servers(&self) -> Vec<Status> {
        self.0
            .lock()
            .reports
            .iter()
            .map(|report| report.status.clone())
            .collect()
    }
}

impl Pulses {
    /// No threads yet.
    pub(super) fn none(dialer: &Arc<Dialer>) -> Self {
        Self::start(dialer, Vec::new(), Status::default())
    }

    /// Takes over greeted pulse connections, one a server.
    pub(super) fn start(
        dialer: &Arc<Dialer>,
        channels: Vec<(Channel, Report)>,
        status: Status,
    ) -> Self {
        let (channels, reports): (Vec<_>, Vec<_>) = channels.into_iter().unzip();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                at: Epoch(0),
                reports,
                versions: 0,
                broken: None,
                failed: None,
                status,
                stoppers: Vec::new(),
                waits_for: String::new(),
                stopping: false,
                orders: Orders::default(),
            }),
            changed: Condvar::new(),
            dialer: dialer.clone(),
            begun: Instant::now(),
        });
        let threads = channels
            .into_iter()
            .enumerate()
            .map(|(server, channel)| {
                let shared = shared.clone();
                std::thread::spawn(move || beat(&shared, server, channel))
            })
            .collect();
        Self { shared, threads }
    }

    pub(super) fn watch(&self) -> Watch {
        Watch(self.shared.clone())
    }

    pub(super) fn status(&self) -> Status {
        self.shared.lock().status.clone()
    }

    pub(super) fn set_status(&self, status: Status) {
        self.shared.lock().status = status;
    }

    pub(super) fn set_waits_for(&self, text: String) {
        self.shared.lock().waits_for = text;
    }

    /// What the threads found wrong.
    pub(super) fn reason(&self) -> Option<String> {
        self.shared.lock().broken.clone()
    }

    /// The failure of the job, if a server told one.
    pub(super) fn failed(&self) -> Option<String> {
        self.shared.lock().failed.clone()
    }

    /// The newest reports.
    pub(super) fn reports(&self) -> Vec<Report> {
        self.shared.lock().reports.clone()
    }

    /// If this trainer is to order a snapshot with the batch that it ends now: the newest step of any server.
    pub(super) fn order(&self) -> Option<Step> {
        let mut state = self.shared.lock();
        let wish = order::wish(&state.reports);
        let now = self.shared.begun.elapsed().as_millis() as u64;
        let trainer = self.shared.dialer.config.trainer;
        let newest = state.reports.iter().map(|report| report.status.step).max();
        let due = state.orders.due(trainer, wish, now);
        due.then(|| Step(newest.unwrap_or(0)))
    }

    /// Waits until a report came since the last call or the time is over.
    pub(super) fn wait_news(&self, seen: &mut u64, limit: Duration) {
        let state = self.shared.lock();
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(state, limit, |s| s.versions == *seen && s.broken.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        *seen = state.versions;
    }

    /// From now on the trainer runs in `epoch`, over connections that these handles can cut.
    pub(super) fn enter(&self, epoch: Epoch, stoppers: Vec<Stopper>) {
        let mut state = self.shared.lock();
        state.at = epoch;
        state.stoppers = stoppers;
        self.shared.changed.notify_all();
        if state.broken.is_some() {
            state.stoppers.iter().for_each(Stopper::stop);
        }
    }

    /// Ends the threads; the servers see the connections close.
    pub(super) fn stop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A pulse thread has no result to lose.
            let _ = thread.join();
        }
    }
}

impl Drop for Pulses {
    fn drop(&mut self) {
        self.stop();
    }
}

fn beat(shared: &Shared, server: usize, mut channel: Channel) {
    let timing = shared.dialer.config.timing;
    loop {
        let message = {
            let state = shared.lock();
            if state.stopping {
                return;
            }
            Heartbeat {
                at: state.at,
                stable: newest_stable(&state),
                status: state.status.clone(),
            }
        };
        match exchange(&mut channel, &message) {
            Ok(report) => note(shared, server, report),
            Err(cause) => {
                let name = shared.dialer.server_name(server as u32);
                let text = super::error_chain(&cause);
                fault(
                    &mut shared.lock(),
                    shared,
                    format!("server {name} is lost ({text})"),
                );
                return;
            }
        }
        pause(shared, timing.heartbeat);
    }
}

fn newest_stable(state: &State) -> Option<Step> {
    stable(&state.reports)
}

fn exchange(channel: &mut Channel, message: &Heartbeat) -> Result<Report, ChannelError> {
    channel.send(Kind::Heartbeat, message)?;
    channel.expect(Kind::Report)
}

fn note(shared: &Shared, server: usize, report: Report) {
    let mut state = shared.lock();
    if report.phase == Phase::Failed {
        state.failed = Some(report.reason.clone());
        fault(&mut state, shared, report.reason.clone());
    } else if state.at != Epoch(0) && !running(&report, state.at) && report.phase != Phase::Finished
    {
        let reason = if report.reason.is_empty() {
            "the epoch has ended".to_owned()
        } else {
            report.reason.clone()
        };
        fault(&mut state, shared, reason);
    }
    state.reports[server] = report;
    state.versions += 1;
    shared.changed.notify_all();
}

fn running(report: &Report, epoch: Epoch) -> bool {
    report.phase == Phase::Running && report.epoch == epoch
}

fn fault(state: &mut State, shared: &Shared, reason: String) {
    if state.broken.is_none() {
        state.broken = Some(reason);
    }
    state.stoppers.iter().for_each(Stopper::stop);
    shared.changed.notify_all();
}

/// Sleeps until the next heartbeat is due. A trainer that waits to be let in asks often, for quick starts.
fn pause(shared: &Shared, heartbeat: Duration) {
    let begun = Instant::now();
    let mut state = shared.lock();
    let at = state.at;
    loop {
        let period = if state.at == Epoch(0) {
            EAGER.min(heartbeat)
        } else {
            heartbeat
        };
        let spent = begun.elapsed();
        if state.stopping || state.at != at || spent >= period {
            return;
        }
        (state, _) = shared
            .changed
            .wait_timeout(state, period - spent)
            .unwrap_or_else(PoisonError::into_inner);
    }
}
