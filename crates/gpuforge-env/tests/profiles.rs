//! Profiles: fit of a host, and the packages of the planned environment.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::sync::LazyLock;

use gpuforge_env::{
    compat::{self, CompatTable, HostSpec, host_spec},
    data::{DataError, DataTable as _},
    profiles::{self, EnvPlan, Profile, ProfileFit, Profiles},
};

/// Both tables, read once.
fn tables() -> &'static (CompatTable, Profiles) {
    static TABLES: LazyLock<(CompatTable, Profiles)> =
        LazyLock::new(|| (compat::embedded(), profiles::embedded()));
    &TABLES
}

/// The environment of a profile on a machine, and its fit.
fn made(
    gpu: &str,
    gib: Option<u64>,
    platform: &str,
    framework: &str,
    profile: &str,
) -> (EnvPlan, ProfileFit) {
    let (table, all) = tables();
    let mut found = match gpu {
        "" => HostSpec { arch: "x86_64".to_owned(), ..HostSpec::default() },
        name => host_spec::named(table, name).unwrap(),
    };
    found.driver = Some("595.58.03".parse().unwrap());
    if !platform.is_empty() {
        found.set_platform(platform).unwrap();
    }
    if let (Some(gpu), Some(gib)) = (&mut found.gpu, gib) {
        gpu.memory_bytes = Some(gib << 30);
    }
    let framework = table.framework(framework).unwrap();
    let answer = compat::resolve(table, framework, &found, None);
    let profile = all.find(profile).unwrap();
    let plan = profiles::plan_env(all, profile, &answer.candidates[0], &framework.import, &found);
    let fit = profiles::fit(profile, &found, &plan);
    (plan, fit)
}

fn has(plan: &EnvPlan, name: &str) -> bool {
    plan.packages.iter().any(|p| p.pip.split(['=', '[']).next() == Some(name))
}

#[test]
fn eight_profiles_are_embedded_and_valid() {
    let loaded = profiles::load(None).0;
    assert!(loaded.problem.is_none(), "{:?}", loaded.problem);
    let names: Vec<&str> = loaded.value.profile.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "learning",
            "research",
            "computer_vision",
            "nlp",
            "deep_learning",
            "production",
            "lightweight",
            "reinforcement_learning"
        ]
    );
    // A row that nobody uses is a mistyped name.
    for package in &loaded.value.package {
        let used = loaded
            .value
            .profile
            .iter()
            .any(|p| p.packages.iter().chain(&p.when_short).any(|n| *n == package.name));
        assert!(used, "{}", package.name);
    }
    assert!(loaded.value.find("Computer-Vision").is_some());
}

#[test]
fn fit_at_the_memory_bounds() {
    let fit = |gib| made("RTX 3060", Some(gib), "", "pytorch", "research").1.points;
    // research: 6 at least, 12 is good; the CPU reaches 30.
    assert_eq!([fit(12), fit(24)], [100, 100]);
    assert_eq!(fit(6), 60);
    assert_eq!(fit(9), 80);
    assert_eq!(fit(5), 50);
    assert_eq!(fit(1), 30);
    let (_, unknown) = made("A100", None, "", "pytorch", "research");
    assert!(unknown.points == 60 && unknown.reasons[0].contains("not known"));
}

#[test]
fn fit_is_monotonic_in_memory_and_bounded() {
    let all = profiles::embedded();
    for profile in &all.profile {
        let fits: Vec<u8> =
            (1..=48).map(|gib| made("RTX 3060", Some(gib), "", "pytorch", &profile.name).1.points).collect();
        assert!(fits.windows(2).all(|w| w[0] <= w[1]), "{}: {fits:?}", profile.name);
        assert!(
            fits.iter().all(|f| *f <= 100 && *f >= profile.cpu_fit.saturating_sub(15)),
            "{}",
            profile.name
        );
    }
    let (_, none) = made("", None, "", "pytorch", "deep_learning");
    assert!(none.points <= 5 && none.reasons[0].contains("without a GPU"));
    assert_eq!(made("", None, "", "pytorch", "lightweight").1.points, 90);
}

#[test]
fn packages_depend_on_the_gpu() {
    let flash = |gpu| made(gpu, Some(24), "", "pytorch", "deep_learning").0;
    // flash-attn from 8.0 on, and never in a file: it has no wheels.
    let ampere = flash("RTX 3090");
    assert!(ampere.by_hand.iter().any(|b| b.name == "flash-attn") && !has(&ampere, "flash-attn"));
    let turing = flash("RTX 2080 Ti");
    let left = turing.left_out.iter().find(|l| l.name == "flash-attn").unwrap();
    assert_eq!(left.reason, "needs compute capability 8.0; this is 7.5");
    assert!(has(&turing, "xformers") && has(&turing, "bitsandbytes"));
    let pascal = flash("GTX 1080");
    assert!(!has(&pascal, "xformers") && has(&pascal, "bitsandbytes"));
    let amd = flash("RX 7900 XTX");
    assert!(!has(&amd, "bitsandbytes") && amd.left_out.iter().any(|l| l.reason.contains("needs CUDA")));
    // A GPU that is short of memory gets help.
    assert!(has(&made("RTX 3060", Some(6), "", "pytorch", "nlp").0, "bitsandbytes"));
    assert!(!has(&made("RTX 3060", Some(12), "", "pytorch", "nlp").0, "bitsandbytes"));
    assert!(!has(&made("", None, "", "pytorch", "nlp").0, "bitsandbytes"));
}

