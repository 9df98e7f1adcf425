"""Test whether TensorFlow sees the expected device; exit code 0 if it does, else 1."""

import os
import sys

EXPECTED = "@EXPECTED@"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def main():
    try:
        import tensorflow as tf
    except Exception as error:
        print(f"TensorFlow cannot be imported: {error}")
        return 1
    print(f"TensorFlow {tf.__version__}, Python {sys.version.split()[0]}")
    gpus = tf.config.list_physical_devices("GPU")
    if EXPECTED != "cpu" and not gpus:
        print("gpu: no (TensorFlow sees no GPU)")
        return 1
    try:
        with tf.device("/CPU:0" if EXPECTED == "cpu" else "/GPU:0"):
            ones = tf.ones((64, 64))
            total = float(tf.reduce_sum(ones @ ones))
    except Exception as error:
        print(f"gpu: no ({error})")
        return 1
    if total != 64.0**3:
        print(f"gpu: no (a product of ones gives {total})")
        return 1
    if EXPECTED == "cpu":
        print("gpu: not asked for (the CPU)")
    else:
        details = tf.config.experimental.get_device_details(gpus[0])
        print(f"gpu: yes ({details.get('device_name', gpus[0].name)})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
