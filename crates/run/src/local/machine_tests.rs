//! Tests of the machine: whole runs as tables of inputs and actions, no process and no clock.

use super::*;

const S0: ProcessId = ProcessId {
    role: Role::Pserver,
    node: 0,
};
const S1: ProcessId = ProcessId {
    role: Role::Pserver,
    node: 1,
};
const T0: ProcessId = ProcessId {
    role: Role::Trainer,
    node: 0,
};
const T1: ProcessId = ProcessId {
    role: Role::Trainer,
    node: 1,
};

fn at(ms: u64) -> Elapsed {
    Duration::from_millis(ms)
}

fn limits(restart: bool) -> RunLimits {
    RunLimits {
        restart: restart.then(RestartPolicy::default),
        ..RunLimits::default()
    }
}

/// A machine whose two servers are ready and whose trainers run.
fn training(limits: RunLimits) -> Machine {
    let mut machine = Machine::new(&[S0, S1, T0, T1], limits);
    assert_eq!(
        machine.begin(at(0)),
        [Action::Start(S0, 0), Action::Start(S1, 0)]
    );
    assert_eq!(machine.on(MachineInput::Ready(S1), at(1)), []);
    assert_eq!(
        machine.on(MachineInput::Ready(S0), at(2)),
        [Action::Start(T0, 0), Action::Start(T1, 0)]
    );
    machine.on(MachineInput::Ready(T0), at(3));
    machine
}

#[test]
fn servers_then_trainers_then_the_end() {
    let mut machine = training(limits(false));
    assert_eq!(
        machine.on(MachineInput::Exited(T1, ProcessExit::Code(0)), at(10)),
        [Action::TellEnd(T1)]
    );
    assert_eq!(
        machine.on(MachineInput::Exited(T0, ProcessExit::Code(0)), at(11)),
        [
            Action::TellEnd(T0),
            Action::Terminate(S0),
            Action::Terminate(S1)
        ]
    );
    assert_eq!(
        machine.on(MachineInput::Exited(S0, ProcessExit::Signal(15)), at(12)),
        []
    );
    assert_eq!(
        machine.on(MachineInput::Exited(S1, ProcessExit::Code(0)), at(13)),
        [Action::Finish(RunVerdict::Succeeded)]
    );
    assert_eq!(machine.on(MachineInput::Tick, at(99_999)), []);
}

#[test]
fn the_first_death_is_the_cause_and_ends_the_rest() {
    let mut machine = training(limits(false));
    let actions = machine.on(MachineInput::Exited(S1, ProcessExit::Signal(9)), at(10));
    assert_eq!(actions[0], Action::TellDeath(S1, ProcessExit::Signal(9)));
    assert!(
        matches!(&actions[1], Action::TellStop(text) if text.starts_with("pserver 1 was killed by SIGKILL"))
    );
    assert_eq!(
        actions[2..],
        [
            Action::Terminate(S0),
            Action::Terminate(T0),
            Action::Terminate(T1)
        ]
    );
    assert_eq!(
        machine.on(MachineInput::Exited(T0, ProcessExit::Code(1)), at(11)),
        []
    );
    assert_eq!(
        machine.on(MachineInput::Exited(T1, ProcessExit::Code(1)), at(11)),
        []
    );
    let [Action::Finish(RunVerdict::Failed(reason))] =
        &machine.on(MachineInput::Exited(S0, ProcessExit::Code(0)), at(12))[..]
    else {
        panic!("no verdict");
    };
    assert_eq!(
        (reason.process, reason.exit),
        (S1, Some(ProcessExit::Signal(9)))
    );
}

#[test]
fn who_does_not_end_in_time_is_killed_once() {
    let mut machine = training(limits(false));
    machine.on(MachineInput::Shutdown, at(100));
    machine.on(MachineInput::Exited(T0, ProcessExit::Signal(15)), at(150));
    assert_eq!(machine.next_deadline(), Some(at(10_100)));
    assert_eq!(machine.on(MachineInput::Tick, at(10_099)), []);
    assert_eq!(
        machine.on(MachineInput::Tick, at(10_100)),
        [Action::Kill(S0), Action::Kill(S1), Action::Kill(T1)]
    );
    assert_eq!(machine.on(MachineInput::Tick, at(10_200)), []);
    for id in [S0, S1] {
        assert_eq!(
            machine.on(MachineInput::Exited(id, ProcessExit::Signal(9)), at(10_300)),
            []
        );
    }
    let actions = machine.on(MachineInput::Exited(T1, ProcessExit::Signal(9)), at(10_300));
    assert_eq!(actions, [Action::Finish(RunVerdict::Interrupted)]);
}

