// Attention and its gradient over bf16 and f16: as HostAttention.cpp, with scores, softmax and sums over blocks and
// heads in f32. The service kernels round P and dS, which stay f32 in scratch; results are rounded once. Where the
// processor has no instruction for the type, rows of q, k and v pass through f32 panels.
#include "runtime/Device/host/HostAttentionStep.h"
#include "runtime/Device/host/Product.h"
#include "runtime/Format/NarrowDataType.h"
#include <cstring>
#include <fmt/format.h>

namespace ztc {
namespace {

class HostNarrowAttentionStep : public HostAttentionStep {
protected:
  explicit HostNarrowAttentionStep(HostResources &resources) : HostAttentionStep(resources) {}

  /// Shape, type and the layouts that products see.
  Status prepareTypes(const HostPrepare &from) {
    ZTC_RETURN_IF_ERROR(prepareShape(from));
    const plan::Attention &attention = from.step.attention();
    const std::optional<NarrowType> narrowType = narrowDataType(attention.type());
    if (!narrowType)
      return dataLoss(fmt::format("attention of type {}", plan::DataType_Name(attention.type())));
    type_ = *narrowType;
    panelsAt_ = scratchBytes_;
    scratchBytes_ = narrowAttentionScratchBytes(seq_, dim_, blockRows_, attention.grad());
    wholeBytes_ = scratchBytes(seq_ * dim_);
    rowsBytes_ = scratchBytes(blockRows_ * dim_);
    native_ = multipliesNatively(attention.type());
    const RowLayout panel{plan::F32, dim_};
    queries_ = native_ ? queryLayout(attention.type()) : panel;
    keys_ = native_ ? keyLayout(attention.type()) : panel;
    scores_ = native_ ? RowLayout{attention.type(), 2 * ld_} : RowLayout{plan::F32, ld_};
    return Status::ok();
  }

  /// `rows` rows of a head as f32, close to each other.
  void widenHead(float *panel, const uint16_t *from, uint64_t rows, uint64_t ld) const {
    for (uint64_t row = 0; row < rows; ++row)
      widen(panel + row * dim_, from + row * ld, dim_, type_);
  }
  void narrowHead(uint16_t *to, const float *panel, uint64_t rows, uint64_t ld) const {
    for (uint64_t row = 0; row < rows; ++row)
      narrow(to + row * ld, panel + row * dim_, dim_, type_);
  }
  /// What the service kernel has rounded, in the form that a native product takes, in place.
  void narrowScores(float *scores, const QueryBlock &block) const {
    for (uint64_t row = 0; row < block.rows; ++row)
      narrow(reinterpret_cast<uint16_t *>(scores + row * ld_), scores + row * ld_, block.columns, type_);
  }
  std::byte *scratchOf(size_t operand, uint32_t worker) const {
    return pointer<std::byte>(operand) + worker * scratchBytes_;
  }
  uint64_t queryStride() const { return heads_ * dim_; }
  uint64_t keyStride() const { return kvHeads_ * dim_; }

  NarrowType type_ = NarrowType::Bf16;
  bool native_ = false;
  RowLayout queries_, keys_, scores_;       ///< operands of products
  uint64_t panelsAt_ = 0;                   ///< in a worker's scratch: after the scores
  uint64_t wholeBytes_ = 0, rowsBytes_ = 0; ///< of a panel of the sequence, of a block
};

/// Operands: q, k, v, out, lse, scratch, and of packed rows starts. One task is a (batch, head, block). Panels: queries
/// (later the result), keys (later values).
class HostNarrowAttention : public HostNarrowAttentionStep {
public:
  explicit HostNarrowAttention(HostResources &resources) : HostNarrowAttentionStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::Attention &attention = from.step.attention();
    ZTC_RETURN_IF_ERROR(prepareTypes(from));
    ZTC_RETURN_IF_ERROR(resolve(from, {packed_ ? 7 : 6}));
    for (size_t index : {Q, Out})
      ZTC_RETURN_IF_ERROR(requireElements(from, index, {batch_, seq_, heads_, dim_}, 2));
    for (size_t index : {K, V})
      ZTC_RETURN_IF_ERROR(requireElements(from, index, {batch_, seq_, kvHeads_, dim_}, 2));
    ZTC_RETURN_IF_ERROR(requireElements(from, Lse, {batch_, heads_, seq_}));
    ZTC_RETURN_IF_ERROR(requireElements(from, Scratch, {resources_.pool.threads(), scratchBytes_}, 1));
    ZTC_ASSIGN_OR_RETURN(softmax_, resources_.kernels.find(attention.softmax_kernel()));
    if (packed_)
      ZTC_RETURN_IF_ERROR(requireElements(from, Starts, {batch_, seq_}));
    return forAllSizes([&](const QueryBlock &block) -> Status {
      const Products products = productsOf(block);
      ZTC_RETURN_IF_ERROR(resources_.matmuls.reserve(products.scores));
      return resources_.matmuls.reserve(products.mix);
    });
  }

