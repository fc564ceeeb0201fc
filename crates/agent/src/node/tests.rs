//! The whole daemon over a simulated host, against a gateway that a test plays: what it says first, what it
//! does with a command, what a restart and a damaged journal lead to.

use super::*;
use crate::testing::gateway::{FakeGateway, FakeSession};
use crate::testing::{Fleet, NODE, identity_of};
use fakehw::FakeHost;
use model::frame::{AgentFrame, CommandBody, CommandResult, CommandUpdate, Hello, UpdateState};
use model::{CommandId, Kind, NodeId, Outcome, SessionEnd};
use pki::Purpose;
use proto::v1;
use proto::{Message, Name};
use std::sync::Mutex;
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(20);

struct Bed {
    directory: tempfile::TempDir,
    fleet: Arc<Fleet>,
    host: Arc<FakeHost>,
    gateway: FakeGateway,
    config: Config,
    seq: Mutex<u64>,
}

impl Bed {
    async fn new() -> Self {
        let directory = tempfile::tempdir().expect("tempdir");
        let fleet = Arc::new(Fleet::new());
        let host =
            FakeHost::open(directory.path().join("host"), 1, directory.path().join("effects.log")).expect("host");
        let renewing = fleet.clone();
        let gateway = FakeGateway::start(
            &fleet,
            |_| Err(tonic::Status::unimplemented("no joins in this test")),
            move |request: v1::RenewRequest| {
                let body = v1::RenewalBody::decode(request.signed.expect("signed").body.as_slice()).expect("body");
                let key = pki::csr::verify(&body.csr).expect("csr");
                Ok(renewing.sign_response(&renewing.response(&body.csr, &key)))
            },
        )
        .await;
        let data_dir = directory.path().join("data");
        let store = IdentityStore::new(&data_dir);
        let pending = store.prepare_join().expect("prepare");
        store.install(&identity_of(&fleet, pending.key.public())).expect("install");
        let mut config = fleet.config(&data_dir, gateway.port);
        config.socket_path = directory.path().join("run/bcd.sock");
        Self { directory, fleet, host: Arc::new(host), gateway, config, seq: Mutex::new(0) }
    }

    fn start(&self) -> (CancellationToken, JoinHandle<Result<Exit, NodeError>>) {
        let stop = CancellationToken::new();
        let (config, host, token) = (self.config.clone(), self.host.clone(), stop.clone());
        (stop, tokio::spawn(async move { run(&config, host, token).await }))
    }

    async fn session(&mut self) -> FakeSession {
        tokio::time::timeout(PATIENCE, self.gateway.sessions.recv()).await.expect("in time").expect("a session")
    }

    /// Accepts a session up to its `ResumeDone`.
    async fn greeted(&mut self, epoch: u64) -> (FakeSession, Hello, Vec<AgentFrame>) {
        let mut session = self.session().await;
        let AgentFrame::Hello(hello) = next(&mut session).await else { panic!("Hello first") };
        self.welcome(&session, epoch).await;
        let mut before = Vec::new();
        loop {
            match next(&mut session).await {
                AgentFrame::ResumeDone => return (session, *hello, before),
                frame => before.push(frame),
            }
        }
    }

    async fn welcome(&self, session: &FakeSession, epoch: u64) {
        self.welcome_at(session, epoch, stdx::clock::wall_unix_ms()).await;
    }

    async fn welcome_at(&self, session: &FakeSession, epoch: u64, unix_ms: i64) {
        let welcome = v1::Welcome {
            session_epoch: epoch,
            protocol: 1,
            server_time: Some(self.time(unix_ms)),
            heartbeat_interval_ms: 10_000,
            credits_control: 8,
            credits_provision: 4,
            credits_bulk: 2,
            trust_bundle: Some(self.fleet.signed_bundle()),
            acked_event_seq: 0,
            upgrade_required: false,
        };
        send(session, v1::gateway_frame::Frame::Welcome(welcome)).await;
    }

