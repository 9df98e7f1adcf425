//! Settings end to end: precedence, broken files, error messages, template.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail loudly too")]

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use gpuforge::settings::{
    KEYS, Origin, Resolved, SettingKey, SettingLocation, SettingValue, Settings, SettingsError, UserPaths,
    markdown, nearest, set, template, unset,
};
use proptest::prelude::*;
use tempfile::TempDir;

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn paths(directory: &TempDir) -> UserPaths {
    let at = |name: &str| directory.path().join(name);
    UserPaths { config_file: at("config.toml"), cache_dir: at("cache"), data_dir: at("data") }
}

/// Settings of a file with this text, with the directory's path cut from the messages.
fn load(text: impl AsRef<[u8]>) -> (Result<Settings, String>, Settings, Vec<String>) {
    let directory = directory();
    let paths = paths(&directory);
    fs::write(&paths.config_file, text).unwrap();
    let cut =
        |error: &SettingsError| error.to_string().replace(&format!("{}/", directory.path().display()), "");
    let strict = Settings::load(&paths, &no_env, &[]).map_err(|error| cut(&error));
    let lenient = Settings::load_lenient(&paths, &no_env, &[]);
    let warnings = lenient.warnings().iter().map(cut).collect();
    (strict, lenient, warnings)
}

fn no_env(_: &str) -> Option<String> {
    None
}

#[test]
fn every_default_parses_and_prints_as_in_the_table() {
    for key in KEYS {
        let value = key.kind.parse(key.default).unwrap_or_else(|why| panic!("{}: {why}", key.name));
        assert_eq!(value.to_string(), key.default, "{}", key.name);
        assert_eq!(key.default_value(), value);
        assert_eq!(key.kind.parse(&key.example().to_string()).unwrap(), key.example());
        let twins =
            KEYS.iter().filter(|k| k.name == key.name || (k.env.is_some() && k.env == key.env)).count();
        assert_eq!(twins, 1, "{} or its variable is there twice", key.name);
        // One variable is named for what people look for, not for its key.
        let expected = if key.name == "verbosity" { "LOG".to_owned() } else { key.name.to_uppercase() };
        assert!(key.env.is_none_or(|env| env == format!("GPUFORGE_{expected}")));
        assert!(!key.doc.contains('\n') && !key.doc.ends_with('.'));
    }
}

#[test]
fn every_accessor_reads_its_own_row() {
    let settings = Settings::default();
    let read: BTreeMap<&str, String> = BTreeMap::from([
        ("default_framework", settings.default_framework().to_owned()),
        ("preferred_profile", settings.preferred_profile().to_owned()),
        ("auto_install", settings.auto_install().to_string()),
        ("verbosity", settings.verbosity().to_owned()),
        ("cache_enabled", settings.cache_enabled().to_string()),
        ("cache_ttl", SettingValue::Duration(settings.cache_ttl()).to_string()),
        ("parallel_probes", settings.parallel_probes().to_string()),
        ("probe_timeout", SettingValue::Duration(settings.probe_timeout()).to_string()),
        ("fallback", settings.fallback().to_owned()),
        ("device", settings.device().to_owned()),
        ("devices_allow", settings.devices_allow().join(",")),
        ("devices_deny", settings.devices_deny().join(",")),
        ("cpu_only", settings.cpu_only().to_string()),
        ("memory_limit", SettingValue::Size(settings.memory_limit()).to_string()),
        ("explore", settings.explore().to_string()),
        (
            "device_min_bytes",
            SettingValue::Size(Some(settings.device_min_bytes()).filter(|b| *b > 0)).to_string(),
        ),
        ("monitor", settings.monitor().to_string()),
        ("color", settings.color().to_owned()),
    ]);
    let table: BTreeMap<&str, String> = KEYS.iter().map(|key| (key.name, key.default.to_owned())).collect();
    assert_eq!(read, table);
    let set = Settings::load(&paths(&directory()), &no_env, &[("memory_limit", "2G"), ("cpu_only", "yes")])
        .unwrap();
    assert_eq!((set.memory_limit(), set.cpu_only()), (Some(2 << 30), true));
}

