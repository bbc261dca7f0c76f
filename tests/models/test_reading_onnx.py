"""ONNX operators against onnxruntime, and files that would fill the memory or never end."""

import time
import tracemalloc
from functools import partial

import numpy as np
import pytest
import torch

from featureprism.models import read_model
from featureprism.models.reading import onnx_files, runtime
from featureprism.verify import robust_radius

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

RNG = np.random.default_rng(0)


def arr(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def whole(*values):
    return np.array(values, dtype=np.int64)


def save(path, nodes, constants, shape, *, opset=17, functions=(), outputs=("y",)):
    """An ONNX file of nodes (operator, inputs, outputs, attributes)."""
    graph = helper.make_graph(
        [n if isinstance(n, onnx.NodeProto) else helper.make_node(n[0], n[1], n[2], **n[3]) for n in nodes],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
        [helper.make_value_info(name, onnx.TypeProto()) for name in outputs],
        [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()],
    )
    opsets = [
        helper.make_opsetid("", opset),
        *(helper.make_opsetid(d, 1) for d in {f.domain for f in functions}),
    ]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=functions)
    path.write_bytes(model.SerializeToString())
    return path


def one(op, *constants, first=True, opset=17, shape=("n", 2, 4, 4), **attributes):
    """A single operator on the input and constants."""
    names = [f"c{i}" if c is not None else "" for i, c in enumerate(constants)]
    inputs = ["x", *names] if first else [*names, "x"]
    given = {n: c for n, c in zip(names, constants, strict=True) if c is not None}
    return [(op, inputs, ["y"], attributes)], given, shape, opset


def several(*nodes, shape=("n", 2, 4, 4), opset=17, **constants):
    return (
        [(op, ins.split(), outs.split(), attributes) for op, ins, outs, attributes in nodes],
        constants,
        shape,
        opset,
    )


