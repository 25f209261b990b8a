// A two-layer Llama as phase `import` leaves it: two rows of eight tokens, 32 words, width 16, two query heads on one key head.
module attributes {graph.model = "llama2", graph.batch = 2 : i64, graph.seq = 8 : i64, graph.vocabulary = 32 : i64, graph.position_limit = 64 : i64, graph.layers = 2 : i64} {
  func.func @forward(
    %tokens: tensor<2x8xi32> {graph.role = #graph.role<tokens>},
    %embed: tensor<32x16xf32> {graph.role = #graph.role<parameter>, graph.name = "model.embed_tokens.weight"},
    %ln0: tensor<16xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "model.layers.0.input_layernorm.weight"},
    %wq0: tensor<16x16xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "model.layers.0.self_attn.q_proj.weight"},
    %wk0: tensor<8x16xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "model.layers.0.self_attn.k_proj.weight"},
    %wv0: tensor<8x16xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "model.layers.0.self_attn.v_proj.weight"},
    %wo0: tensor<16x16xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "model.layers.0.self_attn.o_proj.weight"},
    %lm0: tensor<16xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "model.layers.0.post_attention_layernorm.weight"},
    %wg0: tensor<24x16xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "model.layers.0.mlp.gate_proj.weight"},
    %wu0: tensor<24x16xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "model.layers.0.mlp.up_proj.weight"},
    %wd0: tensor<16x24xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "model.layers.0.mlp.down_proj.weight"},
    %ln1: tensor<16xf32> {graph.role = #graph.role<parameter>, graph.layer = 1 : i64, graph.name = "model.layers.1.input_layernorm.weight"},
    %wq1: tensor<16x16xf32> {graph.role = #graph.role<parameter>, graph.layer = 1 : i64, graph.name = "model.layers.1.self_attn.q_proj.weight"},
    %wk1: tensor<8x16xf32> {graph.role = #graph.role<parameter>, graph.layer = 1 : i64, graph.name = "model.layers.1.self_attn.k_proj.weight"},
    %wv1: tensor<8x16xf32> {graph.role = #graph.role<parameter>, graph.layer = 1 : i64, graph.name = "model.layers.1.self_attn.v_proj.weight"},
    %wo1: tensor<16x16xf32> {graph.role = #graph.role<parameter>, graph.layer = 1 : i64, graph.name = "model.layers.1.self_attn.o_proj.weight"},
    %lm1: tensor<16xf32> {graph.role = #graph.role<parameter>, graph.layer = 1 : i64, graph.name = "model.layers.1.post_attention_layernorm.weight"},
    %wg1: tensor<24x16xf32> {graph.role = #graph.role<parameter>, graph.layer = 1 : i64, graph.name = "model.layers.1.mlp.gate_proj.weight"},
    %wu1: tensor<24x16xf32> {graph.role = #graph.role<parameter>, graph.layer = 1 : i64, graph.name = "model.layers.1.mlp.up_proj.weight"},
    %wd1: tensor<16x24xf32> {graph.role = #graph.role<parameter>, graph.layer = 1 : i64, graph.name = "model.layers.1.mlp.down_proj.weight"},
    %norm: tensor<16xf32> {graph.role = #graph.role<parameter>, graph.name = "model.norm.weight"},
    %head: tensor<32x16xf32> {graph.role = #graph.role<parameter>, graph.name = "lm_head.weight"}) -> (tensor<2x8x32xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<forward>} {
    %cos = graph.constant dense<[[1.000000, 1.000000, 1.000000, 1.000000], [0.540302, 0.995004, 0.999950, 1.000000], [-0.416147, 0.980067, 0.999800, 0.999998], [-0.989992, 0.955336, 0.999550, 0.999996], [-0.653644, 0.921061, 0.999200, 0.999992], [0.283662, 0.877583, 0.998750, 0.999988], [0.960170, 0.825336, 0.998201, 0.999982], [0.753902, 0.764842, 0.997551, 0.999976]]> : tensor<8x4xf32>
    %sin = graph.constant dense<[[0.000000, 0.000000, 0.000000, 0.000000], [0.841471, 0.099833, 0.010000, 0.001000], [0.909297, 0.198669, 0.019999, 0.002000], [0.141120, 0.295520, 0.029996, 0.003000], [-0.756802, 0.389418, 0.039989, 0.004000], [-0.958924, 0.479426, 0.049979, 0.005000], [-0.279415, 0.564642, 0.059964, 0.006000], [0.656987, 0.644218, 0.069943, 0.007000]]> : tensor<8x4xf32>
    %ids = graph.reshape %tokens : tensor<2x8xi32> -> tensor<16xi32> loc("model.embed_tokens")
    %h0 = graph.embedding %embed, %ids : tensor<32x16xf32>, tensor<16xi32> -> tensor<16x16xf32> loc("model.embed_tokens")
    %n0 = graph.rms_norm %h0, %ln0, 1.0e-5 : tensor<16x16xf32>, tensor<16xf32> loc("model.layers.0.input_layernorm")
    %q0 = graph.matmul %n0, %wq0 {transpose_b} : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32> loc("model.layers.0.self_attn.q_proj")
    %q40 = graph.reshape %q0 : tensor<16x16xf32> -> tensor<2x8x2x8xf32> loc("model.layers.0.self_attn")
    %k0 = graph.matmul %n0, %wk0 {transpose_b} : tensor<16x16xf32>, tensor<8x16xf32> -> tensor<16x8xf32> loc("model.layers.0.self_attn.k_proj")
    %k40 = graph.reshape %k0 : tensor<16x8xf32> -> tensor<2x8x1x8xf32> loc("model.layers.0.self_attn")
    %v0 = graph.matmul %n0, %wv0 {transpose_b} : tensor<16x16xf32>, tensor<8x16xf32> -> tensor<16x8xf32> loc("model.layers.0.self_attn.v_proj")
    %v40 = graph.reshape %v0 : tensor<16x8xf32> -> tensor<2x8x1x8xf32> loc("model.layers.0.self_attn")
    %qr0 = graph.rope %q40, %cos, %sin : tensor<2x8x2x8xf32>, tensor<8x4xf32> loc("model.layers.0.self_attn")
    %kr0 = graph.rope %k40, %cos, %sin : tensor<2x8x1x8xf32>, tensor<8x4xf32> loc("model.layers.0.self_attn")
    %a0 = graph.attention %qr0, %kr0, %v40, 3.53553391e-01 {causal} : tensor<2x8x2x8xf32>, tensor<2x8x1x8xf32> loc("model.layers.0.self_attn")
    %a20 = graph.reshape %a0 : tensor<2x8x2x8xf32> -> tensor<16x16xf32> loc("model.layers.0.self_attn")
    %o0 = graph.matmul %a20, %wo0 {transpose_b} : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32> loc("model.layers.0.self_attn.o_proj")
    %r0 = graph.add %h0, %o0 : tensor<16x16xf32> loc("model.layers.0")
    %m0 = graph.rms_norm %r0, %lm0, 1.0e-5 : tensor<16x16xf32>, tensor<16xf32> loc("model.layers.0.post_attention_layernorm")
    %g0 = graph.matmul %m0, %wg0 {transpose_b} : tensor<16x16xf32>, tensor<24x16xf32> -> tensor<16x24xf32> loc("model.layers.0.mlp.gate_proj")
    %u0 = graph.matmul %m0, %wu0 {transpose_b} : tensor<16x16xf32>, tensor<24x16xf32> -> tensor<16x24xf32> loc("model.layers.0.mlp.up_proj")
    %s0 = graph.swiglu %g0, %u0 : tensor<16x24xf32> loc("model.layers.0.mlp")
    %d0 = graph.matmul %s0, %wd0 {transpose_b} : tensor<16x24xf32>, tensor<16x24xf32> -> tensor<16x16xf32> loc("model.layers.0.mlp.down_proj")
    %h1 = graph.add %r0, %d0 : tensor<16x16xf32> loc("model.layers.0")
    %n1 = graph.rms_norm %h1, %ln1, 1.0e-5 : tensor<16x16xf32>, tensor<16xf32> loc("model.layers.1.input_layernorm")
    %q1 = graph.matmul %n1, %wq1 {transpose_b} : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32> loc("model.layers.1.self_attn.q_proj")
    %q41 = graph.reshape %q1 : tensor<16x16xf32> -> tensor<2x8x2x8xf32> loc("model.layers.1.self_attn")
    %k1 = graph.matmul %n1, %wk1 {transpose_b} : tensor<16x16xf32>, tensor<8x16xf32> -> tensor<16x8xf32> loc("model.layers.1.self_attn.k_proj")
    %k41 = graph.reshape %k1 : tensor<16x8xf32> -> tensor<2x8x1x8xf32> loc("model.layers.1.self_attn")
    %v1 = graph.matmul %n1, %wv1 {transpose_b} : tensor<16x16xf32>, tensor<8x16xf32> -> tensor<16x8xf32> loc("model.layers.1.self_attn.v_proj")
    %v41 = graph.reshape %v1 : tensor<16x8xf32> -> tensor<2x8x1x8xf32> loc("model.layers.1.self_attn")
    %qr1 = graph.rope %q41, %cos, %sin : tensor<2x8x2x8xf32>, tensor<8x4xf32> loc("model.layers.1.self_attn")
    %kr1 = graph.rope %k41, %cos, %sin : tensor<2x8x1x8xf32>, tensor<8x4xf32> loc("model.layers.1.self_attn")
    %a1 = graph.attention %qr1, %kr1, %v41, 3.53553391e-01 {causal} : tensor<2x8x2x8xf32>, tensor<2x8x1x8xf32> loc("model.layers.1.self_attn")
    %a21 = graph.reshape %a1 : tensor<2x8x2x8xf32> -> tensor<16x16xf32> loc("model.layers.1.self_attn")
    %o1 = graph.matmul %a21, %wo1 {transpose_b} : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32> loc("model.layers.1.self_attn.o_proj")
    %r1 = graph.add %h1, %o1 : tensor<16x16xf32> loc("model.layers.1")
    %m1 = graph.rms_norm %r1, %lm1, 1.0e-5 : tensor<16x16xf32>, tensor<16xf32> loc("model.layers.1.post_attention_layernorm")
    %g1 = graph.matmul %m1, %wg1 {transpose_b} : tensor<16x16xf32>, tensor<24x16xf32> -> tensor<16x24xf32> loc("model.layers.1.mlp.gate_proj")
    %u1 = graph.matmul %m1, %wu1 {transpose_b} : tensor<16x16xf32>, tensor<24x16xf32> -> tensor<16x24xf32> loc("model.layers.1.mlp.up_proj")
    %s1 = graph.swiglu %g1, %u1 : tensor<16x24xf32> loc("model.layers.1.mlp")
    %d1 = graph.matmul %s1, %wd1 {transpose_b} : tensor<16x24xf32>, tensor<16x24xf32> -> tensor<16x16xf32> loc("model.layers.1.mlp.down_proj")
    %h2 = graph.add %r1, %d1 : tensor<16x16xf32> loc("model.layers.1")
    %hidden = graph.rms_norm %h2, %norm, 1.0e-5 : tensor<16x16xf32>, tensor<16xf32> loc("model.norm")
    %y = graph.matmul %hidden, %head {transpose_b} : tensor<16x16xf32>, tensor<32x16xf32> -> tensor<16x32xf32> loc("lm_head")
    %logits = graph.reshape %y : tensor<16x32xf32> -> tensor<2x8x32xf32> loc("lm_head")
    return %logits : tensor<2x8x32xf32>
  }
}
