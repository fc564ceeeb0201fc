//! A host below a temporary directory whose file operations can be made to fail, and a process that can die.

use super::{inventory, *};
use crate::devices::*;
use crate::tree::Tree;
use model::AllocationId;
use model::spec::{AllocationReport, SectionState};
use node_core::converge::{CdiFile, DevicesPlan, Hold, Ledger, Observation, SliceLimits, SliceSeen, plan_devices};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use stdx::durable::DurableError;

/// What goes wrong at an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process is gone before it.
    DiesBefore,
    /// The process is gone after it.
    DiesAfter,
    /// The process is gone while the new bytes are only in the file beside.
    DiesAmid,
    /// The disk has no room; the process goes on.
    Full,
}

/// Files and slices, counted.
pub struct Ops {
    tree: Tree,
    direct: DirectFiles,
    pub log: RefCell<Vec<String>>,
    pub slices: RefCell<BTreeMap<AllocationId, (SliceLimits, bool)>>,
    pub has_slices: Cell<bool>,
    fault: Cell<Option<(usize, Fault)>>,
    is_dead: Cell<bool>,
}

impl Ops {
    /// Whether the operation happens, and whether it is said to have.
    fn begin(&self, what: String) -> (bool, bool, Option<Fault>) {
        if self.is_dead.get() {
            return (false, false, None);
        }
        self.log.borrow_mut().push(what);
        let Some((left, fault)) = self.fault.get() else { return (true, true, None) };
        if left > 0 {
            self.fault.set(Some((left - 1, fault)));
            return (true, true, None);
        }
        self.fault.set(None);
        self.is_dead.set(fault != Fault::Full);
        (fault == Fault::DiesAfter, false, Some(fault))
    }

    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        for directory in [FileKind::Cdi.directory(), FileKind::AllocationEnv.directory()] {
            let Ok(entries) = std::fs::read_dir(self.tree.path(directory)) else { continue };
            for entry in entries {
                let path = entry.expect("an entry").path();
                let bytes = std::fs::read(&path).expect("readable");
                files.insert(path, bytes);
            }
        }
        files
    }

    fn checked(
        &self,
        kind: FileKind,
        allocation: &AllocationId,
        act: impl FnOnce() -> Result<(), HoldFilesError>,
    ) -> Result<(), HoldFilesError> {
        let before = self.files();
        let result = act();
        let after = self.files();
        let own = match kind {
            FileKind::Cdi => format!("bcd-{allocation}.json"),
            FileKind::AllocationEnv => format!("{allocation}.env"),
        };
        for path in before.keys().chain(after.keys()) {
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            if name != own && name != format!(".{own}.new") {
                assert_eq!(before.get(path), after.get(path), "{name} is not of {allocation}");
            }
        }
        result
    }

    /// A CDI spec may not claim anew what another one claims.
    fn check_gain(&self, allocation: &AllocationId, bytes: &[u8]) {
        let new = parse_cdi(allocation, bytes).expect("ours").expect("a hold");
        let found = observe(&self.tree, &NoSlices, &inventory()).expect("observed").cdi;
        let hold = |file: &CdiFile| match file {
            CdiFile::Hold { hold, .. } => Some(hold.clone()),
            _ => None,
        };
        let (own, others): (Vec<Hold>, Vec<Hold>) =
            found.iter().filter_map(hold).partition(|hold| hold.allocation == *allocation);
        for atom in new.atoms().filter(|atom| !own.iter().any(|own| own.atoms().any(|had| had == *atom))) {
            let holder = others.iter().find(|other| other.atoms().any(|theirs| theirs.conflicts(atom)));
            assert!(holder.is_none(), "{allocation} takes {atom} from {holder:?}");
        }
    }
}

fn full(path: PathBuf) -> HoldFilesError {
    let source = io::Error::from(io::ErrorKind::StorageFull);
    HoldFilesError::File(DurableError { step: "write", path, source })
}

impl HoldFiles for Ops {
    fn write(&self, kind: FileKind, allocation: &AllocationId, bytes: &[u8]) -> Result<(), HoldFilesError> {
        let (happens, succeeds, fault) = self.begin(format!("write {kind} {allocation}"));
        if kind == FileKind::Cdi && happens {
            self.check_gain(allocation, bytes);
        }
        let path = self.tree.path(kind.directory()).join(format!(".bcd-{allocation}.json.new"));
        if fault == Some(Fault::DiesAmid)
            && kind == FileKind::Cdi
            && path.parent().is_some_and(|parent| parent.is_dir())
        {
            stdx::durable::write_file(&path, &bytes[..bytes.len() / 2], 0o644).expect("torn");
        }
        if happens {
            self.checked(kind, allocation, || self.direct.write(kind, allocation, bytes))?;
        }
        if succeeds { Ok(()) } else { Err(full(path)) }
    }

