#include "runtime/Data/Sources.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Safetensors.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <optional>
#include <vector>

namespace ztc {
namespace {

/// A tensor of whole numbers, row by row.
struct IntegerRows {
  const std::byte *data = nullptr;
  uint64_t fileOffset = 0;
  uint64_t elementBytes = 0; ///< 1, 4 or 8

  int64_t at(uint64_t index) const {
    if (elementBytes == 8) {
      int64_t value;
      std::memcpy(&value, data + index * 8, 8);
      return value;
    }
    if (elementBytes == 4) {
      int32_t value;
      std::memcpy(&value, data + index * 4, 4);
      return value;
    }
    return static_cast<int64_t>(data[index]);
  }
  uint64_t offsetOf(uint64_t index) const { return fileOffset + index * elementBytes; }
};

class SafetensorsSource : public TokenSource {
public:
  /// Rows of any length where `anyLength`; then S is theirs.
  SafetensorsSource(SafetensorsFile file, RowReader reader, const RowShape &shape, bool anyLength = false)
      : file_(std::move(file)), reader_(std::move(reader)), shape_(shape), anyLength_(anyLength) {}

  Status prepare() {
    ZTC_ASSIGN_OR_RETURN(inputs_, rowsOf("input_ids", /*required=*/true));
    ZTC_ASSIGN_OR_RETURN(labels_, rowsOf("labels", /*required=*/true));
    ZTC_ASSIGN_OR_RETURN(const IntegerRows mask, rowsOf("attention_mask", /*required=*/false));
    if (mask.data)
      ZTC_RETURN_IF_ERROR(checkMask(mask));
    return findWeights();
  }

  uint64_t rows() const override { return rows_; }
  std::vector<std::span<const std::byte>> files() const override { return {file_.bytes()}; }

  Status readRow(uint64_t row, int32_t *tokens, int32_t *targets) const override {
    const uint64_t first = row * shape_.seq;
    ZTC_ASSIGN_OR_RETURN(const IntegerRows inputs, rowOf(inputs_, row, 0));
    ZTC_ASSIGN_OR_RETURN(const IntegerRows labels, rowOf(labels_, row, 1));
    for (uint64_t t = 0; t < shape_.seq; ++t) {
      const int64_t token = inputs.at(t);
      if (token < 0 || static_cast<uint64_t>(token) >= shape_.vocabulary)
        return outside("input_ids", inputs_, first + t, token);
      tokens[t] = static_cast<int32_t>(token);
    }
    for (uint64_t t = 0; t + 1 < shape_.seq; ++t) {
      const int64_t label = labels.at(t + 1);
      if (label != -100 && (label < 0 || static_cast<uint64_t>(label) >= shape_.vocabulary))
        return outside("labels", labels_, first + t + 1, label);
      targets[t] = label == -100 ? kIgnoredTarget : static_cast<int32_t>(label);
    }
    targets[shape_.seq - 1] = kIgnoredTarget; // its label would be the next row's first
    return Status::ok();
  }

  bool hasWeights() const override { return hasWeights_; }
  Status readWeights(uint64_t row, float *weights, uint64_t seq) const override {
    if (!hasWeights_)
      return TokenSource::readWeights(row, weights, seq);
    const uint64_t first = row * shape_.seq;
    ZTC_ASSIGN_OR_RETURN(const std::byte *data,
                         reader_.read(weightsOffset_ + first * sizeof(float), shape_.seq * sizeof(float), 0));
    std::memcpy(weights, data + sizeof(float), (shape_.seq - 1) * sizeof(float)); // those of the labels one later
    weights[shape_.seq - 1] = 1;                                                  // of no target
    for (uint64_t t = 0; t + 1 < shape_.seq; ++t)
      if (!(weights[t] >= 0 && weights[t] <= kLargestLossWeight))
        return invalidArgument(fmt::format(
            "'{}' holds the weight {} at byte {} (loss_weights, row {}, position {}): weights are numbers from 0, "
            "which is as a label of -100, to {}",
            file_.path(), weights[t], weightsOffset_ + (first + t + 1) * sizeof(float), row, t + 1,
            kLargestLossWeight));
    return Status::ok();
  }

