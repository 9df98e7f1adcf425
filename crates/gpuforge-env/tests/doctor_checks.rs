//! Single doctor checks: packages, environments, variables, limits, and tools that misbehave.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]
#![cfg(unix)]

use std::time::{Duration, UNIX_EPOCH};

use gpuforge_env::doctor::{
    CHECKS,
    Status::{Critical, Error, Healthy, Unknown, Warning},
};

#[allow(dead_code, reason = "each test file uses its own part of this module")]
#[path = "simulated_host/mod.rs"]
mod machine;
use machine::{NVIDIA, Sim, expect, says, with};

#[test]
fn builds_for_another_accelerator() {
    let cpu = Sim::linux().nvidia("580.95.05").torch("2.14.1+cpu").report();
    expect(&cpu, &with(&NVIDIA, &[("framework-build", Warning)]));
    says(
        &cpu,
        "framework-build",
        "for CPUs only, not for the GPU that is here",
        "gpuforge env recommend --framework pytorch",
    );
    let old = Sim::linux().nvidia("535.104.05").torch("2.14.1+cu130").report();
    expect(&old, &with(&NVIDIA, &[("framework-build", Healthy), ("framework-driver", Error)]));
    says(
        &old,
        "framework-driver",
        "needs driver 580 or newer; this one is 535.104.05",
        "gpuforge env recommend",
    );
    // The default index has no suffix: the package itself says.
    let plain = Sim::linux().nvidia("580.95.05").torch("2.15.0");
    let site = "/usr/lib/python3.12/site-packages";
    let version = "__version__ = '2.15.0+cu132'\ncuda: Optional[str] = '13.2'\nhip: Optional[str] = None\n";
    let plain = plain.file(&format!("{site}/torch/version.py"), version).report();
    expect(&plain, &with(&NVIDIA, &[("framework-build", Healthy), ("framework-driver", Warning)]));
    says(&plain, "framework-driver", "fails below driver 595", "");
}

#[test]
fn builds_without_code_for_the_gpu() {
    let pascal = Sim::linux().nvidia("580.95.05").torch("2.14.1+cu130");
    let pascal = pascal.file("/sys/bus/pci/devices/0000:01:00.0/device", "0x1b80\n").report();
    expect(&pascal, &with(&NVIDIA, &[("framework-build", Healthy), ("framework-driver", Error)]));
    says(&pascal, "framework-driver", "holds no code for compute capability 6.1", "gpuforge env recommend");
    let amd = |device| {
        Sim::linux()
            .groups(&[109])
            .gpu("0000:03:00.0", "1002", device, Some("amdgpu"))
            .node("/dev/kfd", 109, 0o660)
            .node("/dev/dri/renderD128", 109, 0o660)
            .vulkan()
            .torch("2.9.1+rocm6.4")
    };
    let fine = [
        ("kernel-module", Healthy),
        ("device-nodes", Healthy),
        ("vulkan", Healthy),
        ("framework-build", Healthy),
    ];
    expect(&amd("744c").report(), &with(&fine, &[("framework-driver", Healthy)]));
    let small = amd("73df").report();
    expect(&small, &with(&fine, &[("framework-driver", Error)]));
    says(&small, "framework-driver", "torch 2.9.1+rocm6.4 is for ROCm 6.4: holds no code for gfx1031", "");
}

#[test]
fn docs_list_every_check() {
    let document = include_str!("../../../docs/doctor.md");
    for check in CHECKS {
        assert!(
            document.contains(&format!("| `{}` |", check.id)),
            "docs/doctor.md does not list {}",
            check.id
        );
    }
}

#[test]
fn tensorflow_and_jax() {
    let site = "/usr/lib/python3.12/site-packages";
    let sim = Sim::linux()
        .nvidia("580.95.05")
        .package("tensorflow", "2.21.0")
        .file(
            &format!("{site}/tensorflow/python/platform/build_info.py"),
            "build_info = OrderedDict([('is_cuda_build', True), ('is_rocm_build', False), ('cuda_version', '12.5.1')])\n",
        )
        .package("jax", "0.11.2")
        .package("jaxlib", "0.12.0.1");
    let report = sim.report();
    expect(&report, &with(&NVIDIA, &[("framework-build", Error), ("framework-driver", Healthy)]));
    says(&report, "framework-build", "tensorflow 2.21.0 is for CUDA 12.5.1", "tensorflow[and-cuda]");
    says(&report, "framework-build", "jax 0.11.2 is for CPUs only", "--framework jax");
    says(&report, "framework-build", "jaxlib 0.12.0.1 is newer than jax 0.11.2", "one version");
    let whole = Sim::linux()
        .nvidia("580.95.05")
        .package("jax", "0.12.0.1")
        .package("jax_cuda13_plugin", "0.12.0.1")
        .report();
    expect(&whole, &with(&NVIDIA, &[("framework-build", Healthy), ("framework-driver", Healthy)]));
}