    fn time(&self, unix_ms: i64) -> v1::TimeStatement {
        let stated = v1::ServerTime { unix_ms, fleet_id: self.fleet.keys.public.fleet_id.to_string() };
        let signed = self.fleet.keys.controllers.sign(Purpose::ServerTime, stated.encode_to_vec()).expect("signs");
        v1::TimeStatement { signed: Some(crate::signed::to_wire(signed)), unsigned_ms: 0 }
    }

    fn command<M: Message + Name>(&self, id: &str, kind: Kind, request: &M) -> v1::Command {
        let mut seq = self.seq.lock().expect("seq");
        *seq += 1;
        let now = ServerTimeMs(stdx::clock::wall_unix_ms());
        let spec = kind.spec();
        let body = CommandBody {
            id: command_id(id),
            node_id: NodeId::new(NODE),
            seq: *seq,
            kind: kind.name().to_owned(),
            payload: proto::pack(request),
            lane: spec.lane,
            not_after: Some(now.plus(60_000)),
            min_generation: 0,
            retry_safe: spec.retry_safe,
            idempotency_key: id.to_owned(),
            self_terminating: spec.self_terminating,
            attested: spec.attested,
            workflow_id: String::new(),
            step_id: String::new(),
            traceparent: String::new(),
            batch_id: String::new(),
            issued_at: now,
        };
        let signed = self.fleet.keys.api.sign(Purpose::Command, proto::encode_body(&body)).expect("signs");
        v1::Command { signed: Some(crate::signed::to_wire(signed)), attempt: 1 }
    }
}

/// 26 characters, as every command's id.
fn command_id(text: &str) -> CommandId {
    CommandId::new(format!("{text:0<26}"))
}

async fn next(session: &mut FakeSession) -> AgentFrame {
    let frame = tokio::time::timeout(PATIENCE, session.from_agent.message()).await.expect("in time");
    frame.expect("a frame").expect("the session is open").try_into().expect("a frame that translates")
}

async fn send(session: &FakeSession, frame: v1::gateway_frame::Frame) {
    session.to_agent.send(Ok(v1::GatewayFrame { frame: Some(frame) })).await.expect("sent");
}

/// The updates of `id` up to its terminal one.
async fn updates_of(session: &mut FakeSession, id: &str) -> Vec<CommandUpdate> {
    let mut updates: Vec<CommandUpdate> = Vec::new();
    loop {
        if let AgentFrame::Updates(more) = next(session).await {
            updates.extend(more.into_iter().filter(|update| update.command_id == command_id(id)));
        }
        if matches!(updates.last().map(|update| &update.state), Some(UpdateState::Done(_))) {
            return updates;
        }
    }
}

#[track_caller]
fn settled(updates: &[CommandUpdate]) -> (Outcome, CommandResult) {
    let Some(UpdateState::Done(settled)) = updates.last().map(|update| &update.state) else { panic!("{updates:?}") };
    (settled.outcome, proto::decode_result(&settled.result).expect("result"))
}

async fn stopped(stop: &CancellationToken, running: JoinHandle<Result<Exit, NodeError>>) {
    stop.cancel();
    let exit = tokio::time::timeout(PATIENCE, running).await.expect("in time").expect("no panic").expect("runs");
    assert_eq!(exit, Exit::Stopped);
}

