// The rows of library calls: see runtime/Format/ServiceKernels.md. One function a kernel, emitted once.
#include "compiler/Codegen/KernelState.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <limits>

using namespace mlir;

namespace ztc {
using namespace codegen;

namespace {
using Values = SmallVector<Value>;

/// A kernel over rows [begin, end) whose columns are known at run time.
class RowKernel {
public:
  RowKernel(KernelModule::State &state, StringRef name) : b(state.builder()), function_(state.createKernel(b, name)) {}

  Value buffer(unsigned number) {
    Type pointer = LLVM::LLVMPointerType::get(b.getContext());
    Value address = LLVM::GEPOp::create(b, pointer, pointer, function_.getArgument(0),
                                        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(number)});
    return LLVM::LoadOp::create(b, pointer, address, 8);
  }
  Value scalar(unsigned number) {
    return b.load(b.address(function_.getArgument(1), b.getI64Type(), b.i64(number)), b.getI64Type(), 1);
  }
  Value at(Value base, Value index) { return b.address(base, b.getF32Type(), index); }
  /// A scalar that holds the bits of a float.
  Value realScalar(unsigned number) {
    return b.bitcast(arith::TruncIOp::create(b, b.getI32Type(), scalar(number)), b.getF32Type());
  }
  Value loadScalar(Value base, Value index) { return rounded(b.load(at(base, index), b.getF32Type(), 1), loadsAs); }

  /// The loop over rows; closes the function.
  void forRows(llvm::function_ref<void(Value row)> body) {
    auto loop = scf::ForOp::create(b, function_.getArgument(2), function_.getArgument(3), b.i64(1));
    b.setInsertionPoint(loop.getBody()->getTerminator());
    body(loop.getInductionVar());
    KernelModule::State::finishKernel(b, function_);
  }

  /// A vector's length of rows at a time, [begin, end), the last time fewer; closes the function.
  void forRowBlocks(llvm::function_ref<void(Value begin, Value end)> body) {
    Value rows = function_.getArgument(3);
    auto loop = scf::ForOp::create(b, function_.getArgument(2), rows, b.i64(kChunk));
    b.setInsertionPoint(loop.getBody()->getTerminator());
    body(loop.getInductionVar(), b.minimum(b.add(loop.getInductionVar(), b.i64(kChunk)), rows));
    KernelModule::State::finishKernel(b, function_);
  }
  /// A float for each row of a block. In the function's first block.
  Value rowValues(double initial) {
    Value values = LLVM::AllocaOp::create(b, LLVM::LLVMPointerType::get(b.getContext()), b.getF32Type(), b.i64(kChunk),
                                          /*alignment=*/64);
    b.store(vector(initial), values);
    return values;
  }
  /// A block's rows of `values`, from `begin` on.
  void storeRows(Value rows, Value values, Value begin, Value end) {
    b.maskedStore(rows, at(values, begin), maskOf(b.i64(0), Value(), b.sub(end, begin), /*fromZero=*/true));
  }

  /// A loop with carried values, which it returns.
  Values forRange(Value begin, Value end, int64_t step, Values carried,
                  llvm::function_ref<void(Value, Values &)> body) {
    return b.forRange(begin, end, step, std::move(carried), body);
  }

  /// The values that one of two branches makes of `values`.
  void choose(Value condition, Values &values, llvm::function_ref<void(Values &)> then,
              llvm::function_ref<void(Values &)> otherwise) {
    auto branch = scf::IfOp::create(b, ValueRange(values).getTypes(), condition, /*addThenBlock=*/true,
                                    /*addElseBlock=*/true);
    OpBuilder::InsertionGuard guard(b);
    for (auto [block, fill] : {std::pair(branch.thenBlock(), then), std::pair(branch.elseBlock(), otherwise)}) {
      Values inner = values;
      b.setInsertionPointToStart(block);
      fill(inner);
      scf::YieldOp::create(b, inner);
    }
    values.assign(branch.getResults().begin(), branch.getResults().end());
  }

  /// Sixteen columns from `column` on; where `mask` is null, all of them count.
  struct Chunk {
    Value column, mask;
    int64_t quarter;
  };

