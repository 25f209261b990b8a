#!/usr/bin/env python3
"""ONNX graphs whose weights are stored in fewer bits, and the numbers that they stand for: rewrites tests/golden/quantized-graphs.

  pip install -r tests/golden/requirements.txt
  python tests/golden/quantized_graphs.py [NAME...]

One small Qwen2 with biases and rows that no block divides, as TorchScript exports it, then quantised by onnxruntime's own tools, or by hand where these do not write a form that
the operators have (zero points of floats, a bias inside of MatMulNBits, matrices of int8 and fp8 with a scale for each column). The numbers are onnxruntime's: what each of the operators
gives for unit vectors, all rows of a table, or at once; of graphs that round data to 8 bits too (quantize_dynamic), those of DequantizeLinear. graphs.json has SHA-256 of each such weight in its type, tokens, the loss of onnxruntime's logits (of graphs in f32), and the loss and the norm
of the gradient that PyTorch computes with these numbers in f32.
"""
import hashlib
import io
import json
import pathlib
import sys
import tempfile
import warnings

import ml_dtypes
import numpy
import onnx
import onnxruntime
import torch
import transformers
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

OUT = pathlib.Path(__file__).resolve().parent / "quantized-graphs"
CONFIG = transformers.Qwen2Config(hidden_size=48, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, vocab_size=62,
                                  max_position_embeddings=64, use_cache=False, initializer_range=0.1, tie_word_embeddings=False, bos_token_id=None, eos_token_id=None)
BATCH, SEQUENCE = 2, 12