KERNEL = arr(4, 2, 3, 3)
OPERATORS = {
    "Sub of an image": lambda: one("Sub", arr(1, 1, 1, 5), shape=("n", 1, 1, 5)),
    "Sub from": lambda: one("Sub", arr(4), first=False),
    "Mul": lambda: one("Mul", arr(2, 1, 1)),
    "Div": lambda: one("Div", arr(2, 1, 1)),
    "Neg": lambda: one("Neg"),
    "Gemm": lambda: one("Gemm", arr(3, 5), arr(3), alpha=0.5, beta=2.0, transB=1, shape=("n", 5)),
    "MatMul": lambda: one("MatMul", arr(4, 3)),
    "MatMul from the left": lambda: one("MatMul", arr(3, 4), first=False),
    "MatMul of one point": lambda: one("MatMul", arr(5, 3), shape=(5,)),
    "MatMul with a row": lambda: one("MatMul", arr(4)),
    "Conv": lambda: one("Conv", KERNEL, arr(4), pads=[1, 0, 2, 1], strides=[2, 1]),
    "Conv same": lambda: one("Conv", KERNEL, auto_pad="SAME_UPPER", strides=[2, 2]),
    "Conv same lower": lambda: one("Conv", arr(2, 1, 2, 2), auto_pad="SAME_LOWER", group=2),
    "Conv dilated": lambda: one("Conv", arr(4, 1, 2, 2), group=2, dilations=[2, 3]),
    "Conv 1d": lambda: one("Conv", arr(3, 2, 3), shape=("n", 2, 9), strides=[2]),
    "AveragePool": lambda: one("AveragePool", kernel_shape=[3, 2], pads=[1, 1, 1, 0], strides=[2, 1]),
    "AveragePool counting": lambda: one("AveragePool", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1),
    "AveragePool up": lambda: one("AveragePool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "MaxPool": lambda: one("MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
    "MaxPool padded": lambda: one("MaxPool", kernel_shape=[3, 3], pads=[1] * 4, strides=[3, 3], ceil_mode=1),
    "GlobalAveragePool": lambda: one("GlobalAveragePool"),
    "GlobalMaxPool": lambda: one("GlobalMaxPool"),
    "BatchNormalization": lambda: one("BatchNormalization", arr(2), arr(2), arr(2), np.abs(arr(2)), epsilon=0.01),
    "Relu": lambda: one("Relu"),
    "LeakyRelu": lambda: one("LeakyRelu", alpha=0.3),
    "PRelu": lambda: one("PRelu", arr(2, 1, 1)),
    "Abs": lambda: one("Abs"),
    "Clip": lambda: one("Clip", np.float32(-0.5), np.float32(0.3)),
    "Clip below": lambda: one("Clip", np.float32(-0.5)),
    "Clip above": lambda: one("Clip", None, np.float32(0.5)),
    "Clip of old": lambda: one("Clip", min=-0.5, max=0.2, opset=6),
    "HardSigmoid": lambda: one("HardSigmoid", alpha=0.4),
    "Max": lambda: one("Max", arr(4), arr(4, 1)),
    "Min": lambda: one("Min", arr(4)),
    "Transpose": lambda: one("Transpose", perm=[0, 2, 3, 1]),
    "Reshape": lambda: one("Reshape", whole(0, -1, 8)),
    "Flatten": lambda: one("Flatten"),
    "Unsqueeze": lambda: one("Unsqueeze", whole(1, -1)),
    "Squeeze": lambda: one("Squeeze", whole(1), shape=("n", 1, 5)),
    "Slice": lambda: one("Slice", whole(3, 0), whole(-9, 2), whole(2, 3), whole(-2, 1)),
    "Slice of old": lambda: one("Slice", axes=[1, 3], starts=[1, -2], ends=[2, 1000], opset=9),
    "Gather": lambda: one("Gather", whole(3, 0, 0), axis=2),
    "Pad": lambda: one("Pad", whole(0, 0, 1, 2, 0, 1, 0, 1), np.float32(0.7)),
    "Pad of old": lambda: one("Pad", pads=[0, 0, 1, 2, 0, 0, 0, 1], value=0.3, opset=10),
    "Pad reflect": lambda: one("Pad", whole(0, 0, 1, 2, 0, 0, 0, 1), mode="reflect"),
    "Pad edge": lambda: one("Pad", whole(0, 0, 1, 2, 0, 0, 0, 1), mode="edge"),
    "Expand": lambda: one("Expand", whole(1, 2, 3, 4), shape=("n", 2, 1, 4)),
    "Tile": lambda: one("Tile", whole(1, 2, 1, 3)),
    "DepthToSpace": lambda: one("DepthToSpace", blocksize=2, shape=("n", 8, 2, 2)),
    "DepthToSpace CRD": lambda: one("DepthToSpace", blocksize=2, mode="CRD", shape=("n", 8, 2, 2)),
    "ReduceMean": lambda: one("ReduceMean", axes=[2, 3], keepdims=0),
    "ReduceSum": lambda: one("ReduceSum", whole(-1)),
    "ReduceMax": lambda: one("ReduceMax", axes=[1]),
    "Dropout": lambda: one("Dropout"),
    "Cast": lambda: one("Cast", to=TensorProto.DOUBLE),
    "Concat": lambda: several(
        ("Relu", "x", "r", {}), ("Concat", "x r x", "y", {"axis": 2})
    ),
    "Split": lambda: several(
        ("Split", "x s", "a b", {"axis": 2}), ("Relu", "a", "r", {}), ("Concat", "b r", "y", {"axis": 2}), s=whole(1, 3)
    ),
    "Sum": lambda: several(("Relu", "x", "r", {}), ("Sum", "x r c", "y", {}), c=arr(4)),
    "residual": lambda: several(
        ("Conv", "x k", "z", {"pads": [1] * 4}), ("Relu", "z", "r", {}), ("Add", "r x", "s", {}), ("Relu", "s", "y", {}),
        k=arr(2, 2, 3, 3),
    ),
    "shape": lambda: several(
        ("Shape", "x", "s", {}), ("Gather", "s zero", "n", {}), ("Unsqueeze", "n axis", "u", {}),
        ("Concat", "u rest", "t", {"axis": 0}), ("Reshape", "x t", "y", {}), zero=np.array(0), axis=whole(0), rest=whole(4, -1),
    ),
    "constants": lambda: several(
        ("ConstantOfShape", "s", "o", {"value": numpy_helper.from_array(np.float32([2]))}), ("Sqrt", "v", "q", {}),
        ("Div", "o q", "d", {}), ("Range", "a b c", "r", {}), ("Mul", "r d", "m", {}), ("Add", "x m", "y", {}),
        s=whole(4), v=np.abs(arr(4)) + 1, a=np.float32(0), b=np.float32(4), c=np.float32(1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_gives_what_onnxruntime_gives(name, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    nodes, constants, shape, opset = OPERATORS[name]()
    path = save(tmp_path / "m.onnx", nodes, constants, shape, opset=opset)
    found = read_model(path)
    assert found.reason == ""
    x = np.random.default_rng(1).normal(size=(7, found.dim)).astype(np.float32)
    session = ort.InferenceSession(str(path))
    lengths = [n for n in shape if isinstance(n, int)]
    rows = [
        session.run(None, {"x": row.reshape(*([1] if shape[0] == "n" else []), *lengths)})[0] for row in x
    ]
    own = np.stack([np.ravel(row) for row in rows])
    read = found.net(torch.as_tensor(x).double()).numpy()
    read = read[:, 1:] - read[:, :1] if own.shape[1] == 1 else read
    np.testing.assert_allclose(read, own, atol=1e-4, rtol=1e-4)


def loop(path):
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["v", "v"], ["w"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [4, 3]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 3]),
        ],
    )
    node = helper.make_node("Loop", ["times", "", "W"], ["V"], body=body)
    return save(
        path, [node, ("MatMul", ["x", "V"], ["y"], {})], {"times": np.array(10**15), "W": arr(4, 3)}, ("n", 4)
    )


def branch(path):
    def part(name):
        inner = helper.make_node("Identity", ["W"], [name])
        return helper.make_graph(
            [inner], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 3])]
        )

    node = helper.make_node("If", ["c"], ["V"], then_branch=part("a"), else_branch=part("b"))
    return save(
        path, [node, ("MatMul", ["x", "V"], ["y"], {})], {"c": np.array(True), "W": arr(4, 3)}, ("n", 4)
    )


