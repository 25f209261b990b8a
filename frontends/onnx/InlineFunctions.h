// Replaces calls of model-local functions by their bodies.
#pragma once
#include <string>

namespace onnx {
class ModelProto;
} // namespace onnx

namespace ztc::importer {

/// Inlines all functions of the model. False with one sentence where one calls itself, or where calls of calls would
/// give a graph of a size that no model has: that is known before any is inlined. Calls the ONNX library, which may
/// throw.
bool inlineFunctions(::onnx::ModelProto &model, std::string &error);

} // namespace ztc::importer
