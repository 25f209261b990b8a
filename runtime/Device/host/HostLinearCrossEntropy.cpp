// The head and the loss, chunk by chunk: the logits of a few rows at a time, never all.
#include "runtime/Device/host/HostStep.h"
#include "runtime/Device/host/Product.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/ScratchSizes.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {
namespace {

/// Operands: hidden (T, D), head (V, D), targets (T), loss (groups), scratch; in training also scale, dhidden (T, D)
/// and, unless the head is frozen, dhead (V, D). hidden, head and dhidden may be bf16 or f16; then one more operand is
/// panels, and the service kernel has rounded the cotangents of the logits, which are f32 in scratch.
/// The last operand of a weighted loss is its rows' weights (T).
class HostLinearCrossEntropy : public HostStep {
public:
  explicit HostLinearCrossEntropy(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::LinearCrossEntropy &call = from.step.linear_cross_entropy();
    training_ = call.training();
    type_ = call.type();
    narrowType_ = narrowDataType(type_);
    if (!narrowType_ && type_ != plan::F32)
      return dataLoss(fmt::format("linear_cross_entropy of type {}", dataTypeName(type_)));
    isWeighted_ = call.weighted();
    const int last = (narrowType_ ? 1 : 0) + (isWeighted_ ? 1 : 0);
    trainsHead_ = training_ && from.step.operands_size() != 7 + last;
    const size_t operands = trainsHead_ ? 8 : training_ ? 7 : 5; // without panels and weights
    ZTC_RETURN_IF_ERROR(resolve(from, {int(operands) + last}));
    tokens_ = call.tokens();
    width_ = call.width();
    vocabulary_ = call.vocabulary();
    if (!tokens_ || !width_ || !vocabulary_)
      return dataLoss("linear_cross_entropy has an empty dimension");
    groups_ = std::max<uint64_t>(1, call.groups());
    if (tokens_ % groups_)
      return dataLoss(fmt::format("linear_cross_entropy with {} losses of {} rows", groups_, tokens_));
    chunk_ = std::min(std::max<uint64_t>(1, call.chunk()), tokens_);
    ld_ = scratchRowElements(vocabulary_);
    accumulate_ = call.accumulate();
    lossAccumulate_ = call.loss_accumulate();
    const uint64_t bytes = dataTypeBytes(type_);
    ZTC_RETURN_IF_ERROR(requireElements(from, Hidden, {tokens_, width_}, bytes));
    ZTC_RETURN_IF_ERROR(requireElements(from, Head, {vocabulary_, width_}, bytes));
    ZTC_RETURN_IF_ERROR(requireElements(from, Targets, {tokens_}));
    ZTC_RETURN_IF_ERROR(requireElements(from, Loss, {groups_}));
    ZTC_RETURN_IF_ERROR(require(from, Scratch, linearCrossEntropyScratchBytes(chunk_, vocabulary_)));
    if (training_) {
      ZTC_RETURN_IF_ERROR(requireElements(from, Scale, {1}));
      ZTC_RETURN_IF_ERROR(requireElements(from, DHidden, {tokens_, width_}, bytes));
    }
    if (trainsHead_)
      ZTC_RETURN_IF_ERROR(requireElements(from, DHead, {vocabulary_, width_}));
    weights_ = operands + (narrowType_ ? 1 : 0);
    if (isWeighted_)
      ZTC_RETURN_IF_ERROR(requireElements(from, weights_, {tokens_}));
    if (narrowType_) {
      panels_ = operands;
      panelBytes_ = linearCrossEntropyPanelBytes(chunk_, width_, vocabulary_);
      ZTC_RETURN_IF_ERROR(requireElements(from, panels_, {resources_.pool.threads(), panelBytes_}, 1));
    }
    ZTC_ASSIGN_OR_RETURN(rows_, resources_.kernels.find(call.rows_kernel()));
    ZTC_RETURN_IF_ERROR(prepareProducts(chunk_, whole_));
    uint64_t rest = tokens_ % chunk_;
    return rest ? prepareProducts(rest, rest_) : Status::ok();
  }

  Status execute(uint32_t microstep) override {
    const uint64_t groupRows = tokens_ / groups_;
    double loss = 0;
    bool addToHead = addsNow(accumulate_, microstep);
    for (uint64_t row = 0; row < tokens_; row += chunk_) {
      uint64_t rows = std::min(chunk_, tokens_ - row);
      runChunk(rows == chunk_ ? whole_ : rest_, row, rows, addToHead);
      addToHead = true;
      const float *losses = rowLosses();
      for (uint64_t i = 0; i < rows; ++i) {
        loss += losses[i];
        if ((row + i + 1) % groupRows)
          continue;
        float *result = pointer<float>(Loss) + (row + i) / groupRows;
        *result = addsNow(lossAccumulate_, microstep) ? float(double(*result) + loss) : float(loss);
        loss = 0;
      }
    }
    return Status::ok();
  }

private:
  enum Operands { Hidden, Head, Targets, Loss, Scratch, Scale, DHidden, DHead };

