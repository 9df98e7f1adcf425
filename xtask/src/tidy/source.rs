//! Rules for source files: who may print or touch a GPU, file size, first line, reasons of lint exceptions.

use super::{
    Finding, rust,
    tree::{File, Tree},
};

/// Files that belong to a binary, by the beginning of their path, and the one that tells tests to print what they skip.
const PRINTERS: [&str; 8] = [
    "crates/gpuforge-cli/",
    "crates/gpuforge-bench/",
    "crates/gpuforge-fuzz/src/main.rs",
    "crates/gpuforge-train/src/main.rs",
    "crates/gpuforge-train/src/bin/",
    "crates/gpuforge-cluster/src/main.rs",
    "crates/gpuforge-cluster/src/bin/",
    "crates/gpuforge-testkit/src/adapter.rs",
];

const PRINT_MACROS: [&str; 5] = ["println!", "eprintln!", "print!", "eprint!", "dbg!"];

/// Crates that may name wgpu, and why.
const WGPU_CRATES: [(&str, &str); 4] = [
    ("gpuforge-runtime", "runs the work"),
    ("gpuforge-detect", "lists adapters"),
    ("gpuforge-bench", "is the bare peer"),
    ("gpuforge-train", "bridges to Burn"),
];

/// What opens or drives a device; gpuforge-detect stops at the adapter.
const DEVICE_WORDS: [&str; 6] = [
    "request_device",
    "create_buffer",
    "create_shader_module",
    "create_compute_pipeline",
    "wgpu::Device",
    "wgpu::Queue",
];

/// Hosts that packages are downloaded from, as the labels around their last dot: not even this rule spells one out.
const INDEX_HOSTS: [(&str, &str); 7] = [
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("download.pytorch", "org"),
    ("pypi.nvidia", "com"),
    ("conda.anaconda", "org"),
    ("repo.anaconda", "com"),
    ("repo.radeon", "com"),
];

/// The first such host in a line.
fn index_host(line: &str) -> Option<String> {
    INDEX_HOSTS.iter().map(|(name, end)| format!("{name}.{end}")).find(|host| line.contains(host.as_str()))
}

/// Tables that may be longer than [`MOST_LINES`], with the reason.
const TABLES: [(&str, &str); 0] = [];

const MOST_LINES: usize = 800;
const MANY_LINES: usize = 600;

/// Printing outside binaries; tests may print.
pub(super) fn prints(tree: &Tree) -> Vec<Finding> {
    let libraries = tree.sources().filter(|file| !PRINTERS.iter().any(|start| file.path.starts_with(start)));
    search(libraries, |line| {
        let word = PRINT_MACROS.iter().find(|word| rust::has_word(line, word))?;
        Some(format!("`{word}` in a library"))
    })
}

/// wgpu outside the crates that may name it, and devices in the one that only lists adapters.
pub(super) fn wgpu(tree: &Tree) -> Vec<Finding> {
    let knows = |file: &File| WGPU_CRATES.iter().any(|(name, _)| file.crate_name() == Some(name));
    let strangers = tree.rust().filter(|file| file.crate_name().is_some() && !knows(file));
    let mut findings = search_all(strangers, |line| {
        rust::has_word(line, "wgpu").then(|| {
            let list: Vec<String> = WGPU_CRATES.iter().map(|(name, why)| format!("{name} {why}")).collect();
            format!("`wgpu` in a crate that may not name it ({})", list.join(", "))
        })
    });
    let detect = tree.rust().filter(|file| file.crate_name() == Some("gpuforge-detect"));
    findings.extend(search_all(detect, |line| {
        let word = DEVICE_WORDS.iter().find(|word| rust::has_word(line, word))?;
        Some(format!("`{word}`: detection opens no device"))
    }));
    findings
}

