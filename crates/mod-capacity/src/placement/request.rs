//! What a reservation asks for.

pub use model::spec::DeviceClass;
use std::collections::BTreeSet;

/// Devices of one reservation: as many as an assignment carries.
pub const DEVICES_MAX: u32 = model::spec::ASSIGNMENT_DEVICES_MAX as u32;
/// Label selectors of one reservation.
pub const SELECTORS_MAX: usize = 32;
/// What a daemon must advertise to be given booked host resources.
pub const CAPABILITY_LIMITS: &str = "devices.limits";
/// What a daemon must advertise to be given a Kubernetes binding.
pub const CAPABILITY_KUBERNETES: &str = "binding.kubernetes";
/// Largest amount of one host resource, so that sums of bytes stay far from overflow.
const HOST_AMOUNT_MAX: u32 = 1 << 20;
const TEXT_BYTES_MAX: usize = 256;

/// One atom of a placement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// `<GPU UUID>`, `<GPU UUID>/gi<n>/ci<n>` or `<GPU UUID>/s<n>`.
    pub id: String,
    pub class: DeviceClass,
    /// The GPU it is, or is a part of.
    pub gpu: String,
}

/// So many devices of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRequest {
    pub class: DeviceClass,
    /// `1g.10gb`, for `gpu.mig` only.
    pub profile: Option<String>,
    pub count: u32,
}

/// Host resources booked beside the devices; zero for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostRequest {
    pub vcpu: u32,
    pub memory_gib: u32,
    pub hugepages_1gi: u32,
}

impl HostRequest {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.memory_gib) << 30
    }
}

/// A label a node must carry; the value `*` matches any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelSelector {
    pub key: String,
    pub value: String,
}

/// How devices are bound on the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    #[default]
    Hold,
    Kubernetes,
}

impl Binding {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Kubernetes => "kubernetes",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Hold, Self::Kubernetes].into_iter().find(|binding| binding.name() == text)
    }
}

/// Which of several suitable nodes is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The fullest, so that large requests still find whole nodes.
    #[default]
    Pack,
    /// The emptiest.
    Spread,
}

impl Strategy {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pack => "pack",
            Self::Spread => "spread",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pack, Self::Spread].into_iter().find(|strategy| strategy.name() == text)
    }
}

/// A whole request. All of it is on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub devices: Vec<DeviceRequest>,
    pub host: HostRequest,
    pub labels: Vec<LabelSelector>,
    pub binding: Binding,
    pub strategy: Strategy,
}

/// Why a request makes no sense on any fleet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("a reservation asks for 1 to {DEVICES_MAX} devices; this one asks for {0}")]
    DeviceCount(u64),
    #[error("{0} is asked for twice: add the counts up")]
    Twice(String),
    #[error("gpu.mig needs a profile such as 1g.10gb")]
    NoProfile,
    #[error("a profile goes with gpu.mig only")]
    Profile,
    #[error("at most {SELECTORS_MAX} labels, each key once, 1 to {TEXT_BYTES_MAX} bytes: {0}")]
    Label(String),
    #[error("at most {HOST_AMOUNT_MAX} of a host resource")]
    HostAmount,
}

impl Request {
    /// `count` whole GPUs.
    pub fn gpus(count: u32) -> Self {
        let device = DeviceRequest { class: DeviceClass::Gpu, profile: None, count };
        Self { devices: vec![device], ..Self::default() }
    }

    /// Checks what came from outside.
    pub fn check(&self) -> Result<(), RequestError> {
        let total: u64 = self.devices.iter().map(|device| u64::from(device.count)).sum();
        if total == 0 || total > u64::from(DEVICES_MAX) || self.devices.iter().any(|device| device.count == 0) {
            return Err(RequestError::DeviceCount(total));
        }
        let mut kinds = BTreeSet::new();
        for device in &self.devices {
            match (device.class, device.profile.as_deref()) {
                (DeviceClass::Mig, None | Some("")) => return Err(RequestError::NoProfile),
                (DeviceClass::Mig, Some(profile)) if profile.len() > TEXT_BYTES_MAX => {
                    return Err(RequestError::NoProfile);
                }
                (DeviceClass::Gpu | DeviceClass::Slot, Some(_)) => return Err(RequestError::Profile),
                _ => {}
            }
            if !kinds.insert((device.class, device.profile.as_deref())) {
                return Err(RequestError::Twice(device.describe()));
            }
        }
        let host = [self.host.vcpu, self.host.memory_gib, self.host.hugepages_1gi];
        if host.iter().any(|amount| *amount > HOST_AMOUNT_MAX) {
            return Err(RequestError::HostAmount);
        }
        self.check_labels()
    }

    fn check_labels(&self) -> Result<(), RequestError> {
        if self.labels.len() > SELECTORS_MAX {
            return Err(RequestError::Label(format!("{} were given", self.labels.len())));
        }
        let mut keys = BTreeSet::new();
        for LabelSelector { key, value } in &self.labels {
            let sizes = !key.is_empty() && key.len() <= TEXT_BYTES_MAX && value.len() <= TEXT_BYTES_MAX;
            if !sizes || !keys.insert(key) {
                return Err(RequestError::Label(key.chars().take(TEXT_BYTES_MAX).collect()));
            }
        }
        Ok(())
    }

    /// How many devices of `class`, over all profiles.
    pub fn count(&self, class: DeviceClass) -> u32 {
        self.devices.iter().filter(|device| device.class == class).map(|device| device.count).sum()
    }

    /// MIG profiles and how many of each.
    pub fn profiles(&self) -> impl Iterator<Item = (&str, u32)> {
        self.devices
            .iter()
            .filter(|device| device.class == DeviceClass::Mig)
            .map(|device| (device.profile.as_deref().unwrap_or_default(), device.count))
    }
}

impl DeviceRequest {
    /// `gpu`, `gpu.mig 1g.10gb`.
    pub(super) fn describe(&self) -> String {
        match &self.profile {
            Some(profile) => format!("{} {profile}", self.class),
            None => self.class.name().to_owned(),
        }
    }
}
