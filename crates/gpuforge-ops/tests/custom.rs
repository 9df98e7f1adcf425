//! Custom kernels: validation errors, loop guard, CPU fallback.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail"
)]

mod common;

use std::{sync::Arc, time::Duration};

use common::words;
use gpuforge_ops::{Custom, Op, OpError, Target, Tuning, op::guard_passed, record, view::tensor};
use gpuforge_runtime::{engine::Caps, session::Session, tensor::Tensor};

const HEAD: &str = "struct Params { v: array<vec4<u32>, 4> }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<u32>;
@group(0) @binding(2) var<storage, read_write> b: array<u32>;
";

fn numbers(n: usize) -> Tensor {
    tensor(&(0..n as u32).collect::<Vec<_>>(), &[n], "a").unwrap()
}

/// One step of a recurrence that no compiler can shorten.
fn step(state: u32) -> u32 {
    state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)
}

const STEP: &str = "fn next(s: u32) -> u32 { return s * 1664525u + 1013904223u; }\n";

/// A kernel whose body computes `b[i]` from `a[i]`, and the same on the CPU.
fn each(name: &str, body: &str, n: usize, params: &[u32], cpu: fn(u32, &[u32]) -> u32) -> Custom {
    let main = "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if (i >= arrayLength(&a)) { return; }
";
    Custom::new(name)
        .wgsl(&format!("{HEAD}{STEP}{main}{body}\n}}\n"))
        .reads(&[&numbers(n)])
        .writes_like_input()
        .params(params)
        .cpu_fn(move |inputs, outputs, params| {
            let values: Vec<u8> =
                words(inputs[0]).iter().flat_map(|a| cpu(*a, params).to_le_bytes()).collect();
            outputs[0].copy_from_slice(&values);
            Ok(())
        })
}

fn loops(times: u32) -> Custom {
    let body = "var s = a[i];
    for (var k = 0u; k < p.v[0].x; k++) { s = next(s); }
    b[i] = s;";
    each("loops", body, 100, &[times], |a, p| (0..p[0]).fold(a, |s, _| step(s)))
}

/// On a device that runs so many iterations: visible results and the guard.
fn run(session: &Session, op: &Custom, iterations: Option<u32>) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
    let caps = Caps { loop_iterations: iterations, ..session.caps().clone() };
    let target = Target { caps: &caps, tuning: &Tuning::default() };
    let plan = record::plan(op, &target, false).unwrap();
    let mut outputs = session.run(&Arc::new(plan), Duration::from_secs(60)).unwrap().outputs;
    let guard = op.guard().map(|at| outputs.remove(at));
    (outputs, guard)
}

/// Is the guard clear on the adapter? Where it is, the results must be those of the CPU.
fn is_trusted_with(op: &Custom, iterations: Option<u32>) -> Option<bool> {
    let (outputs, guard) = run(common::adapter()?, op, iterations);
    let guard_passed = guard_passed(&guard.expect("it has loops"));
    if guard_passed {
        assert!(outputs == common::on_cpu(op, 1), "{op:?}: guard passed and wrong");
    }
    Some(guard_passed)
}

fn is_trusted(op: &Custom) -> Option<bool> {
    is_trusted_with(op, None)
}

fn check(op: &Custom, want: bool) {
    assert!(
        is_trusted(op).is_none_or(|guard_passed| guard_passed == want),
        "{op:?}: guard passed is {}",
        !want
    );
    let (outputs, guard) = run(common::dummy(), op, None);
    assert!(
        outputs == common::on_cpu(op, 1) && guard.is_none_or(|g| guard_passed(&g)),
        "{op:?} on the dummy"
    );
}

fn fails(op: &Custom) -> String {
    let error = op.outputs().unwrap_err();
    assert!(matches!(error, OpError::Kernel { .. }), "{error:?}");
    error.to_string()
}

#[test]
fn a_kernel_without_loops_agrees_at_every_size() {
    for n in common::SIZES {
        let op = each("triple", "b[i] = a[i] * p.v[0].y;", n, &[0, 3], |a, p| a * p[1]);
        assert_eq!((op.guard(), op.name(), op.cost().units), (None, "triple", n as u64));
        let results = common::same_bits(&op);
        assert!(words(&results[0]).iter().enumerate().all(|(i, b)| *b as usize == i * 3), "{n}");
    }
}

#[test]
fn short_loops_pass_the_guard_and_long_ones_fail() {
    assert_eq!(loops(1).guard(), Some(1));
    check(&loops(0), true);
    check(&loops(10_000), true);
    check(&loops(70_000), false);
    check(&loops(20_000_000), false);
}

#[test]
fn the_probed_loop_limit_is_used() {
    let Some(adapter) = common::adapter() else { return };
    assert_eq!(is_trusted_with(&loops(998), Some(1000)), Some(true));
    assert_eq!(is_trusted_with(&loops(1000), Some(1000)), Some(false));
    let proven = adapter.loop_iterations().unwrap();
    assert_eq!(is_trusted_with(&loops(proven - 2), Some(proven)), Some(true));
    assert_eq!(is_trusted_with(&loops(proven), Some(proven)), Some(false));
}

