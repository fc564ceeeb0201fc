//! A hold as a CDI spec, version 0.6 (github.com/cncf-tags/container-device-interface, SPEC.md), and back.
//!
//! The real atom id rides in a device annotation, since a CDI name cannot contain `/`. Each device brings its
//! GPU's device node, because the reference implementation refuses a spec with a device without edits; it brings
//! no environment of its own.

use crate::gpu::holds::DEVICE_ID_ANNOTATION;
use model::spec::{Atom, HoldLimits};
use model::{AllocationId, ReservationId};
use node_core::converge::{CDI_KIND, HeldDevice, Hold};
use serde_json::{Map, Value, json};

const CDI_VERSION: &str = "0.6.0";
/// SHA-256 of the spec without this annotation: a change by hand shows without knowing what the spec was.
const DIGEST: &str = "bcd.dev/digest";
const RESERVATION: &str = "bcd.dev/reservation-id";
const BINDING: &str = "bcd.dev/binding";
const BINDING_KUBERNETES: &str = "kubernetes";
const CGROUP_PARENT: &str = "bcd.dev/cgroup-parent";
const LIMITS: &str = "bcd.dev/limits";
/// The node of GPU `<n>`, and the one that every GPU shares.
const NODE_PREFIX: &str = "/dev/nvidia";
const CONTROL_NODE: &str = "/dev/nvidiactl";

/// The file's bytes. Equal holds have equal bytes.
pub fn render_cdi(hold: &Hold) -> Vec<u8> {
    let mut annotations = Map::new();
    let mut annotate = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            annotations.insert(name.to_owned(), value.into());
        }
    };
    annotate(BINDING, hold.kubernetes.then(|| BINDING_KUBERNETES.to_owned()));
    annotate(CGROUP_PARENT, hold.cgroup_parent.clone());
    annotate(LIMITS, hold.limits.as_ref().map(limits_text));
    annotate(RESERVATION, hold.reservation.as_ref().map(|id| id.as_str().to_owned()));
    let devices: Vec<Value> = hold.devices.iter().map(device).collect();
    let mut spec = json!({
        "cdiVersion": CDI_VERSION,
        "kind": CDI_KIND,
        "annotations": annotations,
        "devices": devices,
        "containerEdits": { "env": hold.env },
    });
    let digest = stdx::hex::sha256_hex(spec.to_string().as_bytes());
    spec["annotations"][DIGEST] = digest.into();
    format!("{spec:#}\n").into_bytes()
}

fn device(device: &HeldDevice) -> Value {
    let node = device.minor.map_or_else(|| CONTROL_NODE.to_owned(), |minor| format!("{NODE_PREFIX}{minor}"));
    json!({
        "name": device.atom.cdi_name(),
        "annotations": { DEVICE_ID_ANNOTATION: device.atom.to_string() },
        "containerEdits": { "deviceNodes": [{ "path": node }] },
    })
}

/// What a spec holds. `Ok(None)` for a spec of another kind, which is not ours; `Err` says why it is no hold.
/// What is there besides is not looked at: rendering the result again shows whether there is anything.
pub fn parse_cdi(allocation: &AllocationId, bytes: &[u8]) -> Result<Option<Hold>, String> {
    let spec: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let kind = spec.get("kind").and_then(Value::as_str).ok_or("it has no kind")?;
    if kind != CDI_KIND {
        return Ok(None);
    }
    let annotation = |name: &str| spec.get("annotations")?.get(name)?.as_str();
    let reservation = annotation(RESERVATION).and_then(|id| ReservationId::parse(id).ok());
    let devices = spec.get("devices").and_then(Value::as_array).ok_or("it has no devices")?;
    let env = spec.get("containerEdits").and_then(|edits| edits.get("env")).and_then(Value::as_array);
    let env = env.into_iter().flatten().filter_map(Value::as_str);
    Ok(Some(Hold {
        allocation: allocation.clone(),
        reservation,
        kubernetes: annotation(BINDING) == Some(BINDING_KUBERNETES),
        devices: devices.iter().map(parse_device).collect::<Result<_, _>>()?,
        env: env.map(str::to_owned).collect(),
        limits: annotation(LIMITS).and_then(parse_limits),
        cgroup_parent: annotation(CGROUP_PARENT).map(str::to_owned),
    }))
}

fn parse_device(device: &Value) -> Result<HeldDevice, String> {
    let id = device.get("annotations").and_then(|annotations| annotations.get(DEVICE_ID_ANNOTATION));
    let id = id.and_then(Value::as_str).ok_or("a device has no id")?;
    let atom = Atom::parse(id).ok_or_else(|| format!("{:?} names no device", crate::bounds::clean(id)))?;
    let node = device.pointer("/containerEdits/deviceNodes/0/path").and_then(Value::as_str);
    let minor = node.and_then(|path| path.strip_prefix(NODE_PREFIX)?.parse().ok());
    Ok(HeldDevice { atom, minor })
}

fn limits_text(limits: &HoldLimits) -> String {
    let HoldLimits { cpu_millis, memory_bytes, hugepages_2mi, hugepages_1gi, cpus, mems } = limits;
    format!("{cpu_millis};{memory_bytes};{hugepages_2mi};{hugepages_1gi};{cpus};{mems}")
}

fn parse_limits(text: &str) -> Option<HoldLimits> {
    let parts: Vec<&str> = text.split(';').collect();
    let [cpu_millis, memory_bytes, hugepages_2mi, hugepages_1gi, cpus, mems] = parts.as_slice() else { return None };
    Some(HoldLimits {
        cpu_millis: cpu_millis.parse().ok()?,
        memory_bytes: memory_bytes.parse().ok()?,
        hugepages_2mi: hugepages_2mi.parse().ok()?,
        hugepages_1gi: hugepages_1gi.parse().ok()?,
        cpus: (*cpus).to_owned(),
        mems: (*mems).to_owned(),
    })
}
