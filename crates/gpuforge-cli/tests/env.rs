//! `gpuforge env`: recommendations, generated files, installation, rejected input.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use std::{fs, path::Path};

use common::{RunOutput, Sandbox, run};

fn gpuforge(sandbox: &Sandbox, args: &[&str]) -> RunOutput {
    run(sandbox.gpuforge(args).current_dir(sandbox.path("")))
}

#[test]
fn recommend_gives_reasons() {
    let sandbox = Sandbox::new();
    let args = ["env", "recommend", "--for", "GTX 1080", "--driver", "580.95.05"];
    let text = gpuforge(&sandbox, &args).ok().stdout;
    for part in ["torch==2.14.1+cu126", "because:", "Not chosen", "compute capability 6.1", "fit "] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let json = gpuforge(&sandbox, &[&args[..], &["--json"]].concat()).json();
    assert_eq!(json["plan"]["candidate"]["build"], "cu126");
    assert_eq!(json["machine"]["gpu"]["target"], "6.1");
    assert!(json["rejected"].as_array().unwrap().iter().all(|r| r["reason"].as_str().unwrap().len() > 5));
    let jax =
        gpuforge(&sandbox, &["env", "recommend", "--for", "aws:p3.2xlarge", "--framework", "jax", "--json"])
            .json();
    assert_eq!(jax["plan"]["candidate"]["requirement"], "jax[cuda12]==0.12.0.1");
}

#[test]
fn flags_describe_any_target_machine() {
    let sandbox = Sandbox::new();
    let build = |args: &[&str]| {
        let all = [&["env", "recommend", "--json"], args].concat();
        gpuforge(&sandbox, &all).json()["plan"]["candidate"]["build"].as_str().unwrap().to_owned()
    };
    assert_eq!(build(&["--cpu-only"]), "cpu");
    assert_eq!(
        build(&["--compute-capability", "12.0", "--driver", "570.124.06", "--platform", "linux"]),
        "cu128"
    );
    assert_eq!(build(&["--compute-capability", "gfx1100", "--platform", "linux-x86_64"]), "rocm7.2");
    assert_eq!(build(&["--for", "gcp:a2-highgpu-1g", "--driver", "595.58.03"]), "cu132");
    let paste = sandbox.path("smi.csv");
    fs::write(&paste, "name, driver_version, memory.total [MiB], compute_cap\nTesla V100-SXM2-16GB, 580.95.05, 16384 MiB, 7.0\n").unwrap();
    assert_eq!(build(&["--from", paste.to_str().unwrap()]), "cu126");
    assert_eq!(build(&["--for", "Apple M3 Max", "--os-version", "14.2"]), "mps");
}

#[test]
fn list_and_show_profiles() {
    let sandbox = Sandbox::new();
    let list = gpuforge(&sandbox, &["env", "list", "--for", "RTX 4090", "--json"]).json();
    let profiles = list["profiles"].as_array().unwrap();
    assert_eq!(profiles.len(), 8);
    assert!(
        profiles
            .iter()
            .all(|p| p["fit"].as_u64().unwrap() <= 100 && !p["reasons"].as_array().unwrap().is_empty())
    );
    let fits: Vec<u64> = profiles.iter().map(|p| p["fit"].as_u64().unwrap()).collect();
    assert!(fits.windows(2).all(|w| w[0] >= w[1]));
    let shown = gpuforge(&sandbox, &["env", "show", "deep_learning", "--for", "T4", "--json"]).json();
    assert!(shown["plan"]["left_out"].as_array().unwrap().iter().any(|l| l["name"] == "flash-attn"));
    let text = gpuforge(&sandbox, &["env", "show", "nlp", "--for", "T4"]).ok().stdout;
    assert!(text.contains("spacy") && text.contains("GPU memory"), "{text}");
    // This machine, whatever it is.
    gpuforge(&sandbox, &["env", "list"]).ok();
    gpuforge(&sandbox, &["env", "recommend"]).ok();
}

#[test]
fn output_and_help_fit_narrow_terminals() {
    let sandbox = Sandbox::new();
    for args in [&["env", "list", "--for", "RTX 4090"][..], &["env", "--help"], &["env", "create", "--help"]]
    {
        let ran = run(sandbox.gpuforge(args).env("COLUMNS", "80")).ok();
        for line in ran.stdout.lines() {
            assert!(line.chars().count() <= 80, "{args:?}: {line}");
        }
    }
}

