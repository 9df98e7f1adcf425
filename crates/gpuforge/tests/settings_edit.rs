//! Edits of the settings file: byte preservation, atomic writes, symlinks, permissions, locking.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail loudly too")]

use std::{fs, time::Duration};

use gpuforge::settings::{KEYS, SettingValue, Settings, SettingsError, UserPaths, set, unset};
use tempfile::TempDir;

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn paths(directory: &TempDir) -> UserPaths {
    let at = |name: &str| directory.path().join(name);
    UserPaths { config_file: at("config.toml"), cache_dir: at("cache"), data_dir: at("data") }
}

fn names() -> String {
    KEYS.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")
}

fn no_env(_: &str) -> Option<String> {
    None
}

#[test]
fn set_and_unset_keep_every_other_byte() {
    let directory = directory();
    let file = directory.path().join("config.toml");
    let text = "# mine, since May\r\nversion   =   1\r\n\r\n  color='never'\t# for the log\r\n# tail";
    fs::write(&file, text).unwrap();
    assert_eq!(set(&file, "color", "always").unwrap(), SettingValue::Text("always".into()));
    assert_eq!(fs::read_to_string(&file).unwrap(), text.replace("'never'", "\"always\""));
    set(&file, "auto_install", "on").unwrap();
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        text.replace("'never'", "\"always\"").replace("# tail", "auto_install = true\r\n# tail")
    );
    assert!(unset(&file, "auto_install").unwrap());
    assert!(!unset(&file, "auto_install").unwrap());
    set(&file, "color", "never").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), text.replace("'never'", "\"never\""));
    assert!(unset(&file, "color").unwrap());
    let left = "# mine, since May\r\nversion   =   1\r\n\r\n# for the log\r\n# tail";
    assert_eq!(fs::read_to_string(&file).unwrap(), left);
}

#[test]
fn set_creates_file_and_directory_and_unset_creates_nothing() {
    let directory = directory();
    let file = directory.path().join("a/b/config.toml");
    assert!(!unset(&file, "device").unwrap());
    assert!(!directory.path().join("a").exists());
    set(&file, "memory_limit", "1536 MiB").unwrap();
    let text = "# gpuforge settings\nversion = 1\nmemory_limit = \"1536MiB\"\n";
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    let mut left: Vec<_> =
        fs::read_dir(directory.path().join("a/b")).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".config.toml.lock", "config.toml"]);
}

#[test]
fn mistyped_key_can_be_unset() {
    let directory = directory();
    let file = directory.path().join("config.toml");
    fs::write(&file, "colour = 1\n").unwrap();
    assert!(unset(&file, "colour").unwrap());
    let error = unset(&file, "colour").unwrap_err();
    assert_eq!(error.to_string(), "there is no setting `colour`");
    assert_eq!(error.hint().unwrap(), format!("did you mean color? There are: {}", names()));
}

#[cfg(unix)]
#[test]
fn symlinks_and_permissions_are_preserved() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let directory = directory();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("dotfiles")).unwrap();
    fs::create_dir(at("config")).unwrap();
    symlink("../dotfiles/hop", at("config/config.toml")).unwrap();
    symlink("real.toml", at("dotfiles/hop")).unwrap();
    // First through dangling links, then over what that made.
    set(&at("config/config.toml"), "device", "cpu").unwrap();
    fs::set_permissions(at("dotfiles/real.toml"), fs::Permissions::from_mode(0o640)).unwrap();
    set(&at("config/config.toml"), "color", "never").unwrap();
    let text = "# gpuforge settings\nversion = 1\ndevice = \"cpu\"\ncolor = \"never\"\n";
    assert_eq!(fs::read_to_string(at("dotfiles/real.toml")).unwrap(), text);
    assert_eq!(fs::metadata(at("dotfiles/real.toml")).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(at("config/config.toml")).unwrap().is_symlink());
    assert!(fs::symlink_metadata(at("dotfiles/hop")).unwrap().is_symlink());

    symlink("loop", at("loop")).unwrap();
    let error = set(&at("loop"), "device", "cpu").unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot write settings {}: more than 40 links in a row", at("loop").display())
    );
}

#[test]
fn failed_write_leaves_the_old_file() {
    let directory = directory();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("config.toml"), "device = 'cpu'\n").unwrap();
    // A file where the directory should be.
    let below = at("config.toml").join("config.toml");
    let error = set(&below, "color", "never").unwrap_err();
    assert!(
        error.to_string().starts_with(&format!("cannot write settings {}: ", below.display())),
        "{error}"
    );
    let hint = format!("make {} writable, or set GPUFORGE_CONFIG to another file", below.display());
    assert_eq!(error.hint().unwrap(), hint);
    // A directory where the lock should be.
    fs::create_dir(at(".config.toml.lock")).unwrap();
    let error = set(&at("config.toml"), "color", "never").unwrap_err();
    assert!(
        error.to_string().contains(&format!(": lock {}: ", at(".config.toml.lock").display())),
        "{error}"
    );
    fs::remove_dir(at(".config.toml.lock")).unwrap();
    // A file its owner protects.
    let mut permissions = fs::metadata(at("config.toml")).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(at("config.toml"), permissions).unwrap();
    let error = set(&at("config.toml"), "color", "never").unwrap_err();
    let text = format!("cannot write settings {}: it is marked read-only", at("config.toml").display());
    assert_eq!(error.to_string(), text);
    // Text that is no TOML.
    fs::write(at("broken.toml"), "device =\n").unwrap();
    assert!(matches!(set(&at("broken.toml"), "color", "never"), Err(SettingsError::Syntax { .. })));
    assert_eq!(fs::read_to_string(at("broken.toml")).unwrap(), "device =\n");
    assert_eq!(fs::read_to_string(at("config.toml")).unwrap(), "device = 'cpu'\n");
}

#[test]
fn lock_times_out_after_two_seconds() {
    let directory = directory();
    let file = directory.path().join("config.toml");
    let lock = directory.path().join(".config.toml.lock");
    let held = fs::File::create(&lock).unwrap();
    held.lock().unwrap();
    let start = std::time::Instant::now();
    let error = set(&file, "color", "never").unwrap_err();
    assert!(start.elapsed() >= Duration::from_secs(2) && !file.exists());
    let text = format!("settings are locked by another process: waited 2000 ms for {}", lock.display());
    assert_eq!(error.to_string(), text);
    assert_eq!(
        error.hint().unwrap(),
        "try again when the other gpuforge is done; the lock ends with its process"
    );
    drop(held);
    set(&file, "color", "never").unwrap();
}

#[test]
fn concurrent_writers_lose_no_update() {
    let directory = directory();
    let paths = paths(&directory);
    let write = |name: &'static str| {
        for n in 1..=50u64 {
            set(&paths.config_file, name, &format!("{n}s")).unwrap();
            // The other writer may have been here since, but never with an old value of ours.
            let settings = Settings::load(&paths, &no_env, &[]).unwrap();
            assert_eq!(settings.get(name).unwrap().value, SettingValue::Duration(Duration::from_secs(n)));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| write("cache_ttl"));
        scope.spawn(|| write("probe_timeout"));
    });
    let settings = Settings::load(&paths, &no_env, &[]).unwrap();
    assert_eq!(settings.cache_ttl(), settings.probe_timeout());
    assert_eq!(settings.cache_ttl().as_secs(), 50);
}
