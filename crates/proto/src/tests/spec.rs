//! Specs in pieces: what is known is checked, what is not is kept, and a patch touches what it sets.

use crate::v1;
use crate::*;
use model::frame::Any;
use model::limits::COUNTER_MAX;
use model::spec::*;
use model::{AllocationId, ReservationId};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn wire() -> v1::DeviceAssignment {
    v1::DeviceAssignment {
        allocation_id: "alloc_1".into(),
        reservation_id: "res_1".into(),
        binding: 1,
        ..Default::default()
    }
}

fn section(assignments: Vec<v1::DeviceAssignment>) -> Result<Sections, WireError> {
    let bytes = v1::DevicesSection { assignments }.encode_to_vec();
    decode_sections(&encode_spec([(2, bytes.as_slice())]))
}

fn with(change: impl FnOnce(&mut v1::DeviceAssignment)) -> Result<Sections, WireError> {
    let mut assignment = wire();
    change(&mut assignment);
    section(vec![assignment])
}

fn limits(change: impl FnOnce(&mut v1::HoldLimits)) -> Result<Sections, WireError> {
    let mut limits = v1::HoldLimits::default();
    change(&mut limits);
    with(|assignment| assignment.limits = Some(limits))
}

#[test]
fn every_bound_of_an_assignment_holds_and_is_named() {
    assert_eq!(with(|_| {}).expect("decodes").devices.len(), 1);
    let device = v1::Device { device_class: "gpu".into(), id: "x".into() };
    let at = |count: usize| with(|assignment| assignment.devices = vec![device.clone(); count]);
    assert!(at(ASSIGNMENT_DEVICES_MAX).is_ok());
    let lines = |count: usize| with(|assignment| assignment.env = vec!["A=1".into(); count]);
    assert!(lines(ASSIGNMENT_ENV_MAX).is_ok());
    let long = |bytes: usize| "x".repeat(bytes);
    for (result, field) in [
        (with(|a| a.allocation_id = "../etc".into()), "DeviceAssignment.allocation_id"),
        (with(|a| a.allocation_id = String::new()), "DeviceAssignment.allocation_id"),
        (with(|a| a.reservation_id = "a b".into()), "DeviceAssignment.reservation_id"),
        (at(ASSIGNMENT_DEVICES_MAX + 1), "DeviceAssignment.devices"),
        (lines(ASSIGNMENT_ENV_MAX + 1), "DeviceAssignment.env"),
        (with(|a| a.env = vec![long(ENV_LINE_BYTES_MAX + 1)]), "DeviceAssignment.env"),
        (with(|a| a.devices = vec![v1::Device { id: long(DEVICE_TEXT_BYTES_MAX + 1), ..device.clone() }]), "Device.id"),
        (limits(|l| l.cpu_millis = COUNTER_MAX + 1), "HoldLimits.cpu_millis"),
        (limits(|l| l.memory_bytes = COUNTER_MAX + 1), "HoldLimits.memory_bytes"),
        (limits(|l| l.hugepages_2mi = COUNTER_MAX + 1), "HoldLimits.hugepages_2mi"),
        (limits(|l| l.hugepages_1gi = COUNTER_MAX + 1), "HoldLimits.hugepages_1gi"),
        (limits(|l| l.cpus = long(CPU_LIST_BYTES_MAX + 1)), "HoldLimits.cpus"),
        (limits(|l| l.mems = long(CPU_LIST_BYTES_MAX + 1)), "HoldLimits.mems"),
        (section(vec![wire(), wire()]), "DeviceAssignment.allocation_id"),
    ] {
        let error = result.expect_err(field).to_string();
        assert!(error.starts_with(field), "{error} for {field}");
    }
    let many = |count: usize| {
        section((0..count).map(|n| v1::DeviceAssignment { allocation_id: format!("a{n}"), ..wire() }).collect())
    };
    assert!(many(ASSIGNMENTS_MAX).is_ok());
    assert!(many(ASSIGNMENTS_MAX + 1).is_err());
}

