// RUN: ztc-opt --ztc-form-kernels --ztc-map-to-host --split-input-file --verify-diagnostics %s

func.func @library_op(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %y = graph.fusion "product"(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%a: tensor<4x4xf32>):
    // expected-error@+1 {{'graph.matmul' op is not an op that kernels are made of}}
    %p = graph.matmul %a, %a : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    graph.yield %p : tensor<4x4xf32>
  }
  return %y : tensor<4x4xf32>
}

// -----

func.func @double_precision(%x: tensor<4x4xf64>) -> tensor<4x4xf64> {
  %y = graph.fusion "exp"(%x) : (tensor<4x4xf64>) -> tensor<4x4xf64> {
  ^bb0(%a: tensor<4x4xf64>):
    // expected-error@+1 {{'graph.exp' op has no kernel for this element type}}
    %e = graph.exp %a : tensor<4x4xf64>
    graph.yield %e : tensor<4x4xf64>
  }
  return %y : tensor<4x4xf64>
}

// -----

func.func @table_inside(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = graph.fusion "table"(%x) : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<2xf32>):
    // expected-error@+1 {{'graph.constant' op is a table inside a group: tables are operands of a group}}
    %t = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %s = graph.add %a, %t : tensor<2xf32>
    graph.yield %s : tensor<2xf32>
  }
  return %y : tensor<2xf32>
}
