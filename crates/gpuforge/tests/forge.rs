//! Does a `Forge` cost nothing until it is used, and tell what it did afterwards?
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

use std::sync::{Arc, Mutex};

use gpuforge::{
    Forge,
    runtime::{
        lazy::State,
        plan::Plan,
        runner::Place,
        tensor::{DType, Spec},
    },
    settings::{Places, Settings},
};

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        World { dir: tempfile::tempdir().unwrap() }
    }

    fn forge(&self, vars: &[(&str, &str)]) -> Forge {
        let path = |name: &str| self.dir.path().join(name);
        let places = Places { config_file: path("c.toml"), cache_dir: path("cache"), data_dir: path("data") };
        let env = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Forge::new(&Settings::load_lenient(&places, &env, &[]), &places, &env)
    }
}

fn copy_plan() -> Plan {
    let mut plan = Plan::new("copy");
    let there = plan.upload(vec![7; 64], "test").unwrap();
    plan.download(there).unwrap();
    plan
}

#[test]
fn a_new_forge_has_loaded_nothing() {
    let world = World::new();
    let forge = world.forge(&[]);
    let status = forge.status();
    assert!(status.components.iter().all(|c| c.state == State::Idle), "{:?}", status.components);
    assert!(status.device.is_none() && status.choice.is_none());
    assert_eq!(forge.metrics().live_bytes, None);
    if let Ok(maps) = std::fs::read_to_string("/proc/self/maps") {
        assert!(!maps.contains("libvulkan") && !maps.contains("libcuda"));
    }
    drop(forge);
    assert!(!world.dir.path().join("data").exists(), "nothing used, nothing remembered");
}

#[test]
fn work_runs_on_the_processor_when_that_is_asked_for_and_is_remembered() {
    let world = World::new();
    let forge = world.forge(&[("GPUFORGE_CPU_ONLY", "1")]);
    let seen: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let sink = seen.clone();
    forge.on_progress(Arc::new(move |p| sink.lock().unwrap().push(p.component)));
    let outcome = forge.run(copy_plan()).unwrap();
    assert_eq!(
        (outcome.pieces[0].place, outcome.pieces[0].outputs[0].as_slice()),
        (Place::Cpu, &[7; 64][..])
    );
    assert!(seen.lock().unwrap().contains(&"inventory"));
    let status = forge.status();
    assert!(status.init.total_ms > 0.0 && status.choice.is_some_and(|c| c.device == "cpu"));
    drop(forge);
    let next = world.forge(&[]);
    assert!(next.status().predicted.contains(&"inventory".to_owned()), "{:?}", next.status().predicted);
}

#[test]
fn a_software_adapter_is_used_when_it_is_named() {
    let world = World::new();
    let forge = world.forge(&[("GPUFORGE_DEVICE", "llvmpipe")]);
    let inventory = forge.inventory().unwrap();
    if inventory.best.is_none() {
        println!("skipped: there is no software adapter here");
        return;
    }
    let kept = forge
        .scope(|scope| {
            let mut plan = Plan::new("keep");
            let slot = plan.upload(vec![3; 16], "kept").unwrap();
            plan.keep(slot, Spec { dtype: DType::U32, shape: vec![4], tag: "kept" }).unwrap();
            scope.run(plan).unwrap().pieces[0].kept[0].clone()
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
    assert_eq!(beside.run(copy_plan()).unwrap().pieces[0].place, Place::Device, "a second device of its own");
    assert!(forge.on_device(99).is_err());
    forge.reset_device();
    assert!(forge.status().device.is_none());
    assert_eq!(forge.run(copy_plan()).unwrap().pieces[0].place, Place::Device);
}

#[test]
fn a_denied_device_is_not_used() {
    let world = World::new();
    std::fs::write(world.dir.path().join("c.toml"), "devices_deny = [\"llvmpipe\"]\n").unwrap();
    let forge = world.forge(&[("GPUFORGE_DEVICE", "llvmpipe")]);
    assert_eq!(forge.run(copy_plan()).unwrap().pieces[0].place, Place::Cpu);
    assert!(forge.status().device.is_none());
}

#[test]
fn a_warm_up_loads_what_was_used_before() {
    let world = World::new();
    drop(world.forge(&[("GPUFORGE_CPU_ONLY", "1")]).run(copy_plan()).unwrap());
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
