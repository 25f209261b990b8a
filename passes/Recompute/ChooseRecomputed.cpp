// Blocks of one model are alike, so a choice is mostly a number of blocks per group. The search walks a chain of
// choices, each with one element more than the one before: what its elements keep tells where it may begin to fit. On
// the chain the last element may be large (gate and up of a block) and the budget just missed, so choices around it are
// tried too, the cheapest first; elements are dropped, the most expensive first; at last whole blocks are tried.
#include "passes/Recompute/ChooseRecomputed.h"
#include "compiler/Analysis/Recomputation.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Graph/Experts.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include <algorithm>

using namespace mlir;

namespace ztc {
namespace {

/// Elements of one group that are taken one after the other. Products and attention of the last block are columns of
/// their own: its backward follows at once, so computing them again saves little or even costs memory.
struct Column {
  RecomputeGroup group;
  bool isLastBlock;
  SmallVector<PricedElement> elements;
};

/// How many elements of each column.
using Counts = std::vector<unsigned>;

/// At most so many choices around the end of the chain are measured.
constexpr unsigned kTrials = 32;

class Search {
public:
  Search(ArrayRef<PricedElement> elements, uint64_t budget, MeasureChoice measure, FitsBudget fits)
      : budget(budget), measureChoice(measure), fitsBudget(fits) {
    int64_t last = -1;
    for (const PricedElement &element : elements) {
      last = std::max(last, element.layer);
      ++blocks[unsigned(element.group)];
    }
    using enum RecomputeGroup;
    addColumns(elements, last, {Pointwise}, /*apart=*/false);
    addColumns(elements, last, {Mlp, Qkv, Projection}, true);
    addColumns(elements, last, {Attention}, true);
    addColumns(elements, last, {Down}, true);
  }

  FailureOr<RecomputeDecision> run() {
    Counts counts(columns.size());
    if (!fits(counts)) {
      dropUselessLastBlock();
      counts = walkChain();
      if (fits(counts))
        counts = fasterOf(drop(tryAround(counts)), wholeBlocks());
    }
    return decide(counts);
  }

private:
  /// A column per group; `apart`: those of the last block after them.
  void addColumns(ArrayRef<PricedElement> elements, int64_t last, ArrayRef<RecomputeGroup> groups, bool apart) {
    for (bool isLastBlock : {false, true})
      for (RecomputeGroup group : groups) {
        Column column{group, isLastBlock, {}};
        for (const PricedElement &element : elements)
          if (element.group == group && (apart && element.layer == last) == isLastBlock)
            column.elements.push_back(element);
        // What lies in no block comes last: it is little.
        llvm::sort(column.elements, [](const PricedElement &a, const PricedElement &b) {
          return uint64_t(a.layer) < uint64_t(b.layer);
        });
        if (!column.elements.empty())
          columns.push_back(std::move(column));
      }
  }

  RecomputeChoice choiceOf(const Counts &counts) const {
    RecomputeChoice choice;
    for (auto [column, count] : llvm::zip(columns, counts))
      for (const PricedElement &element : ArrayRef(column.elements).take_front(count))
        choice.add(element.layer, element.group);
    return choice;
  }

  /// All zero after a failure, which `run` reports.
  const StepMeasure &measured(const Counts &counts) {
    auto [found, isNew] = measures.try_emplace(choiceOf(counts).text());
    if (isNew && !hasFailed) {
      FailureOr<StepMeasure> measure = measureChoice(choiceOf(counts));
      hasFailed |= failed(measure);
      if (succeeded(measure))
        found->second = *measure;
    }
    return found->second;
  }
  bool fits(const Counts &counts) { return fitOf(counts).fits; }
  /// The peak itself is measured only where it counts.
  BudgetFit fitOf(const Counts &counts) {
    const std::string choice = choiceOf(counts).text();
    if (!fitsBudget || measures.count(choice)) {
      const uint64_t peak = measured(counts).peakBytes;
      return {peak <= budget, peak};
    }
    auto [found, isNew] = fitting.try_emplace(choice, BudgetFit{true, 0});
    if (isNew && !hasFailed) {
      FailureOr<BudgetFit> fit = fitsBudget(choiceOf(counts));
      hasFailed |= failed(fit);
      found->second = fit.value_or(BudgetFit{true, 0}); // ends the search after a failure
    }
    return found->second;
  }

  /// The first `n` elements of the chain: column by column, each from its first block on.
  Counts chain(unsigned n) const {
    Counts counts;
    for (const Column &column : columns) {
      counts.push_back(std::min<unsigned>(n, column.elements.size()));
      n -= counts.back();
    }
    return counts;
  }
  /// The length of the chain with the columns before `end`.
  unsigned chainLength(size_t end) const {
    unsigned length = 0;
    for (const Column &column : ArrayRef(columns).take_front(end))
      length += column.elements.size();
    return length;
  }

