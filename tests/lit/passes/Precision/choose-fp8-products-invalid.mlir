// RUN: not ztc-opt %s --ztc-choose-fp8-products=gradients=e8m0 2>&1 | FileCheck %s --check-prefix=FORMAT
// RUN: not ztc-opt %s --ztc-choose-fp8-products 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: sed 's/"fp8"/"bf16"/' %s | not ztc-opt --ztc-choose-fp8-products 2>&1 | FileCheck %s --check-prefix=BF16
// RUN: sed 's/graph.frozen/graph.frozen, graph.quantized = #graph.weight_format<nf4>/' %s | not ztc-opt --ztc-choose-fp8-products 2>&1 | FileCheck %s --check-prefix=BITS

// FORMAT: for the --gradients option: Cannot find option named 'e8m0'!
// NONE:   error: no product of a transformer block can be in fp8: their sizes (and batch times sequence) are not multiples of 16, or the policy excepts all; compile with --precision=bf16
// BF16:   error: products are quantised in precision fp8 alone
// BITS:   error: weights in fewer bits, as 'w' is, are multiplied in 16 bits: compile with --precision=bf16
module attributes {graph.precision = "fp8"} {
  func.func @microstep(%tokens: tensor<6xi32> {graph.role = #graph.role<tokens>}, %x: tensor<6x16xbf16>,
                       %w: tensor<16x16xbf16> {graph.role = #graph.role<parameter>, graph.name = "w", graph.layer = 0 : i64, graph.frozen})
      -> tensor<6x16xbf16> attributes {graph.entry = #graph.entry<microstep>} {
    %y = graph.matmul %x, %w {transpose_b} : tensor<6x16xbf16>, tensor<16x16xbf16> -> tensor<6x16xbf16>
    return %y : tensor<6x16xbf16>
  }
}
