// The head and the loss, chunk by chunk: the logits of many rows at a time, seldom all.
#include "runtime/Device/cuda/CudaProduct.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/ScratchSizes.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {
namespace {

/// Operands: hidden (T, D), head (V, D), targets (T), loss (groups), scratch; in training also scale, dhidden (T, D)
/// and, unless the head is frozen, dhead (V, D). hidden, head, dhidden and the logits may be bf16 or f16; then one more
/// operand is the products' workspace. The kernel of the rows leaves cotangents where the logits stood, in their type.
/// The last operand of a weighted loss is its rows' weights (T).
class CudaLinearCrossEntropy : public CudaStep {
public:
  explicit CudaLinearCrossEntropy(const CudaPrepare &from) : CudaStep(from) {}

  Status prepare(const CudaPrepare &from) {
    const plan::LinearCrossEntropy &call = from.step.linear_cross_entropy();
    training_ = call.training();
    type_ = call.type();
    isNarrow_ = narrowDataType(type_).has_value();
    if (!isNarrow_ && type_ != plan::F32)
      return dataLoss(fmt::format("linear_cross_entropy of type {}", dataTypeName(type_)));
    isWeighted_ = call.weighted();
    const int last = (isNarrow_ ? 1 : 0) + (isWeighted_ ? 1 : 0);
    trainsHead_ = training_ && from.step.operands_size() != 7 + last;
    const size_t operands = trainsHead_ ? 8 : training_ ? 7 : 5; // without workspace and weights
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {int(operands) + last}));
    tokens_ = call.tokens();
    width_ = call.width();
    vocabulary_ = call.vocabulary();
    if (!tokens_ || !width_ || !vocabulary_)
      return dataLoss("linear_cross_entropy has an empty dimension");
    groups_ = std::max<uint64_t>(1, call.groups());
    if (tokens_ % groups_)
      return dataLoss(fmt::format("linear_cross_entropy with {} losses of {} rows", groups_, tokens_));
    chunk_ = std::min(std::max<uint64_t>(1, call.gpu_chunk()), tokens_);
    accumulate_ = call.accumulate();
    lossAccumulate_ = call.loss_accumulate();
    rowBytes_ = width_ * dataTypeBytes(type_);
    ZTC_RETURN_IF_ERROR(operands_.requireElements(Hidden, {tokens_, rowBytes_}, 1));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(Head, {vocabulary_, rowBytes_}, 1));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(Targets, {tokens_}));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(Loss, {groups_}));
    stride_ = gpuLogitStride(vocabulary_);
    ZTC_RETURN_IF_ERROR(operands_.require(
        Scratch, gpuLinearCrossEntropyScratchBytes(chunk_, tokens_, vocabulary_, dataTypeBytes(type_))));
    if (training_) {
      ZTC_RETURN_IF_ERROR(operands_.requireElements(Scale, {1}));
      ZTC_RETURN_IF_ERROR(operands_.requireElements(DHidden, {tokens_, rowBytes_}, 1));
    }
    if (trainsHead_)
      ZTC_RETURN_IF_ERROR(operands_.requireElements(DHead, {vocabulary_, width_}));
    ZTC_RETURN_IF_ERROR(requireAligned());
    ZTC_ASSIGN_OR_RETURN(const std::vector<CudaKernel> kernels, gpuKernels(call.gpu_kernels(), 2));
    rows_ = kernels[0];
    lossSum_ = kernels[1];
    workspace_ = operands;
    weights_ = operands + (isNarrow_ ? 1 : 0);
    if (isWeighted_)
      ZTC_RETURN_IF_ERROR(operands_.requireElements(weights_, {tokens_}));
    ZTC_RETURN_IF_ERROR(prepareProducts(chunk_, whole_));
    const uint64_t rest = tokens_ % chunk_;
    return rest ? prepareProducts(rest, rest_) : Status::ok();
  }

  Status execute(uint32_t microstep) override {
    bool addToHead = addsNow(accumulate_, microstep);
    for (uint64_t row = 0; row < tokens_; row += chunk_) {
      const uint64_t rows = std::min(chunk_, tokens_ - row);
      ZTC_RETURN_IF_ERROR(runChunk(rows == chunk_ ? whole_ : rest_, row, rows, addToHead));
      addToHead = true;
    }
    const uint64_t rows = tokens_ / groups_;
    for (uint64_t group = 0; group < groups_; ++group)
      ZTC_RETURN_IF_ERROR(launch(lossSum_,
                                 {losses() + group * rows * sizeof(float), address(Loss) + group * sizeof(float), rows,
                                  addsNow(lossAccumulate_, microstep)},
                                 1));
    return Status::ok();
  }

