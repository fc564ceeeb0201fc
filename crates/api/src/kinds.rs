//! The requests and results of command kinds as JSON: what `commands.run` takes as `payload`, and what
//! a command shows as `result`. Names are those of the messages in camelCase; an unknown one is
//! refused.
//!
//! A kind whose node side comes with a later module is registered and takes no payload yet: the node
//! answers it with `UNSUPPORTED`.

use data_encoding::BASE64;
use model::frame::Any;
use model::{Kind, Role};
use proto::v1;
use serde::Deserialize;
use serde_json::{Value, json};

/// How far back logs may be collected, seconds: 30 days.
const LOGS_SINCE_S_MAX: u32 = 30 * 24 * 3600;
/// GPUs one reset may name.
const RESET_GPUS_MAX: usize = 64;
/// Text for people in a payload, bytes.
const REASON_BYTES_MAX: usize = 1024;

/// Why a payload is not the kind's request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct PayloadError(String);

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Empty {}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GpuReset {
    gpu_uuids: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NodeReboot {
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LogsCollect {
    #[serde(default)]
    since_s: u32,
}

/// The kind's request message, packed.
pub(crate) fn payload(kind: Kind, payload: Option<Value>) -> Result<Any, PayloadError> {
    let payload = payload.unwrap_or_else(|| json!({}));
    match kind {
        Kind::InventoryRefresh => {
            parse::<Empty>(kind, payload)?;
            Ok(proto::pack(&v1::InventoryRefreshRequest {}))
        }
        Kind::DiagNvml => {
            parse::<Empty>(kind, payload)?;
            Ok(proto::pack(&v1::DiagNvmlRequest {}))
        }
        Kind::GpuReset => {
            let GpuReset { gpu_uuids } = parse(kind, payload)?;
            if !(1..=RESET_GPUS_MAX).contains(&gpu_uuids.len()) {
                return Err(PayloadError(format!(
                    "gpuUuids names {} GPUs; 1 to {RESET_GPUS_MAX} are possible",
                    gpu_uuids.len()
                )));
            }
            Ok(proto::pack(&v1::GpuResetRequest { gpu_uuids }))
        }
        Kind::NodeReboot => {
            let NodeReboot { reason } = parse(kind, payload)?;
            if reason.len() > REASON_BYTES_MAX {
                return Err(PayloadError(format!("reason is longer than {REASON_BYTES_MAX} bytes")));
            }
            Ok(proto::pack(&v1::NodeRebootRequest { reason }))
        }
        Kind::LogsCollect => {
            let LogsCollect { since_s } = parse(kind, payload)?;
            if since_s > LOGS_SINCE_S_MAX {
                return Err(PayloadError(format!("sinceS is at most {LOGS_SINCE_S_MAX}, 30 days")));
            }
            Ok(proto::pack(&v1::LogsCollectRequest { since_s }))
        }
        _ => {
            parse::<Empty>(kind, payload)?;
            Ok(Any::default())
        }
    }
}

fn parse<T: for<'a> Deserialize<'a>>(kind: Kind, payload: Value) -> Result<T, PayloadError> {
    if !payload.is_object() {
        return Err(PayloadError(format!("the payload of {kind} must be a JSON object")));
    }
    serde_json::from_value(payload)
        .map_err(|error| PayloadError(format!("the payload is no request of {kind}: {error}")))
}

/// The names of the kinds an agent of `role` runs, sorted.
pub(crate) fn names(role: Role) -> Vec<&'static str> {
    let mut names: Vec<&str> = Kind::allowed_for(role).collect();
    names.sort_unstable();
    names
}

/// A result message as JSON. One this build does not know, or that does not decode, is shown as it came.
pub(crate) fn result(value: &Any) -> Value {
    let decoded = match value.type_url.rsplit('/').next().unwrap_or_default() {
        "bettercompute.node.v1.InventoryRefreshResult" => proto::unpack(value).map(inventory_refresh),
        "bettercompute.node.v1.DiagNvmlResult" => proto::unpack(value).map(diag_nvml),
        "bettercompute.node.v1.GpuResetResult" => proto::unpack(value).map(gpu_reset),
        "bettercompute.node.v1.NodeRebootResult" => proto::unpack(value).map(node_reboot),
        "bettercompute.node.v1.LogsCollectResult" => proto::unpack(value).map(logs_collect),
        _ => Ok(raw(value)),
    };
    decoded.unwrap_or_else(|_| raw(value))
}

fn raw(value: &Any) -> Value {
    json!({"typeUrl": value.type_url, "valueBase64": BASE64.encode(&value.value)})
}

fn inventory_refresh(result: v1::InventoryRefreshResult) -> Value {
    json!({"digest": result.digest, "changed": result.changed, "problems": result.problems})
}

fn diag_nvml(result: v1::DiagNvmlResult) -> Value {
    let gpus = result.gpus.into_iter().map(|gpu| {
        let mut value = json!({"uuid": gpu.uuid, "name": gpu.name, "healthy": gpu.healthy, "problems": gpu.problems});
        put(&mut value, "temperatureC", gpu.temperature_c);
        put(&mut value, "eccUncorrectableVolatile", gpu.ecc_uncorrectable_volatile);
        put(&mut value, "remapPending", gpu.remap_pending);
        put(&mut value, "remapFailed", gpu.remap_failed);
        put(&mut value, "powerMw", gpu.power_mw);
        value
    });
    json!({
        "driverVersion": result.driver_version, "cudaVersion": result.cuda_version, "gpus": gpus.collect::<Vec<_>>(),
    })
}

/// A reading that the host did not give is absent, never zero.
fn put<T: serde::Serialize>(object: &mut Value, name: &str, reading: Option<T>) {
    if let Some(reading) = reading {
        object[name] = json!(reading);
    }
}

fn gpu_reset(result: v1::GpuResetResult) -> Value {
    let gpus = result
        .gpus
        .into_iter()
        .map(|gpu| json!({"uuid": gpu.uuid, "reset": gpu.reset, "healthy": gpu.healthy, "message": gpu.message}));
    json!({"gpus": gpus.collect::<Vec<_>>()})
}

fn node_reboot(result: v1::NodeRebootResult) -> Value {
    json!({"previousBootId": result.previous_boot_id})
}

fn logs_collect(result: v1::LogsCollectResult) -> Value {
    json!({"blobSha256": result.blob_sha256, "blobBytes": result.blob_bytes, "problems": result.problems})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_becomes_the_kinds_message_and_an_unknown_key_is_refused() {
        let any = payload(Kind::GpuReset, Some(json!({"gpuUuids": ["GPU-1"]}))).expect("accepted");
        assert_eq!(proto::unpack::<v1::GpuResetRequest>(&any).expect("message").gpu_uuids, ["GPU-1"]);
        let any = payload(Kind::LogsCollect, Some(json!({"sinceS": 60}))).expect("accepted");
        assert_eq!(proto::unpack::<v1::LogsCollectRequest>(&any).expect("message").since_s, 60);
        for (kind, bad) in [
            (Kind::GpuReset, json!({"gpuUuids": ["GPU-1"], "force": true})),
            (Kind::GpuReset, json!({"gpuUuids": []})),
            (Kind::GpuReset, json!({})),
            (Kind::DiagNvml, json!({"level": 1})),
            (Kind::NodeReboot, json!("now")),
            (Kind::DiagNvml, json!([])),
            (Kind::NodeReboot, json!({"reason": "x".repeat(2000)})),
            (Kind::LogsCollect, json!({"sinceS": 2_592_001})),
            (Kind::LogsCollect, json!({"sinceS": -1})),
            (Kind::DriverInvoke, json!({"x": 1})),
        ] {
            assert!(payload(kind, Some(bad.clone())).is_err(), "{kind} {bad}");
        }
        assert!(payload(Kind::NodeReboot, None).is_ok());
    }

    #[test]
    fn a_reading_that_is_missing_is_absent_and_zero_is_zero() {
        let gpu = v1::GpuDiagnosis { uuid: "GPU-1".into(), power_mw: Some(0), ..Default::default() };
        let shown = result(&proto::pack(&v1::DiagNvmlResult { gpus: vec![gpu], ..Default::default() }));
        assert_eq!(shown["gpus"][0]["powerMw"], json!(0));
        assert!(shown["gpus"][0].get("temperatureC").is_none());
    }

    #[test]
    fn a_result_that_is_not_known_is_shown_as_it_came() {
        let any = Any { type_url: "type.googleapis.com/x.Y".into(), value: vec![1, 2] };
        assert_eq!(result(&any), json!({"typeUrl": "type.googleapis.com/x.Y", "valueBase64": "AQI="}));
        let broken = Any { type_url: proto::pack(&v1::DiagNvmlResult::default()).type_url, value: vec![0xff] };
        assert_eq!(result(&broken)["valueBase64"], json!("/w=="));
    }

    #[test]
    fn every_kind_of_a_node_is_listed() {
        let names = names(Role::Node);
        assert!(names.contains(&"gpu.reset") && names.contains(&"logs.collect") && !names.contains(&"bmc.power"));
    }
}
