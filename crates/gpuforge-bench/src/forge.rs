//! Construction time of a `Forge`, which loads no GPU library.

use anyhow::{Result, bail};
use gpuforge::{
    Forge,
    settings::{Settings, UserPaths},
};

use crate::{
    measure::{Sample, ms},
    row::Row,
};

const CALLS: usize = 1001;

pub(crate) fn run() -> Result<Vec<Row>> {
    let dir = tempfile::tempdir()?;
    let path = |name: &str| dir.path().join(name);
    let places = UserPaths { config_file: path("c.toml"), cache_dir: path("cache"), data_dir: path("data") };
    let env = |_: &str| None;
    let settings = Settings::load_lenient(&places, &env, &[]);
    let once = || ms(|| Ok(Forge::with(&settings, &places, &env)));
    let times = (0..CALLS).map(|_| once()).collect::<Result<Vec<_>>>()?;
    if std::fs::read_to_string("/proc/self/maps").is_ok_and(|maps| maps.contains("libvulkan")) {
        bail!("a GPU library was loaded");
    }
    Ok(vec![Row::vs_limit("forge", "Forge::new, no GPU library loaded", &Sample::of(&times), 0.1)])
}
