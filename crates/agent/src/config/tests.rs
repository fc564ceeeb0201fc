//! Every key's rule by a line that keeps it and lines that break it; the grammar against TOML itself.

use super::*;
use proptest::prelude::*;

mod grammar;

const PIN: &str = "sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
const OTHER_PIN: &str = "sha256/AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The five required keys, on lines 1 to 5, then `rest` from line 6.
fn file(rest: &str) -> String {
    format!(
        "gateway_url = \"https://gw.eu.example.com\"\nsite = \"fsn1\"\nserving_ca_spki_pin = \"{PIN}\"\n\
         join_signing_key_pin = \"{PIN}\"\njoin_encryption_key_pin = \"{PIN}\"\n{rest}"
    )
}

#[track_caller]
fn accepted(rest: &str) -> Config {
    parse(file(rest).as_bytes(), Build::Host).expect("accepted")
}

#[track_caller]
fn refused(rest: &str, line: usize, message: &str) {
    let error = parse(file(rest).as_bytes(), Build::Host).expect_err("refused");
    assert_eq!((error.line, error.message.as_str()), (line, message));
}

/// Every value of `key` in `values` is refused with `message` at the key's line.
#[track_caller]
fn all_refused(section: &str, key: &str, values: &[&str], message: &str) {
    for value in values {
        match section {
            "" => refused(&format!("{key} = {value}\n"), 6, message),
            _ => refused(&format!("[{section}]\n{key} = {value}\n"), 7, message),
        }
    }
}

/// The file with one required key's value replaced.
#[track_caller]
fn required_refused(key: &str, value: &str, message: &str) {
    let mut line = 0;
    let text: Vec<String> = file("")
        .lines()
        .enumerate()
        .map(|(index, old)| match old.starts_with(key) {
            true => {
                line = index + 1;
                format!("{key} = {value}")
            }
            false => old.to_owned(),
        })
        .collect();
    let error = parse(text.join("\n").as_bytes(), Build::Host).expect_err("refused");
    assert_eq!((error.line, error.message), (line, format!("{key} {message}")));
}

#[test]
fn the_file_that_the_install_script_writes_is_accepted_and_everything_else_is_the_default() {
    let text = format!("# Written by the better-compute install script. bcd refuses unknown keys.\n{}", file(""));
    let config = parse(text.as_bytes(), Build::Host).expect("accepted");
    assert_eq!(config.gateway_url.text, "https://gw.eu.example.com");
    assert_eq!((config.gateway_url.host.as_str(), config.gateway_url.port), ("gw.eu.example.com", 443));
    assert_eq!(config.site, "fsn1");
    assert_eq!(config.serving_ca_pin.to_string(), PIN);
    assert_eq!(config.data_dir, Path::new("/var/lib/bcd"));
    assert_eq!(config.socket_path, Path::new("/run/bcd/bcd.sock"));
    assert_eq!(config.journal, Journal { bytes_max: 67_108_864, events_max: 10_000 });
    assert_eq!(config.log, Log { level: Level::Info, json: true });
    assert_eq!(config.update.release_pins, []);
    assert_eq!((config.update.release_threshold, config.update.release_sequence), (1, 0));
    assert_eq!(config.update.entrypoint, Path::new("/usr/local/bin/bcd"));
    assert_eq!(config.update.slots_dir, Path::new("/var/lib/bcd/bin"));
    assert_eq!(config.update.records_dir, Path::new("/var/lib/bcd"));
    assert_eq!((config.balloon_floor_percent, config.emulation, config.host_units), (50, false, true));
    assert_eq!(config.kubernetes, Kubernetes { allowed_clusters: vec![], gpu_api: GpuApi::DevicePlugin });
    assert_eq!((config.imds_listen, config.boot), (None, Boot::default()));
    assert!(config.plugins.sandbox && config.plugins.dir.is_none() && config.plugins.user.is_none());
    assert_eq!((config.helper, config.dev_insecure_h2c), (None, false));
}

