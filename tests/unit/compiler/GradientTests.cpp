// Every differentiable op against central finite differences in f64, from a table of cases.
#include "tests/unit/compiler/GradientCheck.h"

using namespace mlir;
using namespace ztc;
using namespace ztc::test;

namespace {

/// Moves inputs away from kinks and poles.
using Prepare = void (*)(Tensors &);

struct GradientCase {
  const char *name;
  const char *function; ///< text of one func.func @f
  Prepare prepare = nullptr;
  int64_t indexLimit = 2; ///< integer arguments are drawn below it
};

void makePositive(Tensors &arguments) {
  for (Tensor &argument : arguments)
    for (double &x : argument.reals)
      x = std::abs(x) + 0.5;
}
/// |x| >= 0.1.
void awayFromZero(Tensors &arguments) {
  for (Tensor &argument : arguments)
    for (double &x : argument.reals)
      x += x < 0 ? -0.1 : 0.1;
}
/// |a - b| >= 0.1.
void apart(Tensors &arguments) {
  for (size_t i = 0; i < arguments[0].reals.size(); ++i)
    if (std::abs(arguments[0].reals[i] - arguments[1].reals[i]) < 0.1)
      arguments[0].reals[i] += 0.5;
}
/// The second is between 1 and 2, the first no multiple of it.
void divisorsAside(Tensors &arguments) {
  for (size_t i = 0; i < arguments[0].reals.size(); ++i) {
    double &divisor = arguments[1].reals[i];
    divisor = 1.5 + 0.5 * std::tanh(divisor);
    arguments[0].reals[i] = divisor * (std::trunc(arguments[0].reals[i]) + 0.4);
  }
}
/// A fifth beyond a whole number, seen from zero.
void besideWholeNumbers(Tensors &arguments) {
  for (Tensor &argument : arguments)
    for (double &x : argument.reals)
      x = std::trunc(3 * x) + std::copysign(0.2, x);
}
/// Some targets are not counted.
void ignoreSomeTargets(Tensors &arguments) {
  for (Tensor &argument : arguments)
    for (size_t i = 0; i < argument.integers.size(); i += 3)
      argument.integers[i] = -100;
}

#define UNARY(op, type, ...)                                                                                           \
  {"graph." op " " type,                                                                                               \
   "func.func @f(%x: " type ") -> " type " { %y = graph." op " %x : " type " return %y : " type " }", __VA_ARGS__}
#define BINARY(op, type, ...)                                                                                          \
  {"graph." op " " type,                                                                                               \
   "func.func @f(%a: " type ", %b: " type ") -> " type " { %y = graph." op " %a, %b : " type " return %y : " type      \
   " }",                                                                                                               \
   __VA_ARGS__}
/// x times a whole number beside it: the factor's own derivative is zero.
#define ROUND(mode)                                                                                                    \
  {"graph.round " mode,                                                                                                \
   "func.func @f(%x: tensor<3x4xf64>) -> tensor<3x4xf64> { %n = graph.round " mode                                     \
   ", %x : tensor<3x4xf64> %y = graph.mul %x, %n : tensor<3x4xf64> return %y : tensor<3x4xf64> }",                     \
   besideWholeNumbers}
#define ONE(name, op, from, to)                                                                                        \
  {name " " from " -> " to,                                                                                            \
   "func.func @f(%x: " from ") -> " to " { %y = " op " : " from " -> " to " return %y : " to " }"}
#define MATMUL(attributes, a, b, y)                                                                                    \
  {"graph.matmul " attributes " " a " " b,                                                                             \
   "func.func @f(%a: " a ", %b: " b ") -> " y " { %y = graph.matmul %a, %b " attributes " : " a ", " b " -> " y        \
   " return %y : " y " }"}

const GradientCase kElementwise[] = {
    BINARY("add", "tensor<3x4xf64>", nullptr),
    BINARY("sub", "tensor<3x4xf64>", nullptr),
    BINARY("mul", "tensor<3x4xf64>", nullptr),
    BINARY("mul", "tensor<f64>", nullptr),
    BINARY("div", "tensor<3x4xf64>", awayFromZero),
    BINARY("maximum", "tensor<3x4xf64>", apart),
    BINARY("minimum", "tensor<3x4xf64>", apart),
    UNARY("neg", "tensor<3x4xf64>", nullptr),
    UNARY("abs", "tensor<3x4xf64>", awayFromZero),
    UNARY("exp", "tensor<3x4xf64>", nullptr),
    UNARY("log", "tensor<3x4xf64>", makePositive),
    UNARY("sqrt", "tensor<3x4xf64>", makePositive),
    UNARY("rsqrt", "tensor<3x4xf64>", makePositive),
    UNARY("reciprocal", "tensor<3x4xf64>", makePositive),
    UNARY("sigmoid", "tensor<3x4xf64>", nullptr),
    UNARY("tanh", "tensor<3x4xf64>", nullptr),
    UNARY("erf", "tensor<3x4xf64>", nullptr),
    UNARY("sin", "tensor<3x4xf64>", nullptr),
    UNARY("cos", "tensor<3x4xf64>", nullptr),
    UNARY("atan", "tensor<3x4xf64>", nullptr),
    UNARY("expm1", "tensor<3x4xf64>", nullptr),
    UNARY("log1p", "tensor<3x4xf64>", makePositive),
    BINARY("tensor_power", "tensor<3x4xf64>", makePositive),
    BINARY("remainder", "tensor<3x4xf64>", divisorsAside),
    UNARY("sin", "tensor<2x1x5xf64>", nullptr),
    {"power 3", "func.func @f(%x: tensor<3x4xf64>) -> tensor<3x4xf64> { %y = graph.power %x, 3.0 : tensor<3x4xf64> "
                "return %y : tensor<3x4xf64> }"},
    ROUND("floor"),
    ROUND("ceil"),
    ROUND("even"),
    ROUND("truncate"),
    {"power 2", "func.func @f(%x: tensor<3x4xf64>) -> tensor<3x4xf64> { %y = graph.power %x, 2.0 : tensor<3x4xf64> "
                "return %y : tensor<3x4xf64> }"},
    {"power -1.5",
     "func.func @f(%x: tensor<5xf64>) -> tensor<5xf64> { %y = graph.power %x, -1.5 : tensor<5xf64> return %y : "
     "tensor<5xf64> }",
     makePositive},
    {"power 0.5",
     "func.func @f(%x: tensor<5xf64>) -> tensor<5xf64> { %y = graph.power %x, 0.5 : tensor<5xf64> return %y : "
     "tensor<5xf64> }",
     makePositive},
    {"select", R"(func.func @f(%c: tensor<3x8xi1>, %a: tensor<3x8xf64>, %b: tensor<3x8xf64>) -> tensor<3x8xf64> {
       %y = graph.select %c, %a, %b : tensor<3x8xi1>, tensor<3x8xf64> return %y : tensor<3x8xf64> })"},
    {"cast", R"(func.func @f(%x: tensor<3x4xf32>) -> tensor<3x4xf64> {
       %y = graph.cast %x : tensor<3x4xf32> -> tensor<3x4xf64> return %y : tensor<3x4xf64> })"},
};

