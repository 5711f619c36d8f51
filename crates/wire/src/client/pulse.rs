//! Heartbeats: one thread for all servers. It detects that a server is silent, has ended the generation or has failed,
//! and then cuts the data connections, so that a call that waits on one ends immediately.

use super::config::SessionTiming;
use super::link::Dialer;
use crate::bell::Bell;
use crate::channel::Channel;
use crate::frame::FrameKind;
use crate::ids::{Generation, Step};
use crate::lines::{LineWatch, LostBytes};
use crate::message::Heartbeat;
use crate::order::{self, Orders};
use crate::recovery::{ServerReport, dead, held, stable};
use crate::status::PeerStatus;
use crate::stream::{ByteMeter, Stopper};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use words::lock::{Condvar, Mutex, MutexGuard};
use words::status::Phase;

/// Between two heartbeats of a trainer that waits to be admitted, with up to [`CROWD`] trainers.
const EAGER: Duration = Duration::from_millis(5);
/// With more trainers, each sends less often, so that a server does not hear more of them.
const CROWD: u32 = 8;

/// A server that has not replied for so many heartbeats is waited for.
const QUIET: u32 = 3;

/// Between two heartbeats while a snapshot is wanted or was just completed.
const HURRIED: Duration = Duration::from_millis(20);

fn eager(trainers: u32, heartbeat: Duration) -> Duration {
    (EAGER * trainers.max(CROWD) / CROWD).min(heartbeat)
}

/// With more trainers than this, each sends fewer heartbeats, so that a server does not hear more of them.
const MANY: u32 = 64;

/// Between two heartbeats of a trainer that trains. Several fit into the silence after which a process counts as lost.
fn steady(trainers: u32, timing: &SessionTiming) -> Duration {
    let paced = timing.heartbeat * trainers.max(MANY) / MANY;
    paced.min(timing.silence / 6).max(timing.heartbeat)
}

/// What the pulse thread and the session share.
#[derive(Debug)]
struct State {
    at: Generation,
    reports: Vec<ServerReport>,
    /// When each report arrived.
    heard: Vec<Instant>,
    versions: u64,
    broken: Option<String>,
    failed: Option<String>,
    status: PeerStatus,
    /// The data connections, those of each server one after another.
    lines: Vec<WatchedConnection>,
    waits_for: String,
    stopping: bool,
    orders: Orders,
}

/// A data connection, as the pulse thread sees it.
#[derive(Debug)]
pub(super) struct WatchedConnection {
    pub(super) stopper: Stopper,
    pub(super) meter: Arc<ByteMeter>,
    pub(super) watch: LineWatch,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    dialer: Arc<Dialer>,
    begun: Instant,
    /// Wakes the thread.
    bell: Option<Bell>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn ring(&self) {
        self.bell.iter().for_each(Bell::ring);
    }
}

/// The heartbeats of a session.
#[derive(Debug)]
pub(super) struct Pulses {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Lets other threads observe a session, from before it has joined for the first time and through every recovery. Clones observe the same one.
#[derive(Debug, Clone, Default)]
pub struct Watch(Arc<Mutex<Option<Arc<Shared>>>>);

impl Watch {
    /// From now on, these heartbeats are the session's.
    fn follow(&self, shared: &Arc<Shared>) {
        *self.0.lock() = Some(shared.clone());
    }

    fn shared(&self) -> Option<Arc<Shared>> {
        self.0.lock().clone()
    }

    /// Whom this trainer or the servers wait for; empty while nothing waits.
    pub fn waits_for(&self) -> String {
        let Some(shared) = self.shared() else {
            return String::new();
        };
        let state = shared.lock();
        let servers = state.reports.iter().zip(&state.heard).enumerate();
        let servers = servers.map(|(server, (report, heard))| ServerNews {
            name: shared.dialer.server_name(server as u32),
            age: heard.elapsed(),
            waits_for: &report.status.waits_for,
        });
        let config = &shared.dialer.config;
        let quiet = steady(config.trainers, &config.timing) * QUIET;
        whom(&state.waits_for, servers.collect(), quiet)
    }
}

/// What a trainer knows of a server.
struct ServerNews<'a> {
    name: String,
    /// Since its last report.
    age: Duration,
    /// Whom it waited for then.
    waits_for: &'a str,
}