  /// The columns [low, high) in chunks that keep column c in virtual lane c mod 64; `fromZero`: low is 0. Where rows
  /// are `padded` chunks that hold no such column are left out, all others in a turn that is not whole are masked. Else
  /// only those of the last 64 columns are that do not count as a whole: a masked store costs some ten of the other
  /// kind with AVX2.
  Values forColumns(Value low, Value high, bool fromZero, Values carried,
                    llvm::function_ref<void(const Chunk &, Values &)> body) {
    constexpr int64_t lanes = kVirtualLanes;
    auto turn = [&](llvm::function_ref<void(const Chunk &, Values &)> each) {
      return [this, each](Value base, Values &values) {
        for (int64_t quarter = 0; quarter < lanes / kChunk; ++quarter)
          each({b.add(base, b.i64(quarter * kChunk)), Value(), quarter}, values);
      };
    };
    auto masked = [&](Chunk chunk, Values &values) {
      chunk.mask = maskOf(chunk.column, low, high, fromZero);
      body(chunk, values);
    };
    auto begun = [&](const Chunk &chunk, Values &values) {
      Value begins = b.compare(arith::CmpIPredicate::slt, chunk.column, high);
      choose(begins, values, [&](Values &inner) { masked(chunk, inner); }, [](Values &) {});
    };
    auto last = [&](const Chunk &chunk, Values &values) {
      if (padded)
        return begun(chunk, values);
      Value whole = b.compare(arith::CmpIPredicate::sle, b.add(chunk.column, b.i64(kChunk)), high);
      auto unmasked = [&](Values &inner) { body(chunk, inner); };
      choose(whole, values, unmasked, [&](Values &inner) { begun(chunk, inner); });
    };
    Value up = arith::AndIOp::create(b, b.add(low, b.i64(lanes - 1)), b.i64(-lanes));
    if (!fromZero) {
      // One turn where `low` is inside a run of 64 columns, none where it begins one.
      Value down = arith::AndIOp::create(b, low, b.i64(-lanes));
      carried =
          padded ? forRange(down, up, lanes, carried, turn(begun)) : forRange(down, up, lanes, carried, turn(masked));
    }
    Value whole = arith::AndIOp::create(b, high, b.i64(-lanes));
    carried = forRange(up, whole, lanes, carried, turn(body));
    return forRange(b.maximum(up, whole), high, lanes, carried, turn(last));
  }

  Value load(const Chunk &chunk, Value row, double other) {
    if (!chunk.mask)
      return rounded(b.load(at(row, chunk.column), b.getF32Type(), kChunk), loadsAs);
    if (padded)
      return only(chunk, b.load(at(row, chunk.column), b.getF32Type(), kChunk), other);
    return rounded(b.maskedLoad(at(row, chunk.column), chunk.mask, vector(other)), loadsAs);
  }
  void store(const Chunk &chunk, Value value, Value row) {
    if (!chunk.mask || padded)
      b.store(only(chunk, value, 0.0), at(row, chunk.column));
    else
      b.maskedStore(value, at(row, chunk.column), chunk.mask);
  }
  /// Masked lanes of `value` replaced by what a sum or maximum ignores.
  Value only(const Chunk &chunk, Value value, double other) {
    return chunk.mask ? b.select(chunk.mask, value, vector(other)) : value;
  }

  Value vector(double value) { return b.real(VectorType::get({kChunk}, b.getF32Type()), value); }
  Value splat(Value scalar) { return b.splat(scalar, kChunk); }
  Values lanesOf(double value) { return Values(kVirtualLanes / kChunk, vector(value)); }
  Value sum(const Values &lanes) {
    return b.foldLanes(lanes, [&](Value x, Value y) { return b.add(x, y); });
  }
  Value maximum(const Values &lanes) {
    return b.foldLanes(lanes, [&](Value x, Value y) { return b.maximum(x, y); });
  }

  /// The maximum of row[low, high).
  Value rowMaximum(Value row, Value low, Value high, bool fromZero) {
    constexpr double lowest = -std::numeric_limits<double>::infinity();
    return maximum(forColumns(low, high, fromZero, lanesOf(lowest), [&](const Chunk &chunk, Values &lanes) {
      lanes[chunk.quarter] = b.maximum(lanes[chunk.quarter], load(chunk, row, lowest));
    }));
  }