def nested(path, depth=40):
    ids = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    bodies = [helper.make_function("f", "f0", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], ids)]
    for i in range(1, depth):
        inner = [
            helper.make_node(f"f{i - 1}", ["a"], ["m"], domain="f"),
            helper.make_node(f"f{i - 1}", ["m"], ["b"], domain="f"),
        ]
        bodies.append(helper.make_function("f", f"f{i}", ["a"], ["b"], inner, ids))
    nodes = [helper.make_node(f"f{depth - 1}", ["x"], ["y"], domain="f")]
    return save(path, nodes, {}, ("n", 4), functions=bodies)


def recursive(path):
    ids = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    inner = [helper.make_node("f", ["a"], ["b"], domain="f")]
    return save(
        path,
        [helper.make_node("f", ["x"], ["y"], domain="f")],
        {},
        ("n", 4),
        functions=[helper.make_function("f", "f", ["a"], ["b"], inner, ids)],
    )


def doubling(op, first=64, times=40, **attributes):
    """Each step doubles a constant that the points are then compared with."""

    def make(path):
        nodes = [(op, [f"c{i}", f"c{i}"], [f"c{i + 1}"], attributes) for i in range(times)]
        return save(
            path, [*nodes, ("MatMul", ["x", f"c{times}"], ["y"], {})], {"c0": arr(4, first)}, ("n", 4)
        )

    return make


def repeated(op, count):
    """Each step repeats the points themselves."""

    def make(path):
        nodes, before = [], "x"
        for i in range(count):
            nodes.append((op, [before, before], [f"v{i}"], {"axis": 1} if op == "Concat" else {}))
            before = f"v{i}"
        return save(path, [*nodes, ("Identity", [before], ["y"], {})], {}, ("n", 4))

    return make


def huge(op, *constants, **attributes):
    def make(path):
        names = [f"c{i}" for i in range(len(constants))]
        given = dict(zip(names, constants, strict=True))
        return save(path, [(op, names, ["v"], attributes), ("Add", ["x", "v"], ["y"], {})], given, ("n", 4))

    return make


def lying(path):
    """Weights whose header promises more than the file holds."""
    save(path, [("MatMul", ["x", "W"], ["y"], {})], {"W": arr(4, 3)}, ("n", 4))
    model = onnx.load(str(path))
    del model.graph.initializer[0].dims[:]
    model.graph.initializer[0].dims.extend([4, 2**40])
    path.write_bytes(model.SerializeToString())


def outside(path):
    """Weights in a file elsewhere."""
    save(path, [("MatMul", ["x", "W"], ["y"], {})], {"W": arr(4, 3)}, ("n", 4))
    model = onnx.load(str(path))
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../../../etc/passwd")
    path.write_bytes(model.SerializeToString())


def sparse(path):
    save(path, [("MatMul", ["x", "W"], ["y"], {})], {}, ("n", 4))
    model = onnx.load(str(path))
    values = numpy_helper.from_array(arr(1), "W")
    model.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, numpy_helper.from_array(whole(0)), [2**20, 2**20])
    )
    path.write_bytes(model.SerializeToString())