  size_t firstOfLastBlock() const {
    return llvm::find_if(columns, [](const Column &column) { return column.isLastBlock; }) - columns.begin();
  }

  /// The last block's products stand in the chain, before attention, only where each lowers the peak.
  void dropUselessLastBlock() {
    size_t at = firstOfLastBlock();
    if (fits(chain(chainLength(at))))
      return;
    while (at < columns.size() && columns[at].group < RecomputeGroup::Attention)
      if (measured(chain(chainLength(at + 1))).peakBytes < measured(chain(chainLength(at))).peakBytes)
        ++at;
      else
        columns.erase(columns.begin() + at);
  }

  /// Where the chain begins to fit; its end with the smallest peak where it does not.
  Counts walkChain() {
    // Mostly the first columns do; the whole chain is asked about where they do not.
    unsigned above = chainLength(firstOfLastBlock());
    if (!fits(chain(above)))
      above = chainLength(columns.size());
    if (!fits(chain(above))) {
      SmallVector<unsigned> ends;
      for (size_t end = 0; end <= columns.size(); ++end)
        ends.push_back(chainLength(end));
      above = ends[leastOf(ends)];
      if (!fits(chain(above)))
        return chain(above);
    }
    const FailureOr<size_t> first = firstThatFits(
        0, above, fitOf(chain(0)).leastBytes, budget, [&](size_t n) { return keptBytes(chain(unsigned(n))); },
        [&](size_t n) { return FailureOr<BudgetFit>(fitOf(chain(unsigned(n)))); });
    return chain(unsigned(*first));
  }

  /// Computing more again can cost memory: of the ends of columns that with the smallest peak.
  size_t leastOf(ArrayRef<unsigned> ends) {
    return llvm::min_element(
               ends,
               [&](unsigned a, unsigned b) { return measured(chain(a)).peakBytes < measured(chain(b)).peakBytes; }) -
           ends.begin();
  }

  uint64_t keptBytes(const Counts &counts) const {
    return sum<uint64_t>(counts, [](const PricedElement &element) { return element.keptBytes; });
  }
  double seconds(const Counts &counts) const {
    return sum<double>(counts, [](const PricedElement &element) { return element.seconds; });
  }
  template <typename T> T sum(const Counts &counts, function_ref<T(const PricedElement &)> amount) const {
    T total{};
    for (auto [column, count] : llvm::zip(columns, counts))
      for (const PricedElement &element : ArrayRef(column.elements).take_front(count))
        total += amount(element);
    return total;
  }

  /// The cheapest that fits of the choices that differ from `found` by a few elements: fewer blocks of any group, or
  /// some of the groups after it in place of the last element. None with a lower peak: with it a larger budget, which
  /// finds another choice, could end below a smaller one.
  Counts tryAround(const Counts &found) {
    size_t last = 0; // the column of the chain's last element
    for (size_t c = 0; c < columns.size(); ++c)
      if (found[c])
        last = c;
    SmallVector<Counts> around{found};
    for (size_t c = 0; c < columns.size(); ++c) {
      unsigned from = found[c] - std::min(found[c], c <= last ? 2u : 0u);
      unsigned to = std::min<unsigned>(columns[c].elements.size(), found[c] + (c >= last ? 2 : 0));
      // Attention is computed again only where nothing else fits, the last block where the chain comes to it.
      if (found[c] == 0 && (columns[c].group >= RecomputeGroup::Attention || columns[c].isLastBlock))
        to = 0;
      SmallVector<Counts> more;
      for (const Counts &counts : around)
        for (unsigned n = from; n <= to; ++n) {
          more.push_back(counts);
          more.back()[c] = n;
        }
      around = std::move(more);
    }
    // What is worth measuring: estimates by what is kept, with a margin; the peak decides.
    double foundSeconds = seconds(found);
    uint64_t peak = measured(found).peakBytes, slack = budget - peak, kept = keptBytes(found);
    llvm::erase_if(around, [&](const Counts &counts) {
      uint64_t other = keptBytes(counts);
      return counts == found || seconds(counts) >= foundSeconds || other + slack + slack / 2 < kept ||
             other > kept + kept / 8;
    });
    llvm::sort(around, [&](const Counts &a, const Counts &b) {
      return std::make_pair(seconds(a), a) < std::make_pair(seconds(b), b);
    });
    for (const Counts &counts : ArrayRef(around).take_front(kTrials))
      if (fits(counts) && measured(counts).peakBytes >= peak && measured(counts).seconds <= measured(found).seconds)
        return counts;
    return found;
  }