def fresh_model():
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(CONFIG, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


class Wrapped(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model, self.lm_head = model.model, model.lm_head

    def forward(self, input_ids):
        mask = torch.ones_like(input_ids)  # keeps transformers' detection of packed rows out of the graph
        return self.lm_head(self.model(input_ids, attention_mask=mask, use_cache=False).last_hidden_state)


def exported(model):
    """The graph as TorchScript writes it, and the initializers of its matrices by parameter."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Wrapped(model), (torch.zeros(BATCH, SEQUENCE, dtype=torch.int64),), buffer, dynamo=False, opset_version=21, input_names=["input_ids"], output_names=["logits"],
                          dynamic_axes={"input_ids": {0: "batch", 1: "sequence"}, "logits": {0: "batch", 1: "sequence"}})
    graph = onnx.load_from_string(buffer.getvalue())
    names = {}
    for tensor in graph.graph.initializer:
        value = numpy_helper.to_array(tensor)
        for name, parameter in model.named_parameters():
            if value.ndim == 2 and value.size > 1:
                whole = parameter.detach().numpy()
                if value.shape == whole.T.shape and (value == whole.T).all():
                    names[tensor.name] = name
                elif value.shape == whole.shape and (value == whole).all():
                    names[tensor.name] = name
    return graph, names


def by_onnxruntime(*, bits=4, block=32, symmetric=True, linear=False, tables=False, channels=False):
    def make(graph):
        config = DefaultWeightOnlyQuantConfig(block_size=block, is_symmetric=symmetric, bits=bits, quant_format=QuantFormat.QDQ if linear else QuantFormat.QOperator,
                                              op_types_to_quantize=("MatMul", "Gather") if tables else ("MatMul",), channel_wised_quantize=channels)
        quantizer = MatMulNBitsQuantizer(graph, algo_config=config)
        quantizer.process()
        return quantizer.model.model
    return make


def with_bias(graph):
    """The sum after a product as its last input, as onnxruntime's optimizer puts it there."""
    graph = by_onnxruntime()(graph)
    for node in [n for n in graph.graph.node if n.op_type == "MatMulNBits"]:
        for sum_ in [n for n in graph.graph.node if n.op_type == "Add" and node.output[0] in n.input]:
            bias = next(x for x in sum_.input if x != node.output[0])
            if any(tensor.name == bias and len(tensor.dims) == 1 for tensor in graph.graph.initializer):
                node.input.extend([""] * (5 - len(node.input)) + [bias])
                node.output[0] = sum_.output[0]
                graph.graph.node.remove(sum_)
    return graph


def with_real_zeros(graph):
    """Zero points of floats, as HQQ has them."""
    graph = by_onnxruntime(symmetric=False, block=16)(graph)
    tensors = {tensor.name: tensor for tensor in graph.graph.initializer}
    for node in graph.graph.node:
        if node.op_type == "MatMulNBits":
            codes = numpy_helper.to_array(tensors[node.input[3]]).reshape(-1)
            scales = numpy_helper.to_array(tensors[node.input[2]])
            groups = -(-next(a.i for a in node.attribute if a.name == "K") // 16)
            rows = numpy.stack([codes & 15, codes >> 4], -1).reshape(-1, -(-groups // 2) * 2)[:, :groups]
            tensors[node.input[3]].CopyFrom(numpy_helper.from_array((rows.reshape(scales.shape) + 0.25).astype(numpy.float32), node.input[3]))
    return graph


def linear(kind, *, axis=None, zeros=False, block=0):
    """Every matrix as codes with DequantizeLinear. `axis`: of the scales, None for one scale."""
    def make(graph):
        random = numpy.random.default_rng(3)
        nodes = []
        for tensor in list(graph.graph.initializer):
            value = numpy_helper.to_array(tensor)
            if value.ndim != 2 or value.size < 64:
                continue
            grid = [] if axis is None else [value.shape[axis]] if not block else [-(-n // block) if i == axis else n for i, n in enumerate(value.shape)]
            scale = (numpy.abs(value).max() / 100 * (0.5 + random.random(grid))).astype(numpy.float32)
            if kind == "fp8":
                codes, code_type, zero = random.standard_normal(value.shape).astype(ml_dtypes.float8_e4m3fn), TensorProto.FLOAT8E4M3FN, None
            elif kind in ("int4", "uint4"):
                least = -8 if kind == "int4" else 0
                code_type = TensorProto.INT4 if kind == "int4" else TensorProto.UINT4
                codes, zero = random.integers(least, least + 16, value.shape), random.integers(least, least + 16, grid)
            else:
                codes = random.integers(-128, 128, value.shape).astype(numpy.int8) if kind == "int8" else random.integers(0, 256, value.shape).astype(numpy.uint8)
                code_type, zero = TensorProto.INT8 if kind == "int8" else TensorProto.UINT8, random.integers(0, 100, grid)

            def packed(array, code_type=code_type):
                if code_type in (TensorProto.INT4, TensorProto.UINT4):
                    flat = numpy.append(array.reshape(-1), [0] * (array.size % 2)).astype(int) & 15
                    return (flat[::2] | flat[1::2] << 4).astype(numpy.uint8).tobytes()
                return array.astype(numpy.int8 if code_type == TensorProto.INT8 else array.dtype if code_type == TensorProto.FLOAT8E4M3FN else numpy.uint8).tobytes()
            name = f"{tensor.name}_quantized"
            graph.graph.initializer.append(helper.make_tensor(name, code_type, value.shape, packed(codes), raw=True))
            graph.graph.initializer.append(numpy_helper.from_array(scale, f"{tensor.name}_scale"))
            inputs = [name, f"{tensor.name}_scale"]
            if zeros:
                graph.graph.initializer.append(helper.make_tensor(f"{tensor.name}_zero_point", code_type, grid, packed(numpy.asarray(zero)), raw=True))
                inputs.append(f"{tensor.name}_zero_point")
            attributes = ({} if axis is None else {"axis": axis}) | ({"block_size": block} if block else {})
            nodes.append(helper.make_node("DequantizeLinear", inputs, [tensor.name], name=f"{tensor.name}_DequantizeLinear", **attributes))
            graph.graph.initializer.remove(tensor)
        for node in reversed(nodes):
            graph.graph.node.insert(0, node)
        return graph
    return make


def dynamic(**options):
    """Weights in 8 bits, and data that a node of the graph rounds to 8 bits before each product."""
    def make(graph):
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(graph, f"{folder}/full.onnx")
            quantize_dynamic(f"{folder}/full.onnx", f"{folder}/quantized.onnx", **options)
            return onnx.load(f"{folder}/quantized.onnx")
    return make


def halved(make):
    """In f16."""
    @numpy.errstate(over="ignore")
    def in_half(graph):
        for tensor in graph.graph.initializer:
            if tensor.data_type == TensorProto.FLOAT:
                tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(numpy.float16), tensor.name))
        for node in graph.graph.node:
            for attribute in node.attribute:
                if attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                    attribute.i = TensorProto.FLOAT16
                if attribute.HasField("t") and attribute.t.data_type == TensorProto.FLOAT:  # what masks have becomes -infinity
                    attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype(numpy.float16)))
        for output in graph.graph.output:
            output.type.tensor_type.elem_type = TensorProto.FLOAT16
        del graph.graph.value_info[:]
        return make(graph)
    return in_half


GRAPHS = {
    "q4": by_onnxruntime(),
    "q4-zeros": by_onnxruntime(symmetric=False, block=16),
    "q4-real-zeros": with_real_zeros,
    "q4-bias": with_bias,
    "q4-f16": halved(by_onnxruntime()),
    "q2": by_onnxruntime(bits=2, symmetric=False, block=16),
    "q8": by_onnxruntime(bits=8, symmetric=False),
    "q4-tables": by_onnxruntime(tables=True, block=16),
    "q4-tables-zeros": by_onnxruntime(tables=True, symmetric=False, block=16),
    "linear-q4": by_onnxruntime(linear=True),
    "linear-q4-zeros": by_onnxruntime(linear=True, symmetric=False, block=16),
    "linear-q4-channels": by_onnxruntime(linear=True, channels=True),
    "linear-int8": linear("int8"),
    "linear-int8-columns": linear("int8", axis=1, zeros=True),
    "linear-uint8-rows": linear("uint8", axis=0, zeros=True),
    "linear-uint4-blocks": linear("uint4", axis=1, zeros=True, block=16),
    "linear-int4-columns": linear("int4", axis=1, zeros=True),
    "linear-fp8": linear("fp8", axis=1),
    "dynamic-int8": dynamic(weight_type=QuantType.QInt8),
    "dynamic-uint8-columns": dynamic(weight_type=QuantType.QUInt8, per_channel=True),
}


def alone(graph, node, inputs):
    """What one node of the graph gives."""
    stored = [tensor for tensor in graph.graph.initializer if tensor.name in node.input]
    given = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape) for name, value in inputs.items()]
    scale = next(tensor for tensor in stored if tensor.name == node.input[1 if node.op_type == "DequantizeLinear" else 2])
    model = helper.make_model(helper.make_graph([node], "one", given, [helper.make_tensor_value_info(node.output[0], scale.data_type, None)], stored), opset_imports=graph.opset_import, ir_version=10)
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)[0]