#[test]
fn a_second_interrupt_kills_at_once() {
    let mut machine = training(limits(false));
    machine.on(MachineInput::Shutdown, at(100));
    assert_eq!(machine.on(MachineInput::Shutdown, at(101)).len(), 4);
    assert_eq!(machine.on(MachineInput::Shutdown, at(102)), []);
}

#[test]
fn a_died_process_comes_back_with_a_growing_pause_and_not_for_ever() {
    let mut machine = training(limits(true));
    let mut now = 1000;
    let mut pauses = Vec::new();
    loop {
        let actions = machine.on(MachineInput::Exited(T0, ProcessExit::Code(1)), at(now));
        let Some(Action::TellRestart(T0, restart, pause)) = actions.get(1) else {
            assert!(
                matches!(actions[1], Action::TellStop(ref text) if text.contains("crashed 9 times within 300 s"))
            );
            break;
        };
        pauses.push(pause.as_millis());
        now += u64::try_from(pause.as_millis()).unwrap();
        assert_eq!(
            machine.on(MachineInput::Tick, at(now)),
            [Action::Start(T0, *restart)]
        );
        machine.on(MachineInput::Ready(T0), at(now));
    }
    assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 3200, 6400]);
}

#[test]
fn wrong_usage_is_not_tried_again() {
    for code in [2, 64, 78] {
        let mut machine = training(limits(true));
        let actions = machine.on(MachineInput::Exited(T0, ProcessExit::Code(code)), at(10));
        assert!(
            matches!(&actions[1], Action::TellStop(text) if text.contains("cannot fix")),
            "{code}"
        );
    }
}

#[test]
fn trainers_do_not_wait_for_a_server_that_is_restarted() {
    let mut machine = training(limits(true));
    machine.on(MachineInput::Exited(S0, ProcessExit::Signal(9)), at(1000));
    assert_eq!(
        machine.on(MachineInput::Tick, at(1050)),
        [Action::Start(S0, 1)]
    );
    assert_eq!(machine.on(MachineInput::Ready(S0), at(1060)), []);
    machine.on(MachineInput::Exited(T0, ProcessExit::Code(0)), at(1100));
    assert_eq!(
        machine
            .on(MachineInput::Exited(T1, ProcessExit::Code(0)), at(1101))
            .len(),
        3
    );
}

#[test]
fn trainers_that_end_while_a_server_pauses_end_the_job() {
    let mut machine = training(limits(true));
    machine.on(MachineInput::Exited(S0, ProcessExit::Signal(9)), at(1000));
    machine.on(MachineInput::Exited(T0, ProcessExit::Code(0)), at(1001));
    let actions = machine.on(MachineInput::Exited(T1, ProcessExit::Code(0)), at(1002));
    assert_eq!(actions, [Action::TellEnd(T1), Action::Terminate(S1)]);
    assert_eq!(machine.on(MachineInput::Tick, at(1060)), []);
    assert_eq!(
        machine.on(MachineInput::Exited(S1, ProcessExit::Code(0)), at(1070)),
        [Action::Finish(RunVerdict::Succeeded)]
    );
}

#[test]
fn a_server_may_end_with_the_trainers_but_not_long_before_them() {
    let mut machine = training(limits(false));
    assert_eq!(
        machine.on(MachineInput::Exited(S0, ProcessExit::Code(0)), at(1000)),
        []
    );
    assert_eq!(machine.next_deadline(), Some(at(6000)));
    let actions = machine.on(MachineInput::Tick, at(6000));
    assert_eq!(actions[0], Action::TellDeath(S0, ProcessExit::Code(0)));

    let mut machine = training(limits(false));
    for id in [S0, S1] {
        machine.on(MachineInput::Exited(id, ProcessExit::Code(0)), at(1000));
    }
    machine.on(MachineInput::Exited(T0, ProcessExit::Code(0)), at(1001));
    let actions = machine.on(MachineInput::Exited(T1, ProcessExit::Code(0)), at(1002));
    assert_eq!(
        actions,
        [Action::TellEnd(T1), Action::Finish(RunVerdict::Succeeded)]
    );
}

#[test]
fn a_server_that_is_never_ready_fails_the_job() {
    let mut machine = Machine::new(&[S0, S1, T0, T1], limits(true));
    machine.begin(at(0));
    machine.on(MachineInput::Ready(S0), at(5));
    assert_eq!(machine.next_deadline(), Some(at(60_000)));
    let actions = machine.on(MachineInput::Tick, at(60_000));
    assert!(
        matches!(&actions[0], Action::TellStop(text) if text == "pserver 1 was not ready after 60 s")
    );
    assert_eq!(actions[1..], [Action::Terminate(S0), Action::Terminate(S1)]);
}

