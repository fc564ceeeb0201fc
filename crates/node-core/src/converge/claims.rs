//! Who may have which atoms, and in which order holds change so that no atom ever has two holders.

use model::AllocationId;
use model::spec::Atom;
use std::collections::BTreeMap;

/// Atoms with their holders. No two holders conflict.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    by_allocation: BTreeMap<AllocationId, Vec<Atom>>,
}

impl Claims {
    /// Another holder of one of `atoms` or of a part of it, and which atom it is.
    pub fn conflict<'a>(
        &'a self,
        allocation: &AllocationId,
        atoms: &'a [Atom],
    ) -> Option<(&'a AllocationId, &'a Atom)> {
        self.by_allocation.iter().filter(|(holder, _)| *holder != allocation).find_map(|(holder, held)| {
            let atom = atoms.iter().find(|atom| held.iter().any(|other| other.conflicts(atom)))?;
            Some((holder, atom))
        })
    }

    pub fn insert(&mut self, allocation: &AllocationId, atoms: Vec<Atom>) {
        self.by_allocation.insert(allocation.clone(), atoms);
    }

    pub fn remove(&mut self, allocation: &AllocationId) {
        self.by_allocation.remove(allocation);
    }

    pub fn has(&self, allocation: &AllocationId, atom: &Atom) -> bool {
        self.by_allocation.get(allocation).is_some_and(|held| held.contains(atom))
    }

    pub fn into_map(self) -> BTreeMap<AllocationId, Vec<Atom>> {
        self.by_allocation
    }
}

impl FromIterator<(AllocationId, Vec<Atom>)> for Claims {
    fn from_iter<I: IntoIterator<Item = (AllocationId, Vec<Atom>)>>(entries: I) -> Self {
        Self { by_allocation: entries.into_iter().collect() }
    }
}

/// Changes, each with its allocation.
pub(crate) struct Order<T> {
    /// Each finds its atoms free once those before it are made.
    pub ordered: Vec<(AllocationId, T)>,
    /// These wait for each other.
    pub circle: Vec<(AllocationId, T)>,
}

/// Orders changes (allocation, new atoms, payload), those that gain nothing first.
pub(crate) fn order<T>(mut current: Claims, changes: Vec<(AllocationId, Vec<Atom>, T)>) -> Order<T> {
    let gains = |current: &Claims, (allocation, atoms, _): &(AllocationId, Vec<Atom>, T)| {
        atoms.iter().any(|atom| !current.has(allocation, atom))
    };
    let (mut open, first): (Vec<_>, Vec<_>) = changes.into_iter().partition(|change| gains(&current, change));
    let mut ordered = Vec::new();
    for (allocation, atoms, payload) in first {
        current.insert(&allocation, atoms);
        ordered.push((allocation, payload));
    }
    loop {
        let free = open.iter().position(|(allocation, atoms, _)| current.conflict(allocation, atoms).is_none());
        let Some(position) = free else { break };
        let (allocation, atoms, payload) = open.remove(position);
        current.insert(&allocation, atoms);
        ordered.push((allocation, payload));
    }
    Order { ordered, circle: open.into_iter().map(|(allocation, _, payload)| (allocation, payload)).collect() }
}