#[test]
fn nested_loops_and_called_functions_are_counted_together() {
    let nested = |outer: u32, inner: u32| {
        let body = "var s = a[i];
    for (var j = 0u; j < p.v[0].x; j++) { var k = p.v[0].y; while (k > 0u) { s = next(s); k--; } }
    b[i] = s;";
        each("nested", body, 100, &[outer, inner], |a, p| (0..p[0] * p[1]).fold(a, |s, _| step(s)))
    };
    check(&nested(100, 100), true);
    check(&nested(300, 300), false);
    check(&nested(20_000, 1), false);
    let called = |times: u32, inner: u32| {
        let body = "    b[i] = many(many(a[i]));
}
fn many(start: u32) -> u32 {
    var s = start;
    var k = 0u;
    loop {
        if (k >= p.v[0].x) { return s; }
        switch k % 3u { case 0u: { s = few(s); } default: { s = few(s) ; } }
        continuing { k++; }
    }
    return 0u;
}
fn few(start: u32) -> u32 {
    var s = start;
    for (var k = 0u; k < p.v[0].y; k++) { s = next(s); }
    return s;";
        each("called", body, 100, &[times, inner], |a, p| (0..2 * p[0] * p[1]).fold(a, |s, _| step(s)))
    };
    check(&called(50, 50), true);
    check(&called(50, 500), false);
}

#[test]
fn diverging_lanes_fail_the_loop_guard() {
    // No invocation runs more than 12 009 iterations, but a vector of eight that takes turns runs 96 000.
    let body = "var s = a[i];
    for (var j = 0u; j < 8u; j++) {
        if (j == i % 8u) { for (var k = 0u; k < p.v[0].x; k++) { s = next(s); } }
    }
    b[i] = s;";
    let op = |times: u32| each("turns", body, 64, &[times], |a, p| (0..p[0]).fold(a, |s, _| step(s)));
    check(&op(100), true);
    // A device that does not run lanes in step may well be right: where a result is guard_passed, it was compared.
    let proven = common::adapter().and_then(Session::loop_iterations);
    for times in [5000, 12_000, 16_000] {
        is_trusted(&op(times));
        is_trusted_with(&op(times), proven);
    }
    let two = "var s = a[i];
    if (i % 2u == 0u) { for (var k = 0u; k < p.v[0].x; k++) { s = next(s); } }
    else { for (var k = 0u; k < p.v[0].x; k++) { s = next(s); } }
    b[i] = s;";
    let op = each("two", two, 64, &[40_000], |a, p| (0..p[0]).fold(a, |s, _| step(s)));
    is_trusted_with(&op, proven);
}

#[test]
fn endless_loops_end_unless_there_are_barriers() {
    if common::adapter().is_some() {
        let endless = each(
            "endless",
            "var s = a[i]; loop { s = next(s); if (s == 7u && i > 1000u) { break; } } b[i] = s;",
            64,
            &[],
            |a, _| a,
        );
        assert_eq!(is_trusted(&endless), Some(false));
    }
    let wgsl = format!(
        "{HEAD}var<workgroup> shared_a: array<u32, 64>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) group: vec3<u32>) {{
    shared_a[lane] = a[group.x * 64u + lane];
    for (var width = 32u; width > 0u; width /= 2u) {{
        workgroupBarrier();
        if (lane < width) {{ shared_a[lane] += shared_a[lane + width]; }}
    }}
    if (lane == 0u) {{ b[group.x] = shared_a[0]; }}
}}"
    );
    let sums = Custom::new("sums").wgsl(&wgsl).reads(&[&numbers(640)]).groups([10, 1, 1]).units(640);
    let sums = sums
        .writes_from(|inputs| {
            let mut spec = inputs[0].clone();
            spec.shape = vec![spec.shape[0] / 64];
            Ok(vec![spec])
        })
        .cpu_fn(|inputs, outputs, _| {
            let sums: Vec<u8> =
                words(inputs[0]).chunks(64).flat_map(|c| c.iter().sum::<u32>().to_le_bytes()).collect();
            outputs[0].copy_from_slice(&sums);
            Ok(())
        });
    assert_eq!((sums.cost().units, sums.guard()), (640, Some(1)));
    check(&sums, true);
}

