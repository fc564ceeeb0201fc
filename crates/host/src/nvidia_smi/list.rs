//! `nvidia-smi -L`: the one place that names MIG instances by UUID and profile.
//!
//! ```text
//! GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-…)
//!   MIG 1g.10gb     Device  0: (UUID: MIG-…)
//! ```
//!
//! Drivers before 470 write `MIG-GPU-<uuid>/<gi>/<ci>` for the UUID of an instance.

use crate::bounds::{GPUS_MAX, MIG_INSTANCES_MAX, clean};
use crate::gpu::is_gpu_uuid;
use proto::v1::Gpu;

/// One MIG device of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigDevice {
    pub gpu_uuid: String,
    /// Position on its GPU, `index` of the XML.
    pub index: u32,
    pub profile: String,
    pub uuid: String,
}

/// Reads the list. Lines of another shape are passed over.
pub fn parse(text: &str) -> Vec<MigDevice> {
    let mut devices = Vec::new();
    let mut gpu = None;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with("GPU ") {
            gpu = uuid_of(trimmed).filter(|uuid| is_gpu_uuid(uuid));
        } else if let (Some(rest), Some(gpu)) = (trimmed.strip_prefix("MIG "), &gpu) {
            devices.extend(device(rest, gpu));
        }
        if devices.len() >= GPUS_MAX * MIG_INSTANCES_MAX {
            break;
        }
    }
    devices
}

fn device(rest: &str, gpu_uuid: &str) -> Option<MigDevice> {
    let (profile, rest) = rest.split_once("Device")?;
    let (index, rest) = rest.split_once(':')?;
    let uuid = uuid_of(rest).filter(|uuid| uuid.starts_with("MIG-"))?;
    Some(MigDevice { gpu_uuid: gpu_uuid.to_owned(), index: index.trim().parse().ok()?, profile: clean(profile), uuid })
}

fn uuid_of(text: &str) -> Option<String> {
    let (_, rest) = text.rsplit_once("UUID: ")?;
    let (uuid, _) = rest.split_once(')')?;
    Some(clean(uuid))
}

/// Gives the instances of `gpus` the names of the list. Returns how many instances stay unnamed.
pub fn name_instances<'a>(gpus: impl Iterator<Item = &'a mut Gpu>, devices: &[MigDevice]) -> usize {
    let mut unnamed = 0;
    for gpu in gpus {
        for instance in &mut gpu.mig_instances {
            let listed = devices.iter().find(|device| device.gpu_uuid == gpu.uuid && device.index == instance.index);
            match listed {
                Some(device) => {
                    instance.uuid.clone_from(&device.uuid);
                    instance.profile.clone_from(&device.profile);
                }
                None => unnamed += 1,
            }
        }
    }
    unnamed
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proto::v1::MigInstance;

    const LIST: &str = "\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-11111111-0000-1111-2222-333333333333)
  MIG 1c.3g.20gb  Device  0: (UUID: MIG-aaaaaaaa-0000-1111-2222-333333333333)
  MIG 1g.5gb+me   Device  1: (UUID: MIG-bbbbbbbb-0000-1111-2222-333333333333)
GPU 1: Tesla T4 (UUID: GPU-22222222-0000-1111-2222-333333333333)
GPU 2: Broken (UUID: Unknown Error)
  MIG 1g.5gb      Device  0: (UUID: MIG-cccccccc-0000-1111-2222-333333333333)
GPU 3: NVIDIA A100 (UUID: GPU-33333333-0000-1111-2222-333333333333)
  MIG 2g.10gb Device 0: (UUID: MIG-GPU-33333333-0000-1111-2222-333333333333/5/0)
";

    #[test]
    fn instances_are_named_in_both_spellings_and_never_for_an_unknown_gpu() {
        let devices = parse(LIST);
        let short: Vec<(&str, u32, &str, &str)> =
            devices.iter().map(|d| (&d.gpu_uuid[4..8], d.index, d.profile.as_str(), &d.uuid[..12])).collect();
        assert_eq!(
            short,
            [
                ("1111", 0, "1c.3g.20gb", "MIG-aaaaaaaa"),
                ("1111", 1, "1g.5gb+me", "MIG-bbbbbbbb"),
                ("3333", 0, "2g.10gb", "MIG-GPU-3333"),
            ]
        );
    }

    #[test]
    fn an_instance_the_list_lacks_stays_unnamed() {
        let instance = |index| MigInstance { index, ..MigInstance::default() };
        let uuid = "GPU-11111111-0000-1111-2222-333333333333".to_owned();
        let mut gpu = Gpu { uuid, mig_instances: vec![instance(0), instance(7)], ..Gpu::default() };
        assert_eq!(name_instances([&mut gpu].into_iter(), &parse(LIST)), 1);
        assert_eq!(gpu.mig_instances[0].profile, "1c.3g.20gb");
        assert_eq!(gpu.mig_instances[1].uuid, "");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(GPU |MIG |Device|:|\\(UUID: |\\)|\n|[a-zé0-9]| ){0,40}") {
            drop(parse(&text));
        }
    }
}
