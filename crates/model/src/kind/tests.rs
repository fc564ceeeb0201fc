use super::*;
use expect_test::expect;

/// The table of `delivery.md`, row by row, with D-Q3 to D-Q5: a change of any cell shows here.
#[test]
fn the_table_of_kinds_is_the_pages() {
    let mut table = String::new();
    for kind in Kind::ALL {
        let spec = kind.spec();
        let roles: Vec<&str> = spec.roles.iter().map(|role| role.name()).collect();
        let flags: Vec<&str> = [
            (spec.retry_safe, "retry-safe"),
            (spec.attested, "attested"),
            (spec.self_terminating, "self-terminating"),
            (spec.destructive, "destructive"),
        ]
        .into_iter()
        .filter_map(|(set, name)| set.then_some(name))
        .collect();
        table.push_str(&format!(
            "{} {} {} [{}] {}s\n",
            spec.lane,
            kind,
            roles.join(","),
            flags.join(" "),
            spec.timeout_s
        ));
    }
    expect![[r#"
        control inventory.refresh node,site,ramdisk [retry-safe] 120s
        control diag.nvml node,ramdisk [retry-safe attested] 120s
        control gpu.reset node [attested destructive] 300s
        control node.reboot node,site [retry-safe self-terminating destructive] 900s
        control daemon.upgrade node,site [retry-safe self-terminating] 900s
        control bmc.query site [retry-safe] 120s
        control bmc.boot site [retry-safe destructive] 120s
        control bmc.power site [destructive] 300s
        control bmc.firmware site [destructive] 3600s
        control bmc.storage site [destructive] 3600s
        control bmc.rotate site [attested destructive] 300s
        control site.httpProxy site [destructive] 60s
        control boot.prepareRamdisk site [retry-safe] 120s
        control boot.cleanUp site [retry-safe] 120s
        control boot.kexec ramdisk [self-terminating] 900s
        provision disk.wipe ramdisk [attested destructive] 21600s
        provision deploy.image ramdisk [destructive] 3600s
        provision diag.dcgm ramdisk,node [retry-safe attested] 3600s
        provision driver.invoke node,site,ramdisk [destructive] 600s
        bulk logs.collect node,site,ramdisk [retry-safe] 900s
        bulk instance.snapshot node [] 25200s
    "#]]
    .assert_eq(&table);
}

#[test]
fn an_unregistered_kind_gets_fifteen_minutes() {
    assert_eq!(timeout_ms("host.paint"), 15 * 60_000);
    assert_eq!(timeout_ms("diag.nvml"), 2 * 60_000);
}

#[test]
fn lanes_have_the_pages_credits_and_workers() {
    let rows: Vec<(&str, u32, u32)> =
        Lane::ALL.iter().map(|lane| (lane.name(), lane.credits(), lane.workers())).collect();
    assert_eq!(rows, [("control", 8, 4), ("provision", 4, 2), ("bulk", 2, 1)]);
}