const GradientCase kShape[] = {
    ONE("reshape", "graph.reshape %x", "tensor<3x4xf64>", "tensor<2x6xf64>"),
    ONE("reshape", "graph.reshape %x", "tensor<1xf64>", "tensor<f64>"),
    ONE("transpose", "graph.transpose %x, [1, 0]", "tensor<3x4xf64>", "tensor<4x3xf64>"),
    ONE("transpose", "graph.transpose %x, [2, 0, 1]", "tensor<2x3x4xf64>", "tensor<4x2x3xf64>"),
    ONE("transpose", "graph.transpose %x, [0, 2, 1, 3]", "tensor<2x3x4x2xf64>", "tensor<2x4x3x2xf64>"),
    ONE("broadcast", "graph.broadcast %x", "tensor<f64>", "tensor<2x3xf64>"),
    ONE("broadcast", "graph.broadcast %x", "tensor<3xf64>", "tensor<2x3xf64>"),
    ONE("broadcast", "graph.broadcast %x", "tensor<1xf64>", "tensor<2x3xf64>"),
    ONE("broadcast", "graph.broadcast %x", "tensor<2x1xf64>", "tensor<2x3xf64>"),
    ONE("broadcast", "graph.broadcast %x", "tensor<1x3xf64>", "tensor<2x3xf64>"),
    ONE("broadcast", "graph.broadcast %x", "tensor<1x1xf64>", "tensor<2x3xf64>"),
    ONE("broadcast", "graph.broadcast %x", "tensor<2x1x4xf64>", "tensor<5x2x3x4xf64>"),
    ONE("broadcast", "graph.broadcast %x", "tensor<2x3xf64>", "tensor<2x3xf64>"),
    ONE("slice", "graph.slice %x, [1, 0]", "tensor<3x4xf64>", "tensor<2x3xf64>"),
    ONE("slice", "graph.slice %x, [5]", "tensor<8xf64>", "tensor<1xf64>"),
    ONE("pad", "graph.pad %x, [1, 0]", "tensor<2x3xf64>", "tensor<4x3xf64>"),
    ONE("pad", "graph.pad %x, [0, 2]", "tensor<2x3xf64>", "tensor<3x7xf64>"),
    ONE("reduce_sum", "graph.reduce_sum %x, [0]", "tensor<3x4xf64>", "tensor<1x4xf64>"),
    ONE("reduce_sum", "graph.reduce_sum %x, [1]", "tensor<3x4xf64>", "tensor<3x1xf64>"),
    ONE("reduce_sum", "graph.reduce_sum %x, [0, 2]", "tensor<3x4x2xf64>", "tensor<1x4x1xf64>"),
    ONE("reduce_max", "graph.reduce_max %x, [0]", "tensor<3x4xf64>", "tensor<1x4xf64>"),
    ONE("reduce_max", "graph.reduce_max %x, [1, 2]", "tensor<2x3x2xf64>", "tensor<2x1x1xf64>"),
    {"concat", R"(func.func @f(%a: tensor<2x3xf64>, %b: tensor<2x1xf64>, %c: tensor<2x2xf64>) -> tensor<2x6xf64> {
       %y = graph.concat %a, %b, %c axis 1 : tensor<2x3xf64>, tensor<2x1xf64>, tensor<2x2xf64> -> tensor<2x6xf64> return %y : tensor<2x6xf64> })"},
    {"concat 0", R"(func.func @f(%a: tensor<2x3xf64>, %b: tensor<1x3xf64>) -> tensor<3x3xf64> {
       %y = graph.concat %a, %b axis 0 : tensor<2x3xf64>, tensor<1x3xf64> -> tensor<3x3xf64> return %y : tensor<3x3xf64> })"},
    {"recompute_barrier", R"(func.func @f(%a: tensor<2x3xf64>) -> tensor<2x3xf64> {
       %after = graph.constant dense<0.0> : tensor<4xf64>
       %y = graph.recompute_barrier %a after %after : tensor<2x3xf64>, tensor<4xf64> return %y : tensor<2x3xf64> })"},
};