#[test]
fn broken_python_environments() {
    let venv = |python: bool| {
        let sim = Sim::linux()
            .var("VIRTUAL_ENV", "/home/mika/p/.venv")
            .file(
                "/home/mika/p/.venv/pyvenv.cfg",
                "home = /opt/python/bin\nuv = 0.9.0\nversion_info = 3.12.3\n",
            )
            .var("PATH", "/home/mika/p/.venv/bin:/usr/bin");
        if python {
            sim.tool_at("/home/mika/p/.venv/bin/python", "")
        } else {
            sim.link("/home/mika/p/.venv/bin/python", "/opt/python/bin/python")
        }
    };
    let report = venv(false).report();
    expect(&report, &[("python-env", Error)]);
    says(
        &report,
        "python-env",
        "does not resolve: the Python it was made with (/opt/python/bin) is gone",
        "uv venv",
    );
    let whole = venv(true).report();
    expect(&whole, &[]);
    says(&whole, "python-env", "uv's virtual environment /home/mika/p/.venv, Python 3.12.3", "");
    let both = venv(true).var("CONDA_PREFIX", "/opt/conda").report();
    expect(&both, &[("python-env", Warning)]);
    let shadowed = venv(true).var("CONDA_PREFIX", "/opt/conda").tool_at("/opt/conda/bin/python", "");
    let shadowed = shadowed.var("PATH", "/opt/conda/bin:/home/mika/p/.venv/bin").report();
    says(
        &shadowed,
        "python-env",
        "PATH finds /opt/conda/bin/python before the environment's",
        "conda deactivate",
    );
    let gone = Sim::linux().var("VIRTUAL_ENV", "/home/mika/gone").report();
    says(&gone, "python-env", "there is no such directory", "");
    let conda = Sim::linux().var("CONDA_PREFIX", "/opt/conda/envs/x").report();
    expect(&conda, &[("python-env", Error)]);
    let conda =
        Sim::linux().var("CONDA_PREFIX", "/opt/conda").file("/opt/conda/conda-meta/history", "").report();
    expect(&conda, &[("python-env", Warning)]);
    let none = Sim::linux().var("PATH", "/nowhere").report();
    expect(&none, &[("python-env", Warning)]);
    says(&none, "python-env", "no Python is on PATH", "uv python install");
}

#[test]
fn variables_that_hide_devices() {
    let nvidia = || Sim::linux().nvidia("580.95.05");
    for value in ["", "-1", "NoDevFiles"] {
        let report = nvidia().var("CUDA_VISIBLE_DEVICES", value).report();
        expect(&report, &with(&NVIDIA, &[("variables", Warning)]));
        says(&report, "variables", "hides every GPU", "unset CUDA_VISIBLE_DEVICES");
        assert_eq!(report.changes().len(), 1);
    }
    let wrong = nvidia().var("CUDA_VISIBLE_DEVICES", "0,1").report();
    expect(&wrong, &with(&NVIDIA, &[("variables", Error)]));
    says(&wrong, "variables", "names GPU 1, and there are 1", "");
    expect(&nvidia().var("CUDA_VISIBLE_DEVICES", "0").report(), &NVIDIA);
    expect(&nvidia().var("CUDA_VISIBLE_DEVICES", "GPU-0123abcd").report(), &NVIDIA);
    let stubs = nvidia().file("/usr/local/cuda/lib64/stubs/libcuda.so", "");
    let stubs = stubs.var("LD_LIBRARY_PATH", "/opt/x:/usr/local/cuda/lib64/stubs").report();
    expect(&stubs, &with(&NVIDIA, &[("variables", Error)]));
    says(&stubs, "variables", "for linking only", "take it out");
    assert_eq!(stubs.changes()[0].value.as_deref(), Some("/opt/x"));
    let second = nvidia().torch("2.14.1+cu130").file("/usr/local/cuda/lib64/libcublas.so.12", "");
    let second = second.var("LD_LIBRARY_PATH", "/usr/local/cuda/lib64").report();
    assert_eq!(second.get("variables").unwrap().status, Warning);
    says(
        &second,
        "variables",
        "puts another libcublas.so before those of installed frameworks",
        "take it out",
    );
    let icd = nvidia().var("VK_ICD_FILENAMES", "/gone/icd.json").report();
    expect(&icd, &with(&NVIDIA, &[("variables", Error), ("vulkan", Warning)]));
    let amd = Sim::linux()
        .groups(&[109])
        .gpu("0000:03:00.0", "1002", "744c", Some("amdgpu"))
        .var("HIP_VISIBLE_DEVICES", "-1");
    assert_eq!(amd.report().get("variables").unwrap().status, Warning);
    // Nothing to hide, no harm.
    expect(&Sim::linux().var("CUDA_VISIBLE_DEVICES", "-1").report(), &[]);
    let intel = || Sim::linux().gpu("0000:00:02.0", "8086", "56a0", Some("i915"));
    let selected =
        |value| intel().var("ONEAPI_DEVICE_SELECTOR", value).report().get("variables").unwrap().status;
    assert_eq!(
        [selected("opencl:cpu"), selected("level_zero:gpu"), selected("!opencl:*")],
        [Warning, Healthy, Healthy]
    );
}