#[tokio::test]
async fn a_daemon_says_who_it_is_runs_a_command_and_signs_its_result() {
    let mut bed = Bed::new().await;
    let (stop, running) = bed.start();
    let (mut session, hello, before) = bed.greeted(1).await;
    assert_eq!((hello.daemon_version.as_str(), hello.hostname.as_str()), (crate::VERSION, "sim-1"));
    assert_eq!(hello.boot_id, bed.host.boot_id().expect("boot"));
    assert_eq!((hello.last_epoch, hello.unacked_results.len(), before.len()), (0, 0, 0));
    assert_eq!(
        session.client_leaf,
        IdentityStore::new(&bed.config.data_dir).load().expect("load").expect("joined").identity.chain[0]
    );

    send(&session, v1::gateway_frame::Frame::Command(bed.command("c1", Kind::DiagNvml, &v1::DiagNvmlRequest {}))).await;
    let updates = updates_of(&mut session, "c1").await;
    let states: Vec<_> = updates.iter().map(|update| std::mem::discriminant(&update.state)).collect();
    assert_eq!(states.len(), 3, "acked, running, done");
    assert_eq!(settled(&updates).0, Outcome::Succeeded);
    let Some(UpdateState::Done(done)) = updates.last().map(|update| &update.state) else { panic!("done") };
    let signature = crate::signed::to_pki(done.node_sig.as_ref().expect("attested"));
    let leaf = pki::NodeCertificate::parse(&session.client_leaf).expect("leaf");
    let body = signature.verify(Purpose::CommandResult, &leaf.public_key).expect("by the node");
    assert_eq!(proto::decode_statement(body).expect("statement").result_sha256, stdx::hex::sha256(&done.result));

    let unsupported = bed.command("c2", Kind::DiagDcgm, &v1::DiagNvmlRequest {});
    send(&session, v1::gateway_frame::Frame::Command(unsupported)).await;
    let (outcome, result) = settled(&updates_of(&mut session, "c2").await);
    assert_eq!((outcome, result.code.as_str()), (Outcome::Rejected, "UNSUPPORTED"));

    let mut unsigned = bed.command("c3", Kind::DiagNvml, &v1::DiagNvmlRequest {});
    unsigned.signed.as_mut().expect("signed").signature = vec![0; 64];
    send(&session, v1::gateway_frame::Frame::Command(unsigned)).await;
    let (outcome, result) = settled(&updates_of(&mut session, "c3").await);
    assert_eq!((outcome, result.code.as_str()), (Outcome::Rejected, "BAD_SIGNATURE"));

    let mut wrong = bed.command("c4", Kind::GpuReset, &v1::DiagNvmlRequest {});
    wrong.attempt = 2;
    send(&session, v1::gateway_frame::Frame::Command(wrong)).await;
    let (outcome, result) = settled(&updates_of(&mut session, "c4").await);
    assert_eq!((outcome, result.code.as_str()), (Outcome::Failed, "invalid-payload"));
    stopped(&stop, running).await;
}

#[tokio::test]
async fn an_inventory_that_is_asked_for_is_the_hosts_and_a_start_is_an_event() {
    let mut bed = Bed::new().await;
    let (stop, running) = bed.start();
    let (mut session, ..) = bed.greeted(1).await;
    send(&session, v1::gateway_frame::Frame::InventoryRequest(v1::InventoryRequest {})).await;
    let (mut has_inventory, mut kinds) = (false, Vec::new());
    while !has_inventory || !kinds.contains(&"daemon.started".to_owned()) {
        match next(&mut session).await {
            AgentFrame::Inventory(report) => {
                assert_eq!(report.digest, host::digest(&bed.host.inventory()));
                has_inventory = true;
            }
            AgentFrame::Events(batch) => {
                for event in batch.events {
                    let report = proto::decode_report(&event.report).expect("report");
                    assert_eq!(report.node_id.as_str(), NODE);
                    kinds.push(report.kind);
                }
            }
            _ => {}
        }
    }
    stopped(&stop, running).await;
}

#[tokio::test]
async fn a_simulated_reboot_completes_in_the_next_boot() {
    let mut bed = Bed::new().await;
    let before = bed.host.boot_id().expect("boot");
    let (_stop, running) = bed.start();
    let (session, hello, _) = bed.greeted(1).await;
    let reboot = bed.command("r1", Kind::NodeReboot, &v1::NodeRebootRequest { reason: "test".to_owned() });
    send(&session, v1::gateway_frame::Frame::Command(reboot)).await;
    let exit = tokio::time::timeout(PATIENCE, running).await.expect("in time").expect("no panic").expect("runs");
    assert_eq!(exit, Exit::RestartSimulated);

    let (stop, running) = bed.start();
    let mut second = bed.session().await;
    let AgentFrame::Hello(again) = next(&mut second).await else { panic!("Hello first") };
    assert_ne!((again.boot_id.clone(), again.incarnation.clone()), (before.clone(), hello.incarnation));
    assert_eq!((again.journal_id, again.last_epoch), (hello.journal_id, 1), "the same journal");
    let (outcome, result) = settled(&again.unacked_results);
    assert_eq!((outcome, result.code.as_str()), (Outcome::Succeeded, "rebooted"));
    let value: v1::NodeRebootResult = proto::unpack(&result.value.expect("value")).expect("result");
    assert_eq!(value.previous_boot_id, before.as_str());
    stopped(&stop, running).await;
    let effects = std::fs::read_to_string(bed.directory.path().join("effects.log")).expect("effects");
    assert_eq!(effects.lines().filter(|line| line.contains("reboot")).count(), 1);
}