#[test]
fn create_writes_every_format_and_overwrites_nothing() {
    let sandbox = Sandbox::new();
    let args = [
        "env",
        "create",
        "--for",
        "RTX 4090",
        "--driver",
        "580.95.05",
        "--profile",
        "nlp",
        "--format",
        "all",
        "-o",
        "out",
    ];
    gpuforge(&sandbox, &args).ok();
    let files = [
        "requirements.txt",
        "pyproject.toml",
        "environment.yml",
        "pixi.toml",
        "Dockerfile",
        "gpuforge.def",
        "check_gpu.py",
    ];
    let read = |name: &str| fs::read_to_string(sandbox.path("out").join(name)).unwrap();
    for file in files {
        assert!(read(file).len() > 100, "{file}");
    }
    assert!(read("requirements.txt").contains("\ntorch==2.15.0+cu130\n"));
    // The same again is no conflict; another choice is, and nothing is touched then.
    gpuforge(&sandbox, &args).ok();
    let other = [&args[..], &["--cpu-only"]].concat();
    let other: Vec<&str> = other.into_iter().filter(|a| *a != "--for" && *a != "RTX 4090").collect();
    let before: Vec<String> = files.iter().map(|f| read(f)).collect();
    let refused = gpuforge(&sandbox, &other);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("exists already") && refused.stderr.contains("--force"),
        "{}",
        refused.stderr
    );
    assert_eq!(before, files.iter().map(|f| read(f)).collect::<Vec<_>>());
    gpuforge(&sandbox, &[&other[..], &["--force"]].concat()).ok();
    assert!(read("requirements.txt").contains("+cpu") || read("requirements.txt").contains("torch=="));
    let left = fs::read_dir(sandbox.path("out")).unwrap().flatten().count();
    assert_eq!(left, files.len(), "temporary files are gone");
}

#[test]
fn an_existing_file_stops_all_writes() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("out")).unwrap();
    fs::write(sandbox.path("out").join("check_gpu.py"), "mine").unwrap();
    let ran = gpuforge(&sandbox, &["env", "create", "--for", "T4", "-o", "out"]);
    assert_eq!(ran.code, Some(1));
    assert!(!sandbox.path("out").join("requirements.txt").exists());
    assert_eq!(fs::read_to_string(sandbox.path("out").join("check_gpu.py")).unwrap(), "mine");
}

#[test]
fn create_prints_one_format_to_stdout() {
    let sandbox = Sandbox::new();
    let ran = gpuforge(
        &sandbox,
        &["env", "create", "--for", "T4", "--driver", "600", "--profile", "lightweight", "-o", "-"],
    )
    .ok();
    assert!(
        ran.stdout.contains("\ntorch==2.15.0\n") && !ran.stdout.contains("--extra-index-url"),
        "{}",
        ran.stdout
    );
    let two = gpuforge(&sandbox, &["env", "create", "--format", "pip,uv", "-o", "-"]);
    assert_eq!(two.code, Some(2));
    // A container on a Mac is Linux without a GPU.
    let docker = gpuforge(
        &sandbox,
        &["env", "create", "--for", "Apple M2", "--format", "docker", "--profile", "lightweight", "-o", "-"],
    )
    .ok();
    assert!(docker.stdout.contains("torch==2.15.0+cpu"), "{}", docker.stdout);
}

#[test]
fn unknown_names_get_the_nearest_suggestion() {
    let sandbox = Sandbox::new();
    let cases = [
        (&["env", "recommend", "--framework", "pytroch"][..], "did you mean pytorch?"),
        (&["env", "recommend", "--profile", "computer-visoin"], "did you mean computer_vision?"),
        (&["env", "show", "deep_lerning"], "did you mean deep_learning?"),
        (&["env", "create", "--format", "cnda"], "did you mean conda?"),
        (&["env", "recommend", "--for", "rtx 409x"], "did you mean \"rtx 40"),
        (&["env", "recommend", "--for", "aws:q1.large"], "g5"),
        (&["env", "recommend", "--platform", "linux-x86"], "did you mean linux-x86_64?"),
        (&["env", "recommend", "--python", "two"], "such as 3.12"),
        (&["env", "recommend", "--driver", "new"], "580.95.05"),
        (&["env", "recommend", "--compute-capability", "eight"], "8.9"),
        (&["env", "create", "--format", "docker", "--install"], "build images yourself"),
    ];
    for (args, says) in cases {
        let ran = gpuforge(&sandbox, args);
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{args:?}: {}", ran.stderr);
    }
    let json = gpuforge(&sandbox, &["--json", "env", "show", "nothing-like-it"]);
    assert!(json.code == Some(2) && json.stderr.starts_with("{\"error\":"), "{}", json.stderr);
}

