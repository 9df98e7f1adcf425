//! Which function is learned? A shape turns `[batch, window, features]` into numbers; its parameters are one list of
//! matrices, kept behind each other in one vector.
//!
//! One vector, because everything that is done to all parameters (the step of the optimiser, the norm of the gradient,
//! checkpoints) is then one operation and not one per matrix.

mod linear;
mod mlp;
mod tcn;
mod transformer;

use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::{dice::Dice, error::TrainError};

/// Which function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Shape {
    /// One weighted sum: the baseline.
    Linear,
    /// Layers with rectifiers between them, over the whole window at once.
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

impl Shape {
    /// Every shape with its defaults, by name.
    pub fn named(name: &str) -> Option<Shape> {
        match name {
            "linear" => Some(Shape::Linear),
            "mlp" => Some(Shape::Mlp { hidden: vec![128, 64] }),
            "tcn" => Some(Shape::Tcn { channels: 64, kernel: 3, layers: 4 }),
            "transformer" => Some(Shape::Transformer { width: 256, heads: 8, layers: 6 }),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Shape::Linear => "linear",
            Shape::Mlp { .. } => "mlp",
            Shape::Tcn { .. } => "tcn",
            Shape::Transformer { .. } => "transformer",
        }
    }

    /// Rows of a window where nobody said otherwise.
    pub fn usual_window(&self) -> usize {
        if matches!(self, Shape::Linear | Shape::Mlp { .. }) { 1 } else { 32 }
    }
}

/// A function with its sizes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Which.
    pub shape: Shape,
    /// Features of a row.
    pub features: usize,
    /// Rows of a window.
    pub window: usize,
    /// Numbers that come out.
    pub outputs: usize,
}

/// How a matrix begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Begin {
    Zero,
    One,
    /// Evenly between minus and plus this.
    Even(f32),
}

/// One matrix of the parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Its name in exported files.
    pub name: String,
    /// Rows and columns; a bias has one row.
    pub shape: [usize; 2],
    pub(crate) begin: Begin,
}

impl Piece {
    fn new(name: impl Into<String>, shape: [usize; 2], begin: Begin) -> Piece {
        Piece { name: name.into(), shape, begin }
    }

    /// Weights and bias of a layer, for rectifiers (`gain` 2) or sums (`gain` 1).
    fn layer(name: &str, from: usize, to: usize, gain: f32) -> [Piece; 2] {
        let bound = (3.0 * gain / from.max(1) as f32).sqrt();
        [
            Piece::new(format!("{name}.weight"), [from, to], Begin::Even(bound)),
            Piece::new(format!("{name}.bias"), [1, to], Begin::Zero),
        ]
    }

