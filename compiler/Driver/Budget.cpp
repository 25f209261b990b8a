#include "compiler/Driver/Budget.h"
#include "compiler/Driver/Offload.h"
#include "compiler/Driver/Session.h"
#include "compiler/Driver/Trial.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/PlanValidator.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace ztc::driver {
namespace {

class Advice {
public:
  Advice(llvm::raw_ostream &out, const CompileOptions &options)
      : out(out), options(options), world(options.gpus.front()) {}

  void print() {
    int64_t batch = 0, seq = 0;
    {
      Trial same(options);
      batch = same.attribute("graph.batch");
      seq = same.attribute("graph.seq");
      moreRoomBelow(same);
      if (options.zero > 0)
        moreRanks(same, options.zero);
    }
    if (batch > 1)
      smallerBatch(uint64_t(batch) / 2);
    if (batch > 2)
      smallerBatch(1);
    if (batch == 1 && seq > 1)
      shorterRows(uint64_t(seq) / 2);
    for (unsigned stage = options.zero + 1; stage <= 3; ++stage)
      higherStage(stage);
  }

private:
  /// Without the reserve of the options `used`.
  bool line(const std::string &what, const CompileOptions &used, std::optional<uint64_t> peak) {
    if (!peak)
      return false;
    uint64_t needed = *peak + budgetReserveBytes(used);
    bool fits = needed <= options.memoryBudget;
    out << llvm::formatv("  {0}: {1}, {2}\n", what, formatSize(needed),
                         fits ? "fits" : "still " + std::to_string(needed - options.memoryBudget) + " bytes too much");
    return fits;
  }

  /// What need not lie on a GPU lies in the host's memory; where the device is the host, or a file has room already, in
  /// a file.
  void moreRoomBelow(Trial &same) {
    const bool hasGpu = !options.threads && llvm::any_of(options.targets, isGpuTarget);
    const bool inFile = !hasGpu || !options.disk.empty();
    if (!options.disk.empty() && !options.diskMemory)
      return; // as much as is wanted
    CompileOptions more = options;
    if (inFile && more.disk.empty()) {
      more.disk = "DIR";
      Trial onDisk(more);
      return roomOf(onDisk, more, inFile);
    }
    roomOf(same, more, inFile);
  }

  void roomOf(Trial &trial, CompileOptions more, bool inFile) {
    const std::optional<uint64_t> bytes = trial.leastRoomBelow(inFile);
    if (!bytes)
      return;
    const auto [text, rounded] = roundedUp(*bytes);
    (inFile ? more.diskMemory : more.hostMemory) = rounded;
    const std::optional<uint64_t> peak = Trial(more).smallestPeak();
    if (peak && *peak <= arenaBudgetBytes(more))
      line(inFile ? "--disk=" + more.disk + " --disk-mem=" + text : "--host-mem=" + text, more, peak);
  }

  /// A size as it is printed that is at least `bytes`, as text and in bytes.
  static std::pair<std::string, uint64_t> roundedUp(uint64_t bytes) {
    for (uint64_t size = bytes;; size += std::max<uint64_t>(1, bytes / 1000)) {
      std::string text = formatSize(size);
      llvm::erase(text, ' ');
      if (StatusOr<uint64_t> read = parseSize(text); read.isOk() && *read >= bytes)
        return {text, *read};
    }
  }

  void smallerBatch(uint64_t value) {
    CompileOptions less = options;
    less.batch = value;
    // Where the rows of a step are given, there are more micro-steps.
    const std::optional<CompileOptions> used = options.globalBatch ? onRanks(less, world) : less;
    if (used)
      line("--batch=" + std::to_string(value), *used, Trial(*used).smallestPeak());
  }

  void shorterRows(uint64_t value) {
    CompileOptions less = options;
    less.seq = value;
    line("--seq=" + std::to_string(value), less, Trial(less).smallestPeak());
  }

  void higherStage(unsigned stage) {
    CompileOptions more = options;
    more.zero = stage;
    Trial trial(more);
    if (world > 1 && line(llvm::formatv("--zero={0}", stage), more, trial.smallestPeak()))
      return;
    if (stage == 3)
      moreRanks(trial, stage);
  }

  /// Twice, four times, ... the ranks: the first number that fits, or the one with the smallest peak.
  void moreRanks(Trial &trial, unsigned stage) {
    if (std::optional<Trial::Ranks> more = trial.moreRanks(2 * world))
      line(llvm::formatv("--zero={0} --gpus={1}", stage, more->ranks), *onRanks(options, more->ranks), more->peakBytes);
  }

  llvm::raw_ostream &out;
  CompileOptions options;
  unsigned world;
};

} // namespace

void printWhatWouldHelp(llvm::raw_ostream &out, const CompileOptions &options) {
  out << "what would help, each with all computed again that saves memory"
      << (opensSpaces(options) ? " and moved off the device what has room below" : "") << ":\n";
  Advice(out, options).print();
}

} // namespace ztc::driver
