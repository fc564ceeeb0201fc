//! The live holds of this daemon, read back from its CDI specs: `bcd-<allocation>.json`, each device
//! with the annotation `bcd.dev/device-id` (`delivery.md`, "Device assignments").
//!
//! A spec that cannot be read is an error, never "no hold": whoever asks is about to touch a GPU.

use super::is_gpu_uuid;
use crate::bounds::{CDI_FILE_BYTES_MAX, CDI_FILES_MAX, clean};
use crate::tree::{Tree, reason};
use serde_json::Value;
use std::fmt;
use std::io;

/// Where CDI specs are, below the root.
pub const CDI_DIRECTORY: &str = "/etc/cdi";
/// The kind of the specs that hold GPUs.
pub const CDI_KIND: &str = "bcd.dev/gpu";
/// The annotation with a device's id, since a CDI name cannot contain `/`.
pub const DEVICE_ID_ANNOTATION: &str = "bcd.dev/device-id";

/// What of a GPU a hold has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuPart {
    Whole,
    Mig { gpu_instance: u32, compute_instance: u32 },
    Slot(u32),
}

/// One device of one hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuHold {
    /// The allocation that the spec's name gives.
    pub allocation: String,
    pub gpu_uuid: String,
    pub part: GpuPart,
}

impl GpuHold {
    /// Reads a device id: `<UUID>`, `<UUID>/gi<n>/ci<n>` or `<UUID>/s<n>`.
    pub fn parse(allocation: &str, device_id: &str) -> Option<GpuHold> {
        let mut parts = device_id.split('/');
        let gpu_uuid = parts.next().filter(|uuid| is_gpu_uuid(uuid))?.to_owned();
        let number = |text: &str, prefix: &str| text.strip_prefix(prefix)?.parse::<u32>().ok();
        let part = match (parts.next(), parts.next(), parts.next()) {
            (None, _, _) => GpuPart::Whole,
            (Some(slot), None, _) => GpuPart::Slot(number(slot, "s")?),
            (Some(gi), Some(ci), None) => {
                GpuPart::Mig { gpu_instance: number(gi, "gi")?, compute_instance: number(ci, "ci")? }
            }
            _ => return None,
        };
        Some(GpuHold { allocation: allocation.to_owned(), gpu_uuid, part })
    }

    pub fn device_id(&self) -> String {
        match self.part {
            GpuPart::Whole => self.gpu_uuid.clone(),
            GpuPart::Mig { gpu_instance, compute_instance } => {
                format!("{}/gi{gpu_instance}/ci{compute_instance}", self.gpu_uuid)
            }
            GpuPart::Slot(slot) => format!("{}/s{slot}", self.gpu_uuid),
        }
    }
}

impl fmt::Display for GpuHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "allocation {} holds {}", self.allocation, self.device_id())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum HoldsError {
    #[error("cannot read {path}: {}", reason(source))]
    Read { path: String, source: io::Error },
    #[error("{path} is not a CDI spec: {what}")]
    Spec { path: String, what: String },
    #[error("{path} has more than {CDI_FILES_MAX} specs of this daemon")]
    TooMany { path: String },
}

/// Every device of every live hold, in order of file and device.
pub fn read_holds(tree: &Tree, directory: &str) -> Result<Vec<GpuHold>, HoldsError> {
    let names = match tree.try_names(directory) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(HoldsError::Read { path: directory.to_owned(), source }),
    };
    let mut specs = Vec::new();
    for name in &names {
        if let Some(allocation) = name.strip_prefix("bcd-").and_then(|rest| rest.strip_suffix(".json")) {
            specs.push((format!("{directory}/{name}"), allocation));
        }
    }
    if specs.len() > CDI_FILES_MAX || names.len() >= crate::bounds::DIRECTORY_ENTRIES_MAX {
        return Err(HoldsError::TooMany { path: directory.to_owned() });
    }
    let mut holds = Vec::new();
    for (path, allocation) in specs {
        match tree.bytes(&path, CDI_FILE_BYTES_MAX as usize) {
            Ok(bytes) => read_spec(&path, &clean(allocation), &bytes, &mut holds)?,
            // Released between the listing and the reading.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(HoldsError::Read { path, source }),
        }
    }
    Ok(holds)
}

