//! Values that lie in JSON columns.

use crate::placement::{
    Binding, Device, DeviceClass, DeviceRequest, HostRequest, LabelSelector, NumaNode, Request, Strategy,
};
use kernel::db::StoreError;
use serde_json::{Map, Value, json};

pub(super) fn request(request: &Request) -> String {
    let devices: Vec<Value> = request
        .devices
        .iter()
        .map(|device| json!({ "class": device.class.name(), "profile": device.profile, "count": device.count }))
        .collect();
    let labels: Map<String, Value> =
        request.labels.iter().map(|label| (label.key.clone(), json!(label.value))).collect();
    let HostRequest { vcpu, memory_gib, hugepages_1gi } = request.host;
    json!({
        "devices": devices,
        "host": { "vcpu": vcpu, "memoryGiB": memory_gib, "hugepages1Gi": hugepages_1gi },
        "labels": labels, "binding": request.binding.name(), "strategy": request.strategy.name(),
    })
    .to_string()
}

pub(super) fn read_request(text: &str) -> Result<Request, StoreError> {
    let value: Value = parse(text)?;
    let corrupt = || StoreError::Corrupt(format!("a reservation's request: {text}"));
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let device = |value: &Value| {
        Some(DeviceRequest {
            class: DeviceClass::parse(value["class"].as_str()?)?,
            profile: value["profile"].as_str().map(str::to_owned),
            count: number(&value["count"])?,
        })
    };
    let read = || {
        let labels = value["labels"].as_object()?.iter();
        let host = &value["host"];
        Some(Request {
            devices: value["devices"].as_array()?.iter().map(device).collect::<Option<_>>()?,
            host: HostRequest {
                vcpu: number(&host["vcpu"])?,
                memory_gib: number(&host["memoryGiB"])?,
                hugepages_1gi: number(&host["hugepages1Gi"])?,
            },
            labels: labels
                .map(|(key, value)| Some(LabelSelector { key: key.clone(), value: value.as_str()?.to_owned() }))
                .collect::<Option<_>>()?,
            binding: Binding::parse(value["binding"].as_str()?)?,
            strategy: Strategy::parse(value["strategy"].as_str()?)?,
        })
    };
    read().ok_or_else(corrupt)
}

pub(super) fn devices(devices: &[Device]) -> String {
    let devices: Vec<Value> =
        devices.iter().map(|device| json!([device.class.name(), device.id, device.gpu])).collect();
    Value::from(devices).to_string()
}

pub(super) fn read_devices(text: &str) -> Result<Vec<Device>, StoreError> {
    let value: Value = parse(text)?;
    let device = |value: &Value| {
        Some(Device {
            class: DeviceClass::parse(value[0].as_str()?)?,
            id: value[1].as_str()?.to_owned(),
            gpu: value[2].as_str()?.to_owned(),
        })
    };
    let devices = value.as_array().and_then(|list| list.iter().map(device).collect::<Option<_>>());
    devices.ok_or_else(|| StoreError::Corrupt(format!("an allocation's devices: {text}")))
}

pub(super) fn numa(nodes: &[NumaNode]) -> String {
    let nodes: Vec<Value> =
        nodes.iter().map(|node| json!([node.id, node.cpus, node.memory_bytes, node.hugepages_1gi])).collect();
    Value::from(nodes).to_string()
}

pub(super) fn read_numa(text: &str) -> Result<Vec<NumaNode>, StoreError> {
    let value: Value = parse(text)?;
    let node = |value: &Value| {
        Some(NumaNode {
            id: u32::try_from(value[0].as_u64()?).ok()?,
            cpus: value[1].as_str()?.to_owned(),
            memory_bytes: value[2].as_u64()?,
            hugepages_1gi: value[3].as_u64()?,
        })
    };
    let nodes = value.as_array().and_then(|list| list.iter().map(node).collect::<Option<_>>());
    nodes.ok_or_else(|| StoreError::Corrupt(format!("a node's NUMA nodes: {text}")))
}

pub(super) fn strings(list: &[String]) -> String {
    json!(list).to_string()
}

pub(super) fn read_strings(text: &str) -> Result<Vec<String>, StoreError> {
    parse(text)
}

pub(super) fn parse<T: for<'de> serde::Deserialize<'de>>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt(format!("a JSON column: {error}")))
}
