//! Sections as a whole: their order, what changed, the standing of those without a converger, and when a
//! generation counts as observed.

use model::spec::{Section, SectionState, SectionStatus};
use std::collections::{BTreeMap, BTreeSet};

/// Reason and condition of a section that this daemon has no converger for.
pub const SECTION_UNSUPPORTED: &str = "SectionUnsupported";
/// Reason of a `host` section on a host whose units somebody else manages. It raises no condition.
pub const HOST_MANAGED_EXTERNALLY: &str = "HostManagedExternally";

/// Every section with a name and every other one the spec has, in the order of convergence.
pub fn convergence_order(in_spec: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let numbers: BTreeSet<u32> = Section::ALL.iter().map(|section| section.number()).chain(in_spec).collect();
    numbers.into_iter().collect()
}

/// The sections whose bytes differ, in the order of convergence. Both maps hold non-empty sections only.
pub fn changed_sections<B: AsRef<[u8]>>(held: &BTreeMap<u32, B>, next: &BTreeMap<u32, B>) -> Vec<u32> {
    let bytes = |of: &BTreeMap<u32, B>, number: &u32| of.get(number).map(|bytes| bytes.as_ref().to_vec());
    let numbers: BTreeSet<&u32> = held.keys().chain(next.keys()).collect();
    numbers.into_iter().filter(|number| bytes(held, number) != bytes(next, number)).copied().collect()
}

/// The standing of a section without a converger: it converges when empty and is unsupported otherwise,
/// which is terminal, so that the others still count.
pub fn without_converger(section: u32, is_empty: bool, generation: u64) -> SectionStatus {
    if is_empty {
        let (reason, message) = (String::new(), String::new());
        return SectionStatus { section, state: SectionState::Converged, generation, reason, message };
    }
    let name = Section::from_number(section).map_or_else(|| format!("number {section}"), |known| known.to_string());
    SectionStatus {
        section,
        state: SectionState::Unsupported,
        generation,
        reason: SECTION_UNSUPPORTED.to_owned(),
        message: format!("this daemon cannot converge the section {name}"),
    }
}

/// The generation to report as observed: `generation` once every section of it is converged or has failed
/// terminally, and never less than before.
pub fn observed_generation(before: u64, generation: u64, sections: &[SectionStatus]) -> u64 {
    let all_there = sections.iter().all(|status| status.generation == generation && status.state.is_terminal());
    if all_there { before.max(generation) } else { before }
}

/// The conditions (kind, reason, message) that the sections raise: one for each that is unsupported, with
/// its field number as the reason.
pub fn conditions(sections: &[SectionStatus]) -> Vec<(String, String, String)> {
    sections
        .iter()
        .filter(|status| status.state == SectionState::Unsupported && status.reason != HOST_MANAGED_EXTERNALLY)
        .map(|status| (SECTION_UNSUPPORTED.to_owned(), status.section.to_string(), status.message.clone()))
        .collect()
}
