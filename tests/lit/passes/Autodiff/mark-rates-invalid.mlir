// RUN: ztc-opt %s --ztc-mark-rates="rates=embed=2" --split-input-file --verify-diagnostics
// RUN: not ztc-opt %s --ztc-mark-rates="rates=nor=2,rm=4" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not ztc-opt %s --ztc-mark-rates="rates=norm=-1" 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not ztc-opt %s --ztc-mark-rates="rates=table=2" 2>&1 | FileCheck %s --check-prefix=FROZEN

// TWICE: the lr-of pattern 'rm' matches 'norm', and so does one before it
// NUMBER: lr-of=norm=-1: expected REGEX=FACTOR with a positive factor
// FROZEN: the lr-of pattern 'table' matches frozen parameters alone
// expected-error@+1 {{the lr-of pattern 'embed' matches no parameter}}
func.func @forward(%n: tensor<8xf32> {graph.role = #graph.role<parameter>, graph.name = "norm"},
                   %t: tensor<8xf32> {graph.role = #graph.role<parameter>, graph.name = "table", graph.frozen}) attributes {graph.entry = #graph.entry<forward>} {
  return
}
