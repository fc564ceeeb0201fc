use super::*;
use crate::identity::IdentityStore;
use crate::testing::gateway::FakeGateway;
use crate::testing::{Fleet, identity_of, untold_clock};
use pki::{KeyPair, NodeCertificate};
use std::sync::Arc;

struct Bed {
    fleet: Arc<Fleet>,
    store: IdentityStore,
    keeper: Keeper,
    _directory: tempfile::TempDir,
}

fn bed() -> Bed {
    let directory = tempfile::tempdir().expect("tempdir");
    let fleet = Arc::new(Fleet::new());
    let store = IdentityStore::new(&directory.path().join("data"));
    let pending = store.prepare_join().expect("prepare");
    store.install(&identity_of(&fleet, pending.key.public())).expect("install");
    let loaded = store.load().expect("load").expect("joined");
    Bed { fleet, keeper: Keeper::new(store.clone(), loaded), store, _directory: directory }
}

impl Bed {
    fn renewer(&self, port: u16) -> Renewer {
        let config = self.fleet.config(self.store.data_dir(), port);
        Renewer {
            keeper: self.keeper.clone(),
            gateway: Gateway::of(&config),
            join_signing_pin: config.join_signing_pin,
            clock: untold_clock(),
        }
    }

    /// One renewal against a service whose honest answer is changed by `spoil`.
    async fn renew(
        &self,
        spoil: impl Fn(&Fleet, &mut v1::JoinResponse) + Send + 'static,
    ) -> Result<(String, i64), RenewError> {
        let fleet = self.fleet.clone();
        let current = self.keeper.credentials().leaf();
        let gateway = FakeGateway::start(
            &self.fleet,
            |_| Err(tonic::Status::unimplemented("no joins in this test")),
            move |request: v1::RenewRequest| {
                let signed = signed::from_wire(request.signed.expect("signed"));
                let body = signed.verify(Purpose::RenewalRequest, &current.public_key).expect("by the current key");
                let body = v1::RenewalBody::decode(body).expect("body");
                assert_eq!(body.node_id, current.node_id.as_str());
                assert_eq!(NodeCertificate::parse(&signed.chain[0]).expect("leaf").serial_hex, current.serial_hex);
                let key = pki::csr::verify(&body.csr).expect("a request proves its key");
                assert_ne!(key, current.public_key, "a renewal has a new key");
                let mut response = fleet.response(&body.csr, &key);
                spoil(&fleet, &mut response);
                Ok(fleet.sign_response(&response))
            },
        )
        .await;
        self.renewer(gateway.port).renew().await
    }
}

#[tokio::test]
async fn a_renewal_stores_the_new_certificate_and_uses_it_from_then_on() {
    let bed = bed();
    let before = bed.keeper.credentials().leaf();
    let (serial, not_after_ms) = bed.renew(|_, _| {}).await.expect("renewed");
    let after = bed.keeper.credentials();
    assert_eq!((after.leaf().serial_hex, after.leaf().not_after_ms), (serial.clone(), not_after_ms));
    assert_ne!(serial, before.serial_hex);
    let loaded = bed.store.load().expect("load").expect("joined");
    assert_eq!(loaded.identity.leaf().serial_hex, serial);
    assert_eq!(loaded.key.public(), after.key.public());
}

#[tokio::test]
async fn an_answer_for_another_node_or_key_changes_nothing() {
    let bed = bed();
    let before = bed.keeper.identity();
    let other_node = bed.renew(|_, response| response.node_id = "node_other".to_owned()).await;
    assert!(matches!(other_node, Err(RenewError::Answer(AnswerError::OtherNode(_)))), "{other_node:?}");
    let other_key = bed.renew(|fleet, response| {
        response.chain = vec![fleet.leaf(KeyPair::generate().public(), model::Role::Node)];
    });
    assert!(matches!(other_key.await, Err(RenewError::Answer(AnswerError::Certificate(_)))));
    let other_csr = bed.renew(|_, response| response.csr_sha256[0] ^= 1).await;
    assert!(matches!(other_csr, Err(RenewError::Answer(AnswerError::OtherRequest))));
    assert_eq!(bed.keeper.identity(), before);
    assert_eq!(bed.store.load().expect("load").expect("joined").identity, before);
}

#[test]
fn a_certificate_is_due_after_two_thirds_of_its_life_and_before_its_end() {
    let bed = bed();
    let leaf = bed.keeper.credentials().leaf();
    let hour_ms = 3_600_000;
    let issued = leaf.issued_at_ms();
    assert_eq!((due_at_ms(&bed.keeper, 0.0) - issued) / hour_ms, 16);
    assert_eq!((due_at_ms(&bed.keeper, 0.999) - issued) / hour_ms, 17);
    assert!(due_at_ms(&bed.keeper, 1.0) < leaf.not_after_ms);
}

#[test]
fn the_time_mark_beside_the_journal_only_moves_forward() {
    let bed = bed();
    let mark = bed.keeper.identity().time_mark;
    bed.keeper.store_mark(mark.plus(5)).expect("store");
    bed.keeper.store_mark(mark).expect("store");
    assert_eq!(bed.store.load().expect("load").expect("joined").identity.time_mark, mark.plus(5));
}
