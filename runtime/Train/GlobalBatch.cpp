#include "runtime/Train/GlobalBatch.h"
#include <algorithm>

namespace ztc {

GlobalBatch::GlobalBatch(uint64_t microBatches, uint64_t batch, uint64_t seq, RowShare share)
    : microBatches_(microBatches), batch_(batch), seq_(seq), share_(share), tokens_(microBatches * batch * seq),
      targets_(microBatches * batch * seq), starts_(microBatches * batch * seq) {}

std::span<const int32_t> GlobalBatch::tokens(uint64_t microBatch) const {
  return std::span(tokens_).subspan(microBatch * batch_ * seq_, batch_ * seq_);
}

std::span<const int32_t> GlobalBatch::targets(uint64_t microBatch) const {
  return std::span(targets_).subspan(microBatch * batch_ * seq_, batch_ * seq_);
}

std::span<const int32_t> GlobalBatch::documentStarts(uint64_t microBatch) const {
  return std::span(starts_).subspan(microBatch * batch_ * seq_, batch_ * seq_);
}

Status GlobalBatch::fill(RowSource &source, uint64_t first, uint64_t available) {
  counted_ = unpadded_ = 0;
  std::ranges::fill(starts_, 0);
  for (uint64_t row = 0; row < microBatches_ * batch_; ++row) {
    auto tokens = std::span(tokens_).subspan(row * seq_, seq_);
    auto targets = std::span(targets_).subspan(row * seq_, seq_);
    const uint64_t place = (row / batch_ * share_.world + share_.rank) * batch_ + row % batch_;
    if (place < available) {
      if (Status status =
              source.readDocuments(first + place, tokens, targets, std::span(starts_).subspan(row * seq_, seq_));
          !status.isOk()) {
        std::ranges::fill(tokens_, 0);
        std::ranges::fill(targets_, -1);
        std::ranges::fill(starts_, 0);
        counted_ = unpadded_ = 0;
        return status;
      }
    } else {
      std::ranges::fill(tokens, 0);
      std::ranges::fill(targets, -1);
    }
    const auto counts = [](int32_t target) { return target >= 0; };
    counted_ += uint64_t(std::ranges::count_if(targets, counts));
    const auto last = uint64_t(targets.rend() - std::find_if(targets.rbegin(), targets.rend(), counts));
    unpadded_ += last + 1 == seq_ ? seq_ : last; // a row of one document has no target for its last token
  }
  return Status::ok();
}

} // namespace ztc
