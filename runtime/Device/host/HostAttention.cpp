// Attention and its gradient: blocks of query rows, scores up to the diagonal, no (S, S) tensor.
#include "runtime/Device/host/HostStep.h"
#include "runtime/Format/ScratchSizes.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fmt/format.h>

namespace ztc {
namespace {

/// One block of query rows and the columns (keys) that any of its rows sees.
struct QueryBlock {
  uint64_t row = 0, rows = 0;
  uint64_t column = 0, columns = 0;
};

/// What forward and gradient share: the shape, the blocks, and offsets in (B, S, H, D) tensors of f32.
class HostAttentionStep : public HostStep {
protected:
  explicit HostAttentionStep(HostResources &resources) : HostStep(resources) {}

  Status prepareShape(const HostPrepare &from) {
    const plan::Attention &attention = from.step.attention();
    batch_ = attention.batch();
    seq_ = attention.seq();
    heads_ = attention.heads();
    kvHeads_ = attention.kv_heads();
    dim_ = attention.head_dim();
    window_ = attention.window();
    if (!batch_ || !seq_ || !heads_ || !kvHeads_ || !dim_ || heads_ % kvHeads_ != 0)
      return dataLoss("attention has an empty dimension or heads that do not divide");
    uint64_t block = std::min(std::max<uint64_t>(1, attention.block()), seq_);
    ld_ = scratchRowElements(seq_);
    scoresBytes_ = scratchBytes(block * ld_);
    scratchBytes_ = attentionScratchBytes(seq_, block, attention.grad());
    for (uint64_t row = 0; row < seq_; row += block) {
      QueryBlock piece;
      piece.row = row;
      piece.rows = std::min(block, seq_ - row);
      uint64_t end = attention.causal() ? row + piece.rows : seq_;
      // Columns that no row sees are left out in multiples of 64: the sums' lanes are columns modulo 64.
      if (attention.causal() && window_ && row + 1 > window_)
        piece.column = (row + 1 - window_) / 64 * 64;
      piece.columns = end - piece.column;
      blocks_.push_back(piece);
    }
    return Status::ok();
  }

  /// Calls task(worker, index) for all indices; workers take the next one when they are done with one. A task returns
  /// whether it went well.
  template <typename Task> Status runTasks(uint64_t count, Task task) const {
    std::atomic<bool> good{true};
    std::atomic<uint64_t> next{0};
    resources_.pool.forEachWorker([&](uint32_t worker) {
      for (uint64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;)
        if (!task(worker, i))
          good.store(false, std::memory_order_relaxed);
    });
    return good.load(std::memory_order_relaxed) ? Status::ok()
                                                : internalError("oneDNN failed to execute a matrix product");
  }

  /// scale * (rows of q) (columns of k)^T into scratch rows.
  MatmulProblem scoresProblem(const QueryBlock &block, float alpha) const {
    MatmulProblem problem;
    problem.m = block.rows;
    problem.n = block.columns;
    problem.k = dim_;
    problem.lda = heads_ * dim_;
    problem.ldb = kvHeads_ * dim_;
    problem.ldc = ld_;
    problem.transposeB = true;
    problem.alpha = alpha;
    return problem;
  }
  /// (scores of the block) (columns of a k-like tensor) into rows of a q-like tensor.
  MatmulProblem mixProblem(const QueryBlock &block) const {
    MatmulProblem problem;
    problem.m = block.rows;
    problem.n = dim_;
    problem.k = block.columns;
    problem.lda = ld_;
    problem.ldb = kvHeads_ * dim_;
    problem.ldc = heads_ * dim_;
    return problem;
  }
  /// (scores of the block)^T (rows of a q-like tensor), added to columns of a k-like tensor.
  MatmulProblem spreadProblem(const QueryBlock &block) const {
    MatmulProblem problem;
    problem.m = block.columns;
    problem.n = dim_;
    problem.k = block.rows;
    problem.lda = ld_;
    problem.ldb = heads_ * dim_;
    problem.ldc = kvHeads_ * dim_;
    problem.transposeA = true;
    problem.add = true;
    return problem;
  }

  /// Element offsets of position `position` in q-like and k-like tensors, and of a row's statistics in lse (B, H, S).
  uint64_t queryOffset(uint64_t batch, uint64_t head, uint64_t position) const {
    return ((batch * seq_ + position) * heads_ + head) * dim_;
  }
  uint64_t keyOffset(uint64_t batch, uint64_t kvHead, uint64_t position) const {
    return ((batch * seq_ + position) * kvHeads_ + kvHead) * dim_;
  }
  uint64_t rowOffset(uint64_t batch, uint64_t head, uint64_t row) const { return (batch * heads_ + head) * seq_ + row; }
  /// The service kernels' scalars: first, ld, columns, window; positions count from the block's first column.
  std::array<int64_t, 4> kernelScalars(const QueryBlock &block) const {
    return {int64_t(block.row - block.column), int64_t(ld_), int64_t(block.columns), int64_t(window_)};
  }

