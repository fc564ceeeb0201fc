//! A join against a gateway and JoinService that speak the real protocol, honest and not.

use super::*;
use crate::testing::gateway::FakeGateway;
use crate::testing::{Fleet, NODE};
use model::TokenId;
use pki::hpke::Sealed;
use pki::{KeyPair, Pin, Purpose, csr};
use std::sync::{Arc, Mutex};
use tonic::Status;

fn token() -> JoinToken {
    JoinToken::generate(TokenId::new(format!("jt_{}", stdx::id::encode(7)))).expect("token")
}

fn quick() -> Timing {
    Timing {
        deferred: Duration::from_millis(1),
        backoff_first: Duration::from_millis(1),
        backoff_most: Duration::from_millis(2),
        unreachable_most: Some(Duration::from_millis(200)),
    }
}

struct Bed {
    fleet: Arc<Fleet>,
    directory: tempfile::TempDir,
    token: JoinToken,
}

impl Bed {
    fn new() -> Self {
        Self { fleet: Arc::new(Fleet::new()), directory: tempfile::tempdir().expect("tempdir"), token: token() }
    }

    fn config(&self, port: u16) -> Config {
        self.fleet.config(&self.directory.path().join("data"), port)
    }

    fn claims(&self) -> v1::JoinClaims {
        v1::JoinClaims { site: "fsn1".to_owned(), role: v1::Role::Node.into(), ..v1::JoinClaims::default() }
    }

    async fn join(&self, config: &Config) -> Result<Identity, JoinError> {
        join(config, self.claims(), &self.token, self.fleet.keys.join_encryption.public(), &quick()).await
    }

    /// Joins against a service that answers `answer`.
    async fn against(
        &self,
        answer: impl FnMut(v1::JoinRequest) -> Result<v1::JoinReply, Status> + Send + 'static,
    ) -> Result<Identity, JoinError> {
        let gateway = FakeGateway::joins(&self.fleet, answer).await;
        self.join(&self.config(gateway.port)).await
    }

    /// Joins against a service whose honest answer `spoil` changes before it is signed.
    async fn spoiled(&self, spoil: impl Fn(&Fleet, &mut v1::JoinResponse) + Send + 'static) -> JoinError {
        let fleet = self.fleet.clone();
        let result = self.against(move |request| {
            let mut response = honest(&fleet, &request);
            spoil(&fleet, &mut response);
            Ok(fleet.sign_response(&response))
        });
        let error = result.await.expect_err("refused");
        assert!(IdentityStore::new(&self.directory.path().join("data")).load().expect("load").is_none());
        error
    }
}

fn honest(fleet: &Fleet, request: &v1::JoinRequest) -> v1::JoinResponse {
    let key = csr::verify(&request.csr).expect("a request proves its key");
    fleet.response(&request.csr, &key)
}

fn deferred() -> v1::JoinReply {
    let deferred = v1::JoinDeferred { retry_after_ms: 30_000, reason: "waits for approval".to_owned() };
    v1::JoinReply { reply: Some(v1::join_reply::Reply::Deferred(deferred)) }
}

fn refused(code: &str, retryable: bool) -> v1::JoinReply {
    let refused = v1::JoinRefused { code: code.to_owned(), message: "because".to_owned(), retryable };
    v1::JoinReply { reply: Some(v1::join_reply::Reply::Refused(refused)) }
}

