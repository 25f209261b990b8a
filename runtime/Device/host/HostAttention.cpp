// Attention and its gradient: blocks of query rows, scores up to the diagonal, no (S, S) tensor.
#include "runtime/Device/host/HostAttentionStep.h"
#include <cstring>

namespace ztc {
namespace {

/// out = softmax(scale q k^T) v, and lse. Operands: q, k, v, out, lse, scratch, and of packed rows starts. One task is
/// a (batch, head, block).
class HostAttention : public HostAttentionStep {
public:
  explicit HostAttention(HostResources &resources) : HostAttentionStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::Attention &attention = from.step.attention();
    ZTC_RETURN_IF_ERROR(prepareShape(from));
    ZTC_RETURN_IF_ERROR(resolve(from, {packed_ ? 7 : 6}));
    for (size_t index : {Q, Out})
      ZTC_RETURN_IF_ERROR(requireElements(from, index, {batch_, seq_, heads_, dim_}));
    for (size_t index : {K, V})
      ZTC_RETURN_IF_ERROR(requireElements(from, index, {batch_, seq_, kvHeads_, dim_}));
    ZTC_RETURN_IF_ERROR(requireElements(from, Lse, {batch_, heads_, seq_}));
    uint32_t workers = resources_.pool.threads();
    ZTC_RETURN_IF_ERROR(requireElements(from, Scratch, {workers, scratchBytes_}, 1));
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
    // Later blocks see more columns and cost more.
    resources_.pool.forEach(tasks(), [&](uint32_t worker, uint64_t number) { run(worker, task(number)); });
    return Status::ok();
  }

private:
  enum Operands { Q, K, V, Out, Lse, Scratch, Starts };
  struct Products {
    MatmulProblem scores, mix;
  };
  Products productsOf(const QueryBlock &block) const {
    const RowLayout queries = queryLayout(plan::F32), keys = keyLayout(plan::F32), scores{plan::F32, ld_};
    return {masked(scoresProblem(block, scale_, queries, keys), block, Causal::Scores),
            masked(mixProblem(block, scores, keys, queries), block, Causal::Left)};
  }

  void run(uint32_t worker, const Task &task) const {
    const auto &[batch, head, block] = task;
    const Products products = productsOf(block);
    uint64_t kvHead = head / (heads_ / kvHeads_);
    std::byte *scratch = pointer<std::byte>(Scratch) + worker * scratchBytes_;
    float *scores = reinterpret_cast<float *>(scratch);
    float *lse = pointer<float>(Lse) + rowOffset(batch, head, block.row);
    uint64_t queries = queryOffset(batch, head, block.row), keys = keyOffset(batch, kvHead, block.column);
    multiply(worker, products.scores, pointer<float>(Q) + queries, pointer<float>(K) + keys, scores);
    void *buffers[] = {scores, lse};
    softmax_(buffers, kernelScalars(block).data(), 0, int64_t(block.rows));
    multiply(worker, products.mix, scores, pointer<float>(V) + keys, pointer<float>(Out) + queries);
  }

  KernelFunction softmax_ = nullptr;
};

/// Operands: q, k, v, out, lse, dout, dq, dk, dv, scratch, and of packed rows starts. One task is a (batch, key/value
/// head): its dk and dv have one writer, who adds block after block, head after head of the group.
class HostAttentionGrad : public HostAttentionStep {
public:
  explicit HostAttentionGrad(HostResources &resources) : HostAttentionStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::Attention &attention = from.step.attention();
    ZTC_RETURN_IF_ERROR(prepareShape(from));
    ZTC_RETURN_IF_ERROR(resolve(from, {packed_ ? 11 : 10}));
    for (size_t index : {Q, Out, DOut, DQ})
      ZTC_RETURN_IF_ERROR(requireElements(from, index, {batch_, seq_, heads_, dim_}));
    for (size_t index : {K, V, DK, DV})
      ZTC_RETURN_IF_ERROR(requireElements(from, index, {batch_, seq_, kvHeads_, dim_}));
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
    const RowLayout queries = queryLayout(plan::F32), keys = keyLayout(plan::F32), scores{plan::F32, ld_};
    return {masked(scoresProblem(block, scale_, queries, keys), block, Causal::Scores),
            masked(scoresProblem(block, 1, queries, keys), block, Causal::Scores),
            masked(mixProblem(block, scores, keys, queries), block, Causal::Left),
            masked(spreadProblem(block, scores, queries, keys), block, Causal::LeftTransposed)};
  }

  void run(uint32_t worker, uint64_t batch, uint64_t kvHead) const {
    for (uint64_t position = 0; position < seq_; ++position) {
      uint64_t at = keyOffset(batch, kvHead, position);
      std::memset(pointer<float>(DK) + at, 0, dim_ * sizeof(float));
      std::memset(pointer<float>(DV) + at, 0, dim_ * sizeof(float));
    }
    uint64_t group = heads_ / kvHeads_;
    for (uint64_t head = kvHead * group; head < (kvHead + 1) * group; ++head)
      for (const QueryBlock &block : blocksOf(batch))
        runBlock(worker, batch, head, kvHead, block);
  }

  void runBlock(uint32_t worker, uint64_t batch, uint64_t head, uint64_t kvHead, const QueryBlock &block) const {
    const Products products = productsOf(block);
    std::byte *scratch = pointer<std::byte>(Scratch) + worker * scratchBytes_;
    float *scores = reinterpret_cast<float *>(scratch);                   // s, then p
    float *dscores = reinterpret_cast<float *>(scratch + scoresBytes_);   // dp, then ds
    float *delta = reinterpret_cast<float *>(scratch + 2 * scoresBytes_); // rowsum(dout * out)
    uint64_t queries = queryOffset(batch, head, block.row), keys = keyOffset(batch, kvHead, block.column);
    float *dout = pointer<float>(DOut) + queries;
    multiply(worker, products.scores, pointer<float>(Q) + queries, pointer<float>(K) + keys, scores);
    multiply(worker, products.dscores, dout, pointer<float>(V) + keys, dscores);

    int64_t rows = int64_t(block.rows), rowElements = int64_t(heads_ * dim_);
    void *dotBuffers[] = {dout, pointer<float>(Out) + queries, delta};
    int64_t dotScalars[] = {rowElements, rowElements, int64_t(dim_)};
    rowDot_(dotBuffers, dotScalars, 0, rows);
    void *gradBuffers[] = {scores, dscores, pointer<float>(Lse) + rowOffset(batch, head, block.row), delta};
    softmaxGrad_(gradBuffers, kernelScalars(block).data(), 0, rows);

    multiply(worker, products.spread, scores, dout, pointer<float>(DV) + keys);
    multiply(worker, products.mix, dscores, pointer<float>(K) + keys, pointer<float>(DQ) + queries);
    multiply(worker, products.spread, dscores, pointer<float>(Q) + queries, pointer<float>(DK) + keys);
  }

  KernelFunction softmaxGrad_ = nullptr, rowDot_ = nullptr;
};

} // namespace

PreparedStep prepareHostAttention(const HostPrepare &from) {
  if (from.step.attention().type() != plan::F32)
    return prepareHostNarrowAttention(from);
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