#[test]
fn flag_beats_environment_beats_file_beats_default() {
    let directory = directory();
    let paths = paths(&directory);
    let env = |name: &str| (name == "GPUFORGE_CACHE_TTL").then(|| "3m".to_owned());
    let empty = |name: &str| (name == "GPUFORGE_CACHE_TTL").then(|| " ".to_owned());
    let ttl = |settings: Settings| {
        (settings.cache_ttl().as_secs(), settings.get("cache_ttl").unwrap().origin.clone())
    };
    let flags = [("cache_ttl", "1s"), ("cache_ttl", "4m")];

    assert_eq!(ttl(Settings::load(&paths, &no_env, &[]).unwrap()), (3600, Origin::Default));
    set(&paths.config_file, "cache_ttl", "2m").unwrap();
    let file = Origin::File(paths.config_file.clone());
    assert_eq!(ttl(Settings::load(&paths, &no_env, &[]).unwrap()), (120, file.clone()));
    assert_eq!(ttl(Settings::load(&paths, &empty, &[]).unwrap()), (120, file));
    assert_eq!(ttl(Settings::load(&paths, &env, &[]).unwrap()), (180, Origin::Env("GPUFORGE_CACHE_TTL")));
    assert_eq!(ttl(Settings::load(&paths, &env, &flags).unwrap()), (240, Origin::Flag));
    // The others stay where they were.
    let settings = Settings::load(&paths, &env, &flags).unwrap();
    assert_eq!(
        settings.all().filter(|(_, resolved)| resolved.origin == Origin::Default).count(),
        KEYS.len() - 1
    );
}

#[test]
fn every_environment_variable_is_read() {
    for (key, env) in KEYS.iter().filter_map(|key| Some((key, key.env?))) {
        let text = key.example().to_string();
        let read = |name: &str| (name == env).then(|| text.clone());
        let settings = Settings::load(&paths(&directory()), &read, &[]).unwrap();
        let want = Resolved { value: key.example(), origin: Origin::Env(env) };
        assert_eq!(settings.get(key.name).unwrap(), &want);
    }
}

#[test]
fn invalid_variable_is_an_error_or_a_warning_and_the_file_wins() {
    let directory = directory();
    let paths = paths(&directory);
    set(&paths.config_file, "memory_limit", "3GiB").unwrap();
    let env = |name: &str| (name == "GPUFORGE_MEMORY_LIMIT").then(|| "lots".to_owned());
    let error = Settings::load(&paths, &env, &[]).unwrap_err();
    let text = "GPUFORGE_MEMORY_LIMIT: memory_limit must be a size such as 8GiB, or none, not `lots`: \
                it does not begin with a number";
    assert_eq!(error.to_string(), text);
    assert_eq!(error.hint().unwrap(), "for example: GPUFORGE_MEMORY_LIMIT=8GiB");
    let lenient = Settings::load_lenient(&paths, &env, &[]);
    assert_eq!(lenient.memory_limit(), Some(3 << 30));
    assert_eq!(lenient.warnings(), [error]);
}

