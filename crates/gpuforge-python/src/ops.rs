//! Operations and tensors for Python: constructed by name, run by `Forge.run`.

use std::sync::Arc;

use gpuforge::{
    ops::{self, Expr, Op as Operation, OpError},
    runtime::tensor::{DType, Tensor as RuntimeTensor, TensorSpec},
};
use numpy::{Element, PyArray1, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
};

use crate::errors;

/// Tensor on the host or on a device.
#[pyclass(frozen, module = "gpuforge._gpuforge")]
#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) inner: RuntimeTensor,
}

/// Dtypes by NumPy's names.
const DTYPES: [(&str, DType); 5] = [
    ("float32", DType::F32),
    ("float16", DType::F16),
    ("uint32", DType::U32),
    ("int32", DType::I32),
    ("uint8", DType::U8),
];

fn name_of(dtype: DType) -> &'static str {
    DTYPES.iter().find(|(_, kind)| *kind == dtype).map_or("uint8", |(name, _)| name)
}

#[pymethods]
impl Tensor {
    /// From the bytes of a contiguous array, with dtype and shape. Copied once: tensors are immutable.
    #[new]
    fn new(bytes: &Bound<'_, PyAny>, dtype: &str, shape: Vec<usize>) -> PyResult<Self> {
        let kind = DTYPES.iter().find(|(name, _)| *name == dtype).map(|(_, kind)| *kind);
        let kind = kind.ok_or_else(|| {
            let names: Vec<&str> = DTYPES.iter().map(|(name, _)| *name).collect();
            PyTypeError::new_err(format!("no operation takes {dtype}\n  hint: one of {}", names.join(", ")))
        })?;
        let array = bytes.cast::<PyUntypedArray>()?;
        if !array.dtype().is_equiv_to(&u8::get_dtype(bytes.py())) || !array.is_c_contiguous() {
            return Err(PyTypeError::new_err("a contiguous uint8 buffer is required"));
        }
        let array = bytes.cast::<PyArray1<u8>>()?;
        #[allow(unsafe_code, reason = "the borrow checks of the numpy crate know of no other arrays")]
        // SAFETY: the view ends with the copy, while the GIL is held.
        let data: Arc<[u8]> = unsafe { array.as_slice() }.map_or_else(|_| Arc::from([]), Arc::from);
        let spec = TensorSpec { dtype: kind, shape, tag: "python" };
        let inner =
            RuntimeTensor::from_bytes(data, spec).map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(Tensor { inner })
    }

    /// Shape.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.inner.spec().shape.clone()
    }

    /// Dtype, by NumPy's name.
    #[getter]
    fn dtype(&self) -> &'static str {
        name_of(self.inner.spec().dtype)
    }

    /// Residency: host, device, both, nowhere.
    #[getter]
    fn residency(&self) -> String {
        format!("{:?}", self.inner.residency()).to_lowercase()
    }

    /// Bytes on the host; `None` while it is on a device only.
    fn host_bytes<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<u8>>> {
        self.inner.host().map(|bytes| PyArray1::from_slice(py, &bytes))
    }
}

/// A lazy operation on tensors.
#[pyclass(frozen, module = "gpuforge._gpuforge")]
#[derive(Clone)]
pub(crate) struct Op {
    pub(crate) inner: Arc<dyn Operation>,
}

/// Scalar arguments beside the tensors.
#[derive(FromPyObject)]
enum Scalar {
    Integer(u64),
    Real(f64),
    Text(String),
}

impl Scalar {
    fn integer(&self) -> Option<u64> {
        if let Scalar::Integer(n) = self { Some(*n) } else { None }
    }

    fn real(&self) -> Option<f32> {
        match self {
            Scalar::Integer(n) => Some(*n as f32),
            Scalar::Real(x) => Some(*x as f32),
            Scalar::Text(_) => None,
        }
    }

    fn text(&self) -> Option<&str> {
        if let Scalar::Text(text) = self { Some(text) } else { None }
    }
}

/// Arguments of an operation.
struct OpArgs<'a> {
    tensors: &'a [RuntimeTensor],
    extra: &'a [Scalar],
}

impl OpArgs<'_> {
    fn tensor(&self, at: usize) -> Option<&RuntimeTensor> {
        self.tensors.get(at)
    }

    fn integer(&self, at: usize) -> Option<usize> {
        self.extra.get(at)?.integer().and_then(|n| usize::try_from(n).ok())
    }

    fn real(&self, at: usize) -> Option<f32> {
        self.extra.get(at)?.real()
    }

    fn map(&self) -> Result<Option<Arc<dyn Operation>>, OpError> {
        let Some(text) = self.extra.first().and_then(Scalar::text) else { return Ok(None) };
        let names: Vec<&str> = self.extra.iter().skip(1).filter_map(Scalar::text).collect();
        let expr = Expr::parse(text, &names)?;
        let inputs: Vec<&RuntimeTensor> = self.tensors.iter().collect();
        Ok(Some(Arc::new(ops::map(&expr, &inputs))))
    }
}