const GradientCase kMatmul[] = {
    MATMUL("", "tensor<3x4xf64>", "tensor<4x5xf64>", "tensor<3x5xf64>"),
    MATMUL("{transpose_a}", "tensor<4x3xf64>", "tensor<4x5xf64>", "tensor<3x5xf64>"),
    MATMUL("{transpose_b}", "tensor<3x4xf64>", "tensor<5x4xf64>", "tensor<3x5xf64>"),
    MATMUL("{transpose_a, transpose_b}", "tensor<4x3xf64>", "tensor<5x4xf64>", "tensor<3x5xf64>"),
    MATMUL("", "tensor<2x3x4xf64>", "tensor<2x4x5xf64>", "tensor<2x3x5xf64>"),
    MATMUL("{transpose_a}", "tensor<2x4x3xf64>", "tensor<2x4x5xf64>", "tensor<2x3x5xf64>"),
    MATMUL("{transpose_b}", "tensor<2x2x3x4xf64>", "tensor<2x2x5x4xf64>", "tensor<2x2x3x5xf64>"),
    MATMUL("{transpose_a, transpose_b}", "tensor<2x4x3xf64>", "tensor<2x5x4xf64>", "tensor<2x3x5xf64>"),
    MATMUL("", "tensor<1x4xf64>", "tensor<4x1xf64>", "tensor<1x1xf64>"),
};

