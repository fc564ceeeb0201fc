use super::*;
use crate::envelope::read_public;
use crate::show::Show;
use crate::testing::{FLEET, IMPOSTOR, NOW_MS, SERVER};
use proptest::prelude::*;
use std::sync::LazyLock;

fn key_file(byte: u8) -> SealingKey {
    SealingKey::key_file(&[byte; 32]).expect("32 bytes")
}

static SEALED: LazyLock<Vec<(FileKind, Vec<u8>)>> = LazyLock::new(|| {
    let (roles, key) = (FLEET.split(), key_file(1));
    vec![
        (FileKind::Bundle, FLEET.seal(&key)),
        (FileKind::Gateway, roles.gateway.seal(&key)),
        (FileKind::Join, roles.join.seal(&key)),
        (FileKind::Api, roles.api.seal(&key)),
        (FileKind::Controllers, roles.controllers.seal(&key)),
        (FileKind::Offline, roles.offline.seal(&key)),
    ]
});

fn sealed(kind: FileKind) -> &'static [u8] {
    &SEALED.iter().find(|(known, _)| *known == kind).expect("every kind").1
}

/// Opens `bytes` as a file of `kind` and forgets it.
fn open_as(kind: FileKind, bytes: &[u8], key: &SealingKey) -> Result<(), OpenError> {
    match kind {
        FileKind::Bundle => Bundle::open(bytes, key).map(|_| ()),
        FileKind::Gateway => GatewayKeys::open(bytes, key).map(|_| ()),
        FileKind::Join => JoinKeys::open(bytes, key).map(|_| ()),
        FileKind::Api => ApiKeys::open(bytes, key).map(|_| ()),
        FileKind::Controllers => ControllersKeys::open(bytes, key).map(|_| ()),
        FileKind::Offline => OfflineKeys::open(bytes, key).map(|_| ()),
    }
}

#[test]
fn a_bundle_and_its_split_files_give_back_the_same_keys() {
    let key = key_file(1);
    let bundle = Bundle::open(sealed(FileKind::Bundle), &key).expect("bundle");
    assert_eq!(bundle.public, FLEET.public);
    assert_eq!(bundle.node_ca.public_key(), FLEET.node_ca.public_key());
    assert_eq!(bundle.command_root.public_key(), FLEET.command_root.public_key());
    assert_eq!(bundle.serving.chain, FLEET.serving.chain);
    assert_eq!(bundle.controllers.certificate(), FLEET.controllers.certificate());
    let gateway = GatewayKeys::open(sealed(FileKind::Gateway), &key).expect("gateway");
    assert_eq!(gateway.serving.key.public(), FLEET.serving.key.public());
    let join = JoinKeys::open(sealed(FileKind::Join), &key).expect("join");
    assert_eq!(join.encryption.public(), FLEET.join_encryption.public());
    let controllers = ControllersKeys::open(sealed(FileKind::Controllers), &key).expect("controllers");
    assert_eq!(controllers.secrets.public(), FLEET.secrets.public());
    let offline = OfflineKeys::open(sealed(FileKind::Offline), &key).expect("offline");
    assert_eq!(offline.serving_ca.public_key(), FLEET.serving_ca.public_key());
}

#[test]
fn a_file_opens_as_its_own_role_only() {
    for (found, bytes) in SEALED.iter() {
        for expected in FileKind::ALL {
            let result = open_as(*expected, bytes, &key_file(1));
            if expected == found {
                assert_eq!(result, Ok(()));
            } else {
                assert_eq!(result, Err(OpenError::WrongFile { expected: *expected, found: *found }));
            }
        }
    }
}

#[test]
fn renaming_a_files_role_does_not_open_it() {
    let text = String::from_utf8(sealed(FileKind::Join).to_vec()).expect("JSON");
    let renamed = text.replace("\"file\": \"join\"", "\"file\": \"gateway\"");
    assert_ne!(renamed, text);
    assert_eq!(open_as(FileKind::Gateway, renamed.as_bytes(), &key_file(1)), Err(OpenError::Refused));
}

