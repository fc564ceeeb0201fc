//! Credits, workers and resource locks: how many commands are admitted, how many run, and which two
//! never run together.
//!
//! A credit is held from acceptance until the result is durable; a worker and its resources from the
//! start of the work until it finished. Queued work starts in acceptance order, except that work whose
//! devices are busy lets later work pass that wants none of them.

use model::{CommandId, Lane};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub struct Lanes {
    credits_used: BTreeMap<Lane, BTreeSet<CommandId>>,
    queue: Vec<Queued>,
    running: BTreeMap<CommandId, Queued>,
}

#[derive(Clone, Debug)]
struct Queued {
    id: CommandId,
    lane: Lane,
    resources: Vec<String>,
}

impl Lanes {
    pub fn has_credit(&self, lane: Lane) -> bool {
        self.credits_used.get(&lane).map_or(0, BTreeSet::len) < lane.credits() as usize
    }

    pub fn take_credit(&mut self, lane: Lane, id: &CommandId) {
        self.credits_used.entry(lane).or_default().insert(id.clone());
    }

    pub fn return_credit(&mut self, id: &CommandId) {
        for used in self.credits_used.values_mut() {
            used.remove(id);
        }
    }

    pub fn enqueue(&mut self, id: &CommandId, lane: Lane, resources: Vec<String>) {
        self.queue.push(Queued { id: id.clone(), lane, resources });
    }

    /// Takes a queued command back; false when it has left the queue.
    pub fn withdraw(&mut self, id: &CommandId) -> bool {
        let before = self.queue.len();
        self.queue.retain(|queued| queued.id != *id);
        self.queue.len() < before
    }

    /// Takes the next command that may start now, if any.
    pub fn start_next(&mut self) -> Option<CommandId> {
        let mut wanted: BTreeSet<&String> = self.running.values().flat_map(|work| &work.resources).collect();
        let mut found = None;
        for (index, queued) in self.queue.iter().enumerate() {
            let busy = self.running.values().filter(|work| work.lane == queued.lane).count();
            let is_free = !queued.resources.iter().any(|resource| wanted.contains(resource));
            if is_free && busy < queued.lane.workers() as usize {
                found = Some(index);
                break;
            }
            wanted.extend(&queued.resources);
        }
        let queued = self.queue.remove(found?);
        let id = queued.id.clone();
        self.running.insert(id.clone(), queued);
        Some(id)
    }

    /// The work ended; its worker and its devices are free.
    pub fn finish(&mut self, id: &CommandId) {
        self.running.remove(id);
    }
}
