#include "compiler/Report/Choices.h"
#include "runtime/Core/Sizes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using llvm::formatv;
using llvm::raw_ostream;

namespace ztc::report {

/// What a method is, for people.
static std::string methodText(TrainingMethod method) {
  if (method == TrainingMethod::Lora)
    return "LoRA: low-rank adapters beside a frozen model";
  return method == TrainingMethod::Qlora ? "QLoRA: the same beside a model in 4 bits" : "full: every weight is trained";
}

static std::string shortName(const TrainingChoice &choice) {
  return wordOf(choice.method) + (choice.changes.empty() ? "" : " (" + llvm::join(choice.changes, ", ") + ")");
}

static std::string groupOf(const TrainingChoice &choice) {
  return methodText(choice.method) +
         (choice.changes.empty() ? "" : "; other numbers: " + llvm::join(choice.changes, ", "));
}

void ChoiceTable::printText(raw_ostream &out) const {
  out << formatv(
      "{0} on {1}: {2} a rank, {3} of it for the driver and its libraries; {4}, {5} rows of {6} tokens a step\n", model,
      device, formatSize(availableBytes), formatSize(reserveBytes), precision, globalBatch, sequence);
  std::string group;
  for (const auto &[index, row] : llvm::enumerate(choices)) {
    if (groupOf(row) != group) {
      group = groupOf(row);
      out << "\n"
          << group << "\n ranks  zero  batch     M        peak bytes       left    tokens/s    s/step  recomputed\n";
    }
    out << formatv("{0,6} {1,5} {2,6} {3,5} {4,17} {5,10} {6,11} {7,9:F3}  {8}{9}\n", row.world, row.stage, row.batch,
                   row.accumulate, row.peakBytes, formatSize(row.availableBytes - row.neededBytes),
                   formatv("{0:N}", uint64_t(row.tokensPerSecond())).str(), row.seconds, row.recomputed,
                   llvm::is_contained(recommended, index) ? "  <-" : "");
  }
  if (!missing.empty())
    out << "\nwhat does not fit, with everything computed again that saves memory\n";
  for (const MissingMemory &each : missing) {
    const TrainingChoice &row = each.smallest;
    out << formatv("  {0} on {1} {2}, --zero={3} --batch={4}: {5} with the reserve, {6} bytes too much{7}\n",
                   shortName(row), row.world, row.world == 1 ? "rank" : "ranks", row.stage, row.batch,
                   formatSize(row.neededBytes), row.neededBytes - row.availableBytes,
                   each.help.empty() ? "" : "; " + each.help);
  }
  for (size_t index : recommended) {
    const TrainingChoice &row = choices[index];
    out << formatv("\non {0} {1}, {2}:\n  {3}\n  {4}\n", row.world, row.world == 1 ? "rank" : "ranks", shortName(row),
                   row.compile, row.run);
    if (row.longest)
      out << formatv("  with these settings rows of up to {0} tokens fit\n", *row.longest);
  }
  out << "\nBytes are what will be allocated; seconds are a model's, for comparing rows of this table: "
      << (errorSeen.empty() ? "no run has confirmed them on this device" : errorSeen) << "\n";
}

static void addChoice(llvm::json::OStream &json, const TrainingChoice &row) {
  json.attribute("method", wordOf(row.method));
  json.attributeArray("changes", [&] {
    for (const std::string &change : row.changes)
      json.value(change);
  });
  json.attribute("gpus", int64_t(row.world));
  json.attribute("zero", int64_t(row.stage));
  json.attribute("batch", int64_t(row.batch));
  json.attribute("accumulate", int64_t(row.accumulate));
  json.attribute("sequence", int64_t(row.sequence));
  json.attribute("recomputed", row.recomputed);
  json.attribute("peak_bytes", int64_t(row.peakBytes));
  json.attribute("needed_bytes", int64_t(row.neededBytes));
  json.attribute("available_bytes", int64_t(row.availableBytes));
  json.attribute("fits", row.fits());
  json.attribute("cost_model_seconds", row.seconds);
  json.attribute("tokens_per_second", row.tokensPerSecond());
  json.attribute("seconds_per_token", 1 / row.tokensPerSecond());
  json.attribute("compile", row.compile);
  json.attribute("run", row.run);
  if (row.longest)
    json.attribute("longest_sequence", int64_t(*row.longest));
}

void ChoiceTable::printJson(raw_ostream &out) const {
  llvm::json::OStream json(out);
  json.object([&] {
    json.attribute("model", model);
    json.attribute("device", device);
    json.attribute("precision", precision);
    json.attribute("available_bytes", int64_t(availableBytes));
    json.attribute("reserved_bytes", int64_t(reserveBytes));
    json.attribute("global_batch", int64_t(globalBatch));
    json.attribute("sequence", int64_t(sequence));
    json.attributeArray("choices", [&] {
      for (const auto &[index, row] : llvm::enumerate(choices))
        json.object([&] {
          addChoice(json, row);
          json.attribute("recommended", llvm::is_contained(recommended, index));
        });
    });
    json.attributeArray("missing", [&] {
      for (const MissingMemory &each : missing)
        json.object([&] {
          addChoice(json, each.smallest);
          json.attribute("missing_bytes", int64_t(each.smallest.neededBytes - each.smallest.availableBytes));
          json.attribute("help", each.help);
        });
    });
  });
  out << "\n";
}

} // namespace ztc::report
