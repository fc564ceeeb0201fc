//! What commands do on a simulated host. GPU resets are counted outside the daemon's reach; a reboot
//! takes the whole machine down.

use crate::node::{Process, Running};
use crate::outside::gpus;
use crate::world::{Event, World};
use model::frame::Any;
use model::limits::RESULT_BYTES_MAX;
use model::{CommandId, FailCode, Kind};
use node_core::{Input, Work, WorkResult};
use proto::v1;
use rand::Rng;
use stdx::clock::Instant;

impl World {
    pub(crate) fn start_work(&mut self, n: usize, process: &mut Process, work: Work, now: Instant) {
        self.may_start(n, process, &work, now);
        let id = work.id.clone();
        process.works.insert(id.clone(), Running { work, step: 0, is_cancelled: false });
        let delay = self.around(self.plan.work_ms);
        let pid = process.pid;
        self.after(delay, Event::Work { pid, id });
    }

    /// One step of a piece of work: something happens on the host, or it ends.
    pub(crate) fn work(&mut self, pid: u64, id: &CommandId) {
        let Some(n) = self.node_of(pid) else { return };
        let fails = self.faulty(1, 12);
        let size = self.result_size();
        let pause = self.around(self.plan.work_ms / 2 + 1);
        let Some(running) = self.nodes[n].process.as_mut().and_then(|process| process.works.get_mut(id)) else {
            return;
        };
        let (step, kind, is_cancelled) = (running.step, running.work.kind, running.is_cancelled);
        running.step += 1;
        let payload = running.work.payload.clone();
        match kind {
            Kind::GpuReset => {
                let list = gpus(&payload);
                let stops = (fails || is_cancelled) && step < list.len();
                match list.get(step) {
                    Some(_) if stops && step == 0 => {
                        let code = if is_cancelled { FailCode::CancelRequested } else { FailCode::GpuBusy };
                        self.finish(n, pid, id, failed(code));
                    }
                    Some(_) if stops => self.finish(n, pid, id, failed(FailCode::Internal)),
                    Some(gpu) => {
                        self.gpu_is_reset(n, id, gpu);
                        self.after(pause, Event::Work { pid, id: id.clone() });
                    }
                    None => self.finish(n, pid, id, succeeded(size)),
                }
            }
            Kind::NodeReboot if fails => self.finish(n, pid, id, failed(FailCode::UnsupportedHost)),
            Kind::NodeReboot => {
                self.note(format_args!("n{n} reboots for {id}"));
                let boot = self.nodes[n].boot;
                self.after(pause, Event::HostDown { node: n, boot, by: "rebooted by command" });
            }
            _ if fails => self.finish(n, pid, id, failed(FailCode::Internal)),
            _ => self.finish(n, pid, id, succeeded(size)),
        }
    }

    fn finish(&mut self, n: usize, pid: u64, id: &CommandId, result: WorkResult) {
        if let Some(process) = &mut self.nodes[n].process {
            process.works.remove(id);
        }
        self.note(format_args!("n{n} work of {id} ends"));
        self.node_input(n, pid, Input::Finished { id: id.clone(), result });
    }

    fn result_size(&mut self) -> usize {
        if self.plan.big_results && self.rng.random_ratio(1, 3) {
            RESULT_BYTES_MAX - 40 + self.rng.random_range(0..80)
        } else {
            self.rng.random_range(0..200)
        }
    }
}

fn succeeded(size: usize) -> WorkResult {
    let value = Any { type_url: v1_url(), value: vec![7; size] };
    WorkResult::Succeeded { code: String::new(), message: String::new(), value: Some(value) }
}

fn v1_url() -> String {
    proto::pack(&v1::GpuResetResult::default()).type_url
}

fn failed(code: FailCode) -> WorkResult {
    WorkResult::Failed { code: code.name().to_owned(), message: "as the simulation wanted".to_owned(), value: None }
}
