//! A daemon that holds devices by the rules of its `devices` section.

use super::world::{self, VCPU};
use model::frame::{Any, Event, Hello, Report, Signed};
use model::spec::DeviceAssignment;
use model::{AllocationId, EventClass, JournalId, NodeId, ServerTimeMs};
use proto::{Message, Name, v1};
use std::collections::{BTreeMap, BTreeSet};

pub const GPUS: usize = 3;
pub const PROFILE: &str = "1g.10gb";
/// The GPU in MIG mode, and how many instances it has.
pub const MIG_GPU: usize = 2;
pub const INSTANCES: u32 = 2;

#[derive(Clone)]
pub struct FakeNode {
    pub id: NodeId,
    number: usize,
    pub journal: JournalId,
    journals: u32,
    next_seq: u64,
    pub epoch: u64,
    pub connected: bool,
    pub applied: u64,
    pub observed: u64,
    spec: Vec<DeviceAssignment>,
    /// Allocation to atom ids.
    pub holds: BTreeMap<AllocationId, BTreeSet<String>>,
    /// The reservations of its holds.
    names: BTreeMap<AllocationId, String>,
    /// Failed under the spec it has.
    failed: BTreeSet<AllocationId>,
    pub missing: BTreeSet<usize>,
    /// Not acknowledged yet.
    pub events: Vec<Event>,
}

pub fn uuid(number: usize, gpu: usize) -> String {
    format!("GPU-00000000-0000-0000-0000-0000000000{number}{gpu}")
}

impl FakeNode {
    pub fn new(id: NodeId, number: usize) -> Self {
        Self {
            id,
            number,
            journal: JournalId::new(format!("journal-{number}-0")),
            journals: 0,
            next_seq: 1,
            epoch: 0,
            connected: false,
            applied: 0,
            observed: 0,
            spec: vec![],
            holds: BTreeMap::new(),
            names: BTreeMap::new(),
            failed: BTreeSet::new(),
            missing: BTreeSet::new(),
            events: vec![],
        }
    }

    pub fn hello(&self) -> Hello {
        world::hello(self)
    }

    pub fn accepted(&mut self, epoch: u64, acked: u64) {
        (self.epoch, self.connected) = (epoch, true);
        self.acked(acked);
    }

    pub fn acked(&mut self, seq: u64) {
        self.events.retain(|event| event.seq > seq);
    }

    pub fn lose_journal(&mut self) {
        self.journals += 1;
        self.journal = JournalId::new(format!("journal-{}-{}", self.number, self.journals));
        self.events.clear();
        self.next_seq = 1;
    }

    pub fn inventory(&self) -> Vec<u8> {
        let instance = |index: u32| v1::MigInstance {
            index,
            gpu_instance_id: index,
            uuid: format!("MIG-{index}"),
            profile: PROFILE.into(),
            ..Default::default()
        };
        let gpu = |gpu: usize| v1::Gpu {
            uuid: uuid(self.number, gpu),
            numa_node: Some(0),
            mig_enabled: Some(gpu == MIG_GPU),
            mig_instances: if gpu == MIG_GPU { (0..INSTANCES).map(instance).collect() } else { vec![] },
            ..Default::default()
        };
        let inventory = v1::Inventory {
            cpus: Some(v1::Cpus { threads: VCPU, ..Default::default() }),
            memory_bytes: 65 << 30,
            gpu_driver: Some(v1::GpuDriver::default()),
            gpus: (0..GPUS).filter(|number| !self.missing.contains(number)).map(gpu).collect(),
            ..Default::default()
        };
        inventory.encode_to_vec()
    }

    /// Takes a generation above its own.
    pub fn take_spec(&mut self, generation: u64, devices: Vec<DeviceAssignment>) {
        if generation > self.applied {
            (self.applied, self.spec) = (generation, devices);
            self.failed.clear();
        }
    }