fn read_spec(path: &str, allocation: &str, bytes: &[u8], holds: &mut Vec<GpuHold>) -> Result<(), HoldsError> {
    let wrong = |what: &str| HoldsError::Spec { path: path.to_owned(), what: what.to_owned() };
    let spec: Value = serde_json::from_slice(bytes).map_err(|error| wrong(&error.to_string()))?;
    let kind = spec.get("kind").and_then(Value::as_str).ok_or_else(|| wrong("it has no kind"))?;
    if kind != CDI_KIND {
        return Ok(());
    }
    let devices = spec.get("devices").and_then(Value::as_array).ok_or_else(|| wrong("it has no devices"))?;
    for device in devices {
        let id = device.get("annotations").and_then(|annotations| annotations.get(DEVICE_ID_ANNOTATION));
        let id = id.and_then(Value::as_str).ok_or_else(|| wrong("a device has no id"))?;
        let hold = GpuHold::parse(allocation, id).ok_or_else(|| wrong(&format!("{:?} names no device", clean(id))))?;
        holds.push(hold);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GPU: &str = "GPU-11111111-0000-1111-2222-333333333333";

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
        let directory = tempfile::tempdir().expect("tempdir");
        let cdi = directory.path().join("etc/cdi");
        std::fs::create_dir_all(&cdi).expect("etc/cdi");
        for (name, text) in files {
            stdx::durable::write_file(&cdi.join(name), text.as_bytes(), 0o644).expect("write");
        }
        let tree = Tree::new(directory.path());
        (directory, tree)
    }

    fn spec(ids: &[String]) -> String {
        let devices: Vec<Value> = ids
            .iter()
            .map(|id| {
                let name = id.replace('/', "_");
                serde_json::json!({"name": name, "annotations": {(DEVICE_ID_ANNOTATION): id}, "containerEdits": {}})
            })
            .collect();
        serde_json::json!({"cdiVersion": "0.6.0", "kind": CDI_KIND, "devices": devices}).to_string()
    }

    #[test]
    fn holds_of_whole_gpus_instances_and_slots_are_read_and_other_specs_passed_over() {
        let one = spec(&[GPU.to_owned()]);
        let two = spec(&[format!("{GPU}/gi3/ci0"), format!("{GPU}/s2")]);
        let (_keep, tree) = tree(&[
            ("bcd-alloc_a.json", &one),
            ("bcd-alloc_b.json", &two),
            ("bcd-alloc_c.json", r#"{"kind": "bcd.dev/nic", "devices": [{"name": "x"}]}"#),
            ("nvidia.yaml", "not: json"),
            ("other.json", "{"),
        ]);
        let holds = read_holds(&tree, CDI_DIRECTORY).expect("read");
        let lines: Vec<String> = holds.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                format!("allocation alloc_a holds {GPU}"),
                format!("allocation alloc_b holds {GPU}/gi3/ci0"),
                format!("allocation alloc_b holds {GPU}/s2"),
            ]
        );
        assert_eq!(holds[1].part, GpuPart::Mig { gpu_instance: 3, compute_instance: 0 });
    }

    #[test]
    fn a_host_without_cdi_has_no_holds() {
        let directory = tempfile::tempdir().expect("tempdir");
        assert_eq!(read_holds(&Tree::new(directory.path()), CDI_DIRECTORY).expect("read"), []);
    }

    #[test]
    fn a_spec_of_ours_that_cannot_be_read_is_an_error_and_never_no_hold() {
        for text in [
            "",
            "{",
            "{}",
            r#"{"kind": "bcd.dev/gpu"}"#,
            r#"{"kind": "bcd.dev/gpu", "devices": [{"name": "GPU"}]}"#,
            r#"{"kind": "bcd.dev/gpu", "devices": [{"annotations": {"bcd.dev/device-id": "GPU-1"}}]}"#,
        ] {
            let (_keep, tree) = tree(&[("bcd-a.json", text)]);
            let error = read_holds(&tree, CDI_DIRECTORY).expect_err(text);
            assert!(error.to_string().contains("/etc/cdi/bcd-a.json"), "{error}");
        }
    }

    #[test]
    fn a_spec_that_cannot_even_be_opened_is_an_error_too() {
        let (keep, tree) = tree(&[("bcd-a.json", &spec(&[GPU.to_owned()]))]);
        std::fs::create_dir(keep.path().join("etc/cdi/bcd-b.json")).expect("a directory in a file's place");
        let error = read_holds(&tree, CDI_DIRECTORY).expect_err("unreadable");
        assert_eq!(error.to_string(), "cannot read /etc/cdi/bcd-b.json: not a regular file");
    }

    #[test]
    fn device_ids_are_read_exactly() {
        for id in [GPU.to_owned(), format!("{GPU}/gi13/ci2"), format!("{GPU}/s0")] {
            assert_eq!(GpuHold::parse("a", &id).map(|hold| hold.device_id()), Some(id));
        }
        for bad in [format!("{GPU}/"), format!("{GPU}/x1"), format!("{GPU}/gi1"), format!("{GPU}/gi1/ci1/x")] {
            assert_eq!(GpuHold::parse("a", &bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_spec_panics(text in "\\PC{0,200}") {
            drop(read_spec("x", "a", text.as_bytes(), &mut Vec::new()));
        }
    }
}
