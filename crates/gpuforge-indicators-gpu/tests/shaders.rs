//! naga validation of every shader: files, and generated kernels of the whole catalogue.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

use gpuforge_indicators::{
    catalogue,
    select::{self, Instance, SelectItem},
};
use gpuforge_indicators_gpu::{
    kernels::{self, SOURCES},
    lower::{self, Call},
};

fn validate(name: &str, text: &str) {
    let module =
        naga::front::wgsl::parse_str(text).unwrap_or_else(|e| panic!("{name}: {}", e.emit_to_string(text)));
    let flags = naga::valid::ValidationFlags::all();
    // Nothing beyond what every device has.
    let mut validator = naga::valid::Validator::new(flags, naga::valid::Capabilities::empty());
    if let Err(error) = validator.validate(&module) {
        panic!("{name}: {}", error.emit_to_string(text));
    }
}

#[test]
fn shader_files_are_valid() {
    for (name, own) in SOURCES {
        validate(name, &kernels::source(own));
    }
}

#[test]
fn generated_kernels_are_valid_and_independent_of_parameters() {
    let bodies = |wanted: &[SelectItem]| -> Vec<String> {
        let (graph, values, _) = select::graph(wanted);
        let on = lower::fits(&graph, &values);
        let lowered = lower::lower(&graph, &values, &on).expect("it can be lowered");
        let calls = lowered.stages.into_iter().flatten();
        calls.filter_map(|c| if let Call::Pointwise(p) = c { Some(p.body) } else { None }).collect()
    };
    let all: Vec<SelectItem> = catalogue::all().map(|row| SelectItem::from(Instance::of(row))).collect();
    let found = bodies(&all);
    println!("{} generated kernels", found.len());
    for (at, body) in found.iter().enumerate() {
        validate(&format!("generated {at}"), &kernels::pointwise_source(body, 64));
    }
    let row =
        |name: &str, params: &[f64]| SelectItem::from(Instance::with(catalogue::find(name).unwrap(), params));
    let one = bodies(&[row("rsi", &[14.0]), row("bbands", &[20.0, 2.0, 2.0]), row("roc", &[10.0])]);
    let other = bodies(&[row("rsi", &[9.0]), row("bbands", &[50.0, 3.0, 3.0]), row("roc", &[3.0])]);
    assert_eq!(one, other, "parameters are data");
}