    /// Scale and shift of a normalisation.
    fn norm(name: &str, width: usize) -> [Piece; 2] {
        [
            Piece::new(format!("{name}.scale"), [1, width], Begin::One),
            Piece::new(format!("{name}.shift"), [1, width], Begin::Zero),
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
    /// `[batch, features]`, sums of 1: how much each indicator was listened to. Only the transformer says so.
    pub listened: Option<Tensor<2>>,
}

/// Parameters in the order of their pieces, handed out one after the other.
pub(crate) struct Hand<'a> {
    params: std::slice::Iter<'a, Tensor<2>>,
    device: Device,
}

impl Hand<'_> {
    /// The next matrix. The list is made from the same pieces that are asked for; an empty one would show as a wrong shape.
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

impl Spec {
    /// Are the sizes possible?
    pub fn check(&self) -> Result<(), TrainError> {
        let wrong = |what, value: String, rule| Err(TrainError::Setting { what, value, rule });
        match &self.shape {
            Shape::Mlp { hidden } if hidden.contains(&0) => {
                wrong("--hidden", format!("{hidden:?}"), "widths above 0")
            }
            Shape::Tcn { channels, kernel, layers } if channels * kernel * layers == 0 || *layers > 16 => {
                wrong(
                    "the convolution",
                    format!("{channels}/{kernel}/{layers}"),
                    "above 0, at most 16 layers",
                )
            }
            Shape::Transformer { width, heads, layers }
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
    pub fn pieces(&self) -> Vec<Piece> {
        match &self.shape {
            Shape::Linear => linear::pieces(self),
            Shape::Mlp { hidden } => mlp::pieces(self, hidden),
            Shape::Tcn { channels, kernel, layers } => tcn::pieces(self, *channels, *kernel, *layers),
            Shape::Transformer { width, layers, .. } => transformer::pieces(self, *width, *layers),
        }
    }

    /// Numbers in all of them.
    pub fn len(&self) -> usize {
        self.pieces().iter().map(Piece::len).sum()
    }

    /// Is there nothing to learn?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The function, over `[batch, window, features]`.
    pub fn forward(&self, params: &[Tensor<2>], x: Tensor<3>) -> Output {
        let (mut x, mut rest) = (x, params);
        for (at, pieces) in self.stages().into_iter().enumerate() {
            let (own, after) = rest.split_at(pieces.min(rest.len()));
            (x, rest) = (self.stage(at, own, x), after);
        }
        self.last(rest, x)
    }

    /// Stages before the last one, as the pieces of each. A stage needs nothing of another but its result, so that a
    /// gradient can be made stage by stage.
    pub fn stages(&self) -> Vec<usize> {
        let (first, each, count) = match &self.shape {
            Shape::Linear | Shape::Mlp { .. } => return Vec::new(),
            Shape::Tcn { layers, .. } => (tcn::FIRST, tcn::EACH, *layers),
            Shape::Transformer { layers, .. } => (transformer::FIRST, transformer::EACH, *layers),
        };
        std::iter::once(first).chain(std::iter::repeat_n(each, count)).collect()
    }

    /// One stage with its own parameters.
    pub fn stage(&self, at: usize, params: &[Tensor<2>], x: Tensor<3>) -> Tensor<3> {
        let mut hand = Hand { params: params.iter(), device: x.device() };
        match (&self.shape, at.checked_sub(1)) {
            (Shape::Tcn { .. }, None) => hand.layer(x),
            (Shape::Tcn { kernel, .. }, Some(layer)) => tcn::layer(&mut hand, x, *kernel, layer),
            (Shape::Transformer { .. }, None) => transformer::tokens(&mut hand, x),
            (Shape::Transformer { heads, .. }, Some(_)) => transformer::layer(&mut hand, x, *heads),
            _ => x,
        }
    }

    /// What comes after all stages.
    pub fn last(&self, params: &[Tensor<2>], x: Tensor<3>) -> Output {
        let mut hand = Hand { params: params.iter(), device: x.device() };
        let plain = |values| Output { values, listened: None };
        match &self.shape {
            Shape::Linear => plain(linear::forward(&mut hand, x)),
            Shape::Mlp { hidden } => plain(mlp::forward(&mut hand, x, hidden.len())),
            Shape::Tcn { .. } => plain(tcn::last(&mut hand, x)),
            Shape::Transformer { .. } => transformer::last(&mut hand, x),
        }
    }

    /// Numbers that a sample's gradient keeps between forward and backward: of one stage, and of all of them.
    pub fn kept(&self) -> [usize; 2] {
        let (tokens, window) = (self.features, self.window);
        let (stage, count, around) = match &self.shape {
            Shape::Linear => (0, 0, window * tokens),
            Shape::Mlp { hidden } => (0, 0, window * tokens + 2 * hidden.iter().sum::<usize>()),
            Shape::Tcn { channels, kernel, layers } => {
                (window * channels * (kernel + 3), *layers, window * (tokens + channels))
            }
            Shape::Transformer { width, heads, layers } => (
                // Two norms, q, k and v before and after they are parted, the answer, the inner layer twice.
                tokens * width * (2 * 2 + 2 * 3 + 3 + 2 * transformer::INNER) + 3 * heads * tokens * tokens,
                *layers,
                tokens * (window + 4 * width),
            ),
        };
        // What goes from stage to stage is kept in any case.
        let between = match &self.shape {
            Shape::Tcn { channels, .. } => window * channels,
            Shape::Transformer { width, .. } => tokens * width,
            _ => 0,
        };
        [around + stage + between * count, around + stage * count]
    }

    /// Parameters to begin with: equal seeds give equal numbers on every device.
    pub fn begin(&self, seed: u64) -> Vec<f32> {
        let mut dice = Dice::new(seed, 0);
        let mut all = Vec::with_capacity(self.len());
        for piece in self.pieces() {
            let one = |_| match piece.begin {
                Begin::Zero => 0.0,
                Begin::One => 1.0,
                Begin::Even(bound) => (2.0 * dice.unit() - 1.0) * bound,
            };
            all.extend((0..piece.len()).map(one));
        }
        all
    }
}

/// Parameters of a vector, piece by piece; nothing is copied to the host.
pub(crate) fn divide(pieces: &[Piece], flat: &Tensor<1>) -> Vec<Tensor<2>> {
    let mut first = 0;
    let one = |piece: &Piece| {
        let range = first..first + piece.len();
        first = range.end;
        flat.clone().slice([range]).reshape(piece.shape)
    };
    pieces.iter().map(one).collect()
}
