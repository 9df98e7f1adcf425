//! Arguments of `#[profiled(…)]`: name, category, crate path.

use proc_macro2::{Ident, Span, TokenStream};
use syn::{LitStr, Path, meta::ParseNestedMeta, parse::Parser as _, parse_quote};

/// Category as written, and the variant of `gpuforge_profile::Category` it stands for.
const CATEGORIES: [(&str, &str); 5] =
    [("cpu", "Cpu"), ("gpu", "Gpu"), ("transfer", "Transfer"), ("wait", "Wait"), ("overhead", "Overhead")];

/// The options of one attribute.
pub(crate) struct Options {
    /// Name of the span; the function's path without one.
    pub(crate) name: Option<LitStr>,
    /// Path of the crate that has `span!` and `Category`.
    pub(crate) crate_path: Path,
    variant: &'static str,
}

impl Options {
    /// Reads the tokens between the parentheses.
    pub(crate) fn parse(tokens: TokenStream) -> syn::Result<Self> {
        let (mut name, mut category, mut crate_path) = (None, None, None);
        let parser = syn::meta::parser(|meta| {
            if meta.path.is_ident("name") {
                once(&mut name, &meta)
            } else if meta.path.is_ident("category") {
                once(&mut category, &meta)
            } else if meta.path.is_ident("crate") {
                once(&mut crate_path, &meta)
            } else {
                Err(meta.error("not an option of #[profiled]; there are: name, category, crate"))
            }
        });
        parser.parse2(tokens)?;
        Ok(Options {
            name,
            variant: category.as_ref().map_or(Ok("Cpu"), variant)?,
            crate_path: match crate_path {
                Some(path) => path.parse()?,
                None => parse_quote!(::gpuforge_profile),
            },
        })
    }

    /// The variant of `Category`.
    pub(crate) fn category(&self) -> Ident {
        Ident::new(self.variant, Span::call_site())
    }
}

/// Parses `= "text"` into `option`; an error if it is already set.
fn once(option: &mut Option<LitStr>, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
    if option.is_some() {
        return Err(meta.error("given twice"));
    }
    *option = Some(meta.value()?.parse()?);
    Ok(())
}

fn variant(word: &LitStr) -> syn::Result<&'static str> {
    let text = word.value();
    let row = CATEGORIES.iter().find(|(written, _)| *written == text);
    row.map(|(_, variant)| *variant).ok_or_else(|| {
        let known = CATEGORIES.map(|(written, _)| written).join(", ");
        syn::Error::new(word.span(), format!("no such category; there are: {known}"))
    })
}
