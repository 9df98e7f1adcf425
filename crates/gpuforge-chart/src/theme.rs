//! Colour palette: one table for light and dark; line and candle colours are colour-blind safe.

/// Light or dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// `prefers-color-scheme` of the viewer in SVG and HTML; light in PNG, which cannot ask.
    #[default]
    Auto,
    /// Dark on white.
    Light,
    /// Light on black.
    Dark,
}

/// A colour by its role; the theme decides its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThemeColor {
    /// The background.
    Background,
    /// Titles and names.
    Text,
    /// Axis labels.
    Muted,
    /// Grid lines and pane borders.
    Grid,
    /// A bar that closed at or above its open.
    Up,
    /// A bar that closed below its open.
    Down,
    /// Volume of up bars, positive histogram values.
    UpSoft,
    /// Volume of down bars, negative histogram values.
    DownSoft,
    /// The area between two levels.
    Band,
    /// The n-th line of a pane; after eight the colours repeat with another dash pattern.
    Line(usize),
}

/// How many line colours there are.
pub(crate) const LINE_COLORS: usize = 8;
/// Rows of the table before the line colours.
const FIXED_COLORS: usize = 9;

/// CSS name, light RGB, dark RGB. Down candles are filled and up candles hollow, so they can be told apart without colour.
const PALETTE: [(&str, u32, u32); FIXED_COLORS + LINE_COLORS] = [
    ("back", 0xffffff, 0x0d1117),
    ("text", 0x1b1f24, 0xe6edf3),
    ("soft", 0x5f6872, 0x9198a1),
    ("rule", 0xe4e8ec, 0x242b33),
    ("up", 0x0b7a75, 0x4fc3bd),
    ("down", 0xc2452d, 0xf07f63),
    ("upsoft", 0xa5d0ce, 0x1f5a58),
    ("downsoft", 0xecb5a9, 0x7a3b2e),
    ("band", 0xf3f5f8, 0x151b23),
    ("l0", 0x1660f0, 0x4a86ff),
    ("l1", 0xcc8400, 0xf8a850),
    ("l2", 0x7a0094, 0xb5a0fa),
    ("l3", 0x788a3c, 0xaef428),
    ("l4", 0xdc2a90, 0xfa62a0),
    ("l5", 0x282c3c, 0xf7ffd8),
    ("l6", 0x00a3cb, 0x70f8f4),
    ("l7", 0x6e2008, 0x96564a),
];

impl ThemeColor {
    fn row(self) -> (&'static str, u32, u32) {
        let at = match self {
            ThemeColor::Background => 0,
            ThemeColor::Text => 1,
            ThemeColor::Muted => 2,
            ThemeColor::Grid => 3,
            ThemeColor::Up => 4,
            ThemeColor::Down => 5,
            ThemeColor::UpSoft => 6,
            ThemeColor::DownSoft => 7,
            ThemeColor::Band => 8,
            ThemeColor::Line(n) => FIXED_COLORS + n % LINE_COLORS,
        };
        PALETTE.get(at).copied().unwrap_or(("text", 0, 0xffffff))
    }

    /// CSS name: a class in SVG, a custom property in HTML.
    pub(crate) fn name(self) -> &'static str {
        self.row().0
    }

    /// Red, green and blue.
    pub(crate) fn rgb(self, dark: bool) -> [u8; 3] {
        let (_, light, dark_rgb) = self.row();
        let [_, red, green, blue] = (if dark { dark_rgb } else { light }).to_be_bytes();
        [red, green, blue]
    }

    /// `#rrggbb`.
    pub(crate) fn hex(self, dark: bool) -> String {
        let [red, green, blue] = self.rgb(dark);
        format!("#{red:02x}{green:02x}{blue:02x}")
    }

    /// Every colour once, in palette order.
    pub(crate) fn all() -> impl Iterator<Item = ThemeColor> {
        let fixed = [
            ThemeColor::Background,
            ThemeColor::Text,
            ThemeColor::Muted,
            ThemeColor::Grid,
            ThemeColor::Up,
            ThemeColor::Down,
            ThemeColor::UpSoft,
            ThemeColor::DownSoft,
            ThemeColor::Band,
        ];
        fixed.into_iter().chain((0..LINE_COLORS).map(ThemeColor::Line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Colour vision deficiency simulation in linear RGB: none, protan, deutan, tritan.
    /// Matrices of Machado, Oliveira and Fernandes, 2009, severity 1.
    const CVD: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ];

    fn linear(color: ThemeColor, dark: bool) -> [f64; 3] {
        color.rgb(dark).map(|c| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn times(m: &[[f64; 3]; 3], v: [f64; 3]) -> [f64; 3] {
        [0, 1, 2].map(|r| (m[r][0] * v[0] + m[r][1] * v[1] + m[r][2] * v[2]).clamp(0.0, 1.0))
    }

    /// CIELAB of linear sRGB under D65.
    fn lab(v: [f64; 3]) -> [f64; 3] {
        let xyz = [
            (0.4124 * v[0] + 0.3576 * v[1] + 0.1805 * v[2]) / 0.95047,
            0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2],
            (0.0193 * v[0] + 0.1192 * v[1] + 0.9505 * v[2]) / 1.08883,
        ];
        let [x, y, z] = xyz.map(|t| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    fn apart(a: [f64; 3], b: [f64; 3]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    fn contrast(a: ThemeColor, b: ThemeColor, dark: bool) -> f64 {
        let luminance = |color| {
            let v = linear(color, dark);
            0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn line_colors_differ_under_color_blindness() {
        for dark in [false, true] {
            for (eye, matrix) in CVD.iter().enumerate() {
                let see = |color| lab(times(matrix, linear(color, dark)));
                for a in 0..LINE_COLORS {
                    for b in 0..a {
                        let far = apart(see(ThemeColor::Line(a)), see(ThemeColor::Line(b)));
                        assert!(far > 18.0, "dark {dark}, eye {eye}: lines {a} and {b} are {far:.1} apart");
                    }
                }
                let far = apart(see(ThemeColor::Up), see(ThemeColor::Down));
                assert!(far > 20.0, "dark {dark}, eye {eye}: candles are {far:.1} apart");
            }
        }
    }

    #[test]
    fn colors_contrast_with_the_background() {
        for dark in [false, true] {
            for n in 0..LINE_COLORS {
                let seen = contrast(ThemeColor::Line(n), ThemeColor::Background, dark);
                assert!(seen >= 2.9, "dark {dark}: line {n} has a contrast of {seen:.2}");
            }
            for (color, least) in [
                (ThemeColor::Text, 7.0),
                (ThemeColor::Muted, 4.5),
                (ThemeColor::Up, 3.0),
                (ThemeColor::Down, 3.0),
            ] {
                let seen = contrast(color, ThemeColor::Background, dark);
                assert!(seen >= least, "dark {dark}: {color:?} has a contrast of {seen:.2}");
            }
        }
    }

    #[test]
    fn line_colors_repeat_after_eight() {
        assert_eq!(ThemeColor::Line(8).hex(false), ThemeColor::Line(0).hex(false));
        assert_eq!(ThemeColor::Background.hex(false), "#ffffff");
        assert_eq!(ThemeColor::all().count(), PALETTE.len());
        assert!(ThemeColor::all().zip(PALETTE).all(|(color, row)| color.name() == row.0));
    }
}
