use super::harness::*;
use crate::*;
use model::frame::*;
use model::*;

fn observe(node: &mut Node, class: EventClass, kind: &str) {
    node.input(Input::Observed { class, kind: kind.into(), attributes: vec![], body: None });
}

fn small(events_max: u32) -> Node {
    Node::on(fresh_disk(), "boot1", "inc1", |config| config.limits.events_max = events_max)
}

fn seqs(node: &Node) -> Vec<u64> {
    node.disk.events().map(|event| event.seq).collect()
}

#[test]
fn events_are_numbered_from_one_and_sent_once_durable() {
    let mut node = Node::new().up();
    node.slow_disk = true;
    observe(&mut node, EventClass::Transition, "a");
    assert!(node.sent.is_empty());
    node.sync_one();
    let sent: Vec<u64> = batches(&node).into_iter().flatten().collect();
    assert_eq!(sent, [1]);
}

fn batches(node: &Node) -> Vec<Vec<u64>> {
    node.sent
        .iter()
        .filter_map(|frame| match frame {
            AgentFrame::Events(batch) => Some(batch.events.iter().map(|event| event.seq).collect()),
            _ => None,
        })
        .collect()
}

#[test]
fn one_batch_is_out_at_a_time_and_the_next_follows_the_ack() {
    let mut node = Node::new().up();
    for _ in 0..3 {
        observe(&mut node, EventClass::Transition, "a");
    }
    assert_eq!(batches(&node), [vec![1]]);
    let ack = |journal: &str, seq| {
        GatewayFrame::Ack(Ack { command_ids: vec![], events: Some((JournalId::new(journal), seq)) })
    };
    node.input(Input::Frame(ack("another", 3)));
    assert_eq!(batches(&node), [vec![1]], "another journal's ack is not ours");
    node.input(Input::Frame(ack("j1", 1)));
    assert_eq!(batches(&node), [vec![1], vec![2, 3]]);
    node.input(Input::Frame(ack("j1", 99)));
    assert_eq!(node.engine.journal().event_count(), 2, "an ack of what was never sent forgets nothing");
}

#[test]
fn unacknowledged_events_are_sent_again_on_the_next_session() {
    let mut node = Node::new().up();
    observe(&mut node, EventClass::Result, "a");
    node.input(Input::LinkDown);
    node.sent.clear();
    node.connect();
    assert_eq!(batches(&node), [vec![1]]);
}

#[test]
fn a_full_journal_drops_the_oldest_metrics_and_nothing_else() {
    let mut node = small(3).up();
    for (class, kind) in [(EventClass::Metric, "m1"), (EventClass::Transition, "t"), (EventClass::Metric, "m2")] {
        observe(&mut node, class, kind);
    }
    observe(&mut node, EventClass::Result, "r");
    assert_eq!(seqs(&node), [2, 3, 4]);
    observe(&mut node, EventClass::Transition, "t2");
    assert_eq!(seqs(&node), [2, 4, 5]);
    observe(&mut node, EventClass::Transition, "t3");
    assert_eq!(seqs(&node), [2, 4, 5, 6], "transitions are kept beyond the bound");
    observe(&mut node, EventClass::Metric, "m3");
    assert_eq!(seqs(&node), [2, 4, 5, 6], "a metric has no room and goes itself");
}

#[test]
fn a_journal_full_of_transitions_answers_busy_until_acks_drain_it() {
    let mut node = small(2).up();
    observe(&mut node, EventClass::Transition, "a");
    observe(&mut node, EventClass::Transition, "b");
    node.deliver(&command("c1", Kind::InventoryRefresh));
    assert_eq!(node.updates(), "c1 BUSY\n");
    let events = Some((JournalId::new("j1"), 2));
    node.input(Input::Frame(GatewayFrame::Ack(Ack { command_ids: vec![], events })));
    node.deliver(&command("c1", Kind::InventoryRefresh));
    node.expect_updates(&["c1 ACKED", "c1 RUNNING"]);
}