#[test]
fn invalid_flag_is_reported_first() {
    let directory = directory();
    let paths = paths(&directory);
    fs::write(&paths.config_file, "colour = 1").unwrap();
    let env = |name: &str| (name == "GPUFORGE_CPU_ONLY").then(|| "maybe".to_owned());
    let error = Settings::load(&paths, &env, &[("cache_ttl", "400d")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "--cache-ttl: cache_ttl must be a duration from 0 to 365d, not `400d`: it is out of range"
    );
    assert_eq!(error.hint().unwrap(), "for example: --cache-ttl 1h");
    let lenient = Settings::load_lenient(&paths, &env, &[("cache_ttl", "400d"), ("nope", "1")]);
    let kinds: Vec<bool> =
        lenient.warnings().iter().map(|w| matches!(w, SettingsError::UnknownKey { .. })).collect();
    assert_eq!(kinds, [false, true, false, true], "flag, flag, environment, file");
    assert_eq!(lenient.cache_ttl(), Duration::from_secs(3600));
}

#[test]
fn file_errors_have_line_and_column() {
    let (strict, lenient, warnings) = load(
        "# mine\ncach_ttl = \"2h\"\ndevice = \"cuda:0\"\ncache_enabled = \"yes\"\n  color = \"blue\"\n\
         probe_timeout = 5\nmemory_limit = 4096\nfallback = ['cpu']\n[verbosity]\nx = 1\n",
    );
    let want = [
        "config.toml:2:1: there is no setting `cach_ttl`",
        "config.toml:4:17: cache_enabled must be true or false, not `\"yes\"`",
        "config.toml:5:11: color must be one of auto, always, never, not `\"blue\"`",
        "config.toml:6:17: probe_timeout must be a duration from 1ms to 10m, not `5`: \
         the unit is missing, use one of ns, us, ms, s, m, h, d",
        "config.toml:7:16: memory_limit must be a size such as 8GiB, or none, not `4096`: \
         the unit is missing, use one of B, KiB, MiB, GiB, TiB",
        "config.toml:8:12: fallback must be one of cpu, error, not `['cpu']`",
        "config.toml:9:2: `verbosity` is a table; settings are lines of the form name = value",
    ];
    assert_eq!(warnings, want);
    assert_eq!(strict.unwrap_err(), want[0]);
    assert_eq!(lenient.device(), "cuda:0");
    assert_eq!(lenient.cache_ttl(), Duration::from_secs(3600));
    let hints: Vec<String> = lenient.warnings().iter().filter_map(SettingsError::hint).collect();
    assert_eq!(hints[0], format!("did you mean cache_ttl? There are: {}", names()));
    assert_eq!(hints[1], "for example: cache_enabled = true");
    assert_eq!(hints[4], "for example: memory_limit = \"8GiB\"");
    assert_eq!(hints[6], "remove the table (gpuforge config edit)");
}

fn names() -> String {
    KEYS.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")
}

#[test]
fn invalid_toml_is_an_error_or_all_defaults() {
    let cases: [(&[u8], &str); 5] = [
        (b"device = \"cpu\"\ncolor = = 1\n", "config.toml:2:9: not valid TOML: extra `=`, expected nothing"),
        (b"device = 'a'\ndevice = 'b'\n", "config.toml:2:1: not valid TOML: duplicate key"),
        (b"device", "config.toml:1:7: not valid TOML: key with no value, expected `=`"),
        (b"color = 'never'\n\xc3\xa4\xff", "config.toml:2:2: not valid TOML: the text is not UTF-8"),
        (b"\xff\xfed\x00", "config.toml:1:1: not valid TOML: the text is not UTF-8"),
    ];
    for (bytes, text) in cases {
        let (strict, lenient, warnings) = load(bytes);
        let error = strict.unwrap_err();
        assert_eq!(error, text);
        assert_eq!(warnings, [error]);
        assert!(lenient.all().all(|(_, resolved)| resolved.origin == Origin::Default));
        let hint = lenient.warnings()[0].hint().unwrap();
        assert_eq!(
            hint,
            "correct that line (gpuforge config edit), or move the file away to use the defaults"
        );
    }
    let (strict, ..) = load("[".repeat(100_000));
    assert!(strict.unwrap_err().starts_with("config.toml:1:"));
}

#[test]
fn non_settings_files_are_rejected() {
    let (strict, lenient, _) = load(" ".repeat((256 << 10) + 1));
    assert_eq!(strict.unwrap_err().replace("config.toml", "F"), {
        let path = lenient.warnings()[0].to_string();
        assert!(path.ends_with("config.toml are larger than 262144 bytes"));
        "settings F are larger than 262144 bytes".to_owned()
    });
    assert_eq!(
        lenient.warnings()[0].hint().unwrap(),
        "check that GPUFORGE_CONFIG names a settings file, or move the file away"
    );
    let directory = directory();
    let path = directory.path().join("d");
    fs::create_dir(&path).unwrap();
    let paths = UserPaths { config_file: path.clone(), ..paths(&directory) };
    let error = Settings::load(&paths, &no_env, &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot read settings {}: it is not a regular file", path.display())
    );
    let hint = format!("make {} readable, or set GPUFORGE_CONFIG to another file", path.display());
    assert_eq!(error.hint().unwrap(), hint);
    let error = set(&path, "device", "cpu").unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot write settings {}: it is not a regular file", path.display())
    );
}

#[cfg(unix)]
#[test]
fn the_null_device_means_no_settings_and_survives_a_set() {
    use std::os::unix::fs::FileTypeExt as _;
    let paths = UserPaths { config_file: "/dev/null".into(), ..paths(&directory()) };
    assert_eq!(Settings::load(&paths, &no_env, &[]).unwrap(), Settings::default());
    let null = Path::new("/dev/null");
    let error = set(null, "device", "cpu").unwrap_err();
    assert_eq!(error.to_string(), "cannot write settings /dev/null: it is not a regular file");
    assert!(fs::metadata(null).unwrap().file_type().is_char_device());
    assert!(!Path::new("/dev/.null.lock").exists());
}