def original(name):
    for suffix in ("_quantized", "_Q2", "_Q4", "_Q8"):
        name = name.removesuffix(suffix)
    return name.removesuffix("_DQ")


def by_formula(graph, node):
    """(code - zero) * scale, of codes of 4 bits, where zero points are floats: onnxruntime computes code * scale - zero * scale there, which rounds twice."""
    tensors = {tensor.name: tensor for tensor in graph.graph.initializer}
    codes, scales, zeros = (numpy_helper.to_array(tensors[name]) if name else None for name in [*node.input[1:4], "", ""][:3])
    if zeros is None or zeros.dtype != numpy.float32:
        return None
    size = {a.name: a.i for a in node.attribute}
    rows = numpy.stack([codes & 15, codes >> 4], -1).reshape(size["N"], -1)[:, :size["K"]].astype(numpy.float32)
    wide = [x.reshape(size["N"], -1).repeat(size["block_size"], 1)[:, :size["K"]] for x in (scales, zeros)]
    return (rows - wide[1]) * wide[0]


def numbers(graph, names):
    """Each weight in fewer bits, in the model's orientation."""
    weights = {}
    for node in graph.graph.node:
        if node.op_type == "MatMulNBits":
            inputs = next(a.i for a in node.attribute if a.name == "K")
            scale = next(tensor for tensor in graph.graph.initializer if tensor.name == node.input[2])
            plain = onnx.NodeProto()
            plain.CopyFrom(node)
            del plain.input[4:]  # without a bias
            name = names[original(node.input[1])]
            weights[name] = alone(graph, plain, {node.input[0]: numpy.eye(inputs, dtype=helper.tensor_dtype_to_np_dtype(scale.data_type))}).T
            formula = by_formula(graph, node)
            if formula is not None:
                assert numpy.abs(weights[name] - formula).max() < 1e-7
                weights[name] = formula
        elif node.op_type == "GatherBlockQuantized":
            rows = next(tensor.dims[0] for tensor in graph.graph.initializer if tensor.name == node.input[0])
            weights[names[original(node.input[0])]] = alone(graph, node, {node.input[1]: numpy.arange(rows)})
        elif node.op_type == "MatMulInteger":
            scale = node.input[1].removesuffix("_quantized") + "_scale"
            whole = helper.make_node("DequantizeLinear", [node.input[1], scale, node.input[3]], ["weight"], axis=1)
            weights[names[original(node.input[1])]] = alone(graph, whole, {}).T
        elif node.op_type == "DequantizeLinear" and any(n.op_type == "Gather" and n.output[0] == node.input[0] for n in graph.graph.node):
            codes = next(n.input[0] for n in graph.graph.node if n.output[0] == node.input[0])
            weights[names[original(codes)]] = alone(graph, helper.make_node("DequantizeLinear", [codes, *node.input[1:]], ["weight"]), {})
        elif node.op_type == "DequantizeLinear":
            name, value = names[original(node.input[0])], alone(graph, node, {})
            turned = any(n.op_type == "Transpose" and n.input[0] == node.output[0] for n in graph.graph.node)
            weights[name] = value.T if "embed" not in name and not turned else value
    return {name: numpy.ascontiguousarray(value) + value.dtype.type(0) for name, value in weights.items()}  # a zero of either sign as one


