// A GPU's machine code as NVIDIA's nvdisasm reads it out of a cubin.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ztc {

struct MachineInstruction {
  std::string predicate; ///< "P0", "!P0", "UP0"; empty: always
  std::string op;        ///< with its modifiers: LDG.E.128
  std::string operands;
  int64_t target = -1; ///< a branch's: the index of an instruction of the same kernel

  /// The op without modifiers: LDG.
  std::string name() const { return op.substr(0, op.find('.')); }
  bool has(const std::string &modifier) const;
  /// Bytes that a load or store moves for each thread.
  unsigned bytes() const;
};

/// Instructions [begin, end): a branch at its end leads back to its beginning.
struct MachineLoop {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
};

struct MachineKernel {
  std::vector<MachineInstruction> instructions;

  /// Loops that hold no other one.
  std::vector<MachineLoop> innerLoops() const;
  /// Where the time goes: of the inner loops the one with the most products of matrices, else the most wide accesses,
  /// else instructions; where a kernel has none, all of it up to the first exit.
  MachineLoop hottest() const;
  /// How many places of the range have one of these ops (names without modifiers).
  size_t count(MachineLoop range, const std::vector<std::string> &names) const;
  MachineLoop all() const { return {0, instructions.size()}; }
};

/// nvdisasm of cmake/get-nvdisasm.sh, of the toolkit or in PATH; empty where there is none.
std::string findNvdisasm();
/// The kernels of a cubin by name; none, and `error` set, where the disassembler fails.
std::map<std::string, MachineKernel> disassemble(const std::string &nvdisasm, const std::string &cubin,
                                                 std::string &error);

} // namespace ztc
