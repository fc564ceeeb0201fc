//! What a host says it can do with holds (`delivery.md`, "Capabilities").

/// Whether limits of a hold are enforced.
const LIMITS: &str = "devices.limits";
/// Whether holds of pods are known.
const KUBERNETES: &str = "binding.kubernetes";

/// The capabilities for `Hello`. Without slices no limits are advertised (F-Q17).
pub fn capabilities(has_gpus: bool, has_slices: bool) -> Vec<&'static str> {
    let mut capabilities = Vec::new();
    if has_gpus {
        capabilities.push(KUBERNETES);
        if has_slices {
            capabilities.push(LIMITS);
        }
    }
    capabilities
}
