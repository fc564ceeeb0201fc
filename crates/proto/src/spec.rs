//! The sections of a `NodeSpec`: those with a message as values with every bound checked, and all of them
//! as the bytes that arrived, so that one this build does not know is kept and reported, never dropped.
//!
//! A section that arrives in several pieces is their concatenation, which is what protobuf means by it.

use crate::{WireError, any, check, v1};
use model::frame::Any;
use model::limits::{EVENT_BYTES_MAX, FRAME_BYTES_MAX, TEXT_BYTES_MAX};
use model::spec::{
    ASSIGNMENT_DEVICES_MAX, ASSIGNMENT_ENV_MAX, ASSIGNMENTS_MAX, AllocationReport, Binding, CPU_LIST_BYTES_MAX,
    DEVICE_TEXT_BYTES_MAX, Device, DeviceAssignment, ENV_LINE_BYTES_MAX, HoldLimits, RESOURCE_ATTRIBUTES_MAX,
    SECTIONS_MAX, Section, TELEMETRY_INTERVAL_S, Telemetry,
};
use model::{AllocationId, ReservationId};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost::{Message, Name};
use std::collections::{BTreeMap, BTreeSet};

/// A decoded spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    raw: BTreeMap<u32, RawSection>,
    /// Sorted by allocation, each once.
    pub devices: Vec<DeviceAssignment>,
    pub telemetry: Telemetry,
}

/// One section as it arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawSection {
    /// Its fields with their tags, in order.
    encoded: Vec<u8>,
    /// Without tags and lengths; of a field that is no message, its encoded value.
    payload: Vec<u8>,
    /// A value that is not a message is never empty.
    is_message: bool,
}

impl RawSection {
    /// The section's message.
    pub fn bytes(&self) -> &[u8] {
        &self.payload
    }

    pub fn is_empty(&self) -> bool {
        self.is_message && self.payload.is_empty()
    }
}

impl Sections {
    /// The numbers of all sections that are there, rising; an empty one is there too.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.raw.keys().copied()
    }

    /// The section's bytes, `None` when it is absent or empty.
    pub fn section(&self, number: u32) -> Option<&[u8]> {
        self.raw.get(&number).filter(|section| !section.is_empty()).map(RawSection::bytes)
    }

    /// Non-empty sections, by number.
    pub fn non_empty(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.raw.iter().filter(|(_, section)| !section.is_empty()).map(|(number, section)| (*number, section.bytes()))
    }
}

/// Splits a serialized `NodeSpec` and decodes the sections that have a message.
pub fn decode_sections(bytes: &[u8]) -> Result<Sections, WireError> {
    check::at_most("NodeSpec", bytes.len(), FRAME_BYTES_MAX)?;
    sections(split(bytes)?)
}

/// The spec that `patch`, a serialized `NodeSpec`, makes of `base`: a section it sets replaces that section
/// whole, an empty one clears it, and one it does not set stays. Nothing of `base` is encoded anew.
pub fn patched(base: &[u8], patch: &[u8]) -> Result<Vec<u8>, WireError> {
    let mut raw = split(base)?;
    for (number, section) in split(patch)? {
        if section.is_empty() {
            raw.remove(&number);
        } else {
            raw.insert(number, section);
        }
    }
    let bytes: Vec<u8> = raw.values().flat_map(|section| section.encoded.iter().copied()).collect();
    check::at_most("NodeSpec", bytes.len(), FRAME_BYTES_MAX)?;
    Ok(bytes)
}

fn sections(raw: BTreeMap<u32, RawSection>) -> Result<Sections, WireError> {
    check::at_most("NodeSpec", raw.len(), SECTIONS_MAX)?;
    for known in Section::ALL {
        // A message's place taken by something else is no section this build can read.
        if raw.get(&known.number()).is_some_and(|section| !section.is_message) {
            return Err(WireError::Unexpected { field: "NodeSpec" });
        }
    }
    let bytes = |section: Section| raw.get(&section.number()).map_or(&[][..], RawSection::bytes);
    let devices = devices(bytes(Section::Devices))?;
    let telemetry = telemetry(bytes(Section::Telemetry))?;
    Ok(Sections { raw, devices, telemetry })
}

