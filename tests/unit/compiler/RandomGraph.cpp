#include "tests/unit/compiler/RandomGraph.h"
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <random>
#include <vector>

namespace ztc::test {
namespace {

using Shape = std::vector<int64_t>;

struct Value {
  std::string name;
  Shape shape;
};

int64_t count(const Shape &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
}

class Generator {
public:
  explicit Generator(uint64_t seed) : random_(seed * 7919 + 17) {}

  std::string run() {
    batch_ = pick({1, 1, 2, 3});
    seq_ = pick({1, 2, 3, 5, 8, 17});
    vocabulary_ = pick({1, 2, 3, 7, 16, 17, 50, 97});
    width_ = pick({1, 2, 3, 4, 5, 8, 16, 17, 24, 33});
    rows_ = batch_ * seq_;
    Value table = parameter({vocabulary_, width_}, "embed");
    std::string flat = emit({rows_}, "i32", "graph.reshape %tokens", type({batch_, seq_}, "i32"));
    Value x = value({rows_, width_}, fmt::format("graph.embedding {}, {}", table.name, flat),
                    type(table.shape) + ", " + type({rows_}, "i32"));
    tokens_ = flat;
    values_ = {x};
    const int64_t length = pick({1, 2, 4, 6, 9, 14});
    for (int64_t i = 0; i < length; ++i)
      step();
    finish();
    return fmt::format(
        "module attributes {{graph.model = \"random\", graph.batch = {} : i64, graph.seq = {} : i64, "
        "graph.vocabulary = {} : i64, graph.layers = 1 : i64}} {{\n  func.func @forward(%tokens: {} "
        "{{graph.role = #graph.role<tokens>}}{})\n      -> ({} {{graph.result = #graph.result<logits>}}) "
        "attributes {{graph.entry = #graph.entry<forward>}} {{\n{}    return {} : "
        "{}\n  }}\n}}\n",
        batch_, seq_, vocabulary_, type({batch_, seq_}, "i32"), parameters_, type({batch_, seq_, vocabulary_}), body_,
        logits_, type({batch_, seq_, vocabulary_}));
  }

private:
  int64_t below(int64_t limit) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit)); }
  int64_t pick(std::vector<int64_t> from) { return from[below(from.size())]; }
  template <size_t N> const char *pickText(const std::array<const char *, N> &from) { return from[below(N)]; }

  static std::string type(const Shape &shape, const std::string &element = "f32") {
    return fmt::format("tensor<{}{}{}>", fmt::join(shape, "x"), shape.empty() ? "" : "x", element);
  }

  /// `%n = op : from [-> type]`; returns the name.
  std::string emit(const Shape &shape, const std::string &element, const std::string &op, const std::string &from) {
    std::string name = fmt::format("%v{}", next_++);
    body_ += fmt::format("    {} = {} : {}{} loc(\"model.layers.0.m\")\n", name, op, from,
                         from.empty() ? type(shape, element) : " -> " + type(shape, element));
    return name;
  }
  Value value(const Shape &shape, const std::string &op, const std::string &from = "") {
    return {emit(shape, "f32", op, from), shape};
  }
  Value parameter(const Shape &shape, const std::string &kind) {
    std::string name = fmt::format("%p{}", next_++);
    parameters_ += fmt::format(",\n      {}: {} {{graph.role = #graph.role<parameter>, graph.layer = 0 : i64, "
                               "graph.name = \"layers.0.{}{}.weight\"}}",
                               name, type(shape), kind, next_);
    return {name, shape};
  }
  Value constant(const Shape &shape, double number) {
    std::string name = fmt::format("%v{}", next_++);
    body_ += fmt::format("    {} = graph.constant dense<{:e}> : {}\n", name, number, type(shape));
    return {name, shape};
  }

  Value unary(const Value &x, const std::string &op) { return value(x.shape, "graph." + op + " " + x.name); }
  Value binary(const std::string &op, const Value &a, const Value &b) {
    return value(a.shape, fmt::format("graph.{} {}, {}", op, a.name, b.name));
  }
  Value to(const std::string &op, const Value &x, const Shape &shape) {
    return value(shape, "graph." + op + " " + x.name, type(x.shape));
  }
  Value reshape(const Value &x, const Shape &shape) { return x.shape == shape ? x : to("reshape", x, shape); }
  Value broadcast(const Value &x, const Shape &shape) { return x.shape == shape ? x : to("broadcast", x, shape); }

  /// Another shape of `elements` elements.
  Shape factorise(int64_t elements) {
    Shape shape;
    while (elements > 1 && shape.size() < 5) {
      std::vector<int64_t> divisors;
      for (int64_t d = 1; d <= elements; ++d)
        if (elements % d == 0)
          divisors.push_back(d);
      shape.push_back(divisors[below(divisors.size())]);
      elements /= shape.back();
    }
    if (elements > 1 || below(4) == 0)
      shape.insert(shape.begin() + below(shape.size() + 1), elements);
    return shape;
  }

  Value any() { return values_[below(values_.size())]; }
  void keep(Value x) {
    if (count(x.shape) <= 20000)
      values_.push_back(std::move(x));
  }

  void step() {
    Value x = any();
    switch (below(17)) {
    case 0:
    case 1:
      return keep(unaryStep(x));
    case 2:
      return keep(binaryStep(x));
    case 3:
      return keep(reduceStep(x));
    case 4:
      return keep(transposeStep(x));
    case 5:
      return keep(reshape(x, factorise(count(x.shape))));
    case 6:
      return keep(sliceStep(x));
    case 7:
      return keep(padStep(x));
    case 8:
      return keep(concatStep(x));
    case 9:
      return keep(linearStep(x));
    case 10:
      return keep(selfProduct(x));
    case 11:
      return keep(rowsStep(x));
    case 12:
      return keep(selectStep(x));
    case 13:
      return keep(lookupStep(x));
    case 14:
      return keep(scatterStep(x));
    case 15:
      return keep(expertsStep(x));
    default:
      return keep(dataStep(x));
    }
  }

  Value unaryStep(const Value &x) {
    static constexpr std::array<const char *, 9> smooth = {"tanh", "sigmoid",        "neg", "sin", "cos", "erf", "atan",
                                                           "abs",  "round \"even\","};
    switch (below(6)) {
    case 0: {
      static constexpr std::array<const char *, 2> growing = {"exp", "expm1"};
      return unary(unary(x, "tanh"), pickText(growing));
    }
    case 1: {
      static constexpr std::array<const char *, 6> positive = {"log", "sqrt", "rsqrt", "reciprocal", "log1p", "power"};
      Value y = binary("add", unary(x, "abs"), constant(x.shape, 0.5));
      std::string op = pickText(positive);
      return op == "power" ? value(y.shape, "graph.power " + y.name + ", 1.5") : unary(y, op);
    }
    default: {
      Value y = unary(x, pickText(smooth));
      return y;
    }
    }
  }

  Value binaryStep(const Value &x) {
    static constexpr std::array<const char *, 6> ops = {"add", "sub", "mul", "maximum", "minimum", "div"};
    std::string op = pickText(ops);
    Value other = any();
    if (count(other.shape) == count(x.shape)) {
      other = reshape(other, x.shape);
    } else {
      // A parameter of the last dimensions, some of them 1.
      Shape shape(x.shape.begin() + below(x.shape.size() + 1), x.shape.end());
      for (int64_t &size : shape)
        if (below(3) == 0)
          size = 1;
      other = broadcast(parameter(shape, "bias"), x.shape);
    }
    if (op == "div")
      other = binary("add", unary(other, "abs"), constant(x.shape, 1.0));
    return binary(op, x, op == "mul" ? unary(other, "tanh") : other);
  }

  Value reduceStep(const Value &x) {
    std::vector<int64_t> axes;
    Shape shape = x.shape;
    for (size_t i = 0; i < shape.size(); ++i)
      if (below(2)) {
        axes.push_back(i);
        shape[i] = 1;
      }
    bool sum = below(2);
    double share = double(count(shape)) / double(count(x.shape));
    Value y =
        value(shape, fmt::format("graph.{} {}, [{}]", sum ? "reduce_sum" : "reduce_max", x.name, fmt::join(axes, ", ")),
              type(x.shape));
    if (sum)
      y = binary("mul", y, constant(shape, share));
    return below(2) ? binary("sub", x, broadcast(y, x.shape)) : y;
  }

  Value transposeStep(const Value &x) {
    std::vector<int64_t> permutation(x.shape.size());
    std::iota(permutation.begin(), permutation.end(), 0);
    for (size_t i = permutation.size(); i > 1; --i)
      std::swap(permutation[i - 1], permutation[below(i)]);
    Shape shape;
    for (int64_t from : permutation)
      shape.push_back(x.shape[from]);
    return value(shape, fmt::format("graph.transpose {}, [{}]", x.name, fmt::join(permutation, ", ")), type(x.shape));
  }

  Value sliceStep(const Value &x) {
    Shape offsets, shape;
    for (int64_t size : x.shape) {
      shape.push_back(1 + below(size));
      offsets.push_back(below(size - shape.back() + 1));
    }
    return value(shape, fmt::format("graph.slice {}, [{}]", x.name, fmt::join(offsets, ", ")), type(x.shape));
  }

  Value padStep(const Value &x) {
    Shape low, shape;
    for (int64_t size : x.shape) {
      low.push_back(below(3));
      shape.push_back(size + low.back() + below(2));
    }
    return value(shape, fmt::format("graph.pad {}, [{}]", x.name, fmt::join(low, ", ")), type(x.shape));
  }

  Value concatStep(const Value &x) {
    if (x.shape.empty())
      return x;
    int64_t axis = below(x.shape.size());
    Value other = below(2) ? x
                           : parameter(
                                 [&] {
                                   Shape shape = x.shape;
                                   shape[axis] = 1 + below(5);
                                   return shape;
                                 }(),
                                 "part");
    Shape shape = x.shape;
    shape[axis] += other.shape[axis];
    return value(shape, fmt::format("graph.concat {}, {} axis {}", x.name, other.name, axis),
                 type(x.shape) + ", " + type(other.shape));
  }

  Value linearStep(const Value &x) {
    int64_t depth = x.shape.empty() ? 1 : x.shape.back(), out = pick({1, 2, 3, 5, 8, 16, 17, 19});
    Value flat = reshape(x, {count(x.shape) / depth, depth});
    bool transposed = below(2);
    Value weight = parameter(transposed ? Shape{out, depth} : Shape{depth, out}, "linear");
    Value y = value({flat.shape[0], out},
                    fmt::format("graph.matmul {}, {}{}", flat.name, weight.name, transposed ? " {transpose_b}" : ""),
                    type(flat.shape) + ", " + type(weight.shape));
    Shape shape = x.shape;
    if (shape.empty())
      return reshape(y, {out});
    shape.back() = out;
    return reshape(y, shape);
  }

  /// x x^T / depth over the last two dimensions, or x^T x.
  Value selfProduct(Value x) {
    if (x.shape.size() < 2)
      x = reshape(x, {1, count(x.shape)});
    bool inner = below(2);
    int64_t rows = x.shape[x.shape.size() - 2], columns = x.shape.back(), size = inner ? rows : columns;
    Shape shape = x.shape;
    shape[shape.size() - 2] = shape.back() = size;
    if (count(shape) > 20000)
      return x;
    Value y = value(shape, fmt::format("graph.matmul {0}, {0} {{{1}}}", x.name, inner ? "transpose_b" : "transpose_a"),
                    type(x.shape) + ", " + type(x.shape));
    return binary("mul", y, constant(shape, 1.0 / double(inner ? columns : rows)));
  }

  Value rowsStep(Value x) {
    if (x.shape.empty())
      x = reshape(x, {1});
    if (below(2))
      return unary(x, "softmax");
    Value weight = parameter({x.shape.back()}, "norm");
    std::string name = fmt::format("%v{}", next_++);
    body_ += fmt::format("    {} = graph.rms_norm {}, {}, 1.0e-1 : {}, {}\n", name, x.name, weight.name, type(x.shape),
                         type(weight.shape));
    return {name, x.shape};
  }

  Value selectStep(const Value &x) {
    std::string condition = emit(
        x.shape, "i1", fmt::format("graph.compare gt, {}, {}", x.name, constant(x.shape, 0.1).name), type(x.shape));
    Value other = unary(x, "sin");
    std::string name = fmt::format("%v{}", next_++);
    body_ += fmt::format("    {} = graph.select {}, {}, {} : {}, {}\n", name, condition, x.name, other.name,
                         type(x.shape, "i1"), type(x.shape));
    return {name, x.shape};
  }

  std::string integers(const Shape &shape, int64_t number) {
    std::string name = fmt::format("%v{}", next_++);
    body_ += fmt::format("    {} = graph.constant dense<{}> : {}\n", name, number, type(shape, "i32"));
    return name;
  }
  std::string tokensModulo(int64_t limit) {
    return emit({rows_}, "i32", fmt::format("graph.remainder {}, {}", tokens_, integers({rows_}, limit)), "");
  }

  Value lookupStep(const Value &x) {
    Value table =
        x.shape.size() == 2
            ? x
            : reshape(x, {x.shape.empty() ? 1 : x.shape[0], count(x.shape) / (x.shape.empty() ? 1 : x.shape[0])});
    std::string indices = tokensModulo(table.shape[0]);
    std::string indexType = "i32";
    if (below(2)) {
      indices = emit({rows_}, "i64", "graph.cast " + indices, type({rows_}, "i32"));
      indexType = "i64";
    }
    return value({rows_, table.shape[1]}, fmt::format("graph.embedding {}, {}", table.name, indices),
                 type(table.shape) + ", " + type({rows_}, indexType));
  }

  Value scatterStep(const Value &x) {
    if (count(x.shape) % rows_)
      return x;
    Value rows = reshape(x, {rows_, count(x.shape) / rows_});
    int64_t size = pick({1, 2, 5, 9});
    return value({size, rows.shape[1]}, fmt::format("graph.embedding_grad {}, {}", tokensModulo(size), rows.name),
                 type({rows_}, "i32") + ", " + type(rows.shape));
  }

  /// Rows go to experts that the tokens choose, through one of the experts' matrices or two, and back.
  Value expertsStep(const Value &x) {
    if (count(x.shape) % rows_)
      return x;
    const Value flat = reshape(x, {rows_, count(x.shape) / rows_});
    const int64_t experts = pick({1, 2, 4, 7}), choices = pick({1, 2, 3}), all = rows_ * choices;
    const Shape table{rows_, choices};
    const std::string column = emit({rows_, 1}, "i32", "graph.reshape " + tokens_, type({rows_}, "i32"));
    std::string chosen = emit(table, "i32", "graph.broadcast " + column, type({rows_, 1}, "i32"));
    chosen = emit(table, "i32", fmt::format("graph.add {}, {}", chosen, emit(table, "i32", "graph.iota 1", "")), "");
    if (below(2)) // else all choices beyond the last expert are its
      chosen = emit(table, "i32", fmt::format("graph.remainder {}, {}", chosen, integers(table, experts)), "");
    const std::string routing = fmt::format("%v{}", next_++);
    const std::string order = type({all}, "i32"), places = type(table, "i32"), starts = type({experts + 1}, "i32");
    body_ +=
        fmt::format("    {}:3 = graph.route {} : {} -> {}, {}, {}\n", routing, chosen, places, order, places, starts);
    const auto move = [&](const std::string &op, const Value &from, const Shape &shape) {
      return value(shape, fmt::format("graph.{} {} by {}#0, {}#1", op, from.name, routing, routing),
                   fmt::format("{}, {}, {}", type(from.shape), order, places));
    };
    Value rows = move("dispatch", flat, {all, flat.shape[1]});
    for (int64_t products = 1 + below(2); products > 0; --products) {
      const int64_t depth = rows.shape[1], out = pick({1, 2, 3, 8, 17});
      const bool transposed = below(2);
      const Value stack = parameter(transposed ? Shape{experts, out, depth} : Shape{experts, depth, out}, "experts");
      rows = value({all, out},
                   fmt::format("graph.grouped_matmul {}, {} rows {}#2{}", rows.name, stack.name, routing,
                               transposed ? " {transpose_b}" : ""),
                   fmt::format("{}, {}, {}", type(rows.shape), type(stack.shape), starts));
    }
    return move("combine", rows, {rows_, rows.shape[1]});
  }

  /// A mask and positions computed from the tokens.
  Value dataStep(const Value &x) {
    if (count(x.shape) % rows_)
      return x;
    Shape square{rows_, rows_};
    std::string column = emit({rows_, 1}, "i32", "graph.reshape " + tokens_, type({rows_}, "i32"));
    std::string rows = emit(square, "i32", "graph.broadcast " + column, type({rows_, 1}, "i32"));
    std::string numbers = emit(square, "i32", "graph.iota 1", "");
    std::string later = emit(square, "i1", fmt::format("graph.compare le, {}, {}", numbers, rows), type(square, "i32"));
    std::string counts = emit(square, "i32", "graph.cast " + later, type(square, "i1"));
    std::string sums = emit({rows_, 1}, "i32", fmt::format("graph.reduce_sum {}, [1]", counts), type(square, "i32"));
    Value real = value({rows_, 1}, "graph.cast " + sums, type({rows_, 1}, "i32"));
    real = unary(real, "sin");
    Value flat = reshape(x, {rows_, count(x.shape) / rows_});
    return reshape(binary("mul", flat, broadcast(real, flat.shape)), x.shape);
  }

  void finish() {
    // All values have a part in the hidden state.
    Value hidden = {};
    for (const Value &x : values_) {
      if (below(3) == 0 && &x != &values_.back())
        continue;
      Value flat = reshape(unary(x, "tanh"), {1, count(x.shape)});
      Value weight = parameter({count(x.shape), width_}, "mix");
      Value row = value({1, width_}, fmt::format("graph.matmul {}, {}", flat.name, weight.name),
                        type(flat.shape) + ", " + type(weight.shape));
      row = binary("mul", row, constant({1, width_}, 1.0 / std::sqrt(double(count(x.shape)))));
      Value all = broadcast(row, {rows_, width_});
      hidden = hidden.name.empty() ? all : binary("add", hidden, all);
    }
    Value mixed = binary("mul", hidden, unary(values_.front(), "sigmoid"));
    mixed = binary("add", mixed, values_.front());
    Value head = below(2) ? Value{"%p0", {vocabulary_, width_}} : parameter({vocabulary_, width_}, "lm_head");
    Value product =
        value({rows_, vocabulary_}, fmt::format("graph.matmul {}, {} {{transpose_b}}", mixed.name, head.name),
              type(mixed.shape) + ", " + type(head.shape));
    switch (below(5)) {
    case 0:
      product = binary("mul", product, constant(product.shape, 0.7));
      break;
    case 1:
      product = binary("mul", unary(binary("div", product, constant(product.shape, 3.0)), "tanh"),
                       constant(product.shape, 3.0));
      break;
    case 2:
      product = binary("add", product, broadcast(parameter({vocabulary_}, "head_bias"), product.shape));
      break;
    default:
      break;
    }
    logits_ = reshape(product, {batch_, seq_, vocabulary_}).name;
  }

  std::mt19937_64 random_;
  int64_t batch_ = 0, seq_ = 0, vocabulary_ = 0, width_ = 0, rows_ = 0;
  unsigned next_ = 0;
  std::string parameters_, body_, logits_, tokens_;
  std::vector<Value> values_;
};

} // namespace

std::string randomModel(uint64_t seed) {
  return Generator(seed).run();
}

} // namespace ztc::test