#[test]
fn what_the_grammar_lacks_is_refused_by_name_with_its_line() {
    for (rest, message) in [
        ("a = [1]\n", "arrays are not supported"),
        ("a = {}\n", "inline tables are not supported"),
        ("a = 1.5\n", "floats are not supported"),
        ("a = 1e3\n", "floats are not supported"),
        ("a = -inf\n", "floats are not supported"),
        ("a = 1979-05-27\n", "dates and times are not supported"),
        ("a = 07:32:00\n", "dates and times are not supported"),
        ("a = \"\"\"x\"\"\"\n", "multi-line strings are not supported"),
        ("a = '''x'''\n", "multi-line strings are not supported"),
        ("log.level = \"info\"\n", "a key may not be dotted"),
        ("\"site\" = \"x\"\n", "a key may not be quoted"),
        ("[\"log\"]\n", "a section name may not be quoted"),
        ("[a.b]\n", "a section name may not be dotted"),
        ("[[boot]]\n", "arrays of tables are not supported"),
        ("a = 0x10\n", "only decimal integers are supported"),
        ("a = 1__0\n", "_ may stand only between two digits"),
        ("a = 1_\n", "_ may stand only between two digits"),
        ("a = 012\n", "an integer has no leading zero"),
        ("a = 9223372036854775808\n", "an integer does not fit 64 bits"),
        ("a = yes\n", "a value must be a quoted string, a decimal integer, true or false"),
        ("a =\n", "a value is missing"),
        ("a\n", "expected = after a"),
        ("a = \"x\n", "a string is not closed"),
        ("a = 'x\n", "a string is not closed"),
        ("a = \"\\x41\"\n", "a string holds an unknown escape"),
        ("a = \"\\ud800\"\n", "a \\u escape names no character"),
        ("a = \"\\u12\"\n", "a \\u escape has 4 hex digits"),
        ("a = \"x\" b = 1\n", "only a comment may follow here"),
        ("a = 1 \u{7f}\n", "only a comment may follow here"),
        ("# \u{1}\n", "a comment holds a control character"),
        ("[log] level = \"info\"\n", "only a comment may follow here"),
    ] {
        refused(rest, 6, message);
        refused(&format!("\r\n# a comment\n\n{rest}"), 9, message);
    }
    let mut bytes = file("site").into_bytes();
    bytes.push(0xff);
    let error = parse(&bytes, Build::Host).expect_err("not UTF-8");
    assert_eq!(error.to_string(), "line 6: the file is not UTF-8");
}

#[test]
fn unknown_keys_unknown_sections_duplicates_and_wrong_types_are_refused_with_their_line() {
    refused("gateway_urls = \"x\"\n", 6, "unknown key gateway_urls");
    refused("[log]\n\nlevels = \"info\"\n", 8, "unknown key log.levels");
    refused("max_bytes = 5\n", 6, "unknown key max_bytes");
    refused("[journals]\n", 6, "unknown section [journals]");
    refused("site = \"b\"\n", 6, "site is already set on line 2");
    refused("[log]\njson = true\njson = true\n", 8, "log.json is already set on line 7");
    refused("[log]\n[boot]\n[log]\n", 8, "section [log] is already on line 6");
    refused("data_dir = 5\n", 6, "data_dir must be a string, not an integer");
    refused("[journal]\nmax_bytes = \"5\"\n", 7, "journal.max_bytes must be an integer, not a string");
    refused("[log]\njson = 1\n", 7, "log.json must be a boolean, not an integer");
    refused("[host]\nunits = \"false\"\n", 7, "host.units must be a boolean, not a string");
}

#[test]
fn a_file_over_64_kib_is_refused_and_one_of_64_kib_is_not() {
    let mut text = file("");
    text.push('#');
    while text.len() < 65_536 {
        text.push('x');
    }
    parse(text.as_bytes(), Build::Host).expect("64 KiB");
    text.push('x');
    let error = parse(text.as_bytes(), Build::Host).expect_err("too large");
    assert_eq!(error.to_string(), "line 6: the file is larger than 65536 bytes");
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("config.toml");
    stdx::durable::write_file(&path, text.as_bytes(), 0o600).expect("write");
    assert!(matches!(load(&path, Build::Host), Err(ConfigError::Read { .. })), "the file is not even read");
}

