//! What is owed to the control plane.

use super::*;

#[test]
fn a_release_is_owed_from_the_spec_on_until_it_is_reported() {
    let mut ledger = Ledger::default();
    let assignment = assign("a", &[&gpu(0)]);
    ledger.spec_applied(std::slice::from_ref(&assignment));
    ledger.spec_applied(&[]);
    assert_eq!(ledger.entries().count(), 1);
    assert!(!ledger.is_bound(&id("a")));
    let (allocation, reservation) = (id("a"), assignment.reservation.clone());
    ledger.reported(&AllocationReport::Bound {
        allocation: allocation.clone(),
        reservation: reservation.clone(),
        cdi_devices: vec!["x".to_owned()],
        generation: 1,
    });
    ledger.spec_applied(&[assignment]);
    assert_eq!(ledger.get(&allocation).and_then(|entry| entry.bound.clone()), Some(vec!["x".to_owned()]));
    let again = Ledger::restored(ledger.entries().map(|(id, entry)| (id.clone(), entry.clone())));
    assert_eq!(again, ledger);
    ledger.reported(&AllocationReport::Released { allocation, reservation: Some(reservation), generation: 2 });
    assert_eq!(ledger, Ledger::default());
}

#[test]
fn a_failure_is_remembered_with_its_generation() {
    let mut ledger = Ledger::default();
    let failed = |generation| AllocationReport::Failed {
        allocation: id("a"),
        reservation: ReservationId::new("r"),
        reason: "overlap".to_owned(),
        message: "taken".to_owned(),
        generation,
    };
    ledger.reported(&failed(3));
    ledger.reported(&failed(4));
    let expected = LedgerFailure { generation: 4, reason: "overlap".to_owned(), message: "taken".to_owned() };
    assert_eq!(ledger.get(&id("a")).and_then(|entry| entry.failed.clone()), Some(expected));
}
