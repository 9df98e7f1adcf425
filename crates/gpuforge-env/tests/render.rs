//! Rendered environment files: parsed by real parsers and compared with snapshots.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::{path::Path, sync::LazyLock};

use gpuforge_env::{
    compat::{self, CompatTable, HostSpec, host_spec},
    profiles::{self, EnvPlan, Profiles},
    render::{self, FORMATS, is_safe_name},
};

/// Both tables, read once.
fn tables() -> &'static (CompatTable, Profiles) {
    static TABLES: LazyLock<(CompatTable, Profiles)> =
        LazyLock::new(|| (compat::embedded(), profiles::embedded()));
    &TABLES
}

/// The environment of a profile; `gpu` "" = none.
fn plan(gpu: &str, driver: &str, platform: &str, framework: &str, profile: &str) -> EnvPlan {
    let (table, all) = tables();
    let mut found = match gpu {
        "" => HostSpec { arch: "x86_64".to_owned(), ..HostSpec::default() },
        name => host_spec::named(table, name).unwrap(),
    };
    found.driver = (!driver.is_empty()).then(|| driver.parse().unwrap());
    if !platform.is_empty() {
        found.set_platform(platform).unwrap();
    }
    let framework = table.framework(framework).unwrap();
    let answer = compat::resolve(table, framework, &found, None);
    profiles::plan_env(all, all.find(profile).unwrap(), &answer.candidates[0], &framework.import, &found)
}

/// Machines that together show every way a file can look.
const CASES: [(&str, &str, &str, &str, &str, &str); 9] = [
    ("default", "RTX 4090", "595.58.03", "", "pytorch", "deep_learning"),
    ("index", "RTX 4090", "580.95.05", "", "pytorch", "computer_vision"),
    ("pascal", "GTX 1080", "580.95.05", "", "pytorch", "research"),
    ("rocm", "RX 7900 XTX", "", "", "pytorch", "nlp"),
    ("xpu", "Intel Arc B580", "", "windows-x86_64", "pytorch", "learning"),
    ("mps", "Apple M3", "", "", "pytorch", "lightweight"),
    ("cpu", "", "", "linux-x86_64", "pytorch", "production"),
    ("tensorflow", "T4", "580.95.05", "", "tensorflow", "reinforcement_learning"),
    ("jax", "V100", "580.95.05", "", "jax", "nlp"),
];

/// Addresses with their hosts left out: those are the table's alone.
fn without_hosts(text: &str) -> String {
    let mut parts = text.split("https://");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_alphanumeric() || ".-".contains(c))).unwrap_or(part.len());
        out.push_str("https://HOST");
        out.push_str(&part[end..]);
    }
    out
}

#[test]
fn rendered_files_match_snapshots() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = Vec::new();
    for (case, gpu, driver, platform, framework, profile) in CASES {
        let plan = plan(gpu, driver, platform, framework, profile);
        let mut files: Vec<(&str, String)> = FORMATS.iter().map(|f| (f.file, (f.render)(&plan))).collect();
        files.push((render::CHECK_FILE, render::check_script(&plan)));
        for (file, text) in files {
            let text = without_hosts(&text);
            let path = dir.join(case).join(format!("{file}.txt"));
            if update {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, &text).unwrap();
            } else if std::fs::read_to_string(&path).unwrap_or_default() != text {
                wrong.push(format!("{case}/{file}:\n{text}"));
            }
        }
    }
    assert!(wrong.is_empty(), "set UPDATE=1 to accept:\n{}", wrong.join("\n"));
}

#[test]
fn manual_installs_use_the_pip_of_the_environment() {
    let plan = plan("RTX 4090", "595.58.03", "", "pytorch", "deep_learning");
    for (format, own) in [
        ("pip", ".venv/bin/python -m pip install flash-attn"),
        ("uv", "uv pip install flash-attn"),
        ("conda", "conda run -n gpuforge-deep-learning python -m pip install flash-attn"),
        ("pixi", "pixi run python -m pip install flash-attn"),
        ("docker", "RUN pip install flash-attn"),
    ] {
        let text = (render::find(format).unwrap().render)(&plan);
        assert!(text.contains(own), "{format}: {text}");
    }
}

