//! Who works with the store beside the gateways: the client of the API, machines that join, and the
//! controllers, each step one call of the same operation that the real role makes.

use crate::keys::{JOINED_AT, T0, pool};
use crate::oracle::Command;
use crate::outside::{frame_signed, pki_signed};
use crate::world::{Event, World};
use kernel::commands::{self, EnqueueError, NewCommand};
use kernel::db::{StoreError, Tx};
use kernel::join::{self, JoinFacts, Redeemed};
use kernel::places::{NewJoinToken, NewPool, NewSite};
use kernel::verifier::{self, Unverified, Verdict};
use kernel::{access, outbox, places, retention, settings};
use model::frame::{Any, CommandBody, Signed};
use model::limits::SERVER_TIME_SIGNED_EVERY_MS;
use model::{CommandId, Kind, PoolId, PrincipalId, Role, ServerTimeMs, SiteId, TenantId, TokenId};
use pki::{NodeCertificate, Purpose};
use proto::{Message, v1};
use rand::Rng;
use std::cell::RefCell;

/// The secret of every join token here.
const SECRET_SHA256: [u8; 32] = [7; 32];
const DAY_MS: i64 = 24 * 3_600_000;
/// A token for two machines.
const SHARED_TOKEN: &str = "jt_shared";
/// Rows one step of a controller takes.
const BATCH: u32 = 100;
/// Commands a flood puts before a spec that has not come.
const FLOOD: usize = 90;

impl World {
    /// The fleet before anything happens: places, tokens, and every node joined.
    pub(crate) fn found_fleet(&mut self) {
        let controlled = self.plan.tenant_controlled;
        self.read(|tx| {
            populate(tx, controlled)?;
            settings::put_signed(tx, settings::TRUST_BUNDLE, &pool().bundles[0])
        });
        for slot in 0..self.nodes.len() {
            let keys = self.nodes[slot].keys;
            let again = self.rng.random_ratio(1, 3);
            while !self.known.joins.contains_key(&(keys.token.to_string(), keys.csr)) {
                self.join(slot, keys.token.clone(), keys.csr);
            }
            if again {
                self.join(slot, keys.token.clone(), keys.csr);
            }
            let leaf = NodeCertificate::parse(&keys.leaves[0]).expect("the pool's certificate");
            self.read(|tx| {
                let not_after = ServerTimeMs(leaf.not_after_ms);
                join::store_certificate(tx, &keys.node_id, &leaf.serial_hex, &keys.leaves[0], leaf.spki(), not_after)
            });
        }
    }

    /// One use of a token. The same request has one answer for ever, another request another node or none.
    fn join(&mut self, slot: usize, token: TokenId, csr: [u8; 32]) {
        let facts = JoinFacts {
            site: SiteId::new("site_sim"),
            role: Role::Node,
            hostname: format!("host-{slot}"),
            daemon_version: "0.1.0".into(),
            product_uuid: String::new(),
            product_serial: String::new(),
            macs: Vec::new(),
            hardware_key: None,
        };
        if self.faulty(self.plan.store_fails_per_1k, 1000) {
            let failed =
                self.store.run_failing_commit(|tx| join::redeem_token(tx, &token, &SECRET_SHA256, &csr, &facts));
            return self.require(failed.is_err(), || "a commit that failed has an answer".to_owned());
        }
        let redeemed = self.read(|tx| join::redeem_token(tx, &token, &SECRET_SHA256, &csr, &facts));
        self.redeemed(&token, csr, &redeemed);
    }

    fn redeemed(&mut self, token: &TokenId, csr: [u8; 32], redeemed: &Redeemed) {
        let key = (token.to_string(), csr);
        let earlier = self.known.joins.get(&key).cloned();
        match redeemed {
            Redeemed::New(node) => {
                self.coverage.hit("join", "new");
                let is_new = earlier.is_none() && !self.known.joins.values().any(|known| known == node);
                self.require(is_new, || format!("join: {node} was made twice"));
                self.known.joins.insert(key, node.clone());
            }
            Redeemed::Same(node) => {
                self.coverage.hit("join", "same");
                self.require(earlier.as_ref() == Some(node), || {
                    format!("join: a use of {token} by another request was answered with node {node}")
                });
            }
            Redeemed::Refused(refusal) => {
                self.coverage.hit("join", refusal.code());
                let is_gone = earlier.as_ref().is_some_and(|node| self.revoked.contains(node));
                self.require(earlier.is_none() || is_gone, || format!("join: the same request of {token} is refused"));
            }
        }
    }