  /// The same of cap * tanh(row), which takes the row's place.
  Value cappedMaximum(Value row, Value low, Value high, bool fromZero, Value cap) {
    constexpr double lowest = -std::numeric_limits<double>::infinity();
    return maximum(forColumns(low, high, fromZero, lanesOf(lowest), [&](const Chunk &chunk, Values &lanes) {
      Value score = b.mul(b.tanh(load(chunk, row, 0.0)), cap);
      store(chunk, score, row);
      lanes[chunk.quarter] = b.maximum(lanes[chunk.quarter], only(chunk, score, lowest));
    }));
  }

  /// The sum of exp(row - maximum), stored in place on request.
  Value rowExponentials(Value row, Value low, Value high, bool fromZero, Value maximum, bool keep) {
    return sum(forColumns(low, high, fromZero, lanesOf(0.0), [&](const Chunk &chunk, Values &lanes) {
      Value e = b.exp(b.sub(load(chunk, row, 0.0), splat(maximum)));
      if (keep)
        store(chunk, e, row);
      lanes[chunk.quarter] = b.add(lanes[chunk.quarter], only(chunk, e, 0.0));
    }));
  }

  /// `value` as a float of a narrow type holds it.
  Value rounded(Value value, Type narrow) { return narrow ? b.convertReal(value, narrow) : value; }

  void zero(Value row, Value begin, Value end) {
    // The whole chunks count from `begin`, wherever it stands.
    Value length = b.maximum(b.sub(end, begin), b.i64(0));
    Value whole = b.add(begin, arith::AndIOp::create(b, length, b.i64(-kChunk)));
    forRange(begin, whole, kChunk, {}, [&](Value column, Values &) { b.store(vector(0.0), at(row, column)); });
    forRange(whole, end, 1, {}, [&](Value column, Values &) { b.store(b.real(b.getF32Type(), 0.0), at(row, column)); });
  }

  /// The same in a padded row outside of [low, high): what its chunks hold beside them is zero already.
  void zeroOutside(Value row, Value low, Value high, Value columns) {
    auto down = [&](Value column) -> Value { return arith::AndIOp::create(b, column, b.i64(-kChunk)); };
    auto up = [&](Value column) { return down(b.add(column, b.i64(kChunk - 1))); };
    zero(row, b.i64(0), down(low));
    zero(row, up(high), up(columns));
  }

  KernelBuilder b;
  /// Rows are scratch in which all chunks of 16 are whole, and columns that do not count may become zero.
  bool padded = false;
  /// Where rows that are not padded hold f32 sums of values that are of a narrow type: that type, to which each is
  /// rounded when it is read.
  Type loadsAs;

private:
  Value maskOf(Value column, Value low, Value high, bool fromZero) {
    auto narrow = [&](Value x) -> Value { return arith::TruncIOp::create(b, b.getI32Type(), x); };
    auto type = VectorType::get({kChunk}, b.getI32Type());
    SmallVector<int32_t> steps = llvm::to_vector(llvm::seq<int32_t>(0, kChunk));
    Value offsets = arith::ConstantOp::create(b, type, DenseElementsAttr::get(type, ArrayRef<int32_t>(steps)));
    Value columns = b.add(splat(narrow(column)), offsets);
    Value mask = b.compare(arith::CmpIPredicate::slt, columns, splat(narrow(high)));
    if (fromZero)
      return mask;
    return arith::AndIOp::create(b, mask, b.compare(arith::CmpIPredicate::sge, columns, splat(narrow(low))));
  }

  func::FuncOp function_;
};

/// The columns that row `row` of attention scores sees.
struct Visible {
  Value low, high;
  Visible(RowKernel &kernel, Value row, Value first, Value columns, Value window, bool causal) {
    KernelBuilder &b = kernel.b;
    low = b.i64(0);
    high = columns;
    if (!causal)
      return;
    Value next = b.add(b.add(first, row), b.i64(1)); // one past the row's own position
    high = b.minimum(next, columns);
    Value windowed = b.compare(arith::CmpIPredicate::sgt, window, b.i64(0));
    low = b.select(windowed, b.minimum(b.maximum(b.sub(next, window), low), high), low);
  }
};
} // namespace

