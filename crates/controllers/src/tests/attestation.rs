//! The verifier: only what the node itself signed about this command is believed.

use super::Bed;
use crate::verifier::verdict;
use kernel::commands::{self, Attestation, NewCommand};
use kernel::db::StoreError;
use kernel::nodes::get_node;
use kernel::sessions::{self, CertFacts, SessionAnswer};
use kernel::updates::ingest_updates;
use kernel::verifier::{Unverified, Verdict, settle_verified, take_unverified};
use model::frame::{Any, CommandResult, CommandUpdate, Hello, ResultStatement, Settled, Signed, UpdateState};
use model::{
    BootId, CommandId, CommandState, GatewayId, IncarnationId, JournalId, Lifecycle, NodeId, Outcome, PrincipalId, Role,
};
use pki::{KeyPair, NodeCertificate, Purpose};

fn result() -> Vec<u8> {
    proto::encode_result(&CommandResult { code: String::new(), message: "fine".into(), value: None })
}

fn sign(key: &KeyPair, purpose: Purpose, statement: &ResultStatement) -> Signed {
    crate::join::to_frame(pki::Signed::sign(purpose, proto::encode_statement(statement), key, Vec::new()))
}

fn statement(command: &str, outcome: Outcome, result: &[u8]) -> ResultStatement {
    ResultStatement { command_id: CommandId::new(command), outcome, result_sha256: stdx::hex::sha256(result) }
}

/// A reported result with the node's certificates as the store has them.
fn reported(bed: &Bed) -> (KeyPair, Unverified) {
    let (machine, joined) = bed.node("gpu-a");
    let genuine = sign(&machine.key, Purpose::CommandResult, &statement("c1", Outcome::Succeeded, &result()));
    let unverified = Unverified {
        command: CommandId::new("c1"),
        node: Bed::node_id(&joined),
        kind: "diag.nvml".into(),
        outcome: Outcome::Succeeded,
        result: result(),
        node_sig: Some(genuine),
        certs: vec![joined.chain[0].clone()],
    };
    (machine.key, unverified)
}

#[test]
fn a_result_is_genuine_only_if_the_node_signed_this_outcome_of_this_command() {
    let bed = Bed::new();
    let (key, genuine) = reported(&bed);
    assert_eq!(verdict(&genuine), Verdict::Genuine);
    let with = |node_sig: Option<Signed>| Unverified { node_sig, ..genuine.clone() };
    let signed = |purpose, statement: &ResultStatement| with(Some(sign(&key, purpose, statement)));
    let good = statement("c1", Outcome::Succeeded, &result());
    let mut stolen_kid = sign(&KeyPair::generate(), Purpose::CommandResult, &good);
    stolen_kid.kid = key.kid();
    let forgeries = [
        ("no signature", with(None)),
        ("another key", with(Some(sign(&KeyPair::generate(), Purpose::CommandResult, &good)))),
        ("another key under the node's id", with(Some(stolen_kid))),
        ("another purpose", signed(Purpose::EventReport, &good)),
        ("another command", signed(Purpose::CommandResult, &statement("c2", Outcome::Succeeded, &result()))),
        ("another outcome", signed(Purpose::CommandResult, &statement("c1", Outcome::Failed, &result()))),
        ("another result", Unverified { result: b"\x0a\x01x".to_vec(), ..genuine.clone() }),
        ("the outcome turned around", Unverified { outcome: Outcome::Failed, ..genuine.clone() }),
        ("the node of another certificate", Unverified { node: NodeId::new("node_other"), ..genuine.clone() }),
        ("no certificate", Unverified { certs: Vec::new(), ..genuine.clone() }),
    ];
    for (what, forged) in forgeries {
        assert!(matches!(verdict(&forged), Verdict::Forged(_)), "{what}");
    }
}

#[test]
fn a_result_signed_with_an_earlier_key_of_the_node_is_genuine() {
    let bed = Bed::new();
    let (_, mut genuine) = reported(&bed);
    let (_, later) = bed.node("gpu-b");
    genuine.certs.push(later.chain[0].clone());
    assert_eq!(verdict(&genuine), Verdict::Genuine, "a journal may hold a result over a renewal");
}