#[test]
fn a_missing_required_key_names_the_last_line_it_could_stand_on() {
    for key in ["gateway_url", "site", "serving_ca_spki_pin", "join_signing_key_pin", "join_encryption_key_pin"] {
        let text: String = file("[log]\n").lines().filter(|l| !l.starts_with(key)).map(|l| format!("{l}\n")).collect();
        let error = parse(text.as_bytes(), Build::Host).expect_err("missing");
        assert_eq!(error.to_string(), format!("line 5: the required key {key} is missing"));
    }
}

#[test]
fn the_gateway_url_is_https_without_credentials_or_path() {
    let scheme = "must be an https:// URL without credentials";
    for bad in ["\"http://gw\"", "\"gw\"", "\"https://\"", "\"https://u:p@gw\"", "\"https://gw:0\"", "\"https://gw:x\""]
    {
        required_refused("gateway_url", bad, scheme);
    }
    required_refused("gateway_url", "\"https://gw/api\"", "may not hold a path");
    required_refused("gateway_url", "\"https://gw?x\"", "may hold neither a query, a fragment nor blanks");
    required_refused("gateway_url", "5", "must be a string, not an integer");
}

#[test]
fn a_site_has_no_whitespace_and_a_pin_is_sha256_and_standard_base64_of_32_bytes() {
    for bad in ["\"\"", "\"a b\"", "\"a\\t\"", "\" fsn1\""] {
        required_refused("site", bad, "must be a site id without whitespace");
    }
    for key in ["serving_ca_spki_pin", "join_signing_key_pin", "join_encryption_key_pin"] {
        for bad in [
            "\"\"",
            "\"sha256/\"",
            "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"",
            "\"sha1/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"",
            "\"sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"",
            "\"sha256/AAAA\"",
            "\"sha256/____AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"",
        ] {
            required_refused(key, bad, "must be sha256/ and the standard base64 of 32 bytes");
        }
    }
}

#[test]
fn paths_are_absolute() {
    let message = "must be an absolute path";
    for (section, key) in [
        ("", "data_dir"),
        ("", "socket_path"),
        ("update", "entrypoint"),
        ("update", "slots_dir"),
        ("websocket", "proxy_ca_file"),
        ("boot", "tftp_root"),
        ("plugins", "dir"),
    ] {
        let shown = syntax::shown(section, key);
        all_refused(section, key, &["\"var/lib\"", "\"./x\"", "\"/a\\u0000b\""], &format!("{shown} {message}"));
    }
    let config = accepted("data_dir = \"/data\"\nsocket_path = '/s'\n[plugins]\ndir = \"\"\n");
    assert_eq!((config.data_dir.to_str(), config.socket_path.to_str()), (Some("/data"), Some("/s")));
    assert_eq!(config.update.slots_dir, Path::new("/data/bin"));
    assert_eq!(config.plugins.dir, None, "an empty directory runs no plugin");
}

#[test]
fn the_journal_caps_may_be_lowered_and_never_raised() {
    let config = accepted("[journal]\nmax_bytes = 33_554_432\nmax_events = 100\n");
    assert_eq!(config.journal, Journal { bytes_max: 32 << 20, events_max: 100 });
    refused("[journal]\nmax_bytes = 67108865\n", 7, "journal.max_bytes must be 4194304 to 67108864, not 67108865");
    refused("[journal]\nmax_events = 10001\n", 7, "journal.max_events must be 1 to 10000, not 10001");
    refused("[journal]\nmax_events = -1\n", 7, "journal.max_events must be 1 to 10000, not -1");
}

#[test]
fn the_log_level_is_one_of_four() {
    let config = accepted("[log]\nlevel = \"warn\"\njson = false\n");
    assert_eq!(config.log, Log { level: Level::Warn, json: false });
    all_refused("log", "level", &["\"trace\"", "\"INFO\"", "\"\""], "log.level must be debug, info, warn or error");
}