private:
  enum Operands { Hidden, Head, Targets, Loss, Scratch, Scale, DHidden, DHead };

  /// The products of a chunk of `rows` rows.
  struct Products {
    CudaProduct logits;  ///< hidden head^T
    CudaProduct dhidden; ///< dlogits head
    CudaProduct dhead;   ///< dlogits^T hidden
  };

  Status prepareProducts(uint64_t rows, Products &products) {
    // What holds for the first row of every chunk.
    const uint64_t chunkBytes = chunk_ < tokens_ ? chunk_ * rowBytes_ : 0;
    const auto alignment = [&](Operands operand, uint64_t stride) {
      return std::min(productAlignment(operands_.offset(operand)), productAlignment(stride));
    };
    CudaProductShape logits;
    logits.m = rows, logits.n = vocabulary_, logits.k = width_;
    logits.lda = width_, logits.ldb = width_, logits.ldc = stride_;
    logits.transposeB = true;
    logits.typeA = logits.typeC = type_;
    logits.alignA = alignment(Hidden, chunkBytes);
    logits.alignB = alignment(Head, 0);
    logits.alignC = alignment(Scratch, 0);
    logits.workspaceBytes = isNarrow_ ? operands_.bytes(workspace_) : 0;
    ZTC_RETURN_IF_ERROR(products.logits.prepare(resources_, logits));
    if (!training_)
      return Status::ok();
    CudaProductShape dhidden;
    dhidden.m = rows, dhidden.n = width_, dhidden.k = vocabulary_;
    dhidden.lda = stride_, dhidden.ldb = width_, dhidden.ldc = width_;
    dhidden.typeA = dhidden.typeC = type_;
    dhidden.alignA = logits.alignC;
    dhidden.alignB = logits.alignB;
    dhidden.alignC = alignment(DHidden, chunkBytes);
    dhidden.workspaceBytes = logits.workspaceBytes;
    ZTC_RETURN_IF_ERROR(products.dhidden.prepare(resources_, dhidden));
    if (!trainsHead_)
      return Status::ok();
    CudaProductShape dhead;
    dhead.m = vocabulary_, dhead.n = width_, dhead.k = rows;
    dhead.lda = stride_, dhead.ldb = width_, dhead.ldc = width_;
    dhead.transposeA = true;
    dhead.typeA = type_;
    dhead.adds = chunk_ < tokens_ || accumulate_ != plan::OVERWRITE;
    dhead.alignA = logits.alignC;
    dhead.alignB = logits.alignA;
    dhead.alignC = alignment(DHead, 0);
    dhead.workspaceBytes = logits.workspaceBytes;
    return products.dhead.prepare(resources_, dhead);
  }

  /// One float a token, after the logits.
  cuda::Address losses() const { return address(Scratch) + gpuLogitBytes(chunk_, vocabulary_, dataTypeBytes(type_)); }

  Status runChunk(const Products &products, uint64_t row, uint64_t rows, bool addToHead) {
    const std::byte *hidden = operands_.address(Hidden) + row * rowBytes_, *head = operands_.address(Head);
    std::byte *logits = operands_.address(Scratch), *workspace = isNarrow_ ? operands_.address(workspace_) : nullptr;
    ZTC_RETURN_IF_ERROR(products.logits.execute(stream_, {hidden, head, logits, workspace}, 0));
    const cuda::Address targets = address(Targets) + row * sizeof(int32_t), loss = losses() + row * sizeof(float);
    const cuda::Address weights = isWeighted_ ? address(weights_) + row * sizeof(float) : 0;
    if (!training_)
      return isWeighted_ ? launch(rows_, {address(Scratch), targets, loss, weights, vocabulary_}, rows)
                         : launch(rows_, {address(Scratch), targets, loss, vocabulary_}, rows);
    ZTC_RETURN_IF_ERROR(
        isWeighted_ ? launch(rows_, {address(Scratch), targets, address(Scale), loss, weights, vocabulary_}, rows)
                    : launch(rows_, {address(Scratch), targets, address(Scale), loss, vocabulary_}, rows));
    ZTC_RETURN_IF_ERROR(
        products.dhidden.execute(stream_, {logits, head, operands_.address(DHidden) + row * rowBytes_, workspace}, 0));
    if (!trainsHead_)
      return Status::ok();
    return products.dhead.execute(stream_, {logits, hidden, operands_.address(DHead), workspace}, addToHead ? 1 : 0);
  }

  plan::DataType type_ = plan::F32;
  bool isNarrow_ = false, training_ = false, trainsHead_ = false, isWeighted_ = false;
  size_t workspace_ = 0; ///< operand, where narrow
  size_t weights_ = 0;   ///< operand, where weighted
  uint64_t tokens_ = 0, width_ = 0, vocabulary_ = 0, chunk_ = 0, groups_ = 1;
  uint64_t rowBytes_ = 0; ///< of hidden and head
  uint64_t stride_ = 0;   ///< elements between rows of logits
  plan::Accumulate accumulate_ = plan::OVERWRITE, lossAccumulate_ = plan::OVERWRITE;
  CudaKernel rows_, lossSum_;
  Products whole_, rest_;
};

} // namespace

PreparedStep prepareCudaLinearCrossEntropy(const CudaPrepare &from) {
  auto step = std::make_unique<CudaLinearCrossEntropy>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