/// Whom a trainer waits for: what it says itself, while it joins; else a server that does not reply; else whom servers wait for. What a silent
/// server said last is not true any more: it may have waited for the very trainers that now wait for it.
fn whom(own: &str, servers: Vec<ServerNews>, quiet: Duration) -> String {
    if !own.is_empty() {
        return own.to_owned();
    }
    let silent = servers.iter().filter(|server| server.age > quiet);
    let silent: Vec<&str> = silent.map(|server| server.name.as_str()).collect();
    if !silent.is_empty() {
        let plural = if silent.len() > 1 { "s" } else { "" };
        return format!("waits for a reply of server{plural} {}", silent.join(", "));
    }
    let sentences = servers.iter().map(|server| server.waits_for);
    let longest = sentences.max_by_key(|text| text.len());
    longest.unwrap_or_default().to_owned()
}

impl Pulses {
    /// No threads yet.
    pub(super) fn none(dialer: &Arc<Dialer>) -> Self {
        Self::start(dialer, Vec::new(), PeerStatus::default(), "")
    }

    /// Takes over pulse connections after their handshake, one per server.
    pub(super) fn start(
        dialer: &Arc<Dialer>,
        channels: Vec<(Channel, ServerReport)>,
        status: PeerStatus,
        waits_for: &str,
    ) -> Self {
        let (channels, reports): (Vec<_>, Vec<_>) = channels.into_iter().unzip();
        let (bell, failed) = match Bell::new() {
            _ if channels.is_empty() => (None, None),
            Ok(bell) => (Some(bell), None),
            Err(cause) => (None, Some(cause)),
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                at: Generation(0),
                heard: vec![Instant::now(); reports.len()],
                reports,
                versions: 0,
                broken: None,
                failed: None,
                status,
                lines: Vec::new(),
                waits_for: waits_for.to_owned(),
                stopping: false,
                orders: Orders::default(),
            }),
            changed: Condvar::default(),
            dialer: dialer.clone(),
            begun: Instant::now(),
            bell,
        });
        dialer.config.watch.follow(&shared);
        let own = shared.clone();
        let spawn = || {
            std::thread::Builder::new()
                .name("pulse".to_owned())
                .spawn(move || beat(&own, channels))
        };
        let spawned = match failed {
            Some(cause) => Err(cause),
            None => shared.bell.as_ref().map(|_| spawn()).transpose(),
        };
        let thread = spawned.unwrap_or_else(|cause| {
            // Joining is tried again: the system may have room for a thread then.
            let text = format!("no thread for heartbeats can be started: {cause}");
            fault(&mut shared.lock(), &shared, text);
            None
        });
        Self { shared, thread }
    }

    pub(super) fn status(&self) -> PeerStatus {
        self.shared.lock().status.clone()
    }

    pub(super) fn set_waits_for(&self, text: String) {
        self.shared.lock().waits_for = text;
    }

    /// The loss that was detected.
    pub(super) fn reason(&self) -> Option<String> {
        self.shared.lock().broken.clone()
    }

    /// The failure of the job, if a server reported one.
    pub(super) fn failed(&self) -> Option<String> {
        self.shared.lock().failed.clone()
    }

    /// The newest reports.
    pub(super) fn reports(&self) -> Vec<ServerReport> {
        self.shared.lock().reports.clone()
    }

    /// If this trainer has to order a snapshot with the batch that it ends now: the newest step of any server.
    pub(super) fn order(&self) -> Option<Step> {
        let mut state = self.shared.lock();
        let wanted = order::wanted(&state.reports, self.shared.dialer.map.holders());
        let now = self.shared.begun.elapsed().as_millis() as u64;
        let trainer = self.shared.dialer.config.trainer;
        let newest = state.reports.iter().map(|report| report.status.step).max();
        let due = state.orders.due(trainer, wanted, now);
        due.then(|| Step(newest.unwrap_or(0)))
    }

    /// Waits until a report has arrived since the last call or the time is over.
    pub(super) fn wait_news(&self, seen: &mut u64, limit: Duration) {
        let state = self.shared.lock();
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(state, limit, |s| s.versions == *seen && s.broken.is_none());
        *seen = state.versions;
    }

    /// From now on the trainer runs in generation `epoch`, over these connections.
    pub(super) fn enter(&self, epoch: Generation, lines: Vec<WatchedConnection>) {
        let mut state = self.shared.lock();
        state.at = epoch;
        state.lines = lines;
        self.shared.changed.notify_all();
        self.shared.ring();
        if state.broken.is_some() {
            state.lines.iter().for_each(|line| line.stopper.stop());
        }
    }

    /// Ends the thread; the servers see the connections close.
    pub(super) fn stop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.changed.notify_all();
        self.shared.ring();
        // It has no result to lose.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Pulses {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The heartbeats to one server.
