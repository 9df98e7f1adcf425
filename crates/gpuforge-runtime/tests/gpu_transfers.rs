//! Transfers and plan shapes on a real adapter: every size around a staging chunk, staged and in place; shared devices.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

use std::sync::Arc;

use gpuforge_runtime::{
    engine::{
        Engine as _, EngineError, Health, Job,
        gpu::{GpuEngine, GpuOpener},
    },
    kernel::{Access, Kernel, put_words, words},
    memory::BlockClass,
    plan::{Plan, Slot},
    session::Session,
    tensor::{DType, TensorSpec},
    units::Bytes,
};
use gpuforge_testkit::{conformance, kernels, plans};

mod gpu_common;
use gpu_common::{DEADLINE, both_transfer_paths, check, open, pattern, session};

/// Size of a staging chunk; duplicated here on purpose, so that a change of it is deliberate.
const CHUNK: usize = 2 << 20;

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().max(4).next_multiple_of(4), 0);
    bytes
}

#[test]
fn staged_transfers_conform() {
    let staged = GpuOpener { staged: true, ..GpuOpener::default() };
    let Some(gpu) = open(&staged) else { return };
    assert!(!gpu.caps().unified_memory);
    drop(gpu);
    assert_eq!(conformance::run(&staged), Vec::<String>::new());
}

#[test]
fn transfers_of_every_size_around_a_chunk() {
    let sizes = [1, 7, 8, CHUNK - 4, CHUNK - 1, CHUNK, CHUNK + 1, CHUNK + 4, 3 * CHUNK + 12, 10_000_001];
    for (path, session) in both_transfer_paths() {
        for size in sizes {
            let data = pattern(size, 1);
            let mut plan = Plan::new("there and back");
            let a = plan.upload(data.clone(), "a").unwrap();
            plan.download(a).unwrap();
            check(&session, plan, &[padded(data)], &format!("{path}, {size} bytes"));
        }
        // All of them in one plan, and each of them twice: small ones share a chunk, large ones are split.
        let mut plan = Plan::new("all at once");
        let all: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(i, n)| pattern(*n, i)).collect();
        let slots: Vec<Slot> = all.iter().map(|d| plan.upload(d.clone(), "a").unwrap()).collect();
        for slot in slots.iter().chain(&slots) {
            plan.download(*slot).unwrap();
        }
        let expected: Vec<Vec<u8>> = all.iter().chain(&all).cloned().map(padded).collect();
        check(&session, plan, &expected, path);
        assert_eq!(session.memory().stats().users.live, Bytes::ZERO);
    }
}

#[test]
fn download_of_an_overwritten_block_keeps_its_bytes() {
    for (path, session) in both_transfer_paths() {
        for size in [12, CHUNK + 4, 5 * CHUNK] {
            let (first, second, third) = (pattern(size, 1), pattern(size, 2), pattern(size, 3));
            let mut plan = Plan::new("again");
            for data in [&first, &second, &third] {
                let slot = plan.upload(data.clone(), "a").unwrap();
                plan.download(slot).unwrap();
                plan.free(slot).unwrap();
            }
            check(&session, plan, &[first, second, third].map(padded), &format!("{path}, {size} bytes"));
        }
    }
}

#[test]
fn plans_without_dispatches_outputs_or_commands() {
    for (path, session) in both_transfer_paths() {
        check(&session, Plan::new("nothing"), &[], path);
        let mut plan = Plan::new("only up");
        plan.upload(pattern(100, 0), "a").unwrap();
        check(&session, plan, &[], path);
        let mut plan = Plan::new("copies");
        let a = plan.upload(pattern(100, 0), "a").unwrap();
        let b = plan.copy(a, "b").unwrap();
        plan.copy(b, "c").unwrap();
        check(&session, plan, &[], path);
        let mut plan = Plan::new("no groups");
        let a = plan.upload(pattern(256, 0), "a").unwrap();
        let out = plan.slot(Bytes(256), "out");
        plan.dispatch(&kernels::spin(), &[a, out], &[64, 1], [0, 1, 1]).unwrap();
        check(&session, plan, &[], path);
        let mut plan = Plan::new("nothing to send");
        let a = plan.upload(Vec::new(), "a").unwrap();
        plan.download(a).unwrap();
        let done = session.run(&Arc::new(plan), DEADLINE).unwrap();
        assert_eq!(done.outputs[0].len(), 4, "{path}: a slot has at least a word");
    }
}