/// PyO3 outside gpuforge-python, in sources and manifests.
pub(super) fn pyo3(tree: &Tree) -> Vec<Finding> {
    let elsewhere = |file: &&File| file.crate_name().is_some_and(|name| name != "gpuforge-python");
    let mut findings = search_all(tree.rust().filter(elsewhere), |line| {
        rust::has_word(line, "pyo3").then(|| "`pyo3` outside gpuforge-python".to_owned())
    });
    for file in tree.files.iter().filter(elsewhere).filter(|file| file.path.ends_with("/Cargo.toml")) {
        let named = |line: &str| line.split('#').next().is_some_and(|code| rust::has_word(code, "pyo3"));
        let lines = file.text.lines().zip(1..).filter(|(line, _)| named(line));
        findings.extend(lines.map(|(_, number)| Finding::new(&file.path, number, "depends on `pyo3`")));
    }
    findings
}

/// Addresses of package indexes outside gpuforge-env, in anything a crate carries. Text is searched as it stands:
/// an address in a string is the very thing looked for.
pub(super) fn index_addresses(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.crate_name().is_some_and(|name| name != "gpuforge-env"))
    {
        for (line, number) in file.text.lines().zip(1..) {
            if let Some(host) = index_host(line) {
                findings.push(Finding::new(&file.path, number, format!("names the package index `{host}`")));
            }
        }
    }
    findings
}

/// Files that are too long, and exceptions that no longer exist.
pub(super) fn file_size(tree: &Tree) -> Vec<Finding> {
    let excepted = |path: &str| TABLES.iter().any(|(table, _)| *table == path);
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| !excepted(&file.path)) {
        let lines = file.text.lines().count();
        if lines > MOST_LINES {
            findings.push(Finding::new(&file.path, lines, format!("{lines} lines, {MOST_LINES} at most")));
        } else if lines > MANY_LINES {
            findings.push(Finding::warning(
                &file.path,
                lines,
                format!("{lines} lines, better below {MANY_LINES}"),
            ));
        }
    }
    for (table, _) in TABLES.iter().filter(|(table, _)| tree.get(table).is_none()) {
        findings.push(Finding::new(
            "xtask/src/tidy/source.rs",
            1,
            format!("excepts {table}, which is not there"),
        ));
    }
    findings
}

/// Source files whose first line is missing, empty, or a question instead of a name.
pub(super) fn first_line(tree: &Tree) -> Vec<Finding> {
    let ours = tree.sources().chain(tree.rust().filter(|file| file.path.starts_with("xtask/src/")));
    let unnamed = |file: &&File| {
        let first = file.text.lines().next().and_then(|line| line.strip_prefix("//!")).unwrap_or_default();
        let sentence = first.split_inclusive(['.', ':', '?']).next().unwrap_or_default().trim();
        sentence.is_empty() || sentence.ends_with('?')
    };
    ours.filter(unnamed)
        .map(|file| {
            Finding::new(&file.path, 1, "does not begin with `//!` and the name of what it implements")
        })
        .collect()
}

/// `#[allow(…)]` and `#[expect(…)]` without a reason, tests and platform code too (clippy sees only what it compiles).
pub(super) fn lint_reasons(tree: &Tree) -> Vec<Finding> {
    by_attribute(tree, |text| {
        let word = ["allow", "expect"].into_iter().find(|word| calls(text, word))?;
        (!rust::has_word(text, "reason")).then(|| format!("`{word}` without a reason"))
    })
}

/// `#[ignore]` without a reason.
pub(super) fn ignored_tests(tree: &Tree) -> Vec<Finding> {
    by_attribute(tree, |text| {
        let bare =
            text.trim() == "ignore" || (text.starts_with("cfg_attr") && text.trim_end().ends_with("ignore)"));
        bare.then(|| "`ignore` without a reason".to_owned())
    })
}

/// Words of a SAFETY comment that point elsewhere instead of stating a fact.
const ELSEWHERE: [&str; 7] =
    ["as above", "as in `", "see above", "as for `", "as before", "same as", "promised by the caller"];

