//! Operations through the facade: routing, first-use calibration and its storage, CPU fallback.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::{collections::HashMap, time::Instant};

use gpuforge::{
    Forge, ops,
    route::{BatchOptions, CancelToken, Item, OpKind, PlacementPolicy, Reason, RouteError, RunOptions},
    settings::{Settings, UserPaths},
    tensor,
};

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        World { dir: tempfile::tempdir().unwrap() }
    }

    fn forge(&self, env: &[(&'static str, &str)], flags: &[(&str, &str)]) -> Forge {
        let env: HashMap<&str, String> = env.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
        let env = |name: &str| env.get(name).cloned();
        let at = |name: &str| self.dir.path().join(name);
        let paths =
            UserPaths { config_file: at("config.toml"), cache_dir: at("cache"), data_dir: at("data") };
        Forge::with(&Settings::load_lenient(&paths, &env, flags), &paths, &env)
    }
}

fn square(n: usize) -> ops::matmul::Matmul {
    let a = tensor(&vec![1f32; n * n], &[n, n]).unwrap();
    ops::matmul(&a, &a)
}

#[test]
fn operation_reports_backend_and_reason() {
    let forge = World::new().forge(&[], &[]);
    let ran = forge.run(square(16)).unwrap();
    assert_eq!(ran.to_vec::<f32>().unwrap(), vec![16.0; 256]);
    let report = ran.report();
    assert!(!report.backend.is_empty() && report.fallback.is_none(), "{report:?}");
    assert!(!ran.decision().reason.to_string().is_empty());
    assert!(ran.to_vec::<u32>().is_err(), "the wrong kind of number is an error");
}

#[test]
fn cpu_only_needs_no_calibration() {
    for (env, flags) in [(vec![("GPUFORGE_CPU_ONLY", "1")], vec![]), (vec![], vec![("device", "cpu")])] {
        let world = World::new();
        let forge = world.forge(&env, &flags);
        let ran = forge.run(square(8)).unwrap();
        assert_eq!((ran.report().backend.as_str(), ran.decision().reason), ("cpu", Reason::Only));
        assert!(!forge.calibration_file().exists(), "nothing was measured");
    }
}

#[test]
fn first_use_calibration_is_stored() {
    let world = World::new();
    let first = world.forge(&[], &[]);
    if first.router().unwrap().backends().len() < 2 {
        return;
    }
    assert!(!first.router().unwrap().is_calibrated());
    first.run(square(8)).unwrap();
    let known = first.router().unwrap().is_calibrated();
    assert_eq!(known, first.calibration_file().exists());
    let next = world.forge(&[], &[]);
    assert_eq!(next.router().unwrap().is_calibrated(), known, "the next process knows it already");
    let safe = world.forge(&[("GPUFORGE_SAFE_MODE", "1")], &[]);
    assert!(!safe.router().unwrap().is_calibrated(), "safe mode reads no file");
}

#[test]
fn explicit_placement_wins_and_needs_no_model() {
    let world = World::new();
    let forge = world.forge(&[], &[]);
    let paths = forge.router().unwrap().backends().len();
    for place in 0..paths {
        let ran = forge
            .run_with(
                &square(8),
                RunOptions { placement: PlacementPolicy::Only(place), keep_on_device: false },
            )
            .unwrap();
        assert_eq!((ran.decision().backend_id, ran.decision().reason), (place, Reason::Requested));
        assert_eq!(ran.to_vec::<f32>().unwrap(), vec![8.0; 64]);
    }
    assert!(!forge.calibration_file().exists());
    let error = forge
        .run_with(&square(8), RunOptions { placement: PlacementPolicy::Only(99), keep_on_device: false })
        .unwrap_err();
    assert!(error.to_string().contains("no backend 99"), "{error}");
}

#[test]
fn device_min_bytes_keeps_small_work_on_the_cpu() {
    let forge = World::new().forge(&[], &[("device_min_bytes", "1GiB")]);
    let ran = forge.run(square(64)).unwrap();
    assert_eq!(ran.decision().backend_id, 0);
    assert!(matches!(ran.decision().reason, Reason::Small), "{:?}", ran.decision());
}

#[test]
fn batch_keeps_order_and_items_fail_independently() {
    let forge = World::new().forge(&[], &[]);
    let key = tensor(&[255u8], &[1]).unwrap();
    let mut items: Vec<Item> =
        (0..50u8).map(|i| Item::from(ops::xor(&tensor(&[i; 5], &[5]).unwrap(), &key))).collect();
    let wrong = tensor(&[1f32], &[1]).unwrap();
    items.insert(20, ops::xor(&wrong, &key).into());
    items.push(Item::call(|| Err("no luck".to_owned())));
    let run = forge.batch(items).unwrap();
    assert_eq!(run.results.len(), 52);
    for (at, result) in run.results.iter().enumerate() {
        match at {
            20 => assert!(result.as_ref().unwrap_err().to_string().contains("must be U8"), "{result:?}"),
            51 => assert!(result.as_ref().unwrap_err().to_string().contains("no luck"), "{result:?}"),
            _ => {
                let value = if at < 20 { at } else { at - 1 };
                assert_eq!(result.as_ref().unwrap().to_vec::<u8>().unwrap(), [!(value as u8); 5]);
            }
        }
    }
}

#[test]
fn batch_can_be_cancelled() {
    let forge = World::new().forge(&[("GPUFORGE_CPU_ONLY", "1")], &[]);
    let cancel = CancelToken::new();
    cancel.cancel();
    let options = BatchOptions { cancel: Some(cancel), ..BatchOptions::default() };
    let run = forge.batch_with([square(8), square(8)], options).unwrap();
    assert!(run.results.iter().all(|r| matches!(r, Err(RouteError::Cancelled))), "{:?}", run.results);
}

#[test]
fn creating_a_forge_and_routing_opens_no_device() {
    let forge = World::new().forge(&[], &[]);
    let router = forge.router().unwrap();
    let op = (ops::registry::entry(OpKind::Matmul).unwrap().example)(&[64]).unwrap();
    let work = gpuforge::route::Work::of(op.as_ref(), false).unwrap();
    router.decide(&work, router.op_class(op.as_ref()), PlacementPolicy::Fastest).unwrap();
    let status = forge.status();
    assert!(status.device.is_none());
    let loaded: Vec<&str> = status.components.iter().filter(|c| c.loaded).map(|c| c.name).collect();
    assert!(!loaded.contains(&"device") && !loaded.contains(&"calibration"), "{loaded:?}");
    let began = Instant::now();
    drop(Forge::new());
    assert!(began.elapsed().as_millis() < 50, "even in a debug build");
}

const SCALE: &str = "
struct Params { v: array<vec4<u32>, 4> }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read_write> b: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= arrayLength(&a)) { return; }
    var x = a[id.x];
    for (var i = 0u; i < p.v[0].x; i++) { x = x + 1.0; }
    b[id.x] = x;
}";