#[test]
fn cleartext_needs_a_development_build_and_the_key_that_allows_it() {
    refused("dev_insecure_h2c = true\n", 6, "dev_insecure_h2c is only for development builds");
    assert!(!accepted("dev_insecure_h2c = false\n").dev_insecure_h2c);
    let cleartext = file("").replace("https://gw.eu.example.com", "http://127.0.0.1:4000");
    let without = parse(cleartext.as_bytes(), Build::Development).expect_err("needs the key");
    assert_eq!(without.to_string(), "line 1: gateway_url must be an https:// URL without credentials");
    let with = parse(format!("{cleartext}dev_insecure_h2c = true\n").as_bytes(), Build::Development).expect("allowed");
    assert_eq!((with.gateway_url.scheme, with.gateway_url.port), ("http", 4000));
    let socket = "dev_insecure_h2c = true\n[websocket]\nurl = \"ws://gw/v1/session\"\n";
    assert!(parse(file(socket).as_bytes(), Build::Development).is_ok());
}

#[test]
fn digests_are_64_lower_case_hex_digits_and_at_most_16_command_roots() {
    let upper = format!("\"{}\"", HEX.to_uppercase());
    let short = format!("\"{}\"", &HEX[1..]);
    let message = "approver_set_sha256 must be 64 lower-case hex digits";
    all_refused("", "approver_set_sha256", &[&upper, &short, "\"\""], message);
    assert_eq!(accepted(&format!("approver_set_sha256 = \"{HEX}\"\n")).approver_set_sha256.as_deref(), Some(HEX));
    let message = "command_root_sha256 lists what is not 64 lower-case hex digits";
    let trailing = format!("\"{HEX},\"");
    all_refused("", "command_root_sha256", &[&upper, &short, "\"\"", &trailing], message);
    let sixteen = [HEX; 16].join(", ");
    assert_eq!(accepted(&format!("command_root_sha256 = \"{sixteen}\"\n")).command_roots.len(), 16);
    let message = "command_root_sha256 has 17 digests, at most 16 are allowed";
    refused(&format!("command_root_sha256 = \"{sixteen},{HEX}\"\n"), 6, message);
}

#[test]
fn release_keys_are_distinct_and_enough_for_the_threshold() {
    let config = accepted(&format!(
        "[update]\nrelease_pins = \"{PIN}, {OTHER_PIN},{PIN}\"\nrelease_threshold = 2\nrelease_sequence = 7\n\
         entrypoint = \"/opt/bcd\"\nslots_dir = \"/opt/slots\"\n"
    ));
    assert_eq!(config.update.release_pins.len(), 2);
    assert_eq!((config.update.release_threshold, config.update.release_sequence), (2, 7));
    assert_eq!(config.update.records_dir, Path::new("/opt/slots"));
    let message = "update.release_threshold is above the number of distinct update.release_pins";
    refused(&format!("[update]\nrelease_pins = \"{PIN},{PIN}\"\nrelease_threshold = 2\n"), 8, message);
    all_refused("update", "release_threshold", &["0"], "update.release_threshold must be 1 to 16, not 0");
    all_refused("update", "release_threshold", &["17"], "update.release_threshold must be 1 to 16, not 17");
    all_refused("update", "release_sequence", &["-1"], "update.release_sequence must be 0 or more, not -1");
    let message = "update.release_pins must be sha256/ and the standard base64 of 32 bytes";
    all_refused("update", "release_pins", &["\"sha256/x\"", "\",\""], message);
}

