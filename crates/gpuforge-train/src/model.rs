//! Models: an architecture maps `[batch, window, features]` to outputs; its parameters are matrices, contiguous in one
//! vector.
//!
//! A flat vector, because the optimiser step, the gradient norm and a checkpoint are then one operation, not one per matrix.

mod linear;
mod mlp;
mod tcn;
mod transformer;

use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::{error::TrainError, rng::SeededRng};

/// Architecture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Architecture {
    /// Linear model over the window.
    Linear,
    /// Multilayer perceptron (ReLU) over the flattened window.
    Mlp {
        /// Widths of the hidden layers.
        hidden: Vec<usize>,
    },
    /// Causal dilated convolutions; the dilation doubles per layer.
    Tcn {
        /// Channels per layer.
        channels: usize,
        /// Kernel size.
        kernel: usize,
        /// Layers.
        layers: usize,
    },
    /// Attention between indicators: a token is an indicator's window.
    Transformer {
        /// Token width.
        width: usize,
        /// Attention heads.
        heads: usize,
        /// Layers.
        layers: usize,
    },
}

impl Architecture {
    /// An architecture with its default sizes, by name.
    pub fn named(name: &str) -> Option<Architecture> {
        match name {
            "linear" => Some(Architecture::Linear),
            "mlp" => Some(Architecture::Mlp { hidden: vec![128, 64] }),
            "tcn" => Some(Architecture::Tcn { channels: 64, kernel: 3, layers: 4 }),
            "transformer" => Some(Architecture::Transformer { width: 256, heads: 8, layers: 6 }),
            _ => None,
        }
    }

    /// Name.
    pub fn name(&self) -> &'static str {
        match self {
            Architecture::Linear => "linear",
            Architecture::Mlp { .. } => "mlp",
            Architecture::Tcn { .. } => "tcn",
            Architecture::Transformer { .. } => "transformer",
        }
    }

    /// Default window length.
    pub fn default_window(&self) -> usize {
        if matches!(self, Architecture::Linear | Architecture::Mlp { .. }) { 1 } else { 32 }
    }
}

/// Architecture and input/output sizes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSpec {
    /// Architecture.
    #[serde(rename = "shape")]
    pub architecture: Architecture,
    /// Features per row.
    pub features: usize,
    /// Window length in rows.
    pub window: usize,
    /// Outputs per sample.
    pub outputs: usize,
}

/// Initialisation of a matrix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Init {
    Zeros,
    Ones,
    /// Uniform in ± this bound.
    Uniform(f32),
}

/// One matrix of the parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct ParamMatrix {
    /// Its name in exported files.
    pub name: String,
    /// Rows and columns; a bias is one row.
    pub shape: [usize; 2],
    pub(crate) init: Init,
}

impl ParamMatrix {
    fn new(name: impl Into<String>, shape: [usize; 2], init: Init) -> ParamMatrix {
        ParamMatrix { name: name.into(), shape, init }
    }

    /// Weight and bias of a linear layer: `gain` 2 before ReLU (He), 1 otherwise.
    fn linear(name: &str, from: usize, to: usize, gain: f32) -> [ParamMatrix; 2] {
        let bound = (3.0 * gain / from.max(1) as f32).sqrt();
        [
            ParamMatrix::new(format!("{name}.weight"), [from, to], Init::Uniform(bound)),
            ParamMatrix::new(format!("{name}.bias"), [1, to], Init::Zeros),
        ]
    }