def loss_of(logits, ids):
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def main():
    OUT.mkdir(exist_ok=True)
    path = OUT / "graphs.json"
    golden = json.loads(path.read_text()) if path.exists() else {"graphs": {}}
    base, names = exported(fresh_model())
    torch.manual_seed(11)
    ids = torch.randint(0, CONFIG.vocab_size, (BATCH, SEQUENCE))
    golden |= {"batch": BATCH, "seq": SEQUENCE, "input_ids": ids.tolist(), "versions": {m.__name__: m.__version__ for m in (torch, transformers, onnxruntime, onnx)}}
    (OUT / "config.json").write_text(CONFIG.to_json_string())
    for name, make in GRAPHS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        graph = onnx.ModelProto()
        graph.CopyFrom(base)
        graph = make(graph)
        weights = numbers(graph, names)
        if name == "q4-zeros":  # one of them with its tensors beside it
            onnx.save(graph, OUT / f"{name}.onnx", save_as_external_data=True, location=f"{name}.onnx.data", size_threshold=64)
        else:
            onnx.save(graph, OUT / f"{name}.onnx")
        model = fresh_model()
        with torch.no_grad():
            for parameter, tensor in model.named_parameters():
                if parameter in weights:
                    tensor.copy_(torch.from_numpy(weights[parameter].astype(numpy.float32)))
                elif name.endswith("f16"):
                    tensor.copy_(tensor.half().float())
        if name.endswith("f16"):  # the graph's constants are f16 too
            for module in model.modules():
                if hasattr(module, "variance_epsilon"):
                    module.variance_epsilon = float(numpy.float16(module.variance_epsilon))
        loss = loss_of(model(input_ids=ids).logits, ids)
        loss.backward()
        norm = torch.sqrt(sum((p.grad.double() ** 2).sum() for p in model.parameters()))
        entry = {"loss": loss.item(), "norm": norm.item(), "sha256": {key: hashlib.sha256(value.tobytes()).hexdigest() for key, value in sorted(weights.items())},
                 "type": "F16" if name.endswith("f16") else "F32"}
        if not name.endswith("f16") and not name.startswith("dynamic"):  # which round data too
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # it would round inputs of products to int8
            session = onnxruntime.InferenceSession(OUT / f"{name}.onnx", options)
            entry["onnxruntime"] = loss_of(torch.from_numpy(session.run(None, {"input_ids": ids.numpy()})[0]), ids).item()
        golden["graphs"][name] = entry
        print(name, len(weights), entry["loss"], entry.get("onnxruntime"))
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
