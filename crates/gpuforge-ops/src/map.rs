//! Element-wise expressions in one pass: `out[i] = f(a[i], b[i], …)`; inputs of shape `[1]` are the same for all elements.
//!
//! **Numbers.** On the processor every step is one IEEE operation (`exp`, `ln`, `sin`, `cos`, `tanh`: at most 2 units in the
//! last place, `pow`: 1), so that NaN, infinities and denormals are as IEEE says. A device may assume that numbers are
//! finite and may take denormals for zero: elements all of whose inputs, intermediate values and results are zero or
//! finite and normal are the same bits for `+ - *`, `min`, `max`, `abs`, `floor`, comparisons and `select`, except that
//! `a*b + c` may be rounded once instead of twice (half a unit of the product); `/` and `sqrt` are within 3 units, the
//! functions within what WGSL grants. Other elements are unspecified, each for itself. An expression that is only an input
//! copies bits.

use std::{
    any::Any,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    ops::Range,
    sync::Arc,
};

use gpuforge_runtime::{
    kernel::{Access, Kernel, TwinError, floats, put_floats},
    plan::{Plan, Slot},
    tensor::{DType, Spec, Tensor},
    units::Bytes,
};

use crate::{
    Effort, Fused, Kind, Op, OpError, Target, Threads, Variant,
    expr::{
        Expr, MOST_INPUTS, Node,
        eval::{Input, Program},
        wgsl::{self, Params},
    },
    op::Items,
    record::{groups, size, word},
    view::{exactly_mut, expect, numbers, numbers_mut, slice, tensor},
    work,
};

const OP: &str = "map";
const VARIANTS: &[Variant] =
    &[Variant::new(256, 4, 1), Variant::new(64, 4, 1), Variant::new(256, 1, 1), Variant::new(64, 1, 1)];
/// Parts begin at multiples of this many elements, so that vectors stay whole.
const GRAIN: usize = 64;

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct Map {
    expr: Expr,
    inputs: Vec<Tensor>,
}

/// An expression of the elements of tensors of one shape, or of shape `[1]`.
pub fn map(expr: &Expr, inputs: &[&Tensor]) -> Map {
    Map { expr: expr.clone(), inputs: inputs.iter().map(|t| (*t).clone()).collect() }
}

/// Is it one value for all elements?
fn is_one(tensor: &Tensor) -> bool {
    tensor.spec().shape == [1]
}

/// The inputs of an expression: as many as it reads, all f32. For every operation on expressions.
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
    inputs.iter().try_for_each(|t| expect(op, "an input", t, DType::F32))
}

impl Map {
    fn shape(&self) -> Vec<usize> {
        let full = self.inputs.iter().find(|t| !is_one(t)).or(self.inputs.first());
        full.map_or_else(Vec::new, |t| t.spec().shape.clone())
    }

    fn elements(&self) -> u64 {
        work::count(&self.shape())
    }

    /// Which inputs are one value for all; none where the result is one value, too.
    fn ones(&self) -> Vec<bool> {
        let one = self.shape() == [1];
        self.inputs.iter().map(|t| is_one(t) && !one).collect()
    }
}

impl Op for Map {
    fn kind(&self) -> Kind {
        if self.expr.is_heavy() { Kind::MapHeavy } else { Kind::Map }
    }

    fn inputs(&self) -> Vec<&Tensor> {
        self.inputs.iter().collect()
    }

    fn outputs(&self) -> Result<Vec<Spec>, OpError> {
        self.expr.check(OP)?;
        check_inputs(OP, self.expr.inputs(), &self.inputs, MOST_INPUTS)?;
        if self.inputs.is_empty() {
            let limit = "there must be one that says how many elements there are";
            return Err(OpError::Value { op: OP, what: "the number of inputs", have: "0".into(), limit });
        }
        let shape = self.shape();
        for tensor in self.inputs.iter().filter(|t| !is_one(t)) {
            let other = &tensor.spec().shape;
            if *other != shape {
                let rule = "inputs must have one shape, or [1]";
                return Err(OpError::Shapes { op: OP, rule, left: shape, right: other.clone() });
            }
        }
        Ok(vec![Spec { dtype: DType::F32, shape, tag: OP }])
    }

