//! Sections as a whole.

use super::*;
use std::collections::BTreeMap;

fn status(section: u32, state: SectionState, generation: u64) -> SectionStatus {
    SectionStatus { section, state, generation, reason: String::new(), message: String::new() }
}

#[test]
fn sections_converge_in_order_and_unknown_ones_come_last() {
    assert_eq!(convergence_order([9, 2, 8]), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let map = |entries: &[(u32, &str)]| entries.iter().map(|(n, b)| (*n, b.to_string())).collect::<BTreeMap<_, _>>();
    let (held, next) = (map(&[(1, "a"), (2, "b"), (9, "x")]), map(&[(1, "a"), (2, "c"), (3, "d")]));
    assert_eq!(changed_sections(&held, &next), [2, 3, 9]);
    assert_eq!(changed_sections(&held, &held), [0; 0]);
}

#[test]
fn a_section_without_a_converger_is_converged_when_empty_and_unsupported_otherwise() {
    for section in [1, 3, 6, 42] {
        let empty = without_converger(section, true, 5);
        assert_eq!((empty.state, empty.generation), (SectionState::Converged, 5));
        assert!(conditions(&[empty]).is_empty());
        let full = without_converger(section, false, 5);
        assert_eq!((full.state, full.reason.as_str()), (SectionState::Unsupported, "SectionUnsupported"));
        let [(kind, reason, message)] = conditions(&[full]).try_into().expect("one");
        assert_eq!((kind.as_str(), reason), ("SectionUnsupported", section.to_string()));
        assert!(message.contains(&Section::from_number(section).map_or("42".to_owned(), |known| known.to_string())));
    }
}

#[test]
fn a_host_managed_by_others_raises_no_condition_and_holds_nothing_back() {
    let mut host = status(1, SectionState::Unsupported, 5);
    host.reason = HOST_MANAGED_EXTERNALLY.to_owned();
    assert!(conditions(std::slice::from_ref(&host)).is_empty());
    assert_eq!(observed_generation(4, 5, &[host]), 5);
}

#[test]
fn a_generation_is_observed_once_every_section_of_it_is_terminal() {
    use SectionState::{Converged, Failed, Progressing, Unsupported};
    let all = |states: &[SectionState]| {
        let sections: Vec<_> = states.iter().zip(1..).map(|(state, section)| status(section, *state, 5)).collect();
        observed_generation(4, 5, &sections)
    };
    assert_eq!(all(&[Converged, Failed, Unsupported]), 5, "failed terminally counts");
    assert_eq!(all(&[Converged, Progressing, Failed]), 4);
    assert_eq!(all(&[Converged]), 5);
    let old = [status(1, Converged, 5), status(2, Converged, 4)];
    assert_eq!(observed_generation(4, 5, &old), 4, "a standing of an older generation says nothing");
    assert_eq!(observed_generation(9, 5, &[status(1, Converged, 5)]), 9, "never backwards");
}
