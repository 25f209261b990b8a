#include "compiler/Driver/Budget.h"
#include "compiler/Driver/Session.h"
#include "compiler/Driver/Trial.h"
#include "runtime/Core/Sizes.h"
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
      if (options.zero > 0)
        moreRanks(same, options.zero);
    }
    if (batch > 1)
      smaller("--batch=", &CompileOptions::batch, uint64_t(batch) / 2);
    if (batch > 2)
      smaller("--batch=", &CompileOptions::batch, 1);
    if (batch == 1 && seq > 1)
      smaller("--seq=", &CompileOptions::seq, uint64_t(seq) / 2);
    for (unsigned stage = options.zero + 1; stage <= 3; ++stage)
      higherStage(stage);
  }

private:
  bool line(const std::string &what, std::optional<uint64_t> peak) {
    if (!peak)
      return false;
    uint64_t needed = *peak + budgetReserveBytes(options);
    bool fits = needed <= options.memoryBudget;
    out << llvm::formatv("  {0}: {1}, {2}\n", what, formatSize(needed),
                         fits ? "fits" : "still " + std::to_string(needed - options.memoryBudget) + " bytes too much");
    return fits;
  }

  void smaller(const char *name, uint64_t CompileOptions::*field, uint64_t value) {
    CompileOptions less = options;
    less.*field = value;
    line(name + std::to_string(value), Trial(less).smallestPeak(world));
  }

  void higherStage(unsigned stage) {
    CompileOptions more = options;
    more.zero = stage;
    Trial trial(more);
    if (world > 1 && line(llvm::formatv("--zero={0}", stage), trial.smallestPeak(world)))
      return;
    if (stage == 3)
      moreRanks(trial, stage);
  }

  /// Twice, four times, ... the ranks: the first number that fits, or the one with the smallest peak.
  void moreRanks(Trial &trial, unsigned stage) {
    const uint64_t budget = arenaBudgetBytes(options);
    if (std::optional<Trial::Ranks> more = trial.moreRanks(2 * world, budget))
      line(llvm::formatv("--zero={0} --gpus={1}", stage, more->ranks), more->peakBytes);
  }

  llvm::raw_ostream &out;
  CompileOptions options;
  unsigned world;
};

} // namespace

void printWhatWouldHelp(llvm::raw_ostream &out, const CompileOptions &options) {
  const bool movesAny = options.hostMemory || options.diskMemory || !options.disk.empty();
  out << "what would help, each with all computed again that saves memory"
      << (movesAny ? " and nothing moved off the device" : "") << ":\n";
  Advice(out, options).print();
}

} // namespace ztc::driver
