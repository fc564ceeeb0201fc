//! Atoms: the smallest things that are held. An atom id says which GPU and what of it.

use crate::command::named;
use std::fmt;

named! {
    /// What kind of atom an assignment asks for.
    DeviceClass {
        Gpu = "gpu",
        Mig = "gpu.mig",
        Slot = "gpu.slot",
    }
}

/// What of a GPU an atom is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AtomPart {
    Whole,
    Mig { gpu_instance: u32, compute_instance: u32 },
    Slot(u32),
}

/// `<GPU UUID>`, `<GPU UUID>/gi<n>/ci<n>` or `<GPU UUID>/s<n>`. One spelling each: what parses prints the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Atom {
    /// `GPU-` and a UUID.
    pub gpu: String,
    pub part: AtomPart,
}

impl Atom {
    pub fn parse(id: &str) -> Option<Self> {
        let mut parts = id.split('/');
        let gpu = parts.next().filter(|uuid| is_gpu_uuid(uuid))?.to_owned();
        let part = match (parts.next(), parts.next(), parts.next()) {
            (None, _, _) => AtomPart::Whole,
            (Some(slot), None, _) => AtomPart::Slot(number(slot, "s")?),
            (Some(gi), Some(ci), None) => {
                AtomPart::Mig { gpu_instance: number(gi, "gi")?, compute_instance: number(ci, "ci")? }
            }
            _ => return None,
        };
        Some(Self { gpu, part })
    }

    pub const fn class(&self) -> DeviceClass {
        match self.part {
            AtomPart::Whole => DeviceClass::Gpu,
            AtomPart::Mig { .. } => DeviceClass::Mig,
            AtomPart::Slot(_) => DeviceClass::Slot,
        }
    }

    /// Whether two holders cannot have these at once: the same atom, or a whole GPU and a part of it.
    pub fn conflicts(&self, other: &Self) -> bool {
        let whole = self.part == AtomPart::Whole || other.part == AtomPart::Whole;
        self.gpu == other.gpu && (whole || self.part == other.part)
    }

    /// The name of its CDI device, which cannot contain `/`.
    pub fn cdi_name(&self) -> String {
        self.to_string().replace('/', "_")
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.gpu)?;
        match self.part {
            AtomPart::Whole => Ok(()),
            AtomPart::Mig { gpu_instance, compute_instance } => write!(f, "/gi{gpu_instance}/ci{compute_instance}"),
            AtomPart::Slot(slot) => write!(f, "/s{slot}"),
        }
    }
}

/// A number without sign or leading zeros, so that an atom has one spelling.
fn number(text: &str, prefix: &str) -> Option<u32> {
    let digits = text.strip_prefix(prefix)?;
    let number: u32 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// `GPU-` and 8-4-4-4-12 hexadecimal digits, as the driver writes them.
fn is_gpu_uuid(text: &str) -> bool {
    let Some(uuid) = text.strip_prefix("GPU-") else { return false };
    let mut groups = uuid.split('-');
    let lengths_hold = [8, 4, 4, 4, 12].into_iter().all(|length| {
        groups.next().is_some_and(|group| group.len() == length && group.bytes().all(|byte| byte.is_ascii_hexdigit()))
    });
    lengths_hold && groups.next().is_none()
}
