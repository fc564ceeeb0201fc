//! The whole role over a real store: each controller leased, woken, drained.

use super::{START_MS, TestClock};
use crate::lease::{Lease, StepError};
use crate::{Controllers, ControllersOptions, StartError};
use kernel::access::create_tenant;
use kernel::db::{HintBus, Store, StoreError, StoreOptions};
use kernel::outbox::{self, EventRow};
use kernel::{leases, settings};
use model::TenantId;
use pki::{Bundle, FleetId};
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// A test that waits longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(20);

struct Role {
    store: Store,
    clock: Arc<TestClock>,
    bundle: Bundle,
    directory: tempfile::TempDir,
}

impl Role {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("tempdir");
        let clock = Arc::new(TestClock(AtomicI64::new(START_MS)));
        let options = StoreOptions {
            path: directory.path().join("store.db"),
            clock: clock.clone(),
            hints: HintBus::new(),
            readers: 1,
        };
        let store = Store::open(options).expect("store");
        let bundle = Bundle::create(FleetId::random(), &["localhost".into()], START_MS).expect("pki");
        Self { store, clock, bundle, directory }
    }

    async fn start(&self, holder: &str, registry: &mut Registry) -> Result<Controllers, StartError> {
        let keys = self.bundle.split();
        let options = ControllersOptions { holder: holder.into(), blobs: self.directory.path().join("blobs") };
        Controllers::start(keys.join, keys.controllers, self.store.clone(), options, registry).await
    }

    async fn publish(&self) {
        let published = self.store.write(|tx| {
            create_tenant(tx, &TenantId::new("root"), None, "root")?;
            let payload = serde_json::json!({});
            outbox::publish(tx, &EventRow { topic: "a.b", tenant: &TenantId::new("root"), key: "k", payload })
        });
        published.await.expect("published");
    }

    /// Waits until the outbox has that many numbered rows.
    async fn wait_for_position(&self, position: u64) {
        let mut hints = self.store.hints().subscribe();
        let reached = async {
            while self.store.read(outbox::head).await.expect("head") < position {
                let woken = tokio::time::timeout(Duration::from_millis(100), hints.recv()).await;
                drop(woken);
            }
        };
        tokio::time::timeout(PATIENCE, reached).await.expect("sequenced in time");
    }
}

fn text(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).expect("metrics");
    text
}

#[tokio::test]
async fn the_role_signs_the_time_at_once_and_numbers_what_is_committed() {
    let role = Role::new();
    let mut registry = Registry::default();
    let controllers = role.start("one", &mut registry).await.expect("started");
    role.publish().await;
    role.wait_for_position(1).await;
    let mut hints = role.store.hints().subscribe();
    let signed = async {
        while role.store.read(|tx| settings::get_signed(tx, settings::SERVER_TIME)).await.expect("read").is_none() {
            drop(tokio::time::timeout(Duration::from_millis(20), hints.recv()).await);
        }
    };
    tokio::time::timeout(PATIENCE, signed).await.expect("the first statement does not wait for the timer");
    tokio::time::timeout(PATIENCE, controllers.drain()).await.expect("drained");
    let text = text(&registry);
    for name in ["join", "verifier", "sweeper", "sequencer", "server-time", "resigner", "retention"] {
        assert!(text.contains(&format!("better_compute_controller_steps_total{{controller=\"{name}\"}}")), "{text}");
        assert!(text.contains(&format!("better_compute_controller_leased{{controller=\"{name}\"}} 0")), "{text}");
    }
}

#[tokio::test]
async fn a_drained_role_leaves_its_leases_to_the_next_at_once() {
    let role = Role::new();
    let first = role.start("one", &mut Registry::default()).await.expect("started");
    role.publish().await;
    role.wait_for_position(1).await;
    first.drain().await;
    let second = role.start("two", &mut Registry::default()).await.expect("started");
    role.publish().await;
    role.wait_for_position(2).await;
    second.drain().await;
}

#[tokio::test]
async fn one_holder_at_a_time_and_a_replaced_one_writes_nothing() {
    let role = Role::new();
    let lease = |holder: &str| Lease::new(role.store.clone(), "sweeper", holder.into());
    let (mut one, mut two) = (lease("one"), lease("two"));
    assert!(one.hold().await.expect("held"));
    assert!(!two.hold().await.expect("asked"), "the name is taken");
    one.write(|tx| Ok(settings::put(tx, "x", b"one")?)).await.expect("under the fence");
    // The holder sleeps past its lease and another one takes over.
    role.clock.0.store(START_MS + 31_000, Ordering::SeqCst);
    assert!(two.hold().await.expect("held"));
    let late = one.write(|tx| Ok(settings::put(tx, "x", b"late")?)).await;
    assert!(matches!(late, Err(StepError::LeaseLost)), "{late:?}");
    assert_eq!(role.store.read(|tx| settings::get(tx, "x")).await.expect("read"), Some(b"one".to_vec()));
    // So it forgets what it believed to hold, and stands by.
    one.forget();
    assert!(!one.hold().await.expect("asked"));
    // A holder that gives up lets the next one in before the lease runs out.
    two.release().await;
    assert!(one.hold().await.expect("held"), "a lease that was given up is taken");
    let fence = role.store.write(|tx| leases::acquire(tx, "sweeper", "three", 1000)).await.expect("asked");
    assert_eq!(fence, None);
}

#[tokio::test]
async fn keys_of_two_fleets_do_not_start() {
    let role = Role::new();
    let other = Bundle::create(FleetId::random(), &["x".into()], START_MS).expect("pki").split();
    let options = ControllersOptions { holder: "one".into(), blobs: role.directory.path().to_owned() };
    let keys = role.bundle.split();
    let mut registry = Registry::default();
    let mixed = Controllers::start(other.join, keys.controllers, role.store.clone(), options, &mut registry).await;
    assert!(matches!(mixed.err(), Some(StartError::KeysOfTwoFleets { .. })));
    let untouched = role.store.read(|tx| settings::get(tx, settings::FLEET_ID)).await;
    assert_eq!(untouched.map_err(|error: StoreError| error.to_string()), Ok(None));
}