  Status execute(uint32_t) override {
    ZTC_RETURN_IF_ERROR(placeDocuments(Starts));
    resources_.pool.forEach(tasks(), [&](uint32_t worker, uint64_t number) { run(worker, task(number)); });
    return Status::ok();
  }

private:
  enum Operands { Q, K, V, Out, Lse, Scratch, Starts };
  struct Products {
    MatmulProblem scores, mix;
  };
  Products productsOf(const QueryBlock &block) const {
    return {masked(scoresProblem(block, scale_, queries_, keys_), block, Causal::Scores),
            masked(mixProblem(block, scores_, keys_, queries_), block, Causal::Left)};
  }

  void run(uint32_t worker, const Task &task) const {
    const auto &[batch, head, block] = task;
    const Products products = productsOf(block);
    std::byte *scratch = scratchOf(Scratch, worker);
    auto *scores = reinterpret_cast<float *>(scratch);
    auto *queryPanel = reinterpret_cast<float *>(scratch + panelsAt_);
    auto *keyPanel = reinterpret_cast<float *>(scratch + panelsAt_ + rowsBytes_);
    const uint64_t queries = queryOffset(batch, head, block.row);
    const uint64_t keys = keyOffset(batch, head / (heads_ / kvHeads_), block.column);
    const uint16_t *q = pointer<uint16_t>(Q) + queries, *k = pointer<uint16_t>(K) + keys,
                   *v = pointer<uint16_t>(V) + keys;
    uint16_t *out = pointer<uint16_t>(Out) + queries;
    void *buffers[] = {scores, pointer<float>(Lse) + rowOffset(batch, head, block.row)};
    if (native_) {
      multiply(worker, products.scores, q, k, scores);
      softmax_(buffers, kernelScalars(block).data(), 0, int64_t(block.rows));
      narrowScores(scores, block);
      multiply(worker, products.mix, scores, v, out);
      return;
    }
    widenHead(queryPanel, q, block.rows, queryStride());
    widenHead(keyPanel, k, block.columns, keyStride());
    multiply(worker, products.scores, queryPanel, keyPanel, scores);
    softmax_(buffers, kernelScalars(block).data(), 0, int64_t(block.rows));
    widenHead(keyPanel, v, block.columns, keyStride());
    multiply(worker, products.mix, scores, keyPanel, queryPanel);
    narrowHead(out, queryPanel, block.rows, queryStride());
  }

  KernelFunction softmax_ = nullptr;
};

/// Operands: q, k, v, out, lse, dout, dq, dk, dv, scratch, and of packed rows starts. One task is a (batch, key/value
/// head), whose dk and dv are added up in panels.
class HostNarrowAttentionGrad : public HostNarrowAttentionStep {
public:
  explicit HostNarrowAttentionGrad(HostResources &resources) : HostNarrowAttentionStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::Attention &attention = from.step.attention();
    ZTC_RETURN_IF_ERROR(prepareTypes(from));
    ZTC_RETURN_IF_ERROR(resolve(from, {packed_ ? 11 : 10}));
    for (size_t index : {Q, Out, DOut, DQ})
      ZTC_RETURN_IF_ERROR(requireElements(from, index, {batch_, seq_, heads_, dim_}, 2));
    for (size_t index : {K, V, DK, DV})
      ZTC_RETURN_IF_ERROR(requireElements(from, index, {batch_, seq_, kvHeads_, dim_}, 2));
    ZTC_RETURN_IF_ERROR(requireElements(from, Lse, {batch_, heads_, seq_}));
    ZTC_RETURN_IF_ERROR(requireElements(from, Scratch, {resources_.pool.threads(), scratchBytes_}, 1));
    ZTC_ASSIGN_OR_RETURN(softmaxGrad_, resources_.kernels.find(attention.softmax_grad_kernel()));
    ZTC_ASSIGN_OR_RETURN(rowDot_, resources_.kernels.find(attention.row_dot_kernel()));
    if (packed_)
      ZTC_RETURN_IF_ERROR(requireElements(from, Starts, {batch_, seq_}));
    return forAllSizes([&](const QueryBlock &block) -> Status {
      const Products products = productsOf(block);
      for (const MatmulProblem &product : {products.scores, products.dscores, products.mix, products.spread})
        ZTC_RETURN_IF_ERROR(resources_.matmuls.reserve(product));
      return Status::ok();
    });
  }

  Status execute(uint32_t) override {
    ZTC_RETURN_IF_ERROR(placeDocuments(Starts));
    resources_.pool.forEach(batch_ * kvHeads_,
                            [&](uint32_t worker, uint64_t task) { run(worker, task / kvHeads_, task % kvHeads_); });
    return Status::ok();
  }

private:
  struct Products {
    MatmulProblem scores, dscores, mix, spread;
  };
  enum Operands { Q, K, V, Out, Lse, DOut, DQ, DK, DV, Scratch, Starts };
  Products productsOf(const QueryBlock &block) const {
    const RowLayout sums{plan::F32, dim_};
    return {masked(scoresProblem(block, scale_, queries_, keys_), block, Causal::Scores),
            masked(scoresProblem(block, 1, queries_, keys_), block, Causal::Scores),
            masked(mixProblem(block, scores_, keys_, queries_), block, Causal::Left),
            masked(spreadProblem(block, scores_, queries_, sums), block, Causal::LeftTransposed)};
  }
  /// A worker's scratch: scores (later p), dscores (dp, later ds), delta; then panels of the sequence, then of a block.
  struct Panels {
    float *scores, *dscores, *delta;
    float *k, *v, *dk, *dv;
    float *q, *dout, *dq; ///< dq is first out
  };