#[test]
fn a_helper_needs_an_absolute_socket_and_an_account_that_is_not_root() {
    let message = "helper.socket needs an absolute path and helper.user, the unprivileged account bcd node runs as";
    refused("[helper]\nsocket = \"run/helper.sock\"\nuser = \"bcd\"\n", 7, message);
    refused("[helper]\nsocket = \"\"\nuser = \"bcd\"\n", 7, message);
    refused("[helper]\nsocket = \"/run/helper.sock\"\n", 7, message);
    refused("[helper]\nsocket = \"/run/helper.sock\"\nuser = \"root\"\n", 8, message);
    refused("[helper]\nsocket = \"/run/helper.sock\"\nuser = \"0\"\n", 8, message);
    refused("[helper]\nuser = \"bcd\"\n", 7, message);
    let config = accepted("[helper]\nsocket = \"/run/bcd-helper/helper.sock\"\nuser = \"bcd\"\n");
    assert_eq!(config.update.slots_dir, Path::new("/usr/local/lib/bcd"));
    assert_eq!(config.update.records_dir, Path::new("/usr/local/lib/bcd"));
    assert_eq!(config.helper.expect("helper").user, "bcd");
}

#[test]
fn under_the_helper_nothing_root_runs_lies_where_the_node_may_write() {
    let helper = "[helper]\nsocket = \"/run/h\"\nuser = \"bcd\"\n[update]\n";
    let entrypoint = "under bcd helper, update.entrypoint may not be inside data_dir";
    let slots = "under bcd helper, update.slots_dir may not be inside data_dir";
    refused(&format!("{helper}entrypoint = \"/var/lib/bcd/bcd\"\n"), 10, entrypoint);
    refused(&format!("{helper}entrypoint = \"/usr/../var/lib//bcd/./bcd\"\n"), 10, entrypoint);
    refused(&format!("{helper}slots_dir = \"/var/lib/bcd/bin\"\n"), 10, slots);
    refused(&format!("{helper}slots_dir = \"/var/lib/bcd\"\n"), 10, slots);
    refused(&format!("{helper}slots_dir = \"/opt/../var/lib/bcd/bin\"\n"), 10, slots);
    refused(&format!("{helper}slots_dir = \"/var/lib\"\n"), 10, slots);
    refused(&format!("data_dir = \"/usr/local\"\n{helper}"), 6, entrypoint);
    refused(&format!("data_dir = \"/usr/local/lib/bcd/data\"\n{helper}"), 6, slots);
    accepted(&format!("{helper}slots_dir = \"/var/lib/bcd-slots\"\n"));
    accepted("[update]\nslots_dir = \"/var/lib/bcd/bin\"\n");
}

#[test]
fn a_bridge_is_an_interface_name() {
    let config = accepted("[helper]\ninstance_bridges = \"br0, br-lan.1,\tbr_2\"\n");
    assert_eq!(config.instance_bridges, ["br0", "br-lan.1", "br_2"]);
    assert_eq!(accepted("[helper]\ninstance_bridges = \"\"\n").instance_bridges, [""; 0]);
    for bad in ["br/0", "sixteen-letters-", "br 0", "..", ""] {
        let message = format!("helper.instance_bridges: {bad:?} is not an interface name");
        refused(&format!("[helper]\ninstance_bridges = \"br1,{bad}\"\n"), 7, &message);
    }
}

#[test]
fn bmc_networks_are_cidrs_and_never_empty() {
    let config = accepted("[site]\nbmc_networks = \"10.0.0.0/8, fd00::/8\"\n");
    let inside = |address: &str| config.bmc_networks.iter().any(|n| n.contains(address.parse().expect("address")));
    assert!(inside("10.200.0.1") && inside("fd12::1"));
    assert!(!inside("11.0.0.1") && !inside("fe80::1") && !inside("::ffff:10.0.0.1"));
    for bad in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/+8", "fd00::/129", "x/8"] {
        let message = format!("site.bmc_networks: {bad:?} is not a network in CIDR form");
        refused(&format!("[site]\nbmc_networks = \"{bad}\"\n"), 7, &message);
    }
}