type OpConstructor = fn(&OpArgs<'_>) -> Option<Arc<dyn Operation>>;

/// One row per operation: Python name and constructor.
const OPS: &[(&str, OpConstructor)] = &[
    ("matmul", |m| Some(Arc::new(ops::matmul(m.tensor(0)?, m.tensor(1)?)))),
    ("xor", |m| Some(Arc::new(ops::xor(m.tensor(0)?, m.tensor(1)?)))),
    ("sum", |m| Some(Arc::new(ops::sum(m.tensor(0)?)))),
    ("mean", |m| Some(Arc::new(ops::mean(m.tensor(0)?)))),
    ("min", |m| Some(Arc::new(ops::min(m.tensor(0)?)))),
    ("max", |m| Some(Arc::new(ops::max(m.tensor(0)?)))),
    ("norm", |m| Some(Arc::new(ops::norm(m.tensor(0)?)))),
    ("argmin", |m| Some(Arc::new(ops::argmin(m.tensor(0)?)))),
    ("argmax", |m| Some(Arc::new(ops::argmax(m.tensor(0)?)))),
    ("sum_rows", |m| Some(Arc::new(ops::sum(m.tensor(0)?).rows()))),
    ("mean_rows", |m| Some(Arc::new(ops::mean(m.tensor(0)?).rows()))),
    ("min_rows", |m| Some(Arc::new(ops::min(m.tensor(0)?).rows()))),
    ("max_rows", |m| Some(Arc::new(ops::max(m.tensor(0)?).rows()))),
    ("scan_sum", |m| Some(Arc::new(ops::scan_sum(m.tensor(0)?)))),
    ("scan_max", |m| Some(Arc::new(ops::scan_max(m.tensor(0)?)))),
    ("scan_affine", |m| Some(Arc::new(ops::scan_affine(m.tensor(0)?, m.tensor(1)?, m.real(0)?)))),
    ("sort", |m| Some(Arc::new(ops::sort(m.tensor(0)?)))),
    ("sort_descending", |m| Some(Arc::new(ops::sort_descending(m.tensor(0)?)))),
    ("argsort", |m| Some(Arc::new(ops::argsort(m.tensor(0)?)))),
    ("top_k", |m| Some(Arc::new(ops::top_k(m.tensor(0)?, m.integer(0)?)))),
    ("bottom_k", |m| Some(Arc::new(ops::bottom_k(m.tensor(0)?, m.integer(0)?)))),
    ("gather", |m| Some(Arc::new(ops::gather(m.tensor(0)?, m.tensor(1)?)))),
    ("histogram", |m| Some(Arc::new(ops::histogram(m.tensor(0)?, m.integer(0)?, m.real(1)?, m.real(2)?)))),
    ("transpose", |m| Some(Arc::new(ops::transpose(m.tensor(0)?)))),
    ("uniform", |m| Some(Arc::new(ops::uniform(m.integer(0)?, m.integer(1)? as u64, m.integer(2)? as u64)))),
    ("normal", |m| Some(Arc::new(ops::normal(m.integer(0)?, m.integer(1)? as u64, m.integer(2)? as u64)))),
];

#[pymethods]
impl Op {
    /// By name, tensors and scalar arguments.
    #[new]
    fn new(name: &str, tensors: Vec<PyRef<'_, Tensor>>, extra: Vec<Scalar>) -> PyResult<Self> {
        let tensors: Vec<RuntimeTensor> = tensors.iter().map(|t| t.inner.clone()).collect();
        let args = OpArgs { tensors: &tensors, extra: &extra };
        let inner = match name {
            "map" => args.map().map_err(|e| errors::op(&e))?,
            name => OPS.iter().find(|(known, _)| *known == name).and_then(|(_, make)| make(&args)),
        };
        let inner = inner
            .ok_or_else(|| PyTypeError::new_err(format!("{name} cannot be built from these arguments")))?;
        // Invalid operations fail here, not when run.
        inner.outputs().map_err(|e| errors::op(&e))?;
        Ok(Op { inner })
    }

    /// Its name.
    #[getter]
    fn name(&self) -> String {
        self.inner.name().to_owned()
    }

    /// Dtypes and shapes of the results.
    #[getter]
    fn outputs(&self) -> PyResult<Vec<(&'static str, Vec<usize>)>> {
        let specs = self.inner.outputs().map_err(|e| errors::op(&e))?;
        Ok(specs.into_iter().map(|s| (name_of(s.dtype), s.shape)).collect())
    }

    fn __repr__(&self) -> String {
        format!("<gpuforge operation {}>", self.inner.name())
    }
}
