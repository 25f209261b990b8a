"""A Llama as the import phase leaves it, without weights: for tests that need a model of some size and no exporter."""
import math
import struct


def table(rows, half, function):
    """dense<"0x..."> of function(position / 10000^(i / half))."""
    data = b"".join(struct.pack("<f", function(row * 10000.0 ** (-i / half))) for row in range(rows) for i in range(half))
    return f'dense<"0x{data.hex().upper()}"> : tensor<{rows}x{half}xf32>'


def llama_text(batch, seq, hidden, feed, layers, heads, vocabulary):
    """IR text for `ztc compile --from=import`; embedding and head are tied."""
    rows, head = batch * seq, hidden // heads
    x, flat = f"tensor<{rows}x{hidden}xf32>", f"tensor<{rows}x{feed}xf32>"
    square, norm, four = f"tensor<{hidden}x{hidden}xf32>", f"tensor<{hidden}xf32>", f"tensor<{batch}x{seq}x{heads}x{head}xf32>"
    up, down, embedding = f"tensor<{feed}x{hidden}xf32>", f"tensor<{hidden}x{feed}xf32>", f"tensor<{vocabulary}x{hidden}xf32>"
    parameters = [("embed", "model.embed_tokens.weight", embedding, ', graph.tied = ["lm_head.weight"]')]
    for i in range(layers):
        p = f"model.layers.{i}."
        parameters += [(f"n{i}", p + "input_layernorm.weight", norm, ""), (f"q{i}", p + "self_attn.q_proj.weight", square, ""),
                       (f"k{i}", p + "self_attn.k_proj.weight", square, ""), (f"v{i}", p + "self_attn.v_proj.weight", square, ""),
                       (f"o{i}", p + "self_attn.o_proj.weight", square, ""), (f"m{i}", p + "post_attention_layernorm.weight", norm, ""),
                       (f"g{i}", p + "mlp.gate_proj.weight", up, ""), (f"u{i}", p + "mlp.up_proj.weight", up, ""),
                       (f"d{i}", p + "mlp.down_proj.weight", down, "")]
        parameters[-9:] = [(*entry[:3], f", graph.layer = {i} : i64") for entry in parameters[-9:]]
    parameters.append(("last", "model.norm.weight", norm, ""))
    arguments = [f'%tokens: tensor<{batch}x{seq}xi32> {{graph.role = #graph.role<tokens>}}']
    arguments += [f'%{value}: {kind} {{graph.role = #graph.role<parameter>, graph.name = "{name}"{more}}}' for value, name, kind, more in parameters]
    lines = [f"%cos = graph.constant {table(seq, head // 2, math.cos)}", f"%sin = graph.constant {table(seq, head // 2, math.sin)}",
             f"%e = graph.embedding %embed, %tokens : {embedding}, tensor<{batch}x{seq}xi32> -> tensor<{batch}x{seq}x{hidden}xf32>",
             f"%x0 = graph.reshape %e : tensor<{batch}x{seq}x{hidden}xf32> -> {x}"]
    for i in range(layers):
        lines.append(f"%a{i} = graph.rms_norm %x{i}, %n{i}, 1.0e-5 : {x}, {norm}")
        for c in "qkv":
            lines += [f"%{c}m{i} = graph.matmul %a{i}, %{c}{i} {{transpose_b}} : {x}, {square} -> {x}",
                      f"%{c}h{i} = graph.reshape %{c}m{i} : {x} -> {four}"]
        lines += [f"%{c}r{i} = graph.rope %{c}h{i}, %cos, %sin : {four}, tensor<{seq}x{head // 2}xf32>" for c in "qk"]
        lines += [f"%t{i} = graph.attention %qr{i}, %kr{i}, %vh{i}, {head ** -0.5!r} {{causal}} : {four}, {four}",
                  f"%tf{i} = graph.reshape %t{i} : {four} -> {x}",
                  f"%om{i} = graph.matmul %tf{i}, %o{i} {{transpose_b}} : {x}, {square} -> {x}",
                  f"%y{i} = graph.add %x{i}, %om{i} : {x}",
                  f"%b{i} = graph.rms_norm %y{i}, %m{i}, 1.0e-5 : {x}, {norm}",
                  f"%gm{i} = graph.matmul %b{i}, %g{i} {{transpose_b}} : {x}, {up} -> {flat}",
                  f"%um{i} = graph.matmul %b{i}, %u{i} {{transpose_b}} : {x}, {up} -> {flat}",
                  f"%s{i} = graph.swiglu %gm{i}, %um{i} : {flat}",
                  f"%dm{i} = graph.matmul %s{i}, %d{i} {{transpose_b}} : {flat}, {down} -> {x}",
                  f"%x{i + 1} = graph.add %y{i}, %dm{i} : {x}"]
    logits = f"tensor<{rows}x{vocabulary}xf32>", f"tensor<{batch}x{seq}x{vocabulary}xf32>"
    lines += [f"%z = graph.rms_norm %x{layers}, %last, 1.0e-5 : {x}, {norm}",
              f"%l = graph.matmul %z, %embed {{transpose_b}} : {x}, {embedding} -> {logits[0]}",
              f"%logits = graph.reshape %l : {logits[0]} -> {logits[1]}", f"return %logits : {logits[1]}"]
    head_line = (f'module attributes {{graph.model = "llama", graph.batch = {batch} : i64, graph.seq = {seq} : i64, '
                 f"graph.vocabulary = {vocabulary} : i64, graph.layers = {layers} : i64}} {{")
    return "\n".join([head_line, f"func.func @forward({', '.join(arguments)}) -> {logits[1]} attributes {{graph.entry = #graph.entry<forward>}} {{", *lines, "}", "}", ""])
