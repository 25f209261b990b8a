// The row of an embedding whose lookups get no gradient: PyTorch's Embedding(padding_idx).
#pragma once
#include "frontends/onnx/Emitter.h"

namespace ztc::importer {

/// The third argument of aten.embedding in dynamo's text of the node; -1 where the text gives none. Nothing where there
/// is not such a text.
std::optional<int64_t> recordedPaddingRow(const Node &node);

/// Families of transformers whose models pass config.pad_token_id to nn.Embedding.
bool passesPaddingToken(llvm::StringRef family);

/// Sets graph.embedding's `padding` by `wanted` (--padding-token: a token or "none"), else by what the exporter wrote,
/// else by the configuration (`configured`: its pad_token_id). Tables that are looked up by something else than tokens
/// are left alone.
llvm::LogicalResult markPaddingRows(Emitter &emitter, const Model &model, llvm::StringRef wanted,
                                    llvm::StringRef family, std::optional<int64_t> configured, ImportReport &report);

} // namespace ztc::importer
