//! `Forge`: device selection, deny lists, warm-up history, pipeline cache, status.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use gpuforge::{
    Forge,
    forge::SWITCHES,
    runtime::{
        kernel::{Access, Kernel, put_words, words},
        memory::BudgetOrigin,
        plan::Plan,
        runner::ExecutedOn,
        tensor::{DType, TensorSpec},
        units::Bytes,
    },
    settings::{Settings, UserPaths},
};
use gpuforge_testkit::adapter;

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        World { dir: tempfile::tempdir().unwrap() }
    }

    fn forge(&self, vars: &[(&str, &str)]) -> Forge {
        self.with_flags(vars, &[])
    }

    fn with_flags(&self, vars: &[(&str, &str)], flags: &[(&str, &str)]) -> Forge {
        let path = |name: &str| self.dir.path().join(name);
        let paths =
            UserPaths { config_file: path("c.toml"), cache_dir: path("cache"), data_dir: path("data") };
        let env = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Forge::with(&Settings::load_lenient(&paths, &env, flags), &paths, &env)
    }

    /// Files of compiled pipelines; none where there is no folder.
    fn pipelines(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.dir.path().join("cache/pipelines"));
        entries.map(|all| all.map(|e| e.unwrap().path()).collect()).unwrap_or_default()
    }
}

/// Whatever GPU is first here, software or not.
const FIRST: (&str, &str) = ("GPUFORGE_DEVICE", "0");

/// Does the work run on a device here?
fn has_device(forge: &Forge) -> bool {
    let loaded = forge.load().map_err(|e| e.to_string());
    let device =
        loaded.and_then(|_| forge.status().device.ok_or_else(|| "the work runs on the CPU".to_owned()));
    adapter::or_skip(device).is_some()
}

/// Is there a software adapter? A machine with a GPU may do without.
fn has_software_adapter(forge: &Forge) -> bool {
    let inventory = forge.inventory().unwrap();
    if inventory.gpus.iter().any(|gpu| gpu.display_name().contains("llvmpipe")) {
        return adapter::or_skip(Ok::<_, String>(())).is_some();
    }
    if inventory.gpus.is_empty() {
        return adapter::or_skip(Err::<(), _>(&inventory.best_reason)).is_some();
    }
    println!("skipped: no software adapter beside the GPU");
    false
}

/// A plan that makes the device compile something.
fn double_plan() -> Plan {
    const WGSL: &str = "
        struct Params { v: array<vec4<u32>, 4> }
        @group(0) @binding(0) var<uniform> p: Params;
        @group(0) @binding(1) var<storage, read> a: array<u32>;
        @group(0) @binding(2) var<storage, read_write> out: array<u32>;
        @compute @workgroup_size(64)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            if (id.x < p.v[0].x) { out[id.x] = a[id.x] * 2u; }
        }";
    let kernel = Arc::new(Kernel {
        name: "double".into(),
        wgsl: WGSL.into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Write],
        cpu_reference: Arc::new(|call| {
            if let ([a], [out]) = (call.inputs.as_slice(), call.outputs.as_mut_slice()) {
                put_words(out, words(a).map(|v| v * 2));
            }
            Ok(())
        }),
    });
    let mut plan = Plan::new("double");
    let a = plan.upload([21u32.to_le_bytes(); 16].concat(), "test").unwrap();
    let out = plan.slot(Bytes(64), "test");
    plan.dispatch(&kernel, &[a, out], &[16], [1, 1, 1]).unwrap();
    plan.download(out).unwrap();
    plan
}

fn copy_plan() -> Plan {
    let mut plan = Plan::new("copy");
    let there = plan.upload(vec![7; 64], "test").unwrap();
    plan.download(there).unwrap();
    plan
}

#[test]
fn cpu_only_runs_on_the_cpu_and_is_recorded_in_the_history() {
    let world = World::new();
    let forge = world.forge(&[("GPUFORGE_CPU_ONLY", "1")]);
    let seen: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let sink = seen.clone();
    forge.on_progress(Arc::new(move |p| sink.lock().unwrap().push(p.component)));
    let outcome = forge.run_plan(copy_plan()).unwrap();
    assert_eq!(
        (outcome.chunks[0].executed_on, outcome.chunks[0].outputs[0].as_slice()),
        (ExecutedOn::Cpu, &[7; 64][..])
    );
    assert!(seen.lock().unwrap().contains(&"inventory"));
    let status = forge.status();
    assert!(status.init.total_ms > 0.0 && status.choice.is_some_and(|c| c.device == "cpu"));
    drop(forge);
    let next = world.forge(&[]);
    assert!(next.status().predicted.contains(&"inventory".to_owned()), "{:?}", next.status().predicted);
}

#[test]
fn software_adapter_is_used_if_named() {
    let world = World::new();
    let forge = world.forge(&[("GPUFORGE_DEVICE", "llvmpipe")]);
    if !has_software_adapter(&forge) {
        return;
    }
    let inventory = forge.inventory().unwrap();
    let kept = forge
        .scope(|scope| {
            let mut plan = Plan::new("keep");
            let slot = plan.upload(vec![3; 16], "kept").unwrap();
            plan.keep(slot, TensorSpec { dtype: DType::U32, shape: vec![4], tag: "kept" }).unwrap();
            scope.run(plan).unwrap().chunks[0].kept[0].clone()
        })
        .unwrap();
    assert_eq!(forge.read(&kept).unwrap().as_ref(), [3; 16]);
    let status = forge.status();
    assert!(status.device.is_some_and(|d| d.caps.name.contains("llvmpipe")));
    let metrics = forge.metrics();
    assert!(metrics.reliable && metrics.transfer_bytes.is_some_and(|b| b.0 >= 16), "{metrics:?}");
    assert!(metrics.utilisation.is_none_or(|u| (0.0..=1.5).contains(&u)), "{metrics:?}");
    let index = inventory.best.as_ref().unwrap().index;
    let beside = forge.on_device(index).unwrap();
    assert_eq!(
        beside.run(copy_plan()).unwrap().chunks[0].executed_on,
        ExecutedOn::Device,
        "a second device of its own"
    );
    assert!(forge.on_device(99).is_err());
    forge.reset_device();
    assert!(forge.status().device.is_none());
    assert_eq!(forge.run_plan(copy_plan()).unwrap().chunks[0].executed_on, ExecutedOn::Device);
}

