//! Which colours? One table for light and dark; lines and candles that the colour-blind can tell apart.

/// Background of the drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// As the viewer prefers where the format can ask (SVG, HTML), light where it cannot (PNG).
    #[default]
    Auto,
    /// Dark on white.
    Light,
    /// Light on black.
    Dark,
}

/// What a colour is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// The background.
    Back,
    /// Titles and names.
    Text,
    /// Labels of axes.
    Soft,
    /// Grid lines and frames.
    Rule,
    /// A bar that closed at or above its open.
    Up,
    /// A bar that closed below its open.
    Down,
    /// Volume and histograms, upwards.
    UpSoft,
    /// Volume and histograms, downwards.
    DownSoft,
    /// The area between two levels.
    Band,
    /// The n-th line of a panel; after eight the colours repeat with other dashes.
    Line(usize),
}

/// How many line colours there are.
pub(super) const LINES: usize = 8;
/// Rows of the table before the line colours.
const BEFORE: usize = 9;

/// Name, light, dark. Down is filled and up hollow, so that candles do not need colour at all.
const TABLE: [(&str, u32, u32); BEFORE + LINES] = [
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

impl Ink {
    fn row(self) -> (&'static str, u32, u32) {
        let at = match self {
            Ink::Back => 0,
            Ink::Text => 1,
            Ink::Soft => 2,
            Ink::Rule => 3,
            Ink::Up => 4,
            Ink::Down => 5,
            Ink::UpSoft => 6,
            Ink::DownSoft => 7,
            Ink::Band => 8,
            Ink::Line(n) => BEFORE + n % LINES,
        };
        TABLE.get(at).copied().unwrap_or(("text", 0, 0xffffff))
    }

    /// Its name: a class in SVG, a variable in HTML.
    pub(super) fn name(self) -> &'static str {
        self.row().0
    }

    /// Red, green and blue.
    pub(super) fn rgb(self, dark: bool) -> [u8; 3] {
        let (_, light, night) = self.row();
        let [_, red, green, blue] = (if dark { night } else { light }).to_be_bytes();
        [red, green, blue]
    }

    /// `#rrggbb`.
    pub(super) fn hex(self, dark: bool) -> String {
        let [red, green, blue] = self.rgb(dark);
        format!("#{red:02x}{green:02x}{blue:02x}")
    }
}

/// Every ink once.
pub(super) fn inks() -> impl Iterator<Item = Ink> {
    let plain = [
        Ink::Back,
        Ink::Text,
        Ink::Soft,
        Ink::Rule,
        Ink::Up,
        Ink::Down,
        Ink::UpSoft,
        Ink::DownSoft,
        Ink::Band,
    ];
    plain.into_iter().chain((0..LINES).map(Ink::Line))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the colour-blind see of linear red, green and blue: protan, deutan, tritan.
    /// Matrices of Machado, Oliveira and Fernandes, 2009, severity 1.
    const SEEN: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ];

    fn linear(ink: Ink, dark: bool) -> [f64; 3] {
        ink.rgb(dark).map(|c| {
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

    fn contrast(a: Ink, b: Ink, dark: bool) -> f64 {
        let shine = |ink| {
            let v = linear(ink, dark);
            0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]
        };
        let (a, b) = (shine(a), shine(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn lines_differ_for_every_eye() {
        for dark in [false, true] {
            for (eye, seen) in SEEN.iter().enumerate() {
                let see = |ink| lab(times(seen, linear(ink, dark)));
                for a in 0..LINES {
                    for b in 0..a {
                        let far = apart(see(Ink::Line(a)), see(Ink::Line(b)));
                        assert!(far > 18.0, "dark {dark}, eye {eye}: lines {a} and {b} are {far:.1} apart");
                    }
                }
                let far = apart(see(Ink::Up), see(Ink::Down));
                assert!(far > 20.0, "dark {dark}, eye {eye}: candles are {far:.1} apart");
            }
        }
    }

    #[test]
    fn everything_stands_out_from_the_background() {
        for dark in [false, true] {
            for n in 0..LINES {
                let seen = contrast(Ink::Line(n), Ink::Back, dark);
                assert!(seen >= 2.9, "dark {dark}: line {n} has a contrast of {seen:.2}");
            }
            for (ink, least) in [(Ink::Text, 7.0), (Ink::Soft, 4.5), (Ink::Up, 3.0), (Ink::Down, 3.0)] {
                let seen = contrast(ink, Ink::Back, dark);
                assert!(seen >= least, "dark {dark}: {ink:?} has a contrast of {seen:.2}");
            }
        }
    }

    #[test]
    fn colours_repeat_after_eight() {
        assert_eq!(Ink::Line(8).hex(false), Ink::Line(0).hex(false));
        assert_eq!(Ink::Back.hex(false), "#ffffff");
        assert_eq!(inks().count(), TABLE.len());
        assert!(inks().zip(TABLE).all(|(ink, row)| ink.name() == row.0));
    }
}