  uint64_t batch_ = 0, seq_ = 0, heads_ = 0, kvHeads_ = 0, dim_ = 0, window_ = 0;
  uint64_t ld_ = 0;                             ///< elements between rows of scores
  uint64_t scoresBytes_ = 0, scratchBytes_ = 0; ///< per worker
  std::vector<QueryBlock> blocks_;
};

/// out = softmax(scale q k^T) v, and lse. Operands: q, k, v, out, lse, scratch. One task is a (batch, head, block).
class HostAttention : public HostAttentionStep {
public:
  explicit HostAttention(HostResources &resources) : HostAttentionStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::Attention &attention = from.step.attention();
    ZTC_RETURN_IF_ERROR(resolve(from, {6}));
    ZTC_RETURN_IF_ERROR(prepareShape(from));
    for (size_t index : {Q, Out})
      ZTC_RETURN_IF_ERROR(requireElements(from, index, {batch_, seq_, heads_, dim_}));
    for (size_t index : {K, V})
      ZTC_RETURN_IF_ERROR(requireElements(from, index, {batch_, seq_, kvHeads_, dim_}));
    ZTC_RETURN_IF_ERROR(requireElements(from, Lse, {batch_, heads_, seq_}));
    uint32_t workers = resources_.pool.threads();
    ZTC_RETURN_IF_ERROR(requireElements(from, Scratch, {workers, scratchBytes_}, 1));
    ZTC_ASSIGN_OR_RETURN(softmax_, resources_.kernels.find(attention.softmax_kernel()));
    ZTC_ASSIGN_OR_RETURN(MatmulCache * cache, resources_.matmulCache());
    for (const QueryBlock &block : blocks_) {
      Products products;
      ZTC_ASSIGN_OR_RETURN(products.scores, cache->get(scoresProblem(block, float(attention.scale()))));
      ZTC_ASSIGN_OR_RETURN(products.mix, cache->get(mixProblem(block)));
      products_.push_back(products);
    }
    return Status::ok();
  }

  Status execute(uint32_t) override {
    // Later blocks see more columns and cost more.
    return runTasks(batch_ * heads_ * blocks_.size(), [&](uint32_t worker, uint64_t task) {
      return run(worker, task / blocks_.size() / heads_, task / blocks_.size() % heads_, task % blocks_.size());
    });
  }

private:
  enum Operands { Q, K, V, Out, Lse, Scratch };
  struct Products {
    const Matmul *scores = nullptr, *mix = nullptr;
  };

  bool run(uint32_t worker, uint64_t batch, uint64_t head, uint64_t index) const {
    const QueryBlock &block = blocks_[index];
    uint64_t kvHead = head / (heads_ / kvHeads_);
    std::byte *scratch = pointer<std::byte>(Scratch) + worker * scratchBytes_;
    float *scores = reinterpret_cast<float *>(scratch);
    float *lse = pointer<float>(Lse) + rowOffset(batch, head, block.row);
    uint64_t queries = queryOffset(batch, head, block.row), keys = keyOffset(batch, kvHead, block.column);
    if (!products_[index].scores->execute(worker, pointer<float>(Q) + queries, pointer<float>(K) + keys, scores))
      return false;
    void *buffers[] = {scores, lse};
    softmax_(buffers, kernelScalars(block).data(), 0, int64_t(block.rows));
    return products_[index].mix->execute(worker, scores, pointer<float>(V) + keys, pointer<float>(Out) + queries);
  }