const GradientCase kMacro[] = {
    {"rms_norm", R"(func.func @f(%x: tensor<3x8xf64>, %w: tensor<8xf64>) -> tensor<3x8xf64> {
       %y = graph.rms_norm %x, %w, 1.0e-5 : tensor<3x8xf64>, tensor<8xf64> return %y : tensor<3x8xf64> })"},
    {"rms_norm 4-D", R"(func.func @f(%x: tensor<2x3x2x4xf64>, %w: tensor<4xf64>) -> tensor<2x3x2x4xf64> {
       %y = graph.rms_norm %x, %w, 1.0e-2 : tensor<2x3x2x4xf64>, tensor<4xf64> return %y : tensor<2x3x2x4xf64> })"},
    UNARY("softmax", "tensor<3x5xf64>", nullptr),
    UNARY("softmax", "tensor<2x3x4xf64>", nullptr),
    BINARY("swiglu", "tensor<3x4xf64>", nullptr),
    {"rope", R"(func.func @f(%x: tensor<2x3x2x4xf64>, %t: tensor<3x2xf64>, %u: tensor<3x2xf64>) -> tensor<2x3x2x4xf64> {
       %c = graph.constant dense<[[0.9, 0.5], [0.1, -0.3], [0.7, 0.2]]> : tensor<3x2xf64>
       %s = graph.constant dense<[[0.2, 0.6], [0.8, 0.4], [-0.5, 0.3]]> : tensor<3x2xf64>
       %tu = graph.mul %t, %u : tensor<3x2xf64>
       %sum = graph.reduce_sum %tu, [0, 1] : tensor<3x2xf64> -> tensor<1x1xf64>
       %scale = graph.broadcast %sum : tensor<1x1xf64> -> tensor<2x3x2x4xf64>
       %xs = graph.mul %x, %scale : tensor<2x3x2x4xf64>
       %y = graph.rope %xs, %c, %s : tensor<2x3x2x4xf64>, tensor<3x2xf64> return %y : tensor<2x3x2x4xf64> })"},
    {"rope inverse", R"(func.func @f(%x: tensor<1x3x2x4xf64>) -> tensor<1x3x2x4xf64> {
       %c = graph.constant dense<[[0.9, 0.5], [0.1, -0.3], [0.7, 0.2]]> : tensor<3x2xf64>
       %s = graph.constant dense<[[0.2, 0.6], [0.8, 0.4], [-0.5, 0.3]]> : tensor<3x2xf64>
       %y = graph.rope %x, %c, %s {inverse} : tensor<1x3x2x4xf64>, tensor<3x2xf64> return %y : tensor<1x3x2x4xf64> })"},
    {"attention",
     R"(func.func @f(%q: tensor<2x5x2x4xf64>, %k: tensor<2x5x2x4xf64>, %v: tensor<2x5x2x4xf64>) -> tensor<2x5x2x4xf64> {
       %y = graph.attention %q, %k, %v, 5.0e-1 : tensor<2x5x2x4xf64>, tensor<2x5x2x4xf64> return %y : tensor<2x5x2x4xf64> })"},
    {"attention causal, grouped",
     R"(func.func @f(%q: tensor<2x5x4x4xf64>, %k: tensor<2x5x2x4xf64>, %v: tensor<2x5x2x4xf64>) -> tensor<2x5x4x4xf64> {
       %y = graph.attention %q, %k, %v, 3.0e-1 {causal} : tensor<2x5x4x4xf64>, tensor<2x5x2x4xf64> return %y : tensor<2x5x4x4xf64> })"},
    {"attention softcap",
     R"(func.func @f(%q: tensor<1x6x4x4xf64>, %k: tensor<1x6x2x4xf64>, %v: tensor<1x6x2x4xf64>) -> tensor<1x6x4x4xf64> {
       %y = graph.attention %q, %k, %v, 5.0e-1 {causal, window = 3 : i64, softcap = 7.5e-1} : tensor<1x6x4x4xf64>, tensor<1x6x2x4xf64> return %y : tensor<1x6x4x4xf64> })"},
    {"attention window",
     R"(func.func @f(%q: tensor<1x6x3x4xf64>, %k: tensor<1x6x1x4xf64>, %v: tensor<1x6x1x4xf64>) -> tensor<1x6x3x4xf64> {
       %y = graph.attention %q, %k, %v, 5.0e-1 {causal, window = 3 : i64} : tensor<1x6x3x4xf64>, tensor<1x6x1x4xf64> return %y : tensor<1x6x3x4xf64> })"},
    {"embedding", R"(func.func @f(%t: tensor<5x3xf64>, %i: tensor<2x4xi32>) -> tensor<2x4x3xf64> {
       %y = graph.embedding %t, %i : tensor<5x3xf64>, tensor<2x4xi32> -> tensor<2x4x3xf64> return %y : tensor<2x4x3xf64> })",
     nullptr, 5},
    {"embedding_grad", R"(func.func @f(%i: tensor<2x4xi32>, %g: tensor<2x4x3xf64>) -> tensor<5x3xf64> {
       %y = graph.embedding_grad %i, %g : tensor<2x4xi32>, tensor<2x4x3xf64> -> tensor<5x3xf64> return %y : tensor<5x3xf64> })",
     nullptr, 5},
    {"cross_entropy", R"(func.func @f(%l: tensor<7x5xf64>, %t: tensor<7xi32>) -> tensor<f64> {
       %y = graph.cross_entropy %l, %t : tensor<7x5xf64>, tensor<7xi32> -> tensor<f64> return %y : tensor<f64> })",
     ignoreSomeTargets, 5},
    {"cross_entropy of several losses", R"(func.func @f(%l: tensor<6x5xf64>, %t: tensor<6xi32>) -> tensor<3xf64> {
       %y = graph.cross_entropy %l, %t : tensor<6x5xf64>, tensor<6xi32> -> tensor<3xf64> return %y : tensor<3xf64> })",
     ignoreSomeTargets, 5},
    {"cross_entropy with weights",
     R"(func.func @f(%l: tensor<7x5xf64>, %t: tensor<7xi32>, %w: tensor<7xf64>) -> tensor<f64> {
       %y = graph.cross_entropy %l, %t weights %w : tensor<7xf64> : tensor<7x5xf64>, tensor<7xi32> -> tensor<f64> return %y : tensor<f64> })",
     ignoreSomeTargets, 5},
    {"cross_entropy of several losses with weights",
     R"(func.func @f(%l: tensor<6x5xf64>, %t: tensor<6xi32>, %w: tensor<6xf64>) -> tensor<3xf64> {
       %y = graph.cross_entropy %l, %t weights %w : tensor<6xf64> : tensor<6x5xf64>, tensor<6xi32> -> tensor<3xf64> return %y : tensor<3xf64> })",
     ignoreSomeTargets, 5},
    {"dropout, before a mask is drawn", R"(func.func @f(%x: tensor<3x4xf64>) -> tensor<3x4xf64> {
       %y = graph.dropout %x {module = "m", probability = 5.0e-1} : tensor<3x4xf64> return %y : tensor<3x4xf64> })"},
    {"a value with several readers", R"(func.func @f(%x: tensor<3x4xf64>) -> (tensor<3x4xf64>, tensor<3x4xf64>) {
       %y = graph.mul %x, %x : tensor<3x4xf64>
       %z = graph.sin %y : tensor<3x4xf64>
       %r = graph.add %z, %y : tensor<3x4xf64>
       return %r, %z : tensor<3x4xf64>, tensor<3x4xf64> })"},
};