/// Every profile with every framework on several machines.
fn every_plan() -> Vec<EnvPlan> {
    let machines = [
        ("RTX 4090", "595.58.03", ""),
        ("GTX 1080", "580.95.05", ""),
        ("RTX 4090", "580.95.05", "windows-x86_64"),
        ("RX 7900 XTX", "", ""),
        ("Intel Arc A770", "", ""),
        ("Apple M2", "", ""),
        ("", "", "linux-x86_64"),
    ];
    let names: Vec<String> = profiles::embedded().profile.iter().map(|p| p.name.clone()).collect();
    let mut plans = Vec::new();
    for (gpu, driver, platform) in machines {
        for framework in ["pytorch", "tensorflow", "jax"] {
            plans.extend(names.iter().map(|name| plan(gpu, driver, platform, framework, name)));
        }
    }
    plans
}

fn rendered(name: &str, plan: &EnvPlan) -> String {
    (render::find(name).unwrap().render)(plan)
}

#[test]
fn requirements_txt_parses() {
    for plan in every_plan() {
        let text = rendered("pip", &plan);
        let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
        let (options, names): (Vec<&str>, Vec<&str>) = lines.iter().partition(|l| l.starts_with("--"));
        assert_eq!(options.len(), usize::from(plan.candidate.index.is_some()), "{text}");
        assert!(options.iter().all(|o| o.starts_with("--extra-index-url https://")), "{text}");
        assert_eq!(names.len(), plan.packages.len());
        // A local label is only ever asked of the index that has it.
        for name in names {
            let label = name.contains('+');
            assert!(!label || plan.candidate.index.is_some(), "{name}");
            assert!(is_safe_name(&name.replace('+', ".")), "{name}");
        }
        let mut seen: Vec<&str> =
            plan.packages.iter().map(|p| p.pip.split(['=', '[']).next().unwrap()).collect();
        seen.sort_unstable();
        assert!(seen.windows(2).all(|w| w[0] != w[1]), "{seen:?}");
    }
}