  KernelFunction softmax_ = nullptr;
  std::vector<Products> products_; ///< by block
};

/// Operands: q, k, v, out, lse, dout, dq, dk, dv, scratch. One task is a (batch, key/value head): its dk and dv have
/// one writer, who adds block after block, head after head of the group.
class HostAttentionGrad : public HostAttentionStep {
public:
  explicit HostAttentionGrad(HostResources &resources) : HostAttentionStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::Attention &attention = from.step.attention();
    ZTC_RETURN_IF_ERROR(resolve(from, {10}));
    ZTC_RETURN_IF_ERROR(prepareShape(from));
    for (size_t index : {Q, Out, DOut, DQ})
      ZTC_RETURN_IF_ERROR(requireElements(from, index, {batch_, seq_, heads_, dim_}));
    for (size_t index : {K, V, DK, DV})
      ZTC_RETURN_IF_ERROR(requireElements(from, index, {batch_, seq_, kvHeads_, dim_}));
    ZTC_RETURN_IF_ERROR(requireElements(from, Lse, {batch_, heads_, seq_}));
    ZTC_RETURN_IF_ERROR(requireElements(from, Scratch, {resources_.pool.threads(), scratchBytes_}, 1));
    ZTC_ASSIGN_OR_RETURN(softmaxGrad_, resources_.kernels.find(attention.softmax_grad_kernel()));
    ZTC_ASSIGN_OR_RETURN(rowDot_, resources_.kernels.find(attention.row_dot_kernel()));
    ZTC_ASSIGN_OR_RETURN(MatmulCache * cache, resources_.matmulCache());
    for (const QueryBlock &block : blocks_) {
      Products products;
      ZTC_ASSIGN_OR_RETURN(products.scores, cache->get(scoresProblem(block, float(attention.scale()))));
      ZTC_ASSIGN_OR_RETURN(products.dscores, cache->get(scoresProblem(block, 1)));
      ZTC_ASSIGN_OR_RETURN(products.mix, cache->get(mixProblem(block)));
      ZTC_ASSIGN_OR_RETURN(products.spread, cache->get(spreadProblem(block)));
      products_.push_back(products);
    }
    return Status::ok();
  }

  Status execute(uint32_t) override {
    return runTasks(batch_ * kvHeads_,
                    [&](uint32_t worker, uint64_t task) { return run(worker, task / kvHeads_, task % kvHeads_); });
  }

private:
  struct Products {
    const Matmul *scores = nullptr, *dscores = nullptr, *mix = nullptr, *spread = nullptr;
  };
  enum Operands { Q, K, V, Out, Lse, DOut, DQ, DK, DV, Scratch };

  bool run(uint32_t worker, uint64_t batch, uint64_t kvHead) const {
    for (uint64_t position = 0; position < seq_; ++position) {
      uint64_t at = keyOffset(batch, kvHead, position);
      std::memset(pointer<float>(DK) + at, 0, dim_ * sizeof(float));
      std::memset(pointer<float>(DV) + at, 0, dim_ * sizeof(float));
    }
    uint64_t group = heads_ / kvHeads_;
    bool good = true;
    for (uint64_t head = kvHead * group; head < (kvHead + 1) * group; ++head)
      for (size_t index = 0; index < blocks_.size(); ++index)
        good &= runBlock(worker, batch, head, kvHead, index);
    return good;
  }

  bool runBlock(uint32_t worker, uint64_t batch, uint64_t head, uint64_t kvHead, size_t index) const {
    const QueryBlock &block = blocks_[index];
    const Products &products = products_[index];
    std::byte *scratch = pointer<std::byte>(Scratch) + worker * scratchBytes_;
    float *scores = reinterpret_cast<float *>(scratch);                   // s, then p
    float *dscores = reinterpret_cast<float *>(scratch + scoresBytes_);   // dp, then ds
    float *delta = reinterpret_cast<float *>(scratch + 2 * scoresBytes_); // rowsum(dout * out)
    uint64_t queries = queryOffset(batch, head, block.row), keys = keyOffset(batch, kvHead, block.column);
    float *dout = pointer<float>(DOut) + queries;
    bool good = products.scores->execute(worker, pointer<float>(Q) + queries, pointer<float>(K) + keys, scores);
    good &= products.dscores->execute(worker, dout, pointer<float>(V) + keys, dscores);

    int64_t rows = int64_t(block.rows), rowElements = int64_t(heads_ * dim_);
    void *dotBuffers[] = {dout, pointer<float>(Out) + queries, delta};
    int64_t dotScalars[] = {rowElements, rowElements, int64_t(dim_)};
    rowDot_(dotBuffers, dotScalars, 0, rows);
    void *gradBuffers[] = {scores, dscores, pointer<float>(Lse) + rowOffset(batch, head, block.row), delta};
    softmaxGrad_(gradBuffers, kernelScalars(block).data(), 0, rows);

    good &= products.spread->execute(worker, scores, dout, pointer<float>(DV) + keys);
    good &= products.mix->execute(worker, dscores, pointer<float>(K) + keys, pointer<float>(DQ) + queries);
    good &= products.spread->execute(worker, dscores, pointer<float>(Q) + queries, pointer<float>(DK) + keys);
    return good;
  }

  KernelFunction softmaxGrad_ = nullptr, rowDot_ = nullptr;
  std::vector<Products> products_; ///< by block
};

} // namespace

PreparedStep prepareHostAttention(const HostPrepare &from) {
  if (from.step.attention().grad()) {
    auto step = std::make_unique<HostAttentionGrad>(from.resources);
    ZTC_RETURN_IF_ERROR(step->prepare(from));
    return PreparedStep(std::move(step));
  }
  auto step = std::make_unique<HostAttention>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
