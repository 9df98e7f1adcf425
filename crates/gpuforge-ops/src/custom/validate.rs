//! Validation of custom kernels with naga: parse, type-check, check bindings; cached per source text.

use std::{
    collections::HashMap,
    error::Error,
    fmt,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use naga::{
    AddressSpace, Module, ShaderStage, Span, StorageAccess, WithSpan,
    back::wgsl::{self, WriterFlags},
    valid::{Capabilities, ModuleInfo, ValidationError, ValidationFlags, Validator},
};

use super::loop_guard;

/// Bytes of the parameter block.
const PARAM_BYTES: u32 = 64;
/// The longest source.
const MAX_SOURCE: usize = 1 << 20;
/// Cached kernels; beyond that the cache is cleared.
const MAX_CACHED: usize = 256;
/// Entry point name of rewritten kernels.
const REWRITTEN_ENTRY: &str = "gpuforge_kernel";

/// Cache key: everything the validation depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct KernelRequest {
    pub(super) source: Arc<str>,
    pub(super) entry: Arc<str>,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) f16: bool,
    pub(super) subgroups: bool,
    /// Loop iteration limit per invocation.
    pub(super) limit: u32,
}

/// A validated kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ValidatedKernel {
    /// WGSL for the device.
    pub(super) wgsl: String,
    pub(super) entry: &'static str,
    /// Workgroup size.
    pub(super) group: [u32; 3],
    /// It has loops: an extra guard binding follows its outputs.
    pub(super) guarded: bool,
    /// A single loop, entered once.
    pub(super) single: bool,
}

type CachedResult = Arc<Result<ValidatedKernel, String>>;

/// Validates a kernel, from the cache if possible.
pub(super) fn validated_kernel(request: &KernelRequest) -> CachedResult {
    static CACHE: LazyLock<Mutex<HashMap<KernelRequest, CachedResult>>> = LazyLock::new(Mutex::default);
    let cache = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(result) = cache().get(request) {
        return result.clone();
    }
    let result = Arc::new(prepare(request));
    let mut cache = cache();
    if cache.len() >= MAX_CACHED {
        cache.clear();
    }
    cache.insert(request.clone(), result.clone());
    result
}

/// A binding error at a source location.
#[derive(Debug)]
struct BindingError(String);

impl fmt::Display for BindingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for BindingError {}

fn at(source: &str, span: Span, message: String, here: &str) -> String {
    WithSpan::new(BindingError(message)).with_span(span, here).emit_to_string(source)
}

/// Validates against the device capabilities; `say` formats the message.
fn validate(
    module: &Module,
    request: &KernelRequest,
    say: impl FnOnce(WithSpan<ValidationError>) -> String,
) -> Result<ModuleInfo, String> {
    let mut capabilities = Capabilities::default();
    capabilities.set(Capabilities::SHADER_FLOAT16, request.f16);
    capabilities.set(Capabilities::SUBGROUP, request.subgroups);
    Validator::new(ValidationFlags::all(), capabilities).validate(module).map_err(say)
}

fn prepare(request: &KernelRequest) -> Result<ValidatedKernel, String> {
    let source = request.source.as_ref();
    if source.len() > MAX_SOURCE {
        return Err(format!("the source has {} bytes, at most {MAX_SOURCE}", source.len()));
    }
    let mut module = naga::front::wgsl::parse_str(source).map_err(|e| e.emit_to_string(source))?;
    validate(&module, request, |e| e.emit_to_string(source))?;
    choose_entry(&mut module, request)?;
    check_bindings(&module, request)?;
    let [entry] = module.entry_points.as_slice() else { return Err("there is no entry point".to_owned()) };
    let (group, loops) = (entry.workgroup_size, loop_guard::find(&module, entry));
    let (guarded, single) = (loops.count > 0, loops.single());
    if !guarded && request.entry.as_ref() == "main" {
        return Ok(ValidatedKernel { wgsl: source.to_owned(), entry: "main", group, guarded, single });
    }
    if let Some(entry) = module.entry_points.first_mut() {
        REWRITTEN_ENTRY.clone_into(&mut entry.name);
    }
    if guarded {
        let binding = (1 + request.inputs + request.outputs) as u32;
        loop_guard::instrument(&mut module, loops, binding, request.limit);
    }
    let wgsl = write(&module, request)?;
    Ok(ValidatedKernel { wgsl, entry: REWRITTEN_ENTRY, group, guarded, single })
}

