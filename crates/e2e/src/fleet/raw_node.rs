//! A node made by hand: a certificate of anybody's choice, and frames that no daemon would send.

use agent::clock::AgentClock;
use agent::transport::{self, Gateway};
use anyhow::{Context, Result, bail};
use model::frame::{AgentFrame, GatewayFrame, Hello};
use model::session::{PROTOCOL_MAX, PROTOCOL_MIN};
use model::{BootId, IncarnationId, JournalId, NodeId, Role, ServerTimeMs, SessionEnd};
use pki::ca::NodeRequest;
use pki::roles::JoinKeys;
use pki::tls::TlsIdentity;
use pki::{KeyPair, Sealed};
use proto::Message;
use proto::v1::{self, join_reply};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

/// Far beyond what an answer takes.
const WITHIN: Duration = Duration::from_secs(30);

/// Node id, key, and certificates towards the node CA.
#[derive(Clone)]
pub struct RawNode {
    pub node_id: NodeId,
    pub identity: TlsIdentity,
}

impl RawNode {
    /// Certified by `keys` as if it were `now_ms`, whether the fleet knows the node or not.
    pub fn certified(keys: &JoinKeys, node_id: &NodeId, now_ms: i64) -> Result<Self> {
        let key = KeyPair::generate();
        let kinds = pki::certificate::kinds_of(Role::Node);
        let request = NodeRequest { node_id, role: Role::Node, allowed_kinds: &kinds, public_key: key.public() };
        let leaf = keys.node_ca.issue_node(&keys.public.fleet_id, &request, now_ms)?.to_vec();
        let chain = [leaf, keys.node_ca.certificate().to_vec()];
        Ok(Self { node_id: node_id.clone(), identity: transport::tls_identity(&chain, &key) })
    }
}

/// What a session's other side did last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The gateway said why.
    Said(SessionEnd),
    /// The stream broke without a word.
    Broke(String),
}

/// An open stream, `Hello` not sent.
pub struct RawSession {
    frames: mpsc::Sender<v1::AgentFrame>,
    inbound: Streaming<v1::GatewayFrame>,
}

impl RawSession {
    pub async fn open(gateway: &Gateway, node: &RawNode) -> Result<Self> {
        let client = transport::connect(gateway, Some(&node.identity), &clock()).await?;
        // No bound of ours: the gateway's own is what counts.
        let mut client = client.max_encoding_message_size(usize::MAX);
        let (frames, frames_rx) = mpsc::channel(16);
        let inbound = client.session(ReceiverStream::new(frames_rx)).await?.into_inner();
        Ok(Self { frames, inbound })
    }

    pub async fn send(&self, frame: v1::AgentFrame) -> Result<()> {
        self.frames.send(frame).await.context("the session is gone")
    }

    pub async fn hello(&self, hello: Hello) -> Result<()> {
        self.send(AgentFrame::Hello(Box::new(hello)).into()).await
    }

    /// The next frame.
    pub async fn next(&mut self) -> Result<GatewayFrame> {
        let frame = tokio::time::timeout(WITHIN, self.inbound.message()).await.context("no frame came")??;
        Ok(GatewayFrame::try_from(frame.context("the stream ended")?)?)
    }

    /// Reads on until the session is over.
    pub async fn ended(&mut self) -> Result<Ended> {
        loop {
            let message = tokio::time::timeout(WITHIN, self.inbound.message()).await.context("the session goes on")?;
            match message {
                Ok(Some(frame)) => {
                    if let GatewayFrame::End { code, .. } = GatewayFrame::try_from(frame)? {
                        return Ok(Ended::Said(code));
                    }
                }
                Ok(None) => return Ok(Ended::Broke("the stream ended".to_owned())),
                Err(status) => return Ok(Ended::Broke(status.to_string())),
            }
        }
    }
}

/// A greeting without anything to report.
pub fn hello(journal: &str) -> Hello {
    Hello {
        protocol_min: PROTOCOL_MIN,
        protocol_max: PROTOCOL_MAX,
        daemon_version: "0.1.0".to_owned(),
        role: Role::Node,
        boot_id: BootId::new("11111111-2222-3333-4444-555555555555"),
        incarnation: IncarnationId::new("incarnation-1"),
        journal_id: JournalId::new(journal),
        last_epoch: 0,
        applied_generation: 0,
        applied_spec_hash: String::new(),
        in_flight: Vec::new(),
        unacked_results: Vec::new(),
        more_results: false,
        capabilities: Vec::new(),
        inventory_digest: String::new(),
        hostname: "by-hand".to_owned(),
    }
}

/// A join request with parts of anybody's choice.
pub struct RawJoin {
    pub key: KeyPair,
    pub csr: Vec<u8>,
    pub claims: Vec<u8>,
    pub sealed: Sealed,
}

impl RawJoin {
    /// What an honest machine of `site` would send.
    pub fn new(keys: &JoinKeys, site: &str, hostname: &str, token: &str) -> Result<Self> {
        let key = KeyPair::generate();
        let csr = pki::csr::create(&key);
        Self::with_csr(keys, site, hostname, token, key, csr)
    }

    pub fn with_csr(
        keys: &JoinKeys,
        site: &str,
        hostname: &str,
        token: &str,
        key: KeyPair,
        csr: Vec<u8>,
    ) -> Result<Self> {
        let claims = v1::JoinClaims {
            site: site.to_owned(),
            role: v1::Role::Node.into(),
            hostname: hostname.to_owned(),
            arch: "x86_64".to_owned(),
            os: "linux".to_owned(),
            daemon_version: "0.1.0".to_owned(),
            ..v1::JoinClaims::default()
        };
        let claims = claims.encode_to_vec();
        let token = pki::JoinToken::parse(token)?;
        let sealed = pki::token::seal(&token, &keys.public.join_encryption, &csr, &claims)?;
        Ok(Self { key, csr, claims, sealed })
    }

    /// Asks once, and answers the certificate's chain or the refusal's code.
    pub async fn ask(&self, gateway: &Gateway) -> Result<Result<v1::JoinResponse, String>> {
        let request = v1::JoinRequest {
            csr: self.csr.clone(),
            claims: self.claims.clone(),
            attestor: "join-token".to_owned(),
            sealed_enc: self.sealed.enc.clone(),
            sealed_token: self.sealed.ciphertext.clone(),
            encryption_kid: String::new(),
        };
        let mut client = transport::connect(gateway, None, &clock()).await?;
        let reply = client.join(request).await?.into_inner();
        match reply.reply.context("an empty reply")? {
            join_reply::Reply::Response(signed) => Ok(Ok(v1::JoinResponse::decode(signed.body.as_slice())?)),
            join_reply::Reply::Refused(refused) => Ok(Err(refused.code)),
            join_reply::Reply::Deferred(deferred) => bail!("deferred: {}", deferred.reason),
        }
    }

    /// The node that the answer made of this machine.
    pub fn node(&self, response: &v1::JoinResponse) -> Result<RawNode> {
        let node_id = NodeId::parse(&response.node_id)?;
        Ok(RawNode { node_id, identity: transport::tls_identity(&response.chain, &self.key) })
    }
}

fn clock() -> AgentClock {
    AgentClock::new(ServerTimeMs(0))
}
