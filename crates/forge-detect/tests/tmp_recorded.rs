use serde_json::Value;
#[test]
fn recorded() {
    let Ok(dir) = std::env::var("GPUFORGE_RECORDED") else { return };
    let mut n = 0;
    let mut bad = 0;
    let mut paths: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "txt"))
        .collect();
    paths.sort();
    const MINE: [&str; 10] = [
        "rocm_smi",
        "rocminfo",
        "kfd",
        "drm",
        "clinfo",
        "vulkaninfo",
        "sycl_ls",
        "xpu_smi",
        "system_profiler",
        "sysctl",
    ];
    for path in paths {
        let raw = std::fs::read_to_string(&path).unwrap();
        let want: Value =
            serde_json::from_str(&std::fs::read_to_string(path.with_extension("expected.json")).unwrap())
                .unwrap();
        let mangle: [fn(&str) -> String; 4] = [
            |t| t.to_owned(),
            |t| t.replace('\n', "\r\n"),
            |t| t.lines().map(|l| format!("    {l}\n")).collect(),
            |t| {
                format!(
                    "user@host:~$ some command\nprose: with colons = and [brackets] {{ \"quote\n```\n{t}\n```\nand 3 more lines of prose, 50% N/A\n"
                )
            },
        ];
        let num: u32 = path.file_name().unwrap().to_str().unwrap()[..2].parse().unwrap();
        for (m, f) in mangle.iter().enumerate() {
            let text = forge_detect::text::normalise(&f(&raw));
            let text: &str = &text;
            let reports: Vec<_> = forge_detect::text::FORMATS
                .iter()
                .filter(|f| MINE.contains(&f.name))
                .filter_map(|f| (f.parse)(text))
                .collect();
            n += 1;
            if !((48..=87).contains(&num) || num == 91) {
                if !reports.is_empty() {
                    bad += 1;
                    println!("{} m{m}: unexpected {:?}", path.display(), reports);
                }
                continue;
            }
            if reports.len() != 1 || reports[0].kind != want["kind"].as_str().unwrap() {
                bad += 1;
                println!(
                    "{} m{m}: kinds {:?}",
                    path.display(),
                    reports.iter().map(|r| &r.kind).collect::<Vec<_>>()
                );
                continue;
            }
            let got = serde_json::to_value(&reports[0]).unwrap();
            let devices = want["devices"].as_array().unwrap();
            let gpus = got["gpus"].as_array().unwrap();
            if gpus.len() != devices.len() {
                bad += 1;
                println!("{} m{m}: count {} != {}", path.display(), gpus.len(), devices.len());
                continue;
            }
            for (g, d) in gpus.iter().zip(devices) {
                for (k, v) in d.as_object().unwrap() {
                    if v == "unknown" {
                        continue;
                    }
                    if k == "bus_id"
                        && want["acceptable_bus_id"].as_array().is_some_and(|a| a.contains(&g[k]))
                    {
                        continue;
                    }
                    if &g[k] != v {
                        bad += 1;
                        println!("{} m{m}: {k}: got {} want {v}", path.display(), g[k]);
                    }
                }
            }
            if let Some(cpu) = want["cpu"].as_object() {
                for (k, v) in cpu {
                    if &got["cpu"][k] != v {
                        bad += 1;
                        println!("cpu {k} {}", got["cpu"][k]);
                    }
                }
            }
        }
    }
    println!("checked {n}, bad {bad}");
    assert_eq!(bad, 0);
}
#[test]
fn hostile() {
    const MINE: [&str; 10] = [
        "rocm_smi",
        "rocminfo",
        "kfd",
        "drm",
        "clinfo",
        "vulkaninfo",
        "sycl_ls",
        "xpu_smi",
        "system_profiler",
        "sysctl",
    ];
    let units = [
        "{",
        "{\"card0\":",
        "\"a\":{\"pci_device_id\":1,\"device_name\":\"x\"},",
        "==> 1/properties <==\nsimd_count 1\n",
        "GPU0:\ndeviceName = AMD x\nvendorID = 0x1\n",
        "Agent 1\nName: gfx900\nMarketing Name: x\nUuid: GPU-1\n",
        "[opencl:gpu:0] a, b 3.0 [1]\n",
        "Platform #0: x\n -- Device #0: AMD y\n",
        "| 0 | Device Name: x |\n",
        "Chipset Model: x\n",
        "hw.ncpu: 1\n",
        "gfx900\n",
        "GPU[1]\t: PCI Bus: 1\n",
        "\"",
        "\\\"",
        "cpu_cores_count 0\nvendor_id 4098\nlocation_id 1\nsimd_count 1\n",
        "DRIVER=a\nPCI_CLASS=30000\nPCI_ID=1:2\n",
        "memoryHeaps[0]:\nsize = 1\n",
        ": : :\n",
        "=\n",
        "[",
        "Name:\n",
    ];
    for u in units {
        let text = u.repeat(1_000_000 / u.len());
        for f in forge_detect::text::FORMATS.iter().filter(|f| MINE.contains(&f.name)) {
            let t = std::time::Instant::now();
            let r = (f.parse)(&text);
            let e = t.elapsed();
            if e.as_millis() > 300 {
                println!("{:?} {} {:?} {}", &u[..u.len().min(30)], f.name, e, r.map_or(0, |r| r.gpus.len()));
            }
        }
    }
    // numbered variants
    let gens: [fn(u32) -> String; 5] = [
        |i| format!("==> {i}/properties <==\nsimd_count 1\nlocation_id {i}\n"),
        |i| format!("GPU[{i}]\t: PCI Bus: 1\n"),
        |i| format!("\"card{i}\": {{\"Unique ID\": \"{i}\"}},"),
        |i| format!("==> card{i}/device/uevent <==\nDRIVER=a\nPCI_SLOT_NAME=0000:01:00.0\n"),
        |i| format!("Agent 1\nName: gfx900\nMarketing Name: x\nUuid: GPU-{i}\n"),
    ];
    for g in gens {
        let text: String = (0..30000).map(g).collect();
        for f in forge_detect::text::FORMATS.iter().filter(|f| MINE.contains(&f.name)) {
            let t = std::time::Instant::now();
            let r = (f.parse)(&text);
            let e = t.elapsed();
            if e.as_millis() > 300 {
                println!("{:?} {} {:?} {}", &g(1), f.name, e, r.map_or(0, |r| r.gpus.len()));
            }
        }
    }
    println!("hostile done");
}