  StatusOr<uint64_t> countTargets(uint64_t row) const override {
    thread_local std::vector<float> weights;
    weights.resize(std::max(weights.size(), size_t(shape_.seq)));
    ZTC_RETURN_IF_ERROR(readWeights(row, weights.data(), shape_.seq));
    ZTC_ASSIGN_OR_RETURN(const IntegerRows labels, rowOf(labels_, row, 1));
    uint64_t count = 0;
    for (uint64_t t = 1; t < shape_.seq; ++t)
      count += labels.at(t) != -100 && weights[t - 1] != 0;
    return count;
  }

  uint64_t length() const { return shape_.seq; } ///< of a row
  /// The place of the last label that counts; 0 for none.
  uint64_t lastCounted(uint64_t row) const {
    uint64_t t = shape_.seq - 1;
    while (t > 0 && labels_.at(row * shape_.seq + t) == -100)
      --t;
    return t;
  }

private:
  /// One row, read from the file.
  StatusOr<IntegerRows> rowOf(const IntegerRows &rows, uint64_t row, int place) const {
    ZTC_ASSIGN_OR_RETURN(const std::byte *data,
                         reader_.read(rows.offsetOf(row * shape_.seq), shape_.seq * rows.elementBytes, place));
    return IntegerRows{data, rows.offsetOf(row * shape_.seq), rows.elementBytes};
  }

  Status findWeights() {
    const SafetensorsTensor *tensor = file_.find("loss_weights"), *labels = file_.find("labels");
    if (!tensor)
      return Status::ok();
    if (tensor->type != plan::F32)
      return invalidArgument(
          fmt::format("'{}': loss_weights has the type {}, F32 is needed", file_.path(), tensor->typeName));
    if (tensor->shape != labels->shape)
      return invalidArgument(fmt::format("'{}': loss_weights has the shape [{}], labels [{}]", file_.path(),
                                         fmt::join(tensor->shape, ", "), fmt::join(labels->shape, ", ")));
    hasWeights_ = true, weightsOffset_ = tensor->offset;
    return Status::ok();
  }

  StatusOr<IntegerRows> rowsOf(const char *name, bool required) {
    const SafetensorsTensor *tensor = file_.find(name);
    if (!tensor && !required)
      return IntegerRows{};
    if (!tensor)
      return invalidArgument(
          fmt::format("'{}' has no tensor '{}'; data needs input_ids and labels", file_.path(), name));
    const bool isMask = !required;
    const bool byte = tensor->type == plan::I1 || tensor->typeName == "U8" || tensor->typeName == "I8";
    if (tensor->type != plan::I64 && tensor->type != plan::I32 && !(isMask && byte))
      return invalidArgument(
          fmt::format("'{}': {} has the type {}, I64 or I32 is needed", file_.path(), name, tensor->typeName));
    if (tensor->shape.size() != 2 && tensor->shape.size() != 3)
      return invalidArgument(fmt::format("'{}': {} has the shape [{}], [N, B, S] or [N, S] is needed", file_.path(),
                                         name, fmt::join(tensor->shape, ", ")));
    if (anyLength_ && inputs_.data == nullptr && !isMask && tensor->shape.back() > 0)
      shape_.seq = static_cast<uint64_t>(tensor->shape.back());
    if (static_cast<uint64_t>(tensor->shape.back()) != shape_.seq)
      return invalidArgument(
          fmt::format("'{}': the rows of {} have {} tokens, {}{}", file_.path(), name, tensor->shape.back(),
                      anyLength_ ? "those of input_ids " : "the plan was compiled for --seq=", shape_.seq));
    const uint64_t rows = *elementCount(tensor->shape) / shape_.seq;
    if (inputs_.data == nullptr && !isMask)
      rows_ = rows;
    if (rows != rows_)
      return invalidArgument(fmt::format("'{}': {} has {} rows, input_ids {}", file_.path(), name, rows, rows_));
    return IntegerRows{file_.data(*tensor).data(), tensor->offset, byte ? 1 : dataTypeBytes(tensor->type)};
  }

