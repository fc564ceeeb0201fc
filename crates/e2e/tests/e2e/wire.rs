//! Bad input over the real wire: what a gateway answers to peers that no daemon would be, and that a revocation
//! ends a session while it lives.

use e2e::fleet::process::Process;
use e2e::fleet::raw_node::{Ended, RawJoin, RawNode, RawSession, hello};
use e2e::fleet::{Fleet, Place};
use model::frame::{AgentFrame, GatewayFrame, Heartbeat, StatusReport};
use model::limits::FRAME_BYTES_MAX;
use model::{NodeId, SessionEnd};
use pki::FleetId;
use proto::v1;
use serde_json::json;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// A control plane and a place, for as long as a test runs.
pub struct Stage {
    pub fleet: Fleet,
    pub place: Place,
    _control_plane: Process,
}

impl Stage {
    pub fn new() -> Self {
        let fleet = Fleet::create().expect("a fleet");
        let control_plane = fleet.start_control_plane().expect("a control plane");
        let place = fleet.place().expect("a place");
        Self { fleet, place, _control_plane: control_plane }
    }

    /// A node that joined in order.
    pub async fn joined(&self, hostname: &str) -> RawNode {
        let join = self.join(hostname, &self.token(1, hostname));
        let response = join.ask(&self.gateway()).await.expect("an answer").expect("it may join");
        join.node(&response).expect("a node")
    }

    fn token(&self, uses: u32, key: &str) -> String {
        self.fleet.join_token(&self.place, uses, key).expect("a token")
    }

    fn join(&self, hostname: &str, token: &str) -> RawJoin {
        let keys = self.fleet.join_keys().expect("keys");
        RawJoin::new(&keys, &self.place.site, hostname, token).expect("a request")
    }

    fn gateway(&self) -> agent::transport::Gateway {
        self.fleet.gateway().expect("a gateway")
    }

    pub async fn session(&self, node: &RawNode) -> RawSession {
        RawSession::open(&self.gateway(), node).await.expect("a stream")
    }

    /// How a session of `node` ends that begins as it should.
    async fn refusal(&self, node: &RawNode) -> Ended {
        let mut session = self.session(node).await;
        // The gateway may refuse the certificate before it reads.
        session.hello(hello("journal_1")).await.ok();
        session.ended().await.expect("an end")
    }

    fn revoke(&self, node: &RawNode) {
        let request = json!({ "nodeId": node.node_id.to_string(), "idempotencyKey": "revoke" });
        self.fleet.api.call("nodes.revoke", &request).expect("revoked");
    }
}

/// Begins a session and goes on until commands could come.
pub async fn live(session: &mut RawSession) -> u64 {
    session.hello(hello("journal_1")).await.expect("sent");
    let epoch = loop {
        if let GatewayFrame::Welcome(welcome) = session.next().await.expect("a frame") {
            break welcome.session_epoch;
        }
    };
    session.send(AgentFrame::ResumeDone.into()).await.expect("sent");
    let heartbeat = AgentFrame::Heartbeat(Heartbeat { sequence: 1, applied_generation: 0 });
    session.send(heartbeat.into()).await.expect("sent");
    while !matches!(session.next().await.expect("a frame"), GatewayFrame::HeartbeatAck { sequence: 1, .. }) {}
    epoch
}

#[tokio::test]
async fn a_frame_above_four_mebibytes_ends_the_session_as_frame_too_large() {
    let stage = Stage::new();
    let node = stage.joined("long-winded").await;
    let mut session = stage.session(&node).await;
    live(&mut session).await;
    let report = StatusReport { applied_spec_hash: "a".repeat(FRAME_BYTES_MAX + 1), ..StatusReport::default() };
    session.send(AgentFrame::Status(report).into()).await.expect("sent");
    assert_eq!(session.ended().await.expect("an end"), Ended::Said(SessionEnd::FrameTooLarge));
}

#[tokio::test]
async fn a_frame_out_of_order_or_empty_is_a_protocol_error() {
    let stage = Stage::new();
    let node = stage.joined("hasty").await;
    for frame in [AgentFrame::ResumeDone.into(), v1::AgentFrame { frame: None }] {
        let mut session = stage.session(&node).await;
        session.send(frame).await.expect("sent");
        assert_eq!(session.ended().await.expect("an end"), Ended::Said(SessionEnd::ProtocolError));
    }
}

#[tokio::test]
async fn a_certificate_of_another_fleet_is_refused_as_wrong_fleet() {
    let stage = Stage::new();
    let now_ms = stdx::clock::wall_unix_ms();
    let other = pki::Bundle::create(FleetId::random(), &["localhost".to_owned()], now_ms).expect("another fleet");
    let node = NodeId::new("node_01J00000000000000000000000");
    let stranger = RawNode::certified(&other.split().join, &node, now_ms).expect("certified");
    assert_eq!(stage.refusal(&stranger).await, Ended::Said(SessionEnd::WrongFleet));
}

#[tokio::test]
async fn an_expired_certificate_is_refused_as_certificate_expired_in_its_grace_too() {
    let stage = Stage::new();
    let keys = stage.fleet.join_keys().expect("keys");
    let node = stage.joined("late").await;
    let now_ms = stdx::clock::wall_unix_ms();
    // Of yesterday: within the 7 days in which it may renew. Of last week: beyond them.
    for age_ms in [2 * DAY_MS, 9 * DAY_MS] {
        let late = RawNode::certified(&keys, &node.node_id, now_ms - age_ms).expect("certified");
        assert_eq!(stage.refusal(&late).await, Ended::Said(SessionEnd::CertificateExpired), "{age_ms} ms old");
    }
}