#[test]
fn what_only_a_converger_can_judge_gets_through() {
    let sections = with(|assignment| {
        assignment.binding = 77;
        assignment.env = vec!["a line\nof two".into()];
        assignment.devices = vec![v1::Device { device_class: "tpu".into(), id: "0".into() }];
    })
    .expect("decodes");
    assert_eq!(sections.devices[0].binding, Binding::Other(77));
    assert_eq!(sections.devices[0].env, ["a line\nof two"]);
    assert_eq!(with(|a| a.binding = 0).expect("decodes").devices[0].binding, Binding::Other(0));
}

#[test]
fn a_telemetry_interval_is_zero_or_within_its_range() {
    for (interval_s, fits) in [(0, true), (9, false), (10, true), (3600, true), (3601, false)] {
        let bytes = encode_telemetry(&Telemetry { interval_s, ..Telemetry::default() });
        assert_eq!(decode_sections(&encode_spec([(5, bytes.as_slice())])).is_ok(), fits, "{interval_s}");
    }
}

#[test]
fn a_section_without_a_message_and_one_without_a_name_are_kept_byte_for_byte() {
    let mut spec = encode_spec([(1, &b"\x0a\x01x"[..]), (9, b"unknown"), (4, b"")]);
    // A field of another kind, number 12: 300 as a varint.
    spec.extend([0x60, 0xac, 0x02]);
    let sections = decode_sections(&spec).expect("decodes");
    assert_eq!(sections.numbers().collect::<Vec<_>>(), [1, 9, 12], "an empty section is not encoded");
    assert_eq!(sections.section(9), Some(&b"unknown"[..]));
    assert_eq!(sections.section(12), Some(&[0xac, 0x02][..]));
    assert_eq!(sections.section(4), None);
    assert_eq!(patched(&spec, &[]).expect("patched"), spec);
}

#[test]
fn a_section_that_arrives_in_pieces_is_one() {
    let piece = |id: &str| {
        let assignments = vec![v1::DeviceAssignment { allocation_id: id.into(), ..wire() }];
        encode_spec([(2, v1::DevicesSection { assignments }.encode_to_vec().as_slice())])
    };
    let sections = decode_sections(&[piece("b"), piece("a")].concat()).expect("decodes");
    let ids: Vec<&str> = sections.devices.iter().map(|assignment| assignment.allocation.as_str()).collect();
    assert_eq!(ids, ["a", "b"], "sorted");
}

#[test]
fn a_known_section_that_is_no_message_is_refused() {
    assert_eq!(decode_sections(&[0x18, 0x01]), Err(WireError::Unexpected { field: "NodeSpec" }));
    let mixed = [encode_spec([(3, &b"x"[..])]), vec![0x18, 0x01]].concat();
    assert_eq!(decode_sections(&mixed), Err(WireError::Unexpected { field: "NodeSpec" }));
}

#[test]
fn a_patch_replaces_what_it_sets_clears_what_is_empty_and_leaves_the_rest() {
    let base = encode_spec([(1, &b"host"[..]), (2, b""), (3, b"instances"), (9, b"nine")]);
    let mut patch = encode_spec([(1, &b"h"[..])]);
    encode_section(3, &[], &mut patch);
    encode_section(8, &[], &mut patch);
    let result = patched(&base, &patch).expect("patched");
    assert_eq!(result, encode_spec([(1, &b"h"[..]), (9, b"nine")]));
}

#[test]
fn reports_round_trip_and_another_message_is_none() {
    let allocation = AllocationId::new("alloc_1");
    let reservation = ReservationId::new("res_1");
    let reports = [
        AllocationReport::Bound {
            allocation: allocation.clone(),
            reservation: reservation.clone(),
            cdi_devices: vec!["bcd.dev/gpu=GPU-1".into()],
            generation: 7,
        },
        AllocationReport::Released {
            allocation: allocation.clone(),
            reservation: Some(reservation.clone()),
            generation: 8,
        },
        AllocationReport::Released { allocation: allocation.clone(), reservation: None, generation: 8 },
        AllocationReport::Failed {
            allocation,
            reservation,
            reason: FailReason::Overlap.name().to_owned(),
            message: "taken".into(),
            generation: 9,
        },
    ];
    for report in reports {
        assert_eq!(unpack_allocation_report(&pack_allocation_report(&report)), Ok(Some(report)));
    }
    assert_eq!(unpack_allocation_report(&Any::default()), Ok(None));
    let bad = Any { value: vec![0xff], ..pack(&v1::AllocationBound::default()) };
    assert!(matches!(unpack_allocation_report(&bad), Err(WireError::Decode { .. })));
    let nameless = pack(&v1::AllocationReleased::default());
    assert!(matches!(unpack_allocation_report(&nameless), Err(WireError::BadId { .. })));
}