#[test]
fn packages_depend_on_framework_and_os() {
    let torch = made("RTX 4090", None, "", "pytorch", "computer_vision").0;
    assert!(torch.packages.iter().any(|p| p.pip == "torchvision==0.29.2") && has(&torch, "timm"));
    let jax = made("RTX 4090", None, "", "jax", "computer_vision").0;
    assert!(!has(&jax, "timm") && !has(&jax, "torchvision") && has(&jax, "opencv-python-headless"));
    // What belongs to another framework is not missed.
    assert!(jax.left_out.is_empty());
    assert!(has(&made("", None, "linux", "pytorch", "production").0, "gunicorn"));
    let windows = made("", None, "windows", "pytorch", "production").0;
    assert!(!has(&windows, "gunicorn") && windows.left_out[0].reason.contains("windows"));
    // No profile names anything but the framework that was asked for.
    for profile in &profiles::embedded().profile {
        let plan = made("RTX 4090", None, "", "tensorflow", &profile.name).0;
        assert!(!plan.packages.iter().any(|p| p.pip.starts_with("torch")), "{}", profile.name);
    }
}

#[test]
fn pins_apply_to_their_python_range() {
    let pinned = made("RTX 4090", None, "", "pytorch", "production").0;
    assert!(
        pinned.packages.iter().any(|p| p.pip == "numpy==2.5.4" && p.conda.as_deref() == Some("numpy=2.5.4"))
    );
    // The last PyTorch for a K80 has no Python that the versions are for.
    let old = made("K80", None, "", "pytorch", "production").0;
    assert_eq!(old.candidate.python.to_string(), "3.11");
    assert!(old.packages.iter().any(|p| p.pip == "numpy"));
}

#[test]
fn advice_depends_on_the_gpu() {
    let advice = |gpu, gib| made(gpu, gib, "", "pytorch", "deep_learning").0.advice.join("\n");
    assert!(advice("RTX 3090", None).contains("bfloat16: compute capability 8.6"));
    assert!(advice("T4", None).contains("float16 with loss scaling"));
    assert!(advice("GTX 1080", None).contains("float32"));
    assert!(advice("RTX 3060", Some(12)).contains("12 GiB is less than the 24"));
    assert!(advice("", None).is_empty());
}

#[test]
fn user_profiles_are_added() {
    let dir = tempfile::tempdir().unwrap();
    let profile_dir = dir.path().join("profiles");
    std::fs::create_dir_all(&profile_dir).unwrap();
    std::fs::write(
        profile_dir.join("audio.toml"),
        "least = 4\ngood = 8\npackages = ['librosa', 'soundfile']\n",
    )
    .unwrap();
    std::fs::write(profile_dir.join("learning.toml"), "packages = ['numpy']\n").unwrap();
    std::fs::write(profile_dir.join("broken.toml"), "packages = [\n  'numpy'\nleast = \n").unwrap();
    std::fs::write(profile_dir.join("hostile.toml"), "packages = ['numpy; rm -rf ~']\n").unwrap();
    let (loaded, problems) = profiles::load(Some(dir.path()));
    let audio = loaded.value.find("audio").unwrap();
    assert_eq!((audio.good, audio.cpu_fit, audio.packages.len()), (8.0, 50, 2));
    assert_eq!(loaded.value.find("learning").unwrap().packages, ["numpy"]);
    assert_eq!(loaded.value.profile.len(), 9);
    assert_eq!(problems.len(), 2);
    assert!(matches!(&problems[0], DataError::Syntax { line, .. } if *line >= 2), "{:?}", problems[0]);
    assert!(problems[1].to_string().contains("is not a package name"), "{}", problems[1]);
}

#[test]
fn invalid_profiles_are_rejected() {
    let sound =
        Profile { name: "x".to_owned(), good: 1.0, packages: vec!["numpy".to_owned()], ..Profile::default() };
    let check =
        |profile: Profile| Profiles { version: 1, profile: vec![profile], package: Vec::new() }.check();
    assert!(check(sound.clone()).is_ok());
    let wrong = [
        Profile { name: "a b".to_owned(), ..sound.clone() },
        Profile { least: 2.0, ..sound.clone() },
        Profile { least: f64::NAN, ..sound.clone() },
        Profile { cpu_fit: 101, ..sound.clone() },
        Profile { packages: Vec::new(), ..sound.clone() },
        Profile { packages: vec!["--index-url".to_owned()], ..sound.clone() },
        Profile { title: "a\nb".to_owned(), ..sound.clone() },
    ];
    for profile in wrong {
        assert!(check(profile.clone()).is_err(), "{profile:?}");
    }
    let twice = Profiles { version: 1, profile: vec![sound.clone(), sound], package: Vec::new() };
    assert!(twice.check().is_err());
}
