//! The whole PKI of a fleet, as `pki init` makes it, and what of it is public. [`Bundle::split`] gives
//! each role its own keys and no others.

use crate::ca::{self, Authority, Ca, CaError};
use crate::certificate::CertificateInfo;
use crate::fleet::FleetId;
use crate::hpke::EncryptionKey;
use crate::key::{KeyPair, PublicKey};
use crate::pin::Pin;
use crate::purpose::Purpose;
use crate::roles::{ApiKeys, ControllersKeys, GatewayKeys, JoinKeys, OfflineKeys};
use crate::signed::SigningIdentity;
use crate::tls::TlsIdentity;
use crate::verify::NodeTrust;
use data_encoding::BASE64;
use rustls_pki_types::CertificateDer;
use serde_json::{Map, Value};
use stdx::hex;

/// What JoinService's pinned key signs.
pub const JOIN_PURPOSES: &[Purpose] = &[Purpose::JoinResponse, Purpose::TrustBundle];
/// What the API's worker key signs.
pub const API_PURPOSES: &[Purpose] = &[Purpose::Command, Purpose::DesiredState];
/// What the controllers' worker key signs.
pub const CONTROLLERS_PURPOSES: &[Purpose] = &[Purpose::Command, Purpose::DesiredState, Purpose::ServerTime];

/// The public half: certificates, public keys, pins. Every key file carries it in the clear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicPart {
    pub fleet_id: FleetId,
    pub serving_ca: CertificateDer<'static>,
    pub node_ca: CertificateDer<'static>,
    pub command_root: CertificateDer<'static>,
    /// Self-signed; carries the pinned key.
    pub join_signing: CertificateDer<'static>,
    pub join_encryption: PublicKey,
    /// Stored secrets are sealed to it.
    pub secrets: PublicKey,
}

/// What `config.toml` pins, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins {
    pub serving_ca_spki_pin: Pin,
    pub join_signing_key_pin: Pin,
    pub join_encryption_key_pin: Pin,
    /// SHA-256 of the command root's certificate, 64 lower-case hex digits.
    pub command_root_sha256: Vec<String>,
}

impl PublicPart {
    pub fn pins(&self) -> Pins {
        let pin = |der| Pin::of_certificate(der).expect("the public half's certificates were read when it was made");
        Pins {
            serving_ca_spki_pin: pin(&self.serving_ca),
            join_signing_key_pin: pin(&self.join_signing),
            join_encryption_key_pin: Pin::of(&self.join_encryption),
            command_root_sha256: vec![hex::sha256_hex(&self.command_root)],
        }
    }

    /// What makes a node's certificate one of this fleet.
    pub fn node_trust(&self) -> NodeTrust {
        NodeTrust { fleet_id: self.fleet_id.clone(), node_ca: vec![self.node_ca.clone()] }
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut members = Map::new();
        members.insert("fleetId".into(), self.fleet_id.as_str().into());
        for (name, bytes) in [
            ("servingCa", self.serving_ca.as_ref()),
            ("nodeCa", self.node_ca.as_ref()),
            ("commandRoot", self.command_root.as_ref()),
            ("joinSigning", self.join_signing.as_ref()),
            ("joinEncryption", self.join_encryption.spki()),
            ("secrets", self.secrets.spki()),
        ] {
            members.insert(name.into(), BASE64.encode(bytes).into());
        }
        Value::Object(members)
    }

    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let binary = |name: &str| BASE64.decode(value.get(name)?.as_str()?.as_bytes()).ok();
        let certificate = |name: &str| {
            let der = binary(name)?;
            CertificateInfo::parse(&der).ok()?;
            Some(CertificateDer::from(der))
        };
        Some(Self {
            fleet_id: FleetId::parse(value.get("fleetId")?.as_str()?).ok()?,
            serving_ca: certificate("servingCa")?,
            node_ca: certificate("nodeCa")?,
            command_root: certificate("commandRoot")?,
            join_signing: certificate("joinSigning")?,
            join_encryption: PublicKey::from_spki(&binary("joinEncryption")?).ok()?,
            secrets: PublicKey::from_spki(&binary("secrets")?).ok()?,
        })
    }
}

/// Every key of a fleet.
#[derive(Clone, Debug)]
pub struct Bundle {
    pub public: PublicPart,
    pub serving_ca: Ca,
    pub node_ca: Ca,
    pub command_root: Ca,
    pub join_signing: SigningIdentity,
    pub join_encryption: EncryptionKey,
    pub serving: TlsIdentity,
    pub api: SigningIdentity,
    pub controllers: SigningIdentity,
    pub secrets: EncryptionKey,
}

