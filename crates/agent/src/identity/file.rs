//! `identity.json`, version 1. A member this version does not know is passed over, so that a daemon that
//! went back a version still knows who it is.

use super::Identity;
use data_encoding::BASE64;
use model::frame::Signed;
use model::{JournalId, NodeId, Role, ServerTimeMs};
use pki::FleetId;
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    node_id: String,
    fleet_id: String,
    role: String,
    site: String,
    pool: String,
    /// Standard base64 of DER, the leaf first.
    certificate_chain: Vec<String>,
    trust_bundle: Option<SignedFile>,
    server_time_mark_ms: i64,
    joined_at_ms: i64,
    journal_id: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct SignedFile {
    body: String,
    kid: String,
    chain: Vec<String>,
    signature: String,
}

pub fn encode(identity: &Identity) -> Vec<u8> {
    let file = File {
        version: VERSION,
        node_id: identity.node_id.to_string(),
        fleet_id: identity.fleet_id.to_string(),
        role: identity.role.name().to_owned(),
        site: identity.site.clone(),
        pool: identity.pool.clone(),
        certificate_chain: identity.chain.iter().map(|der| BASE64.encode(der)).collect(),
        trust_bundle: identity.trust_bundle.as_ref().map(|signed| SignedFile {
            body: BASE64.encode(&signed.body),
            kid: signed.kid.clone(),
            chain: signed.chain.iter().map(|der| BASE64.encode(der)).collect(),
            signature: BASE64.encode(&signed.signature),
        }),
        server_time_mark_ms: identity.time_mark.0,
        joined_at_ms: identity.joined_at.0,
        journal_id: identity.journal_id.as_ref().map(|id| id.to_string()),
    };
    let mut bytes = serde_json::to_vec_pretty(&file).expect("strings and integers always encode");
    bytes.push(b'\n');
    bytes
}

pub fn decode(bytes: &[u8]) -> Result<Identity, String> {
    let file: File = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if file.version != VERSION {
        return Err(format!("it is of version {}, this daemon reads {VERSION}", file.version));
    }
    let bundle = file.trust_bundle.map(|signed| {
        Ok::<_, String>(Signed {
            body: base64("trust_bundle", &signed.body)?,
            kid: signed.kid,
            chain: signed.chain.iter().map(|text| base64("trust_bundle", text)).collect::<Result<_, _>>()?,
            signature: base64("trust_bundle", &signed.signature)?,
        })
    });
    Ok(Identity {
        node_id: NodeId::parse(&file.node_id).map_err(|error| error.to_string())?,
        fleet_id: FleetId::parse(&file.fleet_id).map_err(|error| error.to_string())?,
        role: Role::parse(&file.role).ok_or_else(|| format!("{:?} is no role", file.role))?,
        site: file.site,
        pool: file.pool,
        chain: file.certificate_chain.iter().map(|text| base64("certificate_chain", text)).collect::<Result<_, _>>()?,
        trust_bundle: bundle.transpose()?,
        time_mark: ServerTimeMs(file.server_time_mark_ms),
        joined_at: ServerTimeMs(file.joined_at_ms),
        journal_id: file.journal_id.map(|id| JournalId::parse(&id)).transpose().map_err(|error| error.to_string())?,
    })
}

fn base64(member: &str, text: &str) -> Result<Vec<u8>, String> {
    BASE64.decode(text.as_bytes()).map_err(|_| format!("{member} is not base64"))
}
