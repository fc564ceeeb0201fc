//! The rules of bookings on plain maps: what each step must do, written down a second time.

use super::super::node::{GPUS, INSTANCES, MIG_GPU, uuid};
use super::super::world::{SLOTS_PER_GPU, VCPU};
use crate::placement::{DeviceClass, Request};
use crate::sql::AllocationRow;
use crate::state::ReservationState::{self, *};
use model::frame::Event;
use model::{AllocationId, NodeId, ReservationId};
use proto::{Message, v1};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Default)]
pub struct Node {
    pub connected: bool,
    pub cordoned: bool,
    pub missing: BTreeSet<usize>,
    applied: u64,
    observed: u64,
    /// The newest generation written.
    written: u64,
}

#[derive(Clone)]
struct Reservation {
    request: Request,
    may_wait: bool,
    state: ReservationState,
    attempt: u32,
    not_before: i64,
    allocation: Option<AllocationId>,
    /// Node to failures and until when.
    avoided: BTreeMap<usize, (u32, i64)>,
}

#[derive(Clone)]
struct Allocation {
    reservation: ReservationId,
    node: usize,
    atoms: BTreeSet<String>,
    vcpu: u64,
    wanted: bool,
    bound: bool,
    failed: bool,
    ended: bool,
    named_at: Option<u64>,
    dropped_at: Option<u64>,
    last: u64,
    silent_since: Option<i64>,
}

#[derive(Clone)]
struct Word {
    node: usize,
    allocation: AllocationId,
    kind: String,
    generation: u64,
}

#[derive(Clone)]
pub struct Reference {
    pub nodes: Vec<Node>,
    ids: Vec<NodeId>,
    reservations: BTreeMap<ReservationId, Reservation>,
    allocations: BTreeMap<AllocationId, Allocation>,
    /// Stored and not verified, in order.
    words: Vec<Word>,
}

impl Reference {
    pub fn new(ids: Vec<NodeId>) -> Self {
        let nodes = ids.iter().map(|_| Node { connected: true, ..Node::default() }).collect();
        Self { nodes, ids, reservations: BTreeMap::new(), allocations: BTreeMap::new(), words: vec![] }
    }

    pub fn create(&mut self, id: &ReservationId, request: &Request, may_wait: bool, now: i64) {
        let reservation = Reservation {
            request: request.clone(),
            may_wait,
            state: Pending,
            attempt: 0,
            not_before: now,
            allocation: None,
            avoided: BTreeMap::new(),
        };
        self.reservations.insert(id.clone(), reservation);
    }

    fn booked(&self, node: usize) -> impl Iterator<Item = &Allocation> {
        self.allocations.values().filter(move |allocation| allocation.node == node && !allocation.ended)
    }

    /// Whether some node can take it: by counting what is free.
    pub fn fits(&self, request: &Request, id: Option<&ReservationId>, now: i64) -> bool {
        let avoids = |node: usize| {
            let until = id.and_then(|id| self.reservations[id].avoided.get(&node));
            until.is_some_and(|(_, until)| *until > now)
        };
        (0..self.nodes.len()).any(|node| !avoids(node) && self.fits_on(request, node))
    }

    fn fits_on(&self, request: &Request, number: usize) -> bool {
        let node = &self.nodes[number];
        let taken: BTreeSet<&str> =
            self.booked(number).flat_map(|allocation| &allocation.atoms).map(String::as_str).collect();
        let there = |gpu: usize| !node.missing.contains(&gpu);
        let (mut free, mut slots_of_parts) = (0, 0);
        for gpu in (0..GPUS).filter(|gpu| *gpu != MIG_GPU && there(*gpu)) {
            let name = uuid(number, gpu);
            let parts = (0..SLOTS_PER_GPU).filter(|slot| taken.contains(format!("{name}/s{slot}").as_str())).count();
            match (taken.contains(name.as_str()), parts) {
                (true, _) => {}
                (false, 0) => free += 1,
                (false, parts) => slots_of_parts += usize::from(SLOTS_PER_GPU) - parts,
            }
        }
        let mig = uuid(number, MIG_GPU);
        let instances =
            (0..INSTANCES).filter(|gi| there(MIG_GPU) && !taken.contains(format!("{mig}/gi{gi}/ci0").as_str())).count();
        let vcpu: u64 = self.booked(number).map(|allocation| allocation.vcpu).sum();
        let (whole, slots, migs) = (
            request.count(DeviceClass::Gpu) as usize,
            request.count(DeviceClass::Slot) as usize,
            request.count(DeviceClass::Mig) as usize,
        );
        node.connected
            && !node.cordoned
            && whole <= free
            && slots <= slots_of_parts + (free - whole) * usize::from(SLOTS_PER_GPU)
            && migs <= instances
            && vcpu + u64::from(request.host.vcpu) <= u64::from(VCPU)
    }

    pub fn may_be_placed(&self, id: &ReservationId, now: i64) -> bool {
        let reservation = &self.reservations[id];
        reservation.state == Pending && reservation.not_before <= now
    }

