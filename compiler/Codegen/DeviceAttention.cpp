#include "compiler/Codegen/DeviceAttention.h"

using namespace mlir;

namespace ztc {
namespace codegen {

/// Which buffer of a kernel holds document_starts: the last one.
static unsigned startsBuffer(AttentionKernel kind) {
  switch (kind) {
  case AttentionKernel::Forward:
    return 5;
  case AttentionKernel::KeyGrad:
    return 8;
  default:
    return 7;
  }
}

AttentionEmitter::AttentionEmitter(BlockKernel &kernel, AttentionKernel kind, const AttentionForm &form, int64_t rows)
    : k(kernel), b(kernel.b), kind_(kind), causal_(form.causal), windowed_(form.windowed),
      packed_(form.packed && kind != AttentionKernel::Delta),
      softcapped_(form.softcapped && kind != AttentionKernel::Delta), dim_(form.headDim), rows_(rows) {
  element_ = b.element(form.type);
  // Left to itself, the assembler prefers spilling registers to letting fewer than three blocks share a multiprocessor.
  k.blocksTogether = 2;
  auto narrow = [&](Value value) -> Value { return arith::TruncIOp::create(b, b.getI32Type(), value); };
  auto over = [&](Value x, Value y) -> Value { return arith::DivUIOp::create(b, x, y); };
  auto modulo = [&](Value x, Value y) -> Value { return arith::RemUIOp::create(b, x, y); };
  seq_ = narrow(k.scalar(0));
  heads_ = narrow(k.scalar(1));
  kvHeads_ = narrow(k.scalar(2));
  window_ = narrow(k.scalar(3));
  scale_ = b.bitcast(narrow(k.scalar(4)), b.getF32Type());
  if (softcapped_) {
    cap_ = b.bitcast(narrow(k.scalar(5)), b.getF32Type());
    inCaps_ = b.div(scale_, cap_);
  }
  thread_ = narrow(k.thread());
  // Blocks of all heads take turns; those with the most to do come first.
  Value perHead = over(b.add(seq_, i32(rows - 1)), i32(rows)), block = narrow(k.block());
  Value pairs = over(narrow(over(k.extent(), b.i64(rows))), perHead), pair = modulo(block, pairs);
  Value number = over(block, pairs);
  bool ofKeys = kind == AttentionKernel::KeyGrad;
  row_ = b.mul(ofKeys ? number : b.sub(b.sub(perHead, i32(1)), number), i32(rows));
  group_ = over(heads_, kvHeads_);
  Value ownHeads = ofKeys ? kvHeads_ : heads_, own = modulo(pair, ownHeads);
  batch_ = over(pair, ownHeads);
  head_ = ofKeys ? b.mul(own, group_) : own;
  kvHead_ = ofKeys ? own : over(own, group_);
  if (packed_)
    starts_ = b.address(k.buffer(startsBuffer(kind)), b.getI32Type(), b.mul(wide(batch_), wide(seq_)));
}

Value AttentionEmitter::wide(Value value) {
  return arith::ExtSIOp::create(b, b.getI64Type(), value);
}

Value AttentionEmitter::rowOf(const Tensor &tensor, Value row) {
  Value position = b.add(b.mul(wide(batch_), wide(seq_)), wide(row));
  Value index = b.add(b.mul(position, wide(tensor.heads)), wide(tensor.head));
  return b.address(tensor.base, element_, b.mul(index, b.i64(dim_)));
}

Value AttentionEmitter::statistics(unsigned buffer, Value head) {
  Value index = b.mul(b.add(b.mul(wide(batch_), wide(heads_)), wide(head)), wide(seq_));
  return b.address(k.buffer(buffer), b.getF32Type(), index);
}

Value AttentionEmitter::statistic(Value base, Value row) {
  return guarded(less(row, seq_), zero(),
                 [&] { return b.load(b.address(base, b.getF32Type(), row), b.getF32Type(), 1); });
}

void AttentionEmitter::storeStatistic(Value value, Value base, Value row, Value condition) {
  k.ifThen(both(condition, less(row, seq_)), [&] { b.store(value, b.address(base, b.getF32Type(), row)); });
}

Value AttentionEmitter::documentStart(Value row) {
  return guarded(less(row, seq_), i32(0),
                 [&] { return b.load(b.address(starts_, b.getI32Type(), row), b.getI32Type(), 1); });
}

// Starts never fall along a row: the last position of a document is found by halves.
Value AttentionEmitter::documentEnd(Value row) {
  constexpr int64_t kBits = 30;
  Value last = k.forRangeRolled(i32(0), i32(kBits), 1, {row}, [&](Value bit, Values &carried) {
    Value step = arith::ShRUIOp::create(b, i32(int64_t(1) << (kBits - 1)), bit), next = b.add(carried[0], step);
    Value before = carried[0];
    carried[0] = guarded(less(next, seq_), before, [&]() -> Value {
      Value start = b.load(b.address(starts_, b.getI32Type(), next), b.getI32Type(), 1);
      return b.select(less(row, start), before, next);
    });
  })[0];
  return b.add(last, i32(1));
}

Value AttentionEmitter::documentEdge(Value row) {
  if (!packed_)
    return {};
  return kind_ == AttentionKernel::KeyGrad ? documentEnd(row) : documentStart(row);
}

std::pair<Value, Value> AttentionEmitter::columnRange(int64_t step) {
  Value first = i32(0), end = seq_, last = b.add(row_, i32(rows_ - 1));
  if (!causal_)
    return {first, end};
  if (kind_ == AttentionKernel::KeyGrad)
    return {row_, b.minimum(packed_ ? documentEnd(b.minimum(last, b.sub(seq_, i32(1)))) : end,
                            windowed_ ? b.minimum(end, b.add(last, window_)) : end)};
  if (packed_)
    first = documentStart(row_);
  if (windowed_)
    first = b.maximum(b.add(b.sub(row_, window_), i32(1)), first);
  if (windowed_ || packed_)
    first = arith::AndIOp::create(b, first, i32(-step));
  return {first, b.minimum(end, b.add(last, i32(1)))};
}

AttentionEmitter::Values AttentionEmitter::forTiles(int64_t step, Values carried,
                                                    llvm::function_ref<void(Value, bool, Values &)> body) {
  auto [begin, end] = columnRange(step);
  auto loop = [&](Value from, Value to, bool masked) {
    carried = k.forRange(from, to, step, carried, [&](Value first, Values &values) { body(first, masked, values); });
  };
  auto wholeTiles = [&](Value columns) -> Value { return arith::AndIOp::create(b, columns, i32(-step)); };
  if (windowed_ || packed_) {
    loop(begin, end, /*masked=*/true); // an edge at each end, and little between
  } else if (kind_ == AttentionKernel::KeyGrad && causal_) {
    // Queries past the end of the sequence are zero, and so is what they add.
    Value edge = b.minimum(end, b.add(row_, i32(llvm::alignTo(rows_, step))));
    loop(begin, edge, /*masked=*/true);
    loop(edge, end, /*masked=*/false);
  } else {
    Value edge = wholeTiles(causal_ ? b.minimum(b.add(row_, i32(1)), end) : end);
    loop(begin, edge, /*masked=*/false);
    loop(edge, end, /*masked=*/true);
  }
  return carried;
}

Value AttentionEmitter::sees(Value query, Value key, Value edge) {
  if (!causal_)
    return less(key, seq_);
  // Queries past the end of the sequence do not exist: what they see does not count.
  Value visible = b.compare(arith::CmpIPredicate::sle, key, query);
  if (windowed_)
    visible = both(visible, less(b.sub(query, window_), key));
  if (!packed_)
    return visible;
  return both(visible,
              kind_ == AttentionKernel::KeyGrad ? less(query, edge) : b.compare(arith::CmpIPredicate::sle, edge, key));
}

Value AttentionEmitter::score(Value product) {
  return softcapped_ ? b.mul(b.tanh(b.mul(product, inCaps_)), cap_) : b.mul(product, scale_);
}

void AttentionEmitter::emitSoftmaxGrad(Value &product, Value &cotangent, Value visible, Value lse, Value delta) {
  Value bent = softcapped_ ? b.tanh(b.mul(product, inCaps_)) : Value();
  Value p = b.exp(b.sub(softcapped_ ? b.mul(bent, cap_) : b.mul(product, scale_), lse));
  Value ds = b.mul(b.mul(p, b.sub(cotangent, delta)), scale_);
  if (softcapped_)
    ds = b.mul(ds, b.sub(b.real(b.getF32Type(), 1.0), b.mul(bent, bent)));
  product = masked(visible, p, zero());
  cotangent = masked(visible, ds, zero());
}

Value AttentionEmitter::acrossLanes(Value value, int64_t lanes, bool sum) {
  for (int64_t mask = 1; mask < lanes; mask *= 2) {
    Value other = k.exchange(value, mask);
    value = sum ? b.add(value, other) : b.maximum(value, other);
  }
  return value;
}

} // namespace codegen

using namespace codegen;

static KernelDescription addAttention(KernelModule::State &state, AttentionKernel kind, StringRef name,
                                      ArrayRef<bool> written, const AttentionForm &form) {
  std::string full = (name + typeSuffix(form.type) + "_" + Twine(form.headDim)).str();
  const bool softcapped = form.softcapped && kind != AttentionKernel::Delta;
  if (form.causal && kind != AttentionKernel::Delta)
    full += (form.windowed ? "_window" : "_causal") + StringRef(form.packed ? "_packed" : "").str();
  full += softcapped ? "_softcap" : "";
  SmallVector<bool> all(written);
  if (form.packed && kind != AttentionKernel::Delta)
    all.push_back(false);
  int64_t rows = attentionRowsMma(kind, form);
  auto emit = rows ? emitAttentionMma : emitAttentionFma;
  return deviceService(state, full, all, /*scalars=*/softcapped ? 6 : 5, AttentionEmitter::kThreads,
                       rows ? rows : attentionRowsFma(kind, form),
                       [&](BlockKernel &kernel) { emit(kernel, kind, form); });
}

std::vector<KernelDescription> KernelModule::addGpuAttention(const AttentionForm &form, bool grad) {
  if (form.headDim > kMaxGpuHeadDim)
    return {};
  if (!grad)
    return {addAttention(*state_, AttentionKernel::Forward, "gpu_attention", {false, false, false, true, true}, form)};
  return {addAttention(*state_, AttentionKernel::Delta, "gpu_attention_delta", {false, false, true}, form),
          addAttention(*state_, AttentionKernel::KeyGrad, "gpu_attention_grad_keys",
                       {false, false, false, false, false, false, true, true}, form),
          addAttention(*state_, AttentionKernel::QueryGrad, "gpu_attention_grad_queries",
                       {false, false, false, false, false, false, true}, form)};
}

} // namespace ztc
