//! The sealed files: what each holds, and that its keys belong together.

use crate::bundle::{Bundle, PublicPart};
use crate::ca::{Authority, Ca};
use crate::envelope::{self, FileKind, OpenError, SealingKey};
use crate::fields::{FieldReader, FieldWriter};
use crate::hpke::EncryptionKey;
use crate::key::{KeyPair, PublicKey};
use crate::signed::SigningIdentity;
use crate::tls::TlsIdentity;
use crate::verify::verify_leaf;
use rustls_pki_types::CertificateDer;
use webpki::KeyUsage;

const SERVING: &str = "serving";
const SERVING_LEAF: &str = "serving-leaf";
const SERVING_CA: &str = "serving-ca";
const NODE_CA: &str = "node-ca";
const COMMAND_ROOT: &str = "command-root";
const JOIN_SIGNING: &str = "join-signing";
const JOIN_ENCRYPTION: &str = "join-encryption";
const API: &str = "api";
const API_LEAF: &str = "api-leaf";
const CONTROLLERS: &str = "controllers";
const CONTROLLERS_LEAF: &str = "controllers-leaf";
const SECRETS: &str = "secrets";

/// A gateway terminates TLS and trusts the node CA's certificate, which is public.
#[derive(Clone, Debug)]
pub struct GatewayKeys {
    pub public: PublicPart,
    pub serving: TlsIdentity,
}

/// JoinService, in the controllers role: certifies nodes, opens tokens, signs its answers.
#[derive(Clone, Debug)]
pub struct JoinKeys {
    pub public: PublicPart,
    pub node_ca: Ca,
    pub signing: SigningIdentity,
    pub encryption: EncryptionKey,
}

/// The API signs commands.
#[derive(Clone, Debug)]
pub struct ApiKeys {
    pub public: PublicPart,
    pub worker: SigningIdentity,
}

/// The controllers sign commands, specifications and the time, and open stored secrets.
#[derive(Clone, Debug)]
pub struct ControllersKeys {
    pub public: PublicPart,
    pub worker: SigningIdentity,
    pub secrets: EncryptionKey,
}

/// Kept away from servers.
#[derive(Clone, Debug)]
pub struct OfflineKeys {
    pub public: PublicPart,
    pub command_root: Ca,
    pub serving_ca: Ca,
}

/// A sealed file of one kind.
pub trait KeyFile: Sized + private::Contents {
    const KIND: FileKind;

    fn public(&self) -> &PublicPart;

    /// The file's bytes; each call seals anew.
    fn seal(&self, key: &SealingKey) -> Vec<u8> {
        let mut fields = FieldWriter::default();
        self.write(&mut fields);
        envelope::seal(Self::KIND, self.public(), &fields.finish(), key)
    }

    /// Opens a file of this kind, and of no other, and checks that its keys are those its public half names.
    fn open(bytes: &[u8], key: &SealingKey) -> Result<Self, OpenError> {
        let (public, plaintext) = envelope::open(bytes, Self::KIND, key)?;
        let mut fields = FieldReader::parse(&plaintext).ok_or(OpenError::Inconsistent("fields"))?;
        let contents = Self::read(public, &mut fields)?;
        if fields.is_empty() { Ok(contents) } else { Err(OpenError::Inconsistent("more keys than this file has")) }
    }
}

pub(crate) mod private {
    use super::*;

    pub trait Contents: Sized {
        fn write(&self, fields: &mut FieldWriter);
        fn read(public: PublicPart, fields: &mut FieldReader<'_>) -> Result<Self, OpenError>;
    }
}

macro_rules! key_file {
    ($type:ident, $kind:ident) => {
        impl KeyFile for $type {
            const KIND: FileKind = FileKind::$kind;

            fn public(&self) -> &PublicPart {
                &self.public
            }
        }
    };
}

key_file!(Bundle, Bundle);
key_file!(GatewayKeys, Gateway);
key_file!(JoinKeys, Join);
key_file!(ApiKeys, Api);
key_file!(ControllersKeys, Controllers);
key_file!(OfflineKeys, Offline);

impl private::Contents for GatewayKeys {
    fn write(&self, fields: &mut FieldWriter) {
        write_serving(fields, &self.serving);
    }

