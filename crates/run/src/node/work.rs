//! The two processes of a node, as the supervisor sees them, and the reasons to end them early.

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::farewell::Farewell;
use super::finish::{COURTESY, code, exit_code};
use super::plan::NodePlan;
use super::prepare::PreparedNode;
use super::rollcall::RollCall;
use crate::local::child::ChildOutput;
use crate::local::plan::ProcessCommand;
use crate::local::work::RunProcesses;
use crate::local::{RunEnd, Shutdown};
use words::process::{ProcessId, Role};

/// The two processes of a node.
pub(super) struct NodeWork<'a> {
    node: &'a PreparedNode<'a>,
    plan: NodePlan,
    /// With `podlist`: whether the pods are still the same.
    roll_call: Option<RollCall>,
    /// Requested when the processes must end; the pod itself may have been asked to end earlier.
    leaving: Shutdown,
    farewell: Rc<RefCell<Farewell>>,
    begun: Instant,
    last_look: Option<(Instant, Vec<u32>)>,
    finished: Option<Instant>,
    over_since: Option<Instant>,
}

/// Interval between searches of the volume for the markers of other nodes; longer if there are many nodes.
const LOOK: Duration = Duration::from_millis(500);
/// A trainer that still runs this long after another has left did not receive the message that the job is over.
const LATE: Duration = Duration::from_secs(20);
/// How long to wait for new pods after a failure, because trainers with different lists of pods refuse each other.
const REPLACED: Duration = Duration::from_secs(60);

impl<'a> NodeWork<'a> {
    pub(super) fn new(
        node: &'a PreparedNode<'a>,
        plan: NodePlan,
        roll_call: Option<RollCall>,
        leaving: Shutdown,
        farewell: Rc<RefCell<Farewell>>,
    ) -> Self {
        Self {
            node,
            plan,
            roll_call,
            leaving,
            farewell,
            begun: Instant::now(),
            last_look: None,
            finished: None,
            over_since: None,
        }
    }

    /// The nodes whose trainers have not finished, according to the last search of the volume.
    fn missing(&mut self) -> &[u32] {
        let pause = LOOK * (1 + self.plan.environment.nodes / 10);
        let looked = self.last_look.take().filter(|(at, _)| at.elapsed() < pause);
        let looked = looked.unwrap_or_else(|| (Instant::now(), self.node.markers.missing()));
        &self.last_look.insert(looked).1
    }

    /// Whether the pods change, now or soon after a failure.
    pub(super) fn pods_change(&self, end: &RunEnd) -> bool {
        let Some(roll_call) = &self.roll_call else {
            return false;
        };
        // New pods would not help against this failure, so it is not worth waiting for them.
        let may_mend = |code: u8| code != code::USAGE && code != code::CONFIG;
        let waits = matches!(end, RunEnd::Failed(_)) && may_mend(exit_code(end));
        let failed = Instant::now();
        while waits && !roll_call.has_changed() {
            if failed.elapsed() > REPLACED || self.node.shutdown.requests() > 0 {
                return false;
            }
            self.node.health.moves();
            std::thread::sleep(Duration::from_millis(50));
        }
        roll_call.has_changed()
    }

    /// Whether the processes should end although they have not finished.
    fn should_leave(&mut self) -> bool {
        let limit = self.node.start.grace / 2;
        let requests = self.node.shutdown.requests();
        let asked = self
            .farewell
            .borrow_mut()
            .may_go(requests, self.begun.elapsed(), limit);
        if requests > 0 && !asked {
            let health = &self.node.health;
            health.does("asked to end; waiting for a snapshot of all servers");
        }
        let changed = self.roll_call.as_ref().is_some_and(RollCall::has_changed);
        let is_over = self.missing().len() < self.plan.environment.nodes as usize;
        if is_over && self.finished.is_none() {
            let since = *self.over_since.get_or_insert_with(Instant::now);
            return asked || changed || since.elapsed() > LATE;
        }
        asked || changed
    }
}

impl RunProcesses for NodeWork<'_> {
    fn processes(&self) -> Vec<ProcessId> {
        vec![
            ProcessId::pserver(self.plan.peers.own),
            ProcessId::trainer(self.plan.peers.own),
        ]
    }

    fn command(&mut self, process: ProcessId) -> ProcessCommand {
        self.plan.command(process.role)
    }

    fn log(&self, process: ProcessId) -> PathBuf {
        self.plan.node_dir().join(match process.role {
            Role::Pserver => "server.log",
            Role::Trainer => "train.log",
        })
    }

    fn output(&self) -> PathBuf {
        self.plan.output()
    }

    /// Always false: all nodes know a node's ports, so it cannot use others.
    fn port_taken(&self, _process: ProcessId) -> bool {
        false
    }

    fn move_ports(&mut self, _process: ProcessId) -> io::Result<()> {
        Err(io::ErrorKind::AddrInUse.into())
    }

    /// Appends to the log of the pod that this one replaces, because people will want to read it.
    fn first_log(&self) -> ChildOutput {
        ChildOutput::Append
    }

    fn alive(&mut self) {
        self.node.health.moves();
        let wanted = u32::from(self.leaving.requests() == 0 && self.should_leave());
        // A pod that is asked a second time ends at once.
        let at_once = self.leaving.requests() == 1 && self.node.shutdown.requests() > 1;
        for _ in 0..wanted + u32::from(at_once) {
            self.leaving.request();
        }
    }

    fn ends_soon(&mut self) -> Option<ProcessId> {
        let orders = self
            .farewell
            .borrow_mut()
            .orders(self.node.shutdown.requests());
        orders.then(|| ProcessId::pserver(self.plan.peers.own))
    }

    fn trainer_finished(&mut self, process: ProcessId) -> io::Result<()> {
        self.finished = Some(Instant::now());
        self.node.markers.leave(process.node)
    }

    fn servers_wait_for(&mut self) -> Option<String> {
        if self.finished.is_some_and(|at| at.elapsed() > COURTESY) {
            return None;
        }
        let missing = self.missing();
        let names: Vec<String> = missing
            .iter()
            .map(|node| format!("trainer {node}"))
            .collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}
