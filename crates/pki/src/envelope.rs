//! The sealed file: a JSON document whose public half anyone can read and whose secret half is
//! AES-256-GCM under a key from a passphrase (PBKDF2-HMAC-SHA256) or from a key file (HKDF-SHA256).
//!
//! Everything but the ciphertext is the associated data, the kind of file included, so a file of one
//! role never opens as another's and a changed pin in the public half does not open at all. One byte
//! sequence per document is accepted: a file with any byte changed is refused.

use crate::bundle::PublicPart;
use crate::key;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, pbkdf2};
use data_encoding::BASE64;
use serde_json::{Map, Value, json};
use std::fmt;
use std::num::NonZeroU32;
use zeroize::Zeroizing;

const TYPE: &str = "bettercompute.pki";
const VERSION: u64 = 1;
const AAD_DOMAIN: &[u8] = b"bettercompute/pki-file/v1\0";
const KEY_FILE_INFO: &[u8] = b"bettercompute/pki-file/v1";
const KDF_PASSPHRASE: &str = "pbkdf2-hmac-sha256";
const KDF_KEY_FILE: &str = "hkdf-sha256";
/// Rounds of PBKDF2 (the figure of OWASP's password storage sheet for HMAC-SHA256).
const PBKDF2_ROUNDS: NonZeroU32 = NonZeroU32::new(600_000).expect("not zero");
const SALT_BYTES: usize = 32;
const KEY_BYTES: usize = 32;

/// Bytes of a key file.
pub const KEY_FILE_BYTES: usize = KEY_BYTES;
/// Shortest passphrase accepted, in bytes.
pub const PASSPHRASE_BYTES_MIN: usize = 12;
/// Longest passphrase accepted, in bytes.
pub const PASSPHRASE_BYTES_MAX: usize = 1024;
/// Longest sealed file read, in bytes.
pub const FILE_BYTES_MAX: usize = 256 * 1024;

macro_rules! file_kinds {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// What a sealed file is for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FileKind { $($(#[$doc])* $variant),+ }

        impl FileKind {
            pub const ALL: &'static [FileKind] = &[$(FileKind::$variant),+];

            pub const fn name(self) -> &'static str {
                match self { $(FileKind::$variant => $name),+ }
            }
        }
    };
}

file_kinds! {
    /// Everything: what `pki init` writes and `pki split` reads.
    Bundle = "bundle",
    /// The serving key and its chain.
    Gateway = "gateway",
    /// The node CA and the join keys.
    Join = "join",
    /// The API's worker key.
    Api = "api",
    /// The controllers' worker key and the key that opens stored secrets.
    Controllers = "controllers",
    /// The command root and the serving CA; no server loads it.
    Offline = "offline",
}