#[test]
fn denied_device_is_not_used() {
    let world = World::new();
    std::fs::write(world.dir.path().join("c.toml"), "devices_deny = [\"llvmpipe\"]\n").unwrap();
    let forge = world.forge(&[("GPUFORGE_DEVICE", "llvmpipe")]);
    if !has_software_adapter(&forge) {
        return;
    }
    assert_eq!(forge.run_plan(copy_plan()).unwrap().chunks[0].executed_on, ExecutedOn::Cpu);
    assert!(forge.status().device.is_none());
}

#[test]
fn warm_up_loads_previously_used_components() {
    let world = World::new();
    drop(world.forge(&[("GPUFORGE_CPU_ONLY", "1")]).run_plan(copy_plan()).unwrap());
    let forge = world.forge(&[("GPUFORGE_WARM", "1"), ("GPUFORGE_CPU_ONLY", "1")]);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let loaded = |forge: &Forge| forge.status().components.iter().any(|c| c.name == "inventory" && c.loaded);
    while !loaded(&forge) {
        assert!(std::time::Instant::now() < until, "the warm-up never came");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(forge.status().components.iter().all(|c| c.access_count == 0), "warming is no use");
    let safe = world.forge(&[("GPUFORGE_WARM", "1"), ("GPUFORGE_SAFE_MODE", "1")]);
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(safe.status().components.iter().all(|c| !c.loaded), "not in safe mode");
}

#[test]
fn pipeline_cache_persists_except_in_safe_mode() {
    let world = World::new();
    let forge = world.forge(&[FIRST]);
    if !has_device(&forge) {
        return;
    }
    let outcome = forge.run_plan(double_plan()).unwrap();
    assert_eq!(outcome.chunks[0].outputs[0], [42u32.to_le_bytes(); 16].concat());
    assert_eq!(outcome.chunks[0].executed_on, ExecutedOn::Device);
    let init = forge.status().device.unwrap().init.unwrap();
    assert!(init.warnings.is_empty() && init.cached_pipelines.is_none(), "{init:?}");
    // The device offers a pipeline cache where one was made for it.
    let keeps = init.phases.iter().any(|p| p.name == "pipeline cache, load");
    drop(forge);
    assert_eq!(world.pipelines().len(), usize::from(keeps), "{init:?}");

    let again = world.forge(&[FIRST]);
    again.load().unwrap();
    let init = again.status().device.unwrap().init.unwrap();
    assert_eq!(init.cached_pipelines.is_some(), keeps, "{init:?}");

    let other = World::new();
    let safe = other.forge(&[FIRST, ("GPUFORGE_SAFE_MODE", "1")]);
    assert_eq!(safe.run_plan(double_plan()).unwrap().chunks[0].executed_on, ExecutedOn::Device);
    let device = safe.status().device.unwrap();
    assert!(device.init.unwrap().phases.iter().all(|p| !p.name.contains("pipeline cache")));
    assert_eq!((device.memory.pool.hits, device.memory.pool.idle), (0, Bytes::ZERO), "no pool either");
    drop(safe);
    assert!(!other.dir.path().join("cache").exists(), "nothing is kept in safe mode");
}

#[test]
fn status_reports_startup_times_and_memory_limit() {
    let world = World::new();
    let forge = world.with_flags(&[FIRST, ("GPUFORGE_MEMORY_LIMIT", "1GiB")], &[("memory_limit", "100MiB")]);
    let limit = forge.status().memory_limit.unwrap();
    assert_eq!((limit.bytes, limit.origin.as_str()), (Bytes::mib(100), "flag"), "before anything is loaded");
    if !has_device(&forge) {
        return;
    }
    let status = forge.status();
    assert!(status.components.iter().all(|c| c.loaded && c.access_count == 0), "{:?}", status.components);
    let device = status.device.unwrap();
    let (budget, most) = (device.memory.budget, device.memory.limit.limit);
    assert_eq!((budget.bytes + device.reserved, most), (Bytes::mib(100), budget.bytes));
    assert_eq!(budget.origin, BudgetOrigin::User);
    let json = serde_json::to_value(&device).unwrap();
    let init = &json["init"];
    assert!(init["start"] == "cold" || init["start"] == "warm", "{init}");
    assert!(init["total_ms"].as_f64().unwrap() > 0.0 && init["overlap"].as_f64().unwrap() > 0.0, "{init}");
    let names: Vec<&str> =
        init["phases"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"instance") && names.contains(&"adapter") && names.contains(&"device"), "{init}");
}

#[test]
fn safe_mode_description_lists_everything_it_disables() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
    let page = std::fs::read_to_string(page).unwrap();
    let row = page.lines().find(|l| l.contains("`GPUFORGE_SAFE_MODE=1`")).unwrap();
    let (_, switch) = SWITCHES.iter().find(|(name, _)| *name == "GPUFORGE_SAFE_MODE").unwrap();
    for off in ["detection cache", "pipeline cache", "memory pool", "warm-up"] {
        let off = format!("no {off}");
        assert!(switch.contains(&off) && row.contains(&off), "{off}: {switch} / {row}");
    }
}
