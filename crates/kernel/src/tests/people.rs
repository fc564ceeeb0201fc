//! Tenants, tokens, idempotency, audit, places and settings.

use super::world::*;
use crate::access::{self, AuditEntry, Earlier, NewApiToken, Request};
use crate::places::{self, CreateError, NewPool, NewSite, PoolUpdate, UpdateError};
use crate::settings;
use model::frame::Signed;
use model::{PoolId, PrincipalId, ServerTimeMs, SiteId, TenantId};
use serde_json::json;

#[test]
fn tenants_are_a_tree() {
    let world = World::new();
    let [child, grandchild, other] = ["tenant_a", "tenant_b", "tenant_c"].map(TenantId::new);
    world.run(|tx| {
        access::create_tenant(tx, &child, Some(&tenant()), "a")?;
        access::create_tenant(tx, &grandchild, Some(&child), "b")?;
        access::create_tenant(tx, &other, Some(&tenant()), "c")
    });
    let within = |tenant: &TenantId, ancestor: &TenantId| world.run(|tx| access::is_within(tx, tenant, ancestor));
    assert!(within(&grandchild, &tenant()) && within(&grandchild, &child) && within(&child, &child));
    assert!(!within(&child, &grandchild) && !within(&grandchild, &other));
    assert_eq!(world.run(|tx| access::get_tenant(tx, &grandchild)).unwrap().parent, Some(child));
    assert_eq!(world.run(|tx| access::list_tenants(tx, None, 10)).len(), 4);
}

#[test]
fn a_token_identifies_its_principal_until_it_expires_or_is_revoked() {
    let world = World::new();
    let new = NewApiToken {
        id: "tok".into(),
        tenant: tenant(),
        principal: PrincipalId::new("principal_dev"),
        name: "laptop".into(),
        secret_sha256: [1; 32],
        expires_at: Some(ServerTimeMs(START + 10)),
    };
    let forever = NewApiToken { id: "ever".into(), expires_at: None, ..new.clone() };
    world.run(|tx| access::create_api_token(tx, &new).and_then(|()| access::create_api_token(tx, &forever)));
    let identify = |id: &'static str, secret: [u8; 32]| world.run(move |tx| access::authenticate(tx, id, &secret));
    let identity = identify("tok", [1; 32]).unwrap();
    assert_eq!((identity.tenant, identity.principal.as_str()), (tenant(), "principal_dev"));
    assert_eq!(identify("tok", [2; 32]), None);
    assert_eq!(identify("other", [1; 32]), None);
    world.clock.advance(10);
    assert_eq!(identify("tok", [1; 32]), None);
    assert!(identify("ever", [1; 32]).is_some());
    assert!(world.run(|tx| access::revoke_api_token(tx, "ever")));
    assert!(!world.run(|tx| access::revoke_api_token(tx, "ever")));
    assert_eq!(identify("ever", [1; 32]), None);
    let listed = world.run(|tx| access::list_api_tokens(tx, &tenant(), None, 10));
    assert_eq!(listed.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["ever", "tok"]);
    assert!(world.run(|tx| access::get_api_token(tx, "ever")).unwrap().revoked_at.is_some());
}

#[test]
fn a_request_is_remembered_with_its_effect_or_not_at_all() {
    let world = World::new();
    let (tenant, principal) = (tenant(), PrincipalId::new("principal_dev"));
    let request = |key: &'static str, sha: u8| Request {
        tenant: &tenant,
        principal: &principal,
        verb: "sites.create",
        key,
        sha256: [sha; 32],
    };
    assert!(world.store.run_failing_commit(|tx| access::record(tx, &request("k", 1), "{}")).is_err());
    assert_eq!(world.run(|tx| access::earlier(tx, &request("k", 1))), Earlier::New);
    world.run(|tx| access::record(tx, &request("k", 1), "{\"id\":1}"));
    assert_eq!(world.run(|tx| access::earlier(tx, &request("k", 1))), Earlier::Same("{\"id\":1}".into()));
    assert_eq!(world.run(|tx| access::earlier(tx, &request("k", 2))), Earlier::Conflict);
    assert_eq!(world.run(|tx| access::earlier(tx, &request("other", 2))), Earlier::New);
}

