#include "runtime/Train/Generate.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Train/Signals.h"
#include <algorithm>
#include <vector>

namespace ztc {

namespace {

/// Tokens that stand for a byte; a larger vocabulary has tokens that cannot be printed.
constexpr uint64_t kByteTokens = 256;

} // namespace

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

StatusOr<bool> generateText(const plan::Plan &plan, Executor &executor, ControlChannel &control,
                            std::string_view prompt, uint64_t count, const std::function<void(char)> &emit) {
  const plan::Bindings &b = plan.bindings();
  if (!executor.hasProgram("generate") || b.position() == kAbsent || b.logits() == kAbsent)
    return invalidArgument("the plan has no program generate: compile it again to use --generate");
  uint64_t seq = plan.model().seq();
  uint64_t vocabulary = plan.model().vocabulary();
  prompt = prompt.substr(prompt.size() - std::min<uint64_t>(prompt.size(), seq));
  std::vector<int32_t> tokens(plan.model().batch() * seq, 0); // (B, S), the text in row 0
  for (size_t i = 0; i < prompt.size(); ++i) {
    tokens[i] = int32_t(static_cast<unsigned char>(prompt[i]));
    if (uint64_t(tokens[i]) >= vocabulary)
      return invalidArgument("--prompt: byte " + std::to_string(tokens[i]) + " is beyond the model's vocabulary of " +
                             std::to_string(vocabulary));
  }
  std::vector<float> logits(vocabulary);
  uint64_t filled = prompt.size();
  for (uint64_t i = 0; i < count; ++i) {
    auto position = int32_t(filled - 1);
    ZTC_RETURN_IF_ERROR(executor.writeSlot(b.tokens(), 0, tokens.data(), tokens.size() * sizeof(int32_t)));
    ZTC_RETURN_IF_ERROR(executor.writeSlot(b.position(), 0, &position, sizeof position));
    ZTC_RETURN_IF_ERROR(executor.execute("generate"));
    ZTC_RETURN_IF_ERROR(readLogits(plan, executor, logits));
    auto end = logits.begin() + int64_t(std::min(vocabulary, kByteTokens));
    auto likeliest = int32_t(std::max_element(logits.begin(), end) - logits.begin());
    ZTC_ASSIGN_OR_RETURN(const std::vector<int32_t> all,
                         allGatherValue(control, "next token", stopSignal() == 0 ? likeliest : -1));
    const int32_t next = all[0];
    if (next < 0)
      return false;
    emit(char(next));
    if (filled == seq) {
      std::copy(tokens.begin() + 1, tokens.begin() + int64_t(seq), tokens.begin());
      --filled;
    }
    tokens[filled++] = next;
  }
  return true;
}

} // namespace ztc