#[test]
fn thousands_of_dispatches_in_one_plan() {
    for (path, session) in both_transfer_paths() {
        let (plan, expected) = plans::chain(64, 3000).unwrap();
        check(&session, plan, &expected, path);
    }
}

/// A compute pass ends at every copy.
fn passes(n: u32) -> Plan {
    let mut plan = Plan::new("passes");
    let mut slot = plan.upload(pattern(256, 0), "a").unwrap();
    for _ in 0..n {
        let out = plan.slot(Bytes(256), "out");
        plan.dispatch(&kernels::spin(), &[slot, out], &[64, 3], [1, 1, 1]).unwrap();
        slot = plan.copy(out, "copy").unwrap();
    }
    plan.download(slot).unwrap();
    plan
}

#[test]
fn too_many_passes_have_no_device_time() {
    let Some(gpu) = open(&GpuOpener::default()) else { return };
    let session = session(&gpu);
    let few = session.run(&Arc::new(passes(10)), DEADLINE).unwrap();
    assert_eq!(few.device_time.is_some(), gpu.caps().timestamps);
    let many = session.run(&Arc::new(passes(300)), DEADLINE).unwrap();
    assert_eq!(many.device_time, None, "only the first passes were timed");
    let few = session.run(&Arc::new(passes(256)), DEADLINE).unwrap();
    assert_eq!(few.device_time.is_some(), gpu.caps().timestamps);
}

#[test]
fn more_workgroups_than_fit_one_dimension() {
    // 70 001 workgroups and a partial last one; expected values by plain Rust.
    let n = 70_000 * kernels::GROUP + 1;
    assert!(kernels::groups(n)[1] > 1);
    for (path, session) in both_transfer_paths() {
        let (plan, expected) = plans::chain(n, 1).unwrap();
        check(&session, plan, &expected, path);
    }
}

fn add_kernel(name: &'static str, wgsl: String, add: u32) -> Arc<Kernel> {
    Arc::new(Kernel {
        name: name.into(),
        wgsl: wgsl.into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Write],
        cpu_reference: Arc::new(move |call| {
            if let ([a], [out]) = (call.inputs.as_slice(), call.outputs.as_mut_slice()) {
                put_words(out, words(a).map(|w| w.wrapping_add(add)));
            }
            Ok(())
        }),
    })
}

fn add_wgsl(add: u32) -> String {
    format!(
        "struct Params {{ v: array<vec4<u32>, 4> }}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
    if (id.x < p.v[0].x) {{ out[id.x] = a[id.x] + {add}u; }}
}}"
    )
}

fn one_dispatch(kernel: &Arc<Kernel>) -> Plan {
    let mut plan = Plan::new("one");
    let a = plan.upload(plans::bytes(&[1, 2, 3, 4]), "a").unwrap();
    let out = plan.slot(Bytes(16), "out");
    plan.dispatch(kernel, &[a, out], &[4], [1, 1, 1]).unwrap();
    plan.download(out).unwrap();
    plan
}

#[test]
fn kernels_that_share_a_name_do_not_share_code() {
    let Some(gpu) = open(&GpuOpener::default()) else { return };
    let session = session(&gpu);
    let kernel = |add| add_kernel("same", add_wgsl(add), add);
    for add in [1, 10, 1, 100] {
        let expected = plans::bytes(&[1 + add, 2 + add, 3 + add, 4 + add]);
        check(&session, one_dispatch(&kernel(add)), &[expected], "same name");
    }
    // A shader that does not compile is not cached and does no harm.
    for _ in 0..2 {
        let broken = add_kernel("same", "fn main() { this is not a shader }".to_owned(), 0);
        let error = session.run(&Arc::new(one_dispatch(&broken)), DEADLINE).unwrap_err();
        assert!(matches!(&error, EngineError::Validation { reason } if reason.contains("shader")), "{error}");
    }
    check(&session, one_dispatch(&kernel(1)), &[plans::bytes(&[2, 3, 4, 5])], "after a broken one");
    // A shader that does not match its bindings is a validation error, too.
    let mut unfit = (*kernel(1)).clone();
    unfit.bindings = vec![Access::Read, Access::Read, Access::Write];
    let mut plan = Plan::new("unfit");
    let a = plan.upload(vec![0; 16], "a").unwrap();
    let out = plan.slot(Bytes(16), "out");
    plan.dispatch(&Arc::new(unfit), &[a, a, out], &[4], [1, 1, 1]).unwrap();
    plan.download(out).unwrap();
    assert!(matches!(session.run(&Arc::new(plan), DEADLINE), Err(EngineError::Validation { .. })));
    assert_eq!(gpu.health(), Health::Good);
}