#[test]
fn unusual_entry_points_are_guarded() {
    // Builtins in a structure, another name, two dimensions, a name that ours could collide with, many groups.
    let wgsl = format!(
        "{HEAD}{STEP}
struct Ids {{ @builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32 }}
var<private> gpuforge_own: u32;
fn main() {{ gpuforge_own += 1u; }}
@compute @workgroup_size(12, 2) fn spare() {{}}
@compute @workgroup_size(12, 2) fn start(ids: Ids, @builtin(num_workgroups) groups: vec3<u32>) {{
    let i = ids.id.y * groups.x * 12u + ids.id.x;
    if (i >= arrayLength(&a)) {{ return; }}
    var s = a[i] + ids.lane - ids.lane;
    for (var k = 0u; k < p.v[0].x; k++) {{ s = next(s); if (k == 5u) {{ continue; }} main(); }}
    b[i] = s;
}}"
    );
    let op = |times: u32| {
        Custom::new("odd")
            .wgsl(&wgsl)
            .entry("start")
            .reads(&[&numbers(20_000)])
            .writes_like_input()
            .params(&[times])
            .groups([85, 10, 1])
            .cpu_fn(|inputs, outputs, p| {
                let all = words(inputs[0]);
                let all = all.iter().flat_map(|a| (0..p[0]).fold(*a, |s, _| step(s)).to_le_bytes());
                outputs[0].copy_from_slice(&all.collect::<Vec<u8>>());
                Ok(())
            })
    };
    check(&op(100), true);
    check(&op(70_000 / 4), false);
}

#[test]
fn compile_errors_show_the_source() {
    let op = |body: &str| each("bad", body, 4, &[], |a, _| a);
    let message = fails(&op("b[i] = a[i] +;"));
    assert!(
        message.starts_with("kernel bad: ") && message.contains("wgsl:9:14") && message.contains('^'),
        "{message}"
    );
    let message = fails(&op("b[i] = missing(a[i]);"));
    assert!(message.contains("missing") && message.contains('^'), "{message}");
    // Read, but not valid.
    let message = fails(&op("b[i] = u32(1.5) + 1i;"));
    assert!(message.contains("wgsl:9") && message.contains('^'), "{message}");
    assert_eq!(message, fails(&op("b[i] = u32(1.5) + 1i;")), "remembered");
}

#[test]
fn wrong_bindings_and_entries_are_named() {
    let op = |wgsl: &str| {
        Custom::new("k").wgsl(wgsl).reads(&[&numbers(4)]).writes_like_input().cpu_fn(|_, _, _| Ok(()))
    };
    let main = "@compute @workgroup_size(1) fn main() { }";
    let a = "@group(0) @binding(1) var<storage, read> a: array<u32>;\n";
    let b = "@group(0) @binding(2) var<storage, read_write> b: array<u32>;\n";
    assert!(op(&format!("{a}{b}{main}")).outputs().is_ok());
    let check = |wgsl: String, want: &str| {
        let message = fails(&op(&wgsl));
        assert!(message.contains(want), "{message}");
        message
    };
    check(format!("{a}{main}"), "binding 2, output 0, is not declared");
    check(format!("{b}{main}"), "binding 1, input 0, is not declared");
    let message =
        check(format!("{}{b}{main}", a.replace("read", "read_write")), "must be var<storage, read>");
    assert!(message.contains('^') && message.contains("wgsl:1"), "{message}");
    check(
        format!("{a}{b}@group(0) @binding(3) var<storage, read> c: array<u32>;\n{main}"),
        "nothing is bound here",
    );
    check(format!("{a}{}{main}", b.replace("group(0)", "group(1)")), "group 1, binding 2");
    check(
        format!("{a}{b}@group(0) @binding(0) var<storage, read> c: array<u32>;\n{main}"),
        "must be var<uniform>",
    );
    let long = "@group(0) @binding(0) var<uniform> c: array<vec4<u32>, 5>;\n";
    check(format!("{a}{b}{long}{main}"), "the parameter block has 64 bytes");
    check(format!("{a}{b}fn main() {{}}"), "there is no entry point: a function with @compute");
    check(
        format!("{a}{b}{}", main.replace("main", "start")),
        "there is no entry point \"main\"; there are: start",
    );
    check(format!("{a}{b}override n: u32 = 1u;\n{main}"), "override");
    check(" ".repeat(1 << 21), "the source has 2097152 bytes");
}

#[test]
fn missing_parts_are_named() {
    let op = || Custom::new("k").wgsl("@compute @workgroup_size(1) fn main() { }").reads(&[&numbers(4)]);
    assert_eq!(fails(&op()), "kernel k: it says no outputs");
    assert_eq!(fails(&op().writes(&[])), "kernel k: it has no outputs");
    assert_eq!(fails(&op().writes_like_input()), "kernel k: it has no CPU function");
    assert!(
        fails(&op().writes_like_input().params(&[0; 17]).cpu_fn(|_, _, _| Ok(())))
            .contains("17 parameter words")
    );
    let empty = each("k", "b[i] = a[i];", 4, &[], |a, _| a).groups([1, 0, 1]);
    assert_eq!(fails(&empty), "kernel k: [1, 0, 1] groups: between 1 and 65535 in each dimension");
    let refused = op().writes_from(|_| Err("needs an even length".into())).cpu_fn(|_, _, _| Ok(()));
    assert_eq!(fails(&refused), "kernel k: needs an even length");
    let failing = each("sad", "b[i] = a[i];", 4, &[], |a, _| a).cpu_fn(|_, _, _| Err("no luck".into()));
    let mut out = vec![0u8; 16];
    let error = Op::cpu(&failing, &[&[0; 16]], &mut [&mut out], gpuforge_ops::Threads::ONE).unwrap_err();
    assert_eq!(error.to_string(), "sad: no luck");
}
