//! The kinds over a simulated host: what a command answers, and what it did.

use super::*;
use crate::clock::AgentClock;
use crate::conditions::XID_ERROR;
use crate::identity::IdentityStore;
use crate::keeper::Keeper;
use crate::testing::gateway::FakeGateway;
use crate::testing::{Fleet, identity_of};
use crate::transport::Gateway;
use fakehw::FakeHost;
use model::ServerTimeMs;
use proto::Message;
use std::path::Path;
use stdx::clock::Instant;

struct Bed {
    directory: tempfile::TempDir,
    host: Arc<FakeHost>,
}

impl Bed {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("tempdir");
        let host =
            FakeHost::open(directory.path().join("host"), 1, directory.path().join("effects.log")).expect("host");
        Self { directory, host: Arc::new(host) }
    }

    fn uuid(&self, number: usize) -> String {
        self.host.state().expect("state").gpus[number].uuid.clone()
    }

    fn effects(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.directory.path().join("effects.log")).unwrap_or_default();
        text.lines().map(|line| line.splitn(3, ' ').last().unwrap_or_default().to_owned()).collect()
    }

    fn run(&self, work: &Work) -> Executed {
        execute(&*self.host, work, &|| false)
    }

    fn reset(&self, uuids: &[String]) -> Executed {
        self.run(&work(Kind::GpuReset, &v1::GpuResetRequest { gpu_uuids: uuids.to_vec() }))
    }

    fn hold(&self, device_id: &str) {
        let spec = serde_json::json!({
            "cdiVersion": "0.6.0",
            "kind": "bcd.dev/gpu",
            "devices": [{"name": "gpu0", "annotations": {"bcd.dev/device-id": device_id}, "containerEdits": {}}],
        });
        let path = self.host.root().join("etc/cdi/bcd-alloc_1.json");
        stdx::durable::write_file(&path, spec.to_string().as_bytes(), 0o644).expect("write");
    }
}

fn work<M: Message + proto::Name>(kind: Kind, request: &M) -> Work {
    Work {
        id: CommandId::new("cmd1"),
        kind,
        lane: kind.spec().lane,
        payload: proto::pack(request),
        traceparent: String::new(),
    }
}

#[track_caller]
fn outcomes(executed: &Executed) -> Vec<(bool, bool, String)> {
    let Ending::Finished(WorkResult::Succeeded { value: Some(value), .. }) = &executed.ending else {
        panic!("{:?}", executed.ending)
    };
    let result: v1::GpuResetResult = proto::unpack(value).expect("result");
    result.gpus.into_iter().map(|gpu| (gpu.reset, gpu.healthy, gpu.message)).collect()
}

#[track_caller]
fn failure(executed: &Executed) -> (String, String) {
    let Ending::Finished(WorkResult::Failed { code, message, .. }) = &executed.ending else {
        panic!("{:?}", executed.ending)
    };
    (code.clone(), message.clone())
}

#[test]
fn the_listed_gpus_are_reset_and_a_fresh_inventory_judges_them() {
    let bed = Bed::new();
    bed.host.edit(|state| state.gpus[1].remap_failed = true).expect("edit");
    let executed = bed.reset(&[bed.uuid(0), bed.uuid(1)]);
    let outcomes = outcomes(&executed);
    assert_eq!(outcomes[0], (true, true, String::new()));
    assert_eq!((outcomes[1].0, outcomes[1].1), (true, false), "a failed row remap is not healthy");
    assert_eq!(executed.recovered_gpus, [bed.uuid(0)]);
    assert_eq!(executed.inventory, Some(bed.host.inventory()));
    assert_eq!(bed.effects(), [format!("{} cmd1", bed.uuid(0)), format!("{} cmd1", bed.uuid(1))]);
}

#[test]
fn ecc_errors_and_a_pending_remap_are_gone_after_a_reset() {
    let bed = Bed::new();
    bed.host
        .edit(|state| {
            state.gpus[2].ecc_volatile_uncorrectable = 4;
            state.gpus[2].remap_pending = true;
        })
        .expect("edit");
    assert!(!bed.host.nvml_diag().expect("diag").gpus[2].healthy);
    assert_eq!(outcomes(&bed.reset(&[bed.uuid(2)])), [(true, true, String::new())]);
}

#[test]
fn an_unknown_gpu_and_one_that_does_not_reset_say_so_and_the_others_are_reset() {
    let bed = Bed::new();
    bed.host.edit(|state| state.gpus[3].reset_fails = Some("in use by 77".to_owned())).expect("edit");
    let unknown = "GPU-00000000-0000-0000-0000-000000000000".to_owned();
    let executed = bed.reset(&[unknown, bed.uuid(3), bed.uuid(4)]);
    let expected = [
        (false, false, "unknown GPU".to_owned()),
        (false, false, "in use by 77".to_owned()),
        (true, true, String::new()),
    ];
    assert_eq!(outcomes(&executed), expected);
    assert_eq!(executed.recovered_gpus, [bed.uuid(4)]);
    assert_eq!(bed.effects().len(), 1);
}

