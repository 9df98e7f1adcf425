"""detect, doctor, explain, recommend_env: records with attributes, dicts and a readable repr; errors."""

from __future__ import annotations

import copy
import pickle

import pytest

import gpuforge
from gpuforge._records import Record


def test_records():
    record = Record({"a": 1, "b": {"name": "x", "n": None}, "c": [{"id": "y"}], "d": list(range(9))})
    assert record.a == 1 and record.b.name == "x" and record.b.n is None and record.c[0].id == "y"
    assert record.to_dict()["b"] == {"name": "x", "n": None}
    assert repr(record) == "Record(a=1, b=<x>, c=[<y>], d=[9 items])"
    assert record == pickle.loads(pickle.dumps(record)) == copy.deepcopy(record)
    with pytest.raises(AttributeError, match="no attribute 'z'"):
        record.z
    with pytest.raises(AttributeError, match="is immutable"):
        record.a = 2
    changed = record.to_dict()
    changed["a"] = 5
    assert record.a == 1


def test_detect():
    found = gpuforge.detect()
    assert found.to_dict()["gpus"] == [gpu.to_dict() for gpu in found.gpus]
    assert found.cpu is not None and repr(found).startswith("Inventory(gpus=")


def test_doctor():
    found = gpuforge.doctor(offline=True)
    assert len(found.checks) > 10 and repr(found).startswith("Diagnosis(")
    assert all(check.status in ("critical", "error", "warning") for check in found.problems)


def test_explain():
    found = gpuforge.explain("ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory")
    assert found.root is not None and found.root.steps and 0 < found.root.confidence <= 1
    assert "root" in found.to_dict()
    with pytest.raises(TypeError, match="text of a log"):
        gpuforge.explain(b"bytes")


def test_recommend_env():
    found = gpuforge.recommend_env("pytorch", cpu_only=True, platform="linux-x86_64", profile="research")
    assert found.plan.profile == "research" and "Recommendation('torch" in repr(found)
    for wrong, words in (
        ({"framework": "torhc"}, "one of"),
        ({"profile": "nonsense"}, "one of"),
        ({"gpu": "no such card"}, "no such card"),
        ({"python": "three"}, "version"),
        ({"platform": "amiga"}, "amiga"),
    ):
        with pytest.raises(ValueError, match=words):
            gpuforge.recommend_env(**wrong)


def test_status():
    found = gpuforge.status()
    assert {"inventory", "runner", "device", "router"} <= {part.name for part in found.components}
    assert repr(found).startswith("Status(loaded=")
