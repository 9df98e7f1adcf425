//! [`ChartError`]: why a scene could not be rasterised.

/// Why a picture could not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ChartError {
    /// The scale is not positive, or the picture would be too large.
    #[error("a picture of {width} x {height} at scale {scale} cannot be made\n  hint: {hint}")]
    Size {
        /// Width of the scene.
        width: f64,
        /// Height of the scene.
        height: f64,
        /// Pixels per unit of the scene.
        scale: f64,
        /// The limits.
        hint: String,
    },
    /// The encoder failed.
    #[error("cannot encode the picture: {0}")]
    Encode(String),
}
