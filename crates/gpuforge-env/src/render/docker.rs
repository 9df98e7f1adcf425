//! Renders `Dockerfile`: wheels bundle CUDA or ROCm, so a plain Python image is enough.

use super::{CHECK_FILE, comments, headline, pip_lines, project, remarks};
use crate::{compat::Accelerator, profiles::EnvPlan};

pub(super) fn render(plan: &EnvPlan) -> String {
    let name = project(plan);
    let run = match plan.candidate.accelerator {
        Accelerator::Cuda => format!("docker run --rm --gpus all --shm-size 8g {name}"),
        Accelerator::Rocm => {
            format!(
                "docker run --rm --device /dev/kfd --device /dev/dri --group-add video --group-add render --shm-size 8g {name}"
            )
        }
        Accelerator::Xpu => {
            format!("docker run --rm --device /dev/dri --group-add render --shm-size 8g {name}")
        }
        Accelerator::Mps | Accelerator::Cpu => format!("docker run --rm --shm-size 8g {name}"),
    };
    let mut out = comments(&[headline(plan), format!("docker build -t {name} . && {run}")]);
    if plan.candidate.accelerator == Accelerator::Xpu {
        out.push_str(&comments(&[
            "The image also needs Intel's compute driver (libze1, libze-intel-gpu1).".to_owned()
        ]));
    }
    out.push_str(&format!("FROM python:{}-slim\n\n", plan.candidate.python));
    out.push_str("ENV PYTHONUNBUFFERED=1\nENV PIP_ROOT_USER_ACTION=ignore\n");
    if plan.candidate.accelerator == Accelerator::Cuda {
        // The container toolkit mounts the driver where these are set.
        out.push_str("ENV NVIDIA_VISIBLE_DEVICES=all\nENV NVIDIA_DRIVER_CAPABILITIES=compute,utility\n");
    }
    out.push_str(&format!(
        "\nRUN pip install --no-cache-dir \\\n    {}\n",
        pip_lines(plan).join(" \\\n    ")
    ));
    out.push_str(&format!("\nWORKDIR /app\nCOPY {CHECK_FILE} ./\nCMD [\"python\", \"{CHECK_FILE}\"]\n"));
    let remarks = remarks(plan, "RUN pip");
    if !remarks.is_empty() {
        out.push('\n');
        out.push_str(&comments(&remarks));
    }
    out
}
