#include "runtime/Tools/DataReport.h"
#include "runtime/Data/DataSet.h"
#include "runtime/Train/DataSetRows.h"
#include "runtime/Train/GlobalBatch.h"
#include "runtime/Train/JsonLog.h"
#include "runtime/Train/TextRun.h"
#include <algorithm>
#include <cmath>
#include <thread>

namespace ztc {

StatusOr<std::string> dataReport(const RunOptions &options, uint64_t seq, uint64_t vocabulary) {
  constexpr uint64_t kMostRows = 65536;
  ZTC_ASSIGN_OR_RETURN(std::shared_ptr<const TokenizerFolder> tokenizer, openTokenizer(options));
  ZTC_ASSIGN_OR_RETURN(const std::unique_ptr<DataSet> data,
                       DataSet::open({.files = options.data,
                                      .bytesTokenizer = options.tokenizer == "bytes",
                                      .tokenBytes = options.tokenBytes.value_or(0),
                                      .seq = seq,
                                      .vocabulary = vocabulary,
                                      .text = {.tokenizer = std::move(tokenizer),
                                               .cacheFolder = {},
                                               .temporaryFolder = options.temporaryFolder,
                                               .threads = std::max(1u, std::thread::hardware_concurrency())},
                                      .pack = options.pack,
                                      .dropLong = options.longDocuments == "drop",
                                      .documentEnd = options.documentEnd}));
  const uint64_t stride = (data->rows() + kMostRows - 1) / kMostRows;
  DataSetRows source(*data);
  GlobalBatch one(/*microBatches=*/1, /*batch=*/1, seq);
  uint64_t rows = 0, counted = 0, unpadded = 0;
  for (uint64_t row = 0; row < data->rows(); row += stride, ++rows) {
    ZTC_RETURN_IF_ERROR(one.fill(source, row, /*available=*/1));
    counted += one.countedTargets();
    unpadded += one.unpaddedTokens();
  }
  const double scale = double(data->rows()) / double(rows);
  JsonObject json;
  json.begin().add("rows", data->rows()).add("tokens", data->rows() * seq);
  json.add("tokens_without_padding", uint64_t(std::llround(double(unpadded) * scale)));
  json.add("targets", uint64_t(std::llround(double(counted) * scale)));
  json.add("padding_share", 1 - double(unpadded) / double(rows * seq));
  if (const auto &packing = data->packing())
    json.add("documents", packing->documents).add("cut", packing->cut).add("dropped", packing->dropped);
  return std::string(json.end());
}

} // namespace ztc
