//! Slices by systemd: `bcd.slice/bcd-alloc.slice/bcd-alloc-<allocation>.slice`, limits as runtime properties.
//!
//! systemd has no property for huge pages, so these go into the cgroup's own files once the slice is there, after
//! the `hugetlb` controller is enabled on its ancestors (Documentation/admin-guide/cgroup-v2.rst).

use super::slices::{SliceError, Slices, Stopped};
use crate::exec::{self, Keep, Run};
use crate::privileged::is_systemd_init;
use crate::tree::Tree;
use model::AllocationId;
use node_core::converge::{SliceLimits, SliceSeen, slice_allocation, slice_name};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::time::Duration;

const CGROUP: &str = "/sys/fs/cgroup";
/// The slice of all hold slices; its name says where it is.
const PARENTS: [&str; 2] = ["bcd.slice", "bcd-alloc.slice"];
const SYSTEMCTL_TIMEOUT: Duration = Duration::from_secs(30);
const SYSTEMCTL_BYTES_MAX: usize = 64 << 10;
/// Page size in bytes, and how the controller's files call it.
const HUGE_PAGES: [(u64, &str); 2] = [(2 << 20, "2MB"), (1 << 30, "1GB")];

/// systemd of the host below `tree`.
#[derive(Clone, Debug)]
pub struct SystemdSlices {
    tree: Tree,
    systemctl: OsString,
}

impl SystemdSlices {
    pub fn new(tree: Tree, systemctl: impl Into<OsString>) -> Self {
        Self { tree, systemctl: systemctl.into() }
    }

    fn systemctl(&self, verb: &'static str, slice: &str, arguments: &[&str]) -> Result<(), SliceError> {
        let run = Run::new(&self.systemctl, arguments, SYSTEMCTL_TIMEOUT, Keep::AllOrFail(SYSTEMCTL_BYTES_MAX));
        let slice = slice.to_owned();
        match exec::run(&run) {
            Ok(output) if output.code == 0 => Ok(()),
            Ok(output) => Err(SliceError::Refused { verb, slice, code: output.code, stderr: output.stderr }),
            Err(source) => Err(SliceError::Systemctl { verb, slice, source }),
        }
    }

    /// Writes a file of the cgroup tree, which is no place for a new file and a rename.
    fn write(&self, path: &str, value: &str) -> Result<(), SliceError> {
        let write = || {
            let mut file = std::fs::File::options().write(true).open(self.tree.path(path))?;
            file.write_all(value.as_bytes())
        };
        write().map_err(|source| SliceError::Cgroup { step: "write", path: path.to_owned(), source })
    }

    fn huge_pages(&self, directory: &str, limits: &SliceLimits) -> Result<(), SliceError> {
        let wanted = [limits.hugetlb_2mb, limits.hugetlb_1gb];
        if wanted.iter().any(|bytes| *bytes > 0) {
            let mut ancestor = CGROUP.to_owned();
            self.write(&format!("{ancestor}/cgroup.subtree_control"), "+hugetlb")?;
            for parent in PARENTS {
                ancestor = format!("{ancestor}/{parent}");
                self.write(&format!("{ancestor}/cgroup.subtree_control"), "+hugetlb")?;
            }
        }
        for ((_, size), bytes) in HUGE_PAGES.into_iter().zip(wanted) {
            let path = format!("{directory}/hugetlb.{size}.max");
            if bytes > 0 {
                self.write(&path, &bytes.to_string())?;
            } else if self.tree.exists(&path) {
                self.write(&path, "max")?;
            }
        }
        Ok(())
    }

    fn seen(&self, directory: &str, allocation: AllocationId) -> Result<SliceSeen, SliceError> {
        let number = |name: &str| self.tree.number(&format!("{directory}/{name}"));
        let mut huge_pages = BTreeMap::new();
        for (page_bytes, size) in HUGE_PAGES {
            if let Some(bytes) = number(&format!("hugetlb.{size}.current")) {
                huge_pages.insert(page_bytes, bytes / page_bytes);
            }
        }
        let is_populated = self.is_populated(directory)?;
        // `max` is no number, and no limit.
        Ok(SliceSeen { allocation, is_populated, memory_max: number("memory.max"), huge_pages })
    }

    /// Whether a process is in the cgroup or below it.
    fn is_populated(&self, directory: &str) -> Result<bool, SliceError> {
        let path = format!("{directory}/cgroup.events");
        let failed = |source| SliceError::Cgroup { step: "read", path: path.clone(), source };
        let text = match self.tree.text(&path) {
            // It went between the listing and the reading.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.tree.is_directory(directory) => {
                return Ok(false);
            }
            other => other.map_err(failed)?,
        };
        match text.lines().find_map(|line| line.strip_prefix("populated ")).map(str::trim) {
            Some("0") => Ok(false),
            Some("1") => Ok(true),
            _ => Err(failed(io::Error::other("it does not say whether the cgroup is populated"))),
        }
    }
}

fn parent_directory() -> String {
    format!("{CGROUP}/{}/{}", PARENTS[0], PARENTS[1])
}

/// The limits as properties; each is set, so that one which left is lifted.
fn properties(limits: &SliceLimits) -> [String; 5] {
    let bytes = |limit: Option<u64>| limit.map_or_else(|| "infinity".to_owned(), |bytes| bytes.to_string());
    let quota = limits.cpu_quota_percent.map(|percent| format!("{percent}%")).unwrap_or_default();
    [
        format!("AllowedCPUs={}", limits.allowed_cpus),
        format!("AllowedMemoryNodes={}", limits.allowed_memory_nodes),
        format!("CPUQuota={quota}"),
        format!("MemoryMax={}", bytes(limits.memory_max)),
        format!("MemoryHigh={}", bytes(limits.memory_high)),
    ]
}

impl Slices for SystemdSlices {
    fn is_available(&self) -> bool {
        is_systemd_init(&self.tree)
    }

    fn list(&self) -> Result<Vec<SliceSeen>, SliceError> {
        let parent = parent_directory();
        let names = match self.tree.try_names(&parent) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(SliceError::Cgroup { step: "list", path: parent, source }),
        };
        let slices = names.iter().filter_map(|name| Some((format!("{parent}/{name}"), slice_allocation(name)?)));
        slices.map(|(directory, allocation)| self.seen(&directory, allocation)).collect()
    }

    fn apply(&self, limits: &SliceLimits) -> Result<(), SliceError> {
        let name = slice_name(&limits.allocation);
        let properties = properties(limits);
        // Before the start, so that no process is ever in it without limits.
        let mut set = vec!["set-property", "--runtime", "--", name.as_str()];
        set.extend(properties.iter().map(String::as_str));
        self.systemctl("set-property", &name, &set)?;
        self.systemctl("start", &name, &["start", "--", &name])?;
        self.huge_pages(&format!("{}/{name}", parent_directory()), limits)
    }

    fn stop_if_empty(&self, allocation: &AllocationId) -> Result<Stopped, SliceError> {
        let name = slice_name(allocation);
        let directory = format!("{}/{name}", parent_directory());
        if !self.tree.is_directory(&directory) {
            return Ok(Stopped::Gone);
        }
        if self.is_populated(&directory)? {
            return Ok(Stopped::InUse);
        }
        self.systemctl("stop", &name, &["stop", "--", &name])?;
        // The properties live in drop-ins, which would bind a later slice of this name.
        self.systemctl("revert", &name, &["revert", "--", &name])?;
        Ok(Stopped::Gone)
    }
}