  /// The products of a chunk of `rows` rows.
  struct Products {
    Product logits;                   ///< hidden head^T
    Product dhidden;                  ///< dlogits head
    Product dheadOverwrite, dheadAdd; ///< dlogits^T hidden
  };

  Status prepareProducts(uint64_t rows, Products &products) {
    MatmulCache &cache = resources_.matmuls;
    narrowsLogits_ = narrowType_ && multipliesNatively(type_);
    const plan::DataType dlogitsType = narrowsLogits_ ? type_ : plan::F32;
    const uint64_t ldDLogits = narrowsLogits_ ? 2 * ld_ : ld_;
    MatmulProblem logits;
    logits.m = rows;
    logits.n = vocabulary_;
    logits.k = width_;
    logits.lda = width_;
    logits.ldb = width_;
    logits.ldc = ld_;
    logits.transposeB = true;
    logits.typeA = logits.typeB = type_;
    ZTC_ASSIGN_OR_RETURN(products.logits, Product::prepare(cache, logits));
    if (!training_)
      return Status::ok();
    MatmulProblem dhidden;
    dhidden.m = rows;
    dhidden.n = width_;
    dhidden.k = vocabulary_;
    dhidden.lda = ldDLogits;
    dhidden.ldb = width_;
    dhidden.ldc = width_;
    dhidden.typeA = dlogitsType;
    dhidden.typeB = dhidden.typeC = type_;
    ZTC_ASSIGN_OR_RETURN(products.dhidden, Product::prepare(cache, dhidden));
    if (!trainsHead_)
      return Status::ok();
    MatmulProblem dhead;
    dhead.m = vocabulary_;
    dhead.n = width_;
    dhead.k = rows;
    dhead.lda = ldDLogits;
    dhead.ldb = width_;
    dhead.ldc = width_;
    dhead.transposeA = true;
    dhead.typeA = dlogitsType;
    dhead.typeB = type_;
    ZTC_ASSIGN_OR_RETURN(products.dheadOverwrite, Product::prepare(cache, dhead));
    dhead.add = true;
    ZTC_ASSIGN_OR_RETURN(products.dheadAdd, Product::prepare(cache, dhead));
    return Status::ok();
  }

  float *logits() const { return pointer<float>(Scratch); }
  float *rowLosses() const {
    return reinterpret_cast<float *>(pointer<std::byte>(Scratch) + scratchBytes(chunk_ * ld_));
  }

  void runChunk(const Products &products, uint64_t row, uint64_t rows, bool addToHead) {
    ThreadPool &pool = resources_.pool;
    std::byte *panels = narrowType_ ? pointer<std::byte>(panels_) : nullptr;
    const uint64_t rowOffset = row * width_ * dataTypeBytes(type_);
    const std::byte *hidden = pointer<std::byte>(Hidden) + rowOffset;
    products.logits.execute(pool, hidden, pointer(Head), logits(), panels, panelBytes_);
    int32_t *targets = pointer<int32_t>(Targets) + row;
    float *weights = isWeighted_ ? pointer<float>(weights_) + row : nullptr;
    void *training[] = {logits(), targets, training_ ? pointer(Scale) : nullptr, rowLosses(), weights};
    void *lossOnly[] = {logits(), targets, rowLosses(), weights};
    int64_t scalars[] = {int64_t(ld_), int64_t(vocabulary_)};
    pool.parallelFor(rows, 1, [&](uint32_t, uint64_t begin, uint64_t end) {
      rows_(training_ ? training : lossOnly, scalars, int64_t(begin), int64_t(end));
      for (uint64_t r = begin; training_ && narrowsLogits_ && r < end; ++r) // in place, for products of that type
        narrow(reinterpret_cast<uint16_t *>(logits() + r * ld_), logits() + r * ld_, vocabulary_, *narrowType_);
    });
    if (!training_)
      return;
    products.dhidden.execute(pool, logits(), pointer(Head), pointer<std::byte>(DHidden) + rowOffset, panels,
                             panelBytes_);
    if (!trainsHead_)
      return;
    const Product &dhead = addToHead ? products.dheadAdd : products.dheadOverwrite;
    dhead.execute(pool, logits(), hidden, pointer(DHead), panels, panelBytes_);
  }

  plan::DataType type_ = plan::F32;
  std::optional<NarrowType> narrowType_; ///< type_, where it is narrow
  bool narrowsLogits_ = false;           ///< products take cotangents of the logits in type_
  size_t panels_ = 0, weights_ = 0;      ///< operands
  uint64_t panelBytes_ = 0;              ///< of each worker
  uint64_t tokens_ = 0, width_ = 0, vocabulary_ = 0, chunk_ = 0, groups_ = 1;
  uint64_t ld_ = 0; ///< elements between rows of logits
  bool training_ = false, trainsHead_ = false, isWeighted_ = false;
  plan::Accumulate accumulate_ = plan::OVERWRITE, lossAccumulate_ = plan::OVERWRITE;
  KernelFunction rows_ = nullptr;
  Products whole_, rest_;
};

} // namespace

PreparedStep prepareHostLinearCrossEntropy(const HostPrepare &from) {
  auto step = std::make_unique<HostLinearCrossEntropy>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
