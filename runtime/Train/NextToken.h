// What generation asks of a model: the logits of the token that comes next, for some texts at a time.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Executor/Executor.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ztc {

/// A model as generation sees it. Whether it computes a whole row for each token, or keeps keys and values of what it
/// has seen, is its own affair.
class NextTokenModel {
public:
  virtual ~NextTokenModel() = default;
  /// Texts that are served together, at least one.
  virtual uint64_t batch() const = 0;
  virtual uint64_t vocabulary() const = 0;
  /// Writes the logits (V) that follow the last token of each text, one after another: (texts, V). A text keeps its
  /// place in `texts` until it ends: from call to call it grows at its end, or the place is empty (its logits are left
  /// as they are), or another text's. All ranks call this alike.
  virtual Status logits(std::span<const std::vector<int32_t>> texts, std::span<float> logits) = 0;
};

/// By program `generate`, a forward pass over the last S tokens of as many texts as the plan's batch has rows, for each
/// token; or, where the plan has them, by `decode` (one text) or `decode_rows` (all), one row of a text, for each token
/// after its first. Plan and executor outlive the result. InvalidArgument where the plan lacks the program.
StatusOr<std::unique_ptr<NextTokenModel>> createForwardModel(const plan::Plan &plan, Executor &executor);

} // namespace ztc