fn split(bytes: &[u8]) -> Result<BTreeMap<u32, RawSection>, WireError> {
    let failed = |source| WireError::Decode { message: "NodeSpec", source };
    let mut raw: BTreeMap<u32, RawSection> = BTreeMap::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let field = rest;
        let (number, wire_type) = decode_key(&mut rest).map_err(failed)?;
        let value = rest;
        skip_field(wire_type, number, &mut rest, DecodeContext::default()).map_err(failed)?;
        let mut payload = &value[..value.len() - rest.len()];
        let is_message = wire_type == WireType::LengthDelimited;
        if is_message {
            decode_varint(&mut payload).map_err(failed)?;
        }
        let first = !raw.contains_key(&number);
        let section = raw.entry(number).or_default();
        section.encoded.extend_from_slice(&field[..field.len() - rest.len()]);
        section.payload.extend_from_slice(payload);
        section.is_message = is_message && (first || section.is_message);
    }
    Ok(raw)
}

fn devices(bytes: &[u8]) -> Result<Vec<DeviceAssignment>, WireError> {
    let wire: v1::DevicesSection = check::decode("DevicesSection", bytes, FRAME_BYTES_MAX)?;
    let mut assignments = check::list("DevicesSection.assignments", wire.assignments, ASSIGNMENTS_MAX, assignment)?;
    assignments.sort_by(|a, b| a.allocation.cmp(&b.allocation));
    let distinct: BTreeSet<&AllocationId> = assignments.iter().map(|assignment| &assignment.allocation).collect();
    if distinct.len() < assignments.len() {
        return Err(WireError::Unexpected { field: "DeviceAssignment.allocation_id" });
    }
    Ok(assignments)
}

fn assignment(wire: v1::DeviceAssignment) -> Result<DeviceAssignment, WireError> {
    Ok(DeviceAssignment {
        allocation: check::id("DeviceAssignment.allocation_id", &wire.allocation_id, AllocationId::parse)?,
        reservation: check::id("DeviceAssignment.reservation_id", &wire.reservation_id, ReservationId::parse)?,
        binding: match v1::Binding::try_from(wire.binding) {
            Ok(v1::Binding::Hold) => Binding::Hold,
            Ok(v1::Binding::Kubernetes) => Binding::Kubernetes,
            Ok(v1::Binding::Unspecified) | Err(_) => Binding::Other(wire.binding),
        },
        devices: check::list("DeviceAssignment.devices", wire.devices, ASSIGNMENT_DEVICES_MAX, |device| {
            Ok(Device {
                device_class: check::bytes("Device.device_class", device.device_class, DEVICE_TEXT_BYTES_MAX)?,
                id: check::bytes("Device.id", device.id, DEVICE_TEXT_BYTES_MAX)?,
            })
        })?,
        env: check::list("DeviceAssignment.env", wire.env, ASSIGNMENT_ENV_MAX, |line| {
            check::bytes("DeviceAssignment.env", line, ENV_LINE_BYTES_MAX)
        })?,
        limits: wire.limits.map(limits).transpose()?,
    })
}

fn limits(wire: v1::HoldLimits) -> Result<HoldLimits, WireError> {
    Ok(HoldLimits {
        cpu_millis: check::counter("HoldLimits.cpu_millis", wire.cpu_millis)?,
        memory_bytes: check::counter("HoldLimits.memory_bytes", wire.memory_bytes)?,
        hugepages_2mi: check::counter("HoldLimits.hugepages_2mi", wire.hugepages_2mi)?,
        hugepages_1gi: check::counter("HoldLimits.hugepages_1gi", wire.hugepages_1gi)?,
        cpus: check::bytes("HoldLimits.cpus", wire.cpus, CPU_LIST_BYTES_MAX)?,
        mems: check::bytes("HoldLimits.mems", wire.mems, CPU_LIST_BYTES_MAX)?,
    })
}

