//! Fused element-wise expressions: `out[i] = f(a[i], b[i], …)` in one pass; inputs of shape `[1]` are broadcast.
//!
//! **Accuracy.** On the CPU every step is one IEEE operation (`exp`, `ln`, `sin`, `cos`, `tanh`: at most 2 ulp, `pow`: 1), so that
//! NaN, infinities and denormals follow IEEE. A device may assume that numbers are finite and may flush denormals: elements all of
//! whose inputs, intermediates and results are zero or finite and normal are bit-identical for `+ - *`, `min`, `max`, `abs`,
//! `floor`, comparisons and `select`, except that `a*b + c` may be contracted to an FMA (half an ulp of the product); `/` and
//! `sqrt` are within 3 ulp, the functions within what WGSL grants. Other elements are unspecified, each for itself. An expression
//! that is only an input copies bits.

use std::{
    any::Any,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    ops::Range,
    sync::Arc,
};

use gpuforge_runtime::{
    kernel::{Access, CpuReferenceError, Kernel, floats, put_floats},
    plan::{Plan, Slot},
    tensor::{DType, Tensor, TensorSpec},
    units::Bytes,
};

use crate::{
    Fused, Op, OpCost, OpError, OpKind, Target, Threads, Variant, cost,
    expr::{
        Expr, MAX_INPUTS, Node,
        eval::{Input, Program},
        wgsl::{self, Params},
    },
    op::Items,
    record::{groups, size, word},
    view::{cast_slice, cast_slice_mut, exactly_mut, expect_dtype, slice_rows, tensor},
};

const OP: &str = "map";
const VARIANTS: &[Variant] =
    &[Variant::new(256, 4, 1), Variant::new(64, 4, 1), Variant::new(256, 1, 1), Variant::new(64, 1, 1)];
/// Partitions begin at multiples of this many elements, so that vectors stay whole.
const GRAIN: usize = 64;

/// The map operation; see the module documentation.
#[derive(Debug, Clone)]
pub struct Map {
    expr: Expr,
    inputs: Vec<Tensor>,
}

/// An expression over tensors of one shape, or of shape `[1]` (broadcast).
pub fn map(expr: &Expr, inputs: &[&Tensor]) -> Map {
    Map { expr: expr.clone(), inputs: inputs.iter().map(|t| (*t).clone()).collect() }
}

/// Is it broadcast?
fn is_scalar(tensor: &Tensor) -> bool {
    tensor.spec().shape == [1]
}

/// Checks the inputs of an expression: as many as it reads, all f32. Shared by all operations on expressions.
pub(crate) fn check_inputs(
    op: &'static str,
    needed: usize,
    inputs: &[Tensor],
    most: usize,
) -> Result<(), OpError> {
    let value = |have: usize, limit| OpError::Value {
        op,
        what: "the number of inputs",
        have: have.to_string(),
        limit,
    };
    if inputs.len() > most {
        return Err(value(inputs.len(), "a device may bind no more than that beside the results"));
    }
    if needed > inputs.len() {
        return Err(value(inputs.len(), "the expression reads more"));
    }
    inputs.iter().try_for_each(|t| expect_dtype(op, "an input", t, DType::F32))
}

impl Map {
    fn shape(&self) -> Vec<usize> {
        let full = self.inputs.iter().find(|t| !is_scalar(t)).or(self.inputs.first());
        full.map_or_else(Vec::new, |t| t.spec().shape.clone())
    }

    fn elements(&self) -> u64 {
        cost::count(&self.shape())
    }

    /// Which inputs are broadcast; none where the result is a scalar, too.
    fn broadcast(&self) -> Vec<bool> {
        let one = self.shape() == [1];
        self.inputs.iter().map(|t| is_scalar(t) && !one).collect()
    }
}

impl Op for Map {
    fn kind(&self) -> OpKind {
        if self.expr.is_heavy() { OpKind::MapHeavy } else { OpKind::Map }
    }

