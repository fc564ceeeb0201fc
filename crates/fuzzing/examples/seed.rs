//! Writes one sound input for each target into `fuzz/corpus`: where the fuzzer starts.

use model::frame::*;
use model::*;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let now_ms = 1_800_000_000_000;
    let bundle = pki::Bundle::create(pki::FleetId::random(), &["gw.example".to_owned()], now_ms).expect("a bundle");
    let keys = bundle.split();
    let node_key = pki::KeyPair::generate();
    let node_id = NodeId::new("node_00000000000000000000000001");
    let leaf = keys
        .join
        .node_ca
        .issue_node(
            &keys.join.public.fleet_id,
            &pki::ca::NodeRequest {
                node_id: &node_id,
                role: Role::Node,
                allowed_kinds: &pki::certificate::kinds_of(Role::Node),
                public_key: node_key.public(),
            },
            now_ms,
        )
        .expect("a certificate");
    let signed =
        |body: Vec<u8>| Signed { body, kid: "0".repeat(32), chain: vec![leaf.to_vec()], signature: vec![7; 64] };
    let command = CommandBody {
        id: CommandId::new("01J00000000000000000000000"),
        node_id: node_id.clone(),
        seq: 1,
        kind: "gpu.reset".into(),
        payload: Any { type_url: "type.googleapis.com/x".into(), value: vec![1, 2, 3] },
        lane: Lane::Control,
        not_after: Some(ServerTimeMs(now_ms)),
        min_generation: 2,
        retry_safe: false,
        idempotency_key: "key".into(),
        self_terminating: false,
        attested: true,
        workflow_id: String::new(),
        step_id: String::new(),
        traceparent: String::new(),
        batch_id: String::new(),
        issued_at: ServerTimeMs(now_ms),
    };
    let body = proto::encode_body(&command);
    let settled = Settled { outcome: Outcome::Failed, result: vec![1], node_sig: Some(signed(vec![1])) };
    let boot_id = BootId::new("b1");
    let update = CommandUpdate {
        command_id: command.id.clone(),
        state: UpdateState::Done(settled.clone()),
        boot_id: boot_id.clone(),
    };
    let hello = Hello {
        protocol_min: 1,
        protocol_max: 1,
        daemon_version: "0.1.0".into(),
        role: Role::Node,
        boot_id: boot_id.clone(),
        incarnation: IncarnationId::new("i1"),
        journal_id: JournalId::new("j1"),
        last_epoch: 3,
        applied_generation: 0,
        applied_spec_hash: String::new(),
        in_flight: vec![command.id.clone()],
        unacked_results: vec![update],
        more_results: true,
        capabilities: vec!["devices.limits".into()],
        inventory_digest: String::new(),
        hostname: "h".into(),
    };
    let report = Report {
        node_id: node_id.clone(),
        kind: "daemon.started".into(),
        attributes: vec![("a".into(), "b".into())],
        body: None,
        observed_at: ServerTimeMs(now_ms),
    };
    let delivery = Delivery { signed: signed(body.clone()), attempt: 1 };
    let csr = pki::csr::create(&node_key);
    let join = proto::v1::JoinRequest { csr, claims: vec![1], attestor: "join-token".into(), ..Default::default() };
    let done = node_core::Mutation::Done { id: command.id, settled, boot_id, at: ServerTimeMs(now_ms) };
    let disk = journal::sim::SimStorage::new(1);
    let mut log = journal::log::Log::open(disk.clone()).expect("a log").log;
    log.append(&[b"one", &[9; 700]]).expect("two records");
    let token = pki::JoinToken::generate(TokenId::new("jt_00000000000000000000000001")).expect("a token");
    let xml = include_bytes!("../../host/tests-data/v12-mig.xml");
    let toml = format!(
        "gateway_url = \"https://gw.example\"\nsite = 's'\nserving_ca_spki_pin = \"{0}\"\njoin_signing_key_pin = \"{0}\"\njoin_encryption_key_pin = \"{0}\"\n[journal]\nmax_bytes = 1_000_000\n[log]\njson = true\n",
        keys.join.public.pins().serving_ca_spki_pin
    );
    let sealing = pki::SealingKey::key_file(&[7; 32]).expect("a key");
    let seeds: Vec<(&str, Vec<u8>)> = vec![
        ("agent_frame", proto::encode_agent_frame(AgentFrame::Hello(Box::new(hello))).expect("encodes")),
        ("gateway_frame", proto::encode_gateway_frame(GatewayFrame::Command(delivery)).expect("encodes")),
        ("command_body", body),
        ("report", proto::encode_report(&report)),
        ("join_messages", proto::Message::encode_to_vec(&join)),
        ("config_toml", toml.into_bytes()),
        ("join_token", token.reveal().as_bytes().to_vec()),
        ("journal_file", disk.journal_bytes().expect("a journal")[..4096].to_vec()),
        ("journal_record", journal::encode(&done)),
        ("nvidia_smi_xml", xml.to_vec()),
        ("certificate", leaf.to_vec()),
        ("key_file", pki::roles::KeyFile::seal(&keys.api, &sealing)),
        ("jwk", pki::jwk::export(&keys.join.public.join_encryption).into_bytes()),
    ];
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (target, bytes) in seeds {
        std::fs::create_dir_all(corpus.join(target))?;
        let path = corpus.join(target).join("seed");
        stdx::durable::write_file(&path, &bytes, 0o644).map_err(std::io::Error::other)?;
        println!("{} ({} bytes)", path.display(), bytes.len());
    }
    Ok(())
}
