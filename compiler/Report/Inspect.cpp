// `ztc inspect`: a plan as a document, and its JSON form. lite protobuf has no printer: everything is
// written by hand.
#include "compiler/Report/Report.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/QuantizedWeight.h"
#include "runtime/Format/StepText.h"
#include "runtime/Memory/Traffic.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

using llvm::formatv;
using llvm::raw_ostream;

namespace ztc::report {

static const char *className(plan::SlotClass c) {
  return c >= 1 && c <= int(kMemoryClassCount) - 1 ? kMemoryClassNames[c - 1] : "none";
}

static std::string shapeText(const plan::Slot &slot) {
  std::string text;
  for (int64_t d : slot.shape())
    text += std::to_string(d) + "x";
  return text + (slot.type() ? dataTypeName(slot.type()) : "bytes");
}

static std::string operandText(const plan::Plan &plan, const plan::Operand &operand) {
  std::string text = operand.slot() < unsigned(plan.slots_size()) ? plan.slots(operand.slot()).name() : "?";
  if (operand.offset())
    text += "+" + std::to_string(operand.offset());
  if (operand.own_shard())
    text += "[own shard]";
  return text;
}

std::string describeStep(const plan::Plan &plan, const plan::Step &step) {
  std::vector<std::string> reads, writes;
  for (const plan::Operand &operand : step.operands())
    (operand.access() == plan::Operand::READ ? reads : writes).push_back(operandText(plan, operand));
  return formatv("{0,-44} {1}  ({2}) -> ({3})", step.name(), stepKindText(plan, step), llvm::join(reads, ", "),
                 llvm::join(writes, ", "));
}

/// ", bf16, master i16; exp_avg f32, exp_avg_sq f32": how a bucket is stored where that is not f32, and the optimizer's
/// states.
static std::string storageText(const plan::Plan &plan, const plan::Bucket &bucket) {
  auto typeOf = [&](uint32_t slot) { return slot < unsigned(plan.slots_size()) ? plan.slots(slot).type() : plan::F32; };
  std::string text;
  if (plan::DataType type = typeOf(bucket.parameter_slot()); type != plan::F32)
    text += std::string(", ") + dataTypeName(type);
  if (!bucket.trainable())
    return text;
  if (bucket.master_slot() != kAbsent)
    text += std::string(", master ") + dataTypeName(typeOf(bucket.master_slot()));
  else if (typeOf(bucket.parameter_slot()) != plan::F32)
    text += ", no master";
  const char *separator = "; ";
  for (const plan::Bucket::State &state : bucket.states()) {
    text += separator + state.name() + " " + dataTypeName(typeOf(state.slot()));
    separator = ", ";
  }
  return text;
}

void printPlanText(raw_ostream &out, const LoadedPlan &loaded, const PlanShape &shape, const MemoryPlan &memory) {
  const plan::Plan &p = loaded.plan;
  out << formatv("plan of {0}, by ztc {1}\n", p.model().name(), p.ztc_version());
  out << formatv("  sha256       {0}\n", loaded.sha256);
  out << formatv("  model        {0} parameters in {1} tensors, {2} layers, vocabulary {3}, position limit {4}\n",
                 p.model().parameters(), p.parameters_size(), p.model().layers(), p.model().vocabulary(),
                 p.model().position_limit());
  out << formatv("  micro-batch  {0} x {1} tokens; {2}; ZeRO-{3}\n", p.model().batch(), p.model().seq(), p.precision(),
                 p.zero());
  if (const std::string quantized = describeQuantized(p); !quantized.empty())
    out << "  quantised    " << quantized << "\n";
  for (const auto &[name, value] : std::map<std::string, std::string>(p.options().begin(), p.options().end()))
    out << formatv("  option       --{0}={1}\n", name, value);
  for (const std::string &remark : p.remarks())
    out << "  remark       " << remark << "\n";

  out << formatv("\nmemory of one rank with {0}: {1} ({2} bytes), peak in {3} at `{4}`\n", shapeText(shape),
                 formatSize(memory.arenaBytes), memory.arenaBytes, memory.peakProgram, [&]() -> std::string {
                   for (const plan::Program &program : p.programs())
                     if (program.name() == memory.peakProgram && int(memory.peakStep) < program.steps_size())
                       return program.steps(memory.peakStep).name();
                   return "load";
                 }());
  for (size_t c = 0; c < kMemoryClassCount; ++c)
    if (memory.byClass[c])
      out << formatv("  {0,-14} {1,16} bytes\n", kMemoryClassNames[c], memory.byClass[c]);

  printSpaces(out, spaceUses(p, memory, shape));
  if (const std::string codes = describeCodes(p); !codes.empty())
    out << codes << "\n";
  if (shape.world > 1) {
    SentBytes sent = sentBytes(p, shape);
    out << formatv("\nsent by each rank per optimizer step: {0} bytes\n", sent.parametersAndGradients());
    out << formatv("  all_gather     {0,16} bytes\n  reduce_scatter {1,16} bytes\n  scalars        {2,16} bytes\n",
                   sent.allGather, sent.reduceScatter, sent.allReduce);
    if (const std::string gathers = describeGathers(p, shape); !gathers.empty())
      out << "  " << gathers << "\n";
  }
  out << "\nbuckets\n";
  for (const plan::Bucket &bucket : p.buckets())
    out << formatv("  {0,-24} {1,14} elements, {2} decayed{3}{4}\n", bucket.name(), bucket.elements(), bucket.decayed(),
                   bucket.trainable() ? "" : ", frozen", storageText(p, bucket));
  out << "\nparameters\n";
  for (const plan::Parameter &parameter : p.parameters()) {
    std::string shapeText;
    for (int64_t d : checkpointShape(parameter))
      shapeText += (shapeText.empty() ? "" : "x") + std::to_string(d);
    out << formatv("  {0,-52} {1,-14} {2}+{3}", parameter.name(), shapeText, p.buckets(parameter.bucket()).name(),
                   parameter.offset());
    if (parameter.format() != plan::PLAIN)
      out << formatv(", {0} of {1} bytes", weightFormatName(parameter.format()), parameter.shape(0));
    for (const std::string &name : parameter.tied())
      out << ", tied: " << name;
    if (!parameter.source().path().empty())
      out << formatv(", from {0}@{1}{2}", parameter.source().path(), parameter.source().offset(),
                     parameter.source().transpose() ? " transposed" : "");
    out << "\n";
  }
  for (const plan::Program &program : p.programs()) {
    bool communicates = llvm::any_of(program.steps(), [](const plan::Step &step) { return step.stream() == 1; });
    bool moves = llvm::any_of(program.steps(), [](const plan::Step &step) { return step.stream() == 2; });
    out << formatv("\n{0}: {1} steps{2}{3}\n", program.name(), program.steps_size(),
                   communicates ? " (~: on the communication stream, beside computation)" : "",
                   moves ? " (=: on the stream of moves between spaces)" : "");
    for (int i = 0; i < program.steps_size(); ++i)
      out << formatv("  {0,5}  {1}{2}\n", i,
                     program.steps(i).stream() == 1   ? "~ "
                     : program.steps(i).stream() == 2 ? "= "
                                                      : "",
                     describeStep(p, program.steps(i)));
  }
}

void printPlanMemory(raw_ostream &out, const plan::Plan &p, const MemoryPlan &memory) {
  for (plan::Space space : {plan::DEVICE, plan::HOST, plan::DISK}) {
    std::vector<int> order;
    for (int i = 0; i < p.slots_size(); ++i)
      if (memory.slots[i].bytes && p.slots(i).space() == space)
        order.push_back(i);
    if (order.empty() && space != plan::DEVICE)
      continue;
    llvm::sort(order, [&](int a, int b) {
      return std::make_pair(memory.slots[a].offset, a) < std::make_pair(memory.slots[b].offset, b);
    });
    if (space == plan::DEVICE)
      out << formatv("arena {0} bytes; largest live set {1} bytes\n", memory.arenaBytes, memory.largestLiveBytes);
    else
      out << formatv("{0} {1} bytes\n", space == plan::HOST ? "host memory" : "disk",
                     space == plan::HOST ? memory.host.bytes : memory.disk.bytes);
    out << "         offset            bytes  class          name\n";
    for (int i : order)
      out << formatv("{0,15} {1,16}  {2,-13}  {3} ({4}){5}\n", memory.slots[i].offset, memory.slots[i].bytes,
                     className(p.slots(i).slot_class()), p.slots(i).name(), shapeText(p.slots(i)),
                     p.slots(i).reason().empty() ? "" : ": " + p.slots(i).reason());
  }
}

void printPlanJson(raw_ostream &out, const LoadedPlan &loaded, const PlanShape &shape, const MemoryPlan &memory) {
  const plan::Plan &p = loaded.plan;
  llvm::json::OStream json(out, 1);
  json.object([&] {
    json.attribute("sha256", loaded.sha256);
    json.attribute("ztc_version", p.ztc_version());
    json.attributeObject("model", [&] {
      json.attribute("name", p.model().name());
      json.attribute("batch", int64_t(p.model().batch()));
      json.attribute("seq", int64_t(p.model().seq()));
      json.attribute("vocabulary", int64_t(p.model().vocabulary()));
      json.attribute("layers", int64_t(p.model().layers()));
      json.attribute("parameters", int64_t(p.model().parameters()));
      json.attribute("flops_per_token", p.model().flops_per_token());
    });
    json.attribute("precision", p.precision());
    json.attribute("zero", int64_t(p.zero()));
    json.attribute("peak_bytes", int64_t(memory.arenaBytes));
    writeSpaces(json, spaceUses(p, memory, shape));
    json.attributeObject("by_class", [&] {
      for (size_t c = 0; c < kMemoryClassCount; ++c)
        json.attribute(kMemoryClassNames[c], int64_t(memory.byClass[c]));
    });
    json.attributeArray("parameters", [&] {
      for (const plan::Parameter &parameter : p.parameters())
        json.object([&] {
          json.attribute("name", parameter.name());
          json.attributeArray("shape", [&] {
            for (int64_t d : checkpointShape(parameter))
              json.value(d);
          });
          if (parameter.format() != plan::PLAIN) {
            json.attribute("format", weightFormatName(parameter.format()));
            json.attribute("bytes", parameter.shape(0));
          }
          json.attribute("bucket", p.buckets(parameter.bucket()).name());
          json.attribute("offset", int64_t(parameter.offset()));
        });
    });
    json.attributeArray("slots", [&] {
      for (int i = 0; i < p.slots_size(); ++i)
        json.object([&] {
          json.attribute("name", p.slots(i).name());
          json.attribute("class", className(p.slots(i).slot_class()));
          json.attribute("offset", int64_t(memory.slots[i].offset));
          json.attribute("bytes", int64_t(memory.slots[i].bytes));
        });
    });
    json.attributeObject("programs", [&] {
      for (const plan::Program &program : p.programs())
        json.attributeArray(program.name(), [&] {
          for (const plan::Step &step : program.steps())
            json.object([&] {
              json.attribute("name", step.name());
              json.attribute("kind", stepKindText(p, step));
              json.attribute("layer", step.layer());
              json.attribute("flops", int64_t(step.flops()));
            });
        });
    });
    addKernelsJson(json, p, shape, memory);
  });
  out << "\n";
}

} // namespace ztc::report