fn telemetry(bytes: &[u8]) -> Result<Telemetry, WireError> {
    let wire: v1::TelemetrySection = check::decode("TelemetrySection", bytes, FRAME_BYTES_MAX)?;
    let (least, most) = TELEMETRY_INTERVAL_S;
    if wire.interval_s != 0 && !(least..=most).contains(&wire.interval_s) {
        return Err(WireError::OutOfRange { field: "TelemetrySection.interval_s", value: wire.interval_s.into() });
    }
    let mut resource_attributes = check::list(
        "TelemetrySection.resource_attributes",
        wire.resource_attributes,
        RESOURCE_ATTRIBUTES_MAX,
        |attribute| {
            Ok((check::text("Attribute.name", attribute.name)?, check::text("Attribute.value", attribute.value)?))
        },
    )?;
    resource_attributes.sort();
    Ok(Telemetry {
        endpoint: check::text("TelemetrySection.endpoint", wire.endpoint)?,
        interval_s: wire.interval_s,
        resource_attributes,
        headers_secret_ref: check::text("TelemetrySection.headers_secret_ref", wire.headers_secret_ref)?,
    })
}

/// The `devices` section's bytes, sorted by allocation and device so that equal sections are equal bytes.
/// Empty for no assignment.
pub fn encode_devices(assignments: &[DeviceAssignment]) -> Vec<u8> {
    let mut assignments: Vec<v1::DeviceAssignment> = assignments.iter().map(assignment_to_wire).collect();
    assignments.sort_by(|a, b| a.allocation_id.cmp(&b.allocation_id));
    v1::DevicesSection { assignments }.encode_to_vec()
}

fn assignment_to_wire(assignment: &DeviceAssignment) -> v1::DeviceAssignment {
    let mut devices: Vec<v1::Device> = assignment
        .devices
        .iter()
        .map(|device| v1::Device { device_class: device.device_class.clone(), id: device.id.clone() })
        .collect();
    devices.sort_by(|a, b| (&a.id, &a.device_class).cmp(&(&b.id, &b.device_class)));
    v1::DeviceAssignment {
        allocation_id: assignment.allocation.as_str().to_owned(),
        reservation_id: assignment.reservation.as_str().to_owned(),
        binding: match assignment.binding {
            Binding::Hold => v1::Binding::Hold as i32,
            Binding::Kubernetes => v1::Binding::Kubernetes as i32,
            Binding::Other(number) => number,
        },
        devices,
        env: assignment.env.clone(),
        limits: assignment.limits.as_ref().map(|limits| v1::HoldLimits {
            cpu_millis: limits.cpu_millis,
            memory_bytes: limits.memory_bytes,
            hugepages_2mi: limits.hugepages_2mi,
            hugepages_1gi: limits.hugepages_1gi,
            cpus: limits.cpus.clone(),
            mems: limits.mems.clone(),
        }),
    }
}

/// The `telemetry` section's bytes.
pub fn encode_telemetry(telemetry: &Telemetry) -> Vec<u8> {
    let mut resource_attributes: Vec<v1::Attribute> = telemetry
        .resource_attributes
        .iter()
        .map(|(name, value)| v1::Attribute { name: name.clone(), value: value.clone() })
        .collect();
    resource_attributes.sort_by(|a, b| (&a.name, &a.value).cmp(&(&b.name, &b.value)));
    v1::TelemetrySection {
        endpoint: telemetry.endpoint.clone(),
        interval_s: telemetry.interval_s,
        resource_attributes,
        headers_secret_ref: telemetry.headers_secret_ref.clone(),
    }
    .encode_to_vec()
}

/// A serialized `NodeSpec` of sections given as (number, message bytes), in the order of their numbers.
/// Empty sections are left out.
pub fn encode_spec<'a>(sections: impl IntoIterator<Item = (u32, &'a [u8])>) -> Vec<u8> {
    let by_number: BTreeMap<u32, &[u8]> = sections.into_iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
    let mut out = Vec::new();
    for (number, bytes) in by_number {
        encode_section(number, bytes, &mut out);
    }
    out
}

