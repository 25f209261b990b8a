#include "compiler/Report/Choices.h"
#include "runtime/Core/Sizes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <cmath>

using llvm::formatv;
using llvm::raw_ostream;

namespace ztc::report {

/// What a method is, for people.
static std::string methodText(TrainingMethod method) {
  if (method == TrainingMethod::Lora)
    return "LoRA: low-rank adapters beside a frozen model";
  return method == TrainingMethod::Qlora ? "QLoRA: the same beside a model in 4 bits" : "full: every weight is trained";
}

uint64_t DataUse::steps(uint64_t globalBatch) const {
  return uint64_t(std::ceil(epochs * double(rows) / double(globalBatch)));
}

static std::string shortName(const TrainingChoice &choice) {
  return wordOf(choice.method) + (choice.changes.empty() ? "" : " (" + llvm::join(choice.changes, ", ") + ")");
}

static std::string groupOf(const TrainingChoice &choice) {
  return methodText(choice.method) +
         (choice.changes.empty() ? "" : "; other numbers: " + llvm::join(choice.changes, ", "));
}

/// What lies below the device.
static std::string belowText(const TrainingChoice &choice) {
  std::string text;
  if (choice.hostBytes)
    text += "; " + formatSize(choice.hostBytes) + " on the host";
  if (choice.diskBytes)
    text += "; " + formatSize(choice.diskBytes) + " on disk";
  return text;
}

void ChoiceTable::printText(raw_ostream &out) const {
  out << formatv(
      "{0} on {1}: {2} a rank, {3} of it for the driver and its libraries; {4}, {5} rows of {6} tokens a step\n", model,
      device, formatSize(availableBytes), formatSize(reserveBytes), precision, globalBatch, sequence);
  if (data) {
    out << formatv("data: {0:N} rows, {1:F1} % of their places padding, {2:N} targets; {3:N} steps\n", data->rows,
                   100 * data->paddingShare, data->targets, data->steps(globalBatch));
    if (data->packedPaddingShare)
      out << formatv("      with --pack {0:F1} % of the places would be padding\n", 100 * *data->packedPaddingShare);
  }
  std::string group;
  for (const auto &[index, row] : llvm::enumerate(choices)) {
    if (groupOf(row) != group) {
      group = groupOf(row);
      out << "\n"
          << group << "\n ranks  zero  batch     M        peak bytes       left    tokens/s    s/step  "
          << (error ? "by runs here     " : "") << "recomputed; below the device\n";
    }
    out << formatv("{0,6} {1,5} {2,6} {3,5} {4,17} {5,10} {6,11} {7,9:F3}  {8}{9}{10}\n", row.world, row.stage,
                   row.batch, row.accumulate, row.peakBytes, formatSize(row.availableBytes - row.neededBytes),
                   formatv("{0:N}", uint64_t(row.tokensPerSecond())).str(), row.seconds,
                   error ? formatv("{0,7:F3}-{1,-7:F3}  ", row.seconds * error->least, row.seconds * error->most).str()
                         : std::string(),
                   row.recomputed + belowText(row), llvm::is_contained(recommended, index) ? "  <-" : "");
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
    if (data)
      out << formatv("  {0:N} steps, about {1:F1} hours{2}\n", data->steps(globalBatch), data->hours(row, globalBatch),
                     error ? formatv(", by runs here {0:F1} to {1:F1}", data->hours(row, globalBatch) * error->least,
                                     data->hours(row, globalBatch) * error->most)
                                 .str()
                           : std::string());
    if (row.longest)
      out << formatv("  with these settings rows of up to {0} tokens fit\n", *row.longest);
  }
  out << "\nBytes are what will be allocated; seconds are a model's, for comparing rows of this table: "
      << (error ? formatv("runs on {0} took {1:F2} to {2:F2} times the seconds that were predicted ({3} of them, the "
                          "last on {4})",
                          device, error->least, error->most, error->runs, error->date)
                      .str()
                : "no run has confirmed them on this device")
      << "\n";
}

llvm::json::Object toJson(const TrainingChoice &row) {
  llvm::json::Object json{{"method", wordOf(row.method)},
                          {"changes", llvm::json::Array(row.changes)},
                          {"gpus", int64_t(row.world)},
                          {"zero", int64_t(row.stage)},
                          {"batch", int64_t(row.batch)},
                          {"accumulate", int64_t(row.accumulate)},
                          {"sequence", int64_t(row.sequence)},
                          {"recomputed", row.recomputed},
                          {"peak_bytes", int64_t(row.peakBytes)},
                          {"needed_bytes", int64_t(row.neededBytes)},
                          {"available_bytes", int64_t(row.availableBytes)},
                          {"host_bytes", int64_t(row.hostBytes)},
                          {"disk_bytes", int64_t(row.diskBytes)},
                          {"fits", row.fits()},
                          {"cost_model_seconds", row.seconds},
                          {"tokens_per_second", row.tokensPerSecond()},
                          {"seconds_per_token", 1 / row.tokensPerSecond()},
                          {"compile", row.compile},
                          {"run", row.run}};
  if (row.longest)
    json["longest_sequence"] = int64_t(*row.longest);
  return json;
}

std::optional<TrainingChoice> choiceFromJson(const llvm::json::Value &value) {
  TrainingChoice row;
  llvm::json::Path::Root root;
  llvm::json::ObjectMapper read(value, root);
  std::string method;
  if (!read || !read.map("method", method) || !read.map("changes", row.changes) || !read.map("gpus", row.world) ||
      !read.map("zero", row.stage) || !read.map("batch", row.batch) || !read.map("accumulate", row.accumulate) ||
      !read.map("sequence", row.sequence) || !read.map("recomputed", row.recomputed) ||
      !read.map("peak_bytes", row.peakBytes) || !read.map("needed_bytes", row.neededBytes) ||
      !read.map("available_bytes", row.availableBytes) || !read.map("host_bytes", row.hostBytes) ||
      !read.map("disk_bytes", row.diskBytes) || !read.map("cost_model_seconds", row.seconds) ||
      !read.map("compile", row.compile) || !read.map("run", row.run))
    return std::nullopt;
  const std::optional<TrainingMethod> known = fromWord<TrainingMethod>(method);
  if (!known)
    return std::nullopt;
  row.method = *known;
  return row;
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
    if (error)
      json.attributeObject("error_seen", [&] {
        json.attribute("least", error->least);
        json.attribute("most", error->most);
        json.attribute("runs", int64_t(error->runs));
        json.attribute("date", error->date);
      });
    if (data)
      json.attributeObject("data", [&] {
        json.attribute("rows", int64_t(data->rows));
        json.attribute("targets", int64_t(data->targets));
        json.attribute("padding_share", data->paddingShare);
        if (data->packedPaddingShare)
          json.attribute("packed_padding_share", *data->packedPaddingShare);
        json.attribute("epochs", data->epochs);
        json.attribute("steps", int64_t(data->steps(globalBatch)));
      });
    json.attributeArray("choices", [&] {
      for (const auto &[index, row] : llvm::enumerate(choices)) {
        llvm::json::Object object = toJson(row);
        if (data) {
          object["hours"] = data->hours(row, globalBatch);
          const double counted = double(data->targets) * data->epochs / double(data->steps(globalBatch));
          object["seconds_per_counted_token"] = row.seconds / counted;
        }
        if (error)
          object["seconds_by_runs"] = llvm::json::Array{row.seconds * error->least, row.seconds * error->most};
        object["recommended"] = llvm::is_contained(recommended, index);
        json.value(std::move(object));
      }
    });
    json.attributeArray("missing", [&] {
      for (const MissingMemory &each : missing) {
        llvm::json::Object object = toJson(each.smallest);
        object["missing_bytes"] = int64_t(each.smallest.neededBytes - each.smallest.availableBytes);
        object["help"] = each.help;
        json.value(std::move(object));
      }
    });
  });
  out << "\n";
}

} // namespace ztc::report