#[test]
fn a_list_is_checked_whole_before_any_gpu_is_touched() {
    let bed = Bed::new();
    let empty = bed.reset(&[]);
    assert_eq!(failure(&empty).0, "invalid-payload");
    for device in [bed.uuid(1), format!("{}/gi1/ci0", bed.uuid(1)), format!("{}/s0", bed.uuid(1))] {
        bed.hold(&device);
        let (code, message) = failure(&bed.reset(&[bed.uuid(0), bed.uuid(1)]));
        assert_eq!(code, "gpu-busy", "{device}");
        assert!(message.contains("alloc_1"), "{message}");
    }
    assert!(bed.effects().is_empty());
    stdx::durable::write_file(&bed.host.root().join("etc/cdi/bcd-alloc_1.json"), b"{", 0o644).expect("write");
    assert_eq!(failure(&bed.reset(&[bed.uuid(0)])).0, "internal", "holds that cannot be known stop the reset");
    assert!(bed.effects().is_empty());
}

#[test]
fn a_cancel_stops_between_two_gpus_and_the_result_says_what_happened() {
    let bed = Bed::new();
    let uuids = vec![bed.uuid(0), bed.uuid(1), bed.uuid(2)];
    let first_is_done = || !bed.effects().is_empty();
    let reset = work(Kind::GpuReset, &v1::GpuResetRequest { gpu_uuids: uuids });
    let outcomes = outcomes(&execute(&*bed.host, &reset, &first_is_done));
    let reset: Vec<bool> = outcomes.iter().map(|outcome| outcome.0).collect();
    assert_eq!(reset, [true, false, false]);
    assert_eq!(bed.effects().len(), 1);
}

#[test]
fn a_payload_of_another_kind_fails_before_anything_is_done() {
    let bed = Bed::new();
    for kind in [Kind::InventoryRefresh, Kind::DiagNvml, Kind::GpuReset, Kind::NodeReboot] {
        let executed = bed.run(&work(kind, &v1::LogsCollectRequest { since_s: 1 }));
        assert_eq!(failure(&executed).0, "invalid-payload", "{kind}");
        assert_eq!(executed.inventory, None);
        let mut broken = work(kind, &v1::GpuResetRequest::default());
        broken.payload.type_url = format!("type.googleapis.com/bettercompute.node.v1.{}", request_name(kind));
        broken.payload.value = vec![0xff];
        assert_eq!(failure(&bed.run(&broken)).0, "invalid-payload", "{kind}");
    }
    assert!(bed.effects().is_empty());
}

fn request_name(kind: Kind) -> &'static str {
    match kind {
        Kind::InventoryRefresh => "InventoryRefreshRequest",
        Kind::DiagNvml => "DiagNvmlRequest",
        Kind::GpuReset => "GpuResetRequest",
        _ => "NodeRebootRequest",
    }
}

#[test]
fn a_diagnosis_names_every_gpu_and_a_reboot_answers_nothing() {
    let bed = Bed::new();
    let executed = bed.run(&work(Kind::DiagNvml, &v1::DiagNvmlRequest {}));
    let Ending::Finished(WorkResult::Succeeded { value: Some(value), .. }) = executed.ending else { panic!("diag") };
    let result: v1::DiagNvmlResult = proto::unpack(&value).expect("result");
    assert_eq!(result.gpus.len(), 8);
    let before = bed.host.boot_id().expect("boot");
    let executed = bed.run(&work(Kind::NodeReboot, &v1::NodeRebootRequest::default()));
    assert_eq!(executed.ending, Ending::RestartSimulated);
    assert_ne!(bed.host.boot_id().expect("boot"), before);
}

#[test]
fn a_reset_locks_its_gpus_and_a_reading_locks_nothing() {
    let reset = proto::pack(&v1::GpuResetRequest { gpu_uuids: vec!["a".to_owned(), "b".to_owned()] });
    assert_eq!(resources(Kind::GpuReset, &reset), ["a", "b"]);
    assert!(resources(Kind::DiagNvml, &proto::pack(&v1::DiagNvmlRequest {})).is_empty());
    assert!(resources(Kind::GpuReset, &Any::default()).is_empty());
}

/// Workers over the simulated host and a fake gateway.
struct Rig {
    workers: Workers,
    events: mpsc::Receiver<Event>,
    conditions: Arc<Conditions>,
}

impl Rig {
    async fn new(bed: &Bed, fleet: &Fleet, gateway: &FakeGateway) -> Self {
        let data_dir = bed.directory.path().join("data");
        let keeper = keeper(fleet, &data_dir);
        let config = fleet.config(&data_dir, gateway.port);
        let (events_tx, events) = mpsc::channel(8);
        let conditions = Arc::new(Conditions::default());
        let workers = Workers::spawn(Context {
            host: bed.host.clone(),
            inventory: Arc::default(),
            conditions: conditions.clone(),
            uploader: Uploader { keeper, gateway: Gateway::of(&config), clock: AgentClock::new(ServerTimeMs(0)) },
            spool_dir: data_dir,
            events: events_tx,
        });
        Self { workers, events, conditions }
    }

