// Elementwise ops and their table of derivatives.
#ifndef ZTC_GRAPH_ELEMENTWISE
#define ZTC_GRAPH_ELEMENTWISE
include "compiler/Dialect/Graph/GraphBase.td"

// The derivative table. In a formula `x` is the operand (`a`, `b` of a binary op), `y` the result and `g` the
// cotangent of the result; the value of the formula is the cotangent of the operand. `Expr.h` gives the operators.
class Graph_UnaryOp<string mnemonic, string derivative, list<Trait> traits = []>
    : Graph_Op<mnemonic, !listconcat([Elementwise, SameOperandsAndResultType, Differentiable, Costed], traits)> {
  let arguments = (ins Graph_AnyTensor:$x);
  let results = (outs Graph_AnyTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($y)";
  let hasFolder = 0;
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::buildVjp(::mlir::OpBuilder &builder, ::ztc::VjpContext &context) {
      ::mlir::Value cotangent = context.cotangent(0);
      if (!cotangent || !context.wants(0))
        return ::mlir::success();
      [[maybe_unused]] Expr x(builder, getLoc(), context.operand(0)), y(builder, getLoc(), context.result(0)), g(builder, getLoc(), cotangent);
      context.accumulate(0, (}] # derivative # [{).value());
      return ::mlir::success();
    }
    int64_t $cppClass::getFlops() { return elementCount(getResult()); }
  }];
}

class Graph_BinaryOp<string mnemonic, string derivativeA, string derivativeB, list<Trait> traits = []>
    : Graph_Op<mnemonic, !listconcat([Elementwise, SameOperandsAndResultType, Differentiable, Costed], traits)> {
  let arguments = (ins Graph_AnyTensor:$a, Graph_AnyTensor:$b);
  let results = (outs Graph_AnyTensor:$y);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($y)";
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::buildVjp(::mlir::OpBuilder &builder, ::ztc::VjpContext &context) {
      ::mlir::Value cotangent = context.cotangent(0);
      if (!cotangent)
        return ::mlir::success();
      [[maybe_unused]] Expr a(builder, getLoc(), context.operand(0)), b(builder, getLoc(), context.operand(1));
      [[maybe_unused]] Expr y(builder, getLoc(), context.result(0)), g(builder, getLoc(), cotangent);
      if (context.wants(0))
        context.accumulate(0, (}] # derivativeA # [{).value());
      if (context.wants(1))
        context.accumulate(1, (}] # derivativeB # [{).value());
      return ::mlir::success();
    }
    int64_t $cppClass::getFlops() { return elementCount(getResult()); }
  }];
}

def Graph_AddOp : Graph_BinaryOp<"add", "g", "g", [Commutative]>;
def Graph_SubOp : Graph_BinaryOp<"sub", "g", "-g">;
def Graph_MulOp : Graph_BinaryOp<"mul", "g * b", "g * a", [Commutative]>;
// Of integers: the quotient toward zero; a quotient by zero is 0, so that a lane that nobody reads may divide by it.
def Graph_DivOp : Graph_BinaryOp<"div", "g / b", "-(g * y / b)">;
// a - b * trunc(a / b), with the sign of a (C's fmod). Of integers too; the remainder of a division by zero is a.
def Graph_RemainderOp : Graph_BinaryOp<"remainder", "g", "-(g * truncate(a / b))">;
// a to the exponent b, both tensors: NaN where a < 0 and b is not whole. The cotangents are those of PyTorch's pow: none of a
// where b is 0, none of b where a is 0.
def Graph_TensorPowerOp : Graph_BinaryOp<"tensor_power",
    "select(b == zeroLike(b), zeroLike(g), g * b * tensorPower(a, b - 1.0))",
    "select((a == zeroLike(a)) & (b >= zeroLike(b)), zeroLike(g), g * y * log(a))">;
// At a tie the whole cotangent goes to `a`.
def Graph_MaximumOp : Graph_BinaryOp<"maximum", "select(a >= b, g, zeroLike(g))", "select(a >= b, zeroLike(g), g)">;
def Graph_MinimumOp : Graph_BinaryOp<"minimum", "select(a <= b, g, zeroLike(g))", "select(a <= b, zeroLike(g), g)">;