struct Pulse {
    server: usize,
    channel: Channel,
    /// When the last one was sent or, if its report has arrived, when that was.
    since: Instant,
    /// A report is due.
    asked: bool,
    /// The generation in the last heartbeat.
    at: Option<Generation>,
    /// The newest common snapshot in the last heartbeat.
    told: Option<Step>,
}

impl Pulse {
    /// How long until something is due: the next heartbeat, or, at the latest, the report to the last one.
    fn rest(&self, at: Generation, period: Duration, silence: Duration) -> Duration {
        let limit = match (self.asked, self.at == Some(at)) {
            (true, _) => silence,
            (false, true) => period,
            (false, false) => Duration::ZERO,
        };
        limit.saturating_sub(self.since.elapsed())
    }

    /// Sends a heartbeat, or gives a silent server up.
    fn act(&mut self, message: &Heartbeat) -> Result<(), String> {
        if self.asked {
            return Err("it is silent".to_owned());
        }
        let sent = self.channel.send(FrameKind::Heartbeat, message);
        sent.map_err(|cause| words::causes::chain(&cause))?;
        (self.asked, self.at, self.since) = (true, Some(message.at), Instant::now());
        self.told = message.stable;
        Ok(())
    }

    /// Receives a report.
    fn hear(&mut self) -> Result<ServerReport, String> {
        let report = self.channel.expect(FrameKind::Report);
        (self.asked, self.since) = (false, Instant::now());
        report.map_err(|cause| words::causes::chain(&cause))
    }
}

/// Sends heartbeats to all servers and notes their reports, until the session stops.
fn beat(shared: &Shared, channels: Vec<Channel>) {
    let Some(bell) = &shared.bell else {
        return;
    };
    let config = &shared.dialer.config;
    let timing = config.timing;
    let holders = shared.dialer.map.holders();
    let lose = |server: usize, text: &str| {
        let name = shared.dialer.server_name(server as u32);
        let text = format!("server {name} is lost ({text})");
        fault(&mut shared.lock(), shared, text);
    };
    let pulse = |(server, channel)| Pulse {
        server,
        channel,
        since: Instant::now(),
        asked: false,
        at: None,
        told: None,
    };
    let mut pulses: Vec<Pulse> = channels.into_iter().enumerate().map(pulse).collect();
    for pulse in &pulses {
        if let Err(cause) = bell.watch(pulse.channel.stream(), pulse.server as u64) {
            lose(
                pulse.server,
                &format!("its heartbeats cannot be waited for: {cause}"),
            );
        }
    }
    // Whether it continues.
    let goes_on = |pulse: &Pulse, done: Result<(), String>| {
        let Err(text) = done else {
            return true;
        };
        bell.forget(pulse.channel.stream());
        lose(pulse.server, &text);
        false
    };
    loop {
        let (message, is_wanted) = {
            let state = shared.lock();
            if state.stopping {
                return;
            }
            let message = Heartbeat {
                at: state.at,
                stable: stable(held(&state.reports, holders)),
                dead: dead(held(&state.reports, holders)),
                status: state.status.clone(),
            };
            (message, order::wanted(&state.reports, holders).is_some())
        };
        let period = |pulse: &Pulse| match message.at {
            // A trainer that waits to be admitted sends more often, to start quickly.
            Generation(0) => eager(config.trainers, timing.heartbeat),
            // A server that is about to end waits for a snapshot, or does not know yet that all servers have it.
            _ if is_wanted || pulse.told != message.stable => HURRIED.min(timing.heartbeat),
            _ => steady(config.trainers, &timing),
        };
        pulses.retain_mut(|pulse| {
            let due = pulse
                .rest(message.at, period(pulse), timing.silence)
                .is_zero();
            let done = if due { pulse.act(&message) } else { Ok(()) };
            goes_on(pulse, done)
        });
        let rests = pulses.iter();
        let rests = rests.map(|pulse| pulse.rest(message.at, period(pulse), timing.silence));
        let rest = rests.min().unwrap_or(timing.heartbeat);
        let ready = bell.wait(rest);
        pulses.retain_mut(|pulse| {
            if !ready.contains(&(pulse.server as u64)) {
                return true;
            }
            let heard = pulse.hear();
            let heard = heard.map(|report| note(shared, pulse.server, report));
            goes_on(pulse, heard)
        });
    }
}