#[test]
fn a_changed_public_half_does_not_open() {
    let text = String::from_utf8(sealed(FileKind::Gateway).to_vec()).expect("JSON");
    let other = String::from_utf8(IMPOSTOR.split().gateway.seal(&key_file(1))).expect("JSON");
    let node_ca = |text: &str| text.lines().find(|line| line.contains("\"nodeCa\"")).map(str::to_owned).expect("line");
    let swapped = text.replace(&node_ca(&text), &node_ca(&other));
    assert!(read_public(swapped.as_bytes()).is_ok());
    assert_eq!(open_as(FileKind::Gateway, swapped.as_bytes(), &key_file(1)), Err(OpenError::Refused));
}

#[test]
fn no_flipped_bit_opens() {
    for (kind, bytes) in SEALED.iter() {
        for at in (0..bytes.len()).step_by(if *kind == FileKind::Api { 3 } else { 37 }) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 7);
            assert!(open_as(*kind, &flipped, &key_file(1)).is_err(), "{kind} byte {at}");
        }
        assert!(open_as(*kind, &bytes[..bytes.len() - 1], &key_file(1)).is_err());
        assert!(open_as(*kind, &[bytes, b"\n".as_slice()].concat(), &key_file(1)).is_err());
    }
}

#[test]
fn only_the_right_secret_opens() {
    let passphrase = |text: &str| SealingKey::passphrase(text).expect("long enough");
    let bytes = FLEET.split().api.seal(&passphrase("correct horse battery"));
    assert_eq!(open_as(FileKind::Api, &bytes, &passphrase("correct horse battery")), Ok(()));
    assert_eq!(open_as(FileKind::Api, &bytes, &passphrase("correct horse batterz")), Err(OpenError::Refused));
    assert_eq!(open_as(FileKind::Api, &bytes, &key_file(1)), Err(OpenError::NeedsPassphrase));
    assert_eq!(open_as(FileKind::Api, sealed(FileKind::Api), &key_file(2)), Err(OpenError::Refused));
    let wrong = passphrase("correct horse battery");
    assert_eq!(open_as(FileKind::Api, sealed(FileKind::Api), &wrong), Err(OpenError::NeedsKeyFile));
    assert!(String::from_utf8(bytes.clone()).expect("JSON").contains("\"iterations\": 600000"));
    let fewer = String::from_utf8(bytes).expect("JSON").replace("600000", "000001");
    assert!(open_as(FileKind::Api, fewer.as_bytes(), &wrong).is_err());
    assert!(SealingKey::passphrase("too short").is_err());
    assert!(SealingKey::key_file(&[0; 31]).is_err());
}

#[test]
fn pins_and_certificates_are_read_without_the_secret() {
    for (kind, bytes) in SEALED.iter() {
        assert_eq!(read_public(bytes), Ok((*kind, FLEET.public.clone())));
    }
    let pins = FLEET.pins();
    assert!(pins.serving_ca_spki_pin.matches_certificate(&FLEET.serving.chain[1]));
    assert!(pins.join_signing_key_pin.matches(FLEET.join_signing.public_key()));
    assert!(pins.join_encryption_key_pin.matches(FLEET.join_encryption.public()));
    assert_eq!(pins.command_root_sha256, [stdx::hex::sha256_hex(&FLEET.public.command_root)]);
}

#[test]
fn neither_files_nor_summaries_nor_debug_show_a_private_key() {
    let secrets = [
        FLEET.node_ca.key().scalar(),
        FLEET.join_signing.key().scalar(),
        FLEET.api.key().scalar(),
        FLEET.serving.key.scalar(),
        FLEET.command_root.key().scalar(),
    ];
    let shown = [
        String::from_utf8(sealed(FileKind::Bundle).to_vec()).expect("JSON"),
        format!("{:?}", FLEET.summary()),
        format!("{:?} {:?}", *FLEET, FLEET.split()),
    ];
    for secret in &secrets {
        let spellings =
            [stdx::hex::encode(secret), data_encoding::BASE64.encode(secret), format!("{:?}", secret.as_slice())];
        for text in &shown {
            assert!(spellings.iter().all(|spelling| !text.contains(spelling.trim_matches(['[', ']', '=']))));
        }
    }
}

