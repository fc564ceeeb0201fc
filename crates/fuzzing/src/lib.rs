//! Every parser of outside bytes as a function of bytes, for the coverage-guided fuzzer in `fuzz/` and for
//! the ordinary test that replays its kept corpus.
//!
//! A target may do anything but panic, hang or take memory without bound; where a parser has an
//! inverse, the target checks it too.

use agent::config::Build;
use journal::sim::SimStorage;
use prost::Message;
use proto::v1;

/// A parser under its name.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
}

/// All of them; `fuzz/fuzz_targets` has one file each.
pub const TARGETS: &[Target] = &[
    Target { name: "agent_frame", run: agent_frame },
    Target { name: "gateway_frame", run: gateway_frame },
    Target { name: "command_body", run: command_body },
    Target { name: "report", run: report },
    Target { name: "join_messages", run: join_messages },
    Target { name: "config_toml", run: config_toml },
    Target { name: "join_token", run: join_token },
    Target { name: "journal_file", run: journal_file },
    Target { name: "journal_record", run: journal_record },
    Target { name: "nvidia_smi_xml", run: nvidia_smi_xml },
    Target { name: "certificate", run: certificate },
    Target { name: "key_file", run: key_file },
    Target { name: "jwk", run: jwk },
];

/// What a node sends a gateway.
pub fn agent_frame(bytes: &[u8]) {
    if let Ok(frame) = proto::decode_agent_frame(bytes)
        && let Ok(encoded) = proto::encode_agent_frame(frame.clone())
    {
        let again = proto::decode_agent_frame(&encoded).expect("what was encoded decodes");
        assert_eq!(again, frame);
    }
}

/// What a gateway sends a node.
pub fn gateway_frame(bytes: &[u8]) {
    if let Ok(frame) = proto::decode_gateway_frame(bytes)
        && let Ok(encoded) = proto::encode_gateway_frame(frame.clone())
    {
        let again = proto::decode_gateway_frame(&encoded).expect("what was encoded decodes");
        assert_eq!(again, frame);
    }
}

/// A command's body, which the node and the dispatching gateway read.
pub fn command_body(bytes: &[u8]) {
    if let Ok(body) = proto::decode_body(bytes) {
        let again = proto::decode_body(&proto::encode_body(&body)).expect("what was encoded decodes");
        assert_eq!(again, body);
    }
}

/// An event's report, a result, a statement and a spec.
pub fn report(bytes: &[u8]) {
    let outcomes = [
        proto::decode_report(bytes).is_ok(),
        proto::decode_result(bytes).is_ok(),
        proto::decode_statement(bytes).is_ok(),
        proto::decode_desired_state(bytes).is_ok(),
        proto::scan_tags(bytes).is_ok(),
    ];
    std::hint::black_box(outcomes);
}

/// What JoinService and a joining machine read from each other.
pub fn join_messages(bytes: &[u8]) {
    let outcomes = [
        v1::JoinRequest::decode(bytes).is_ok(),
        v1::JoinClaims::decode(bytes).is_ok(),
        v1::JoinReply::decode(bytes).is_ok(),
        v1::JoinResponse::decode(bytes).is_ok(),
        v1::TrustBundle::decode(bytes).is_ok(),
        v1::RenewRequest::decode(bytes).is_ok(),
        v1::Inventory::decode(bytes).is_ok(),
        pki::csr::verify(bytes).is_ok(),
    ];
    std::hint::black_box(outcomes);
}

pub fn config_toml(bytes: &[u8]) {
    for build in [Build::Host, Build::Development] {
        if let Err(error) = agent::config::parse(bytes, build) {
            assert!(!error.to_string().is_empty());
        }
    }
}

pub fn join_token(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Err(error) = pki::JoinToken::parse(text)
    {
        // An error never repeats the secret.
        assert!(text.len() < 16 || !error.to_string().contains(text));
    }
}

/// A journal as found on a disk.
pub fn journal_file(bytes: &[u8]) {
    if let Ok(opened) = journal::log::Log::open(SimStorage::with_journal(1, bytes)) {
        for record in &opened.records {
            journal_record(record);
        }
    }
}

pub fn journal_record(bytes: &[u8]) {
    if let Ok(mutation) = journal::decode(bytes) {
        assert_eq!(journal::decode(&journal::encode(&mutation)), Ok(mutation));
    }
}

/// The output of `nvidia-smi -q -x`.
pub fn nvidia_smi_xml(bytes: &[u8]) {
    let output = host::exec::Output { code: 0, stdout: bytes.to_vec(), cut: false, stderr: String::new() };
    std::hint::black_box(host::nvidia_smi::parse(&output).is_ok());
}

pub fn certificate(bytes: &[u8]) {
    let outcomes = [pki::NodeCertificate::parse(bytes).is_ok(), pki::WorkerCertificate::parse(bytes).is_ok()];
    std::hint::black_box(outcomes);
}

/// The public half of a sealed key file; the sealed half is opened only after its key proved it whole.
pub fn key_file(bytes: &[u8]) {
    std::hint::black_box(pki::envelope::read_public(bytes).is_ok());
}

pub fn jwk(bytes: &[u8]) {
    if let Ok(key) = pki::jwk::import(bytes) {
        assert_eq!(pki::jwk::import(pki::jwk::export(&key).as_bytes()).ok(), Some(key));
    }
}

#[cfg(test)]
mod tests;
