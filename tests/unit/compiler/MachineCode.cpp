#include "MachineCode.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <filesystem>

using llvm::StringRef;
namespace fs = std::filesystem;

namespace ztc {

bool MachineInstruction::has(const std::string &modifier) const {
  llvm::SmallVector<StringRef> parts;
  StringRef(op).split(parts, '.');
  return llvm::is_contained(llvm::ArrayRef(parts).drop_front(), modifier);
}

unsigned MachineInstruction::bytes() const {
  if (name() == "LDSM") // four matrices: a register of each
    return has("4") ? 16 : has("2") ? 8 : 4;
  for (auto [modifier, bytes] :
       {std::pair{"U8", 1u}, {"S8", 1u}, {"U16", 2u}, {"S16", 2u}, {"64", 8u}, {"128", 16u}, {"256", 32u}})
    if (has(modifier))
      return bytes;
  return 4;
}

std::vector<MachineLoop> MachineKernel::innerLoops() const {
  std::vector<MachineLoop> loops, inner;
  for (auto [index, instruction] : llvm::enumerate(instructions))
    if (instruction.name() == "BRA" && instruction.target >= 0 && size_t(instruction.target) < index) {
      MachineLoop loop{size_t(instruction.target), index + 1};
      // What is rare stands past the end of the kernel and jumps back: no loop.
      if (count(loop, {"RET"}) == 0 &&
          llvm::none_of(llvm::ArrayRef(instructions).slice(loop.begin, loop.size()),
                        [](const MachineInstruction &i) { return i.name() == "EXIT" && i.predicate.empty(); }))
        loops.push_back(loop);
    }
  for (const MachineLoop &loop : loops)
    if (llvm::none_of(loops, [&](const MachineLoop &other) {
          return other.size() < loop.size() && loop.begin <= other.begin && other.end <= loop.end;
        }))
      inner.push_back(loop);
  return inner;
}

MachineLoop MachineKernel::hottest() const {
  std::vector<MachineLoop> inner = innerLoops();
  // The loop over what is left, element by element, is longer than the one that counts.
  auto weight = [&](MachineLoop loop) {
    int64_t bytes = 0;
    for (const MachineInstruction &i : llvm::ArrayRef(instructions).slice(loop.begin, loop.size()))
      if (llvm::is_contained({"LDG", "STG", "LDSM", "LDS"}, i.name()))
        bytes += i.bytes() >= 16 ? i.bytes() : -int64_t(i.bytes());
    return std::tuple(count(loop, {"HMMA"}), std::max<int64_t>(bytes, 0), loop.size());
  };
  if (!inner.empty())
    return *llvm::max_element(inner, [&](MachineLoop a, MachineLoop b) { return weight(a) < weight(b); });
  for (auto [index, instruction] : llvm::enumerate(instructions))
    if (instruction.name() == "EXIT" && instruction.predicate.empty())
      return {0, index + 1};
  return all();
}

size_t MachineKernel::count(MachineLoop range, const std::vector<std::string> &names) const {
  // What stands under "never" is there for the hardware's sake: the assembler puts such loads before cp.async in a
  // loop.
  return std::count_if(
      instructions.begin() + range.begin, instructions.begin() + range.end,
      [&](const MachineInstruction &i) { return llvm::is_contained(names, i.name()) && i.predicate != "!PT"; });
}

std::string findNvdisasm() {
  const char *cache = std::getenv("ZTC_CACHE"), *home = std::getenv("HOME");
  fs::path folder = cache ? fs::path(cache) : fs::path(home ? home : "/") / ".cache/ztc";
  std::error_code error;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder, error))
    if (entry.path().filename().string().starts_with("nvdisasm-") && fs::exists(entry.path() / "bin/nvdisasm"))
      return entry.path() / "bin/nvdisasm";
  for (llvm::SmallVector<StringRef> paths : {llvm::SmallVector<StringRef>{"/usr/local/cuda/bin"}, {}})
    if (auto found = llvm::sys::findProgramByName("nvdisasm", paths))
      return *found;
  return "";
}

/// `/*0040*/ @!P0 LDG.E.128 R8, [R2.64] ;`, without the number. False for what is not an instruction.
static bool parseInstruction(StringRef text, MachineInstruction &instruction) {
  text = text.split("*/").second.ltrim();
  if (text.consume_front("@")) {
    auto [predicate, rest] = text.split(' ');
    instruction.predicate = predicate.str();
    text = rest.ltrim();
  }
  text = text.rsplit(';').first.rtrim();
  auto [op, operands] = text.split(' ');
  instruction.op = op.str();
  instruction.operands = operands.trim().str();
  return !op.empty() && llvm::isUpper(op.front());
}

static std::map<std::string, MachineKernel> parse(StringRef text) {
  std::map<std::string, MachineKernel> kernels;
  MachineKernel *kernel = nullptr;
  std::map<std::string, size_t> labels;
  auto finish = [&] {
    if (kernel)
      for (MachineInstruction &i : kernel->instructions)
        if (StringRef label = StringRef(i.operands).split("`(").second.split(')').first; i.name() == "BRA")
          if (auto found = labels.find(label.str()); found != labels.end())
            i.target = found->second;
    labels.clear();
  };
  llvm::SmallVector<StringRef> lines;
  text.split(lines, '\n');
  for (StringRef line : lines) {
    if (line.ends_with(":")) {
      StringRef label = line.drop_back();
      if (label.consume_front(".text.")) {
        finish();
        kernel = &kernels[label.str()];
      } else if (kernel) {
        labels[label.str()] = kernel->instructions.size();
      }
    } else if (MachineInstruction instruction;
               kernel && line.ltrim().starts_with("/*") && parseInstruction(line, instruction)) {
      kernel->instructions.push_back(std::move(instruction));
    }
  }
  finish();
  return kernels;
}

std::map<std::string, MachineKernel> disassemble(const std::string &nvdisasm, const std::string &cubin,
                                                 std::string &error) {
  llvm::SmallString<128> folder;
  if (llvm::sys::fs::createUniqueDirectory("ztc-sass", folder)) {
    error = "cannot create a temporary folder";
    return {};
  }
  llvm::scope_exit cleanup([&] { llvm::sys::fs::remove_directories(folder); });
  std::string input = (folder + "/kernels.cubin").str(), output = (folder + "/sass").str(),
              log = (folder + "/log").str();
  std::error_code written;
  {
    llvm::raw_fd_ostream stream(input, written);
    stream << cubin;
  }
  std::optional<StringRef> streams[] = {StringRef(""), StringRef(output), StringRef(log)};
  int status = llvm::sys::ExecuteAndWait(nvdisasm, {nvdisasm, "-c", input}, std::nullopt, streams, 0, 0, &error);
  auto read = [](const std::string &path) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    return buffer ? (*buffer)->getBuffer().str() : std::string();
  };
  if (status != 0) {
    error += nvdisasm + ": " + read(log);
    return {};
  }
  return parse(read(output));
}

} // namespace ztc
