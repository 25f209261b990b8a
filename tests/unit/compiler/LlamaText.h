// A whole two-layer Llama as phase `import` would leave it.
#pragma once
#include <fmt/format.h>
#include <string>
#include <vector>

namespace ztc::test {

// 2 x 5 tokens, 13 words, 8 wide, two query heads on one key/value head of size 4, 12 wide in between.
inline constexpr const char *kLayer = R"(
    %n{0} = graph.rms_norm %h{0}, %ln{0}, 1.0e-5 : tensor<10x8xf32>, tensor<8xf32>
    %q{0} = graph.matmul %n{0}, %wq{0} {{transpose_b}} : tensor<10x8xf32>, tensor<8x8xf32> -> tensor<10x8xf32>
    %k{0} = graph.matmul %n{0}, %wk{0} {{transpose_b}} : tensor<10x8xf32>, tensor<4x8xf32> -> tensor<10x4xf32>
    %v{0} = graph.matmul %n{0}, %wv{0} {{transpose_b}} : tensor<10x8xf32>, tensor<4x8xf32> -> tensor<10x4xf32>
    %q4{0} = graph.reshape %q{0} : tensor<10x8xf32> -> tensor<2x5x2x4xf32>
    %k4{0} = graph.reshape %k{0} : tensor<10x4xf32> -> tensor<2x5x1x4xf32>
    %v4{0} = graph.reshape %v{0} : tensor<10x4xf32> -> tensor<2x5x1x4xf32>
    %qr{0} = graph.rope %q4{0}, %cos, %sin : tensor<2x5x2x4xf32>, tensor<5x2xf32>
    %kr{0} = graph.rope %k4{0}, %cos, %sin : tensor<2x5x1x4xf32>, tensor<5x2xf32>
    %a{0} = graph.attention %qr{0}, %kr{0}, %v4{0}, 5.0e-1 {{causal}} : tensor<2x5x2x4xf32>, tensor<2x5x1x4xf32>
    %a2{0} = graph.reshape %a{0} : tensor<2x5x2x4xf32> -> tensor<10x8xf32>
    %o{0} = graph.matmul %a2{0}, %wo{0} {{transpose_b}} : tensor<10x8xf32>, tensor<8x8xf32> -> tensor<10x8xf32>
    %r{0} = graph.add %h{0}, %o{0} : tensor<10x8xf32>
    %m{0} = graph.rms_norm %r{0}, %lm{0}, 1.0e-5 : tensor<10x8xf32>, tensor<8xf32>
    %g{0} = graph.matmul %m{0}, %wg{0} {{transpose_b}} : tensor<10x8xf32>, tensor<12x8xf32> -> tensor<10x12xf32>
    %u{0} = graph.matmul %m{0}, %wu{0} {{transpose_b}} : tensor<10x8xf32>, tensor<12x8xf32> -> tensor<10x12xf32>
    %s{0} = graph.swiglu %g{0}, %u{0} : tensor<10x12xf32>
    %d{0} = graph.matmul %s{0}, %wd{0} {{transpose_b}} : tensor<10x12xf32>, tensor<8x12xf32> -> tensor<10x8xf32>
    %h{1} = graph.add %r{0}, %d{0} : tensor<10x8xf32>)";

struct ArgumentText {
  std::string name, shape;
};

/// `bias` adds one to the logits, so that no linear_cross_entropy can be formed.
inline std::string llamaText(bool tied, bool bias) {
  std::vector<ArgumentText> parameters{{"embed", "13x8"}};
  for (std::string layer : {"0", "1"})
    for (auto [name, shape] : {std::pair{"ln", "8"},
                               {"wq", "8x8"},
                               {"wk", "4x8"},
                               {"wv", "4x8"},
                               {"wo", "8x8"},
                               {"lm", "8"},
                               {"wg", "12x8"},
                               {"wu", "12x8"},
                               {"wd", "8x12"}})
      parameters.push_back({name + layer, shape});
  parameters.push_back({"norm", "8"});
  if (!tied)
    parameters.push_back({"head", "13x8"});
  if (bias)
    parameters.push_back({"bias", "13"});
  std::string text = "module attributes {graph.batch = 2 : i64, graph.seq = 5 : i64, graph.vocabulary = 13 : i64} {\n"
                     "  func.func @forward(%tokens: tensor<2x5xi32> {graph.role = #graph.role<tokens>}";
  for (const ArgumentText &p : parameters)
    text += fmt::format(", %{0}: tensor<{1}xf32> {{graph.role = #graph.role<parameter>, graph.name = \"{0}\"}}", p.name,
                        p.shape);
  text += ") -> (tensor<2x5x13xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = "
          "#graph.entry<forward>} {\n";
  text += "    %cos = graph.constant dense<[[1.0, 1.0], [0.54, 0.99], [-0.42, 0.98], [-0.99, 0.96], [-0.65, 0.92]]> : "
          "tensor<5x2xf32>\n"
          "    %sin = graph.constant dense<[[0.0, 0.0], [0.84, 0.01], [0.91, 0.02], [0.14, 0.03], [-0.76, 0.04]]> : "
          "tensor<5x2xf32>\n"
          "    %flat = graph.reshape %tokens : tensor<2x5xi32> -> tensor<10xi32>\n"
          "    %h0 = graph.embedding %embed, %flat : tensor<13x8xf32>, tensor<10xi32> -> tensor<10x8xf32>";
  text += fmt::format(fmt::runtime(kLayer), 0, 1) + fmt::format(fmt::runtime(kLayer), 1, 2);
  text += fmt::format(
      "\n    %hidden = graph.rms_norm %h2, %norm, 1.0e-5 : tensor<10x8xf32>, tensor<8xf32>\n"
      "    %y = graph.matmul %hidden, %{} {{transpose_b}} : tensor<10x8xf32>, tensor<13x8xf32> -> tensor<10x13xf32>\n",
      tied ? "embed" : "head");
  if (bias)
    text += "    %bb = graph.broadcast %bias : tensor<13xf32> -> tensor<10x13xf32>\n"
            "    %yb = graph.add %y, %bb : tensor<10x13xf32>\n";
  text += fmt::format("    %logits = graph.reshape %y{} : tensor<10x13xf32> -> tensor<2x5x13xf32>\n    return %logits "
                      ": tensor<2x5x13xf32>\n  }}\n}}\n",
                      bias ? "b" : "");
  return text;
}

} // namespace ztc::test