  Status checkMask(const IntegerRows &mask) const {
    for (uint64_t row = 0; row < rows_; ++row) {
      bool padding = false;
      for (uint64_t t = 0; t < shape_.seq; ++t) {
        const int64_t value = mask.at(row * shape_.seq + t);
        if (value != 0 && value != 1)
          return invalidArgument(fmt::format("'{}': attention_mask holds {} at byte {}, only 0 and 1 are known",
                                             file_.path(), value, mask.offsetOf(row * shape_.seq + t)));
        if (value == 1 && padding)
          return invalidArgument(
              fmt::format("'{}': row {} is padded on the left (attention_mask has 0 before 1); pad on the right",
                          file_.path(), row));
        padding = padding || value == 0;
      }
    }
    return Status::ok();
  }

  Status outside(const char *name, const IntegerRows &rows, uint64_t index, int64_t token) const {
    return invalidArgument(
        fmt::format("'{}' holds the token {} at byte {} ({}, row {}, position {}), the model's vocabulary ends at {}{}",
                    file_.path(), token, rows.offsetOf(index), name, index / shape_.seq, index % shape_.seq,
                    shape_.vocabulary - 1, token < 0 ? "; a label that does not count is -100" : ""));
  }

  SafetensorsFile file_;
  RowReader reader_;
  RowShape shape_;
  bool anyLength_;
  IntegerRows inputs_, labels_;
  uint64_t rows_ = 0;
  bool hasWeights_ = false;
  uint64_t weightsOffset_ = 0; ///< in the file
};

/// Rows as documents.
class SafetensorsDocuments final : public DocumentSource {
public:
  explicit SafetensorsDocuments(std::unique_ptr<SafetensorsSource> rows) : rows_(std::move(rows)) {
    for (uint64_t row = 0; row < rows_->rows(); ++row)
      places_.push_back(rows_->lastCounted(row));
  }

  std::span<const uint64_t> places() const override { return places_; }
  std::span<const std::byte> bytes() const override { return rows_->files().front(); }
  Status read(uint64_t document, uint64_t first, uint64_t count, int32_t *tokens, int32_t *targets) const override {
    thread_local std::vector<int32_t> inputs, labels;
    inputs.resize(std::max(inputs.size(), size_t(rows_->length())));
    labels.resize(std::max(labels.size(), size_t(rows_->length())));
    ZTC_RETURN_IF_ERROR(rows_->readRow(document, inputs.data(), labels.data()));
    std::copy_n(inputs.begin() + int64_t(first), count, tokens);
    std::copy_n(labels.begin() + int64_t(first), count, targets);
    return Status::ok();
  }
  bool hasWeights() const override { return rows_->hasWeights(); }
  Status readWeights(uint64_t document, uint64_t first, uint64_t count, float *weights) const override {
    thread_local std::vector<float> own;
    own.resize(std::max(own.size(), size_t(rows_->length())));
    ZTC_RETURN_IF_ERROR(rows_->readWeights(document, own.data(), rows_->length()));
    std::copy_n(own.begin() + int64_t(first), count, weights);
    return Status::ok();
  }

private:
  std::unique_ptr<SafetensorsSource> rows_;
  std::vector<uint64_t> places_;
};

} // namespace

StatusOr<std::unique_ptr<TokenSource>> openSafetensorsSource(const std::string &path, const RowShape &shape) {
  ZTC_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(path));
  ZTC_ASSIGN_OR_RETURN(RowReader reader, RowReader::open(file.mapped()));
  auto source = std::make_unique<SafetensorsSource>(std::move(file), std::move(reader), shape);
  ZTC_RETURN_IF_ERROR(source->prepare());
  return std::unique_ptr<TokenSource>(std::move(source));
}

StatusOr<std::unique_ptr<DocumentSource>> openSafetensorsDocuments(const std::string &path, const RowShape &shape) {
  ZTC_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(path));
  ZTC_ASSIGN_OR_RETURN(RowReader reader, RowReader::open(file.mapped()));
  auto rows = std::make_unique<SafetensorsSource>(std::move(file), std::move(reader), shape, /*anyLength=*/true);
  ZTC_RETURN_IF_ERROR(rows->prepare());
  return std::unique_ptr<DocumentSource>(std::make_unique<SafetensorsDocuments>(std::move(rows)));
}

} // namespace ztc
