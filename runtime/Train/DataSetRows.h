// The rows of a data set as a training loop reads them.
#pragma once
#include "runtime/Data/DataSet.h"
#include "runtime/Train/RowSource.h"
#include <cstdint>
#include <span>

namespace ztc {

/// Rows of files, in the order of the data set.
class DataSetRows final : public RowSource {
public:
  explicit DataSetRows(const DataSet &data) : data_(data) {}
  Status read(uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) override {
    return data_.fillRow(index, tokens.data(), targets.data());
  }
  Status readDocuments(uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets,
                       std::span<int32_t> starts) override {
    return data_.fillRow(index, tokens.data(), targets.data(), starts.data());
  }
  DocumentBounds documentBounds() const override { return data_.documentBounds(); }
  Status readWeights(uint64_t index, std::span<float> weights) override {
    return data_.fillWeights(index, weights.data());
  }

private:
  const DataSet &data_;
};

} // namespace ztc