#[test]
fn later_version_is_read_with_a_warning_and_never_written() {
    let directory = directory();
    let paths = paths(&directory);
    let text = "version = 7\ndevice = \"cpu\"\nwarp = 9\n";
    fs::write(&paths.config_file, text).unwrap();
    let settings = Settings::load(&paths, &no_env, &[]).unwrap();
    assert_eq!(settings.device(), "cpu");
    assert_eq!(settings.warnings().len(), 2, "the version and the unknown key");
    let newer = &settings.warnings()[0];
    let path = paths.config_file.display();
    assert_eq!(newer.to_string(), format!("settings {path} have version 7; this gpuforge knows up to 1"));
    assert_eq!(
        newer.hint().unwrap(),
        "use the gpuforge that wrote them, or set GPUFORGE_CONFIG to another file"
    );
    assert_eq!(&set(&paths.config_file, "device", "gpu").unwrap_err(), newer);
    assert_eq!(&unset(&paths.config_file, "device").unwrap_err(), newer);
    assert_eq!(fs::read_to_string(&paths.config_file).unwrap(), text);
    let (strict, lenient, _) = load("version = 'x'\ncolor = 'never'\n");
    assert_eq!(strict.unwrap_err(), "config.toml:1:1: version must be a whole number from 1, not `'x'`");
    assert_eq!(lenient.warnings()[0].hint().unwrap(), "for example: version = 1");
    assert_eq!(lenient.color(), "never");
}

#[test]
fn invalid_argument_has_a_hint() {
    let file = Path::new("/nowhere/config.toml");
    let check = |name: &str, value: &str, text: &str, hint: &str| {
        let error = set(file, name, value).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.hint().unwrap().as_str()), (text, hint));
    };
    check(
        "Cache-TTL",
        "1h",
        "there is no setting `Cache-TTL`",
        &format!("did you mean cache_ttl? There are: {}", names()),
    );
    check("\u{1b}[2J\n", "1", "there is no setting `\\u{1b}[2J\\n`", &format!("there are: {}", names()));
    check(
        "auto_install",
        "perhaps",
        "auto_install must be true or false, not `perhaps`",
        "for example: gpuforge config set auto_install false",
    );
    check(
        "device",
        " ",
        "device must be auto, cpu, gpu, a position such as 0 or gpu:0, a bus id such as 01:00.0, a vendor, or part of \
         a name, not ` `: it is empty",
        "for example: gpuforge config set device auto",
    );
    check(
        "device",
        "gpu0x",
        "device must be auto, cpu, gpu, a position such as 0 or gpu:0, a bus id such as 01:00.0, a vendor, or part of \
         a name, not `gpu0x`: only a whole number may follow `gpu`",
        "for example: gpuforge config set device auto",
    );
    check(
        "memory_limit",
        "8 parsecs",
        "memory_limit must be a size such as 8GiB, or none, not `8 parsecs`: \
         `parsecs` is not a unit, use one of B, KiB, MiB, GiB, TiB",
        "for example: gpuforge config set memory_limit 8GiB",
    );
    let long = "x".repeat(81);
    let text = format!("color must be one of auto, always, never, not `{}…`", "x".repeat(80));
    check("color", &long, &text, "for example: gpuforge config set color auto");
    let error = Settings::default().get("version").unwrap_err();
    assert_eq!(
        error,
        SettingsError::UnknownKey { location: SettingLocation::Argument, name: "version".into() }
    );
}

#[test]
fn nearest_name_suggestions() {
    for key in KEYS {
        assert_eq!(nearest(&key.name.to_uppercase().replace('_', "-")), Some(key.name));
    }
    let near = [
        ("colour", "color"),
        ("cache", "cache_ttl"),
        ("memory-limt", "memory_limit"),
        ("cpuonly", "cpu_only"),
    ];
    for (typed, want) in near {
        assert_eq!(nearest(typed), Some(want), "{typed}");
    }
    for far in ["", "zzz", "ä", &"cache_ttl".repeat(9)] {
        assert_eq!(nearest(far), None, "{far}");
    }
}

