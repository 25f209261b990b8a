// RUN: split-file %s %t
// RUN: not ztc-opt %t/step.mlir --ztc-apply-patterns=file=%t/none.pdll 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not ztc-opt %t/step.mlir --ztc-apply-patterns=file=%t/slip.pdll 2>&1 | FileCheck %s --check-prefix=SLIP
// RUN: not ztc-opt %t/step.mlir --ztc-apply-patterns=file=%t/broken.pdll 2>&1 | FileCheck %s --check-prefix=BROKEN
// RUN: not ztc-opt %t/step.mlir --ztc-apply-patterns=file=%t/step.mlir 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not ztc-opt %t/step.mlir --ztc-apply-patterns=file=%t/endless.pdll 2>&1 | FileCheck %s --check-prefix=ENDLESS

// NONE: none.pdll{{.*}}: error: cannot read patterns: No such file or directory
// SLIP: slip.pdll:1:{{.*}}: error: the pattern names 'graph.recirpocal', but its dialect has no such op
// BROKEN: error: mlir-pdll: {{.*}}broken.pdll:{{[0-9]+}}:{{[0-9]+}}: error: expected expression
// EMPTY: error: the file contains no pattern
// ENDLESS: error: patterns of {{.*}}endless.pdll apply again and again: one undoes what another does

//--- slip.pdll
Pattern => replace op<graph.recirpocal>(x: Value) -> (type: Type) with op<graph.neg>(x) -> (type);

//--- broken.pdll
Pattern => replace op<graph.neg>(x: Value) with

//--- endless.pdll
Pattern => replace op<graph.neg>(x: Value) -> (type: Type) with op<graph.abs>(x) -> (type);
Pattern => replace op<graph.abs>(x: Value) -> (type: Type) with op<graph.neg>(x) -> (type);

//--- step.mlir
func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = graph.neg %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