  /// All of the first blocks, as few of them as fit: between ops of which none is kept no kernel has to stop.
  Counts wholeBlocks() {
    size_t above = 0; // blocks that may fit
    for (const Column &column : columns)
      above = std::max(above, column.elements.size());
    auto whole = [&](size_t blocks) {
      Counts counts;
      for (const Column &column : columns)
        counts.push_back(unsigned(llvm::count_if(column.elements, [&](const PricedElement &element) {
          return !column.isLastBlock && element.layer >= 0 && uint64_t(element.layer) < blocks;
        })));
      return counts;
    };
    size_t below = 0; // that do not
    while (above > below + 1) {
      const size_t middle = (above + below) / 2;
      (fits(whole(middle)) ? above : below) = middle;
    }
    return fits(whole(above)) ? drop(whole(above)) : whole(above);
  }

  /// `other` where it is faster, and for the reason that tryAround() has not below the peak of `found`.
  Counts fasterOf(const Counts &found, const Counts &other) {
    const bool isFaster = fits(other) && measured(other).peakBytes >= measured(found).peakBytes &&
                          measured(other).seconds < measured(found).seconds;
    return isFaster ? other : found;
  }

  /// Leaves out whatever is not needed, the most expensive first.
  Counts drop(Counts counts) {
    SmallVector<size_t> order;
    for (size_t c = 0; c < columns.size(); ++c)
      order.push_back(c);
    llvm::sort(order, [&](size_t a, size_t b) {
      return std::make_pair(-columns[a].elements.front().seconds, a) <
             std::make_pair(-columns[b].elements.front().seconds, b);
    });
    for (bool again = true; again;) {
      again = false;
      for (size_t c : order)
        for (Counts fewer = counts; counts[c] && (--fewer[c], fits(fewer)); counts = fewer)
          again = true;
    }
    return counts;
  }

  FailureOr<RecomputeDecision> decide(const Counts &counts) {
    RecomputeDecision decision;
    decision.fits = fits(counts);
    decision.choice = choiceOf(counts);
    decision.kept = measured(Counts(columns.size()));
    decision.chosen = measured(counts);
    for (const auto &[choice, measure] : measures)
      fitting.try_emplace(choice);
    decision.measured = fitting.size();
    for (unsigned g = 0; g < kRecomputeGroups; ++g) {
      RecomputeDecision::Share share{RecomputeGroup(g), 0, blocks[g], 0};
      for (auto [column, count] : llvm::zip(columns, counts))
        if (unsigned(column.group) == g) {
          share.blocks += count;
          for (const PricedElement &element : ArrayRef(column.elements).take_front(count))
            share.bytes += element.keptBytes;
        }
      if (share.blocks)
        decision.shares.push_back(share);
    }
    if (hasFailed)
      return failure();
    return decision;
  }

  SmallVector<Column> columns;                     ///< in the order of the chain
  std::array<unsigned, kRecomputeGroups> blocks{}; ///< that have elements of the group
  uint64_t budget;
  MeasureChoice measureChoice;
  FitsBudget fitsBudget;
  std::map<std::string, StepMeasure> measures; ///< by the choice's text
  std::map<std::string, BudgetFit> fitting;    ///< the same, of those that fitsBudget was asked about
  bool hasFailed = false;
};

/// One execution of an op that stands alone.
double opSeconds(Operation *op, const MachineRates &rates) {
  auto cost = dyn_cast<CostOpInterface>(op);
  if (!cost)
    return 0;
  bool isNarrow = llvm::any_of(op->getOperandTypes(), [](Type type) {
    Type element = getElementTypeOrSelf(type);
    return element.isBF16() || element.isF16();
  });
  Work work = Work::Kernel;
  if (isa<graph::AttentionOp>(op))
    work = isNarrow ? Work::NarrowAttention : Work::Attention;
  else if (isLibraryCall(op))
    work = isNarrow ? Work::NarrowProduct : Work::Product;
  const double share = isa<graph::GroupedMatmulOp, graph::GroupedOuterOp>(op) ? rates.groupedShare : 1;
  return workSeconds(rates, work, double(cost.getFlops()) / share, double(cost.getBytes()));
}

} // namespace

FailureOr<SmallVector<PricedElement>> recomputeElements(ModuleOp module, const MachineRates &rates) {
  auto function = graph::findEntry(module, graph::Entry::Microstep);
  Operation *lossOp = function ? lossOpOf(function) : nullptr;
  if (!lossOp)
    return module.emitError("no @microstep computes a loss: nothing can be recomputed"), failure();
  SmallVector<PricedElement> elements;
  for (const RecomputeElement &element : RecomputeCandidates(function, lossOp).elements()) {
    double seconds = 0;
    for (Operation *op : element.ops)
      seconds += opSeconds(op, rates);
    elements.push_back({element.layer, element.group, element.keptBytes, seconds});
  }
  return elements;
}

FailureOr<RecomputeDecision> chooseRecomputed(ArrayRef<PricedElement> elements, uint64_t budgetBytes,
                                              MeasureChoice measure, FitsBudget fits) {
  return Search(elements, budgetBytes, measure, fits).run();
}

} // namespace ztc