  Panels panelsOf(uint32_t worker) const {
    std::byte *scratch = scratchOf(Scratch, worker), *panels = scratch + panelsAt_;
    const auto floats = [](std::byte *at) { return reinterpret_cast<float *>(at); };
    std::byte *rows = panels + 4 * wholeBytes_;
    return {floats(scratch),
            floats(scratch + scoresBytes_),
            floats(scratch + 2 * scoresBytes_),
            floats(panels),
            floats(panels + wholeBytes_),
            floats(panels + 2 * wholeBytes_),
            floats(panels + 3 * wholeBytes_),
            floats(rows),
            floats(rows + rowsBytes_),
            floats(rows + 2 * rowsBytes_)};
  }

  void run(uint32_t worker, uint64_t batch, uint64_t kvHead) const {
    const Panels panels = panelsOf(worker);
    const uint64_t keys = keyOffset(batch, kvHead, 0), group = heads_ / kvHeads_;
    if (!native_) {
      widenHead(panels.k, pointer<uint16_t>(K) + keys, seq_, keyStride());
      widenHead(panels.v, pointer<uint16_t>(V) + keys, seq_, keyStride());
    }
    std::memset(panels.dk, 0, seq_ * dim_ * sizeof(float));
    std::memset(panels.dv, 0, seq_ * dim_ * sizeof(float));
    for (uint64_t head = kvHead * group; head < (kvHead + 1) * group; ++head)
      for (const QueryBlock &block : blocksOf(batch))
        runBlock(worker, panels, batch, head, block);
    narrowHead(pointer<uint16_t>(DK) + keys, panels.dk, seq_, keyStride());
    narrowHead(pointer<uint16_t>(DV) + keys, panels.dv, seq_, keyStride());
  }

  void runBlock(uint32_t worker, const Panels &panels, uint64_t batch, uint64_t head, const QueryBlock &block) const {
    const Products products = productsOf(block);
    const uint64_t queries = queryOffset(batch, head, block.row),
                   keys = keyOffset(batch, head / (heads_ / kvHeads_), block.column), column = block.column * dim_;
    const uint16_t *narrowQ = pointer<uint16_t>(Q) + queries, *narrowDOut = pointer<uint16_t>(DOut) + queries;
    uint16_t *dq = pointer<uint16_t>(DQ) + queries;
    widenHead(panels.dout, narrowDOut, block.rows, queryStride());
    widenHead(panels.dq, pointer<uint16_t>(Out) + queries, block.rows, queryStride());
    int64_t rows = int64_t(block.rows);
    void *dotBuffers[] = {panels.dout, panels.dq, panels.delta};
    int64_t dotScalars[] = {int64_t(dim_), int64_t(dim_), int64_t(dim_)};
    rowDot_(dotBuffers, dotScalars, 0, rows);

    // The same products over other memory: rows as they lie in the arena, or their panels.
    const void *q = narrowQ, *dout = narrowDOut, *k = pointer<uint16_t>(K) + keys, *v = pointer<uint16_t>(V) + keys;
    void *dqTo = dq;
    if (!native_) {
      widenHead(panels.q, narrowQ, block.rows, queryStride());
      q = panels.q;
      dout = panels.dout;
      k = panels.k + column;
      v = panels.v + column;
      dqTo = panels.dq;
    }
    multiply(worker, products.scores, q, k, panels.scores);
    multiply(worker, products.dscores, dout, v, panels.dscores);
    void *gradBuffers[] = {panels.scores, panels.dscores, pointer<float>(Lse) + rowOffset(batch, head, block.row),
                           panels.delta};
    softmaxGrad_(gradBuffers, kernelScalars(block).data(), 0, rows);
    if (native_) {
      narrowScores(panels.scores, block);
      narrowScores(panels.dscores, block);
    }
    multiply(worker, products.spread, panels.scores, dout, panels.dv + column);
    multiply(worker, products.mix, panels.dscores, k, dqTo);
    multiply(worker, products.spread, panels.dscores, q, panels.dk + column);
    if (!native_)
      narrowHead(dq, panels.dq, block.rows, queryStride());
  }

  KernelFunction softmaxGrad_ = nullptr, rowDot_ = nullptr;
};

} // namespace

PreparedStep prepareHostNarrowAttention(const HostPrepare &from) {
  if (from.step.attention().grad()) {
    auto step = std::make_unique<HostNarrowAttentionGrad>(from.resources);
    ZTC_RETURN_IF_ERROR(step->prepare(from));
    return PreparedStep(std::move(step));
  }
  auto step = std::make_unique<HostNarrowAttention>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