HOSTILE = {
    "a loop": (loop, "control flow"),
    "a branch": (branch, "control flow"),
    "nested functions": (nested, "functions"),
    "a recursive function": (recursive, "functions"),
    "Concat doubling": (doubling("Concat", axis=1), "too large"),
    "Concat of points doubling": (repeated("Concat", 40), "too large"),
    "an input of 2^31": (lambda p: save(p, [("Relu", ["x"], ["y"], {})], {}, ("n", 2**31)), "too large"),
    "an input of 2^62": (lambda p: save(p, [("Relu", ["x"], ["y"], {})], {}, ("n", 2**31, 2**31)), "too large"),
    "ConstantOfShape": (huge("ConstantOfShape", whole(2**20, 2**20)), "too large"),
    "ConstantOfShape below 0": (huge("ConstantOfShape", whole(-5, 4)), "ConstantOfShape"),
    "Expand": (huge("Expand", arr(4), whole(2**30, 4)), "too large"),
    "Expand points": (lambda p: save(p, *one("Expand", whole(2**30, 4), shape=("n", 4))[:3]), "too large"),
    "Tile": (huge("Tile", arr(4), whole(2**40)), "too large"),
    "Tile points": (lambda p: save(p, *one("Tile", whole(1, 2**40), shape=("n", 4))[:3]), "too large"),
    "Range": (huge("Range", np.int64(0), np.int64(2**50), np.int64(1)), "too large"),
    "Range that stands still": (huge("Range", np.int64(0), np.int64(5), np.int64(0)), "Range"),
    "outer product": (huge("Mul", arr(2**16, 1), arr(1, 2**16)), "too large"),
    "outer product of points": (lambda p: save(p, *one("Mul", arr(2**24, 1), shape=("n", 4))[:3]), "too large"),
    "outer MatMul": (huge("MatMul", arr(2**16, 1), arr(1, 2**16)), "too large"),
    "Gather": (huge("Gather", arr(2**12, 2**10), np.zeros(2**14, np.int64)), "too large"),
    "Pad": (lambda p: save(p, *one("Pad", whole(0, 0, 0, 2**40), shape=("n", 4))[:3]), "too large"),
    "Conv padded": (
        lambda p: save(p, *one("Conv", arr(1, 1, 1, 1), pads=[2**20] * 4, shape=("n", 1, 2, 2))[:3]),
        "too large",
    ),
    "MaxPool padded": (
        lambda p: save(p, *one("MaxPool", kernel_shape=[2, 2], pads=[2**20] * 4, shape=("n", 1, 2, 2))[:3]),
        "too large",
    ),
    "Conv of stride 0": (
        lambda p: save(p, *one("Conv", arr(1, 1, 1, 1), strides=[0, 0], shape=("n", 1, 2, 2))[:3]),
        "stride",
    ),
    "MaxPool of no size": (
        lambda p: save(p, *one("MaxPool", kernel_shape=[0, 0], shape=("n", 1, 2, 2))[:3]),
        "window",
    ),
    "AveragePool of a huge window": (
        lambda p: save(
            p, *one("AveragePool", kernel_shape=[2**14] * 2, pads=[2**13] * 4, shape=("n", 1, 4, 4))[:3]
        ),
        "too large",
    ),
    "Unsqueeze without end": (
        lambda p: save(p, *one("Unsqueeze", whole(*range(1, 100)), shape=("n", 4))[:3]),
        "Unsqueeze",
    ),
    "too many operators": (
        lambda p: save(
            p,
            [
                *(("Relu", [f"v{i}" if i else "x"], [f"v{i + 1}"], {}) for i in range(21_000)),
                ("Identity", ["v21000"], ["y"], {}),
            ],
            {},
            ("n", 4),
        ),
        "operators",
    ),
    "a chain of Adds": (repeated("Add", 3000), ""),
    "a lying header": (lying, "damaged"),
    "weights elsewhere": (outside, "other file"),
    "sparse weights": (sparse, "sparse"),
    "an operator of nobody": (
        lambda p: save(p, [helper.make_node("Magic", ["x"], ["y"], domain="evil")], {}, ("n", 4)),
        "evil.Magic",
    ),
    "a tensor that nobody makes": (lambda p: save(p, [("Relu", ["nowhere"], ["y"], {})], {}, ("n", 4)), "read"),
    "a circle": (
        lambda p: save(p, [("Add", ["x", "b"], ["a"], {}), ("Relu", ["a"], ["b"], {}), ("Neg", ["b"], ["y"], {})], {}, ("n", 4)),
        "read",
    ),
    "no input": (lambda p: save(p, [("Relu", ["x"], ["y"], {})], {"x": arr(4)}, ("n", 4)), "one input"),
    "Reshape to nothing": (lambda p: save(p, *one("Reshape", whole(0, 0), allowzero=1, shape=("n", 4))[:3]), "Reshape"),
    "Div by nothing": (lambda p: save(p, *one("Div", np.zeros(4, np.float32), shape=("n", 4))[:3]), "finite"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_quickly_in_one_sentence(name, tmp_path):
    make, told = HOSTILE[name]
    make(tmp_path / "m.onnx")
    began = time.process_time()
    tracemalloc.start()
    try:
        if told:
            with pytest.raises(ValueError, match=told) as caught:
                read_model(tmp_path / "m.onnx")
            assert "\n" not in str(caught.value)
        else:
            with pytest.raises(ValueError):  # noqa: PT011
                read_model(tmp_path / "m.onnx")
        assert tracemalloc.get_traced_memory()[1] < 500e6
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 5


@pytest.mark.parametrize("name", [n for n, (_, told) in HOSTILE.items() if told == "too large"])
def test_what_is_too_large_is_not_run_either(name, tmp_path):
    HOSTILE[name][0](tmp_path / "m.onnx")
    began = time.process_time()
    with pytest.raises(ValueError, match=r"too large.* function that runs it can be given"):
        robust_radius(tmp_path / "m.onnx", np.zeros((2, 4)), [0, 1])
    assert time.process_time() - began < 5


PROGRAMS = {
    "values that double": (
        [("Concat", [f"c{i}"] * 2, [f"c{i + 1}"], {"axis": 0}) for i in range(34)],
        "need more than 256 MB",
    ),
    "values that are large at once": (
        [("Constant", [], ["s"], {"value_ints": [2**31, 1, 4]}), ("Expand", ["c0", "s"], ["c34"], {})],
        "need more than 256 MB",
    ),
    "operators without end": (
        [("Constant", [], ["s"], {"value_ints": [2**18, 1, 4]}), ("Expand", ["c0", "s"], ["a0"], {})]
        + [("Cos", [f"a{i}"], [f"a{i + 1}"], {}) for i in range(10_000)]
        + [("Identity", ["a10000"], ["c34"], {})],
        "takes longer than",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_is_no_network_is_limited_too(name, tmp_path, monkeypatch):
    """Behind an operator that the reader does not know it cannot see how large values are; onnxruntime is told."""
    nodes, told = PROGRAMS[name]
    monkeypatch.setattr(runtime, "MOST_SECONDS", 0.5)
    last = ("MatMul", ["c34", "w"], ["y"], {})
    save(tmp_path / "m.onnx", [("Cos", ["x"], ["c0"], {}), *nodes, last], {"w": arr(4, 3)}, ("n", 4))
    began = time.process_time()
    with pytest.raises(ValueError, match=told) as caught:
        runtime.OnnxProgram(tmp_path / "m.onnx")(np.ones((2, 4)))
    assert "\n" not in str(caught.value)
    assert time.process_time() - began < 5


def test_constants_together_are_limited(tmp_path, monkeypatch):
    nodes = [("Neg", [f"c{i}"], [f"c{i + 1}"], {}) for i in range(30)]
    save(tmp_path / "m.onnx", [*nodes, ("Add", ["x", "c30"], ["y"], {})], {"c0": arr(4)}, ("n", 4))
    read_model(tmp_path / "m.onnx")
    monkeypatch.setattr(onnx_files, "Allowance", partial(onnx_files.Allowance, numbers=100))
    with pytest.raises(ValueError, match="too large"):
        read_model(tmp_path / "m.onnx")


def test_an_archive_that_would_fill_the_memory_is_not_unpacked(tmp_path):
    path = tmp_path / "net.npz"
    np.savez_compressed(path, W=np.zeros((2**14, 2**11)), a=np.zeros(2**14), activation="relu")
    began = time.process_time()
    with pytest.raises(ValueError, match="unpacks to") as caught:
        read_model(path)
    assert "\n" not in str(caught.value)
    assert time.process_time() - began < 2


def test_the_networks_of_acas_xu_are_read(data_folder):
    ort = pytest.importorskip("onnxruntime")
    paths = sorted((data_folder / "outside" / "vnncomp" / "acasxu").glob("*.onnx"))
    if not paths:
        pytest.skip("the files of VNN-COMP are not there")
    x = np.random.default_rng(0).normal(size=(5, 5))
    for path in paths:
        session = ort.InferenceSession(str(path))
        rows = x.reshape(-1, 1, 1, 1, 5).astype(np.float32)
        own = np.concatenate([session.run(None, {session.get_inputs()[0].name: row})[0] for row in rows])
        read = read_model(path).net(torch.as_tensor(x)).numpy()
        np.testing.assert_allclose(read, own, atol=1e-3, rtol=1e-4)