    fn read(public: PublicPart, fields: &mut FieldReader<'_>) -> Result<Self, OpenError> {
        let serving = read_serving(&public, fields)?;
        Ok(Self { public, serving })
    }
}

impl private::Contents for JoinKeys {
    fn write(&self, fields: &mut FieldWriter) {
        fields.put(NODE_CA, &self.node_ca.key().to_pkcs8());
        fields.put(JOIN_SIGNING, &self.signing.key().to_pkcs8());
        fields.put(JOIN_ENCRYPTION, &self.encryption.to_pkcs8());
    }

    fn read(public: PublicPart, fields: &mut FieldReader<'_>) -> Result<Self, OpenError> {
        let node_ca = read_ca(Authority::Node, &public.node_ca, NODE_CA, fields)?;
        let signing = read_pinned_signer(&public, fields)?;
        let encryption = read_encryption(&public.join_encryption, JOIN_ENCRYPTION, fields)?;
        Ok(Self { public, node_ca, signing, encryption })
    }
}

impl private::Contents for ApiKeys {
    fn write(&self, fields: &mut FieldWriter) {
        write_worker(fields, API, API_LEAF, &self.worker);
    }

    fn read(public: PublicPart, fields: &mut FieldReader<'_>) -> Result<Self, OpenError> {
        let worker = read_worker(&public, API, API_LEAF, fields)?;
        Ok(Self { public, worker })
    }
}

impl private::Contents for ControllersKeys {
    fn write(&self, fields: &mut FieldWriter) {
        write_worker(fields, CONTROLLERS, CONTROLLERS_LEAF, &self.worker);
        fields.put(SECRETS, &self.secrets.to_pkcs8());
    }

    fn read(public: PublicPart, fields: &mut FieldReader<'_>) -> Result<Self, OpenError> {
        let worker = read_worker(&public, CONTROLLERS, CONTROLLERS_LEAF, fields)?;
        let secrets = read_encryption(&public.secrets, SECRETS, fields)?;
        Ok(Self { public, worker, secrets })
    }
}

impl private::Contents for OfflineKeys {
    fn write(&self, fields: &mut FieldWriter) {
        fields.put(COMMAND_ROOT, &self.command_root.key().to_pkcs8());
        fields.put(SERVING_CA, &self.serving_ca.key().to_pkcs8());
    }

    fn read(public: PublicPart, fields: &mut FieldReader<'_>) -> Result<Self, OpenError> {
        let command_root = read_ca(Authority::Command, &public.command_root, COMMAND_ROOT, fields)?;
        let serving_ca = read_ca(Authority::Serving, &public.serving_ca, SERVING_CA, fields)?;
        Ok(Self { public, command_root, serving_ca })
    }
}

impl private::Contents for Bundle {
    fn write(&self, fields: &mut FieldWriter) {
        let roles = self.split();
        roles.gateway.write(fields);
        roles.join.write(fields);
        roles.api.write(fields);
        roles.controllers.write(fields);
        roles.offline.write(fields);
    }