    fn joins_again(&mut self) {
        let slot = self.rng.random_range(0..self.nodes.len());
        let keys = self.nodes[slot].keys;
        let csr_of = |number: u32| stdx::hex::sha256(format!("another machine {number}").as_bytes());
        match self.rng.random_range(0..3) {
            0 => self.join(slot, keys.token.clone(), keys.csr),
            1 => self.join(slot, keys.token.clone(), csr_of(0)),
            _ => {
                let number = self.rng.random_range(0..4);
                self.join(slot, TokenId::new(SHARED_TOKEN), csr_of(number));
            }
        }
    }

    /// Something the API's client does, now and then.
    pub(crate) fn client(&mut self) {
        if !self.is_active {
            return;
        }
        let delay = self.around(self.plan.api_every_ms);
        self.after(delay, Event::Client);
        match self.rng.random_range(0..40) {
            0..=27 => self.enqueue_some(),
            28..=34 => self.cancel_some(),
            35 => self.enqueue_again(),
            36 | 37 => self.joins_again(),
            38 if self.rng.random_ratio(1, 6) => self.revoke(),
            _ => self.new_bundle(),
        }
    }

    fn enqueue_some(&mut self) {
        if self.plan.floods && self.rng.random_ratio(1, 8) {
            let node = self.rng.random_range(0..self.nodes.len());
            for _ in 0..FLOOD {
                self.enqueue(node, Kind::DiagNvml.name(), 1_000, 60_000);
            }
            return;
        }
        for _ in 0..self.rng.random_range(1..=4) {
            let node = self.rng.random_range(0..self.nodes.len());
            let kind = match self.rng.random_range(0..30) {
                0..=13 => Kind::GpuReset.name(),
                14..=18 => Kind::DiagNvml.name(),
                19..=21 => Kind::InventoryRefresh.name(),
                22..=24 => Kind::LogsCollect.name(),
                25 | 26 => Kind::NodeReboot.name(),
                27 => Kind::DriverInvoke.name(),
                28 => Kind::DiskWipe.name(),
                _ => "nobody.knows",
            };
            let min_generation = if self.rng.random_ratio(1, 8) { self.rng.random_range(1..4) } else { 0 };
            let not_after_in_ms = [3_000, 20_000, 60_000, 200_000][self.rng.random_range(0..4)];
            self.enqueue(node, kind, min_generation, not_after_in_ms);
        }
    }

    fn enqueue(&mut self, node: usize, kind: &str, min_generation: u64, not_after_in_ms: i64) {
        let number = self.known.commands.len();
        let is_invalid = self.faulty(1, 60);
        let gpus: Vec<String> =
            (0..self.rng.random_range(1..=2)).map(|_| self.rng.random_range(0..4)).map(gpu).collect();
        let mut gpu_uuids = gpus;
        gpu_uuids.dedup();
        let payload = if kind == Kind::GpuReset.name() {
            proto::pack(&v1::GpuResetRequest { gpu_uuids })
        } else {
            Any { type_url: "type.example/Request".into(), value: vec![node as u8] }
        };
        let new = NewCommand {
            id: CommandId::new(stdx::id::derive(&["command", &number.to_string()])),
            node: self.nodes[node].id().clone(),
            principal: PrincipalId::new("principal_sim"),
            kind: kind.to_owned(),
            payload,
            not_after_in_ms,
            min_generation,
            idempotency_key: format!("key-{number}"),
            workflow_id: String::new(),
            step_id: String::new(),
            traceparent: String::new(),
            batch_id: String::new(),
        };
        self.put(node, new, is_invalid);
    }

    fn put(&mut self, node: usize, new: NewCommand, is_invalid: bool) {
        let sealed: RefCell<Vec<Signed>> = RefCell::default();
        let seal = |body: &CommandBody| {
            let mut signed = seal(body);
            if is_invalid {
                signed.body = b"not a command".to_vec();
            }
            sealed.borrow_mut().push(signed.clone());
            signed
        };
        if self.faulty(self.plan.store_fails_per_1k, 1000) {
            let failed = self.store.run_failing_commit(|tx| commands::enqueue(tx, &seal, &new));
            return self.require(failed.is_err(), || "a commit that failed has an answer".to_owned());
        }
        match self.store.run(|tx| commands::enqueue(tx, &seal, &new)) {
            Ok((row, hints)) => {
                self.note(format_args!("enqueued {} {} for n{node} until {}", row.id, row.kind, row.not_after.0 - T0));
                let command = Command::of(node, &new, &row, is_invalid);
                let command = self.known.commands.entry(row.id.clone()).or_insert(command);
                command.signed.extend(sealed.take());
                self.send_hints(hints);
            }
            Err(EnqueueError::NodeGone(id)) => {
                let is_gone = self.revoked.contains(&id);
                self.require(is_gone, || format!("{id} is gone, and nobody revoked it"));
            }
            Err(error) => self.fail(format!("enqueue: {error}")),
        }
    }