/// The narrow type that a kernel rounds through, with the suffix of its name; null and "" for f32.
static std::pair<Type, StringRef> narrowType(KernelModule::State &state, Type type) {
  return {isNarrow(type) ? state.builder().element(type) : Type(), typeSuffix(type)};
}

static std::string attentionName(StringRef name, bool causal, bool softcapped, StringRef suffix) {
  return (name + (causal ? "_causal" : "") + (softcapped ? "_softcap" : "") + suffix).str();
}

/// A service kernel by its key; emits it on first use.
static KernelDescription service(KernelModule::State &state, const Twine &key, StringRef name, ArrayRef<bool> written,
                                 llvm::function_ref<void(RowKernel &)> emit) {
  auto [d, isNew] = state.describeService(key.str(), name, written);
  if (!isNew || !state.hostModule)
    return d;
  RowKernel kernel(state, d.name);
  emit(kernel);
  return d;
}

KernelDescription KernelModule::addAttentionSoftmax(bool causal, Type type, bool softcapped) {
  auto [narrow, suffix] = narrowType(*state_, type);
  std::string name = attentionName("attention_softmax", causal, softcapped, suffix);
  return service(*state_, name, name, {true, true}, [&](RowKernel &k) {
    KernelBuilder &b = k.b;
    k.padded = true;
    Value scores = k.buffer(0), lse = k.buffer(1), first = k.scalar(0), ld = k.scalar(1), columns = k.scalar(2),
          window = k.scalar(3), cap = softcapped ? k.splat(k.realScalar(4)) : Value();
    // Pass by pass over a block of rows: what folds the lanes of one row hides behind the next one's columns.
    Value maxima = k.rowValues(0.0), sums = k.rowValues(1.0);
    k.forRowBlocks([&](Value begin, Value end) {
      auto pass = [&](llvm::function_ref<void(Value row, const Visible &, Value index)> body) {
        k.forRange(begin, end, 1, {}, [&](Value r, Values &) {
          body(k.at(scores, b.mul(r, ld)), Visible(k, r, first, columns, window, causal), b.sub(r, begin));
        });
      };
      pass([&](Value row, const Visible &visible, Value index) {
        Value maximum = cap ? k.cappedMaximum(row, visible.low, visible.high, !causal, cap)
                            : k.rowMaximum(row, visible.low, visible.high, !causal);
        b.store(maximum, k.at(maxima, index));
      });
      pass([&](Value row, const Visible &visible, Value index) {
        Value maximum = k.loadScalar(maxima, index);
        b.store(k.rowExponentials(row, visible.low, visible.high, !causal, maximum, /*keep=*/true), k.at(sums, index));
      });
      pass([&](Value row, const Visible &visible, Value index) {
        Value sum = k.splat(k.loadScalar(sums, index));
        k.forColumns(visible.low, visible.high, !causal, {}, [&](const RowKernel::Chunk &chunk, Values &) {
          k.store(chunk, k.rounded(b.div(k.load(chunk, row, 0.0), sum), narrow), row);
        });
        k.zeroOutside(row, visible.low, visible.high, columns);
      });
      auto all = [&](Value values) { return b.load(values, b.getF32Type(), kChunk); };
      k.storeRows(b.add(all(maxima), b.log(all(sums))), lse, begin, end);
    });
  });
}

KernelDescription KernelModule::addAttentionSoftmaxGrad(double scale, bool causal, Type type, bool softcapped) {
  auto [narrow, suffix] = narrowType(*state_, type);
  std::string name = attentionName("attention_softmax_grad", causal, softcapped, suffix);
  std::string key = name + " " + std::to_string(llvm::bit_cast<uint64_t>(scale));
  return service(*state_, key, name, {true, true, false, false}, [&](RowKernel &k) {
    KernelBuilder &b = k.b;
    k.padded = true;
    Value scores = k.buffer(0), dps = k.buffer(1), lse = k.buffer(2), delta = k.buffer(3);
    Value first = k.scalar(0), ld = k.scalar(1), columns = k.scalar(2), window = k.scalar(3),
          cap = softcapped ? k.splat(k.realScalar(4)) : Value();
    k.forRows([&](Value r) {
      Value offset = b.mul(r, ld), row = k.at(scores, offset), dp = k.at(dps, offset);
      Visible visible(k, r, first, columns, window, causal);
      Value rowLse = k.splat(k.loadScalar(lse, r)), rowDelta = k.splat(k.loadScalar(delta, r));
      k.forColumns(visible.low, visible.high, !causal, {}, [&](const RowKernel::Chunk &chunk, Values &) {
        Value score = k.load(chunk, row, 0.0), bent = cap ? b.tanh(score) : Value();
        Value p = b.exp(b.sub(cap ? b.mul(bent, cap) : score, rowLse));
        Value ds = b.mul(b.mul(p, b.sub(k.load(chunk, dp, 0.0), rowDelta)), k.vector(scale));
        if (cap)
          ds = b.mul(ds, b.sub(k.vector(1.0), b.mul(bent, bent)));
        k.store(chunk, k.rounded(p, narrow), row);
        k.store(chunk, k.rounded(ds, narrow), dp);
      });
      for (Value buffer : {row, dp})
        k.zeroOutside(buffer, visible.low, visible.high, columns);
    });
  });
}