/// Adds 1 so many times.
fn count(forge: &Forge, n: usize, times: u32) -> ops::Custom {
    let a = tensor(&vec![0.5f32; n], &[n]).unwrap();
    let cpu = |inputs: &[&[u8]], outputs: &mut [&mut [u8]], params: &[u32]| {
        for (b, a) in outputs[0].chunks_exact_mut(4).zip(inputs[0].chunks_exact(4)) {
            let x = f32::from_le_bytes(a.try_into()?) + params[0] as f32;
            b.copy_from_slice(&x.to_le_bytes());
        }
        Ok(())
    };
    forge.custom(cpu, SCALE).reads(&[&a]).writes_like_input().params(&[times])
}

#[test]
fn custom_kernel_is_routed_and_calibrated() {
    let world = World::new();
    let forge = world.forge(&[], &[]);
    forge.calibrate_custom(|n| count(&forge, n, 10), &[64, 1024, 16_384]).unwrap();
    let router = forge.router().unwrap();
    let op = count(&forge, 1000, 10);
    let work = gpuforge::route::Work::of(&op, false).unwrap();
    let decision = router.decide(&work, router.op_class(&op), PlacementPolicy::Fastest).unwrap();
    assert!(decision.calibrated, "{decision:?}");
    for place in 0..router.backends().len() {
        let ran = forge
            .run_with(&op, RunOptions { placement: PlacementPolicy::Only(place), keep_on_device: false })
            .unwrap();
        assert_eq!(ran.to_vec::<f32>().unwrap(), vec![10.5; 1000], "at {}", ran.report().backend);
        assert!(ran.report().fallback.is_none(), "{:?}", ran.report());
    }
}

#[test]
fn loops_over_the_device_limit_run_on_the_cpu() {
    let forge = World::new().forge(&[], &[]);
    for place in 1..forge.router().unwrap().backends().len() {
        let ran = forge
            .run_with(
                &count(&forge, 8, 70_000),
                RunOptions { placement: PlacementPolicy::Only(place), keep_on_device: false },
            )
            .unwrap();
        assert_eq!(ran.to_vec::<f32>().unwrap(), vec![70_000.5; 8]);
    }
}

#[test]
fn shader_compile_error_has_a_location() {
    let forge = World::new().forge(&[], &[]);
    let a = tensor(&[1f32], &[1]).unwrap();
    let broken = forge
        .custom(|_, _, _| Ok(()), "@compute @workgroup_size(64) fn main( { }")
        .reads(&[&a])
        .writes_like_input();
    let error = forge.run(broken).unwrap_err().to_string();
    assert!(error.contains("1:") && error.contains('^'), "{error}");
}