#[test]
fn a_journal_full_of_bytes_answers_busy_and_even_refusals_wait() {
    let mut node = Node::on(fresh_disk(), "boot1", "inc1", |config| config.limits.bytes_max = 4096).up();
    let mut refused = 0;
    for index in 0..40 {
        node.deliver_signed(&command(&format!("c{index}"), Kind::InventoryRefresh), b"bad");
        refused += usize::from(node.updates().contains("BAD_SIGNATURE"));
    }
    assert!((1..20).contains(&refused), "{refused}");
    assert!(node.disk.bytes() <= 4096);
    let command_ids = (0..40).map(|index| CommandId::new(format!("c{index}"))).collect();
    node.input(Input::Frame(GatewayFrame::Ack(Ack { command_ids, events: None })));
    node.deliver(&command("real", Kind::InventoryRefresh));
    node.deliver(&command("real", Kind::InventoryRefresh));
    assert!(node.updates().contains("real ACKED"), "acknowledged refusals make room");
}

#[test]
fn acks_are_written_with_the_next_commit_or_within_five_seconds() {
    let mut node = Node::new().up();
    node.deliver(&command("c1", Kind::InventoryRefresh));
    node.finish("c1");
    let command_ids = vec![CommandId::new("c1")];
    node.input(Input::Frame(GatewayFrame::Ack(Ack { command_ids, events: None })));
    assert_eq!(node.disk.unacked().count(), 1);
    node.pass(5_000);
    assert_eq!(node.disk.unacked().count(), 0);
}

/// Random mutations: memory, the fold of the same mutations, and the fold of a snapshot agree, and the
/// byte count is never off.
#[test]
fn a_snapshot_rebuilds_the_same_state() {
    use rand::{Rng, SeedableRng};
    for seed in 0..500 {
        let mut rng = rand::rngs::SmallRng::seed_from_u64(seed);
        let mut state = fresh_disk();
        let mut seq = 0;
        for _ in 0..40 {
            let id = CommandId::new(format!("c{}", rng.random_range(0..6)));
            let settled =
                Settled { outcome: Outcome::Failed, result: vec![1; rng.random_range(0..50)], node_sig: None };
            let boot_id = BootId::new("b");
            let mutation = match rng.random_range(0..11) {
                0 => Mutation::Accepted(Accepted {
                    id,
                    kind: Kind::NodeReboot,
                    lane: Lane::Control,
                    seq: 1,
                    retry_safe: true,
                    self_terminating: true,
                    attested: false,
                    incarnation: IncarnationId::new("i"),
                    at: ServerTimeMs(T0),
                }),
                1 => Mutation::Running { id, boot_id },
                2 => Mutation::Done { id, settled, boot_id, at: ServerTimeMs(T0) },
                3 => Mutation::ResultsAcked(vec![id]),
                4 => Mutation::Swept(vec![id]),
                5 => {
                    seq += 1;
                    let class = if rng.random() { EventClass::Metric } else { EventClass::Result };
                    Mutation::Event(Event { seq, class, report: vec![0; 9], node_sig: None })
                }
                6 => Mutation::EventsAcked(rng.random_range(0..=seq)),
                7 => Mutation::EventsDropped(vec![rng.random_range(0..=seq)]),
                8 => Mutation::TicketUsed { jti: format!("t{}", rng.random_range(0..5)), expires_at: ServerTimeMs(T0) },
                9 => Mutation::TicketsForgotten(vec![format!("t{}", rng.random_range(0..5))]),
                _ => Mutation::TimeMark(ServerTimeMs(T0 + rng.random_range(0..9))),
            };
            state.apply(&mutation);
        }
        let snapshot = state.snapshot();
        let mut rebuilt = JournalState::created(&snapshot[0]).expect("first");
        snapshot.iter().for_each(|mutation| rebuilt.apply(mutation));
        assert_eq!(rebuilt, state, "seed {seed}");
    }
}

#[test]
fn bounds_are_those_of_the_page() {
    let limits = JournalLimits::default();
    assert_eq!((limits.bytes_max, limits.events_max), (64 << 20, 10_000));
}