KernelDescription KernelModule::addRowDot() {
  return service(*state_, "row_dot", "row_dot", {false, false, true}, [&](RowKernel &k) {
    KernelBuilder &b = k.b;
    Value left = k.buffer(0), right = k.buffer(1), out = k.buffer(2), lda = k.scalar(0), ldb = k.scalar(1),
          count = k.scalar(2);
    k.forRows([&](Value r) {
      Value rowA = k.at(left, b.mul(r, lda)), rowB = k.at(right, b.mul(r, ldb));
      Values lanes = k.forColumns(
          b.i64(0), count, /*fromZero=*/true, k.lanesOf(0.0), [&](const RowKernel::Chunk &chunk, Values &sums) {
            sums[chunk.quarter] = b.add(sums[chunk.quarter], b.mul(k.load(chunk, rowA, 0.0), k.load(chunk, rowB, 0.0)));
          });
      b.store(k.sum(lanes), k.at(out, r));
    });
  });
}

Value codegen::bendLogit(KernelBuilder &b, const LogitForm &form, Value product) {
  Type type = product.getType();
  if (form.scale != 1.0)
    product = b.mul(product, b.real(type, form.scale));
  if (form.softcap == 0.0)
    return product;
  Value cap = b.real(type, form.softcap);
  return b.mul(b.tanh(b.div(product, cap)), cap);
}

Value codegen::slopeAtLogit(KernelBuilder &b, const LogitForm &form, Value logit) {
  Type type = logit.getType();
  Value scale = b.real(type, form.scale);
  if (form.softcap == 0.0)
    return scale;
  Value tanh = b.div(logit, b.real(type, form.softcap));
  return b.mul(b.sub(b.real(type, 1.0), b.mul(tanh, tanh)), scale);
}

std::string codegen::formSuffix(const LogitForm &form) {
  auto bits = [](double value) { return llvm::utohexstr(llvm::bit_cast<uint64_t>(value)); };
  return form.isPlain() ? "" : "_scale_" + bits(form.scale) + "_cap_" + bits(form.softcap);
}

namespace {
Value weighted(KernelBuilder &b, Value number, Value weight) {
  return weight ? b.mul(number, weight) : number;
}

/// A counted row of logits that are not plain products: they are bent in place, and their cotangents are those of the
/// products.
void emitBentRow(RowKernel &k, const LogitForm &form, Value row, Value position, Value columns, Value loss, Value scale,
                 Value weight, Type narrow) {
  KernelBuilder &b = k.b;
  constexpr double lowest = -std::numeric_limits<double>::infinity();
  Value none = b.i64(0), wanted = bendLogit(b, form, k.loadScalar(row, position));
  Values lanes = k.forColumns(none, columns, /*fromZero=*/true, k.lanesOf(lowest),
                              [&](const RowKernel::Chunk &chunk, Values &max) {
                                Value logit = bendLogit(b, form, k.load(chunk, row, 0.0));
                                k.store(chunk, logit, row);
                                max[chunk.quarter] = b.maximum(max[chunk.quarter], k.only(chunk, logit, lowest));
                              });
  k.loadsAs = {};
  Value maximum = k.maximum(lanes);
  Value sum = k.rowExponentials(row, none, columns, /*fromZero=*/true, maximum, /*keep=*/false);
  b.store(weighted(b, b.sub(b.add(maximum, b.log(sum)), wanted), weight), loss);
  if (!scale)
    return;
  auto cotangent = [&](Value logit, Value hit, int64_t count) {
    auto all = [&](Value scalar) { return b.splat(scalar, count); };
    Value p = b.div(b.exp(b.sub(logit, all(maximum))), all(sum));
    Value dlogit = b.mul(hit ? b.sub(p, hit) : p, all(scale));
    return k.rounded(b.mul(dlogit, slopeAtLogit(b, form, logit)), narrow);
  };
  k.forColumns(none, columns, /*fromZero=*/true, {}, [&](const RowKernel::Chunk &chunk, Values &) {
    k.store(chunk, cotangent(k.load(chunk, row, 0.0), Value(), kChunk), row);
  });
  b.store(cotangent(wanted, b.real(b.getF32Type(), 1.0), 1), k.at(row, position));
}
} // namespace