#[tokio::test]
async fn a_damaged_journal_moves_aside_and_a_lost_one_is_never_as_old_as_the_node() {
    let mut bed = Bed::new().await;
    let (stop, running) = bed.start();
    let (_, first, _) = bed.greeted(1).await;
    stopped(&stop, running).await;
    let path = bed.config.data_dir.join("journal.db");
    let mut bytes = std::fs::read(&path).expect("read");
    bytes[700] ^= 1;
    stdx::durable::write_file(&path, &bytes, 0o600).expect("damage");

    let (stop, running) = bed.start();
    let (mut session, second, _) = bed.greeted(2).await;
    assert_ne!(second.journal_id, first.journal_id);
    assert_eq!(second.last_epoch, 0);
    let old = bed.command("o1", Kind::GpuReset, &v1::GpuResetRequest { gpu_uuids: vec!["GPU-x".to_owned()] });
    let signed = old.signed.as_ref().expect("signed");
    let mut body = proto::decode_body(&signed.body).expect("body");
    body.issued_at = ServerTimeMs(bed.fleet.now_ms - 1);
    let replayed = bed.fleet.keys.api.sign(Purpose::Command, proto::encode_body(&body)).expect("signs");
    let replayed = v1::Command { signed: Some(crate::signed::to_wire(replayed)), attempt: 1 };
    send(&session, v1::gateway_frame::Frame::Command(replayed)).await;
    let (outcome, result) = settled(&updates_of(&mut session, "o1").await);
    assert_eq!((outcome, result.code.as_str()), (Outcome::Failed, "journal-lost"));
    stopped(&stop, running).await;
    let names: Vec<String> = std::fs::read_dir(&bed.config.data_dir)
        .expect("list")
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.iter().any(|name| name.starts_with("journal.db.corrupt-")), "{names:?}");
}

#[tokio::test]
async fn a_lost_journal_does_not_reset_the_time_mark() {
    let mut bed = Bed::new().await;
    let (stop, running) = bed.start();
    bed.greeted(1).await;
    stopped(&stop, running).await;
    stdx::durable::remove(&bed.config.data_dir.join("journal.db")).expect("lose the journal");
    let (stop, running) = bed.start();
    let mut session = bed.session().await;
    assert!(matches!(next(&mut session).await, AgentFrame::Hello(_)));
    bed.welcome_at(&session, 2, bed.fleet.now_ms - 10 * 60_000).await;
    let AgentFrame::End { code, .. } = next(&mut session).await else { panic!("refused") };
    assert_eq!(code, SessionEnd::TimeRefused);
    stopped(&stop, running).await;
}

#[test]
fn a_journal_is_as_old_as_its_node_unless_it_replaces_a_lost_one() {
    let fleet = Fleet::new();
    let mut identity = identity_of(&fleet, pki::KeyPair::generate().public());
    (identity.joined_at, identity.time_mark) = (ServerTimeMs(1_000), ServerTimeMs(1_000_000));
    assert_eq!(birth(&identity, false, 5_000_000), ServerTimeMs(1_000));
    assert_eq!(birth(&identity, true, 1_100_000), ServerTimeMs(1_100_000), "the host's clock is believable");
    assert_eq!(birth(&identity, true, 0), ServerTimeMs(1_000_000), "never before the mark");
    assert_eq!(birth(&identity, true, i64::MAX), ServerTimeMs(1_360_000), "a clock ahead refuses nothing new");
}