def Graph_NegOp : Graph_UnaryOp<"neg", "-g">;
// At 0 the cotangent of abs is 0, as PyTorch has it.
def Graph_AbsOp : Graph_UnaryOp<"abs", "select(x > zeroLike(x), g, select(x < zeroLike(x), -g, zeroLike(g)))">;
def Graph_ExpOp : Graph_UnaryOp<"exp", "g * y">;
def Graph_LogOp : Graph_UnaryOp<"log", "g / x">;
def Graph_SqrtOp : Graph_UnaryOp<"sqrt", "g * 0.5 / y">;
def Graph_RsqrtOp : Graph_UnaryOp<"rsqrt", "g * -0.5 * y * y * y">;
def Graph_ReciprocalOp : Graph_UnaryOp<"reciprocal", "-(g * y * y)">;
def Graph_SigmoidOp : Graph_UnaryOp<"sigmoid", "g * y * (1.0 - y)">;
def Graph_TanhOp : Graph_UnaryOp<"tanh", "g * (1.0 - y * y)">;
def Graph_ErfOp : Graph_UnaryOp<"erf", "g * 1.1283791670955126 * exp(-(x * x))">; // 2/sqrt(pi)
def Graph_SinOp : Graph_UnaryOp<"sin", "g * cos(x)">;
def Graph_CosOp : Graph_UnaryOp<"cos", "-(g * sin(x))">;
def Graph_AtanOp : Graph_UnaryOp<"atan", "g / (1.0 + x * x)">;
// exp(x) - 1 and log(1 + x) without the loss of digits around 0.
def Graph_Expm1Op : Graph_UnaryOp<"expm1", "g * (y + 1.0)">;
def Graph_Log1pOp : Graph_UnaryOp<"log1p", "g / (1.0 + x)">;

def Graph_RoundOp : Graph_Op<"round", [Elementwise, SameOperandsAndResultType, Differentiable, Costed]> {
  let summary = "A whole number beside x; the derivative is zero.";
  let description = [{
    `mode` says which: floor, ceil, even (the nearest, of two the even one) or truncate (toward zero).
    (C1) the element type is a float.
  }];
  let arguments = (ins Graph_AnyTensor:$x, Graph_RoundingAttr:$mode);
  let results = (outs Graph_AnyTensor:$y);
  let assemblyFormat = "$mode `,` $x attr-dict `:` type($y)";
  let hasVerifier = 1;
}

def Graph_PowerOp : Graph_Op<"power", [Elementwise, SameOperandsAndResultType, Differentiable, Costed]> {
  let summary = "x to a constant exponent.";
  let description = [{ y = x^exponent. (C1) the element type is a float. }];
  let arguments = (ins Graph_AnyTensor:$x, F64Attr:$exponent);
  let results = (outs Graph_AnyTensor:$y);
  let assemblyFormat = "$x `,` $exponent attr-dict `:` type($y)";
  let hasVerifier = 1;
}