KernelDescription KernelModule::addCrossEntropyRows(bool training, Type type, const LogitForm &form) {
  auto [narrow, suffix] = narrowType(*state_, type);
  std::string name =
      ("cross_entropy_rows" + StringRef(training ? "" : "_loss") + (form.weighted ? "_weighted" : "") + suffix).str();
  SmallVector<bool> written =
      training ? SmallVector<bool>{true, false, false, true} : SmallVector<bool>{!form.isPlain(), false, true};
  if (form.weighted)
    written.push_back(false);
  return service(*state_, name + formSuffix(form), name, written, [&](RowKernel &k) {
    KernelBuilder &b = k.b;
    Value logits = k.buffer(0), targets = k.buffer(1), loss = k.buffer(training ? 3 : 2), ld = k.scalar(0),
          columns = k.scalar(1);
    Value scaleOfAll = training ? b.load(k.buffer(2), b.getF32Type(), 1) : Value();
    Value none = b.i64(0), weights = form.weighted ? k.buffer(training ? 4 : 3) : Value();
    k.forRows([&](Value r) {
      Value row = k.at(logits, b.mul(r, ld));
      Value target = b.load(b.address(targets, b.getI32Type(), r), b.getI32Type(), 1);
      Value ignored = b.compare(arith::CmpIPredicate::slt, target, b.integer(b.getI32Type(), 0));
      auto branch = scf::IfOp::create(b, ignored, /*withElseRegion=*/true);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(branch.thenBlock());
      b.store(b.real(b.getF32Type(), 0.0), k.at(loss, r));
      if (training)
        k.zero(row, none, columns);
      b.setInsertionPointToStart(branch.elseBlock());
      Value position = arith::ExtSIOp::create(b, b.getI64Type(), target);
      Value weight = weights ? b.load(k.at(weights, r), b.getF32Type(), 1) : Value();
      Value scale = training ? weighted(b, scaleOfAll, weight) : Value();
      k.loadsAs = narrow; // products; what stands in their places later is not
      if (!form.isPlain())
        return emitBentRow(k, form, row, position, columns, k.at(loss, r), scale, weight, narrow);
      Value wanted = k.loadScalar(row, position);
      Value maximum = k.rowMaximum(row, none, columns, /*fromZero=*/true);
      Value sum = k.rowExponentials(row, none, columns, /*fromZero=*/true, maximum, training);
      k.loadsAs = {};
      b.store(weighted(b, b.sub(b.add(maximum, b.log(sum)), wanted), weight), k.at(loss, r));
      if (!training)
        return;
      k.forColumns(none, columns, /*fromZero=*/true, {}, [&](const RowKernel::Chunk &chunk, Values &) {
        k.store(chunk, b.div(k.load(chunk, row, 0.0), k.splat(sum)), row);
      });
      Value hit = k.at(row, position);
      b.store(b.sub(b.load(hit, b.getF32Type(), 1), b.real(b.getF32Type(), 1.0)), hit);
      k.forColumns(none, columns, /*fromZero=*/true, {}, [&](const RowKernel::Chunk &chunk, Values &) {
        k.store(chunk, k.rounded(b.mul(k.load(chunk, row, 0.0), k.splat(scale)), narrow), row);
      });
    });
  });
}

} // namespace ztc