    /// The choice is one of those that fit, of free atoms.
    pub fn check_choice(&self, id: &ReservationId, chosen: &AllocationRow, now: i64) {
        let node = self.ids.iter().position(|node| *node == chosen.node).expect("a node of the fleet");
        let reservation = &self.reservations[id];
        assert!(self.fits_on(&reservation.request, node), "{id} does not fit there");
        assert!(reservation.avoided.get(&node).is_none_or(|(_, until)| *until <= now), "{id} failed there");
        let taken: BTreeSet<&String> = self.booked(node).flat_map(|allocation| &allocation.atoms).collect();
        assert!(chosen.devices.iter().all(|device| !taken.contains(&device.id)), "{id} got what is booked");
    }

    pub fn book(&mut self, id: &ReservationId, chosen: &AllocationRow) {
        let node = self.ids.iter().position(|node| *node == chosen.node).expect("a node of the fleet");
        let reservation = self.reservations.get_mut(id).expect("known");
        (reservation.state, reservation.allocation) = (Placing, Some(chosen.id.clone()));
        reservation.attempt += 1;
        let allocation = Allocation {
            reservation: id.clone(),
            node,
            atoms: chosen.devices.iter().map(|device| device.id.clone()).collect(),
            vcpu: u64::from(reservation.request.host.vcpu),
            wanted: true,
            bound: false,
            failed: false,
            ended: false,
            named_at: None,
            dropped_at: None,
            last: 0,
            silent_since: None,
        };
        assert!(self.allocations.insert(chosen.id.clone(), allocation).is_none(), "an allocation's id is its own");
    }

    pub fn refused(&mut self, id: &ReservationId, now: i64) {
        let request = self.reservations[id].request.clone();
        assert!(!self.fits(&request, Some(id), now), "{id} could have been placed");
        let reservation = self.reservations.get_mut(id).expect("known");
        if !reservation.may_wait {
            reservation.state = Failed;
        }
    }

    pub fn spec_written(&mut self, node: usize, generation: u64) {
        let facts = &mut self.nodes[node];
        let ahead = facts.applied.max(facts.observed) > facts.written;
        facts.written = facts.written.max(generation);
        for (id, allocation) in &mut self.allocations {
            if allocation.node != node || allocation.ended {
                continue;
            }
            if allocation.wanted {
                if allocation.named_at.is_none() {
                    allocation.named_at = Some(generation);
                    let reservation = self.reservations.get_mut(&allocation.reservation).expect("known");
                    if reservation.state == Placing && reservation.allocation.as_ref() == Some(id) {
                        reservation.state = Binding;
                    }
                }
            } else if allocation.dropped_at.is_none() || ahead {
                allocation.dropped_at = Some(generation);
            }
        }
    }

    pub fn hello(&mut self, node: usize, applied: u64) {
        self.nodes[node].applied = applied;
    }

    pub fn status(&mut self, node: usize, applied: u64, observed: u64) {
        let facts = &mut self.nodes[node];
        (facts.applied, facts.observed) = (applied, facts.observed.max(observed));
    }

    /// Words that reach the store: those about an allocation that is booked on the node.
    pub fn arrived(&mut self, node: usize, events: &[Event]) {
        for event in events {
            let report = proto::decode_report(&event.report).expect("a report");
            let body = report.body.expect("a body").value;
            let (allocation, generation) = match report.kind.as_str() {
                "allocationBound" => {
                    let body = v1::AllocationBound::decode(body.as_slice()).expect("bound");
                    (body.allocation_id, body.generation)
                }
                "allocationReleased" => {
                    let body = v1::AllocationReleased::decode(body.as_slice()).expect("released");
                    (body.allocation_id, body.generation)
                }
                _ => {
                    let body = v1::AllocationFailed::decode(body.as_slice()).expect("failed");
                    (body.allocation_id, body.generation)
                }
            };
            let allocation = AllocationId::new(allocation);
            let known = self.allocations.get(&allocation);
            if known.is_some_and(|known| known.node == node && !known.ended) {
                self.words.push(Word { node, allocation, kind: report.kind, generation });
            }
        }
    }

    /// The verdict on the oldest `count` words.
    pub fn verify(&mut self, count: usize, genuine: bool, now: i64) {
        for _ in 0..count {
            if self.words.is_empty() {
                continue;
            }
            let word = self.words.remove(0);
            if genuine {
                self.believe(&word, now);
            }
        }
    }