#[test]
fn json_has_origins() {
    let origin =
        |origin| serde_json::to_string(&Resolved { value: SettingValue::Text("x".into()), origin }).unwrap();
    assert_eq!(origin(Origin::Flag), r#"{"value":"x","origin":"flag"}"#);
    assert_eq!(origin(Origin::Env("A")), r#"{"value":"x","origin":{"env":"A"}}"#);
    assert_eq!(origin(Origin::File("/f".into())), r#"{"value":"x","origin":{"file":"/f"}}"#);
    assert_eq!(Origin::Default.to_string(), "default");
}

#[test]
fn template_is_valid_as_is_and_uncommented() {
    let (strict, ..) = load(template());
    assert_eq!(strict.unwrap(), Settings::default());
    let switched_on: String = template()
        .lines()
        .map(|line| match KEYS.iter().find(|key| line.starts_with(&format!("# {} = ", key.name))) {
            Some(_) => line.trim_start_matches("# ").to_owned() + "\n",
            None => format!("{line}\n"),
        })
        .collect();
    let (strict, ..) = load(&switched_on);
    for (key, resolved) in strict.unwrap().all() {
        assert_eq!(resolved.value, key.default_value());
        assert!(matches!(resolved.origin, Origin::File(_)), "{} is not in the template", key.name);
        assert!(key.env.is_none_or(|env| template().contains(env)));
    }
    assert_eq!(markdown().lines().count(), KEYS.len() + 2);
    // A set in the template lands below its own commented line, and an unset takes it back.
    let directory = directory();
    let file = directory.path().join("config.toml");
    fs::write(&file, template()).unwrap();
    set(&file, "cache_ttl", "5m").unwrap();
    let line = "# cache_ttl = \"1h\"\n";
    let want = template().replace(line, &format!("{line}cache_ttl = \"5m\"\n"));
    assert_eq!(fs::read_to_string(&file).unwrap(), want);
    unset(&file, "cache_ttl").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), template());
}

/// Bits that TOML is made of, in any order.
const TOML_LIKE: &str =
    "(device|color|version|\\[|\\]|=|\"|'|#|\n|\r|\\.|\\{|\\}|,|[0-9]|[a-z]| |\u{feff}|ä){0,60}";

#[test]
fn invalid_device_is_kept_and_rejected_on_choice() {
    let directory = directory();
    let paths = paths(&directory);
    fs::write(&paths.config_file, "device = 'gpu0x'\n").unwrap();
    assert!(Settings::load(&paths, &no_env, &[]).is_err(), "who asks strictly is told at once");
    let lenient = Settings::load_lenient(&paths, &no_env, &[]);
    assert_eq!((lenient.device(), lenient.warnings().len()), ("gpu0x", 1), "and never becomes auto");
    let env = |name: &str| (name == "GPUFORGE_DEVICE").then(|| "gpu:x".to_owned());
    assert_eq!(Settings::load_lenient(&paths, &env, &[]).device(), "gpu:x");
    assert_eq!(Settings::load_lenient(&paths, &env, &[("device", "-1")]).device(), "-1");
    // Words have one form.
    for (given, kept) in
        [("CPU", "cpu"), ("none", "cpu"), ("Auto", "auto"), ("GPU", "gpu"), ("RTX 4090", "RTX 4090")]
    {
        assert_eq!(Settings::load_lenient(&paths, &env, &[("device", given)]).device(), kept);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_set_is_loaded_back(text in "[^\\p{Cc}\\s]{1,8}( [^\\p{Cc}\\s]{1,8})?", bytes in 1..u64::MAX) {
        let directory = directory();
        let paths = paths(&directory);
        let size = SettingValue::Size(Some(bytes));
        set(&paths.config_file, "preferred_profile", &text).unwrap();
        set(&paths.config_file, "memory_limit", &size.to_string()).unwrap();
        let settings = Settings::load(&paths, &no_env, &[]).unwrap();
        prop_assert_eq!(settings.preferred_profile(), text);
        prop_assert_eq!(settings.memory_limit(), Some(bytes));
    }

    #[test]
    fn any_text_is_a_value_or_a_reason(text in "\\PC*|[0-9.]{0,40}[a-zA-Z]{0,4}") {
        for key in KEYS {
            if let Err(error) = key.parse(&text, SettingLocation::Argument) {
                prop_assert!(!error.to_string().contains('\n') && error.hint().is_some());
            }
        }
    }

    #[test]
    fn any_bytes_as_a_file_are_survived(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..300),
            TOML_LIKE.prop_map(String::into_bytes),
        ],
    ) {
        let directory = directory();
        let paths = paths(&directory);
        fs::write(&paths.config_file, &bytes).unwrap();
        let strict = Settings::load(&paths, &no_env, &[]);
        let lenient = Settings::load_lenient(&paths, &no_env, &[]);
        prop_assert_eq!(strict.is_ok(), strict.as_ref().is_ok_and(|s| s == &lenient));
        for warning in lenient.warnings() {
            prop_assert!(!warning.to_string().contains('\n') && warning.hint().is_some());
        }
        // A change succeeds and is seen, or leaves every byte.
        match set(&paths.config_file, "color", "never") {
            Ok(_) => {
                let after = Settings::load_lenient(&paths, &no_env, &[]);
                prop_assert_eq!(after.color(), "never");
            }
            Err(_) => prop_assert_eq!(fs::read(&paths.config_file).unwrap(), bytes),
        }
        let _ = unset(&paths.config_file, "color");
    }
}

#[test]
fn key_lookup_is_exact() {
    assert_eq!(SettingKey::find("color").unwrap().name, "color");
    assert_eq!(SettingKey::find("Color"), None);
    assert_eq!(SettingKey::find(""), None);
}
