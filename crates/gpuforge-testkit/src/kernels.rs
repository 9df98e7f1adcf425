//! Test kernels: integer arithmetic only, so that every device must give the same bits.

use std::sync::Arc;

use gpuforge_runtime::kernel::{Access, Kernel, put_words, words};

/// Workgroup size of every kernel here.
pub const GROUP: u32 = 64;

/// `out[i] = rotl(a[i] * p.y + b[i], 7) ^ (p.z + i)` for `i < p.x`: any skipped or repeated step changes the result.
pub fn mix() -> Arc<Kernel> {
    const WGSL: &str = "
struct Params { v: array<vec4<u32>, 4> }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<u32>;
@group(0) @binding(2) var<storage, read> b: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.x + id.y * groups.x * 64u;
    if (i >= p.v[0].x) { return; }
    let s = a[i] * p.v[0].y + b[i];
    out[i] = ((s << 7u) | (s >> 25u)) ^ (p.v[0].z + i);
}
";
    Arc::new(Kernel {
        name: "testkit-mix".into(),
        wgsl: WGSL.into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Read, Access::Write],
        cpu_reference: Arc::new(|call| {
            let (n, factor, salt) = match call.params {
                [n, factor, salt, ..] => (*n, *factor, *salt),
                _ => (0, 0, 0),
            };
            if let ([a, b], [out]) = (call.inputs.as_slice(), call.outputs.as_mut_slice()) {
                let mixed = words(a).zip(words(b)).zip(0..n).map(|((a, b), i)| {
                    a.wrapping_mul(factor).wrapping_add(b).rotate_left(7) ^ salt.wrapping_add(i)
                });
                put_words(out, mixed);
            }
            Ok(())
        }),
    })
}

/// `p.y` steps of a recurrence (LCG) per item: a kernel of adjustable duration.
pub fn spin() -> Arc<Kernel> {
    const WGSL: &str = "
struct Params { v: array<vec4<u32>, 4> }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if (i >= p.v[0].x) { return; }
    var s = a[i];
    for (var r = 0u; r < p.v[0].y; r++) { s = s * 1664525u + 1013904223u; }
    out[i] = s;
}
";
    Arc::new(Kernel {
        name: "testkit-spin".into(),
        wgsl: WGSL.into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Write],
        cpu_reference: Arc::new(|call| {
            let rounds = call.params.get(1).copied().unwrap_or(0);
            if let ([a], [out]) = (call.inputs.as_slice(), call.outputs.as_mut_slice()) {
                let step = |s: u32, _| s.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                put_words(out, words(a).map(|w| (0..rounds).fold(w, step)));
            }
            Ok(())
        }),
    })
}

/// Workgroups that cover `n` items, in two dimensions if one is not enough.
pub fn groups(n: u32) -> [u32; 3] {
    let all = n.div_ceil(GROUP);
    let y = all.div_ceil(65_535).max(1);
    [all.div_ceil(y).max(1), y, 1]
}