    fn believe(&mut self, word: &Word, now: i64) {
        let Some(allocation) = self.allocations.get_mut(&word.allocation).filter(|allocation| !allocation.ended) else {
            return;
        };
        assert_eq!(allocation.node, word.node);
        if word.generation < allocation.last {
            return;
        }
        (allocation.last, allocation.silent_since) = (word.generation, None);
        let reservation = self.reservations.get_mut(&allocation.reservation).expect("known");
        let in_force = reservation.allocation.as_ref() == Some(&word.allocation);
        match word.kind.as_str() {
            "allocationBound" => {
                allocation.bound = true;
                if allocation.wanted && in_force {
                    reservation.state = Active;
                }
            }
            "allocationReleased" => {
                allocation.bound = false;
                if !allocation.wanted && allocation.dropped_at.is_some_and(|dropped| word.generation >= dropped) {
                    self.end(&word.allocation.clone());
                } else if allocation.wanted && in_force && reservation.state == Active {
                    reservation.state = Binding;
                }
            }
            _ => {
                allocation.failed = true;
                if allocation.wanted {
                    self.place_again(&word.allocation.clone(), now);
                }
            }
        }
    }

    fn place_again(&mut self, id: &AllocationId, now: i64) {
        let allocation = self.allocations.get_mut(id).expect("known");
        (allocation.wanted, allocation.silent_since) = (false, None);
        let reservation = self.reservations.get_mut(&allocation.reservation).expect("known");
        assert_eq!(reservation.allocation.as_ref(), Some(id), "only what is in force is wanted");
        let (failures, until) = reservation.avoided.entry(allocation.node).or_default();
        *failures += 1;
        *until = now + (30_000i64 << (*failures - 1).min(10)).min(600_000);
        reservation.not_before = now + (1_000i64 << (reservation.attempt - 1).min(10)).min(60_000);
        (reservation.state, reservation.allocation) = (Pending, None);
    }

    fn end(&mut self, id: &AllocationId) {
        let allocation = self.allocations.get_mut(id).expect("known");
        (allocation.ended, allocation.wanted) = (true, false);
        let reservation = self.reservations.get_mut(&allocation.reservation).expect("known");
        if reservation.state == Releasing && reservation.allocation.as_ref() == Some(id) {
            reservation.state = Released;
        }
        self.words.retain(|word| word.allocation != *id);
    }

    pub fn end_dropped(&mut self) {
        let done: Vec<AllocationId> = self
            .allocations
            .iter()
            .filter(|(id, allocation)| {
                let node = &self.nodes[allocation.node];
                let seen = allocation.dropped_at.is_some_and(|dropped| dropped <= node.observed);
                let unheard = self.words.iter().any(|word| word.allocation == **id);
                let not_held = allocation.failed || !allocation.bound;
                !allocation.ended && !allocation.wanted && not_held && seen && node.observed <= node.written && !unheard
            })
            .map(|(id, _)| id.clone())
            .collect();
        done.iter().for_each(|id| self.end(id));
    }

    pub fn replace_silent(&mut self, now: i64) {
        let mut silent = Vec::new();
        for (id, allocation) in &mut self.allocations {
            let node = &self.nodes[allocation.node];
            let seen = allocation.named_at.is_some_and(|named| named <= node.observed);
            let unheard = self.words.iter().any(|word| word.allocation == *id);
            let waits = !allocation.ended && allocation.wanted && !allocation.bound && node.connected;
            if !(waits && seen && node.observed <= node.written && !unheard) {
                continue;
            }
            match allocation.silent_since {
                None => allocation.silent_since = Some(now),
                Some(since) if since <= now - 60_000 => silent.push(id.clone()),
                Some(_) => {}
            }
        }
        silent.iter().for_each(|id| self.place_again(id, now));
    }

    pub fn release(&mut self, id: &ReservationId, node_lost: bool) {
        let reservation = self.reservations.get_mut(id).expect("known");
        match reservation.state {
            Pending => reservation.state = Released,
            Placing | Binding | Active => {
                reservation.state = Releasing;
                let allocation = reservation.allocation.as_ref().and_then(|id| self.allocations.get_mut(id));
                let allocation = allocation.expect("it is placed");
                (allocation.wanted, allocation.silent_since) = (false, None);
            }
            Releasing | Released | Failed => {}
        }
        if node_lost {
            let mine = self.allocations.iter().filter(|(_, known)| known.reservation == *id && !known.ended);
            let mine: Vec<AllocationId> = mine.map(|(id, _)| id.clone()).collect();
            mine.iter().for_each(|id| self.end(id));
        }
    }

    pub fn seen(&self, id: &ReservationId) -> (ReservationState, u32) {
        let reservation = &self.reservations[id];
        (reservation.state, reservation.attempt)
    }

    pub fn live_allocation(&self, id: &ReservationId) -> Option<AllocationId> {
        let current = self.reservations[id].allocation.clone();
        current.filter(|current| !self.allocations[current].ended)
    }

    /// Node and GPU to how it is booked.
    pub fn books(&self) -> BTreeMap<(usize, String), &'static str> {
        let live = self.allocations.values().filter(|allocation| !allocation.ended);
        let atoms = live.flat_map(|allocation| allocation.atoms.iter().map(|atom| (allocation.node, atom)));
        atoms
            .map(|(node, atom)| match atom.split_once('/') {
                Some((gpu, _)) => ((node, gpu.to_owned()), "parts"),
                None => ((node, atom.clone()), "whole"),
            })
            .collect()
    }
}