    /// Scale and shift of a layer norm.
    fn layer_norm(name: &str, width: usize) -> [ParamMatrix; 2] {
        [
            ParamMatrix::new(format!("{name}.scale"), [1, width], Init::Ones),
            ParamMatrix::new(format!("{name}.shift"), [1, width], Init::Zeros),
        ]
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        let [rows, columns] = self.shape;
        rows * columns
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Output of a forward pass.
pub struct Output {
    /// `[batch, outputs]`.
    pub values: Tensor<2>,
    /// `[batch, features]`, sums of 1: attention weight of each indicator; transformer only.
    pub attention: Option<Tensor<2>>,
}

/// Cursor over the parameter matrices, in the order in which layers consume them.
pub(crate) struct ParamCursor<'a> {
    params: std::slice::Iter<'a, Tensor<2>>,
    device: Device,
}

impl ParamCursor<'_> {
    /// The next matrix. `param_matrices` lists them in the order of use; a missing one would show as a wrong shape.
    fn matrix(&mut self) -> Tensor<2> {
        self.params.next().cloned().unwrap_or_else(|| Tensor::zeros([1, 1], &self.device))
    }

    /// The next one-row matrix as a vector.
    fn vector(&mut self) -> Tensor<1> {
        let row = self.matrix();
        let [_, columns] = row.dims();
        row.reshape([columns])
    }

    /// `x · weight + bias`, with the next two matrices.
    fn linear<const D: usize>(&mut self, x: Tensor<D>) -> Tensor<D> {
        let weight = self.matrix();
        burn::tensor::module::linear(x, weight, Some(self.vector()))
    }

    /// Layer norm over the last dimension, with the next two matrices as scale and shift.
    fn layer_norm<const D: usize>(&mut self, x: Tensor<D>) -> Tensor<D> {
        let scale = self.vector();
        burn::tensor::module::layer_norm(x, scale, Some(self.vector()), 1e-5)
    }
}

impl ModelSpec {
    /// Validates the sizes.
    pub fn check(&self) -> Result<(), TrainError> {
        let invalid = |what, value: String, rule| Err(TrainError::InvalidSetting { what, value, rule });
        match &self.architecture {
            Architecture::Mlp { hidden } if hidden.contains(&0) => {
                invalid("--hidden", format!("{hidden:?}"), "widths above 0")
            }
            Architecture::Tcn { channels, kernel, layers }
                if channels * kernel * layers == 0 || *layers > 16 =>
            {
                invalid(
                    "the convolution",
                    format!("{channels}/{kernel}/{layers}"),
                    "above 0, at most 16 layers",
                )
            }
            Architecture::Transformer { width, heads, layers }
                if width * heads * layers == 0 || width % heads.max(&1) != 0 =>
            {
                invalid(
                    "the transformer",
                    format!("{width}/{heads}/{layers}"),
                    "width, heads and layers above 0, the width a multiple of the heads",
                )
            }
            _ => Ok(()),
        }
    }

    /// Parameter matrices, in the order of use.
    pub fn param_matrices(&self) -> Vec<ParamMatrix> {
        match &self.architecture {
            Architecture::Linear => linear::param_matrices(self),
            Architecture::Mlp { hidden } => mlp::param_matrices(self, hidden),
            Architecture::Tcn { channels, kernel, layers } => {
                tcn::param_matrices(self, *channels, *kernel, *layers)
            }
            Architecture::Transformer { width, layers, .. } => {
                transformer::param_matrices(self, *width, *layers)
            }
        }
    }

    /// Number of parameters.
    pub fn len(&self) -> usize {
        self.param_matrices().iter().map(ParamMatrix::len).sum()
    }

    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forward pass over `[batch, window, features]`.
    pub fn forward(&self, params: &[Tensor<2>], x: Tensor<3>) -> Output {
        let (mut x, mut rest) = (x, params);
        for (at, count) in self.stages().into_iter().enumerate() {
            let (own, after) = rest.split_at(count.min(rest.len()));
            (x, rest) = (self.stage(at, own, x), after);
        }
        self.head(rest, x)
    }

    /// Number of matrices of each stage before the head. A stage depends on the output of the previous one only: the unit of
    /// gradient checkpointing.
    pub fn stages(&self) -> Vec<usize> {
        let (first, each, count) = match &self.architecture {
            Architecture::Linear | Architecture::Mlp { .. } => return Vec::new(),
            Architecture::Tcn { layers, .. } => (tcn::INPUT_MATRICES, tcn::LAYER_MATRICES, *layers),
            Architecture::Transformer { layers, .. } => {
                (transformer::INPUT_MATRICES, transformer::LAYER_MATRICES, *layers)
            }
        };
        std::iter::once(first).chain(std::iter::repeat_n(each, count)).collect()
    }