pub(super) fn safety_comments(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| file.path != "xtask/src/tidy/source.rs") {
        for (at, line) in file.text.lines().enumerate() {
            let comment = line.trim_start().strip_prefix("// SAFETY:").map(str::to_ascii_lowercase);
            let word = comment.and_then(|text| ELSEWHERE.into_iter().find(|word| text.contains(word)));
            findings
                .extend(word.map(|word| Finding::new(&file.path, at + 1, format!("`SAFETY: … {word} …`"))));
        }
    }
    findings
}

fn by_attribute(tree: &Tree, wrong: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let code = rust::code_only(&file.text);
        let attributes = rust::attributes(&code);
        let broken = attributes.iter().filter_map(|attribute| Some((attribute.line, wrong(attribute.text)?)));
        findings.extend(broken.map(|(line, wrong)| Finding::new(&file.path, line, wrong)));
    }
    findings
}

/// Is `word(` in the attribute? Also inside `cfg_attr`.
fn calls(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let after = text.get(at + word.len()..).unwrap_or_default().trim_start();
        let before = text.get(..at).and_then(|t| t.chars().next_back());
        after.starts_with('(') && !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Code outside tests, line by line.
fn search<'a>(files: impl Iterator<Item = &'a File>, wrong: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let broken = file.code_lines().into_iter().filter_map(|(number, line)| Some((number, wrong(&line)?)));
        findings.extend(broken.map(|(number, wrong)| Finding::new(&file.path, number, wrong)));
    }
    findings
}

