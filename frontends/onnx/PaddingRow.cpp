#include "frontends/onnx/PaddingRow.h"

using namespace mlir;

namespace ztc::importer {
namespace {

/// The tokens themselves, another shape of them, or one of the two that a choice is between: a table may be smaller
/// than the vocabulary.
bool isTokens(Emitter &emitter, mlir::Value indices) {
  Operation *op = indices.getDefiningOp();
  if (isa_and_nonnull<graph::ReshapeOp, graph::CastOp, graph::BroadcastOp>(op))
    return isTokens(emitter, op->getOperand(0));
  if (isa_and_nonnull<graph::SelectOp>(op))
    return isTokens(emitter, op->getOperand(1)) || isTokens(emitter, op->getOperand(2));
  return indices == emitter.function().getArgument(0);
}

std::string nameOf(Emitter &emitter, mlir::Value table) {
  for (const Parameter &parameter : emitter.parameters())
    if (parameter.argument == table)
      return parameter.name;
  return "the embedding";
}

} // namespace

std::optional<int64_t> recordedPaddingRow(const Node &node) {
  StringRef text = node.fxNode;
  size_t call = text.find("aten.embedding");
  if (call == StringRef::npos)
    return std::nullopt;
  text = text.substr(call).split("args = (").second;
  SmallVector<StringRef> arguments;
  text.split(')').first.split(arguments, ',');
  int64_t row;
  return arguments.size() < 3 || arguments[2].trim().getAsInteger(10, row) ? -1 : row;
}

bool passesPaddingToken(StringRef family) {
  static const llvm::StringSet<> families = {"afmoe",
                                             "apertus",
                                             "arcee",
                                             "bamba",
                                             "biogpt",
                                             "bitnet",
                                             "cohere",
                                             "cohere2",
                                             "cwm",
                                             "deepseek_v2",
                                             "deepseek_v3",
                                             "diffllama",
                                             "doge",
                                             "dots1",
                                             "ernie4_5",
                                             "exaone4",
                                             "falcon_h1",
                                             "flex_olmo",
                                             "gemma",
                                             "gemma2",
                                             "gemma3",
                                             "gemma3_text",
                                             "gemma3n",
                                             "glm",
                                             "glm4",
                                             "glm4_moe",
                                             "gpt_oss",
                                             "granite",
                                             "granitemoe",
                                             "helium",
                                             "jamba",
                                             "jetmoe",
                                             "lfm2",
                                             "lfm2_moe",
                                             "llama",
                                             "llama4",
                                             "llama4_text",
                                             "longcat_flash",
                                             "minimax",
                                             "ministral",
                                             "ministral3",
                                             "mistral",
                                             "mistral4",
                                             "mixtral",
                                             "modernbert-decoder",
                                             "nanochat",
                                             "nemotron",
                                             "olmo",
                                             "olmo2",
                                             "olmo3",
                                             "olmoe",
                                             "opt",
                                             "persimmon",
                                             "phi",
                                             "phi3",
                                             "phimoe",
                                             "qwen2",
                                             "qwen2_moe",
                                             "qwen3",
                                             "qwen3_moe",
                                             "qwen3_next",
                                             "qwen3_5_text",
                                             "recurrent_gemma",
                                             "seed_oss",
                                             "smollm3",
                                             "stablelm",
                                             "starcoder2",
                                             "vaultgemma",
                                             "xglm",
                                             "zamba",
                                             "zamba2",
                                             "granitemoehybrid",
                                             "granitemoeshared",
                                             "hunyuan_v1_dense",
                                             "hunyuan_v1_moe",
                                             "minicpm3",
                                             "solar_open",
                                             "youtu"};
  return families.contains(family);
}

LogicalResult markPaddingRows(Emitter &emitter, const Model &model, StringRef wanted, StringRef family,
                              std::optional<int64_t> configured, ImportReport &report) {
  Location unknown = UnknownLoc::get(emitter.function().getContext());
  int64_t asked = -1;
  bool isAsked = !wanted.empty();
  if (isAsked && wanted != "none" && (wanted.getAsInteger(10, asked) || asked < 0))
    return emitError(unknown) << "--padding-token=" << wanted << " is neither a token nor none";
  std::optional<int64_t> recorded;
  for (const Node &node : model.nodes)
    if (auto row = recordedPaddingRow(node))
      recorded = std::max(*row, recorded.value_or(-1));
  for (auto embedding : emitter.function().getBody().front().getOps<graph::EmbeddingOp>()) {
    if (!isTokens(emitter, embedding.getIndices()))
      continue;
    int64_t rows = typeOf(embedding.getTable()).getDimSize(0), row = -1;
    const char *reason = "--padding-token";
    if (isAsked) {
      row = asked;
      if (row >= rows)
        return emitError(unknown) << "--padding-token=" << wanted << " is outside of the vocabulary of " << rows;
    } else if (recorded) {
      row = *recorded;
      reason = "the exporter's metadata";
    } else if (configured && passesPaddingToken(family)) {
      row = *configured < 0 ? *configured + rows : *configured;
      reason = "pad_token_id of config.json";
    } else if (configured && family.empty()) {
      report.notes.push_back("config.json has a pad_token_id but no model_type: whether lookups of that token get a "
                             "gradient is not known, and they do; --padding-token=ID|none decides");
    }
    if (row < 0 || row >= rows)
      continue;
    embedding.setPadding(row);
    report.paddingRows.push_back({nameOf(emitter, embedding.getTable()), row, reason});
  }
  if (isAsked && asked >= 0 && report.paddingRows.empty())
    return emitError(unknown) << "--padding-token=" << wanted
                              << ": the graph has no embedding that is looked up by tokens";
  return success();
}

} // namespace ztc::importer
