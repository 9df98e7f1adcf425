//! WGSL sources as runtime kernels: `common.wgsl` plus the kernel's own file. They have no CPU reference kernel: the CPU
//! executor computes whole graphs, not single calls.

use std::sync::Arc;

use gpuforge_runtime::kernel::{Access, CpuReferenceError, Kernel};

use crate::{rolling::RollingShader, state_machines};

const COMMON: &str = include_str!("../shader/common.wgsl");

/// Fixed (not generated) kernels: name and WGSL source.
pub const SOURCES: [(&str, &str); 8] = [
    ("indicators-copy", include_str!("../shader/copy_uploads.wgsl")),
    ("indicators-scan", include_str!("../shader/scan.wgsl")),
    ("indicators-state-machine", state_machines::SHADER),
    ("indicators-rolling-state-machine", state_machines::WINDOW_SHADER),
    (
        "indicators-rolling-sum",
        concat!(include_str!("../shader/segment_walk.wgsl"), include_str!("../shader/rolling_sum.wgsl")),
    ),
    (
        "indicators-rolling-min-max",
        concat!(include_str!("../shader/segment_walk.wgsl"), include_str!("../shader/rolling_min_max.wgsl")),
    ),
    (
        "indicators-rolling-moment",
        concat!(include_str!("../shader/segment_walk.wgsl"), include_str!("../shader/rolling_moment.wgsl")),
    ),
    (
        "indicators-rolling-order",
        concat!(include_str!("../shader/segment_walk.wgsl"), include_str!("../shader/rolling_order.wgsl")),
    ),
];

fn kernel(name: impl Into<String>, wgsl: String, last: Access) -> Arc<Kernel> {
    let name = name.into();
    let refused = CpuReferenceError {
        kernel: name.clone(),
        why: "the CPU executor computes whole graphs, not single kernel calls".to_owned(),
    };
    Arc::new(Kernel {
        name: name.into(),
        wgsl: wgsl.into(),
        entry: "main",
        bindings: vec![Access::Read, last],
        cpu_reference: Arc::new(move |_| Err(refused.clone())),
    })
}

/// The complete source of a fixed kernel.
pub fn source(own: &str) -> String {
    format!("{COMMON}{own}")
}

/// The complete source of a generated kernel.
pub fn pointwise_source(body: &str, workgroup_size: u32) -> String {
    format!(
        "const WORKGROUP_SIZE: u32 = {workgroup_size}u;\n{}{body}",
        include_str!("../shader/pointwise.wgsl")
    )
}

/// The fixed kernels.
#[derive(Debug, Clone)]
pub struct Kernels {
    /// Copies uploaded columns into the arena.
    pub copy_uploads: Arc<Kernel>,
    /// Recurrences (prefix scan).
    pub scan: Arc<Kernel>,
    /// State machines.
    pub state_machine: Arc<Kernel>,
    /// State machines whose state is a window.
    pub rolling_state_machines: Arc<Kernel>,
    rolling: [Arc<Kernel>; 4],
}

impl Kernels {
    /// Sources only; devices compile them on first use.
    pub fn new() -> Kernels {
        let [copy_uploads, scan, state_machine, rolling_state_machines, rolling @ ..] =
            SOURCES.map(|(name, own)| {
                kernel(
                    name,
                    source(own),
                    if name == "indicators-copy" { Access::Write } else { Access::Update },
                )
            });
        Kernels { copy_uploads, scan, state_machine, rolling_state_machines, rolling }
    }

    /// A rolling kernel.
    pub fn rolling(&self, shader: RollingShader) -> &Arc<Kernel> {
        let [sum, min_max, moment, order] = &self.rolling;
        match shader {
            RollingShader::Sum => sum,
            RollingShader::MinMax => min_max,
            RollingShader::Moment => moment,
            RollingShader::Order => order,
        }
    }
}

impl Default for Kernels {
    fn default() -> Self {
        Kernels::new()
    }
}

/// A generated kernel, named by the hash of its source.
pub fn pointwise(body: &str, workgroup_size: u32) -> Arc<Kernel> {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    (body, workgroup_size).hash(&mut hasher);
    kernel(
        format!("indicators-pointwise-{:016x}", hasher.finish()),
        pointwise_source(body, workgroup_size),
        Access::Update,
    )
}
