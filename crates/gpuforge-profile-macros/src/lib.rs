//! Attribute macro `#[profiled]`: inserts a span guard as the first statement of a function.
//!
//! Re-exported by `gpuforge-profile`, which has the documentation for users. A guard that is declared first is dropped
//! last, so it covers the body and the destructors of its locals, and it closes on return, `?` and panic alike. The body of
//! an `async fn` starts at the first poll, so the same first statement measures from there to completion (or to the drop
//! of the future); only the type of the guard differs.
//!
//! ```text
//! #[profiled(name, category, crate)] ─► options.rs: Options::parse ─► lib.rs: expand ─► fn with `span!` / `async_span!`
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | `lib.rs` | the attribute and its expansion |
//! | `options.rs` | arguments of the attribute |

mod options;

use options::Options;
use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{quote, quote_spanned};
use syn::{ItemFn, ext::IdentExt as _, parse_quote_spanned, spanned::Spanned as _};

/// Records each call of a function as a span; see `gpuforge_profile::profiled`.
#[proc_macro_attribute]
pub fn profiled(options: TokenStream, item: TokenStream) -> TokenStream {
    let made = Options::parse(options.into()).and_then(|options| expand(&options, item.into()));
    made.unwrap_or_else(|error| error.to_compile_error()).into()
}

/// The function with the guard inserted at the start of its body.
fn expand(options: &Options, item: Tokens) -> syn::Result<Tokens> {
    let mut function: ItemFn = syn::parse2(item)?;
    let signature = &function.sig;
    if let Some(word) = &signature.constness {
        return Err(syn::Error::new(
            word.span(),
            "a `const fn` has no clock: #[profiled] needs a plain function",
        ));
    }
    let crate_path = &options.crate_path;
    let at = signature.ident.span();
    let name = match &options.name {
        Some(name) => quote!(#name),
        None => {
            let ident = signature.ident.unraw().to_string();
            quote_spanned!(at=> ::core::concat!(::core::module_path!(), "::", #ident))
        }
    };
    let category = options.category();
    let guard = match signature.asyncness {
        Some(_) => quote!(async_span),
        None => quote!(span),
    };
    let statement = parse_quote_spanned! {at=>
        let __profiled = #crate_path::#guard!(#name, #crate_path::Category::#category);
    };
    function.block.stmts.insert(0, statement);
    Ok(quote!(#function))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: &str, item: &str) -> String {
        let tokens = |text: &str| text.parse::<Tokens>().unwrap();
        let made = Options::parse(tokens(options)).and_then(|options| expand(&options, tokens(item)));
        made.map_or_else(|error| format!("error: {error}"), |tokens| tokens.to_string().replace(' ', ""))
    }

    #[test]
    fn function_gets_a_span_named_after_its_path() {
        let text = check("", "pub fn load<T: Copy>(&self, x: T) -> T { x }");
        assert!(text.contains("let__profiled=::gpuforge_profile::span!("), "{text}");
        assert!(text.contains(r#"::core::concat!(::core::module_path!(),"::","load")"#), "{text}");
        assert!(text.contains("::gpuforge_profile::Category::Cpu);x}"), "{text}");
        assert!(text.starts_with("pubfnload<T:Copy>(&self,x:T)->T{"), "{text}");
        assert!(check("", "fn r#type() {}").contains(r#""type""#));
    }

    #[test]
    fn async_function_gets_an_async_span() {
        let text = check(r#"name = "step", category = "wait""#, "async fn step() {}");
        let guard = r#"::gpuforge_profile::async_span!("step",::gpuforge_profile::Category::Wait)"#;
        assert!(text.contains(guard), "{text}");
    }

    #[test]
    fn crate_path_is_used_throughout() {
        let text = check(r#"crate = "gpuforge::profile""#, "fn a() {}");
        assert!(text.contains("gpuforge::profile::span!(") && !text.contains("::gpuforge_profile"), "{text}");
    }

    #[test]
    fn invalid_items_and_options_are_compile_errors() {
        for (options, item, reason) in [
            ("", "const fn a() {}", "has no clock"),
            ("", "struct A;", "error:"),
            ("", "fn a();", "error:"),
            (r#"category = "disk""#, "fn a() {}", "cpu, gpu, transfer, wait, overhead"),
            (r#"colour = "red""#, "fn a() {}", "name, category, crate"),
            ("name = 3", "fn a() {}", "error:"),
            (r#"name = "a", name = "b""#, "fn a() {}", "twice"),
            (r#"crate = "not a path""#, "fn a() {}", "error:"),
        ] {
            let text = check(options, item);
            assert!(text.starts_with("error:") && text.contains(reason), "{options} {item}: {text}");
        }
    }
}