    async fn finished(&mut self, work: Work) -> WorkResult {
        self.workers.start(work);
        loop {
            match self.events.recv().await.expect("an event") {
                Event::Finished { result, .. } => return result,
                Event::Inventory(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

fn keeper(fleet: &Fleet, data_dir: &Path) -> Keeper {
    let store = IdentityStore::new(data_dir);
    let pending = store.prepare_join().expect("prepare");
    store.install(&identity_of(fleet, pending.key.public())).expect("install");
    let loaded = store.load().expect("load").expect("joined");
    Keeper::new(store, loaded)
}

#[tokio::test]
async fn a_gpu_that_recovered_loses_its_xid_conditions_and_another_keeps_them() {
    let (bed, fleet) = (Bed::new(), Fleet::new());
    bed.host.edit(|state| state.gpus[1].remap_failed = true).expect("edit");
    let gateway = FakeGateway::joins(&fleet, |_| panic!("no joins here")).await;
    let mut rig = Rig::new(&bed, &fleet, &gateway).await;
    for number in [0, 1, 2] {
        rig.conditions.raise(XID_ERROR, &bed.uuid(number), "XID 63", Instant(0));
    }
    let uuids = vec![bed.uuid(0), bed.uuid(1)];
    let result = rig.finished(work(Kind::GpuReset, &v1::GpuResetRequest { gpu_uuids: uuids })).await;
    assert!(matches!(result, WorkResult::Succeeded { .. }));
    let mut left: Vec<String> = rig.conditions.report(Instant(0)).into_iter().map(|c| c.reason).collect();
    let mut expected = vec![bed.uuid(1), bed.uuid(2)];
    left.sort();
    expected.sort();
    assert_eq!(left, expected, "not healthy, and not reset");
}

#[tokio::test]
async fn a_refresh_answers_the_digest_and_whether_it_changed() {
    let (bed, fleet) = (Bed::new(), Fleet::new());
    let gateway = FakeGateway::joins(&fleet, |_| panic!("no joins here")).await;
    let mut rig = Rig::new(&bed, &fleet, &gateway).await;
    let mut ask = async || {
        let result = rig.finished(work(Kind::InventoryRefresh, &v1::InventoryRefreshRequest {})).await;
        let WorkResult::Succeeded { value: Some(value), .. } = result else { panic!("{result:?}") };
        proto::unpack::<v1::InventoryRefreshResult>(&value).expect("result")
    };
    let first = ask().await;
    assert_eq!((first.digest, first.changed), (host::digest(&bed.host.inventory()), false));
    bed.host.edit(|state| state.gpus[0].remap_failed = true).expect("edit");
    let second = ask().await;
    assert_eq!((second.digest, second.changed), (host::digest(&bed.host.inventory()), true));
}

#[tokio::test]
async fn collected_logs_reach_the_gateway_whole_and_the_result_names_them() {
    let (bed, fleet) = (Bed::new(), Fleet::new());
    let gateway = FakeGateway::joins(&fleet, |_| panic!("no joins here")).await;
    let mut rig = Rig::new(&bed, &fleet, &gateway).await;
    let result = rig.finished(work(Kind::LogsCollect, &v1::LogsCollectRequest { since_s: 60 })).await;
    let WorkResult::Succeeded { value: Some(value), .. } = result else { panic!("{result:?}") };
    let result: v1::LogsCollectResult = proto::unpack(&value).expect("result");
    let blobs = gateway.blobs.lock().expect("blobs").clone();
    let (header, data) = &blobs[0];
    assert_eq!(header.command_id, "cmd1");
    assert_eq!((header.size, data.len() as u64), (result.blob_bytes, result.blob_bytes));
    assert_eq!(stdx::hex::sha256_hex(data), result.blob_sha256);
    assert_eq!(header.sha256, result.blob_sha256);
    assert_eq!(data[..4], [0x28, 0xb5, 0x2f, 0xfd], "zstd");
    let left = std::fs::read_dir(bed.directory.path().join("data")).expect("list");
    let spools = left.filter(|entry| entry.as_ref().is_ok_and(|e| e.file_name().to_string_lossy().contains("spool")));
    assert_eq!(spools.count(), 0);
}

#[tokio::test]
async fn a_worker_pool_is_as_wide_as_its_lane() {
    let (bed, fleet) = (Bed::new(), Fleet::new());
    let gateway = FakeGateway::joins(&fleet, |_| panic!("no joins here")).await;
    let mut rig = Rig::new(&bed, &fleet, &gateway).await;
    for number in 0..4 {
        let mut one = work(Kind::DiagNvml, &v1::DiagNvmlRequest {});
        one.id = CommandId::new(format!("c{number}"));
        rig.workers.start(one);
    }
    let mut ids = Vec::new();
    while ids.len() < 4 {
        if let Event::Finished { id, .. } = rig.events.recv().await.expect("event") {
            ids.push(id.to_string());
        }
    }
    ids.sort();
    assert_eq!(ids, ["c0", "c1", "c2", "c3"]);
}