#[tokio::test]
async fn a_join_stores_what_the_service_answered_and_only_the_service_reads_the_token() {
    let bed = Bed::new();
    let (fleet, secret) = (bed.fleet.clone(), bed.token.secret.hash());
    let identity = bed
        .against(move |request| {
            assert_eq!(request.attestor, "join-token");
            assert_eq!(request.encryption_kid, fleet.keys.join_encryption.kid());
            let sealed = Sealed { enc: request.sealed_enc.clone(), ciphertext: request.sealed_token.clone() };
            let keys = &fleet.keys.join_encryption;
            let opened = pki::token::open(keys, &sealed, &request.csr, &request.claims).expect("sealed to the service");
            assert!(opened.secret.matches(&secret));
            assert!(
                pki::token::open(keys, &sealed, b"another request", &request.claims).is_err(),
                "bound to the request"
            );
            let claims = v1::JoinClaims::decode(request.claims.as_slice()).expect("claims");
            assert_eq!(claims.site, "fsn1");
            Ok(fleet.sign_response(&honest(&fleet, &request)))
        })
        .await
        .expect("joined");
    assert_eq!((identity.node_id.as_str(), identity.pool.as_str(), identity.role), (NODE, "pool_a", Role::Node));
    assert_eq!(identity.joined_at.0, bed.fleet.now_ms);
    let loaded = IdentityStore::new(&bed.directory.path().join("data")).load().expect("load").expect("stored");
    assert_eq!(loaded.identity, identity);
    assert!(loaded.identity.trust_bundle.is_some());
    let written = std::fs::read_dir(bed.directory.path().join("data")).expect("list");
    let token = bed.token.reveal();
    for entry in written {
        let bytes = std::fs::read(entry.expect("entry").path()).expect("read");
        assert!(!bytes.windows(token.len()).any(|window| window == token.as_bytes()), "a token is never on disk");
    }
}

#[tokio::test]
async fn a_deferral_and_what_may_pass_are_asked_again_with_the_same_request() {
    let bed = Bed::new();
    let fleet = bed.fleet.clone();
    let seen: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let requests = seen.clone();
    bed.against(move |request| {
        let mut seen = requests.lock().expect("seen");
        seen.push(request.csr.clone());
        match seen.len() {
            1 => Ok(deferred()),
            2 => Err(Status::unavailable("no controllers")),
            3 => Ok(refused("unavailable", true)),
            _ => Ok(fleet.sign_response(&honest(&fleet, &request))),
        }
    })
    .await
    .expect("joined in the end");
    let seen = seen.lock().expect("seen");
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|request| *request == seen[0]));
}

#[tokio::test]
async fn a_join_that_was_cut_short_asks_with_the_same_request_after_a_restart() {
    let bed = Bed::new();
    let first = bed.against(|request| Err(Status::invalid_argument(stdx::hex::sha256_hex(&request.csr)))).await;
    let Err(JoinError::Call(status)) = first else { panic!("refused") };
    let second = bed.against(|request| Err(Status::invalid_argument(stdx::hex::sha256_hex(&request.csr)))).await;
    let Err(JoinError::Call(again)) = second else { panic!("refused") };
    assert_eq!(status.message(), again.message());
}

#[tokio::test]
async fn a_refusal_ends_the_join_with_its_code() {
    let bed = Bed::new();
    let error = bed.against(|_| Ok(refused("token-used", false))).await.expect_err("refused");
    assert_eq!(error.to_string(), "the join was refused, token-used: because");
    let error = bed.against(|_| Err(Status::permission_denied("no"))).await.expect_err("refused");
    assert!(matches!(error, JoinError::Call(_)));
}

#[tokio::test]
async fn an_answer_by_another_key_is_refused() {
    let bed = Bed::new();
    let (fleet, other) = (bed.fleet.clone(), Fleet::new());
    let error =
        bed.against(move |request| Ok(other.sign_response(&honest(&fleet, &request)))).await.expect_err("forged");
    assert!(matches!(error, JoinError::Answer(AnswerError::Signature(_))), "{error:?}");

    let fleet = bed.fleet.clone();
    let purpose = bed.against(move |request| {
        let body = honest(&fleet, &request).encode_to_vec();
        let signed = fleet.keys.join_signing.sign(Purpose::TrustBundle, body).expect("signs");
        Ok(v1::JoinReply { reply: Some(v1::join_reply::Reply::Response(crate::signed::to_wire(signed))) })
    });
    assert!(matches!(purpose.await, Err(JoinError::Answer(AnswerError::Signature(_)))), "another purpose");
}

#[tokio::test]
async fn an_answer_for_another_request_is_refused() {
    let error = Bed::new().spoiled(|_, response| response.csr_sha256[0] ^= 1).await;
    assert!(matches!(error, JoinError::Answer(AnswerError::OtherRequest)), "{error:?}");
}