    fn remove(&self, kind: FileKind, allocation: &AllocationId) -> Result<(), HoldFilesError> {
        let (happens, succeeds, _) = self.begin(format!("remove {kind} {allocation}"));
        if happens {
            self.checked(kind, allocation, || self.direct.remove(kind, allocation))?;
        }
        if succeeds { Ok(()) } else { Err(full(self.tree.path(kind.directory()))) }
    }
}

impl Slices for Ops {
    fn is_available(&self) -> bool {
        self.has_slices.get()
    }

    fn list(&self) -> Result<Vec<SliceSeen>, SliceError> {
        let slices = self.slices.borrow();
        let seen = slices.iter().map(|(allocation, (limits, is_populated))| SliceSeen {
            allocation: allocation.clone(),
            is_populated: *is_populated,
            memory_max: limits.memory_max,
            huge_pages: BTreeMap::new(),
        });
        Ok(seen.collect())
    }

    fn apply(&self, limits: &SliceLimits) -> Result<(), SliceError> {
        let (happens, succeeds, _) = self.begin(format!("apply slice {}", limits.allocation));
        if happens {
            let mut slices = self.slices.borrow_mut();
            let is_populated = slices.get(&limits.allocation).is_some_and(|(_, is_populated)| *is_populated);
            slices.insert(limits.allocation.clone(), (limits.clone(), is_populated));
        }
        if succeeds { Ok(()) } else { Err(SliceError::Unavailable) }
    }

    fn stop_if_empty(&self, allocation: &AllocationId) -> Result<Stopped, SliceError> {
        let (happens, succeeds, _) = self.begin(format!("stop slice {allocation}"));
        let mut slices = self.slices.borrow_mut();
        let is_populated = slices.get(allocation).is_some_and(|(_, is_populated)| *is_populated);
        if happens && !is_populated {
            slices.remove(allocation);
        }
        match (succeeds, is_populated) {
            (false, _) => Err(SliceError::Unavailable),
            (true, true) => Ok(Stopped::InUse),
            (true, false) => Ok(Stopped::Gone),
        }
    }
}

/// A node: its host, its journal's ledger, its spec.
pub struct Rig {
    pub root: tempfile::TempDir,
    pub tree: Tree,
    pub ops: Ops,
    pub ledger: Ledger,
    pub generation: u64,
    pub desired: Vec<DeviceAssignment>,
    pub inventory: proto::v1::Inventory,
}

impl Rig {
    pub fn new() -> Self {
        // Memory where there is some: nothing here is about the disk.
        let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
        let tree = Tree::new(root.path());
        let ops = Ops {
            direct: DirectFiles::new(tree.clone()),
            tree: tree.clone(),
            log: RefCell::default(),
            slices: RefCell::default(),
            has_slices: Cell::new(true),
            fault: Cell::new(None),
            is_dead: Cell::new(false),
        };
        let inventory = inventory();
        Self { root, tree, ops, ledger: Ledger::default(), generation: 7, desired: Vec::new(), inventory }
    }

    pub fn spec(&mut self, desired: &[DeviceAssignment]) {
        self.generation += 1;
        self.desired = desired.to_vec();
        self.ledger.spec_applied(desired);
    }

    pub fn observe(&self) -> Observation {
        observe(&self.tree, &self.ops, &self.inventory).expect("observed")
    }

    pub fn plan(&self) -> DevicesPlan {
        plan_devices(self.generation, &self.desired, &self.observe(), &self.ledger)
    }

    /// One pass with a fault at its n-th operation. The reports of a process that died are lost.
    pub fn pass_with(&mut self, fault: Option<(usize, Fault)>) -> Executed {
        self.ops.log.borrow_mut().clear();
        self.ops.fault.set(fault);
        let plan = self.plan();
        let executed = execute(&plan, &self.ops, &self.ops);
        self.ops.fault.set(None);
        if !self.ops.is_dead.replace(false) {
            executed.reports.iter().for_each(|report| self.ledger.reported(report));
            let state = plan.status(&executed.errors).state;
            assert_eq!(state == SectionState::Progressing, !(executed.errors.is_empty() && plan.waiting.is_empty()));
        }
        executed
    }

    /// One pass, after which another one has nothing to do.
    #[track_caller]
    pub fn pass(&mut self) -> Vec<AllocationReport> {
        let executed = self.pass_with(None);
        assert_eq!(executed.errors, [""; 0]);
        let again = self.plan();
        assert!(again.is_empty(), "{again}");
        executed.reports
    }

    pub fn cdi_path(&self, name: &str) -> PathBuf {
        self.tree.path(&format!("/etc/cdi/bcd-{name}.json"))
    }

    pub fn env_path(&self, name: &str) -> PathBuf {
        self.tree.path(&format!("/run/bcd/allocations/{name}.env"))
    }

    pub fn overwrite(&self, path: &std::path::Path, bytes: &[u8], mode: u32) {
        stdx::durable::write_file(path, bytes, mode).expect("overwritten");
    }
}

pub fn kinds(reports: &[AllocationReport]) -> Vec<(&str, &'static str)> {
    reports.iter().map(|report| (report.allocation().as_str(), report.kind())).collect()
}