def Graph_CompareOp : Graph_Op<"compare", [Elementwise, AllTypesMatch<["a", "b"]>]> {
  let summary = "Elementwise comparison; any comparison with NaN is false, `ne` true.";
  let description = [{ `predicate` is eq, ne, lt, le, gt or ge. (C1) the result is i1 of the operands' shape. }];
  let arguments = (ins Graph_AnyTensor:$a, Graph_AnyTensor:$b, Graph_ComparisonAttr:$predicate);
  let results = (outs Graph_AnyTensor:$y);
  let assemblyFormat = "$predicate `,` $a `,` $b attr-dict `:` type($a) `->` type($y)";
  let hasVerifier = 1;
}

def Graph_SelectOp : Graph_Op<"select", [AllTypesMatch<["a", "b", "y"]>, Elementwise, Differentiable, Costed]> {
  let summary = "condition ? a : b, elementwise.";
  let description = [{ (C1) condition is i1. (C2) condition, a, b and the result have one shape; a, b and the result one type. }];
  let arguments = (ins Graph_AnyTensor:$condition, Graph_AnyTensor:$a, Graph_AnyTensor:$b);
  let results = (outs Graph_AnyTensor:$y);
  let assemblyFormat = "$condition `,` $a `,` $b attr-dict `:` type($condition) `,` type($y)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Graph_LogicOp : Graph_Op<"logic", [Elementwise, SameOperandsAndResultType]> {
  let summary = "and, or, xor of the bits of integers; of i1, of truth values.";
  let description = [{ `function` is and, or or xor. (C1) the element type is an integer. }];
  let arguments = (ins Graph_AnyTensor:$a, Graph_AnyTensor:$b, Graph_LogicAttr:$function);
  let results = (outs Graph_AnyTensor:$y);
  let assemblyFormat = "$function `,` $a `,` $b attr-dict `:` type($y)";
  let hasVerifier = 1;
}

def Graph_CastOp : Graph_Op<"cast", [Elementwise, SameOperandsAndResultShape, Differentiable, Costed]> {
  let summary = "Conversion of the element type; floats round to nearest even, floats to integers toward zero.";
  let arguments = (ins Graph_AnyTensor:$x);
  let results = (outs Graph_AnyTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
  let hasFolder = 1;
}

def Graph_StochasticRoundOp : Graph_Op<"stochastic_round", [Elementwise, SameOperandsAndResultShape, AllTypesMatch<["seed", "step"]>]> {
  let summary = "x in bf16, rounded up with the probability of what is cut off: the mean of many roundings is x.";
  let description = [{
    The 16 bits that are added before the cut are a hash of the bit patterns of `seed` and `step` (f32), of `stream`, which tells apart what
    one step rounds, and of `index`, a number of the element that no cutting of its bucket changes: a shard of it gets the same bits
    (runtime/Format/StochasticRounding.h). What is not finite stays what it is.
    (C1) x is f32, index i64, seed and step f32. (C2) the result is bf16. All have one shape.
  }];
  let arguments = (ins Graph_AnyTensor:$x, Graph_AnyTensor:$index, Graph_AnyTensor:$seed, Graph_AnyTensor:$step, I64Attr:$stream);
  let results = (outs Graph_AnyTensor:$y);
  let assemblyFormat = "$x `,` $index `,` $seed `,` $step `stream` $stream attr-dict `:` type($x) `,` type($index) `,` type($seed) `->` type($y)";
  let hasVerifier = 1;
}

def Graph_RandomBitsOp : Graph_Op<"random_bits", [Elementwise, SameOperandsAndResultShape, AllTypesMatch<["row", "column", "first"]>, AllTypesMatch<["seed", "step"]>, Mixed]> {
  let summary = "31 random bits for each place: a number from 0 to 2^31 - 1.";
  let description = [{
    A hash of the bit patterns of `seed` and `step` (f32), of `stream`, which tells apart who draws, and of the place
    (first + row) * columns + column (runtime/Format/StochasticRounding.h, maskBits): the same wherever and in whatever order it
    is computed. All of it stands in one op, so that nothing of it is ever kept.
    (C1) row, column and first are i64, seed and step f32, the result i32.
  }];
  let arguments = (ins Graph_AnyTensor:$row, Graph_AnyTensor:$column, Graph_AnyTensor:$first, Graph_AnyTensor:$seed, Graph_AnyTensor:$step,
                   I64Attr:$columns, I64Attr:$stream);
  let results = (outs Graph_AnyTensor:$y);
  let assemblyFormat = [{
    $row `,` $column `,` $first `,` $seed `,` $step `columns` $columns `stream` $stream attr-dict `:` type($row) `,` type($seed) `->` type($y)
  }];
  let hasVerifier = 1;
}

def Graph_DropoutOp : Graph_Op<"dropout", [Elementwise, SameOperandsAndResultType, Differentiable, Costed]> {
  let summary = "Where a step of training drops elements of x at random; in every other function x itself.";
  let description = [{
        %y = graph.dropout %x {module = "model.layers.0.mlp.up_proj", probability = 5.000000e-02} : tensor<16x64xf32>

    Pass `ztc-expand-dropout` makes of it, in @microstep, zero with the given probability and x / (1 - probability) else, and x anywhere
    else; no later phase has it. What is dropped depends on the run's seed, the step, `module`, the row's place in the global batch and the
    column. A cotangent goes through the same mask.
    (C1) x is a float tensor of rank 2: rows of the micro-batch, columns. (C2) 0 < probability < 1.
  }];
  let arguments = (ins Graph_AnyTensor:$x, StrAttr:$module, F64Attr:$probability);
  let results = (outs Graph_AnyTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($y)";
  let hasVerifier = 1;
}

def Graph_JoinMasterOp : Graph_Op<"join_master", [Elementwise, SameOperandsAndResultShape]> {
  let summary = "The f32 value of which `parameter` is the upper half and `remainder` the lower, a signed one.";
  let description = [{
    bits(master) = (bits(parameter) << 16) + remainder, as integers.
    (C1) parameter is bf16, remainder i16, the result f32, of one shape.
  }];
  let arguments = (ins Graph_AnyTensor:$parameter, Graph_AnyTensor:$remainder);
  let results = (outs Graph_AnyTensor:$master);
  let assemblyFormat = "$parameter `,` $remainder attr-dict `:` type($parameter) `,` type($remainder) `->` type($master)";
  let hasVerifier = 1;
}

def Graph_SplitMasterOp : Graph_Op<"split_master", [Elementwise, SameOperandsAndResultShape]> {
  let summary = "An f32 value as a bf16, rounded half away from zero, and the signed 16 bits that lead back to it.";
  let description = [{
    bits(parameter) = (bits(master) + 0x8000) >> 16; remainder = the low half of bits(master), as a signed number.
    join_master gives back every bit: integers know neither overflow nor denormals.
    (C1) master is f32, the results bf16 and i16, of one shape.
  }];
  let arguments = (ins Graph_AnyTensor:$master);
  let results = (outs Graph_AnyTensor:$parameter, Graph_AnyTensor:$remainder);
  let assemblyFormat = "$master attr-dict `:` type($master) `->` type($parameter) `,` type($remainder)";
  let hasVerifier = 1;
}
#endif