#[tokio::test]
async fn a_leaf_of_another_key_node_role_or_fleet_is_refused() {
    let is_certificate = |error: JoinError| matches!(error, JoinError::Answer(AnswerError::Certificate(_)));
    let other_key = |fleet: &Fleet, response: &mut v1::JoinResponse| {
        response.chain = vec![fleet.leaf(KeyPair::generate().public(), Role::Node)];
    };
    assert!(is_certificate(Bed::new().spoiled(other_key).await), "another key");
    let other_node = |_: &Fleet, response: &mut v1::JoinResponse| response.node_id = "node_other".to_owned();
    assert!(is_certificate(Bed::new().spoiled(other_node).await), "the SPIFFE id names another node");
    let other_role = |_: &Fleet, response: &mut v1::JoinResponse| response.role = v1::Role::Site.into();
    let error = Bed::new().spoiled(other_role).await;
    assert!(matches!(error, JoinError::Answer(AnswerError::Role { .. })), "{error:?}");
    let leaf_of_other_role = |fleet: &Fleet, response: &mut v1::JoinResponse| {
        let key = pki::NodeCertificate::parse(&response.chain[0]).expect("leaf").public_key;
        response.chain = vec![fleet.leaf(&key, Role::Site)];
    };
    assert!(is_certificate(Bed::new().spoiled(leaf_of_other_role).await), "the leaf has another role");
    let other_ca = |_: &Fleet, response: &mut v1::JoinResponse| {
        let key = pki::NodeCertificate::parse(&response.chain[0]).expect("leaf").public_key;
        response.chain = vec![Fleet::new().leaf(&key, Role::Node)];
    };
    assert!(is_certificate(Bed::new().spoiled(other_ca).await), "another fleet's node CA");
}

#[tokio::test]
async fn a_trust_bundle_that_the_pinned_key_did_not_sign_for_this_fleet_is_refused() {
    let foreign =
        |_: &Fleet, response: &mut v1::JoinResponse| response.trust_bundle = Some(Fleet::new().signed_bundle());
    let error = Bed::new().spoiled(foreign).await;
    assert!(matches!(error, JoinError::Answer(AnswerError::BundleSignature(_))), "{error:?}");
    let other_fleet = |fleet: &Fleet, response: &mut v1::JoinResponse| {
        let bundle = v1::TrustBundle { fleet_id: "fleet-other".to_owned(), ..fleet.trust_bundle() };
        let signed = fleet.keys.join_signing.sign(Purpose::TrustBundle, bundle.encode_to_vec()).expect("signs");
        response.trust_bundle = Some(crate::signed::to_wire(signed));
    };
    let error = Bed::new().spoiled(other_fleet).await;
    assert!(matches!(error, JoinError::Answer(AnswerError::BundleFleet)), "{error:?}");
    let error = Bed::new().spoiled(|_, response| response.trust_bundle = None).await;
    assert!(matches!(error, JoinError::Answer(AnswerError::Decode(_))), "{error:?}");
}

#[tokio::test]
async fn a_gateway_that_is_not_the_pinned_fleets_never_sees_the_request() {
    let bed = Bed::new();
    let gateway = FakeGateway::joins(&bed.fleet, |_| panic!("nothing is sent to a stranger")).await;
    let mut config = bed.config(gateway.port);
    config.serving_ca_pin = Pin::of(KeyPair::generate().public());
    let error = bed.join(&config).await.expect_err("refused");
    assert!(matches!(error, JoinError::Distrust(_)), "{error:?}");

    let mut config = bed.config(gateway.port);
    config.gateway_server_name = Some("another.example".to_owned());
    assert!(matches!(bed.join(&config).await, Err(JoinError::Distrust(_))), "its certificate must carry the name");
}

#[tokio::test]
async fn a_gateway_that_nobody_answers_for_is_given_up_in_the_end() {
    let bed = Bed::new();
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("bind");
    let port = listener.local_addr().expect("address").port();
    drop(listener);
    assert!(matches!(bed.join(&bed.config(port)).await, Err(JoinError::Unreachable(_))));
}

#[tokio::test]
async fn an_earlier_identitys_journal_moves_aside() {
    let bed = Bed::new();
    let data = bed.directory.path().join("data");
    stdx::durable::create_directory(&data, 0o700).expect("mkdir");
    stdx::durable::write_file(&data.join("journal.db"), b"old", 0o600).expect("write");
    let fleet = bed.fleet.clone();
    bed.against(move |request| Ok(fleet.sign_response(&honest(&fleet, &request)))).await.expect("joined");
    let names: Vec<String> = std::fs::read_dir(&data)
        .expect("list")
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert!(!names.contains(&"journal.db".to_owned()));
    assert!(names.iter().any(|name| name.starts_with("journal.db.earlier-")), "{names:?}");
}