#[test]
fn user_tables_are_installed_and_validated() {
    let sandbox = Sandbox::new();
    let table =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpuforge-env/data/compat.toml"))
            .unwrap();
    let newer = sandbox.path("newer.toml");
    fs::write(&newer, table.replace("2.15.0", "2.15.9")).unwrap();
    let installed = gpuforge(&sandbox, &["env", "update", "--from", newer.to_str().unwrap()]).ok();
    assert!(installed.stdout.contains("compat.toml"), "{}", installed.stdout);
    let recommend = ["env", "recommend", "--for", "T4", "--json"];
    assert_eq!(gpuforge(&sandbox, &recommend).json()["plan"]["candidate"]["version"], "2.15.9");
    assert_eq!(gpuforge(&sandbox, &["env", "check-data", "--json"]).json()["holds"], true);
    // An invalid table is rejected, and the previous one stays.
    fs::write(&newer, table.replace("https://download", "http://download")).unwrap();
    let refused = gpuforge(&sandbox, &["env", "update", "--from", newer.to_str().unwrap()]);
    assert!(refused.code == Some(1) && refused.stderr.contains("https"), "{}", refused.stderr);
    assert_eq!(gpuforge(&sandbox, &recommend).json()["plan"]["candidate"]["version"], "2.15.9");
    // A corrupt one is named with line and column; the embedded one is used.
    fs::write(sandbox.path("data").join("compat.toml"), "version = 1\nupdated = \n").unwrap();
    let ran = gpuforge(&sandbox, &recommend).ok();
    assert!(ran.stderr.contains("compat.toml:2:"), "{}", ran.stderr);
    assert!(ran.stdout.contains("\"2.15.0\""));
    assert_eq!(gpuforge(&sandbox, &["env", "check-data"]).code, Some(1));
    let nothing = sandbox.path("nothing.toml");
    fs::write(&nothing, "a = 1\n").unwrap();
    assert_eq!(gpuforge(&sandbox, &["env", "update", "--from", nothing.to_str().unwrap()]).code, Some(1));
}

#[test]
fn user_profiles_are_read() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("data/profiles")).unwrap();
    fs::write(sandbox.path("data/profiles/audio.toml"), "least = 2\ngood = 4\npackages = ['librosa']\n")
        .unwrap();
    let list = gpuforge(&sandbox, &["env", "list", "--for", "T4", "--json"]).json();
    assert!(list["profiles"].as_array().unwrap().iter().any(|p| p["name"] == "audio"));
    fs::write(sandbox.path("mine.toml"), "packages = ['soundfile']\n").unwrap();
    let shown = gpuforge(&sandbox, &["env", "show", "./mine.toml", "--for", "T4", "--json"]).json();
    assert_eq!(shown["plan"]["profile"], "mine");
    fs::write(sandbox.path("mine.toml"), "packages = ['soundfile'\n").unwrap();
    let broken = gpuforge(&sandbox, &["env", "show", "./mine.toml"]);
    assert!(broken.code == Some(2) && broken.stderr.contains("mine.toml:"), "{}", broken.stderr);
    // The preferred profile is the default.
    gpuforge(&sandbox, &["config", "set", "preferred_profile", "audio"]).ok();
    assert_eq!(
        gpuforge(&sandbox, &["env", "recommend", "--for", "T4", "--json"]).json()["plan"]["profile"],
        "audio"
    );
}

/// A directory with a program that does what the script says.
#[cfg(unix)]
fn fake_program(sandbox: &Sandbox, name: &str, script: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = sandbox.path("bin");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

#[cfg(unix)]
#[test]
fn install_uses_an_available_tool() {
    let sandbox = Sandbox::new();
    let uv = r#"echo "uv $*" >> calls
if [ "$1" = venv ]; then mkdir -p .venv/bin; printf '#!/bin/sh\necho checked >> calls\n' > .venv/bin/python; chmod +x .venv/bin/python; fi"#;
    // Only this directory and the shell's own: no other installer is found.
    let path = format!("{}:/bin", fake_program(&sandbox, "uv", uv).display());
    let args = [
        "env",
        "create",
        "--for",
        "T4",
        "--driver",
        "580.95.05",
        "--profile",
        "lightweight",
        "-o",
        "here",
        "--install",
        "--json",
    ];
    let ran = run(sandbox.gpuforge(&args).current_dir(sandbox.path("")).env("PATH", path));
    let json = ran.json();
    assert_eq!(json["installed"]["ok"], true);
    let calls = fs::read_to_string(sandbox.path("here").join("calls")).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    assert_eq!(
        calls,
        [
            "uv venv --python 3.12 .venv",
            "uv pip install --python .venv/bin/python -r requirements.txt --index-strategy unsafe-best-match",
            "checked"
        ]
    );
}

#[cfg(unix)]
#[test]
fn a_failed_installation_is_explained() {
    let sandbox = Sandbox::new();
    let uv = "echo 'working'; echo 'OSError: [Errno 28] No space left on device' >&2; exit 7";
    let path = format!("{}:/bin", fake_program(&sandbox, "uv", uv).display());
    let args = [
        "env",
        "create",
        "--for",
        "T4",
        "--profile",
        "lightweight",
        "--format",
        "pip",
        "-o",
        "here",
        "--install",
    ];
    let ran = run(sandbox.gpuforge(&args).current_dir(sandbox.path("")).env("PATH", &path));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("working") && ran.stderr.contains("No space left"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("`uv venv --python 3.12 .venv` failed") && ran.stderr.contains("hint:"),
        "{}",
        ran.stderr
    );
    // Without any installer nothing is run; the error names them.
    let args = ["env", "create", "--for", "T4", "--format", "pixi", "-o", "there", "--install"];
    let none = run(sandbox.gpuforge(&args).current_dir(sandbox.path("")).env("PATH", sandbox.path("empty")));
    assert!(none.code == Some(1) && none.stderr.contains("none of pixi is installed"), "{}", none.stderr);
}