fn assignment() -> impl Strategy<Value = DeviceAssignment> {
    let limits = (0..=COUNTER_MAX, 0..9u64, "[0-9,-]{0,9}").prop_map(|(memory_bytes, hugepages_1gi, cpus)| {
        HoldLimits { memory_bytes, hugepages_1gi, cpus, ..HoldLimits::default() }
    });
    let binding = prop_oneof![Just(Binding::Hold), Just(Binding::Kubernetes), Just(Binding::Other(9))];
    let devices = vec(("[a-z.]{0,8}", "[A-Z/0-9-]{0,20}"), 0..4);
    (binding, devices, vec("\\PC{0,20}", 0..3), proptest::option::of(limits)).prop_map(
        |(binding, mut devices, env, limits)| {
            devices.sort_by(|a, b| (&a.1, &a.0).cmp(&(&b.1, &b.0)));
            DeviceAssignment {
                allocation: AllocationId::new(""),
                reservation: ReservationId::new("res_1"),
                binding,
                devices: devices.into_iter().map(|(device_class, id)| Device { device_class, id }).collect(),
                env,
                limits,
            }
        },
    )
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_to_the_same(assignments in vec(assignment(), 0..5), interval_s in 10..3600u32) {
        let mut devices = assignments;
        for (number, assignment) in devices.iter_mut().enumerate() {
            assignment.allocation = AllocationId::new(format!("alloc_{number}"));
        }
        let telemetry = Telemetry { endpoint: "https://collector:4317".into(), interval_s, ..Telemetry::default() };
        let (devices_bytes, telemetry_bytes) = (encode_devices(&devices), encode_telemetry(&telemetry));
        let spec = encode_spec([(2, devices_bytes.as_slice()), (5, telemetry_bytes.as_slice())]);
        let sections = decode_sections(&spec).expect("decodes");
        prop_assert_eq!(&sections.devices, &devices);
        prop_assert_eq!(&sections.telemetry, &telemetry);
        prop_assert_eq!(sections.section(2), Some(devices_bytes.as_slice()).filter(|bytes| !bytes.is_empty()));
    }

    #[test]
    fn no_bytes_panic_and_the_sections_are_those_that_a_scan_finds(bytes in vec(any::<u8>(), 0..80)) {
        if let Ok(sections) = decode_sections(&bytes) {
            prop_assert_eq!(sections.numbers().collect::<Vec<_>>(), scan_tags(&bytes).expect("scans"));
        }
        drop(patched(&bytes, &bytes));
    }

    #[test]
    fn patches_agree_with_a_map(
        base in vec((1..12u32, vec(any::<u8>(), 0..4)), 0..8),
        patch in vec((1..12u32, vec(any::<u8>(), 0..4)), 0..8),
    ) {
        let base: BTreeMap<u32, Vec<u8>> = base.into_iter().collect();
        let patch: BTreeMap<u32, Vec<u8>> = patch.into_iter().collect();
        let mut model = base.clone();
        model.extend(patch.clone());
        let encode = |sections: &BTreeMap<u32, Vec<u8>>| {
            let mut out = Vec::new();
            sections.iter().for_each(|(number, bytes)| encode_section(*number, bytes, &mut out));
            out
        };
        let mut result = patched(&encode(&base), &encode(&patch)).expect("patched");
        // What was empty in the base and is not in the patch stays, empty.
        model.retain(|number, bytes| !bytes.is_empty() || !patch.contains_key(number));
        prop_assert_eq!(&result, &encode(&model));
        // Applying the same patch again changes nothing.
        result = patched(&result, &encode(&patch)).expect("patched");
        prop_assert_eq!(result, encode(&model));
    }
}