#[test]
fn decisions_are_audited_newest_first() {
    let world = World::new();
    let (tenant, principal) = (tenant(), PrincipalId::new("principal_dev"));
    for (verb, allowed) in [("nodes.revoke", false), ("commands.run", true)] {
        let entry = AuditEntry {
            tenant: &tenant,
            principal: &principal,
            verb,
            resource: "compute-node/n",
            allowed,
            request_id: "r",
            detail: "{}",
        };
        world.run(|tx| access::audit(tx, &entry));
    }
    let rows = world.run(|tx| access::audit_list(tx, &tenant, None, 10));
    let found: Vec<_> = rows.iter().map(|row| (row.verb.as_str(), row.allowed)).collect();
    assert_eq!(found, [("commands.run", true), ("nodes.revoke", false)]);
    assert_eq!(world.run(|tx| access::audit_list(tx, &tenant, Some(rows[0].n), 10)).len(), 1);
}

#[test]
fn a_taken_name_and_a_missing_place_are_refusals() {
    let world = World::new();
    let new_site = NewSite {
        id: SiteId::new("site_2"),
        tenant: tenant(),
        name: Some("dev".into()),
        kind: "owned".into(),
        region: "r".into(),
        iam_region: None,
        dedicated_tenant: None,
    };
    let create = |new: &NewSite| world.store.run(|tx| places::create_site(tx, new)).map(|(row, _)| row);
    assert!(matches!(create(&new_site), Err(CreateError::NameTaken(name)) if name == "dev"));
    let unnamed = NewSite { name: None, ..new_site.clone() };
    assert_eq!(create(&unnamed).unwrap().version, 1);
    let nobody = NewSite { tenant: TenantId::new("nobody"), name: None, ..new_site };
    assert!(matches!(create(&nobody), Err(CreateError::NoSuch(_))));
    assert_eq!(world.run(|tx| places::list_sites(tx, Some(&tenant()), None, 10)).len(), 2);
    let new_pool = NewPool {
        id: PoolId::new("pool_2"),
        tenant: tenant(),
        site: site(),
        name: "dev".into(),
        policy: json!({}),
        tenant_controlled: false,
    };
    let create = |new: &NewPool| world.store.run(|tx| places::create_pool(tx, new)).map(|(row, _)| row);
    assert!(matches!(create(&new_pool), Err(CreateError::NameTaken(_))));
    let nowhere = NewPool { site: SiteId::new("x"), ..new_pool.clone() };
    assert!(matches!(create(&nowhere), Err(CreateError::NoSuch(_))));
    assert!(create(&NewPool { name: "two".into(), ..new_pool }).is_ok());
    assert_eq!(world.run(|tx| places::list_pools(tx, None, Some("pool_2"), 10)).len(), 1);
    let orphan = crate::places::NewJoinToken { pool: PoolId::new("x"), ..token("t", 1) };
    assert!(matches!(world.store.run(|tx| places::create_join_token(tx, &orphan)), Err(CreateError::NoSuch(_))));
    assert_eq!(world.run(|tx| places::list_join_tokens(tx, &tenant(), Some(&pool()), None, 10)).len(), 1);
}

#[test]
fn a_stale_update_is_refused_and_changes_nothing() {
    let world = World::new();
    let update = |version, tenant_controlled| {
        let update = PoolUpdate { version: Some(version), tenant_controlled, ..PoolUpdate::default() };
        world.store.run(|tx| places::update_pool(tx, &pool(), &update)).map(|(row, _)| row)
    };
    let row = update(1, Some(true)).unwrap();
    assert_eq!((row.version, row.tenant_controlled, row.policy), (2, true, json!({})));
    assert!(matches!(update(1, Some(false)), Err(UpdateError::Stale(2))));
    assert!(world.run(|tx| places::get_pool(tx, &pool())).unwrap().tenant_controlled);
    assert_eq!(update(2, None).unwrap().version, 3);
}

#[test]
fn a_signed_setting_comes_back_as_it_was_put() {
    let world = World::new();
    let signed =
        Signed { body: vec![1, 2, 3], kid: "kid".into(), chain: vec![vec![4], vec![5, 6]], signature: vec![7; 64] };
    assert_eq!(world.run(|tx| settings::get_signed(tx, settings::SERVER_TIME)), None);
    world.run(|tx| settings::put_signed(tx, settings::SERVER_TIME, &signed));
    world.clock.advance(5);
    assert_eq!(world.run(|tx| settings::get_signed(tx, settings::SERVER_TIME)), Some((signed, ServerTimeMs(START))));
    world.run(|tx| settings::put(tx, settings::FLEET_ID, b"fleet-a"));
    world.run(|tx| settings::put(tx, settings::FLEET_ID, b"fleet-b"));
    assert_eq!(world.run(|tx| settings::get(tx, settings::FLEET_ID)), Some(b"fleet-b".to_vec()));
    assert!(world.store.run(|tx| settings::get_signed(tx, settings::FLEET_ID)).is_err(), "not a signed document");
}
