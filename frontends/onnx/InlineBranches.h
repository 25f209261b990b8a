// `If`: the nodes of both branches join the main graph.
#pragma once
#include <string>

namespace onnx {
class ModelProto;
} // namespace onnx

namespace ztc::importer {

/// What an `If` becomes for each of its outputs: inputs are the condition and the two branches' values.
inline constexpr const char *kChoose = "ztc::Choose";

/// Moves the nodes and constants of both branches of each `If` into the main graph, in front of nodes kChoose; names
/// that are taken get new ones. False, with a sentence in `error`, for an `If` that lacks a branch or an output.
bool inlineBranches(::onnx::ModelProto &model, std::string &error);

} // namespace ztc::importer