/// Code of tests too, line by line: a test that opens a device is as bound to wgpu as any code.
fn search_all<'a>(
    files: impl Iterator<Item = &'a File>,
    wrong: impl Fn(&str) -> Option<String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let code = rust::code_only(&file.text);
        let broken = code.lines().zip(1..).filter_map(|(line, number)| Some((number, wrong(line)?)));
        findings.extend(broken.map(|(number, wrong)| Finding::new(&file.path, number, wrong)));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `path:line` of every finding over these files.
    fn places(check: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(|f| format!("{}:{}", f.path, f.line)).collect()
    }

    #[test]
    fn libraries_do_not_print() {
        let code = "//! x\nfn f() {\n    println!(\"a\");\n    // dbg!(x)\n    let s = \"print!(\";\n    dbg!(s);\n}\n#[cfg(test)]\nmod tests {\n    fn t() { println!(); }\n}\n";
        let files = [
            ("crates/a/src/lib.rs", code),
            ("crates/a/tests/t.rs", code),
            ("crates/gpuforge-cli/src/main.rs", code),
            ("crates/gpuforge-train/src/main.rs", code),
            ("crates/gpuforge-train/src/lib.rs", "fn f() { eprintln!() }"),
            ("xtask/src/main.rs", code),
        ];
        assert_eq!(
            places(prints, &files),
            ["crates/a/src/lib.rs:3", "crates/a/src/lib.rs:6", "crates/gpuforge-train/src/lib.rs:1"]
        );
    }

    #[test]
    fn devices_belong_to_the_runtime() {
        let files = [
            ("crates/gpuforge/src/lib.rs", "// wgpu::Instance\nuse wgpu::Instance;"),
            (
                "crates/gpuforge-runtime/src/lib.rs",
                "adapter.request_device(&wgpu::DeviceDescriptor::default())",
            ),
            (
                "crates/gpuforge-detect/src/a.rs",
                "wgpu::Instance::new().enumerate_adapters(x)\n\nadapter.request_device(y)",
            ),
            ("crates/gpuforge-detect/src/b.rs", "fn f(d: &wgpu::Device, l: wgpu::DeviceType) {}"),
            ("crates/gpuforge-detect/src/c.rs", "fn f(l: wgpu::DeviceType) {}"),
        ];
        let want = [
            "crates/gpuforge/src/lib.rs:2",
            "crates/gpuforge-detect/src/a.rs:3",
            "crates/gpuforge-detect/src/b.rs:1",
        ];
        assert_eq!(places(wgpu, &files), want);
    }

    #[test]
    fn python_stays_in_its_crate() {
        let files = [
            ("crates/gpuforge-python/src/lib.rs", "use pyo3::prelude::*;"),
            ("crates/a/src/lib.rs", "use pyo3::prelude::*;"),
            ("crates/a/Cargo.toml", "[dependencies]\n# not pyo3\npyo3 = \"1\""),
        ];
        assert_eq!(places(pyo3, &files), ["crates/a/src/lib.rs:1", "crates/a/Cargo.toml:3"]);
    }

    #[test]
    fn index_addresses_stay_in_env() {
        let files = [
            (
                "crates/gpuforge-env/data/profiles.toml",
                concat!("url = \"https://download.pytorch", ".org/whl\""),
            ),
            ("crates/a/src/lib.rs", concat!("\nconst U: &str = \"https://download.pytorch", ".org/whl\";")),
        ];
        assert_eq!(places(index_addresses, &files), ["crates/a/src/lib.rs:2"]);
    }

    #[test]
    fn size_is_judged_at_the_boundary() {
        let file = |lines: usize| "x\n".repeat(lines);
        let check = |lines, want: &[bool]| {
            let text = file(lines);
            let found = file_size(&Tree::of(&[("crates/a/src/lib.rs", &text)]));
            assert_eq!(found.iter().map(|f| f.warning).collect::<Vec<_>>(), want, "{lines}");
        };
        check(600, &[]);
        check(601, &[true]);
        check(800, &[true]);
        check(801, &[false]);
    }

    #[test]
    fn first_line_names_the_thing() {
        let files = [
            ("crates/a/src/lib.rs", "//! Buffer pool: size classes over free lists. Which block fits?\n"),
            ("crates/a/src/b.rs", "use x;\n//! Pool."),
            ("crates/a/src/c.rs", "//!\n"),
            ("crates/a/src/d.rs", ""),
            ("crates/a/src/f.rs", "//! Is there an idle block that fits? One of a pool.\n"),
            ("crates/a/tests/e.rs", "use x;"),
            ("xtask/src/main.rs", "fn main() {}"),
        ];
        let want = [
            "crates/a/src/b.rs:1",
            "crates/a/src/c.rs:1",
            "crates/a/src/d.rs:1",
            "crates/a/src/f.rs:1",
            "xtask/src/main.rs:1",
        ];
        assert_eq!(places(first_line, &files), want);
    }

    #[test]
    fn exceptions_have_reasons() {
        let code = "#![allow(dead_code)]\n#[expect(x, reason = \"y\")]\nfn a() {}\n#[cfg_attr(unix, allow(z))]\nfn b() {}\n#[allow(\n  x\n)]\nfn c() { r.expect(\"x\") }\n";
        let at = "crates/a/src/lib.rs";
        assert_eq!(
            places(lint_reasons, &[(at, code)]),
            [format!("{at}:1"), format!("{at}:4"), format!("{at}:6")]
        );
        assert_eq!(
            places(lint_reasons, &[(at, "#[allow_internal(x)]\n#[disallow(x)]")]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn ignored_tests_have_reasons() {
        let code =
            "#[ignore]\nfn a() {}\n#[ignore = \"slow\"]\nfn b() {}\n#[cfg_attr(miri, ignore)]\nfn c() {}";
        let at = "crates/a/tests/x.rs";
        assert_eq!(places(ignored_tests, &[(at, code)]), [format!("{at}:1"), format!("{at}:5")]);
    }

    #[test]
    fn safety_comments_state_a_fact() {
        let code = "// SAFETY: as above.\nunsafe { a() }\n    // SAFETY: AVX2 was detected.\n// as above\n";
        let at = "crates/a/src/x.rs";
        assert_eq!(places(safety_comments, &[(at, code)]), [format!("{at}:1")]);
    }
}
