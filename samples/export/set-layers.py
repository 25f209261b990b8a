#!/usr/bin/env python3
"""Gives an exported Llama another number of layers: what would a deeper or shallower model need?

  set-layers.py MODEL.onnx LAYERS OUT.onnx

The graph has to come from PyTorch's dynamo exporter (its metadata names the layer of every node). The last layer is repeated, or layers
before it are left out. Weights: repeated layers share those of the last one, where the file holds any; a graph without weights
stays one (`ztc compile`, `ztc memory`, `ztc-run --init`). Reads and writes the ONNX file as Protocol Buffers fields, so it needs no packages.
"""
import collections
import pathlib
import re
import sys

# Field numbers of onnx.proto.
MODEL_GRAPH, NODE, INITIALIZER, VALUE_INFO = 7, 1, 5, 13
NODE_INPUT, NODE_OUTPUT, NODE_NAME, NODE_METADATA = 1, 2, 3, 9
TENSOR_NAME, VALUE_NAME, ENTRY_KEY, ENTRY_VALUE = 8, 1, 1, 2
MODEL_METADATA, GRAPH_METADATA = 14, 16
SCOPES, SIGNATURE = b"pkg.torch.onnx.name_scopes", b"pkg.torch.export.ExportedProgram.graph_signature"
LAYER = rb"(layers[._])\d+"


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """A message as a list of (number, wire type, value); values of wire type 2 are bytes, others are left as they are."""
    found, at = [], 0
    while at < len(data):
        key, at = varint(data, at)
        start = at
        if key & 7 == 2:
            size, at = varint(data, at)
            start, at = at, at + size
        elif key & 7 == 0:
            _, at = varint(data, at)
        else:
            at += 8 if key & 7 == 1 else 4
        found.append((key >> 3, key & 7, data[start:at]))
    return found


def number(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def message(parts):
    return b"".join(number(n << 3 | wire) + (number(len(value)) if wire == 2 else b"") + value for n, wire, value in parts)


def one(parts, wanted):
    return next((value for n, _, value in parts if n == wanted), b"")


def layer_of(node):
    """The layer whose module a node belongs to, or None."""
    for n, _, value in node:
        if n == NODE_METADATA and one(fields(value), ENTRY_KEY) == SCOPES:
            match = re.search(rb"'(?:[\w.]+\.)?layers\.(\d+)'", one(fields(value), ENTRY_VALUE))
            return int(match[1]) if match else None
    return None


def with_signature(parts, field, kept, before, layers):
    """Metadata in which the list of parameters has a line for each of every layer's."""
    def change(text):
        lines = []
        for line in text.split(b"\n"):
            match = re.search(LAYER, line)
            layer = int(match[0][7:]) if match else -1
            if layer < kept:
                lines.append(line)
            elif layer == before - 1:
                lines += [re.sub(LAYER, rb"\g<1>%d" % x, line) for x in range(kept, layers)]
        return b"\n".join(lines)
    return [(n, wire, message([(m, w, change(v) if m == ENTRY_VALUE else v) for m, w, v in fields(value)]))
            if n == field and one(fields(value), ENTRY_KEY) == SIGNATURE else (n, wire, value) for n, wire, value in parts]


def renamed(node, rename, layer):
    """A node with other names of its values, and another layer in its metadata."""
    def change(n, wire, value):
        if n in (NODE_INPUT, NODE_OUTPUT):
            return n, wire, rename.get(value, value)
        if n in (NODE_NAME, NODE_METADATA):
            value = value + b"@%d" % layer if n == NODE_NAME else \
                message([(m, w, re.sub(LAYER, rb"\g<1>%d" % layer, v)) for m, w, v in fields(value)])
        return n, wire, value
    return [change(*part) for part in node]


def main(source, layers, target):
    model = fields(pathlib.Path(source).read_bytes())
    graph = fields(one(model, MODEL_GRAPH))
    nodes = [fields(value) for n, _, value in graph if n == NODE]
    blocks = collections.defaultdict(list)
    for node in nodes:
        blocks[layer_of(node)].append(node)
    before = max((x for x in blocks if x is not None), default=-1) + 1
    if before < 2 or layers < 2:
        sys.exit(f"{source}: {before} layers found by the metadata of PyTorch's dynamo exporter; two or more are needed, before and after")
    last = before - 1
    # The residual stream comes from a layer's last node; constants that layers share belong to the first one.
    end_of = lambda block: one(block[-1], NODE_OUTPUT)
    made = [value for node in blocks[last] for n, _, value in node if n == NODE_OUTPUT]
    used = {value for node in blocks[last] for n, _, value in node if n == NODE_INPUT}
    elsewhere = {value for x in blocks if x != last for node in blocks[x] for n, _, value in node if n == NODE_INPUT}
    tensors = {one(fields(value), TENSOR_NAME): fields(value) for n, _, value in graph if n == INITIALIZER}
    own = [name for name in tensors if name in used and name not in elsewhere]

    kept = min(layers - 1, last) # layers before the repeated one
    new_nodes, new_tensors, stream = [], [], end_of(blocks[kept - 1])
    for layer in range(kept, layers):
        rename = {name: name + b"@%d" % layer for name in made}
        rename |= {name: re.sub(rb"layers\.\d+", b"layers.%d" % layer, name) if b"layers." in name else name + b"@%d" % layer for name in own}
        rename[end_of(blocks[last - 1])] = stream
        new_nodes += [renamed(node, rename, layer) for node in blocks[last]]
        new_tensors += [[(n, w, rename[name] if n == TENSOR_NAME else v) for n, w, v in tensors[name]] for name in own]
        stream = rename[end_of(blocks[last])]

    gone = {value for x in range(kept, before) for node in blocks[x] for n, _, value in node if n == NODE_OUTPUT}
    dropped = gone | {name for name in tensors if name in own or (
        name not in {v for x in blocks if x is None or x < kept for node in blocks[x] for n, _, v in node if n == NODE_INPUT})}
    head, tail, seen = [], [], False
    for node in nodes:
        layer = layer_of(node)
        seen = seen or layer == 0
        if layer is None:
            (tail if seen else head).append(renamed(node, {end_of(blocks[last]): stream}, 0) if seen else node)
        elif layer < kept:
            head.append(node)
    out = []
    for n, wire, value in graph:
        if n == NODE or n == VALUE_INFO and one(fields(value), VALUE_NAME) in gone:
            continue
        if n == INITIALIZER and one(fields(value), TENSOR_NAME) in dropped:
            continue
        out.append((n, wire, value))
    out += [(NODE, 2, message(node)) for node in head + new_nodes + tail]
    out += [(INITIALIZER, 2, message(tensor)) for tensor in new_tensors]
    out = with_signature(out, GRAPH_METADATA, kept, before, layers)
    model = with_signature(model, MODEL_METADATA, kept, before, layers)
    pathlib.Path(target).write_bytes(message([(n, w, message(out) if n == MODEL_GRAPH else v) for n, w, v in model]))
    print(f"{target}: {layers} layers, {before} before")


if __name__ == "__main__":
    if len(sys.argv) != 4 or not sys.argv[2].isdigit():
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
