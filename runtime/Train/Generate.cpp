#include "runtime/Train/Generate.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Train/Sampling.h"
#include "runtime/Train/Signals.h"
#include <algorithm>
#include <vector>

namespace ztc {

StatusOr<std::vector<int32_t>> tokensOfBytes(std::string_view text, uint64_t vocabulary) {
  std::vector<int32_t> tokens;
  for (const char c : text) {
    tokens.push_back(int32_t(static_cast<unsigned char>(c)));
    if (uint64_t(tokens.back()) >= vocabulary)
      return invalidArgument("--prompt: byte " + std::to_string(tokens.back()) +
                             " is beyond the model's vocabulary of " + std::to_string(vocabulary));
  }
  return StatusOr<std::vector<int32_t>>(std::move(tokens));
}

/// One position's logits, whatever their type.
static Status readLogits(const plan::Plan &plan, Executor &executor, std::vector<float> &logits) {
  const uint32_t slot = plan.bindings().logits();
  const std::optional<NarrowType> narrowType = narrowDataType(plan.slots(int(slot)).type());
  if (!narrowType)
    return executor.readSlot(slot, 0, logits.data(), logits.size() * sizeof(float));
  std::vector<uint16_t> bits(logits.size());
  ZTC_RETURN_IF_ERROR(executor.readSlot(slot, 0, bits.data(), bits.size() * sizeof(uint16_t)));
  widen(logits.data(), bits.data(), bits.size(), *narrowType);
  return Status::ok();
}

StatusOr<bool> generateTokens(const plan::Plan &plan, Executor &executor, ControlChannel &control,
                              const Continuation &text) {
  const plan::Bindings &b = plan.bindings();
  if (!executor.hasProgram("generate") || b.position() == kAbsent || b.logits() == kAbsent)
    return invalidArgument("the plan has no program generate: compile it again to use --generate");
  const uint64_t seq = plan.model().seq(), vocabulary = plan.model().vocabulary();
  const size_t dropped = text.tokens.size() - std::min<uint64_t>(text.tokens.size(), seq);
  std::vector<int32_t> tokens(plan.model().batch() * seq, 0); // (B, S), the text in row 0
  std::copy(text.tokens.begin() + int64_t(dropped), text.tokens.end(), tokens.begin());
  std::vector<float> logits(vocabulary);
  uint64_t filled = text.tokens.size() - dropped;
  for (uint64_t i = 0; i < text.count; ++i) {
    auto position = int32_t(filled - 1);
    ZTC_RETURN_IF_ERROR(executor.writeSlot(b.tokens(), 0, tokens.data(), tokens.size() * sizeof(int32_t)));
    ZTC_RETURN_IF_ERROR(executor.writeSlot(b.position(), 0, &position, sizeof position));
    ZTC_RETURN_IF_ERROR(executor.execute("generate"));
    ZTC_RETURN_IF_ERROR(readLogits(plan, executor, logits));
    const int32_t mine = stopSignal() == 0 ? text.choose(logits, i) : -1;
    ZTC_ASSIGN_OR_RETURN(const std::vector<int32_t> all, allGatherValue(control, "next token", mine));
    const int32_t next = all[0];
    if (next < 0)
      return false;
    if (std::ranges::find(text.stops, next) != text.stops.end())
      break;
    ZTC_RETURN_IF_ERROR(text.emit(next));
    if (filled == seq) {
      std::copy(tokens.begin() + 1, tokens.begin() + int64_t(seq), tokens.begin());
      --filled;
    }
    tokens[filled++] = next;
  }
  return true;
}

StatusOr<bool> generateText(const plan::Plan &plan, Executor &executor, ControlChannel &control,
                            std::string_view prompt, uint64_t count, const std::function<void(char)> &emit) {
  ZTC_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokensOfBytes(prompt, plan.model().vocabulary()));
  const auto choose = [](std::span<const float> logits, uint64_t place) {
    return chooseToken(logits.first(std::min<size_t>(logits.size(), kByteTokens)), {}, 0, place);
  };
  const auto emitByte = [&](int32_t token) {
    emit(char(token));
    return Status::ok();
  };
  return generateTokens(plan, executor, control,
                        {.tokens = std::move(tokens), .count = count, .choose = choose, .emit = emitByte});
}

} // namespace ztc
