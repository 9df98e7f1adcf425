//! Shaders as kernels. Each text is what all share and its own file; their CPU reference kernel is the engine on the processor, which
//! computes whole graphs and not single calls.

use std::sync::Arc;

use gpuforge_runtime::kernel::{Access, CpuReferenceError, Kernel};

use crate::{rolling::Shader, state_machines};

const COMMON: &str = include_str!("../shader/common.wgsl");

/// Kernels that are not generated, by name and text.
pub const TEXTS: [(&str, &str); 8] = [
    ("resident-place", include_str!("../shader/place.wgsl")),
    ("resident-scan", include_str!("../shader/scan.wgsl")),
    ("resident-machine", state_machines::SHADER),
    ("resident-machine-window", state_machines::WINDOW_SHADER),
    ("resident-sum", concat!(include_str!("../shader/walk.wgsl"), include_str!("../shader/sum.wgsl"))),
    (
        "resident-extreme",
        concat!(include_str!("../shader/walk.wgsl"), include_str!("../shader/extreme.wgsl")),
    ),
    ("resident-moment", concat!(include_str!("../shader/walk.wgsl"), include_str!("../shader/moment.wgsl"))),
    ("resident-order", concat!(include_str!("../shader/walk.wgsl"), include_str!("../shader/order.wgsl"))),
];

fn kernel(name: impl Into<String>, wgsl: String, last: Access) -> Arc<Kernel> {
    let name = name.into();
    let refused = CpuReferenceError {
        kernel: name.clone(),
        why: "the processor computes whole graphs, not single calls of a device's plan".to_owned(),
    };
    Arc::new(Kernel {
        name: name.into(),
        wgsl: wgsl.into(),
        entry: "main",
        bindings: vec![Access::Read, last],
        cpu_reference: Arc::new(move |_| Err(refused.clone())),
    })
}

/// The text of a kernel that is not generated.
pub fn text(own: &str) -> String {
    format!("{COMMON}{own}")
}

/// The text of a generated kernel.
pub fn pointwise_text(body: &str, width: u32) -> String {
    format!("const WIDTH: u32 = {width}u;\n{}{body}", include_str!("../shader/pointwise.wgsl"))
}

/// All kernels of a lowered graph that are not generated.
#[derive(Debug, Clone)]
pub struct Kernels {
    /// Brings uploaded columns to their places.
    pub place: Arc<Kernel>,
    /// Recurrences.
    pub scan: Arc<Kernel>,
    /// State machines.
    pub machine: Arc<Kernel>,
    /// State machines that remember nothing but a window.
    pub machine_windows: Arc<Kernel>,
    windows: [Arc<Kernel>; 4],
}

impl Kernels {
    /// As text only; devices compile them when they are first used.
    pub fn new() -> Kernels {
        let [place, scan, machine, machine_windows, windows @ ..] = TEXTS.map(|(name, own)| {
            kernel(name, text(own), if name == "resident-place" { Access::Write } else { Access::Update })
        });
        Kernels { place, scan, machine, machine_windows, windows }
    }

    /// The kernel of some windows.
    pub fn window(&self, shader: Shader) -> &Arc<Kernel> {
        let [sum, extreme, moment, order] = &self.windows;
        match shader {
            Shader::Sum => sum,
            Shader::Extreme => extreme,
            Shader::Moment => moment,
            Shader::Order => order,
        }
    }
}

impl Default for Kernels {
    fn default() -> Self {
        Kernels::new()
    }
}

/// A generated kernel; its name is that of its text.
pub fn pointwise(body: &str, width: u32) -> Arc<Kernel> {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    (body, width).hash(&mut hasher);
    kernel(
        format!("resident-pointwise-{:016x}", hasher.finish()),
        pointwise_text(body, width),
        Access::Update,
    )
}