fn note(shared: &Shared, server: usize, report: ServerReport) {
    let mut state = shared.lock();
    if report.phase == Phase::Failed {
        state.failed = Some(report.reason.clone());
        fault(&mut state, shared, report.reason.clone());
    } else if state.at != Generation(0) && report.ends(state.at) {
        let reason = if report.reason.is_empty() {
            "the generation has ended".to_owned()
        } else {
            report.reason.clone()
        };
        fault(&mut state, shared, reason);
    }
    if let Some(reason) = swallowed(&mut state, shared, server, &report) {
        fault(&mut state, shared, reason);
    }
    state.reports[server] = report;
    state.heard[server] = Instant::now();
    state.versions += 1;
    shared.changed.notify_all();
}

/// If a data connection to the server no longer carries what is sent over it: which, as a sentence.
fn swallowed(
    state: &mut State,
    shared: &Shared,
    server: usize,
    report: &ServerReport,
) -> Option<String> {
    let config = &shared.dialer.config;
    let ports = config.topology().ports_of_server() as usize;
    let now = shared.begun.elapsed().as_millis() as u64;
    // It has to be known before the silence of a lost process would be.
    let limit = config.timing.silence.as_millis() as u64 * 3 / 5;
    let own = state.lines.get_mut(server * ports..(server + 1) * ports)?;
    for (port, (line, other)) in own.iter_mut().zip(&report.lines).enumerate() {
        let lost = line.watch.look(line.meter.traffic(), *other, now, limit);
        if let Some(LostBytes { count, quiet }) = lost {
            let address = &config.servers[server];
            return Some(format!(
                "the data connection to server {}:{} has swallowed {count} bytes and carried nothing for {:.1} s, although \
                 the server's heartbeats pass; look for a firewall or proxy that drops its packets",
                address.host,
                usize::from(address.port) + port,
                quiet as f64 / 1000.0
            ));
        }
    }
    None
}

fn fault(state: &mut State, shared: &Shared, reason: String) {
    if state.broken.is_none() {
        state.broken = Some(reason);
    }
    state.lines.iter().for_each(|line| line.stopper.stop());
    shared.changed.notify_all();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_hears_no_more_heartbeats_of_more_trainers_while_several_fit_into_the_silence() {
        let timing = SessionTiming::default();
        let each = |trainers| steady(trainers, &timing);
        assert_eq!(each(1), timing.heartbeat);
        assert_eq!(each(64), each(1));
        assert_eq!(each(128), 2 * each(1));
        assert_eq!(each(100_000), timing.silence / 6);
        let short = SessionTiming {
            silence: timing.heartbeat,
            ..timing
        };
        assert_eq!(steady(1000, &short), timing.heartbeat);
    }

    #[test]
    fn a_silent_server_is_waited_for_and_not_whom_it_waited_for() {
        let servers = |ages: [u64; 2]| {
            let says = [
                "step 61 waits for trainer 2",
                "step 60 waits for trainer 0, 1",
            ];
            let both = (0..2).map(|at: usize| ServerNews {
                name: format!("pod-{at}:7164"),
                age: Duration::from_millis(ages[at]),
                waits_for: says[at],
            });
            both.collect::<Vec<_>>()
        };
        let told = |own, ages| whom(own, servers(ages), Duration::from_millis(1500));
        assert_eq!(told("", [0, 100]), "step 60 waits for trainer 0, 1");
        assert_eq!(
            told("", [0, 1600]),
            "waits for a reply of server pod-1:7164"
        );
        assert_eq!(
            told("", [2000, 1600]),
            "waits for a reply of servers pod-0:7164, pod-1:7164"
        );
        let joins = "server pod-1:7164 cannot be reached: connection refused";
        assert_eq!(told(joins, [0, 1600]), joins);
    }
}