    /// Forward pass of one stage with its own parameters.
    pub fn stage(&self, at: usize, params: &[Tensor<2>], x: Tensor<3>) -> Tensor<3> {
        let mut cursor = ParamCursor { params: params.iter(), device: x.device() };
        match (&self.architecture, at.checked_sub(1)) {
            (Architecture::Tcn { .. }, None) => cursor.linear(x),
            (Architecture::Tcn { kernel, .. }, Some(layer)) => tcn::layer(&mut cursor, x, *kernel, layer),
            (Architecture::Transformer { .. }, None) => transformer::tokens(&mut cursor, x),
            (Architecture::Transformer { heads, .. }, Some(_)) => transformer::layer(&mut cursor, x, *heads),
            _ => x,
        }
    }

    /// Output head, after all stages.
    pub fn head(&self, params: &[Tensor<2>], x: Tensor<3>) -> Output {
        let mut cursor = ParamCursor { params: params.iter(), device: x.device() };
        let plain = |values| Output { values, attention: None };
        match &self.architecture {
            Architecture::Linear => plain(linear::forward(&mut cursor, x)),
            Architecture::Mlp { hidden } => plain(mlp::forward(&mut cursor, x, hidden.len())),
            Architecture::Tcn { .. } => plain(tcn::head(&mut cursor, x)),
            Architecture::Transformer { .. } => transformer::head(&mut cursor, x),
        }
    }

    /// Activation values kept per sample between forward and backward: with gradient checkpointing, and without.
    pub fn activation_sizes(&self) -> [usize; 2] {
        let (tokens, window) = (self.features, self.window);
        let (stage, count, fixed) = match &self.architecture {
            Architecture::Linear => (0, 0, window * tokens),
            Architecture::Mlp { hidden } => (0, 0, window * tokens + 2 * hidden.iter().sum::<usize>()),
            Architecture::Tcn { channels, kernel, layers } => {
                (window * channels * (kernel + 3), *layers, window * (tokens + channels))
            }
            Architecture::Transformer { width, heads, layers } => (
                // Two norms; q, k, v before and after the split into heads; attention output; feed-forward twice.
                tokens * width * (2 * 2 + 2 * 3 + 3 + 2 * transformer::FEED_FORWARD_FACTOR)
                    + 3 * heads * tokens * tokens,
                *layers,
                tokens * (window + 4 * width),
            ),
        };
        // Stage inputs are always kept.
        let between = match &self.architecture {
            Architecture::Tcn { channels, .. } => window * channels,
            Architecture::Transformer { width, .. } => tokens * width,
            _ => 0,
        };
        [fixed + stage + between * count, fixed + stage * count]
    }

    /// Initial parameters: equal seeds give equal values on every device.
    pub fn init(&self, seed: u64) -> Vec<f32> {
        let mut rng = SeededRng::new(seed, 0);
        let mut all = Vec::with_capacity(self.len());
        for matrix in self.param_matrices() {
            let one = |_| match matrix.init {
                Init::Zeros => 0.0,
                Init::Ones => 1.0,
                Init::Uniform(bound) => (2.0 * rng.unit() - 1.0) * bound,
            };
            all.extend((0..matrix.len()).map(one));
        }
        all
    }
}

/// Views of the flat parameter vector as matrices, on the device.
pub(crate) fn unflatten(param_matrices: &[ParamMatrix], flat: &Tensor<1>) -> Vec<Tensor<2>> {
    let mut first = 0;
    let one = |matrix: &ParamMatrix| {
        let range = first..first + matrix.len();
        first = range.end;
        flat.clone().slice([range]).reshape(matrix.shape)
    };
    param_matrices.iter().map(one).collect()
}
