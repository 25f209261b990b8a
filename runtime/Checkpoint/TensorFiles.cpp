#include "runtime/Checkpoint/TensorFiles.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ztc {

uint32_t slotOf(const plan::Bucket &bucket, StateKind kind) {
  switch (kind) {
  case StateKind::Model:
    return bucket.parameter_slot();
  case StateKind::ExpAvg:
    return bucket.exp_avg_slot();
  case StateKind::ExpAvgSq:
    return bucket.exp_avg_sq_slot();
  case StateKind::Gradient:
    return bucket.gradient_slot();
  }
  return kAbsent;
}

uint64_t FileSet::fileBytes() const {
  uint64_t bytes = 0;
  for (const PlannedFile &file : files)
    bytes += file.bytes;
  return bytes;
}

static PlannedFile layOut(const std::vector<const plan::Parameter *> &parameters, plan::DataType type) {
  std::vector<SafetensorsSpec> specs;
  for (const plan::Parameter *parameter : parameters)
    specs.push_back({parameter->name(), type, {parameter->shape().begin(), parameter->shape().end()}});
  SafetensorsLayout layout = layoutSafetensors(specs);
  PlannedFile file;
  file.header = std::move(layout.header);
  file.bytes = layout.fileBytes;
  for (size_t i = 0; i < parameters.size(); ++i)
    file.tensors.push_back({parameters[i], elementCount(parameters[i]->shape()).value_or(0), layout.offsets[i]});
  return file;
}

FileSet planFiles(const plan::Plan &plan, StateKind kind, const std::string &stem, plan::DataType type,
                  uint64_t largestFileBytes, bool plainName) {
  std::vector<const plan::Parameter *> sorted;
  for (const plan::Parameter &parameter : plan.parameters())
    if (kind == StateKind::Model || parameter.trainable())
      sorted.push_back(&parameter);
  std::sort(sorted.begin(), sorted.end(), [](const auto *a, const auto *b) { return a->name() < b->name(); });

  std::vector<std::vector<const plan::Parameter *>> groups(1);
  FileSet set;
  uint64_t inGroup = 0;
  for (const plan::Parameter *parameter : sorted) {
    const uint64_t bytes = elementCount(parameter->shape()).value_or(0) * dataTypeBytes(type);
    if (!groups.back().empty() && inGroup + bytes > largestFileBytes) {
      groups.emplace_back();
      inGroup = 0;
    }
    groups.back().push_back(parameter);
    inGroup += bytes;
    set.tensorBytes += bytes;
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    PlannedFile file = layOut(groups[i], type);
    file.name = plainName && groups.size() == 1
                    ? stem + ".safetensors"
                    : fmt::format("{}-{:05}-of-{:05}.safetensors", stem, i + 1, groups.size());
    set.files.push_back(std::move(file));
  }
  return set;
}

std::string printIndex(const FileSet &set) {
  nlohmann::ordered_json json;
  json["metadata"] = {{"total_size", set.tensorBytes}};
  json["weight_map"] = nlohmann::ordered_json::object();
  for (const PlannedFile &file : set.files)
    for (const PlannedTensor &tensor : file.tensors)
      json["weight_map"][tensor.parameter->name()] = file.name;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// Converts in place, from f32 to a type of two bytes: writing never overtakes reading.
static void narrow(std::byte *data, uint64_t count, plan::DataType type) {
  for (uint64_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, data + 4 * i, 4);
    const uint16_t bits = type == plan::BF16 ? toBf16(value) : toF16(value);
    std::memcpy(data + 2 * i, &bits, 2);
  }
}

static void scale(std::byte *data, uint64_t count, float factor) {
  for (uint64_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, data + 4 * i, 4);
    value *= factor;
    std::memcpy(data + 4 * i, &value, 4);
  }
}

static Status checkStaging(const StateContext &context) {
  if (context.staging.size() < kMinimumStagingBytes)
    return internalError(fmt::format("a staging buffer of {} bytes, at least {} are needed", context.staging.size(),
                                     kMinimumStagingBytes));
  return Status::ok();
}

static const plan::Bucket &bucketOf(const plan::Plan &plan, const plan::Parameter &parameter) {
  return plan.buckets(static_cast<int>(parameter.bucket()));
}

Status writeTensors(const StateContext &context, const PlannedFile &planned, StateKind kind, plan::DataType type,
                    float factor, const File &file) {
  ZTC_RETURN_IF_ERROR(checkStaging(context));
  ZTC_RETURN_IF_ERROR(file.reserve(planned.bytes));
  ZTC_RETURN_IF_ERROR(file.writeAt(0, planned.header.data(), planned.header.size()));
  const uint64_t piece = context.staging.size() / 4, elementBytes = dataTypeBytes(type);
  for (const PlannedTensor &tensor : planned.tensors) {
    const uint32_t slot = slotOf(bucketOf(context.plan, *tensor.parameter), kind);
    for (uint64_t begin = 0; begin < tensor.elements; begin += piece) {
      const uint64_t count = std::min(piece, tensor.elements - begin);
      ZTC_RETURN_IF_ERROR(
          context.memory.read(slot, (tensor.parameter->offset() + begin) * 4, context.staging.data(), count * 4));
      if (factor != 1.0f)
        scale(context.staging.data(), count, factor);
      if (type != plan::F32)
        narrow(context.staging.data(), count, type);
      ZTC_RETURN_IF_ERROR(
          file.writeAt(tensor.fileOffset + begin * elementBytes, context.staging.data(), count * elementBytes));
    }
  }
  return Status::ok();
}

Status fillParameter(const StateContext &context, const plan::Parameter &parameter, StateKind kind,
                     const std::function<Status(uint64_t, uint64_t, float *)> &fill) {
  ZTC_RETURN_IF_ERROR(checkStaging(context));
  const uint32_t slot = slotOf(bucketOf(context.plan, parameter), kind);
  const uint64_t elements = elementCount(parameter.shape()).value_or(0), piece = context.staging.size() / 4;
  auto *out = reinterpret_cast<float *>(context.staging.data());
  for (uint64_t begin = 0; begin < elements; begin += piece) {
    const uint64_t count = std::min(piece, elements - begin);
    ZTC_RETURN_IF_ERROR(fill(begin, count, out));
    ZTC_RETURN_IF_ERROR(context.memory.write(slot, (parameter.offset() + begin) * 4, out, count * 4));
  }
  return Status::ok();
}

Status checkStateTypes(const plan::Plan &plan) {
  for (const plan::Parameter &parameter : plan.parameters())
    if (parameter.type() != plan::F32)
      return failedPrecondition(fmt::format("parameter '{}' lies in memory as {}; only f32 can be saved and loaded",
                                            parameter.name(), dataTypeName(parameter.type())));
  return Status::ok();
}

} // namespace ztc
