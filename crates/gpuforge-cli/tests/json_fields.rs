//! JSON contract: the set of field paths in each `--json` document equals the committed list `json_fields.txt`.
//!
//! Programs read these documents, so a renamed Rust field must not rename a JSON field. To accept an intended change:
//! `GPUFORGE_WRITE_JSON_FIELDS=1 cargo test -p gpuforge-cli --test json_fields`, then review the diff of the list.
//! `GPUFORGE_JSON_FIELDS_BINARY=FILE` takes the documents from another build of the binary.

#![cfg(target_os = "linux")] // the documents of a live Linux machine; a recording elsewhere has other probes
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails loudly")]

mod common;

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use common::{Sandbox, recording, run};
use serde_json::Value;

/// The committed list.
const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/json_fields.txt");

/// Pasted tool output of gpuforge-detect's own tests.
const PASTED: [&str; 4] = [
    "nvidia_table/two_cards_and_processes.txt",
    "nvidia_xml/mig_and_prohibited.txt",
    "rocminfo/one_agent.txt",
    "lspci/laptop_nnk.txt",
];

/// A log with one known cause.
const LOG: &str = "  File \"/srv/app/train.py\", line 41, in <module>\n    out = model(batch.to(\"cuda\"))\nRuntimeError: CUDA error: \
                   no kernel image is available for execution on the device\n";

/// Every path in a document: `devices[].memory.total`.
fn paths(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                found.insert(at.clone());
                paths(value, &at, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| paths(item, &format!("{at}[]"), found)),
        _ => {}
    }
}

/// The same command, run by another binary where the environment names one.
fn by_named_binary(command: Command) -> Command {
    let Ok(binary) = std::env::var("GPUFORGE_JSON_FIELDS_BINARY") else { return command };
    let mut other = Command::new(binary);
    other.args(command.get_args()).stdin(std::process::Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => other.env(name, value),
            None => other.env_remove(name),
        };
    }
    other
}

fn document(sandbox: &Sandbox, args: &[&str]) -> Value {
    let mut command = sandbox.gpuforge(&[args, &["--json"]].concat());
    command.env("GPUFORGE_CPU_ONLY", "1");
    let ran = run(&mut by_named_binary(command));
    serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|e| panic!("{args:?}: {e}:\n{}\n{}", ran.stdout, ran.stderr))
}

/// A machine with one NVIDIA card, as a directory that `doctor --root` reads.
fn root(sandbox: &Sandbox) -> std::path::PathBuf {
    let root = sandbox.path("root");
    let file = |path: &str, text: &str| {
        let at = root.join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, text).unwrap();
    };
    let at = "sys/bus/pci/devices/0000:01:00.0";
    for (name, text) in [("class", "0x030000\n"), ("vendor", "0x10de\n"), ("device", "0x2684\n")] {
        file(&format!("{at}/{name}"), text);
    }
    file("proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
    file("proc/self/status", "Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t1000\n");
    file("etc/passwd", "user:x:1000:1000::/home/user:/bin/sh\n");
    for directory in ["dev/shm", "tmp", "home/user"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    root
}

/// Each document with the name it has in the list.
fn documents(sandbox: &Sandbox) -> Vec<(&'static str, Vec<Value>)> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpuforge-detect/tests/fixtures");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let pasted = PASTED.map(|name| document(sandbox, &["detect", "--from", &text(&fixtures.join(name))]));
    let recorded = sandbox.path("recorded");
    let cpu =
        "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Test CPU\nflags\t\t: fpu sse2 avx avx2\n";
    recording(&recorded, &[("/proc/cpuinfo", cpu)], &[]);
    let log = sandbox.path("log.txt");
    fs::write(&log, LOG).unwrap();
    vec![
        ("detect --from", pasted.to_vec()),
        ("detect --replay", vec![document(sandbox, &["detect", "--replay", &text(&recorded)])]),
        (
            "route",
            vec![
                document(sandbox, &["route", "xor", "2^20"]),
                document(sandbox, &["route", "matmul", "64", "64", "64"]),
            ],
        ),
        ("indicators list", vec![document(sandbox, &["indicators", "list"])]),
        ("indicators show", vec![document(sandbox, &["indicators", "show", "rsi"])]),
        ("explain", vec![document(sandbox, &["explain", &text(&log)])]),
        ("doctor --root", vec![document(sandbox, &["doctor", "--offline", "--root", &text(&root(sandbox))])]),
        ("status", vec![document(sandbox, &["status"])]),
    ]
}

#[test]
fn field_paths_of_json_documents_equal_the_committed_list() {
    let mut list = String::new();
    for (name, documents) in documents(&Sandbox::new()) {
        let mut found = BTreeSet::new();
        documents.iter().for_each(|document| paths(document, "", &mut found));
        assert!(found.len() > 3, "{name}: {found:?}");
        list.push_str(&format!("# {name}\n"));
        for path in found {
            list.push_str(&path);
            list.push('\n');
        }
    }
    if std::env::var_os("GPUFORGE_WRITE_JSON_FIELDS").is_some() {
        fs::write(LIST, &list).unwrap();
        return;
    }
    let committed = fs::read_to_string(LIST).unwrap();
    let (committed, list): (Vec<_>, Vec<_>) = (committed.lines().collect(), list.lines().collect());
    let lost: Vec<_> = committed.iter().filter(|line| !list.contains(line)).collect();
    let added: Vec<_> = list.iter().filter(|line| !committed.contains(line)).collect();
    assert!(committed == list, "lost: {lost:#?}\nadded: {added:#?}");
}
