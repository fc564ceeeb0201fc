//! Kernel, distribution, and whether this is a virtual machine or a container.

use crate::bounds::clean;
use crate::problems::Problems;
use crate::tree::{Tree, reason};
use proto::v1::{Firmware, OperatingSystem, Virtualization};

/// In order of precedence (os-release(5)).
const OS_RELEASE: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];

/// The host's name, empty when it cannot be read.
pub fn hostname(tree: &Tree) -> String {
    tree.text("/proc/sys/kernel/hostname").map(|name| clean(&name)).unwrap_or_default()
}

pub fn operating_system(tree: &Tree, problems: &mut Problems) -> OperatingSystem {
    let release = OS_RELEASE.iter().find_map(|path| tree.text(path).ok()).unwrap_or_else(|| {
        let error = tree.text(OS_RELEASE[0]).err().map(|error| reason(&error)).unwrap_or_default();
        problems.note(OS_RELEASE[0], error);
        String::new()
    });
    // The kernel says its architecture since 6.1; before, this build's is the host's.
    let architecture = tree.text("/proc/sys/kernel/arch").map(|arch| clean(&arch)).unwrap_or_default();
    OperatingSystem {
        kernel_release: tree.line_expected("/proc/sys/kernel/osrelease", problems).unwrap_or_default(),
        architecture: if architecture.is_empty() { std::env::consts::ARCH.to_owned() } else { architecture },
        id: release_value(&release, "ID"),
        version_id: release_value(&release, "VERSION_ID"),
        pretty_name: release_value(&release, "PRETTY_NAME"),
    }
}

/// The last assignment of `key`, without the quotes and escapes a shell would take away.
fn release_value(text: &str, key: &str) -> String {
    let assignment = text.lines().rev().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='));
    let Some(raw) = assignment else { return String::new() };
    let raw = raw.trim();
    let quoted = ['"', '\''].into_iter().find_map(|quote| raw.strip_prefix(quote)?.strip_suffix(quote));
    let mut value = String::new();
    let mut characters = quoted.unwrap_or(raw).chars();
    while let Some(character) = characters.next() {
        value.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    clean(&value)
}

pub fn virtualization(tree: &Tree, firmware: &Firmware) -> Virtualization {
    Virtualization { hypervisor: hypervisor(tree, firmware).to_owned(), container: container(tree) }
}

/// What SMBIOS and the CPU flags tell of a hypervisor.
fn hypervisor(tree: &Tree, firmware: &Firmware) -> &'static str {
    const VENDORS: [(&str, &str); 9] = [
        ("qemu", "qemu"),
        ("kvm", "kvm"),
        ("red hat", "kvm"),
        ("vmware", "vmware"),
        ("innotek", "oracle"),
        ("xen", "xen"),
        ("amazon ec2", "amazon"),
        ("google", "google"),
        ("cloud hypervisor", "kvm"),
    ];
    let flagged = tree.text("/proc/cpuinfo").is_ok_and(|info| {
        let flags = info.lines().find(|line| line.starts_with("flags"));
        flags.is_some_and(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
    });
    if tree.text("/sys/hypervisor/type").is_ok_and(|kind| kind.trim() == "xen") {
        return "xen";
    }
    let strings = format!("{} {}", firmware.system_vendor, firmware.product_name).to_ascii_lowercase();
    let named = VENDORS.iter().find(|(part, _)| strings.contains(part)).map(|(_, name)| *name);
    match named {
        // Amazon's bare metal carries the same vendor as its virtual machines; only these set the flag.
        Some("amazon" | "google") if !flagged => "none",
        Some(name) => name,
        // The same vendor makes laptops.
        None if strings.contains("microsoft") && strings.contains("virtual machine") => "microsoft",
        None if flagged => "unknown",
        None => "none",
    }
}

/// The container manager as systemd's interface has it (systemd.io, CONTAINER_INTERFACE), and the
/// marks of docker and podman.
fn container(tree: &Tree) -> String {
    if let Ok(name) = tree.text("/run/systemd/container") {
        let name = clean(&name);
        return if name.is_empty() { "unknown".to_owned() } else { name };
    }
    if let Ok(environment) = tree.text("/proc/1/environ")
        && let Some(name) = environment.split('\0').find_map(|pair| pair.strip_prefix("container="))
    {
        let name = clean(name);
        return if name.is_empty() { "unknown".to_owned() } else { name };
    }
    if tree.exists("/run/.containerenv") {
        "podman".to_owned()
    } else if tree.exists("/.dockerenv") {
        "docker".to_owned()
    } else {
        "none".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_release_values_lose_their_quotes_and_the_last_assignment_wins() {
        let text = "# a comment\nID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME='Some \\'OS\\''\nID=other\n";
        assert_eq!(release_value(text, "ID"), "other");
        assert_eq!(release_value(text, "VERSION_ID"), "12");
        assert_eq!(release_value(text, "PRETTY_NAME"), "Some 'OS'");
        assert_eq!(release_value(text, "VARIANT"), "");
    }
}