fn hello() -> Hello {
    Hello {
        protocol_min: 1,
        protocol_max: 1,
        daemon_version: "0.1.0".into(),
        role: Role::Node,
        boot_id: BootId::new("boot-1"),
        incarnation: IncarnationId::new("inc-1"),
        journal_id: JournalId::new("journal-1"),
        last_epoch: 0,
        applied_generation: 0,
        applied_spec_hash: String::new(),
        in_flight: Vec::new(),
        unacked_results: Vec::new(),
        more_results: false,
        capabilities: Vec::new(),
        inventory_digest: String::new(),
        hostname: "gpu-a".into(),
    }
}

/// Sends a `diag.nvml` to a connected node and stores `node_sig` with its result. Returns the command.
fn report(bed: &Bed, sign_with: impl Fn(&KeyPair, &ResultStatement) -> Option<Signed>) -> CommandId {
    let (machine, joined) = bed.node("gpu-a");
    let (node, gateway) = (Bed::node_id(&joined), GatewayId::new("g"));
    let leaf = NodeCertificate::parse(&joined.chain[0]).expect("leaf");
    let id = CommandId::new("c1");
    let worker = bed.bundle.split().controllers.worker;
    let new = NewCommand {
        id: id.clone(),
        node: node.clone(),
        principal: PrincipalId::new("p"),
        kind: "diag.nvml".into(),
        payload: Any::default(),
        not_after_in_ms: 60_000,
        min_generation: 0,
        idempotency_key: "k".into(),
        workflow_id: String::new(),
        step_id: String::new(),
        traceparent: String::new(),
        batch_id: String::new(),
    };
    bed.run(|tx| {
        commands::enqueue(tx, &|body| crate::resigner::seal(&worker, body), &new).expect("enqueued");
        sessions::gateway_started(tx, &gateway)?;
        let facts = CertFacts {
            node_id: node.clone(),
            serial: leaf.serial_hex.clone(),
            role: leaf.role,
            allowed_kinds: leaf.allowed_kinds.clone(),
            not_after_ms: leaf.not_after_ms,
        };
        let SessionAnswer::Accepted { epoch, .. } = sessions::accept_session(tx, &gateway, &facts, &hello())? else {
            panic!("refused");
        };
        sessions::resume_done(tx, &gateway, &node, epoch, &[]).expect("resumed");
        sessions::dispatch(tx, &gateway, &[(node.clone(), epoch)].into())?;
        Ok(())
    });
    let node_sig = sign_with(&machine.key, &statement("c1", Outcome::Succeeded, &result()));
    let settled = Settled { outcome: Outcome::Succeeded, result: result(), node_sig };
    let update =
        CommandUpdate { command_id: id.clone(), state: UpdateState::Done(settled), boot_id: BootId::new("boot-1") };
    bed.run(|tx| ingest_updates(tx, &node, &[update]).map(|_| ()));
    id
}

/// What the verifier does in one step.
fn verify(bed: &Bed) {
    bed.run(|tx| {
        for waiting in take_unverified(tx, 10)? {
            settle_verified(tx, &waiting.command, &verdict(&waiting))?;
        }
        Ok::<_, StoreError>(())
    });
}

#[test]
fn the_gateway_stores_and_only_the_verifier_makes_an_attested_command_terminal() {
    let bed = Bed::new();
    let id = report(&bed, |key, statement| Some(sign(key, Purpose::CommandResult, statement)));
    let row = |bed: &Bed| bed.run(|tx| commands::get(tx, &id)).expect("row");
    let before = row(&bed);
    let node = bed.run(|tx| get_node(tx, &before.node)).expect("node");
    let connected = node.session.is_some_and(|session| session.connected);
    assert!(connected && node.lifecycle == Lifecycle::Adopting, "joined and in session, without an inventory yet");
    assert!(!before.state.is_terminal() && before.awaits_verification, "{before:?}");
    verify(&bed);
    let after = row(&bed);
    assert_eq!((after.state, after.attestation), (CommandState::Succeeded, Attestation::Verified));
}

#[test]
fn a_result_that_a_gateway_forged_fails_with_bad_attestation() {
    for stripped in [false, true] {
        let bed = Bed::new();
        let gateway = KeyPair::generate();
        let id = report(&bed, |_, statement| (!stripped).then(|| sign(&gateway, Purpose::CommandResult, statement)));
        verify(&bed);
        let row = bed.run(|tx| commands::get(tx, &id)).expect("row");
        assert_eq!(
            (row.state, row.attestation, row.code.as_str()),
            (CommandState::Failed, Attestation::Forged, "bad-attestation")
        );
    }
}