    /// One pass: lets go of what the spec lacks, binds what it adds. `refuse`: the first new hold fails.
    pub fn converge(&mut self, mut refuse: bool) {
        let wanted: BTreeSet<&AllocationId> = self.spec.iter().map(|assignment| &assignment.allocation).collect();
        let gone: Vec<AllocationId> = self.holds.keys().filter(|id| !wanted.contains(id)).cloned().collect();
        for id in gone {
            self.holds.remove(&id);
            let reservation = self.names.remove(&id).unwrap_or_default();
            let body = v1::AllocationReleased {
                allocation_id: id.to_string(),
                reservation_id: reservation,
                generation: self.applied,
            };
            self.event("allocationReleased", &body);
        }
        for assignment in self.spec.clone() {
            if self.holds.contains_key(&assignment.allocation) || self.failed.contains(&assignment.allocation) {
                continue;
            }
            let reason =
                if std::mem::take(&mut refuse) { Some("resources-exhausted") } else { self.refuses(&assignment) };
            match reason {
                Some(reason) => self.fail(&assignment, reason),
                None => self.bind(&assignment),
            }
        }
        self.observed = self.applied;
    }

    fn fail(&mut self, assignment: &DeviceAssignment, reason: &str) {
        self.failed.insert(assignment.allocation.clone());
        let body = v1::AllocationFailed {
            allocation_id: assignment.allocation.to_string(),
            reservation_id: assignment.reservation.to_string(),
            reason: reason.into(),
            message: String::new(),
            generation: self.applied,
        };
        self.event("allocationFailed", &body);
    }

    fn bind(&mut self, assignment: &DeviceAssignment) {
        let atoms: BTreeSet<String> = assignment.devices.iter().map(|device| device.id.clone()).collect();
        let names = atoms.iter().map(|atom| format!("bcd.dev/gpu={}", atom.replace('/', "_"))).collect();
        self.holds.insert(assignment.allocation.clone(), atoms);
        self.names.insert(assignment.allocation.clone(), assignment.reservation.to_string());
        let body = v1::AllocationBound {
            allocation_id: assignment.allocation.to_string(),
            reservation_id: assignment.reservation.to_string(),
            cdi_devices: names,
            generation: self.applied,
        };
        self.event("allocationBound", &body);
    }

    fn refuses(&self, assignment: &DeviceAssignment) -> Option<&'static str> {
        let held: BTreeSet<&str> = self.holds.values().flatten().map(String::as_str).collect();
        for device in &assignment.devices {
            let gpu = device.id.split('/').next().unwrap_or_default();
            if self.missing.iter().any(|number| uuid(self.number, *number) == gpu) {
                return Some("device-missing");
            }
            let part_held = || held.iter().any(|atom| atom.split('/').next() == Some(gpu));
            let taken = match device.device_class.as_str() {
                "gpu" => part_held(),
                _ => held.contains(device.id.as_str()) || held.contains(gpu),
            };
            if taken {
                return Some("overlap");
            }
        }
        None
    }

    /// Journals a signed report.
    pub fn event<M: Message + Name>(&mut self, kind: &str, body: &M) {
        let report = self.report(kind, body);
        let signed = Signed { body: report.clone(), kid: "k".into(), chain: vec![], signature: vec![1; 64] };
        self.push(report, Some(signed));
    }

    pub fn report<M: Message + Name>(&self, kind: &str, body: &M) -> Vec<u8> {
        let Any { type_url, value } = proto::pack(body);
        proto::encode_report(&Report {
            node_id: self.id.clone(),
            kind: kind.into(),
            attributes: vec![],
            body: Some(Any { type_url, value }),
            observed_at: ServerTimeMs(0),
        })
    }

    pub fn push(&mut self, report: Vec<u8>, node_sig: Option<Signed>) {
        self.events.push(Event { seq: self.next_seq, class: EventClass::Transition, report, node_sig });
        self.next_seq += 1;
    }
}
