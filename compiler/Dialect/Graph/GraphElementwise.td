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
def Graph_DivOp : Graph_BinaryOp<"div", "g / b", "-(g * y / b)">;
// At a tie the whole cotangent goes to `a`.
def Graph_MaximumOp : Graph_BinaryOp<"maximum", "select(a >= b, g, zeroLike(g))", "select(a >= b, zeroLike(g), g)">;
def Graph_MinimumOp : Graph_BinaryOp<"minimum", "select(a <= b, g, zeroLike(g))", "select(a <= b, zeroLike(g), g)">;

def Graph_NegOp : Graph_UnaryOp<"neg", "-g">;
def Graph_AbsOp : Graph_UnaryOp<"abs", "select(x >= zeroLike(x), g, -g)">;
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
  let description = [{ (C1) `predicate` is one of eq, ne, lt, le, gt, ge. (C2) the result is i1 of the operands' shape. }];
  let arguments = (ins Graph_AnyTensor:$a, Graph_AnyTensor:$b, StrAttr:$predicate);
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
  let summary = "and, or, xor on i1.";
  let description = [{ (C1) `function` is one of and, or, xor. (C2) the element type is i1. }];
  let arguments = (ins Graph_AnyTensor:$a, Graph_AnyTensor:$b, StrAttr:$function);
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
#endif
