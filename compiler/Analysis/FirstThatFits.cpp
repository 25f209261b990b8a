#include "compiler/Analysis/FirstThatFits.h"
#include <algorithm>

using namespace mlir;

namespace ztc {
namespace {

/// A number that does not fit.
struct Below {
  size_t number;
  uint64_t bytes;
};

/// Bytes that one estimated byte saves in fact, as far as two numbers tell.
double savedPerByte(const Below &before, const Below &now, function_ref<uint64_t(size_t)> savedBytes) {
  const double saved = double(savedBytes(now.number)) - double(savedBytes(before.number));
  const double share = saved > 0 ? (double(before.bytes) - double(now.bytes)) / saved : 1;
  return share > 0.01 ? share : 1;
}

} // namespace

FailureOr<size_t> firstThatFits(size_t below, size_t above, uint64_t bytesBelow, uint64_t budgetBytes,
                                function_ref<uint64_t(size_t)> savedBytes,
                                function_ref<FailureOr<BudgetFit>(size_t)> fits) {
  Below now{below, bytesBelow};
  double share = 1;
  unsigned slow = 0; // guesses in a row that left more than half
  while (above - now.number > 1) {
    size_t next = now.number + (above - now.number) / 2;
    if (slow < 2) {
      // What is missing by sums alone; where the sums fit already, it is a layout that does not, by little.
      const double missing = now.bytes > budgetBytes ? double(now.bytes - budgetBytes) / share : 0;
      const double wanted = double(savedBytes(now.number)) + missing;
      size_t low = now.number + 1, high = above - 1; // the first number that saves as much
      while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (double(savedBytes(middle)) >= wanted)
          high = middle;
        else
          low = middle + 1;
      }
      next = low;
    }
    FailureOr<BudgetFit> fit = fits(next);
    if (failed(fit))
      return failure();
    const size_t before = above - now.number;
    if (fit->fits) {
      above = next;
    } else {
      const Below last = now;
      now = {next, fit->leastBytes};
      share = savedPerByte(last, now, savedBytes);
    }
    slow = (above - now.number) * 2 > before && slow < 2 ? slow + 1 : 0;
  }
  return above;
}

} // namespace ztc
