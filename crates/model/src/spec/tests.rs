use super::*;
use proptest::prelude::*;

const GPU: &str = "GPU-11111111-0000-1111-2222-333333333333";
const OTHER: &str = "GPU-22222222-0000-1111-2222-333333333333";

fn atom(id: &str) -> Atom {
    Atom::parse(id).expect("an atom")
}

#[test]
fn an_atom_has_one_spelling_and_its_class_follows_from_it() {
    for (suffix, class, name) in [
        ("", DeviceClass::Gpu, ""),
        ("/gi13/ci2", DeviceClass::Mig, "_gi13_ci2"),
        ("/gi0/ci0", DeviceClass::Mig, "_gi0_ci0"),
        ("/s7", DeviceClass::Slot, "_s7"),
    ] {
        let id = format!("{GPU}{suffix}");
        assert_eq!(atom(&id).to_string(), id);
        assert_eq!(atom(&id).class(), class);
        assert_eq!(atom(&id).cdi_name(), format!("{GPU}{name}"));
    }
    for bad in ["/", "/s", "/s+1", "/s01", "/s4294967296", "/gi1", "/gi1/ci", "/gi1/ci1/x", "/ci1/gi1", "/S1"] {
        assert_eq!(Atom::parse(&format!("{GPU}{bad}")), None, "{bad}");
    }
    for bad in ["", "GPU-1", "MIG-11111111-0000-1111-2222-333333333333", "GPU-11111111-0000-1111-2222-33333333333g"] {
        assert_eq!(Atom::parse(bad), None, "{bad}");
    }
}

#[test]
fn a_whole_gpu_and_its_parts_exclude_each_other_and_parts_exclude_only_themselves() {
    let parts = ["/gi1/ci0", "/gi2/ci0", "/s0", "/s1"].map(|part| atom(&format!("{GPU}{part}")));
    let whole = atom(GPU);
    assert!(whole.conflicts(&whole));
    for part in &parts {
        assert!(part.conflicts(&whole) && whole.conflicts(part) && part.conflicts(part));
        assert!(!part.conflicts(&atom(OTHER)));
        assert_eq!(parts.iter().filter(|other| part.conflicts(other)).count(), 1, "{part}");
    }
}

#[test]
fn sections_converge_in_the_order_of_their_numbers() {
    let names: Vec<&str> = Section::ALL.iter().map(|section| section.name()).collect();
    assert_eq!(names, ["host", "devices", "instances", "access", "telemetry", "daemon", "site"]);
    assert!(Section::ALL.iter().map(|section| section.number()).eq(1..=7));
    assert_eq!(Section::from_number(2), Some(Section::Devices));
    assert_eq!((Section::from_number(0), Section::from_number(8)), (None, None));
}

#[test]
fn only_progress_is_not_terminal() {
    let open: Vec<_> = SectionState::ALL.iter().filter(|state| !state.is_terminal()).collect();
    assert_eq!(open, [&SectionState::Progressing]);
}

proptest! {
    #[test]
    fn no_text_but_its_own_reads_as_an_atom(text in "(GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})?[/gics0-9+-]{0,12}") {
        if let Some(atom) = Atom::parse(&text) {
            prop_assert_eq!(atom.to_string(), text);
        }
    }
}
