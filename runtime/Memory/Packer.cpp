// Finding the best packing is NP-hard. The steps of a training program are kind: what is saved in the forward part is
// nested in time, and greedy placement in a few orders comes within some percent of the largest live set. The ladder:
// pieces that live all the time stand at the bottom without any search; the rest is placed in several orders, into the
// lowest or the tightest gap; then the pieces at the very top of the best result move to the front of its order and it
// is tried again, a fixed number of times (fixed by counts, never by a clock: equal plans give equal layouts). Where
// that still wastes more than a 64th, single pieces move forward by a fixed sequence of random numbers: plans of a few
// hundred slots, whose panels and buckets are of the size of all their activations, need it.
#include "runtime/Memory/Packer.h"
#include "runtime/Core/Random.h"
#include "runtime/Memory/GreedyPacker.h"
#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <numeric>

namespace ztc {
namespace {

/// Keeps the best result of all passes.
class Search {
public:
  /// `enough`: of what takes at most as many bytes nothing better is looked for.
  Search(const std::vector<PackEntry> &entries, uint64_t enough)
      : entries_(entries), packer_(entries), enough_(enough), best_(~uint64_t(0)) {}

  bool isGoodEnough() const { return best_ <= enough_; }
  uint64_t best() const { return best_; }
  const std::vector<uint64_t> &offsets() const { return offsets_; }

  bool attempt(const std::vector<uint32_t> &order, PackFit fit) {
    if (isGoodEnough())
      return false;
    const uint64_t top = packer_.run(order, fit, best_);
    if (top >= best_)
      return false;
    best_ = top;
    offsets_ = packer_.offsets();
    order_ = order;
    return true;
  }

  template <typename Before> void attemptSorted(Before before) {
    std::vector<uint32_t> order(entries_.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      if (before(entries_[a], entries_[b]))
        return true;
      return !before(entries_[b], entries_[a]) && a < b; // a total order
    });
    for (const PackFit fit : {PackFit::Lowest, PackFit::Tightest})
      attempt(order, fit);
  }

  /// Moves what stands at the top to the front of the best order and tries again.
  void promoteTop(unsigned rounds) {
    std::vector<uint32_t> order = order_;
    for (unsigned round = 0; round < rounds && !isGoodEnough(); ++round) {
      const auto isTop = [&](uint32_t item) { return offsets_[item] + entries_[item].bytes == best_; };
      std::vector<uint32_t> next;
      std::copy_if(order.begin(), order.end(), std::back_inserter(next), isTop);
      std::copy_if(order.begin(), order.end(), std::back_inserter(next), std::not_fn(isTop));
      order = std::move(next);
      if (attempt(order, round % 2 ? PackFit::Tightest : PackFit::Lowest))
        order = order_;
    }
  }

  /// Until the best is at most `goal`, or too many comparisons were made: moves one piece of the order to any earlier
  /// place and keeps the order that gives where the top does not rise. Only pieces that `isCritical` take part, the
  /// others are placed after them, the largest first. `stream`: which random numbers.
  template <typename IsCritical> void moveForward(IsCritical isCritical, uint64_t goal, uint32_t stream) {
    constexpr uint64_t kComparisons = 12'000'000, kRounds = 1500;
    std::vector<uint32_t> order, others, next, tops;
    for (uint32_t item : order_)
      (isCritical(entries_[item]) ? order : others).push_back(item);
    std::sort(others.begin(), others.end(), [&](uint32_t a, uint32_t b) {
      return entries_[a].bytes != entries_[b].bytes ? entries_[a].bytes > entries_[b].bytes : a < b;
    });
    const uint64_t n = order.size();
    if (n < 2)
      return;
    uint64_t reached = packer_.run(order, PackFit::Lowest, ~uint64_t(0));
    std::vector<uint64_t> offsets = packer_.offsets();
    const uint64_t rounds = std::min(kRounds, kComparisons / (n * n));
    for (uint32_t round = 0; round < rounds && best_ > goal; ++round) {
      tops.clear();
      for (uint32_t place = 1; place < n; ++place)
        if (offsets[order[place]] + entries_[order[place]].bytes == reached)
          tops.push_back(place);
      const std::array<uint32_t, 4> random = philox4x32({round, stream, 0, 0}, {0, 0});
      const uint64_t from =
          tops.empty() || random[0] % 2 ? 1 + random[1] % (n - 1) : uint64_t(tops[random[1] % tops.size()]);
      const auto moved = order.begin() + int64_t(from), target = order.begin() + int64_t(random[2] % from);
      next.assign(order.begin(), target);
      next.push_back(*moved);
      next.insert(next.end(), target, moved);
      next.insert(next.end(), moved + 1, order.end());
      const PackFit fit = random[3] % 2 ? PackFit::Lowest : PackFit::Tightest;
      const uint64_t top = packer_.run(next, fit, reached + 1);
      if (top > reached)
        continue;
      order = next;
      offsets = packer_.offsets();
      reached = top;
      if (top >= best_)
        continue;
      next.insert(next.end(), others.begin(), others.end());
      attempt(next, fit);
    }
  }

private:
  const std::vector<PackEntry> &entries_;
  GreedyPacker packer_;
  uint64_t enough_, best_;
  std::vector<uint64_t> offsets_;
  std::vector<uint32_t> order_;
};

uint64_t moments(const PackEntry &e) {
  return e.liveMoments;
}

} // namespace