    fn effort(&self) -> Effort {
        let (n, weight) = (self.elements(), self.expr.weight());
        let flops = n.saturating_mul(weight);
        let units = if self.expr.is_heavy() { flops } else { n };
        let read = self.inputs.iter().map(size).sum();
        Effort { units, flops, read, written: Bytes(n.saturating_mul(4)), launches: 1, depth: 1 }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let [out] = exactly_mut(OP, "outputs", outputs)?;
        let mut values = Vec::new();
        for (bytes, one) in inputs.iter().zip(self.ones()) {
            let numbers: &[f32] = numbers(OP, bytes)?;
            values.push(match numbers.first().filter(|_| one) {
                Some(first) => Input::One(*first),
                None => Input::Each(numbers),
            });
        }
        Program::new(&self.expr).all(&values, numbers_mut(OP, out)?, threads);
        Ok(())
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let n = self.elements();
        let tuned = target.variant(self.kind(), VARIANTS);
        // A buffer of vectors ends with a whole one: other lengths are done by numbers.
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
        for (tensor, one) in self.inputs.iter().zip(self.ones()) {
            let part = || slice(OP, tensor, items.clone(), 1, vec![items.len()]);
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
        let mut places = Vec::new();
        let mut end = 0;
        for op in group {
            let Some(map) = op.as_any().downcast_ref::<Map>() else { return Ok(None) };
            if map.expr != self.expr || map.inputs.len() != self.inputs.len() {
                return Ok(None);
            }
            let n = usize::try_from(map.elements()).unwrap_or(0);
            for (joined, tensor) in joined.iter_mut().zip(&map.inputs) {
                let Some(host) = tensor.host() else { return Ok(None) };
                // What is one value becomes as many as there are elements.
                let values: Vec<f32> = floats(&host).collect();
                joined.extend(values.iter().cycle().take(n));
                // Each begins at a whole vector.
                joined.resize(end + n.next_multiple_of(4), 0.0);
            }
            let place = end * 4..(end + n) * 4;
            places.push(vec![place]);
            end += n.next_multiple_of(4);
        }
        let inputs = joined.iter().map(|values| tensor(values, &[end], OP)).collect::<Result<_, _>>()?;
        Ok(Some(Fused { op: Arc::new(Map { expr: self.expr.clone(), inputs }), places }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Map {
    fn kernel(&self, variant: Variant, params: &mut Params) -> Arc<Kernel> {
        let Variant { group, width, .. } = variant;
        let ones = self.ones();
        // Only moved, never computed with: as words, all bits stay.
        let number = if matches!(self.expr.nodes(), [Node::Input(_)]) { "u32" } else { "f32" };
        let mut text = wgsl::head(width, number);
        for (i, one) in ones.iter().enumerate() {
            text += &wgsl::binding(i + 1, "read", &format!("in{i}"), if *one { number } else { "V" });
        }
        text += &wgsl::binding(ones.len() + 1, "read_write", "out", "V");
        text += &wgsl::entry(group);
        for (i, one) in ones.iter().enumerate() {
            text += &if *one {
                format!("    let x{i} = V(in{i}[0]);\n")
            } else {
                format!("    let x{i} = in{i}[i];\n")
            };
        }
        let result = wgsl::steps(&self.expr, params, &mut text);
        text += &format!("    out[i] = {result};\n}}\n");
        let mut bindings = vec![Access::Read; ones.len()];
        bindings.push(Access::Write);
        let program = Program::new(&self.expr);
        let twin = move |call: &mut gpuforge_runtime::kernel::Call<'_>| {
            let [out] = call.outputs.as_mut_slice() else {
                return Err(TwinError { kernel: OP.into(), why: "needs 1 output".into() });
            };
            let inputs: Vec<Vec<f32>> = call.inputs.iter().map(|bytes| floats(bytes).collect()).collect();
            let values: Vec<Input<'_>> = inputs
                .iter()
                .zip(&ones)
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
        Arc::new(Kernel { name: OP.into(), wgsl: text.into(), entry: "main", bindings, twin: Arc::new(twin) })
    }
}

/// Names of inputs in examples.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Numbers for examples, between -0.5 and 0.5.
pub(crate) fn numbers_for_example(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7 + seed * 13) % 251) as f32 / 251.0 - 0.5).collect()
}

fn example_of(text: &str, sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    let n = sizes.first().copied().unwrap_or(1024);
    let expr = Expr::parse(text, &NAMES)?;
    let inputs = (0..expr.inputs())
        .map(|i| tensor(&numbers_for_example(n, i), &[n], OP))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(Map { expr, inputs }))
}

/// For calibrations: `[elements]`.
pub(crate) fn example(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    example_of("a*b + c", sizes)
}

/// For calibrations: `[elements]`.
pub(crate) fn heavy_example(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    example_of("exp(sin(a))*b", sizes)
}