    /// The same request again is the same command.
    fn enqueue_again(&mut self) {
        let ids: Vec<CommandId> = self.known.commands.keys().cloned().collect();
        let Some(id) = self.pick(&ids) else { return };
        let Some(command) = self.known.commands.get(&id) else { return };
        let (node, new) = (command.node, command.new.clone());
        if self.revoked.contains(&new.node) {
            return;
        }
        let before = self.known.commands.len();
        self.put(node, new, false);
        let after = self.known.commands.len();
        self.require(before == after, || format!("the request of {id} made another command"));
    }

    fn cancel_some(&mut self) {
        let ids: Vec<CommandId> = self.known.commands.keys().rev().take(200).cloned().collect();
        let Some(id) = self.pick(&ids) else { return };
        if let Some(command) = self.known.commands.get_mut(&id) {
            command.cancel_asked = true;
        }
        let (outcome, hints) =
            self.store.run(|tx| commands::request_cancel(tx, &id, "unwanted")).expect("a store in memory answers");
        self.note(format_args!("cancel {id}: {outcome:?}"));
        self.send_hints(hints);
    }

    fn revoke(&mut self) {
        let node = self.rng.random_range(0..self.nodes.len());
        let id = self.nodes[node].id().clone();
        let only_certificate = self.rng.random_ratio(1, 3);
        self.note(format_args!("revoke n{node} certificate {only_certificate}"));
        let leaf = NodeCertificate::parse(self.nodes[node].leaf(self.server_now())).expect("the pool's certificate");
        let hints = if only_certificate {
            self.store.run(|tx| join::revoke_certificate(tx, &leaf.serial_hex)).expect("a store in memory answers").1
        } else {
            self.revoked.insert(id.clone());
            self.store.run(|tx| join::revoke_node(tx, &id, "stolen")).expect("a store in memory answers").1
        };
        self.known.distrusted.insert(node);
        self.send_hints(hints);
    }

    fn new_bundle(&mut self) {
        self.read(|tx| settings::put_signed(tx, settings::TRUST_BUNDLE, &pool().bundles[1]));
    }

    /// The controllers: each does its step, or its transaction fails and the next step tries again.
    pub(crate) fn controllers(&mut self) {
        let delay = if self.is_active { self.around(1_500) } else { 1_000 };
        self.after(delay, Event::Controllers);
        if self.controllers_paused_until > self.now {
            return;
        }
        match self.rng.random_range(0..5) {
            0 => {
                self.controller("sweep", |tx| commands::sweep(tx, BATCH).map(|swept| swept.expired + swept.timed_out));
            }
            1 => {
                self.controller("sequence", |tx| outbox::sequence(tx, BATCH));
            }
            2 => self.resign(),
            3 => {
                self.controller("retention", |tx| retention::prune(tx, BATCH).map(|pruned| pruned.commands));
            }
            _ => self.verify(),
        }
    }

