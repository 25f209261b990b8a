// The heads of ONNX's LinearAttention.
#pragma once
#include "frontends/onnx/Model.h"
#include <optional>
#include <string>

namespace ztc::importer {

/// How packed operands (B, T, heads * width) of LinearAttention are taken apart. onnxruntime's has two forms that
/// ONNX's does not: key heads that several states share, and queries that several states answer.
struct RecurrentHeads {
  int64_t queries = 0, keys = 0, states = 0; ///< heads; as many values as states
  int64_t keyWidth = 0, valueWidth = 0;

  /// Of the node with operands of these shapes; nothing, and why, where they do not fit one another.
  static std::optional<RecurrentHeads> of(const Node &node, llvm::ArrayRef<int64_t> query, llvm::ArrayRef<int64_t> key,
                                          llvm::ArrayRef<int64_t> value, std::string &error) {
    RecurrentHeads heads;
    heads.queries = node.integer("q_num_heads", 0), heads.states = node.integer("kv_num_heads", 0);
    const bool areRows = query.size() == 3 && key.size() == 3 && value.size() == 3 &&
                         query.take_front(2) == key.take_front(2) && query.take_front(2) == value.take_front(2);
    auto divides = [](int64_t part, int64_t whole) { return part > 0 && whole > 0 && whole % part == 0; };
    if (!areRows || !divides(heads.queries, query[2]) || !divides(heads.states, value[2])) {
      error = "its operands are not (batch, sequence, heads * width) of q_num_heads and kv_num_heads";
      return std::nullopt;
    }
    heads.keyWidth = query[2] / heads.queries, heads.valueWidth = value[2] / heads.states;
    heads.keys = key[2] / heads.keyWidth;
    const bool fit = divides(heads.keyWidth, key[2]) && divides(heads.keys, heads.states) &&
                     (divides(heads.states, heads.queries) || divides(heads.queries, heads.states));
    if (fit)
      return heads;
    error = "its heads do not fit one another: " + std::to_string(heads.queries) + " of queries, " +
            std::to_string(heads.keys) + " of keys of that width, " + std::to_string(heads.states) + " of values";
    return std::nullopt;
  }
};

} // namespace ztc::importer