#[test]
fn mismatched_blocks_are_validation_errors_and_the_device_stays_usable() {
    let Some(gpu) = open(&GpuOpener::default()) else { return };
    let plan = Arc::new(one_dispatch(&add_kernel("adds", add_wgsl(5), 5)));
    let small = gpu.create(Bytes(8), BlockClass::Storage).unwrap();
    let large = gpu.create(Bytes(64), BlockClass::Storage).unwrap();
    let other = gpu.create(Bytes(64), BlockClass::Storage).unwrap();
    let strange = gpuforge_runtime::engine::BlockId(999_999);
    let uniform = gpu.create(Bytes(64), BlockClass::Uniform).unwrap();
    let run = |blocks: Vec<_>| {
        let ticket = gpu.submit(Job { plan: plan.clone(), blocks })?;
        gpu.wait(ticket, DEADLINE)
    };
    for blocks in [
        vec![large, small],
        vec![small, large],
        vec![strange, large],
        vec![large],
        vec![],
        vec![large, uniform],
    ] {
        let said = format!("{blocks:?}");
        let error = run(blocks).unwrap_err();
        assert!(matches!(error, EngineError::Validation { .. }), "{said}: {error}");
    }
    assert_eq!(run(vec![large, other]).unwrap().outputs, [plans::bytes(&[6, 7, 8, 9])]);
    assert_eq!(gpu.health(), Health::Good);
    let error = gpu.create(gpu.caps().largest_block + Bytes(4), BlockClass::Storage).unwrap_err();
    assert!(matches!(error, EngineError::Memory(_)), "data larger than a binding must be split: {error}");
}

#[test]
fn many_threads_share_a_device_and_a_tensor() {
    for (path, session) in both_transfer_paths() {
        // More than the staging window: chunks of one job are copied while others start.
        let n = 1_500_000u32;
        let numbers = plans::numbers(n, 5);
        let mut plan = Plan::new("keep");
        let a = plan.upload(plans::bytes(&numbers), "a").unwrap();
        plan.keep(a, TensorSpec { dtype: DType::U32, shape: vec![n as usize], tag: "shared" }).unwrap();
        let (_, kept) = session.run_keeping(&Arc::new(plan), DEADLINE).unwrap();
        let kept = &kept[0];
        let kernel = add_kernel("adds", add_wgsl(7), 7);
        let plain = plans::bytes(&numbers);
        let added = plans::bytes(&numbers.iter().map(|w| w.wrapping_add(7)).collect::<Vec<_>>());
        let read = |session: &Session| {
            let mut plan = Plan::new("read");
            let slot = plan.import(kept);
            plan.download(slot).unwrap();
            check(session, plan, std::slice::from_ref(&plain), path);
        };
        let read_twice = |session: &Session| {
            let mut plan = Plan::new("read twice");
            let slot = plan.import(kept);
            plan.download(slot).unwrap();
            plan.download(slot).unwrap();
            check(session, plan, &[plain.clone(), plain.clone()], path);
        };
        let add = |session: &Session| {
            let mut plan = Plan::new("add");
            let slot = plan.import(kept);
            let out = plan.slot(Bytes(u64::from(n) * 4), "out");
            plan.dispatch(&kernel, &[slot, out], &[n], kernels::groups(n)).unwrap();
            plan.download(out).unwrap();
            check(session, plan, std::slice::from_ref(&added), path);
        };
        // While one thread has the tensor mapped, others must be able to compute with it.
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (session, kinds) = (&session, [&read as &(dyn Fn(&Session) + Sync), &add, &read_twice]);
                scope.spawn(move || (0..9).for_each(|i| kinds[(i + thread) % 3](session)));
            }
        });
    }
}

