//! Models: an architecture maps `[batch, window, features]` to outputs; its parameters are matrices, contiguous in one
//! vector.
//!
//! One vector, because everything that is done to all parameters (the step of the optimiser, the norm of the gradient,
//! checkpoints) is then one operation and not one per matrix.

mod linear;
mod mlp;
mod tcn;
mod transformer;

use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::{error::TrainError, rng::SeededRng};

/// Which function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Architecture {
    /// One weighted sum: the baseline.
    Linear,
    /// Layers with ReLU between them, over the whole window at once.
    Mlp {
        /// Widths of the layers between input and output.
        hidden: Vec<usize>,
    },
    /// Causal convolutions over time, each reaching twice as far back as the one before.
    Tcn {
        /// Width of every layer.
        channels: usize,
        /// Bars that a layer looks at.
        kernel: usize,
        /// Layers.
        layers: usize,
    },
    /// Attention between indicators: each is a token that holds its own window.
    Transformer {
        /// Width of a token.
        width: usize,
        /// Heads of attention.
        heads: usize,
        /// Layers.
        layers: usize,
    },
}

impl Architecture {
    /// Every shape with its defaults, by name.
    pub fn named(name: &str) -> Option<Architecture> {
        match name {
            "linear" => Some(Architecture::Linear),
            "mlp" => Some(Architecture::Mlp { hidden: vec![128, 64] }),
            "tcn" => Some(Architecture::Tcn { channels: 64, kernel: 3, layers: 4 }),
            "transformer" => Some(Architecture::Transformer { width: 256, heads: 8, layers: 6 }),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Architecture::Linear => "linear",
            Architecture::Mlp { .. } => "mlp",
            Architecture::Tcn { .. } => "tcn",
            Architecture::Transformer { .. } => "transformer",
        }
    }

    /// Rows of a window where nobody said otherwise.
    pub fn usual_window(&self) -> usize {
        if matches!(self, Architecture::Linear | Architecture::Mlp { .. }) { 1 } else { 32 }
    }
}

/// A function with its sizes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSpec {
    /// Which.
    pub shape: Architecture,
    /// Features of a row.
    pub features: usize,
    /// Rows of a window.
    pub window: usize,
    /// Numbers that come out.
    pub outputs: usize,
}

/// How a matrix begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Init {
    Zero,
    One,
    /// Evenly between minus and plus this.
    Even(f32),
}

/// One matrix of the parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct ParamMatrix {
    /// Its name in exported files.
    pub name: String,
    /// Rows and columns; a bias has one row.
    pub shape: [usize; 2],
    pub(crate) begin: Init,
}

impl ParamMatrix {
    fn new(name: impl Into<String>, shape: [usize; 2], begin: Init) -> ParamMatrix {
        ParamMatrix { name: name.into(), shape, begin }
    }

    /// Weights and bias of a layer, for ReLU (`gain` 2) or sums (`gain` 1).
    fn layer(name: &str, from: usize, to: usize, gain: f32) -> [ParamMatrix; 2] {
        let bound = (3.0 * gain / from.max(1) as f32).sqrt();
        [
            ParamMatrix::new(format!("{name}.weight"), [from, to], Init::Even(bound)),
            ParamMatrix::new(format!("{name}.bias"), [1, to], Init::Zero),
        ]
    }

    /// Scale and shift of a normalisation.
    fn norm(name: &str, width: usize) -> [ParamMatrix; 2] {
        [
            ParamMatrix::new(format!("{name}.scale"), [1, width], Init::One),
            ParamMatrix::new(format!("{name}.shift"), [1, width], Init::Zero),
        ]
    }

    /// Numbers in it.
    pub fn len(&self) -> usize {
        let [rows, columns] = self.shape;
        rows * columns
    }

    /// Is there nothing in it?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What comes out.
pub struct Output {
    /// `[batch, outputs]`.
    pub values: Tensor<2>,
    /// `[batch, features]`, sums of 1: attention weight of each indicator; transformer only.
    pub attention: Option<Tensor<2>>,
}

/// Parameters in the order of their matrices, handed out one after the other.
pub(crate) struct ParamCursor<'a> {
    params: std::slice::Iter<'a, Tensor<2>>,
    device: Device,
}

impl ParamCursor<'_> {
    /// The next matrix. The list is made from the same matrices that are asked for; an empty one would show as a wrong shape.
    fn matrix(&mut self) -> Tensor<2> {
        self.params.next().cloned().unwrap_or_else(|| Tensor::zeros([1, 1], &self.device))
    }

    /// The next matrix, which has one row, as a vector.
    fn vector(&mut self) -> Tensor<1> {
        let row = self.matrix();
        let [_, columns] = row.dims();
        row.reshape([columns])
    }

    /// `x · weight + bias`, with the next two.
    fn layer<const D: usize>(&mut self, x: Tensor<D>) -> Tensor<D> {
        let weight = self.matrix();
        burn::tensor::module::linear(x, weight, Some(self.vector()))
    }

    /// Mean 0 and deviation 1 along the last dimension, then the next two as scale and shift.
    fn norm<const D: usize>(&mut self, x: Tensor<D>) -> Tensor<D> {
        let scale = self.vector();
        burn::tensor::module::layer_norm(x, scale, Some(self.vector()), 1e-5)
    }
}

