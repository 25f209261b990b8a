// Constants that an exporter computed from two parameters: weight norms and products of narrow matrices.
#pragma once
#include "frontends/onnx/Names.h"
#include "runtime/Format/Safetensors.h"

namespace ztc::importer {

/// Replaces each matrix (of a 1-D convolution: tensor of three dimensions) that is g * v / |v| of two tensors of the
/// checkpoint, or scale * A @ B of two narrower ones, or such a product added to a third tensor, by nodes
/// that compute it, so that all of them are trained. Every element is held against the formula. Each replacement is a
/// sentence in `notes`. Without a checkpoint nothing can be proven, and nothing is replaced.
void restoreFoldedPairs(Model &model, const Names &names, const SafetensorsCollection *checkpoint,
                        std::vector<std::string> &notes);

} // namespace ztc::importer