impl FileKind {
    pub fn parse(text: &str) -> Option<FileKind> {
        FileKind::ALL.iter().copied().find(|kind| kind.name() == text)
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What opens a sealed file.
pub enum SealingKey {
    Passphrase(Zeroizing<String>),
    KeyFile(Zeroizing<[u8; KEY_FILE_BYTES]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealingKeyError {
    #[error("a passphrase has {PASSPHRASE_BYTES_MIN} to {PASSPHRASE_BYTES_MAX} bytes")]
    Passphrase,
    #[error("a key file has exactly {KEY_FILE_BYTES} bytes")]
    KeyFile,
}

impl SealingKey {
    pub fn passphrase(text: &str) -> Result<Self, SealingKeyError> {
        let fits = (PASSPHRASE_BYTES_MIN..=PASSPHRASE_BYTES_MAX).contains(&text.len());
        if fits { Ok(Self::Passphrase(Zeroizing::new(text.to_owned()))) } else { Err(SealingKeyError::Passphrase) }
    }

    /// The content of a key file: 32 random bytes.
    pub fn key_file(bytes: &[u8]) -> Result<Self, SealingKeyError> {
        let key = bytes.try_into().map_err(|_| SealingKeyError::KeyFile)?;
        Ok(Self::KeyFile(Zeroizing::new(key)))
    }

    /// A new key file's content.
    pub fn generate_key_file() -> Zeroizing<[u8; KEY_FILE_BYTES]> {
        Zeroizing::new(key::random())
    }

    const fn kdf(&self) -> &'static str {
        match self {
            SealingKey::Passphrase(_) => KDF_PASSPHRASE,
            SealingKey::KeyFile(_) => KDF_KEY_FILE,
        }
    }

    fn derive(&self, salt: &[u8]) -> LessSafeKey {
        let mut derived = Zeroizing::new([0; KEY_BYTES]);
        match self {
            SealingKey::Passphrase(text) => {
                pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, PBKDF2_ROUNDS, salt, text.as_bytes(), derived.as_mut());
            }
            SealingKey::KeyFile(key) => hkdf::Salt::new(hkdf::HKDF_SHA256, salt)
                .extract(key.as_ref())
                .expand(&[KEY_FILE_INFO], hkdf::HKDF_SHA256)
                .and_then(|okm| okm.fill(derived.as_mut()))
                .expect("one block of HKDF output"),
        }
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, derived.as_ref()).expect("32 bytes are an AES-256 key"))
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({})", self.kdf())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("not a sealed key file: {0}")]
    Malformed(&'static str),
    #[error("this is the `{found}` file, and the `{expected}` file is needed")]
    WrongFile { expected: FileKind, found: FileKind },
    #[error("the file is sealed with a passphrase, not with a key file")]
    NeedsPassphrase,
    #[error("the file is sealed with a key file, not with a passphrase")]
    NeedsKeyFile,
    #[error("the passphrase or key file is wrong, or the file was changed")]
    Refused,
    #[error("the file's keys do not fit together: {0}")]
    Inconsistent(&'static str),
}

struct Envelope {
    kind: FileKind,
    public: PublicPart,
    kdf: String,
    salt: Vec<u8>,
    nonce: [u8; NONCE_LEN],
    ciphertext: Vec<u8>,
}

impl Envelope {
    fn header(&self) -> Map<String, Value> {
        let mut kdf = Map::new();
        kdf.insert("name".into(), self.kdf.as_str().into());
        if self.kdf == KDF_PASSPHRASE {
            kdf.insert("iterations".into(), PBKDF2_ROUNDS.get().into());
        }
        kdf.insert("salt".into(), BASE64.encode(&self.salt).into());
        let mut header = Map::new();
        header.insert("type".into(), TYPE.into());
        header.insert("version".into(), VERSION.into());
        header.insert("file".into(), self.kind.name().into());
        header.insert("public".into(), self.public.to_json());
        header.insert("kdf".into(), Value::Object(kdf));
        header
    }

    fn associated_data(&self) -> Vec<u8> {
        let mut data = AAD_DOMAIN.to_vec();
        data.extend_from_slice(Value::Object(self.header()).to_string().as_bytes());
        data
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut document = self.header();
        document.insert("nonce".into(), BASE64.encode(&self.nonce).into());
        document.insert("ciphertext".into(), BASE64.encode(&self.ciphertext).into());
        let mut text = format!("{:#}", json!(document));
        text.push('\n');
        text.into_bytes()
    }

    fn parse(bytes: &[u8]) -> Result<Self, OpenError> {
        let envelope = Self::read(bytes)?;
        if envelope.to_bytes() == bytes { Ok(envelope) } else { Err(OpenError::Malformed("not as it was written")) }
    }

    fn read(bytes: &[u8]) -> Result<Self, OpenError> {
        if bytes.len() > FILE_BYTES_MAX {
            return Err(OpenError::Malformed("too large"));
        }
        let document: Map<String, Value> =
            serde_json::from_slice(bytes).map_err(|_| OpenError::Malformed("not a JSON object"))?;
        let text = |of: &Map<String, Value>, name: &'static str| -> Result<String, OpenError> {
            of.get(name).and_then(Value::as_str).map(str::to_owned).ok_or(OpenError::Malformed(name))
        };
        let binary = |of: &Map<String, Value>, name: &'static str| -> Result<Vec<u8>, OpenError> {
            BASE64.decode(text(of, name)?.as_bytes()).map_err(|_| OpenError::Malformed(name))
        };
        if text(&document, "type")? != TYPE {
            return Err(OpenError::Malformed("type"));
        }
        if document.get("version").and_then(Value::as_u64) != Some(VERSION) {
            return Err(OpenError::Malformed("version"));
        }
        let kdf = document.get("kdf").and_then(Value::as_object).ok_or(OpenError::Malformed("kdf"))?;
        let nonce = binary(&document, "nonce")?.try_into().map_err(|_| OpenError::Malformed("nonce"))?;
        Ok(Self {
            kind: FileKind::parse(&text(&document, "file")?).ok_or(OpenError::Malformed("file"))?,
            public: document.get("public").and_then(PublicPart::from_json).ok_or(OpenError::Malformed("public"))?,
            kdf: text(kdf, "name")?,
            salt: binary(kdf, "salt")?,
            nonce,
            ciphertext: binary(&document, "ciphertext")?,
        })
    }
}

/// Seals `plaintext` as a file of `kind`.
pub(crate) fn seal(kind: FileKind, public: &PublicPart, plaintext: &[u8], key: &SealingKey) -> Vec<u8> {
    let mut envelope = Envelope {
        kind,
        public: public.clone(),
        kdf: key.kdf().to_owned(),
        salt: key::random::<SALT_BYTES>().to_vec(),
        nonce: key::random(),
        ciphertext: Vec::new(),
    };
    // Room for the tag, so that the buffer is not moved while it still holds the plaintext.
    let mut sealed = Zeroizing::new(Vec::with_capacity(plaintext.len() + AES_256_GCM.tag_len()));
    sealed.extend_from_slice(plaintext);
    key.derive(&envelope.salt)
        .seal_in_place_append_tag(
            Nonce::assume_unique_for_key(envelope.nonce),
            Aad::from(envelope.associated_data()),
            &mut *sealed,
        )
        .expect("a key file is far below the limits of AES-GCM");
    envelope.ciphertext = sealed.to_vec();
    envelope.to_bytes()
}

/// Opens a file of `expected` kind.
pub(crate) fn open(
    bytes: &[u8],
    expected: FileKind,
    key: &SealingKey,
) -> Result<(PublicPart, Zeroizing<Vec<u8>>), OpenError> {
    let envelope = Envelope::parse(bytes)?;
    if envelope.kind != expected {
        return Err(OpenError::WrongFile { expected, found: envelope.kind });
    }
    match (key, envelope.kdf.as_str()) {
        (SealingKey::Passphrase(_), KDF_PASSPHRASE) | (SealingKey::KeyFile(_), KDF_KEY_FILE) => {}
        (SealingKey::KeyFile(_), KDF_PASSPHRASE) => return Err(OpenError::NeedsPassphrase),
        (SealingKey::Passphrase(_), KDF_KEY_FILE) => return Err(OpenError::NeedsKeyFile),
        _ => return Err(OpenError::Malformed("kdf")),
    }
    if envelope.salt.len() != SALT_BYTES {
        return Err(OpenError::Malformed("salt"));
    }
    let aad = Aad::from(envelope.associated_data());
    let mut buffer = Zeroizing::new(envelope.ciphertext);
    let plaintext_length = key
        .derive(&envelope.salt)
        .open_in_place(Nonce::assume_unique_for_key(envelope.nonce), aad, &mut buffer)
        .map_err(|_| OpenError::Refused)?
        .len();
    buffer.truncate(plaintext_length);
    Ok((envelope.public, buffer))
}

/// What a file is, and its public half, without opening it. Nothing here is authenticated: anyone who
/// can write the file can change it, and only opening it would tell.
pub fn read_public(bytes: &[u8]) -> Result<(FileKind, PublicPart), OpenError> {
    let envelope = Envelope::parse(bytes)?;
    Ok((envelope.kind, envelope.public))
}
