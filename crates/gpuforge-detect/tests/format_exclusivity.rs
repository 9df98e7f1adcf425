//! Format exclusivity: each sample is parsed by its own parser only.

use gpuforge_detect::parsers::FORMATS;

/// Parsers of other tools than NVIDIA's and lspci.
const PARSERS: [&str; 10] = [
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

/// Parser and sample.
const SAMPLES: [(&str, &str); 23] = [
    (
        "nvidia_table",
        "+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 560.35.03              Driver Version: 560.35.03      CUDA Version: 12.6     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 4060        Off |   00000000:01:00.0 Off |                  N/A |
|  0%   38C    P8              5W /  115W |      12MiB /   8188MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
",
    ),
    ("nvidia_list", "GPU 0: NVIDIA A10 (UUID: GPU-11111111-2222-3333-4444-555555555555)\n"),
    (
        "nvidia_query",
        "==============NVSMI LOG==============
Driver Version                            : 550.90.07
CUDA Version                              : 12.4
Attached GPUs                             : 1
GPU 00000000:3B:00.0
    Product Name                          : NVIDIA L4
    FB Memory Usage
        Total                             : 23034 MiB
",
    ),
    (
        "nvidia_proc",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.57.01  Release Build
Model: \t\t NVIDIA T1000
Bus Location: \t 0000:21:00.0
",
    ),
    (
        "lspci",
        "03:00.0 VGA compatible controller [0300]: Advanced Micro Devices, Inc. [AMD/ATI] Navi 32 [1002:747e] (rev c8)
\tSubsystem: Sapphire Technology Limited Device [1da2:d475]
\tKernel driver in use: amdgpu
",
    ),
    ("csv", "name, pci.bus_id, driver_version, memory.total [MiB]\nNVIDIA A2, 00000000:81:00.0, 535.183.01, 15356 MiB\n"),
    ("rocm_smi", "{\"card0\": {\"Device ID\": \"0x744c\", \"VRAM Total Memory (B)\": \"25753026560\"}, \"system\": {\"Driver version\": \"6.8.5\"}}\n"),
    (
        "rocm_smi",
        "GPU  Temp   AvgPwr  SCLK    MCLK    Fan   Perf  PwrCap  VRAM%  GPU%
0    36.0c  21.0W   500Mhz  96Mhz   0%    auto  255.0W    4%   2%
",
    ),
    ("rocm_smi", "GPU[0]\t\t: Card series: \t\tNavi 10 [Radeon RX 5700]\nGPU[0]\t\t: PCI Bus: 0000:28:00.0\n"),
    (
        "rocminfo",
        "*******
Agent 2
*******
  Name:                    gfx1200
  Marketing Name:          AMD Radeon RX 9060 XT
  Vendor Name:             AMD
  Device Type:             GPU
",
    ),
    ("rocminfo", "gfx000\ngfx1032\n"),
    (
        "kfd",
        "==> /sys/class/kfd/kfd/topology/nodes/1/properties <==
simd_count 128
gfx_target_version 100301
vendor_id 4098
device_id 29663
location_id 10240
",
    ),
    ("kfd", "cpu_cores_count 0\nsimd_count 80\ngfx_target_version 100100\nvendor_id 4098\ndevice_id 29471\nlocation_id 768\n"),
    (
        "drm",
        "==> /sys/class/drm/card0/device/uevent <==
DRIVER=i915
PCI_CLASS=30000
PCI_ID=8086:9A49
PCI_SLOT_NAME=0000:00:02.0
",
    ),
    ("clinfo", "Platform #0: NVIDIA CUDA\n `-- Device #0: NVIDIA GeForce GTX 1660\n"),
    (
        "vulkaninfo",
        "==========
VULKANINFO
==========
Devices:
========
GPU0:
\tapiVersion         = 1.3.255
\tvendorID           = 0x8086
\tdeviceID           = 0x9a49
\tdeviceType         = PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU
\tdeviceName         = Intel(R) Xe Graphics (TGL GT2)
",
    ),
    ("sycl_ls", "[opencl:gpu:0] Intel(R) OpenCL HD Graphics, Intel(R) Iris(R) Xe Graphics 3.0 [23.35.27191]\n"),
    (
        "xpu_smi",
        "+-----------+----------------------------------------------+
| Device ID | Device Information                           |
+-----------+----------------------------------------------+
| 0         | Device Type: GPU                             |
|           | Device Name: Intel(R) Data Center GPU Max 1100 |
|           | PCI BDF Address: 0000:9a:00.0                |
+-----------+----------------------------------------------+
",
    ),
    ("xpu_smi", "{\"device_list\":[{\"device_id\":0,\"device_name\":\"Intel(R) Arc(TM) A310 Graphics\",\"pci_bdf_address\":\"0000:03:00.0\"}]}\n"),
    (
        "system_profiler",
        "Graphics/Displays:

    Apple M4 Pro:

      Chipset Model: Apple M4 Pro
      Type: GPU
      Bus: Built-In
      Total Number of Cores: 20
      Vendor: Apple (0x106b)
      Metal Support: Metal 3
",
    ),
    ("system_profiler", "{\"SPDisplaysDataType\": [{\"sppci_model\": \"Apple M1\", \"sppci_cores\": \"8\"}]}\n"),
    ("sysctl", "machdep.cpu.brand_string: Apple M4\nhw.memsize: 25769803776\nhw.ncpu: 10\n"),
    ("", "Nothing here: the GPU is a card = a board [see above] with 24 GB and gfx1100 in it.\n"),
];

#[test]
fn each_sample_is_parsed_by_its_own_parser_only() {
    for (owner, sample) in SAMPLES {
        for text in [
            sample.to_owned(),
            sample.replace('\n', "\r\n"),
            format!("$ command\n\n{sample}```\nmore text\n"),
        ] {
            for format in FORMATS.iter().filter(|format| PARSERS.contains(&format.name)) {
                let report = (format.parse)(&text);
                assert_eq!(
                    report.is_some(),
                    format.name == owner,
                    "{} on a sample of {owner:?}:\n{text}",
                    format.name
                );
            }
        }
    }
}

#[test]
fn concatenated_samples_are_all_parsed() {
    let all: String = SAMPLES.iter().map(|(_, sample)| *sample).collect();
    for format in FORMATS.iter().filter(|format| PARSERS.contains(&format.name)) {
        assert!((format.parse)(&all).is_some(), "{} finds nothing among the others", format.name);
    }
}