    fn inputs(&self) -> Vec<&Tensor> {
        self.inputs.iter().collect()
    }

    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError> {
        self.expr.check(OP)?;
        check_inputs(OP, self.expr.inputs(), &self.inputs, MAX_INPUTS)?;
        if self.inputs.is_empty() {
            let limit = "there must be one that says how many elements there are";
            return Err(OpError::Value { op: OP, what: "the number of inputs", have: "0".into(), limit });
        }
        let shape = self.shape();
        for tensor in self.inputs.iter().filter(|t| !is_scalar(t)) {
            let other = &tensor.spec().shape;
            if *other != shape {
                let rule = "inputs must have one shape, or [1]";
                return Err(OpError::Shapes { op: OP, rule, left: shape, right: other.clone() });
            }
        }
        Ok(vec![TensorSpec { dtype: DType::F32, shape, tag: OP }])
    }

    fn cost(&self) -> OpCost {
        let (n, weight) = (self.elements(), self.expr.weight());
        let flops = n.saturating_mul(weight);
        let units = if self.expr.is_heavy() { flops } else { n };
        let read = self.inputs.iter().map(size).sum();
        OpCost { units, flops, read, written: Bytes(n.saturating_mul(4)), launches: 1, depth: 1 }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let [out] = exactly_mut(OP, "outputs", outputs)?;
        let mut values = Vec::new();
        for (bytes, one) in inputs.iter().zip(self.broadcast()) {
            let elements: &[f32] = cast_slice(OP, bytes)?;
            values.push(match elements.first().filter(|_| one) {
                Some(first) => Input::One(*first),
                None => Input::Each(elements),
            });
        }
        Program::new(&self.expr).all(&values, cast_slice_mut(OP, out)?, threads);
        Ok(())
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let n = self.elements();
        let tuned = target.variant(self.kind(), VARIANTS);
        // vec4 buffers need a multiple of four elements: other lengths use scalars.
        let width = if n.is_multiple_of(4) && n > 0 { tuned.width } else { 1 };
        let variant = Variant { width, ..tuned };
        let calls = n / u64::from(width);
        let mut params = Params::after(&[word(OP, calls)?]);
        let kernel = self.kernel(variant, &mut params);
        let out = plan.slot(Bytes(n.saturating_mul(4)), OP);
        let groups = groups(OP, calls.div_ceil(u64::from(variant.group)))?;
        plan.dispatch(&kernel, &[inputs, &[out]].concat(), params.words(), groups)?;
        Ok(vec![out])
    }