#[test]
fn vulkan_manifests_of_missing_drivers() {
    let sim = Sim::linux()
        .gpu("0000:03:00.0", "1002", "744c", Some("amdgpu"))
        .groups(&[109])
        .node("/dev/kfd", 109, 0o660)
        .node("/dev/dri/renderD128", 109, 0o660)
        .vulkan()
        .file("/usr/share/vulkan/icd.d/amd_icd64.json", r#"{"ICD": {"library_path": "/opt/amdgpu/gone.so"}}"#)
        .file("/etc/vulkan/icd.d/broken.json", "{");
    let report = sim.report();
    expect(&report, &[("kernel-module", Healthy), ("device-nodes", Healthy), ("vulkan", Warning)]);
    says(&report, "vulkan", "the loader and radeon_icd.json", "");
    says(
        &report,
        "vulkan",
        "amd_icd64.json: names /opt/amdgpu/gone.so, which does not exist",
        "install the driver's package again",
    );
    says(&report, "vulkan", "broken.json: names no library", "");
}

#[test]
fn clocks_and_limits() {
    let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    let early = Sim::linux().report_at(at(1_000_000_000));
    expect(&early, &[("clock", Error)]);
    says(&early, "clock", "the clock says 2001-09-09", "set-ntp");
    expect(&Sim::linux().report_at(at(5_000_000_000)), &[("clock", Error)]);
    // Its files are of today; a clock of an earlier day of this program's life is behind them.
    let behind = Sim::linux().torch("2.14.1+cpu").report_at(at(1_767_225_600));
    expect(&behind, &[("clock", Warning), ("framework-build", Healthy)]);
    says(&behind, "clock", "torch-2.14.1+cpu was installed after that", "");
    let limits = "Max locked memory         65536                65536                bytes     \nMax address space         8589934592           unlimited            bytes     \n";
    let tight = Sim::linux().nvidia("580.95.05").file("/proc/self/limits", limits);
    let tight = tight.file("/sys/class/infiniband/mlx5_0/node_guid", "").report();
    expect(&tight, &with(&NVIDIA, &[("memory-limit", Error)]));
    says(&tight, "memory-limit", "address space is limited to 8.0 GiB", "ulimit -v unlimited");
    says(&tight, "memory-limit", "only 64 KiB may be locked", "memlock");
    let group = Sim::linux()
        .file("/proc/self/cgroup", "0::/\n")
        .file("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n")
        .file("/sys/fs/cgroup/memory.max", "2147483648\n")
        .report();
    expect(&group, &[("memory-limit", Warning)]);
    says(&group, "memory-limit", "allows 2.0 GiB only", "");
}

#[test]
fn package_indexes_reachable_or_not() {
    let asked = |sim: Sim| sim.online(&["https://one.example/simple", "https://two.example:444/x"]);
    let none = asked(Sim::linux());
    expect(&none, &[("network", Error)]);
    says(&none, "network", "one.example: no answer within 1500 ms", "HTTPS_PROXY");
    let one = asked(Sim::linux().host("one.example"));
    expect(&one, &[("network", Warning)]);
    let both = asked(Sim::linux().host("one.example").host("two.example"));
    expect(&both, &[("network", Healthy)]);
    says(&both, "network", "one.example: 20 ms; two.example: 20 ms", "");
    let own =
        asked(Sim::linux().host("own.example").var("PIP_INDEX_URL", "https://me:secret@own.example/simple"));
    expect(&own, &[("network", Healthy)]);
    assert!(!own.get("network").unwrap().evidence.contains("secret"));
    let proxy = asked(Sim::linux().var("HTTPS_PROXY", "http://me:secret@proxy.example:3128"));
    expect(&proxy, &[("network", Error)]);
    says(&proxy, "network", "the proxy proxy.example:3128 cannot be reached", "");
    assert!(!format!("{proxy:?}").contains("secret"));
}

#[test]
fn a_tool_that_floods_or_cannot_start() {
    let flood =
        Sim::linux().nvidia("580.95.05").tool("nvidia-smi", "yes 'GPU 0: x' | head -c 3000000").report();
    assert!(flood.get("driver-answers").unwrap().evidence.len() < 1000);
    let broken =
        Sim::linux().nvidia("580.95.05").tool_text("nvidia-smi", "#!/no/such/interpreter\n").report();
    expect(&broken, &with(&NVIDIA, &[("driver-answers", Unknown)]));
    let escapes = Sim::linux()
        .nvidia("580.95.05")
        .tool("nvidia-smi", "printf '\\033[31mGPU is lost\\a'; exit 1")
        .report();
    expect(&escapes, &with(&NVIDIA, &[("driver-answers", Critical)]));
    assert!(!escapes.get("driver-answers").unwrap().evidence.contains(['\u{1b}', '\u{7}']));
}

#[test]
fn frameworks_are_imported_only_with_deep() {
    let sim = |script: &str| {
        let script = format!("case \"$2\" in *torch*) {script};; *) exit 3;; esac");
        Sim::linux().nvidia("580.95.05").torch("2.14.1+cu130").tool("python3", &script)
    };
    let fine = [("framework-build", Healthy), ("framework-driver", Healthy)];
    let of = |status| with(&with(&NVIDIA, &fine), &[("framework-gpu", status)]);
    let seen = sim("echo noise; echo gpus: 1").deep();
    expect(&seen, &of(Healthy));
    says(&seen, "framework-gpu", "torch sees 1 GPU", "");
    let blind = sim("echo gpus: 0").deep();
    expect(&blind, &of(Error));
    says(&blind, "framework-gpu", "torch starts, and sees no GPU", "gpuforge explain");
    let broken = sim("echo 'Traceback'; echo 'ImportError: libcudnn.so.9' >&2; exit 1").deep();
    expect(&broken, &of(Error));
    says(
        &broken,
        "framework-gpu",
        "torch cannot be imported: ImportError: libcudnn.so.9",
        "gpuforge explain",
    );
    let mute = sim("echo hello").deep();
    expect(&mute, &of(Unknown));
    expect(&sim("exit 1").report(), &with(&NVIDIA, &fine));
}

#[test]
fn a_bundle_is_redacted() {
    let sim = Sim::linux()
        .nvidia("580.95.05")
        .torch("2.14.1+cpu")
        .space("/home", 1 << 40, 0)
        .file("/etc/hostname", "workbench.lan\n")
        .var("LD_LIBRARY_PATH", "/home/mika/lib:/data/aa:bb:cc:dd:ee:ff")
        .var("CUDA_VISIBLE_DEVICES", "GPU-01234567-89ab-cdef-0123-456789abcdef")
        .var("CUDA_HOME", "/home/mika/cuda")
        .var(
            "NVIDIA_VISIBLE_DEVICES",
            "host workbench at 192.168.7.12 fe80::aede:48ff:fe00:1122 Serial: 1324521000123",
        )
        .var("AWS_SECRET_ACCESS_KEY", "hunter2")
        .tool(
            "nvidia-smi",
            "echo 'mika@workbench: 10.20.30.40 GPU-01234567-89ab-cdef-0123-456789abcdef'; exit 9",
        );
    let (report, text) = sim.bundle();
    assert!(
        report.get("driver-answers").unwrap().evidence.contains("10.20.30.40"),
        "the report itself is whole"
    );
    for secret in [
        "mika",
        "workbench",
        "192.168.7.12",
        "10.20.30.40",
        "fe80",
        "aa:bb:cc",
        "01234567-89ab",
        "1324521000123",
        "hunter2",
    ] {
        assert!(!text.contains(secret), "{secret} is in the bundle:\n{text}");
    }
    for fact in [
        "580.95.05",
        "0000:01:00.0",
        "torch",
        "\"worst\"",
        "6.8.0-45-generic",
        "<home>",
        "<ip>",
        "<mac>",
        "<id>",
        "<serial>",
        "<host>",
    ] {
        assert!(text.contains(fact), "{fact} is not in the bundle:\n{text}");
    }
}

#[test]
fn disk_space_of_a_directory_that_does_not_exist_yet() {
    let sim = Sim::linux().space("/big", 9_000_000_000, 1).dir("/big").var("UV_CACHE_DIR", "/big/not/yet");
    says(&sim.report(), "disk", "uv's cache: 0.0 GB free", "");
}