#[test]
fn a_summary_says_which_private_keys_a_file_holds() {
    let private = |summary: crate::show::Summary| -> Vec<&'static str> {
        summary.entries.iter().filter(|entry| entry.private).map(|entry| entry.name).collect()
    };
    let roles = FLEET.split();
    assert_eq!(private(roles.gateway.summary()), ["serving certificate"]);
    assert_eq!(private(roles.join.summary()), ["node CA", "join signing key", "join encryption key"]);
    assert_eq!(private(roles.api.summary()), ["api worker"]);
    assert_eq!(private(roles.controllers.summary()), ["secrets key", "controllers worker"]);
    assert_eq!(private(roles.offline.summary()), ["serving CA", "command root"]);
    assert_eq!(private(FLEET.summary()).len(), FLEET.summary().entries.len());
    let serving = roles.gateway.summary().entries.pop().and_then(|entry| entry.certificate).expect("certificate");
    assert_eq!(serving.names[0], SERVER);
    assert!(serving.not_before_ms < NOW_MS && NOW_MS < serving.not_after_ms);
}

#[test]
fn keys_that_are_not_those_of_the_public_half_are_refused() {
    let mut join = FLEET.split().join;
    join.node_ca = IMPOSTOR.node_ca.clone();
    let bytes = join.seal(&key_file(1));
    assert_eq!(open_as(FileKind::Join, &bytes, &key_file(1)), Err(OpenError::Inconsistent(NODE_CA)));
    let mut join = FLEET.split().join;
    join.encryption = IMPOSTOR.join_encryption.clone();
    let bytes = join.seal(&key_file(1));
    assert_eq!(open_as(FileKind::Join, &bytes, &key_file(1)), Err(OpenError::Inconsistent(JOIN_ENCRYPTION)));
    let mut api = FLEET.split().api;
    api.worker = IMPOSTOR.api.clone();
    let bytes = api.seal(&key_file(1));
    assert_eq!(open_as(FileKind::Api, &bytes, &key_file(1)), Err(OpenError::Inconsistent(API_LEAF)));
    let mut gateway = FLEET.split().gateway;
    gateway.serving.key = KeyPair::generate();
    let bytes = gateway.seal(&key_file(1));
    assert_eq!(open_as(FileKind::Gateway, &bytes, &key_file(1)), Err(OpenError::Inconsistent(SERVING)));
}

#[test]
fn renewing_changes_the_leaves_and_no_pin() {
    let later_ms = NOW_MS + 365 * 24 * 60 * 60 * 1000;
    let renewed = FLEET.renew(&["new.example".to_owned()], later_ms).expect("renew");
    assert_eq!(renewed.pins(), FLEET.pins());
    assert_ne!(renewed.api.public_key(), FLEET.api.public_key());
    assert_ne!(renewed.serving.key.public(), FLEET.serving.key.public());
    let key = key_file(1);
    assert_eq!(Bundle::open(&renewed.seal(&key), &key).expect("open").serving.chain, renewed.serving.chain);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn opening_never_panics(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        changes in proptest::collection::vec((any::<usize>(), 0x20..0x7fu8), 1..4),
    ) {
        prop_assert!(open_as(FileKind::Bundle, &bytes, &key_file(1)).is_err());
        let original = sealed(FileKind::Controllers);
        let mut changed = original.to_vec();
        for (at, with) in changes {
            let at = at % changed.len();
            changed[at] = with;
        }
        prop_assert_eq!(open_as(FileKind::Controllers, &changed, &key_file(1)).is_ok(), changed == original);
    }
}