/// Appends one section, an empty one too: what a patch clears a section with.
pub fn encode_section(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    prost::encoding::encode_key(number, WireType::LengthDelimited, out);
    prost::encoding::encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// The body of the event that carries `report`; `Report.kind` is [`AllocationReport::kind`]. A long message is cut.
pub fn pack_allocation_report(report: &AllocationReport) -> Any {
    match report {
        AllocationReport::Bound { allocation, reservation, cdi_devices, generation } => {
            any::pack(&v1::AllocationBound {
                allocation_id: allocation.as_str().to_owned(),
                reservation_id: reservation.as_str().to_owned(),
                cdi_devices: cdi_devices.clone(),
                generation: *generation,
            })
        }
        AllocationReport::Released { allocation, reservation, generation } => any::pack(&v1::AllocationReleased {
            allocation_id: allocation.as_str().to_owned(),
            reservation_id: reservation.as_ref().map(|id| id.as_str().to_owned()).unwrap_or_default(),
            generation: *generation,
        }),
        AllocationReport::Failed { allocation, reservation, reason, message, generation } => {
            any::pack(&v1::AllocationFailed {
                allocation_id: allocation.as_str().to_owned(),
                reservation_id: reservation.as_str().to_owned(),
                reason: reason.clone(),
                message: check::cut(message.clone(), TEXT_BYTES_MAX),
                generation: *generation,
            })
        }
    }
}

/// The report in an event's body, `None` when the body is another message.
pub fn unpack_allocation_report(body: &Any) -> Result<Option<AllocationReport>, WireError> {
    check::at_most("Report.body", body.value.len(), EVENT_BYTES_MAX)?;
    let is = |type_url: String| body.type_url == type_url;
    if is(v1::AllocationBound::type_url()) {
        bound(any::unpack(body)?).map(Some)
    } else if is(v1::AllocationReleased::type_url()) {
        released(any::unpack(body)?).map(Some)
    } else if is(v1::AllocationFailed::type_url()) {
        failed(any::unpack(body)?).map(Some)
    } else {
        Ok(None)
    }
}

fn bound(wire: v1::AllocationBound) -> Result<AllocationReport, WireError> {
    let cdi_devices = check::list("AllocationBound.cdi_devices", wire.cdi_devices, ASSIGNMENT_DEVICES_MAX, |name| {
        check::bytes("AllocationBound.cdi_devices", name, 2 * DEVICE_TEXT_BYTES_MAX)
    })?;
    Ok(AllocationReport::Bound {
        allocation: check::id("AllocationBound.allocation_id", &wire.allocation_id, AllocationId::parse)?,
        reservation: check::id("AllocationBound.reservation_id", &wire.reservation_id, ReservationId::parse)?,
        cdi_devices,
        generation: check::counter("AllocationBound.generation", wire.generation)?,
    })
}

fn released(wire: v1::AllocationReleased) -> Result<AllocationReport, WireError> {
    let reservation = Some(wire.reservation_id).filter(|id| !id.is_empty());
    let parse = |id: String| check::id("AllocationReleased.reservation_id", &id, ReservationId::parse);
    Ok(AllocationReport::Released {
        allocation: check::id("AllocationReleased.allocation_id", &wire.allocation_id, AllocationId::parse)?,
        reservation: reservation.map(parse).transpose()?,
        generation: check::counter("AllocationReleased.generation", wire.generation)?,
    })
}

fn failed(wire: v1::AllocationFailed) -> Result<AllocationReport, WireError> {
    Ok(AllocationReport::Failed {
        allocation: check::id("AllocationFailed.allocation_id", &wire.allocation_id, AllocationId::parse)?,
        reservation: check::id("AllocationFailed.reservation_id", &wire.reservation_id, ReservationId::parse)?,
        reason: check::text("AllocationFailed.reason", wire.reason)?,
        message: check::text("AllocationFailed.message", wire.message)?,
        generation: check::counter("AllocationFailed.generation", wire.generation)?,
    })
}