#[tokio::test]
async fn a_frame_beyond_the_bound_ends_the_session_with_its_code_and_the_daemon_comes_back() {
    let mut bed = Bed::new().await;
    let (stop, running) = bed.start();
    let (mut session, ..) = bed.greeted(1).await;
    let command_id = "x".repeat(5 << 20);
    let too_long = v1::gateway_frame::Frame::Cancel(v1::Cancel { command_id, reason: String::new() });
    send(&session, too_long).await;
    loop {
        if let AgentFrame::End { code, .. } = next(&mut session).await {
            assert_eq!(code, SessionEnd::FrameTooLarge);
            break;
        }
    }
    let (_, again, _) = bed.greeted(2).await;
    assert_eq!(again.last_epoch, 1);
    stopped(&stop, running).await;
}

#[tokio::test]
async fn a_stop_says_goodbye_and_frees_the_journal() {
    let mut bed = Bed::new().await;
    let (stop, running) = bed.start();
    let (mut session, ..) = bed.greeted(1).await;
    stop.cancel();
    loop {
        if let AgentFrame::End { code, .. } = next(&mut session).await {
            assert_eq!(code, SessionEnd::Shutdown);
            break;
        }
    }
    tokio::time::timeout(PATIENCE, running).await.expect("in time").expect("no panic").expect("runs");
    journal::file::FileStorage::open(&bed.config.data_dir).expect("free");
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_from_the_next_connection_on() {
    let mut bed = Bed::new().await;
    let store = IdentityStore::new(&bed.config.data_dir);
    let mut old = store.load().expect("load").expect("joined").identity;
    // A certificate issued 20 hours ago is due.
    let key = store.load().expect("load").expect("joined").key;
    let earlier = Fleet { keys: bed.fleet.keys.clone(), now_ms: bed.fleet.now_ms - 20 * 3_600_000 };
    old.chain = vec![earlier.leaf(key.public(), Role::Node)];
    store.write(&old).expect("write");
    let (stop, running) = bed.start();
    let (mut session, ..) = bed.greeted(1).await;
    let first = session.client_leaf.clone();
    let mut renewed = false;
    while !renewed {
        if let AgentFrame::Events(batch) = next(&mut session).await {
            let last = batch.events.last().expect("an event").seq;
            renewed = batch
                .events
                .iter()
                .any(|event| proto::decode_report(&event.report).expect("report").kind == "certificate.renewed");
            let ack = v1::Ack { command_ids: vec![], journal_id: batch.journal_id.to_string(), event_seq: last };
            send(&session, v1::gateway_frame::Frame::Ack(ack)).await;
        }
    }
    drop(session);
    let (session, ..) = bed.greeted(2).await;
    let leaf = store.load().expect("load").expect("joined").identity.chain[0].clone();
    assert_ne!(session.client_leaf, first);
    assert_eq!(session.client_leaf, leaf);
    stopped(&stop, running).await;
}

#[tokio::test]
async fn the_status_socket_answers_one_document_to_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let mut bed = Bed::new().await;
    let (stop, running) = bed.start();
    let (_session, hello, _) = bed.greeted(7).await;
    let path = bed.config.socket_path.clone();
    assert_eq!(std::fs::metadata(&path).expect("stat").permissions().mode() & 0o7777, 0o600);
    let document = tokio::task::spawn_blocking(move || status::ask(&path)).await.expect("no panic").expect("status");
    assert_eq!(document["nodeId"], NODE);
    assert_eq!(document["connected"], true);
    assert_eq!(document["sessionEpoch"], 7);
    assert_eq!(document["journalId"], hello.journal_id.as_str());
    assert!(document["gauges"]["resident_bytes"].as_i64().is_some_and(|bytes| bytes > 0));
    stopped(&stop, running).await;
}

#[tokio::test]
async fn what_would_change_who_may_do_what_is_never_passed_over() {
    let bed = Bed::new().await;
    let mut config = bed.config.clone();
    config.helper = Some(crate::config::Helper { socket: "/run/h".into(), user: "bcd".to_owned() });
    let helper = run(&config, bed.host.clone(), CancellationToken::new()).await;
    assert!(matches!(helper, Err(NodeError::NotInThisVersion("helper"))), "{helper:?}");
    let mut config = bed.config.clone();
    config.data_dir = bed.directory.path().join("elsewhere");
    let unjoined = run(&config, bed.host.clone(), CancellationToken::new()).await;
    assert!(matches!(unjoined, Err(NodeError::NotJoined(_))), "{unjoined:?}");
}