    fn variants(&self) -> &'static [Variant] {
        VARIANTS
    }

    fn items(&self) -> Option<Items> {
        Some(Items { count: usize::try_from(self.elements()).unwrap_or(usize::MAX), grain: GRAIN })
    }

    fn part(&self, items: Range<usize>) -> Result<Arc<dyn Op>, OpError> {
        let mut inputs = Vec::new();
        for (tensor, one) in self.inputs.iter().zip(self.broadcast()) {
            let part = || slice_rows(OP, tensor, items.clone(), 1, vec![items.len()]);
            inputs.push(if one { tensor.clone() } else { part()? });
        }
        Ok(Arc::new(Map { expr: self.expr.clone(), inputs }))
    }

    fn fuse_key(&self) -> Option<u64> {
        let mut hash = DefaultHasher::new();
        self.expr.hash(&mut hash);
        hash.write_usize(self.inputs.len());
        let here = self.inputs.iter().all(|t| t.on_host()) && self.outputs().is_ok();
        here.then(|| hash.finish())
    }

    fn fuse(&self, group: &[&dyn Op]) -> Result<Option<Fused>, OpError> {
        let mut joined: Vec<Vec<f32>> = vec![Vec::new(); self.inputs.len()];
        let mut output_ranges = Vec::new();
        let mut end = 0;
        for op in group {
            let Some(map) = op.as_any().downcast_ref::<Map>() else { return Ok(None) };
            if map.expr != self.expr || map.inputs.len() != self.inputs.len() {
                return Ok(None);
            }
            let n = usize::try_from(map.elements()).unwrap_or(0);
            for (joined, tensor) in joined.iter_mut().zip(&map.inputs) {
                let Some(host) = tensor.host() else { return Ok(None) };
                // Broadcast inputs are expanded.
                let values: Vec<f32> = floats(&host).collect();
                joined.extend(values.iter().cycle().take(n));
                // Each begins at a vec4 boundary.
                joined.resize(end + n.next_multiple_of(4), 0.0);
            }
            let range = end * 4..(end + n) * 4;
            output_ranges.push(vec![range]);
            end += n.next_multiple_of(4);
        }
        let inputs = joined.iter().map(|values| tensor(values, &[end], OP)).collect::<Result<_, _>>()?;
        Ok(Some(Fused { op: Arc::new(Map { expr: self.expr.clone(), inputs }), output_ranges }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Map {
    fn kernel(&self, variant: Variant, params: &mut Params) -> Arc<Kernel> {
        let Variant { group, width, .. } = variant;
        let broadcast = self.broadcast();
        // Only copied: as u32, all bits survive.
        let number = if matches!(self.expr.nodes(), [Node::Input(_)]) { "u32" } else { "f32" };
        let mut text = wgsl::head(width, number);
        for (i, one) in broadcast.iter().enumerate() {
            text += &wgsl::binding(i + 1, "read", &format!("in{i}"), if *one { number } else { "V" });
        }
        text += &wgsl::binding(broadcast.len() + 1, "read_write", "out", "V");
        text += &wgsl::entry(group);
        for (i, one) in broadcast.iter().enumerate() {
            text += &if *one {
                format!("    let x{i} = V(in{i}[0]);\n")
            } else {
                format!("    let x{i} = in{i}[i];\n")
            };
        }
        let result = wgsl::steps(&self.expr, params, &mut text);
        text += &format!("    out[i] = {result};\n}}\n");
        let mut bindings = vec![Access::Read; broadcast.len()];
        bindings.push(Access::Write);
        let program = Program::new(&self.expr);
        let cpu_reference = move |call: &mut gpuforge_runtime::kernel::KernelCall<'_>| {
            let [out] = call.outputs.as_mut_slice() else {
                return Err(CpuReferenceError { kernel: OP.into(), why: "needs 1 output".into() });
            };
            let inputs: Vec<Vec<f32>> = call.inputs.iter().map(|bytes| floats(bytes).collect()).collect();
            let values: Vec<Input<'_>> = inputs
                .iter()
                .zip(&broadcast)
                .map(|(values, one)| match values.first() {
                    Some(first) if *one => Input::One(*first),
                    _ => Input::Each(values),
                })
                .collect();
            let n = call.params.first().copied().unwrap_or(0) as usize * width as usize;
            let mut results = vec![0.0; n];
            program.all(&values, &mut results, Threads::ONE);
            put_floats(out, results.into_iter());
            Ok(())
        };
        Arc::new(Kernel {
            name: OP.into(),
            wgsl: text.into(),
            entry: "main",
            bindings,
            cpu_reference: Arc::new(cpu_reference),
        })
    }
}

/// Input names of the examples.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Example data between -0.5 and 0.5.
pub(crate) fn example_data(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7 + seed * 13) % 251) as f32 / 251.0 - 0.5).collect()
}

fn example_of(text: &str, sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    let n = sizes.first().copied().unwrap_or(1024);
    let expr = Expr::parse(text, &NAMES)?;
    let inputs =
        (0..expr.inputs()).map(|i| tensor(&example_data(n, i), &[n], OP)).collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(Map { expr, inputs }))
}

/// Calibration example: `[elements]`.
pub(crate) fn example(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    example_of("a*b + c", sizes)
}

/// Calibration example: `[elements]`.
pub(crate) fn heavy_example(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    example_of("exp(sin(a))*b", sizes)
}