// Rows of experts; of four one at least has none, because choices are of three.
const GradientCase kExperts[] = {
    {"dispatch", R"(func.func @f(%x: tensor<5x3xf64>, %c: tensor<5x2xi32>) -> tensor<10x3xf64> {
       %o, %p, %s = graph.route %c : tensor<5x2xi32> -> tensor<10xi32>, tensor<5x2xi32>, tensor<5xi32>
       %y = graph.dispatch %x by %o, %p : tensor<5x3xf64>, tensor<10xi32>, tensor<5x2xi32> -> tensor<10x3xf64> return %y : tensor<10x3xf64> })",
     nullptr, 3},
    {"selective_scan",
     R"(func.func @f(%v: tensor<2x10x80xf32>, %d: tensor<2x10x80xf32>, %r: tensor<3x80xf32>, %b: tensor<2x10x3xf32>, %c: tensor<2x10x3xf32>) -> tensor<2x10x80xf32> {
       %y, %s = graph.selective_scan %v, %d, %r, %b, %c {chunk = 8 : i64} : tensor<2x10x80xf32>, tensor<2x10x80xf32>, tensor<3x80xf32>, tensor<2x10x3xf32>, tensor<2x10x3xf32> -> tensor<2x10x80xf32>, tensor<2x2x3x80xf32>
       return %y : tensor<2x10x80xf32> })"},
    {"combine", R"(func.func @f(%x: tensor<10x3xf64>, %c: tensor<5x2xi32>) -> tensor<5x3xf64> {
       %o, %p, %s = graph.route %c : tensor<5x2xi32> -> tensor<10xi32>, tensor<5x2xi32>, tensor<5xi32>
       %y = graph.combine %x by %o, %p : tensor<10x3xf64>, tensor<10xi32>, tensor<5x2xi32> -> tensor<5x3xf64> return %y : tensor<5x3xf64> })",
     nullptr, 3},
    {"grouped_matmul",
     R"(func.func @f(%x: tensor<10x3xf64>, %w: tensor<4x3x6xf64>, %c: tensor<5x2xi32>) -> tensor<10x6xf64> {
       %o, %p, %s = graph.route %c : tensor<5x2xi32> -> tensor<10xi32>, tensor<5x2xi32>, tensor<5xi32>
       %y = graph.grouped_matmul %x, %w rows %s : tensor<10x3xf64>, tensor<4x3x6xf64>, tensor<5xi32> -> tensor<10x6xf64> return %y : tensor<10x6xf64> })",
     nullptr, 3},
    {"grouped_matmul transpose_b",
     R"(func.func @f(%x: tensor<10x3xf64>, %w: tensor<4x6x3xf64>, %c: tensor<5x2xi32>) -> tensor<10x6xf64> {
       %o, %p, %s = graph.route %c : tensor<5x2xi32> -> tensor<10xi32>, tensor<5x2xi32>, tensor<5xi32>
       %y = graph.grouped_matmul %x, %w rows %s {transpose_b} : tensor<10x3xf64>, tensor<4x6x3xf64>, tensor<5xi32> -> tensor<10x6xf64> return %y : tensor<10x6xf64> })",
     nullptr, 3},
    {"grouped_outer",
     R"(func.func @f(%a: tensor<10x3xf64>, %b: tensor<10x6xf64>, %c: tensor<5x2xi32>) -> tensor<4x3x6xf64> {
       %o, %p, %s = graph.route %c : tensor<5x2xi32> -> tensor<10xi32>, tensor<5x2xi32>, tensor<5xi32>
       %y = graph.grouped_outer %a, %b rows %s : tensor<10x3xf64>, tensor<10x6xf64>, tensor<5xi32> -> tensor<4x3x6xf64> return %y : tensor<4x3x6xf64> })",
     nullptr, 3},
    {"causal_filter",
     R"(func.func @f(%x: tensor<2x7x3xf64>, %w: tensor<4x3xf64>, %b: tensor<3xf64>) -> tensor<2x7x3xf64> {
       %y = graph.causal_filter %x by %w : tensor<4x3xf64> bias %b : tensor<3xf64> : tensor<2x7x3xf64> return %y : tensor<2x7x3xf64> })"},
    {"state_passing",
     R"(func.func @f(%t: tensor<6x3x4xf64>, %f: tensor<6x3x4xf64>, %u: tensor<6x3x6xf64>, %e: tensor<6x4x6xf64>, %d: tensor<6x4x3xf64>, %p: tensor<2x4x6xf64>)
           -> (tensor<6x4x6xf64>, tensor<2x4x6xf64>, tensor<6x3x6xf64>) {
       %b, %l, %x = graph.state_passing to %t : tensor<6x3x4xf64> from %f : tensor<6x3x4xf64> update %u : tensor<6x3x6xf64> plus %e : tensor<6x4x6xf64>
         decay %d : tensor<6x4x3xf64> past %p : tensor<2x4x6xf64> {chunks = 3 : i64} : tensor<6x4x6xf64>, tensor<2x4x6xf64>, tensor<6x3x6xf64>
       return %b, %l, %x : tensor<6x4x6xf64>, tensor<2x4x6xf64>, tensor<6x3x6xf64> })"},
    {"state_passing reverse", R"(func.func @f(%e: tensor<6x4x6xf64>, %d: tensor<6x1x2xf64>) -> tensor<6x4x6xf64> {
       %b, %l = graph.state_passing plus %e : tensor<6x4x6xf64> decay %d : tensor<6x1x2xf64> {chunks = 3 : i64, reverse} : tensor<6x4x6xf64>, tensor<2x4x6xf64>
       return %b : tensor<6x4x6xf64> })"},
    {"state_passing last",
     R"(func.func @f(%t: tensor<6x3x4xf64>, %u: tensor<6x3x2xf64>, %d: tensor<6x1x1xf64>) -> tensor<2x4x2xf64> {
       %b, %l, %x = graph.state_passing to %t : tensor<6x3x4xf64> from %t : tensor<6x3x4xf64> update %u : tensor<6x3x2xf64> decay %d : tensor<6x1x1xf64> {chunks = 3 : i64}
         : tensor<6x4x2xf64>, tensor<2x4x2xf64>, tensor<6x3x2xf64> return %l : tensor<2x4x2xf64> })"},
    {"unit_lower_inverse", R"(func.func @f(%a: tensor<2x5x5xf64>) -> tensor<2x5x5xf64> {
       %y = graph.unit_lower_inverse %a : tensor<2x5x5xf64> return %y : tensor<2x5x5xf64> })"},
};

