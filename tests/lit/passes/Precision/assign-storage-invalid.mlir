// RUN: not ztc-opt %s --ztc-assign-storage="precision=bf16 keep=e,head" 2>&1 | FileCheck %s --check-prefix=UNUSED
// RUN: not ztc-opt %s --ztc-assign-storage="precision=bf16 keep=e(" 2>&1 | FileCheck %s --check-prefix=REGEX
// RUN: not ztc-opt %s --ztc-assign-storage="precision=fp32 keep=e" 2>&1 | FileCheck %s --check-prefix=FP32
// RUN: not ztc-opt %s --ztc-assign-storage=precision=fp4 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not ztc-opt %s --ztc-assign-storage=precision=bf16 --ztc-assign-storage=precision=bf16 2>&1 | FileCheck %s --check-prefix=TWICE
// UNUSED: the precision policy's pattern 'head' matches no parameter and no layer
// REGEX: the precision policy's pattern 'e(' is not a regular expression: parentheses not balanced
// FP32: a precision policy that keeps layers fp32 changes nothing in precision fp32
// UNKNOWN: for the --precision option: Cannot find option named 'fp4'!
// TWICE: 'graph.embedding' op reads 'tensor<7x4xbf16>' where a precision is chosen for f32
func.func @eval(%tokens: tensor<6xi32> {graph.role = #graph.role<tokens>}, %e: tensor<7x4xf32> {graph.role = #graph.role<parameter>, graph.name = "e"})
    -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %x = graph.embedding %e, %tokens : tensor<7x4xf32>, tensor<6xi32> -> tensor<6x4xf32>
  %loss = graph.linear_cross_entropy %x, %e, %tokens : tensor<6x4xf32>, tensor<7x4xf32>, tensor<6xi32> -> tensor<f32>
  return %loss : tensor<f32>
}
