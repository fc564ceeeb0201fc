//! Holds on a host that is a directory: the files themselves, what is read back, and crashes between any two.

mod files;
mod histories;
mod passes;
mod rig;
mod systemd;

use model::AllocationId;
use model::spec::{Atom, Binding, Device, DeviceAssignment};
use proto::v1::{Gpu, GpuDriver, Inventory, MigInstance};

pub(super) fn gpu(number: u32) -> String {
    format!("GPU-{number:08x}-0000-1111-2222-333333333333")
}

pub(super) fn id(name: &str) -> AllocationId {
    AllocationId::parse(name).expect("an id")
}

pub(super) fn assign(name: &str, atoms: &[&str]) -> DeviceAssignment {
    let device = |atom: &&str| Device {
        device_class: Atom::parse(atom).expect("an atom").class().name().to_owned(),
        id: (*atom).to_owned(),
    };
    DeviceAssignment {
        allocation: id(name),
        reservation: model::ReservationId::new(format!("res-of-{name}")),
        binding: Binding::Hold,
        devices: atoms.iter().map(device).collect(),
        env: Vec::new(),
        limits: None,
    }
}

/// Four GPUs, the last one with two MIG instances.
pub(super) fn inventory() -> Inventory {
    let mig = |instance: u32| MigInstance {
        gpu_instance_id: instance,
        uuid: format!("MIG-00000003-0000-1111-2222-{instance:012x}"),
        ..MigInstance::default()
    };
    let one = |number: u32| Gpu {
        uuid: gpu(number),
        minor_number: Some(number),
        mig_instances: if number == 3 { vec![mig(1), mig(2)] } else { Vec::new() },
        ..Gpu::default()
    };
    Inventory {
        schema: 1,
        gpu_driver: Some(GpuDriver { query_schema: Some(12), ..GpuDriver::default() }),
        gpus: (0..4).map(one).collect(),
        ..Inventory::default()
    }
}