std::vector<GradientCase> allCases() {
  std::vector<GradientCase> cases;
  for (ArrayRef<GradientCase> table :
       {ArrayRef<GradientCase>(kElementwise), ArrayRef<GradientCase>(kShape), ArrayRef<GradientCase>(kMatmul),
        ArrayRef<GradientCase>(kMacro), ArrayRef<GradientCase>(kExperts)})
    cases.insert(cases.end(), table.begin(), table.end());
  return cases;
}

/// sum over results of <cotangent, result>.
double objective(func::FuncOp function, const Tensors &arguments, const Tensors &cotangents) {
  auto results = interpret(function, arguments);
  EXPECT_TRUE(succeeded(results));
  double sum = 0;
  for (auto [result, cotangent] : llvm::zip(*results, cotangents))
    sum += dot(result, cotangent);
  return sum;
}

Tensors step(const Tensors &arguments, const Tensors &direction, double h) {
  Tensors moved = arguments;
  for (auto [argument, d] : llvm::zip(moved, direction))
    for (size_t i = 0; i < argument.reals.size(); ++i)
      argument.reals[i] += h * d.reals[i];
  return moved;
}

void checkCase(const GradientCase &testCase, uint64_t seed) {
  SCOPED_TRACE(std::string(testCase.name) + ", seed " + std::to_string(seed));
  GraphContext context;
  auto module = context.parse(testCase.function);
  ASSERT_TRUE(module);
  auto function = module->lookupSymbol<func::FuncOp>("f");
  func::FuncOp original = function.clone();
  llvm::scope_exit cleanUp([&] { original.erase(); });
  ASSERT_TRUE(succeeded(differentiateInPlace(function)));

  std::mt19937_64 generator(seed);
  Tensors arguments, direction, cotangents;
  for (Type type : original.getArgumentTypes()) {
    arguments.push_back(randomTensor(cast<RankedTensorType>(type), generator, testCase.indexLimit));
    direction.push_back(randomTensor(cast<RankedTensorType>(type), generator));
  }
  if (testCase.prepare)
    testCase.prepare(arguments);
  for (Type type : original.getResultTypes())
    cotangents.push_back(randomTensor(cast<RankedTensorType>(type), generator));

  const double h = 6e-6;
  double numeric = (objective(original, step(arguments, direction, h), cotangents) -
                    objective(original, step(arguments, direction, -h), cotangents)) /
                   (2 * h);
  Tensors extended = arguments;
  extended.append(cotangents);
  auto results = interpret(function, extended);
  ASSERT_TRUE(succeeded(results));
  double analytic = 0, scale = 1e-3;
  size_t next = original.getNumResults();
  for (auto [argument, d] : llvm::zip(arguments, direction)) {
    if (!argument.isReal())
      continue;
    const Tensor &gradient = (*results)[next++];
    EXPECT_GT(maxAbs(gradient), 0) << "a gradient is all zero";
    analytic += dot(gradient, d);
    scale += std::abs(dot(gradient, d));
  }
  EXPECT_NEAR(analytic, numeric, 1e-6 * scale);
}