static std::vector<uint64_t> liveBytes(const std::vector<PackEntry> &entries, uint32_t length) {
  std::vector<int64_t> change(static_cast<size_t>(length) + 1, 0);
  const auto add = [&](uint32_t first, uint32_t last, uint64_t bytes) {
    change[first] += static_cast<int64_t>(bytes);
    change[static_cast<size_t>(last) + 1] -= static_cast<int64_t>(bytes);
  };
  for (const PackEntry &e : entries) {
    if (!e.several)
      add(e.first, e.last, e.bytes);
    else
      for (const Interval &interval : *e.several)
        add(interval.first, interval.last, e.bytes);
  }
  std::vector<uint64_t> live(length);
  int64_t sum = 0;
  for (uint32_t moment = 0; moment < length; ++moment)
    live[moment] = static_cast<uint64_t>(sum += change[moment]);
  return live;
}

static PackEntry makeEntry(const PackItem &item) {
  PackEntry entry{item.bytes, item.lifetime.front().first, item.lifetime.back().last,
                  item.lifetime.size() > 1 ? &item.lifetime : nullptr, 0};
  for (const Interval &interval : item.lifetime)
    entry.liveMoments += interval.last - interval.first + 1;
  return entry;
}

Packing pack(const std::vector<PackItem> &items, uint32_t length, uint64_t enough) {
  Packing packing;
  packing.offsets.resize(items.size());
  std::vector<PackEntry> entries;
  std::vector<size_t> itemOfEntry;
  for (size_t i = 0; i < items.size(); ++i) {
    const PackEntry entry = makeEntry(items[i]);
    if (entry.liveMoments == length) { // always live: shares its address with nobody
      packing.offsets[i] = packing.bytes;
      packing.bytes += entry.bytes;
      continue;
    }
    entries.push_back(entry);
    itemOfEntry.push_back(i);
  }
  if (entries.empty())
    return packing;

  const std::vector<uint64_t> live = liveBytes(entries, length);
  const auto peak = static_cast<uint32_t>(std::max_element(live.begin(), live.end()) - live.begin());
  const auto livesAtPeak = [&](const PackEntry &e) { return e.first <= peak && peak <= e.last; };

  const uint64_t enoughHere = std::max(live[peak], enough - std::min(enough, packing.bytes));
  Search search(entries, enoughHere);
  search.attemptSorted([](const PackEntry &a, const PackEntry &b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : moments(a) > moments(b);
  });
  search.attemptSorted([](const PackEntry &a, const PackEntry &b) {
    return moments(a) != moments(b) ? moments(a) > moments(b) : a.bytes > b.bytes;
  });
  search.attemptSorted([](const PackEntry &a, const PackEntry &b) {
    const auto areaA = static_cast<unsigned __int128>(a.bytes) * moments(a),
               areaB = static_cast<unsigned __int128>(b.bytes) * moments(b);
    return areaA > areaB;
  });
  search.attemptSorted(
      [](const PackEntry &a, const PackEntry &b) { return a.first != b.first ? a.first < b.first : a.last > b.last; });
  search.attemptSorted(
      [](const PackEntry &a, const PackEntry &b) { return a.last != b.last ? a.last > b.last : a.first < b.first; });
  search.attemptSorted([&](const PackEntry &a, const PackEntry &b) {
    const bool peakA = livesAtPeak(a), peakB = livesAtPeak(b);
    if (peakA != peakB)
      return peakA;
    if (peakA)
      return moments(a) > moments(b);
    return a.bytes > b.bytes;
  });
  // A pass costs about n^2 / 2 comparisons at worst: fewer rounds for larger plans.
  const uint64_t n = entries.size();
  search.promoteTop(static_cast<unsigned>(std::min<uint64_t>(32, 1 + 100'000'000 / (n * n + 1))));

  // Several short walks find more than a long one. What never meets nine (or eight) tenths of the peak has its place in
  // the end.
  constexpr uint32_t kWalks = 8;
  const uint64_t goal = std::max(enoughHere, live[peak] + (packing.bytes + live[peak]) / 64);
  for (uint32_t walk = 0; walk < kWalks && search.best() > goal; ++walk) {
    const uint64_t high = live[peak] / 10 * (walk % 2 ? 8 : 9);
    const auto isHigh = [&](const Interval &interval) {
      return *std::max_element(live.begin() + interval.first, live.begin() + interval.last + 1) >= high;
    };
    const auto isCritical = [&](const PackEntry &e) {
      return e.several ? std::any_of(e.several->begin(), e.several->end(), isHigh) : isHigh({e.first, e.last});
    };
    search.moveForward(isCritical, goal, walk);
  }

  for (size_t e = 0; e < entries.size(); ++e)
    packing.offsets[itemOfEntry[e]] = packing.bytes + search.offsets()[e];
  packing.bytes += search.best();
  return packing;
}

} // namespace ztc