/// The keys that are renewed while the authorities stay.
struct Leaves {
    serving: TlsIdentity,
    api: SigningIdentity,
    controllers: SigningIdentity,
}

impl Bundle {
    /// A new fleet. `serving_names` are the DNS names and addresses under which gateways are reached.
    pub fn create(fleet_id: FleetId, serving_names: &[String], now_ms: i64) -> Result<Self, CaError> {
        let serving_ca = Ca::create(Authority::Serving, &fleet_id, now_ms)?;
        let node_ca = Ca::create(Authority::Node, &fleet_id, now_ms)?;
        let command_root = Ca::create(Authority::Command, &fleet_id, now_ms)?;
        let join_key = KeyPair::generate();
        let join_certificate =
            ca::self_signed_signer(&fleet_id, "better-compute join", JOIN_PURPOSES, &join_key, now_ms)?;
        let join_signing = SigningIdentity::new(join_key, join_certificate).map_err(|_| CaError::Mismatch)?;
        let (join_encryption, secrets) = (EncryptionKey::generate(), EncryptionKey::generate());
        let leaves = issue_leaves(&fleet_id, &serving_ca, &command_root, serving_names, now_ms)?;
        let public = PublicPart {
            fleet_id,
            serving_ca: serving_ca.certificate().clone(),
            node_ca: node_ca.certificate().clone(),
            command_root: command_root.certificate().clone(),
            join_signing: join_signing.certificate().clone(),
            join_encryption: *join_encryption.public(),
            secrets: *secrets.public(),
        };
        Ok(Self {
            public,
            serving_ca,
            node_ca,
            command_root,
            join_signing,
            join_encryption,
            serving: leaves.serving,
            api: leaves.api,
            controllers: leaves.controllers,
            secrets,
        })
    }

    /// The same fleet with new serving and worker keys; no node notices. Pins stay as they are.
    pub fn renew(&self, serving_names: &[String], now_ms: i64) -> Result<Self, CaError> {
        let leaves = issue_leaves(&self.public.fleet_id, &self.serving_ca, &self.command_root, serving_names, now_ms)?;
        Ok(Self { serving: leaves.serving, api: leaves.api, controllers: leaves.controllers, ..self.clone() })
    }

    pub fn pins(&self) -> Pins {
        self.public.pins()
    }

    /// Each role's keys.
    pub fn split(&self) -> RoleKeys {
        let public = || self.public.clone();
        RoleKeys {
            gateway: GatewayKeys { public: public(), serving: self.serving.clone() },
            join: JoinKeys {
                public: public(),
                node_ca: self.node_ca.clone(),
                signing: self.join_signing.clone(),
                encryption: self.join_encryption.clone(),
            },
            api: ApiKeys { public: public(), worker: self.api.clone() },
            controllers: ControllersKeys {
                public: public(),
                worker: self.controllers.clone(),
                secrets: self.secrets.clone(),
            },
            offline: OfflineKeys {
                public: public(),
                command_root: self.command_root.clone(),
                serving_ca: self.serving_ca.clone(),
            },
        }
    }
}

/// What [`Bundle::split`] gives: one value per file.
#[derive(Clone, Debug)]
pub struct RoleKeys {
    pub gateway: GatewayKeys,
    pub join: JoinKeys,
    pub api: ApiKeys,
    pub controllers: ControllersKeys,
    pub offline: OfflineKeys,
}

fn issue_leaves(
    fleet: &FleetId,
    serving_ca: &Ca,
    command_root: &Ca,
    serving_names: &[String],
    now_ms: i64,
) -> Result<Leaves, CaError> {
    let serving_key = KeyPair::generate();
    let leaf = serving_ca.issue_serving(fleet, serving_names, serving_key.public(), now_ms)?;
    let worker = |name: &str, purposes: &[Purpose]| {
        let key = KeyPair::generate();
        let certificate = command_root.issue_worker(fleet, name, purposes, key.public(), now_ms)?;
        SigningIdentity::new(key, certificate).map_err(|_| CaError::Mismatch)
    };
    Ok(Leaves {
        serving: TlsIdentity { chain: vec![leaf, serving_ca.certificate().clone()], key: serving_key },
        api: worker("better-compute api", API_PURPOSES)?,
        controllers: worker("better-compute controllers", CONTROLLERS_PURPOSES)?,
    })
}