class GradientTest : public testing::TestWithParam<GradientCase> {};

TEST_P(GradientTest, AgreesWithFiniteDifferences) {
  for (uint64_t seed : {1, 2, 3})
    checkCase(GetParam(), seed);
}

INSTANTIATE_TEST_SUITE_P(AllOps, GradientTest, testing::ValuesIn(allCases()), [](const auto &info) {
  std::string name = std::to_string(info.index) + "_";
  for (const char *c = info.param.name; *c; ++c)
    name += std::isalnum(*c) ? *c : '_';
  return name;
});

/// A new differentiable op without a case here is a test failure.
TEST(GradientTable, CoversEveryDifferentiableOp) {
  GraphContext context;
  std::string text;
  for (const GradientCase &testCase : allCases())
    text += testCase.function;
  for (RegisteredOperationName op : context.context.getRegisteredOperations())
    if (op.hasInterface<DifferentiableOpInterface>())
      EXPECT_NE(text.find(op.getStringRef().str() + " "), std::string::npos) << op.getStringRef().str();
}

TEST(Gradient, AllMissingDerivativesAreNamedAtOnce) {
  GraphContext context;
  auto module = context.parse(R"(func.func @f(%x: tensor<4xf64>) -> tensor<f64> {
    %y = graph.accumulate %x, %x : tensor<4xf64> loc("first")
    %z = graph.sin %y : tensor<4xf64>
    %r = graph.sum_squares %z : tensor<4xf64> -> tensor<f64> loc("second")
    return %r : tensor<f64> })");
  std::string messages;
  ScopedDiagnosticHandler handler(&context.context, [&](Diagnostic &diagnostic) {
    llvm::raw_string_ostream(messages) << diagnostic.getLocation() << ": " << diagnostic.str() << "\n";
    return success();
  });
  EXPECT_TRUE(failed(differentiateInPlace(module->lookupSymbol<func::FuncOp>("f"))));
  EXPECT_THAT(messages, testing::HasSubstr("\"first\"): 'graph.accumulate' op has no derivative"));
  EXPECT_THAT(messages, testing::HasSubstr("\"second\"): 'graph.sum_squares' op has no derivative"));
}

TEST(Gradient, NothingIsEmittedForWhatNobodyWants) {
  GraphContext context;
  auto module =
      context.parse(R"(func.func @f(%x: tensor<3x4xf64>, %w: tensor<5x4xf64>, %g: tensor<3x5xf64>) -> tensor<3x5xf64> {
    %y = graph.matmul %x, %w {transpose_b} : tensor<3x4xf64>, tensor<5x4xf64> -> tensor<3x5xf64>
    return %y : tensor<3x5xf64> })");
  Block &body = module->lookupSymbol<func::FuncOp>("f").getBody().front();
  auto gradients =
      emitGradients(body, {{body.getTerminator()->getOperand(0), body.getArgument(2)}}, {body.getArgument(1)});
  ASSERT_TRUE(succeeded(gradients));
  EXPECT_EQ(llvm::range_size(body.getOps<graph::MatmulOp>()), 2);
}

} // namespace
