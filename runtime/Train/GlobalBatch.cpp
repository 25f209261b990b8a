#include "runtime/Train/GlobalBatch.h"
#include <algorithm>

namespace ztc {

GlobalBatch::GlobalBatch(uint64_t microBatches, uint64_t batch, uint64_t seq, RowShare share, bool isWeighted)
    : microBatches_(microBatches), batch_(batch), seq_(seq), share_(share), tokens_(microBatches * batch * seq),
      targets_(microBatches * batch * seq), starts_(microBatches * batch * seq),
      weights_(isWeighted ? microBatches * batch * seq : 0) {}

std::span<const int32_t> GlobalBatch::tokens(uint64_t microBatch) const {
  return std::span(tokens_).subspan(microBatch * batch_ * seq_, batch_ * seq_);
}

std::span<const int32_t> GlobalBatch::targets(uint64_t microBatch) const {
  return std::span(targets_).subspan(microBatch * batch_ * seq_, batch_ * seq_);
}

std::span<const int32_t> GlobalBatch::documentStarts(uint64_t microBatch) const {
  return std::span(starts_).subspan(microBatch * batch_ * seq_, batch_ * seq_);
}

std::span<const float> GlobalBatch::weights(uint64_t microBatch) const {
  return weights_.empty() ? std::span<const float>()
                          : std::span(weights_).subspan(microBatch * batch_ * seq_, batch_ * seq_);
}

Status GlobalBatch::readRow(RowSource &source, uint64_t row, uint64_t index) {
  auto targets = std::span(targets_).subspan(row * seq_, seq_);
  ZTC_RETURN_IF_ERROR(source.readDocuments(index, std::span(tokens_).subspan(row * seq_, seq_), targets,
                                           std::span(starts_).subspan(row * seq_, seq_)));
  if (weights_.empty())
    return Status::ok();
  auto weights = std::span(weights_).subspan(row * seq_, seq_);
  ZTC_RETURN_IF_ERROR(source.readWeights(index, weights));
  for (uint64_t t = 0; t < seq_; ++t)
    if (weights[t] == 0)
      targets[t] = -1;
    else if (targets[t] >= 0)
      weightSum_.add(weights[t]);
  return Status::ok();
}

Status GlobalBatch::fill(RowSource &source, uint64_t first, uint64_t available) {
  counted_ = unpadded_ = 0;
  weightSum_ = {};
  std::ranges::fill(starts_, 0);
  std::ranges::fill(weights_, 1.0f);
  const uint64_t longest = source.documentBounds().longest;
  for (uint64_t row = 0; row < microBatches_ * batch_; ++row) {
    auto tokens = std::span(tokens_).subspan(row * seq_, seq_);
    auto targets = std::span(targets_).subspan(row * seq_, seq_);
    const uint64_t place = (row / batch_ * share_.world + share_.rank) * batch_ + row % batch_;
    if (place < available) {
      if (Status status = readRow(source, row, first + place); !status.isOk()) {
        std::ranges::fill(tokens_, 0);
        std::ranges::fill(targets_, -1);
        std::ranges::fill(starts_, 0);
        std::ranges::fill(weights_, 1.0f);
        counted_ = unpadded_ = 0;
        weightSum_ = {};
        return status;
      }
    } else {
      std::ranges::fill(tokens, 0);
      std::ranges::fill(targets, -1);
      // No document is longer than those of the data: what attention was prepared for.
      for (uint64_t i = 0; longest && i < seq_; ++i)
        starts_[row * seq_ + i] = int32_t(i / longest * longest);
    }
    const auto counts = [](int32_t target) { return target >= 0; };
    counted_ += uint64_t(std::ranges::count_if(targets, counts));
    const auto last = uint64_t(targets.rend() - std::find_if(targets.rbegin(), targets.rend(), counts));
    unpadded_ += last + 1 == seq_ ? seq_ : last; // a row of one document has no target for its last token
  }
  if (weights_.empty())
    weightSum_.add(counted_);
  return Status::ok();
}

} // namespace ztc