/// Writes an instrumented module back as WGSL and parses it again: the device must get what was meant.
fn write(module: &Module, request: &KernelRequest) -> Result<String, String> {
    let unable = |why: String| format!("its loops cannot be guarded: {why}");
    let info = validate(module, request, |e| unable(e.as_inner().to_string()))?;
    let text = wgsl::write_string(module, &info, WriterFlags::empty()).map_err(|e| unable(e.to_string()))?;
    let again = naga::front::wgsl::parse_str(&text).map_err(|e| unable(e.emit_to_string(&text)))?;
    match again.entry_points.as_slice() {
        [entry] if entry.name == REWRITTEN_ENTRY => Ok(text),
        _ => Err(unable(format!("the name {REWRITTEN_ENTRY} is taken"))),
    }
}

/// Removes all entry points but the requested one.
fn choose_entry(module: &mut Module, request: &KernelRequest) -> Result<(), String> {
    let compute = |e: &&naga::EntryPoint| e.stage == ShaderStage::Compute;
    let names: Vec<&str> = module.entry_points.iter().filter(compute).map(|e| e.name.as_str()).collect();
    let wanted = request.entry.as_ref();
    if names.is_empty() {
        return Err("there is no entry point: a function with @compute @workgroup_size(…)".to_owned());
    }
    if !names.contains(&wanted) {
        return Err(format!("there is no entry point {wanted:?}; there are: {}", names.join(", ")));
    }
    module.entry_points.retain(|e| e.stage == ShaderStage::Compute && e.name == wanted);
    let overridden = module.entry_points.iter().any(|e| e.workgroup_size_overrides.is_some());
    if overridden || !module.overrides.is_empty() {
        return Err("`override` has no value here: use the parameter block".to_owned());
    }
    Ok(())
}

/// Checks the binding layout: 0 parameters, then inputs, then outputs.
fn check_bindings(module: &Module, request: &KernelRequest) -> Result<(), String> {
    let (inputs, outputs) = (request.inputs, request.outputs);
    let mut found = vec![false; 1 + inputs + outputs];
    let write = StorageAccess::LOAD | StorageAccess::STORE;
    for (handle, variable) in module.global_variables.iter() {
        let Some(binding) = variable.binding else { continue };
        let number = binding.binding as usize;
        let (what, want) = match number {
            0 => ("the parameters".to_owned(), "var<uniform>"),
            n if n <= inputs => (format!("input {}", n - 1), "var<storage, read>"),
            n => (format!("output {}", n - inputs - 1), "var<storage, read_write>"),
        };
        let right = match variable.space {
            AddressSpace::Uniform => number == 0,
            AddressSpace::Storage { access } if access == StorageAccess::LOAD => {
                (1..=inputs).contains(&number)
            }
            AddressSpace::Storage { access } => number > inputs && access == write,
            _ => false,
        };
        let span = module.global_variables.get_span(handle);
        let fault = |message: String, here: &str| Err(at(&request.source, span, message, here));
        let Some(found) = found.get_mut(number).filter(|_| binding.group == 0) else {
            let message = format!(
                "nothing is bound here: bindings are @group(0), 0 for parameters, then {inputs} inputs, then {outputs} outputs"
            );
            return fault(message, &format!("group {}, binding {number}", binding.group));
        };
        if !right {
            return fault(format!("binding {number} holds {what}"), &format!("must be {want}"));
        }
        if number == 0
            && module.types.get_handle(variable.ty).is_ok_and(|t| t.inner.size(module.to_ctx()) > PARAM_BYTES)
        {
            return fault(format!("the parameter block has {PARAM_BYTES} bytes"), "is longer");
        }
        *found = true;
    }
    match found.iter().skip(1).position(|found| !found) {
        None => Ok(()),
        Some(n) if n < inputs => Err(format!("binding {}, input {n}, is not declared", n + 1)),
        Some(n) => Err(format!("binding {}, output {}, is not declared", n + 1, n - inputs)),
    }
}