#[test]
fn the_websocket_url_is_wss_and_the_audience_falls_back_to_the_server_name_then_the_host() {
    let url = "[websocket]\nurl = \"wss://ws.example.com:8443/gw/v1/session\"\n";
    assert_eq!(accepted(url).websocket.audience.as_deref(), Some("ws.example.com"));
    let named = accepted(&format!("gateway_server_name = \"gw.internal\"\n{url}"));
    assert_eq!(named.websocket.audience.as_deref(), Some("gw.internal"));
    assert_eq!(accepted(&format!("{url}audience = \"a.b\"\n")).websocket.audience.as_deref(), Some("a.b"));
    let scheme = "websocket.url must be a wss:// URL without credentials";
    all_refused("websocket", "url", &["\"ws://gw/v1/session\"", "\"wss://u@gw/v1/session\"", "\"\""], scheme);
    all_refused("websocket", "url", &["\"wss://gw/v1\""], "websocket.url must end in /v1/session");
}

#[test]
fn the_gateway_server_name_is_a_certificate_name() {
    assert_eq!(accepted("gateway_server_name = \"gw\"\n").gateway_server_name.as_deref(), Some("gw"));
    let message = "gateway_server_name must be a DNS name or an IP address";
    all_refused("", "gateway_server_name", &["\"\"", "\"a b\"", "\"https://gw\""], message);
}

#[test]
fn the_balloon_floor_is_10_to_100_percent() {
    assert_eq!(accepted("[instances]\nballoon_floor_percent = 10\nemulation = true\n").balloon_floor_percent, 10);
    assert_eq!(accepted("[instances]\nballoon_floor_percent = 100\n").balloon_floor_percent, 100);
    for bad in ["9", "101", "-50"] {
        let message = format!("instances.balloon_floor_percent must be 10 to 100, not {bad}");
        all_refused("instances", "balloon_floor_percent", &[bad], &message);
    }
}

#[test]
fn the_metadata_service_listens_on_one_address_or_not_at_all() {
    let listen = accepted("[imds]\nlisten = \"169.254.169.254:80\"\n").imds_listen;
    assert_eq!(listen.map(|address| address.to_string()).as_deref(), Some("169.254.169.254:80"));
    assert_eq!(accepted("[imds]\nlisten = \"\"\n").imds_listen, None);
    let message = "imds.listen must be an address and a port, as 169.254.169.254:80";
    all_refused("imds", "listen", &["\":80\"", "\"169.254.169.254\"", "\"host:80\"", "\"1.2.3.4:0\""], message);
}

#[test]
fn clusters_are_https_with_a_ca_digest_and_the_gpu_api_is_one_of_two() {
    let config = accepted(&format!(
        "[kubernetes]\nallowed_clusters = \"https://a#sha256:{HEX}, https://b:6443#sha256:{HEX}\"\ngpu_api = \"dra\"\n"
    ));
    let ports: Vec<u16> = config.kubernetes.allowed_clusters.iter().map(|cluster| cluster.url.port).collect();
    assert_eq!((ports, config.kubernetes.gpu_api), (vec![443, 6443], GpuApi::Dra));
    for bad in [
        "https://a".to_owned(),
        format!("http://a#sha256:{HEX}"),
        format!("https://a/x#sha256:{HEX}"),
        format!("https://a#sha1:{HEX}"),
        "https://a#sha256:00".to_owned(),
    ] {
        let message = format!(
            "kubernetes.allowed_clusters: {bad:?} is not https://host[:port]#sha256:<64 lower-case hex digits>"
        );
        refused(&format!("[kubernetes]\nallowed_clusters = \"{bad}\"\n"), 7, &message);
    }
    let message = "kubernetes.gpu_api must be device-plugin or dra";
    all_refused("kubernetes", "gpu_api", &["\"both\"", "\"\"", "\"DRA\""], message);
}

