//! Fixes: apply only what was shown, and undo restores the previous state.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]
#![cfg(unix)]

use std::{fs, path::PathBuf};

use gpuforge_env::explain::{
    PatternDb,
    fix::{self, ActiveEnv, FixAction, FixError},
    table::FixClass,
};

fn environment(variable: &'static str, dir: &tempfile::TempDir) -> ActiveEnv {
    let root = dir.path().to_str().unwrap().to_owned();
    ActiveEnv::active(&move |name| (name == variable).then(|| root.clone())).unwrap()
}

fn never(_: &std::path::Path, _: &[String]) -> std::io::Result<bool> {
    panic!("no program may run")
}

#[test]
fn only_safe_and_env_fixes_have_a_plan() {
    let known = PatternDb::embedded();
    let dir = tempfile::tempdir().unwrap();
    let environment = environment("CONDA_PREFIX", &dir);
    let mut planned = 0;
    for pattern in &known.table().pattern {
        match fix::plan_fix(&known, &pattern.id, Some(&environment)) {
            Ok(plan) => {
                planned += 1;
                assert!(matches!(pattern.fix, FixClass::Safe | FixClass::Env), "{}", pattern.id);
                assert!(!plan.undo.is_empty());
                let shown = plan.action.show();
                for word in ["sudo", "rm ", "curl", "--break-system-packages"] {
                    assert!(!shown.contains(word), "{shown}");
                }
                let inside = match &plan.action {
                    FixAction::Run { program, .. } => program,
                    FixAction::Write { path, .. } => path,
                };
                assert!(inside.starts_with(dir.path()), "{shown}");
            }
            Err(FixError::NotAllowed { .. }) => assert!(pattern.automatic.is_none(), "{}", pattern.id),
            Err(error) => assert!(matches!(error, FixError::NoneKnown(_)), "{error}"),
        }
    }
    assert!(planned >= 8, "{planned}");
    assert!(matches!(fix::plan_fix(&known, "P23", None), Err(FixError::NoEnvironment)));
    assert!(matches!(
        fix::plan_fix(&known, "P41", None),
        Err(FixError::NotAllowed { class: FixClass::Admin, .. })
    ));
    assert!(matches!(fix::plan_fix(&known, "P01", None), Err(FixError::NoneKnown(_))));
    assert!(matches!(fix::plan_fix(&known, "P999", None), Err(FixError::NoneKnown(_))));
}

#[test]
fn a_variable_fix_can_be_undone() {
    let known = PatternDb::embedded();
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("bin/activate");
    fs::create_dir(dir.path().join("bin")).unwrap();
    fs::write(&script, "export PATH\n").unwrap();
    let venv = environment("VIRTUAL_ENV", &dir);
    let plan = fix::plan_fix(&known, "P23", Some(&venv)).unwrap();
    assert!(plan.action.show().contains("unset LD_LIBRARY_PATH"), "{}", plan.action.show());
    fix::apply(&plan.action, &mut never).unwrap();
    assert!(fs::read_to_string(&script).unwrap().contains("\nunset LD_LIBRARY_PATH\n"));
    // A second time the file is not as planned.
    assert!(matches!(fix::apply(&plan.action, &mut never), Err(FixError::Changed(_))));
    fix::apply(&plan.undo[0], &mut never).unwrap();
    assert_eq!(fs::read_to_string(&script).unwrap(), "export PATH\n");

    let conda_dir = tempfile::tempdir().unwrap();
    let conda = environment("CONDA_PREFIX", &conda_dir);
    let plan = fix::plan_fix(&known, "P37", Some(&conda)).unwrap();
    fix::apply(&plan.action, &mut never).unwrap();
    let ours: PathBuf = conda_dir.path().join("etc/conda/activate.d/gpuforge-P37.sh");
    assert!(fs::read_to_string(&ours).unwrap().contains("export PYTORCH_ENABLE_MPS_FALLBACK=1"));
    fs::write(&ours, "mine now").unwrap();
    assert!(matches!(fix::apply(&plan.undo[0], &mut never), Err(FixError::Changed(_))));
    assert!(matches!(
        fix::plan_fix(&known, "P23", Some(&environment("VIRTUAL_ENV", &conda_dir))),
        Err(FixError::NoScript(_))
    ));
}

#[test]
fn undo_restores_previous_package_versions() {
    let known = PatternDb::embedded();
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("lib/python3.12/site-packages/NumPy-2.1.0.dist-info")).unwrap();
    let venv = environment("VIRTUAL_ENV", &dir);
    let plan = fix::plan_fix(&known, "P35", Some(&venv)).unwrap();
    assert!(plan.action.show().ends_with("-m pip install \"numpy<2\""), "{}", plan.action.show());
    assert!(plan.undo[0].show().ends_with("-m pip install numpy==2.1.0"));
    let new = fix::plan_fix(&known, "P30", Some(&venv)).unwrap();
    assert!(new.undo[0].show().ends_with("-m pip uninstall --yes bitsandbytes"));

    let mut ran = Vec::new();
    fix::apply(&plan.action, &mut |program, args| {
        ran.push((program.to_owned(), args.to_vec()));
        Ok(true)
    })
    .unwrap();
    assert_eq!(
        ran,
        [(dir.path().join("bin/python"), ["-m", "pip", "install", "numpy<2"].map(str::to_owned).to_vec())]
    );
    assert!(matches!(fix::apply(&plan.action, &mut |_, _| Ok(false)), Err(FixError::Failed(_))));
}

#[test]
fn the_fix_log_is_ordered_and_a_broken_one_is_an_error() {
    let known = PatternDb::embedded();
    let (dir, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let conda = environment("CONDA_PREFIX", &dir);
    assert!(matches!(fix::last_record(data.path()), Err(FixError::NothingToUndo)));
    for id in ["P23", "P37"] {
        fix::push_record(data.path(), &fix::plan_fix(&known, id, Some(&conda)).unwrap()).unwrap();
    }
    assert_eq!(fix::last_record(data.path()).unwrap().id, "P37");
    fix::pop_record(data.path()).unwrap();
    assert_eq!(fix::last_record(data.path()).unwrap().id, "P23");
    fix::pop_record(data.path()).unwrap();
    assert!(matches!(fix::last_record(data.path()), Err(FixError::NothingToUndo)));
    fs::write(data.path().join(fix::FIX_LOG), "{").unwrap();
    assert!(matches!(fix::last_record(data.path()), Err(FixError::Io { .. })));
}
