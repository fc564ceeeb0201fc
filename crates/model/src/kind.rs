//! Every command kind there is, in one table: its lane, who runs it, what its flags mean and how
//! long it may take (`delivery.md`, "Kinds by lane", "Timeouts"; decisions D-Q3 to D-Q5).
//!
//! Both sides read this table, so they cannot disagree on which kinds are destructive.

use std::fmt;

/// A queue of commands with credits of its own, so that slow work never blocks urgent work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Short, latency-sensitive work.
    Control,
    /// Long provisioning work.
    Provision,
    /// Large transfers and slow jobs.
    Bulk,
}

impl Lane {
    pub const ALL: [Lane; 3] = [Lane::Control, Lane::Provision, Lane::Bulk];

    pub const fn name(self) -> &'static str {
        match self {
            Lane::Control => "control",
            Lane::Provision => "provision",
            Lane::Bulk => "bulk",
        }
    }

    pub fn parse(text: &str) -> Option<Lane> {
        Lane::ALL.into_iter().find(|lane| lane.name() == text)
    }

    /// Commands admitted at once on one session, running or waiting for a worker.
    pub const fn credits(self) -> u32 {
        match self {
            Lane::Control => 8,
            Lane::Provision => 4,
            Lane::Bulk => 2,
        }
    }

    /// Commands running at once on one daemon.
    pub const fn workers(self) -> u32 {
        match self {
            Lane::Control => 4,
            Lane::Provision => 2,
            Lane::Bulk => 1,
        }
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a daemon is: a machine of the fleet, a site's agent, or a machine being prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    Node,
    Site,
    Ramdisk,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Node, Role::Site, Role::Ramdisk];

    pub const fn name(self) -> &'static str {
        match self {
            Role::Node => "node",
            Role::Site => "site",
            Role::Ramdisk => "ramdisk",
        }
    }

    pub fn parse(text: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == text)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! kinds {
    ($($variant:ident = $name:literal, $lane:ident, [$($role:ident),+], [$($flag:ident),*], $timeout_s:expr;)+) => {
        /// A registered command kind.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind { $($variant),+ }

        impl Kind {
            pub const ALL: &'static [Kind] = &[$(Kind::$variant),+];

            /// The wire name, as `diag.nvml`.
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$variant => $name),+ }
            }

            /// The row of the table.
            pub const fn spec(self) -> &'static KindSpec {
                match self { $(Kind::$variant => {
                    const SPEC: KindSpec = {
                        #[allow(unused_mut)]
                        let mut spec = KindSpec {
                            lane: Lane::$lane, roles: &[$(Role::$role),+], timeout_s: $timeout_s,
                            retry_safe: false, attested: false, destructive: false, self_terminating: false,
                        };
                        $(spec.$flag = true;)*
                        spec
                    };
                    &SPEC
                }),+ }
            }
        }
    };
}

/// The fixed properties of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindSpec {
    pub lane: Lane,
    pub roles: &'static [Role],
    /// Seconds after `not_after` at which an unfinished command fails with `timeout`.
    pub timeout_s: u32,
    /// May run again when a crash interrupted it.
    pub retry_safe: bool,
    /// The result is signed by the node and believed only once the control plane has verified it.
    pub attested: bool,
    /// Needs an approved batch once approver keys exist.
    pub destructive: bool,
    /// The side effect ends the daemon process.
    pub self_terminating: bool,
}

/// Timeout of a kind that is not registered, in seconds.
pub const UNREGISTERED_TIMEOUT_S: u32 = 15 * 60;

const MINUTE: u32 = 60;
const HOUR: u32 = 60 * MINUTE;

kinds! {
    InventoryRefresh = "inventory.refresh", Control, [Node, Site, Ramdisk], [retry_safe], 2 * MINUTE;
    DiagNvml = "diag.nvml", Control, [Node, Ramdisk], [retry_safe, attested], 2 * MINUTE;
    GpuReset = "gpu.reset", Control, [Node], [attested, destructive], 5 * MINUTE;
    NodeReboot = "node.reboot", Control, [Node, Site], [retry_safe, self_terminating, destructive], 15 * MINUTE;
    DaemonUpgrade = "daemon.upgrade", Control, [Node, Site], [retry_safe, self_terminating], 15 * MINUTE;
    BmcQuery = "bmc.query", Control, [Site], [retry_safe], 2 * MINUTE;
    BmcBoot = "bmc.boot", Control, [Site], [retry_safe, destructive], 2 * MINUTE;
    BmcPower = "bmc.power", Control, [Site], [destructive], 5 * MINUTE;
    BmcFirmware = "bmc.firmware", Control, [Site], [destructive], HOUR;
    BmcStorage = "bmc.storage", Control, [Site], [destructive], HOUR;
    BmcRotate = "bmc.rotate", Control, [Site], [attested, destructive], 5 * MINUTE;
    SiteHttpProxy = "site.httpProxy", Control, [Site], [destructive], MINUTE;
    BootPrepareRamdisk = "boot.prepareRamdisk", Control, [Site], [retry_safe], 2 * MINUTE;
    BootCleanUp = "boot.cleanUp", Control, [Site], [retry_safe], 2 * MINUTE;
    BootKexec = "boot.kexec", Control, [Ramdisk], [self_terminating], 15 * MINUTE;
    DiskWipe = "disk.wipe", Provision, [Ramdisk], [attested, destructive], 6 * HOUR;
    DeployImage = "deploy.image", Provision, [Ramdisk], [destructive], HOUR;
    DiagDcgm = "diag.dcgm", Provision, [Ramdisk, Node], [retry_safe, attested], HOUR;
    DriverInvoke = "driver.invoke", Provision, [Node, Site, Ramdisk], [destructive], 10 * MINUTE;
    LogsCollect = "logs.collect", Bulk, [Node, Site, Ramdisk], [retry_safe], 15 * MINUTE;
    InstanceSnapshot = "instance.snapshot", Bulk, [Node], [], 7 * HOUR;
}

impl Kind {
    pub fn parse(name: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Whether an agent of `role` runs this kind.
    pub fn runs_on(self, role: Role) -> bool {
        self.spec().roles.contains(&role)
    }

    /// The names an agent of `role` is certified for.
    pub fn allowed_for(role: Role) -> impl Iterator<Item = &'static str> {
        Kind::ALL.iter().filter(move |kind| kind.runs_on(role)).map(|kind| kind.name())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The timeout of a kind by its wire name, registered or not, in milliseconds.
pub fn timeout_ms(kind: &str) -> i64 {
    let seconds = Kind::parse(kind).map_or(UNREGISTERED_TIMEOUT_S, |kind| kind.spec().timeout_s);
    i64::from(seconds) * 1000
}

#[cfg(test)]
mod tests;