    fn read(public: PublicPart, fields: &mut FieldReader<'_>) -> Result<Self, OpenError> {
        let gateway = GatewayKeys::read(public.clone(), fields)?;
        let join = JoinKeys::read(public.clone(), fields)?;
        let api = ApiKeys::read(public.clone(), fields)?;
        let controllers = ControllersKeys::read(public.clone(), fields)?;
        let offline = OfflineKeys::read(public.clone(), fields)?;
        Ok(Self {
            public,
            serving_ca: offline.serving_ca,
            node_ca: join.node_ca,
            command_root: offline.command_root,
            join_signing: join.signing,
            join_encryption: join.encryption,
            serving: gateway.serving,
            api: api.worker,
            controllers: controllers.worker,
            secrets: controllers.secrets,
        })
    }
}

fn take<'a>(fields: &mut FieldReader<'a>, name: &'static str) -> Result<&'a [u8], OpenError> {
    fields.take(name).ok_or(OpenError::Inconsistent(name))
}

fn read_key(fields: &mut FieldReader<'_>, name: &'static str) -> Result<KeyPair, OpenError> {
    KeyPair::from_pkcs8(take(fields, name)?).map_err(|_| OpenError::Inconsistent(name))
}

fn read_ca(
    authority: Authority,
    certificate: &CertificateDer<'static>,
    name: &'static str,
    fields: &mut FieldReader<'_>,
) -> Result<Ca, OpenError> {
    let key = read_key(fields, name)?;
    Ca::from_parts(authority, certificate.clone(), key).map_err(|_| OpenError::Inconsistent(name))
}

fn read_encryption(
    public: &PublicKey,
    name: &'static str,
    fields: &mut FieldReader<'_>,
) -> Result<EncryptionKey, OpenError> {
    let key = EncryptionKey::from_pkcs8(take(fields, name)?).map_err(|_| OpenError::Inconsistent(name))?;
    if key.public() == public { Ok(key) } else { Err(OpenError::Inconsistent(name)) }
}

fn read_pinned_signer(public: &PublicPart, fields: &mut FieldReader<'_>) -> Result<SigningIdentity, OpenError> {
    let key = read_key(fields, JOIN_SIGNING)?;
    SigningIdentity::new(key, public.join_signing.clone()).map_err(|_| OpenError::Inconsistent(JOIN_SIGNING))
}

fn write_worker(fields: &mut FieldWriter, name: &str, leaf: &str, worker: &SigningIdentity) {
    fields.put(name, &worker.key().to_pkcs8());
    fields.put(leaf, worker.certificate());
}

fn read_worker(
    public: &PublicPart,
    name: &'static str,
    leaf: &'static str,
    fields: &mut FieldReader<'_>,
) -> Result<SigningIdentity, OpenError> {
    let key = read_key(fields, name)?;
    let certificate = CertificateDer::from(take(fields, leaf)?.to_vec());
    let usage = KeyUsage::required(&crate::certificate::SIGNING_USAGE.der);
    check_issued(&certificate, &public.command_root, usage, leaf)?;
    SigningIdentity::new(key, certificate).map_err(|_| OpenError::Inconsistent(name))
}

fn write_serving(fields: &mut FieldWriter, serving: &TlsIdentity) {
    fields.put(SERVING, &serving.key.to_pkcs8());
    fields.put(SERVING_LEAF, serving.chain.first().map_or(&[], |leaf| leaf.as_ref()));
}

fn read_serving(public: &PublicPart, fields: &mut FieldReader<'_>) -> Result<TlsIdentity, OpenError> {
    let key = read_key(fields, SERVING)?;
    let leaf = CertificateDer::from(take(fields, SERVING_LEAF)?.to_vec());
    check_issued(&leaf, &public.serving_ca, KeyUsage::server_auth(), SERVING_LEAF)?;
    let info = crate::certificate::CertificateInfo::parse(&leaf).map_err(|_| OpenError::Inconsistent(SERVING_LEAF))?;
    if info.public_key != *key.public() {
        return Err(OpenError::Inconsistent(SERVING));
    }
    Ok(TlsIdentity { chain: vec![leaf, public.serving_ca.clone()], key })
}

/// A stored leaf is its authority's, whenever: whether it still holds is asked when it is used.
fn check_issued(
    leaf: &CertificateDer<'_>,
    authority: &CertificateDer<'_>,
    usage: KeyUsage,
    name: &'static str,
) -> Result<(), OpenError> {
    let info = crate::certificate::CertificateInfo::parse(leaf).map_err(|_| OpenError::Inconsistent(name))?;
    verify_leaf(leaf, std::slice::from_ref(authority), info.not_before_ms, usage)
        .map_err(|_| OpenError::Inconsistent(name))
}

#[cfg(test)]
mod tests;