#[tokio::test]
async fn a_revoked_node_that_resumes_is_refused_as_revoked() {
    let stage = Stage::new();
    let node = stage.joined("mole").await;
    let mut session = stage.session(&node).await;
    live(&mut session).await;
    drop(session);
    stage.revoke(&node);
    assert_eq!(stage.refusal(&node).await, Ended::Said(SessionEnd::Revoked));
}

#[tokio::test]
async fn a_revocation_ends_the_live_session_at_once() {
    let stage = Stage::new();
    let node = stage.joined("mole").await;
    let mut session = stage.session(&node).await;
    live(&mut session).await;
    let begun = std::time::Instant::now();
    stage.revoke(&node);
    assert_eq!(session.ended().await.expect("an end"), Ended::Said(SessionEnd::Revoked));
    // Far below a heartbeat: nothing that the session does by itself ended it.
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_newer_session_of_the_same_node_supersedes_the_older_one() {
    let stage = Stage::new();
    let node = stage.joined("twice").await;
    let mut older = stage.session(&node).await;
    let first = live(&mut older).await;
    let mut newer = stage.session(&node).await;
    let second = live(&mut newer).await;
    assert!(second > first, "{first} then {second}");
    assert_eq!(older.ended().await.expect("an end"), Ended::Said(SessionEnd::Superseded));
}

#[tokio::test]
async fn the_epoch_goes_above_what_a_node_reports_and_absurd_ones_are_refused() {
    let stage = Stage::new();
    let node = stage.joined("from-a-backup").await;
    let mut session = stage.session(&node).await;
    session.hello(model::frame::Hello { last_epoch: 41, ..hello("journal_1") }).await.expect("sent");
    let GatewayFrame::Welcome(welcome) = session.next().await.expect("a frame") else { panic!("no welcome") };
    assert_eq!(welcome.session_epoch, 42);
    let mut session = stage.session(&node).await;
    session.hello(model::frame::Hello { last_epoch: (1 << 53) + 1, ..hello("journal_1") }).await.expect("sent");
    assert_eq!(session.ended().await.expect("an end"), Ended::Said(SessionEnd::ProtocolError));
}

#[tokio::test]
async fn a_token_binds_to_its_request_which_gets_the_same_answer_again() {
    let stage = Stage::new();
    let token = stage.token(1, "single");
    let join = stage.join("first", &token);
    let gateway = stage.gateway();
    let answer = join.ask(&gateway).await.expect("an answer").expect("it may join");
    let again = join.ask(&gateway).await.expect("an answer").expect("the same request may ask again");
    assert_eq!((again.node_id, again.chain), (answer.node_id, answer.chain));
    // Another request under the used token, by another machine and by one that says it is the same.
    for hostname in ["second", "first"] {
        let other = stage.join(hostname, &token);
        assert_eq!(other.ask(&gateway).await.expect("an answer").expect_err("refused"), "token-used");
    }
    assert_eq!(stage.fleet.api.nodes().expect("nodes").len(), 1);
}

#[tokio::test]
async fn a_sealed_token_opens_only_for_the_request_and_the_claims_it_was_sealed_for() {
    let stage = Stage::new();
    let token = stage.token(2, "stolen");
    let gateway = stage.gateway();
    // A relay that saw one join puts in a request of its own, and then claims of its own.
    let honest = stage.join("victim", &token);
    let thief = stage.join("thief", &token);
    let with_csr = RawJoin { csr: thief.csr.clone(), claims: honest.claims.clone(), ..honest };
    assert_eq!(with_csr.ask(&gateway).await.expect("an answer").expect_err("refused"), "token-invalid");
    let with_claims = RawJoin { csr: with_csr.csr, claims: thief.claims, ..stage.join("victim", &token) };
    assert_eq!(with_claims.ask(&gateway).await.expect("an answer").expect_err("refused"), "token-invalid");
    assert!(stage.fleet.api.nodes().expect("nodes").is_empty());
}

#[tokio::test]
async fn a_site_that_is_not_the_tokens_is_refused() {
    let stage = Stage::new();
    let keys = stage.fleet.join_keys().expect("keys");
    let token = stage.token(1, "elsewhere");
    let join = RawJoin::new(&keys, "site_01J00000000000000000000000", "lost", &token).expect("a request");
    assert_eq!(join.ask(&stage.gateway()).await.expect("an answer").expect_err("refused"), "site-mismatch");
}

#[tokio::test]
async fn a_revoked_join_token_admits_nobody() {
    let stage = Stage::new();
    let token = stage.token(1, "withdrawn");
    let id = &stage.fleet.api.list("joinTokens.list", json!({})).expect("tokens")[0]["id"];
    stage.fleet.api.call("joinTokens.revoke", &json!({ "tokenId": id, "idempotencyKey": "r" })).expect("revoked");
    let join = stage.join("too-late", &token);
    assert_eq!(join.ask(&stage.gateway()).await.expect("an answer").expect_err("refused"), "token-revoked");
}