    fn controller(&mut self, name: &str, step: impl FnOnce(&mut Tx<'_>) -> Result<usize, StoreError>) -> usize {
        if self.faulty(self.plan.store_fails_per_1k, 1000) {
            self.coverage.hit("store controllers", "failed");
            let failed = self.store.run_failing_commit(step);
            self.require(failed.is_err(), || "a commit that failed has an answer".to_owned());
            return 0;
        }
        match self.store.run(step) {
            Ok((count, hints)) => {
                if count > 0 {
                    self.note(format_args!("{name}: {count}"));
                }
                self.send_hints(hints);
                count
            }
            Err(error) => {
                self.fail(format!("{name} fails by itself: {error}"));
                0
            }
        }
    }

    fn resign(&mut self) {
        let sealed: RefCell<Vec<(CommandId, Signed)>> = RefCell::default();
        let seal = |body: &CommandBody| {
            let signed = seal(body);
            sealed.borrow_mut().push((body.id.clone(), signed.clone()));
            signed
        };
        let count = self.controller("resign", |tx| commands::resign(tx, &seal, BATCH));
        if count > 0 {
            self.coverage.hit("controller", "signed again");
        }
        for (id, signed) in sealed.take() {
            if let Some(command) = self.known.commands.get_mut(&id) {
                command.signed.push(signed);
            }
        }
    }

    fn verify(&mut self) {
        let waiting = self.read(|tx| verifier::take_unverified(tx, BATCH));
        let verdicts: Vec<(CommandId, Verdict)> =
            waiting.iter().map(|result| (result.command.clone(), verdict(result))).collect();
        if self.faulty(1, 10) {
            // It dies between looking and writing; the results wait for the next one.
            return;
        }
        let count = verdicts.len();
        for (id, verdict) in &verdicts {
            let is_forged = matches!(verdict, Verdict::Forged(_));
            let was_changed = self.known.commands.get(id).is_some_and(|command| command.result_changed);
            self.require(!is_forged || was_changed, || format!("{id}: a genuine result does not verify: {verdict:?}"));
        }
        self.controller("verify", |tx| {
            for (id, verdict) in &verdicts {
                verifier::settle_verified(tx, id, verdict)?;
            }
            Ok(count)
        });
    }

    pub(crate) fn time_signer(&mut self) {
        self.after(SERVER_TIME_SIGNED_EVERY_MS as u64, Event::SignTime);
        if self.controllers_paused_until <= self.now {
            self.sign_time();
        }
    }

    pub(crate) fn sign_time(&mut self) {
        let at = self.server_now();
        let signed = time_statement(&pool().fleet.controllers, at);
        self.statements.insert(at, signed.clone());
        self.read(|tx| settings::put_signed(tx, settings::SERVER_TIME, &signed));
        // A certificate of after the leap is known to the fleet once it was issued.
        for n in 0..self.nodes.len() {
            let keys = self.nodes[n].keys;
            let leaf = self.nodes[n].leaf(at);
            let parsed = NodeCertificate::parse(leaf).expect("the pool's certificate");
            let not_after = ServerTimeMs(parsed.not_after_ms);
            self.read(|tx| {
                join::store_certificate(tx, &keys.node_id, &parsed.serial_hex, leaf, parsed.spki(), not_after)
            });
        }
    }
}

/// A statement of the server time by a worker.
pub(crate) fn time_statement(worker: &pki::SigningIdentity, unix_ms: i64) -> Signed {
    let body = v1::ServerTime { unix_ms, fleet_id: pool().fleet_id().to_owned() };
    frame_signed(worker.sign(Purpose::ServerTime, body.encode_to_vec()).expect("a controllers worker signs times"))
}

/// A command's body as it is sent.
pub(crate) fn seal(body: &CommandBody) -> Signed {
    let signed = pool().fleet.api.sign(Purpose::Command, proto::encode_body(body));
    frame_signed(signed.expect("the API's worker signs commands"))
}

fn gpu(number: u32) -> String {
    format!("GPU-{number}")
}

/// The verifier's judgement, with the real signatures.
fn verdict(result: &Unverified) -> Verdict {
    let judge = || {
        let signed = pki_signed(result.node_sig.as_ref().ok_or("no signature")?);
        let certificates = result.certs.iter().filter_map(|der| NodeCertificate::parse(der).ok());
        let key = certificates
            .filter(|certificate| certificate.node_id == result.node)
            .map(|certificate| certificate.public_key)
            .find(|key| key.kid() == signed.kid)
            .ok_or("an unknown key")?;
        let body = signed.verify(Purpose::CommandResult, &key).map_err(|_| "a bad signature")?;
        let statement = proto::decode_statement(body).map_err(|_| "no statement")?;
        let is_about = statement.command_id == result.command
            && statement.outcome == result.outcome
            && statement.result_sha256 == stdx::hex::sha256(&result.result);
        if is_about { Ok(()) } else { Err("a statement about something else") }
    };
    match judge() {
        Ok(()) => Verdict::Genuine,
        Err(why) => Verdict::Forged(why.to_owned()),
    }
}

fn populate(tx: &mut Tx<'_>, tenant_controlled: bool) -> Result<(), StoreError> {
    let tenant = TenantId::new("tenant_root");
    access::create_tenant(tx, &tenant, None, "root")?;
    access::create_principal(tx, &PrincipalId::new("principal_sim"), &tenant, "sim")?;
    let site = NewSite {
        id: SiteId::new("site_sim"),
        tenant: tenant.clone(),
        name: Some("sim".into()),
        kind: "shared".into(),
        region: "here".into(),
        iam_region: None,
        dedicated_tenant: None,
    };
    places::create_site(tx, &site).expect("a first site");
    let pool_id = PoolId::new("pool_sim");
    let new_pool = NewPool {
        id: pool_id.clone(),
        tenant: tenant.clone(),
        site: site.id,
        name: "sim".into(),
        policy: serde_json::json!({}),
        tenant_controlled,
    };
    places::create_pool(tx, &new_pool).expect("a first pool");
    let mut tokens: Vec<(TokenId, u32)> = pool().nodes.iter().map(|node| (node.token.clone(), 1)).collect();
    tokens.push((TokenId::new(SHARED_TOKEN), 2));
    for (id, uses_max) in tokens {
        let token = NewJoinToken {
            id,
            tenant: tenant.clone(),
            pool: pool_id.clone(),
            role: Role::Node,
            secret_sha256: SECRET_SHA256,
            uses_max,
            expires_at: ServerTimeMs(JOINED_AT + 30 * DAY_MS),
            expect_mac: None,
            allow_reclaim: false,
        };
        places::create_join_token(tx, &token).expect("a new token");
    }
    Ok(())
}