#[test]
fn large_upload_behind_a_long_job_does_not_block_other_requests() {
    let staged = GpuOpener { staged: true, ..GpuOpener::default() };
    let Some(gpu) = open(&staged) else { return };
    let session = session(&gpu);
    let n = 1 << 18;
    let mut long = Plan::new("long");
    let mut slot = long.upload(plans::bytes(&plans::numbers(n, 9)), "long").unwrap();
    for _ in 0..3 {
        let out = long.slot(Bytes(u64::from(n) * 4), "long");
        long.dispatch(&kernels::spin(), &[slot, out], &[n, 10_000], kernels::groups(n)).unwrap();
        slot = out;
    }
    long.download(slot).unwrap();
    let data = pattern(20_000_000, 3);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| session.run(&Arc::new(long), DEADLINE).map(|d| d.outputs[0].len()));
        let second = scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(30));
            let mut plan = Plan::new("large");
            let a = plan.upload(data.clone(), "large").unwrap();
            plan.download(a).unwrap();
            check(&session, plan, std::slice::from_ref(&data), "behind");
        });
        std::thread::sleep(std::time::Duration::from_millis(60));
        let started = std::time::Instant::now();
        let block = gpu.create(Bytes(4096), BlockClass::Storage).unwrap();
        gpu.destroy(block);
        println!("a buffer in {:?}", started.elapsed());
        assert_eq!(first.join().unwrap().unwrap(), n as usize * 4);
        second.join().unwrap();
    });
}

#[test]
fn jobs_without_a_wait_do_not_block_the_device() {
    let Some(gpu) = open(&GpuOpener::default()) else { return };
    let plan = Arc::new(one_dispatch(&add_kernel("adds", add_wgsl(5), 5)));
    let block = || gpu.create(Bytes(64), BlockClass::Storage).unwrap();
    for _ in 0..20 {
        gpu.submit(Job { plan: plan.clone(), blocks: vec![block(), block()] }).unwrap();
    }
    let ticket = gpu.submit(Job { plan, blocks: vec![block(), block()] }).unwrap();
    assert_eq!(gpu.wait(ticket, DEADLINE).unwrap().outputs, [plans::bytes(&[6, 7, 8, 9])]);
    assert!(matches!(gpu.wait(ticket, DEADLINE), Err(EngineError::Validation { .. })), "only once");
}

#[test]
fn loop_limit_is_enough_for_our_kernels() {
    let Some(gpu) = open(&GpuOpener::default()) else { return };
    let proven = gpu.probe_loop_limit().unwrap();
    println!("{}: loops of {proven} iterations", gpu.caps().name);
    assert!(proven >= 16_384, "kernels rely on 16 384 iterations, {proven} are verified");
    let started = std::time::Instant::now();
    assert_eq!(gpu.probe_loop_limit().unwrap(), proven);
    assert!(started.elapsed() < std::time::Duration::from_millis(1), "the second result is cached");
    gpu.lose();
    let lost: GpuEngine = Arc::into_inner(gpu).unwrap();
    assert_eq!(lost.probe_loop_limit().unwrap(), proven);
}

#[test]
fn init_stats_name_all_phases() {
    let Some(first) = open(&GpuOpener::default()) else { return };
    let second = open(&GpuOpener::default()).unwrap();
    let init = second.init().unwrap();
    let names: Vec<&str> = init.phases.iter().map(|p| p.name).collect();
    assert_eq!(names, ["instance", "adapter", "device", "callbacks", "memory budget"]);
    assert_eq!(init.start, gpuforge_runtime::engine::init::DriverStart::Warm);
    let last = init.phases.last().unwrap();
    assert!(init.total >= last.began + last.took && init.overlap().unwrap() <= 1.0 + 1e-9);
    assert!(init.warnings.is_empty() && init.cached_pipelines.is_none());
    let json = serde_json::to_value(first.init().unwrap()).unwrap();
    assert!(json["phases"][0]["took_ms"].is_f64() && json["start"].is_string(), "{json}");
}
