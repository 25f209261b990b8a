#include "runtime/Checkpoint/PlannedWeights.h"
#include "runtime/Core/ListText.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/QuantizedPieces.h"
#include "runtime/Format/WeightDigest.h"
#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <vector>

namespace ztc {

StatusOr<PlannedWeights> PlannedWeights::open(const plan::Plan &plan,
                                              std::span<const plan::Parameter *const> parameters,
                                              const std::string &planFolder) {
  PlannedWeights weights;
  weights.config_ = parseQuantizationConfig(plan.model().hf_config());
  std::vector<std::string> missing;
  for (const plan::Parameter *parameter : parameters)
    if (parameter->source().path().empty() && !parameter->source().start())
      missing.push_back(parameter->name());
  if (!missing.empty())
    return notFound(
        fmt::format("no weights are known for {} of the model's {} parameters ({}); give --weights=DIR|FILE, or "
                    "--init=normal:0.02 to start from random ones",
                    missing.size(), parameters.size(), listText(missing)));
  for (const plan::Parameter *parameter : parameters)
    if (!parameter->source().path().empty())
      ZTC_RETURN_IF_ERROR(weights.add(*parameter, planFolder));
  // What needs other tensors than its own: they are looked at before anything is loaded.
  for (const plan::Parameter *parameter : parameters)
    if (parameter->source().dequantized())
      ZTC_RETURN_IF_ERROR(weights.findCodes(*parameter, /*check=*/false).status());
  return weights;
}

StatusOr<std::shared_ptr<const QuantizedCheckpoint>>
PlannedWeights::checkpointOf(const plan::Parameter &parameter) const {
  const std::string &path = files_.at(parameter.source().path()).path(), folder = parentFolder(path);
  const std::string place = pathExists(folder + "/model.safetensors.index.json") ? folder : path;
  auto opened = checkpoints_.find(place);
  if (opened == checkpoints_.end()) {
    ZTC_ASSIGN_OR_RETURN(auto checkpoint, QuantizedCheckpoint::open(place, "model", config_));
    opened = checkpoints_.emplace(place, std::move(checkpoint)).first;
  }
  return opened->second;
}

/// The bytes that the plan itself holds of a part; nothing where they are in a file.
static std::optional<std::span<const std::byte>> bytesInPlan(const plan::WeightSource::Piece &piece) {
  if (!piece.path().empty())
    return std::nullopt;
  return std::as_bytes(std::span(piece.data()));
}

static std::optional<std::span<const std::byte>> bytesInPlan(const plan::WeightSource &) {
  return std::nullopt;
}

template <typename Piece>
StatusOr<std::span<const std::byte>> PlannedWeights::bytesOf(const Piece &piece, const std::string &parameter,
                                                             bool check) const {
  if (const auto own = bytesInPlan(piece))
    return *own;
  const std::span<const std::byte> bytes = files_.at(piece.path()).bytes().subspan(piece.offset(), piece.length());
  if (!check || piece.sha256().empty())
    return bytes;
  const Sha256Digest digest = digestOfWeights(bytes);
  if (!std::equal(digest.begin(), digest.end(), piece.sha256().begin(), piece.sha256().end(),
                  [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); }))
    return dataLoss(fmt::format("the weights of '{}' in '{}' are not those that the plan was compiled with; compile "
                                "again or give --weights",
                                parameter, piece.path()));
  return bytes;
}

StatusOr<StoredTensor> PlannedWeights::stored(const plan::Parameter &parameter, bool check) const {
  const plan::WeightSource &source = parameter.source();
  ZTC_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, bytesOf(source, parameter.name(), check));
  if (source.dequantized()) {
    ZTC_ASSIGN_OR_RETURN(auto quantized, findCodes(parameter, check));
    return dequantized(std::move(quantized));
  }
  StoredTensor tensor{bytes, source.type(), source.transpose(), 0, 0};
  if (source.transpose()) {
    tensor.rows = static_cast<uint64_t>(checkpointShape(parameter)[0]);
    tensor.columns = static_cast<uint64_t>(checkpointShape(parameter)[1]);
  }
  return tensor;
}