#[test]
fn yaml_parses_and_names_no_discontinued_channel() {
    for plan in every_plan() {
        let text = rendered("conda", &plan);
        let yaml: serde_norway::Value =
            serde_norway::from_str(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let strings = |key: &str| -> Vec<String> {
            let list = yaml[key].as_sequence().unwrap();
            list.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect()
        };
        assert_eq!(strings("channels"), ["conda-forge", "nodefaults"]);
        let dependencies = strings("dependencies");
        assert_eq!(dependencies[0], format!("python={}", plan.candidate.python));
        let nested = yaml["dependencies"].as_sequence().unwrap().iter().find_map(|v| v.get("pip"));
        let pip: Vec<&str> = nested
            .map_or(Vec::new(), |v| v.as_sequence().unwrap().iter().map(|p| p.as_str().unwrap()).collect());
        // The framework is there once: from conda-forge or through pip.
        let package = plan.candidate.requirement.split(['=', '[']).next().unwrap();
        let conda = dependencies.iter().any(|d| d.starts_with("pytorch"));
        let by_pip = pip.iter().any(|p| p.split(['=', '[']).next() == Some(package));
        assert!(conda != by_pip, "{text}");
        assert_eq!(yaml["name"].as_str().unwrap(), format!("gpuforge-{}", plan.profile.replace('_', "-")));
    }
}

#[test]
fn toml_parses_and_sources_have_their_index() {
    for plan in every_plan() {
        let text = rendered("uv", &plan);
        let project: toml::Table = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let dependencies = project["project"]["dependencies"].as_array().unwrap();
        assert_eq!(dependencies.len(), plan.packages.len());
        let uv = project["tool"]["uv"].as_table().unwrap();
        assert_eq!(uv.contains_key("index"), plan.candidate.index.is_some(), "{text}");
        if let Some(index) = uv.get("index").and_then(|i| i.get(0)) {
            for source in uv["sources"].as_table().unwrap().values() {
                assert_eq!(source["index"], index["name"], "{text}");
            }
        }
        let text = rendered("pixi", &plan);
        let pixi: toml::Table = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(pixi["pypi-dependencies"].as_table().unwrap().len(), plan.packages.len());
        assert_eq!(pixi["workspace"]["platforms"].as_array().unwrap().len(), 1);
    }
}

/// Instructions of a Dockerfile with their arguments, continued lines joined; panics on what Docker would refuse.
fn instructions(text: &str) -> Vec<(String, String)> {
    const KNOWN: [&str; 6] = ["FROM", "ENV", "RUN", "WORKDIR", "COPY", "CMD"];
    let mut found = Vec::new();
    let mut rest = String::new();
    for line in text.lines().filter(|l| !l.trim_start().starts_with('#')) {
        if let Some(continued) = line.strip_suffix('\\') {
            rest.push_str(continued);
            continue;
        }
        rest.push_str(line);
        let whole = std::mem::take(&mut rest);
        if whole.trim().is_empty() {
            continue;
        }
        let (name, arguments) = whole.split_once(' ').unwrap_or_else(|| panic!("no argument: {whole}"));
        assert!(KNOWN.contains(&name), "{name}");
        assert!(!arguments.trim().is_empty(), "{whole}");
        found.push((name.to_owned(), arguments.trim().to_owned()));
    }
    assert!(rest.is_empty(), "the last line goes on: {rest}");
    found
}

#[test]
fn dockerfiles_parse() {
    for plan in every_plan() {
        let text = rendered("docker", &plan);
        let found = instructions(&text);
        assert_eq!(found[0], ("FROM".to_owned(), format!("python:{}-slim", plan.candidate.python)));
        let run: Vec<&str> = found.iter().filter(|(n, _)| n == "RUN").map(|(_, a)| a.as_str()).collect();
        assert_eq!(run.len(), 1);
        assert_eq!(run[0].matches('"').count(), 2 * plan.packages.len(), "{text}");
        assert!(found.iter().filter(|(n, _)| n == "ENV").all(|(_, a)| a.contains('=')));
        let cmd = &found.last().unwrap().1;
        assert_eq!(serde_json::from_str::<Vec<String>>(cmd).unwrap(), ["python", "check_gpu.py"]);
        let cuda = plan.candidate.accelerator == compat::Accelerator::Cuda;
        assert_eq!(text.contains("NVIDIA_VISIBLE_DEVICES=all"), cuda);
    }
}

#[test]
fn apptainer_definitions_have_a_header_and_known_sections() {
    const SECTIONS: [&str; 4] = ["%files", "%post", "%environment", "%runscript"];
    for plan in every_plan() {
        let text = rendered("apptainer", &plan);
        assert!(text.starts_with("Bootstrap: docker\nFrom: python:"), "{text}");
        let sections: Vec<&str> = text.lines().filter(|l| l.starts_with('%')).collect();
        assert_eq!(sections, SECTIONS);
        // What stands in a section is indented; comments and blank lines stand anywhere.
        let from_first = text.split_once("%files").unwrap().1;
        let inside = from_first.lines().filter(|l| !l.is_empty() && !l.starts_with(['%', '#']));
        assert!(inside.into_iter().all(|l| l.starts_with("    ")), "{text}");
    }
}

#[test]
fn scripts_compile_where_python_is() {
    let found = std::process::Command::new("python3").arg("--version").output();
    if !found.is_ok_and(|o| o.status.success()) {
        #[allow(clippy::print_stdout, reason = "says what it skipped")]
        {
            println!("skipped: there is no python3 to compile the scripts with");
        }
        return;
    }
    for framework in ["pytorch", "tensorflow", "jax"] {
        let script = render::check_script(&plan("RTX 4090", "595.58.03", "", framework, "lightweight"));
        assert!(!script.contains('@') || framework == "pytorch" || script.contains("ones @ ones"));
        assert!(!script.contains("@EXPECTED@") && !script.contains("@MODULE@"));
        let compiled = std::process::Command::new("python3")
            .args(["-c", "import ast, sys; ast.parse(sys.argv[1])", &script])
            .output()
            .unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    }
}

#[test]
fn safe_names() {
    for good in ["numpy", "ray[tune]", "cuda-version=13.0", "scikit-learn", "a_b.c"] {
        assert!(is_safe_name(good), "{good}");
    }
    for bad in ["", "-r x", "a b", "a;b", "a\nb", "$(x)", "a\"b", "`x`", "a#b", "a{b}", "é"] {
        assert!(!is_safe_name(bad), "{bad:?}");
    }
    assert!(render::find("Dockerfile").is_some() && render::find("nix").is_none());
}