#[test]
fn a_taken_port_moves_and_all_servers_start_anew_because_each_knows_all_ports() {
    let taken = |id| MachineInput::PortTaken(id, ProcessExit::Code(1));
    let mut machine = Machine::new(&[S0, S1, T0, T1], limits(false));
    machine.begin(at(0));
    for _ in 0..PORT_MOVES {
        let actions = machine.on(taken(S0), at(1));
        assert_eq!(actions, [Action::MovePorts(S0), Action::Kill(S1)]);
        let actions = machine.on(MachineInput::Exited(S1, ProcessExit::Signal(9)), at(2));
        assert!(
            matches!(actions[..], [Action::Start(S0, _), Action::Start(S1, _)]),
            "{actions:?}"
        );
    }
    let actions = machine.on(taken(S0), at(2));
    assert!(matches!(&actions[0], Action::TellStop(text) if text.contains("ports in use 5 times")));
    assert_eq!(actions[1..], [Action::Terminate(S1)]);
}

#[test]
fn once_trainers_know_the_ports_a_server_cannot_move() {
    let mut machine = training(limits(true));
    machine.on(MachineInput::Exited(S0, ProcessExit::Signal(9)), at(1000));
    machine.on(MachineInput::Tick, at(1050));
    let actions = machine.on(MachineInput::PortTaken(S0, ProcessExit::Code(1)), at(1060));
    assert!(
        matches!(actions[1], Action::TellRestart(S0, 2, _)),
        "{actions:?}"
    );
}

#[test]
fn on_a_cluster_the_servers_stay_until_all_trainers_are_done() {
    let limits = RunLimits {
        servers_end: ServersEnd::WhenDone,
        ..limits(false)
    };
    let mut machine = Machine::new(&[S0, T0], limits);
    machine.begin(at(0));
    machine.on(MachineInput::Ready(S0), at(1));
    assert_eq!(
        machine.on(MachineInput::Exited(T0, ProcessExit::Code(0)), at(2)),
        [Action::TellEnd(T0)]
    );
    assert_eq!(machine.on(MachineInput::Tick, at(1_000_000)), []);
    assert_eq!(
        machine.on(MachineInput::Done(S0), at(1_000_001)),
        [Action::Terminate(S0)]
    );
}

#[test]
fn a_program_that_is_not_there_ends_the_job() {
    let mut machine = Machine::new(&[S0, T0], limits(true));
    machine.begin(at(0));
    let actions = machine.on(MachineInput::NotStarted(S0), at(1));
    assert!(
        matches!(&actions[1], Action::Finish(RunVerdict::Failed(reason)) if reason.text == "could not be started")
    );
}

proptest::proptest! {
    /// Whatever happens, the run ends after an interrupt and the end of its processes, and nothing starts afterwards.
    #[test]
    fn every_run_can_be_ended(script in proptest::collection::vec((0..4usize, 0..6u8, 0..400u64), 0..60)) {
        let ids = [S0, S1, T0, T1];
        let mut machine = Machine::new(&ids, limits(true));
        let mut alive = std::collections::BTreeSet::new();
        let mut now = 0;
        let mut finished = 0;
        let mut apply = |actions: Vec<Action>, alive: &mut std::collections::BTreeSet<ProcessId>| {
            for action in actions {
                match action {
                    Action::Start(id, _) => {
                        assert_eq!(finished, 0);
                        assert!(alive.insert(id), "{id} started twice");
                    }
                    Action::Finish(_) => finished += 1,
                    _ => {}
                }
            }
        };
        let first = machine.begin(at(0));
        apply(first, &mut alive);
        for (who, what, wait) in script {
            now += wait;
            let id = ids[who];
            let input = match what {
                0 if alive.contains(&id) => MachineInput::Ready(id),
                1 if alive.remove(&id) => MachineInput::Exited(id, ProcessExit::Code(0)),
                2 if alive.remove(&id) => MachineInput::Exited(id, ProcessExit::Signal(9)),
                3 if id.role == Role::Pserver && alive.remove(&id) => MachineInput::PortTaken(id, ProcessExit::Code(1)),
                _ => MachineInput::Tick,
            };
            let actions = machine.on(input, at(now));
            apply(actions, &mut alive);
        }
        let actions = machine.on(MachineInput::Shutdown, at(now));
        apply(actions, &mut alive);
        for id in ids {
            if alive.remove(&id) {
                let actions = machine.on(MachineInput::Exited(id, ProcessExit::Signal(15)), at(now));
                apply(actions, &mut alive);
            }
        }
        assert_eq!(finished, 1);
    }
}