#[test]
fn the_boot_section_of_the_page_is_accepted_and_its_values_are_checked() {
    let config = accepted(
        "[boot]\nlisten = \"0.0.0.0:8080\"\nurl = \"http://10.20.0.2:8080\"\n\
         kernel = \"http://10.20.0.2:8080/ramdisk/vmlinuz\"\ninitrd = \"http://10.20.0.2:8080/ramdisk/initrd\"\n\
         cmdline = \"console=ttyS0,115200\"\nserver_ip = \"10.20.0.2\"\nproxy_dhcp = true\ntftp = \":69\"\n\
         tftp_root = \"/srv/bcd/ipxe\"\ncache_max_bytes = 1_000\n",
    );
    assert_eq!(config.boot.tftp.map(|address| address.port()), Some(69));
    assert_eq!((config.boot.proxy_dhcp, config.boot.cache_bytes_max), (true, 1000));
    assert_eq!(accepted("[boot]\nlisten = \"\"\n").boot.listen, None);
    all_refused("boot", "server_ip", &["\"fd00::1\"", "\"\""], "boot.server_ip must be an IPv4 address");
    all_refused("boot", "cmdline", &["\"a\\nb\""], "boot.cmdline may not hold control characters");
    all_refused("boot", "cache_max_bytes", &["-1"], "boot.cache_max_bytes must be 0 or more, not -1");
    let message = "boot.url must be an http:// or https:// URL without credentials";
    all_refused("boot", "url", &["\"ftp://x\"", "\"x\""], message);
    let message = "boot.tftp must be an address and a port, as 0.0.0.0:8080 or :69";
    all_refused("boot", "tftp", &["\"69\"", "\":0\""], message);
}

#[test]
fn plugins_run_as_somebody_unprivileged_below_the_cgroup_root_with_limits_that_are_not_negative() {
    let config = accepted(
        "[plugins]\ndir = \"/usr/local/lib/bcd/plugins\"\nuser = \"bcx\"\nprivileged = \"kata, b.c\"\nsandbox = false\n\
         cgroup = \"/sys/fs/cgroup/system.slice/bcd.service/plugins\"\nmemory_max = 1_073_741_824\npids_max = 256\n",
    );
    assert_eq!((config.plugins.memory_max, config.plugins.pids_max, config.plugins.sandbox), (1 << 30, 256, false));
    assert_eq!(config.plugins.privileged, ["kata", "b.c"]);
    let message = "plugins.user must be the name of an unprivileged account, not root";
    all_refused("plugins", "user", &["\"root\"", "\"0\"", "\"\""], message);
    let message = "plugins.cgroup must be an absolute path under /sys/fs/cgroup";
    all_refused("plugins", "cgroup", &["\"/sys/fs/cgroup\"", "\"/sys/fs/cgroup/../x\"", "\"/x\""], message);
    all_refused("plugins", "memory_max", &["-1"], "plugins.memory_max must be 0 or more, not -1");
    all_refused("plugins", "pids_max", &["-1"], "plugins.pids_max must be 0 or more, not -1");
    all_refused("plugins", "privileged", &["\"-x\""], "plugins.privileged: \"-x\" is not a plugin name");
}

#[test]
fn an_error_prints_the_file_and_the_line_once() {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("config.toml");
    assert!(matches!(load(&path, Build::Host), Err(ConfigError::Missing { .. })));
    stdx::durable::write_file(&path, b"gateway = 1\n", 0o600).expect("write");
    let error = load(&path, Build::Host).expect_err("refused");
    let expected = format!("{}: line 1: unknown key gateway", path.display());
    assert_eq!(stdx::error::chain(&error), expected);
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(parse(&bytes, Build::Host).is_err());
    }

    #[test]
    fn a_mutated_file_is_read_or_refused_with_a_line_inside_it(
        at in any::<proptest::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let text = file(&format!(
            "data_dir = '/d' # c\n[update]\nrelease_pins = \"{PIN}\"\n[boot]\ncache_max_bytes = 1_0\nproxy_dhcp = true\n"
        ));
        let mut bytes = text.into_bytes();
        let index = at.index(bytes.len());
        bytes[index] = byte;
        if cut {
            bytes.truncate(index + 1);
        }
        let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count();
        if let Err(error) = parse(&bytes, Build::Host) {
            prop_assert!((1..=lines).contains(&error.line), "{error}");
        }
    }
}
