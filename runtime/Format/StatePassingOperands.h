// Which operand of a state_passing step is which: one order for the compiler, the validator and the devices.
#pragma once
#include "runtime/Format/Steps/StepCheck.h"
#include "runtime/Format/plan.pb.h"
#include <array>
#include <cstdint>

namespace ztc {

/// The operands of a step by what they are.
class StatePassingOperands {
public:
  enum Part : uint8_t { To, From, Update, Plus, Decay, Past, Before, Last, X, kParts };
  struct Operand {
    const char *name = "";
    int index = -1; ///< among the step's operands; -1: it has none
    CheckedBytes bytes = 0;
  };

  explicit StatePassingOperands(const plan::StatePassing &passing) {
    const CheckedBytes R = passing.rows(), K = passing.keys(), V = passing.values(), C = passing.positions();
    const CheckedBytes one = R * 4, all = one * passing.chunks();
    const bool hasProducts = passing.positions() != 0;
    add(To, "to", hasProducts, all * C * K);
    add(From, "from", hasProducts, all * C * K);
    add(Update, "update", hasProducts, all * C * V);
    add(Plus, "plus", passing.plus(), all * K * V);
    add(Decay, "decay", passing.decay_keys() != 0, all * passing.decay_keys() * passing.decay_parts());
    add(Past, "past", passing.past(), one * K * V);
    add(Before, "before", true, all * K * V);
    add(Last, "last", true, one * K * V);
    add(X, "x", hasProducts, all * C * V);
  }

  const Operand &operator[](Part part) const { return operands_[part]; }
  const std::array<Operand, kParts> &all() const { return operands_; }
  int count() const { return count_; }

private:
  void add(Part part, const char *name, bool exists, CheckedBytes bytes) {
    operands_[part] = {name, exists ? count_++ : -1, bytes};
  }

  std::array<Operand, kParts> operands_;
  int count_ = 0;
};

} // namespace ztc