impl ModelSpec {
    /// Are the sizes possible?
    pub fn check(&self) -> Result<(), TrainError> {
        let wrong = |what, value: String, rule| Err(TrainError::Setting { what, value, rule });
        match &self.shape {
            Architecture::Mlp { hidden } if hidden.contains(&0) => {
                wrong("--hidden", format!("{hidden:?}"), "widths above 0")
            }
            Architecture::Tcn { channels, kernel, layers }
                if channels * kernel * layers == 0 || *layers > 16 =>
            {
                wrong(
                    "the convolution",
                    format!("{channels}/{kernel}/{layers}"),
                    "above 0, at most 16 layers",
                )
            }
            Architecture::Transformer { width, heads, layers }
                if width * heads * layers == 0 || width % heads.max(&1) != 0 =>
            {
                wrong(
                    "the transformer",
                    format!("{width}/{heads}/{layers}"),
                    "width, heads and layers above 0, the width a multiple of the heads",
                )
            }
            _ => Ok(()),
        }
    }

    /// Its parameters.
    pub fn param_matrices(&self) -> Vec<ParamMatrix> {
        match &self.shape {
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

    /// Numbers in all of them.
    pub fn len(&self) -> usize {
        self.param_matrices().iter().map(ParamMatrix::len).sum()
    }

    /// Is there nothing to learn?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The function, over `[batch, window, features]`.
    pub fn forward(&self, params: &[Tensor<2>], x: Tensor<3>) -> Output {
        let (mut x, mut rest) = (x, params);
        for (at, param_matrices) in self.stages().into_iter().enumerate() {
            let (own, after) = rest.split_at(param_matrices.min(rest.len()));
            (x, rest) = (self.stage(at, own, x), after);
        }
        self.last(rest, x)
    }

    /// Stages before the last one, as the matrices of each. A stage needs nothing of another but its result, so that a
    /// gradient can be made stage by stage.
    pub fn stages(&self) -> Vec<usize> {
        let (first, each, count) = match &self.shape {
            Architecture::Linear | Architecture::Mlp { .. } => return Vec::new(),
            Architecture::Tcn { layers, .. } => (tcn::FIRST, tcn::EACH, *layers),
            Architecture::Transformer { layers, .. } => (transformer::FIRST, transformer::EACH, *layers),
        };
        std::iter::once(first).chain(std::iter::repeat_n(each, count)).collect()
    }

    /// One stage with its own parameters.
    pub fn stage(&self, at: usize, params: &[Tensor<2>], x: Tensor<3>) -> Tensor<3> {
        let mut cursor = ParamCursor { params: params.iter(), device: x.device() };
        match (&self.shape, at.checked_sub(1)) {
            (Architecture::Tcn { .. }, None) => cursor.layer(x),
            (Architecture::Tcn { kernel, .. }, Some(layer)) => tcn::layer(&mut cursor, x, *kernel, layer),
            (Architecture::Transformer { .. }, None) => transformer::tokens(&mut cursor, x),
            (Architecture::Transformer { heads, .. }, Some(_)) => transformer::layer(&mut cursor, x, *heads),
            _ => x,
        }
    }

    /// What comes after all stages.
    pub fn last(&self, params: &[Tensor<2>], x: Tensor<3>) -> Output {
        let mut cursor = ParamCursor { params: params.iter(), device: x.device() };
        let plain = |values| Output { values, attention: None };
        match &self.shape {
            Architecture::Linear => plain(linear::forward(&mut cursor, x)),
            Architecture::Mlp { hidden } => plain(mlp::forward(&mut cursor, x, hidden.len())),
            Architecture::Tcn { .. } => plain(tcn::last(&mut cursor, x)),
            Architecture::Transformer { .. } => transformer::last(&mut cursor, x),
        }
    }

    /// Numbers that a sample's gradient keeps between forward and backward: of one stage, and of all of them.
    pub fn kept(&self) -> [usize; 2] {
        let (tokens, window) = (self.features, self.window);
        let (stage, count, around) = match &self.shape {
            Architecture::Linear => (0, 0, window * tokens),
            Architecture::Mlp { hidden } => (0, 0, window * tokens + 2 * hidden.iter().sum::<usize>()),
            Architecture::Tcn { channels, kernel, layers } => {
                (window * channels * (kernel + 3), *layers, window * (tokens + channels))
            }
            Architecture::Transformer { width, heads, layers } => (
                // Two norms, q, k and v before and after they are parted, the answer, the inner layer twice.
                tokens * width * (2 * 2 + 2 * 3 + 3 + 2 * transformer::INNER) + 3 * heads * tokens * tokens,
                *layers,
                tokens * (window + 4 * width),
            ),
        };
        // What goes from stage to stage is kept in any case.
        let between = match &self.shape {
            Architecture::Tcn { channels, .. } => window * channels,
            Architecture::Transformer { width, .. } => tokens * width,
            _ => 0,
        };
        [around + stage + between * count, around + stage * count]
    }

    /// Parameters to begin with: equal seeds give equal numbers on every device.
    pub fn begin(&self, seed: u64) -> Vec<f32> {
        let mut rng = SeededRng::new(seed, 0);
        let mut all = Vec::with_capacity(self.len());
        for piece in self.param_matrices() {
            let one = |_| match piece.begin {
                Init::Zero => 0.0,
                Init::One => 1.0,
                Init::Even(bound) => (2.0 * rng.unit() - 1.0) * bound,
            };
            all.extend((0..piece.len()).map(one));
        }
        all
    }
}

/// Parameters of a vector, piece by piece; nothing is copied to the host.
pub(crate) fn divide(param_matrices: &[ParamMatrix], flat: &Tensor<1>) -> Vec<Tensor<2>> {
    let mut first = 0;
    let one = |piece: &ParamMatrix| {
        let range = first..first + piece.len();
        first = range.end;
        flat.clone().slice([range]).reshape(piece.shape)
    };
    param_matrices.iter().map(one).collect()
}