StatusOr<std::shared_ptr<const QuantizedMatrix>> PlannedWeights::findCodes(const plan::Parameter &parameter,
                                                                           bool check) const {
  const plan::WeightSource &source = parameter.source();
  if (source.has_codes()) {
    const plan::WeightSource::Codes &codes = source.codes();
    QuantizedPieces pieces;
    ZTC_ASSIGN_OR_RETURN(pieces.codes, bytesOf(source, parameter.name(), /*check=*/false));
    ZTC_ASSIGN_OR_RETURN(pieces.scales, bytesOf(codes.scales(), parameter.name(), check));
    if (codes.has_zeros()) {
      ZTC_ASSIGN_OR_RETURN(pieces.zeros, bytesOf(codes.zeros(), parameter.name(), check));
    }
    return std::make_shared<const QuantizedMatrix>(matrixOf(codes, parameter.name(), pieces));
  }
  ZTC_ASSIGN_OR_RETURN(const auto checkpoint, checkpointOf(parameter));
  ZTC_ASSIGN_OR_RETURN(auto quantized, findQuantized(checkpoint, parameter));
  if (quantized)
    return quantized;
  return notFound(fmt::format("the plan's weights: '{}' has no '{}' in fewer bits; compile again or give --weights",
                              files_.at(source.path()).path(), parameter.name()));
}

template <typename Piece>
Status PlannedWeights::addFile(const Piece &piece, const std::string &parameter, const std::string &planFolder) {
  if (bytesInPlan(piece))
    return Status::ok();
  auto it = files_.find(piece.path());
  if (it == files_.end()) {
    std::string path = piece.path();
    if (!pathExists(path) && !planFolder.empty()) {
      const bool relative = path.front() != '/';
      // A plan that was copied with its weights from another machine: their size and checksums are held all the same.
      if (std::string beside = planFolder + "/" + (relative ? path : path.substr(path.rfind('/') + 1));
          pathExists(beside))
        path = std::move(beside);
    }
    StatusOr<MappedFile> file = MappedFile::open(path);
    if (!file.isOk())
      return Status(file.status().code(),
                    fmt::format("the plan's weights: {}; give --weights=DIR|FILE", file.status().message()));
    it = files_.emplace(piece.path(), std::move(*file)).first;
  }
  const MappedFile &file = it->second;
  if (piece.file_size() && piece.file_size() != file.size())
    return failedPrecondition(fmt::format(
        "the plan's weights: '{}' has {} bytes, it had {} when the plan was compiled; compile again or give "
        "--weights",
        file.path(), file.size(), piece.file_size()));
  if (piece.offset() > file.size() || piece.length() > file.size() - piece.offset())
    return dataLoss(fmt::format("'{}' is truncated: it ends at byte {}, '{}' at {}", file.path(), file.size(),
                                parameter, piece.offset() + piece.length()));
  return Status::ok();
}

Status PlannedWeights::add(const plan::Parameter &parameter, const std::string &planFolder) {
  const plan::WeightSource &source = parameter.source();
  ZTC_RETURN_IF_ERROR(addFile(source, parameter.name(), planFolder));
  if (source.has_codes())
    ZTC_RETURN_IF_ERROR(addFile(source.codes().scales(), parameter.name(), planFolder));
  if (source.has_codes() && source.codes().has_zeros())
    ZTC_RETURN_IF_ERROR(addFile(source.codes().zeros(), parameter.name(), planFolder));
  if (source.dequantized())
    return Status::ok();
  const auto &shape = checkpointShape(parameter);
  const bool isBytes = source.type() == plan::U8 && parameter.format() != plan::PLAIN;
  uint64_t needed = 0;
  if ((!isBytes && !isLoadable(source.type())) ||
      __builtin_mul_overflow(elementCount(shape).value_or(0), dataTypeBytes(source.type()), &needed) ||
      (isBytes && isNf4(parameter.format()) ? (needed + 1) / 2 : needed) != source.length())
    return dataLoss(fmt::format("the plan's weights: '{}' has {} bytes of {} for the shape [{}]", parameter.name(),
                                source.length(), dataTypeName(source.type()), fmt::join(shape, ", ")));
  if (source.transpose() && shape.size() != 2)
    return dataLoss(fmt::format("the plan's weights: '{}' of shape [{}] cannot be transposed", parameter.name(),
                                fmt::join(shape, ", ")));
  return Status::ok();
}

} // namespace ztc