#[test]
fn the_key_beside_the_configuration_must_be_the_pinned_one() {
    let bed = Bed::new();
    let config = bed.config(1);
    let config_path = bed.directory.path().join("config.toml");
    let jwk_path = bed.directory.path().join("join-encryption.jwk");
    assert!(matches!(read_jwk(&config_path, &config), Err(JoinError::JwkMissing(path)) if path == jwk_path));
    let ours = bed.fleet.keys.join_encryption.public();
    stdx::durable::write_file(&jwk_path, pki::jwk::export(ours).as_bytes(), 0o644).expect("write");
    assert_eq!(read_jwk(&config_path, &config).expect("pinned"), *ours);
    let other = pki::jwk::export(KeyPair::generate().public());
    stdx::durable::write_file(&jwk_path, other.as_bytes(), 0o644).expect("write");
    let error = read_jwk(&config_path, &config).expect_err("not pinned");
    let text = error.to_string();
    assert!(text.contains("join-encryption.jwk") && text.contains(&config.join_encryption_pin.to_string()), "{text}");
}

/// A machine whose board ships with placeholders.
struct Board(v1::Firmware);

impl Host for Board {
    fn hostname(&self) -> String {
        "board".to_owned()
    }
    fn boot_id(&self) -> Result<model::BootId, host::HostError> {
        Ok(model::BootId::new("boot"))
    }
    fn inventory(&self) -> v1::Inventory {
        let nic = |mac: &str, pci: &str| v1::Nic { mac: mac.into(), pci_address: pci.into(), ..v1::Nic::default() };
        v1::Inventory {
            firmware: Some(self.0.clone()),
            nics: vec![nic("0c:00", "0000:02:00.0"), nic("0a:00", "0000:01:00.0"), nic("0b:00", "")],
            os: Some(v1::OperatingSystem { architecture: "x86_64".to_owned(), ..v1::OperatingSystem::default() }),
            ..v1::Inventory::default()
        }
    }
    fn nvml_diag(&self) -> Result<v1::NvmlDiag, host::HostError> {
        Ok(v1::NvmlDiag::default())
    }
    fn gpu_reset(&self, _uuid: &str, _command_id: &str) -> Result<(), host::HostError> {
        Ok(())
    }
    fn gpu_holds(&self) -> Result<Vec<host::GpuHold>, host::HostError> {
        Ok(Vec::new())
    }
    fn reboot(&self, _command_id: &str) -> Result<host::RebootEffect, host::HostError> {
        Ok(host::RebootEffect::HostGoesDown)
    }
    fn collect_logs(
        &self,
        _request: &host::LogsRequest,
        _into: &mut dyn std::io::Write,
    ) -> Result<host::LogsSummary, host::HostError> {
        Ok(host::LogsSummary::default())
    }
}

#[test]
fn the_claims_are_the_hosts_and_placeholders_are_left_out() {
    let config = Bed::new().config(1);
    let firmware = |is_trusted| v1::Firmware {
        product_uuid: "uuid".to_owned(),
        product_uuid_trusted: is_trusted,
        product_serial: "serial".to_owned(),
        product_serial_trusted: is_trusted,
        ..v1::Firmware::default()
    };
    let real = claims(&config, Role::Node, &Board(firmware(true)));
    assert_eq!((real.product_uuid.as_str(), real.product_serial.as_str()), ("uuid", "serial"));
    assert_eq!((real.site.as_str(), real.hostname.as_str(), real.arch.as_str()), ("fsn1", "board", "x86_64"));
    assert_eq!(real.macs, ["0a:00", "0c:00"], "physical interfaces, sorted");
    assert_eq!(real.role, i32::from(v1::Role::Node));
    let placeholder = claims(&config, Role::Node, &Board(firmware(false)));
    assert_eq!((placeholder.product_uuid.as_str(), placeholder.product_serial.as_str()), ("", ""));
}
