// A greedy pass places every piece where a scan over all that was placed before would: the fast packer beside the slow.
#include "runtime/Memory/GreedyPacker.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace ztc;

namespace {

bool meet(const PackItem &a, const PackItem &b) {
  return std::ranges::any_of(a.lifetime, [&](const Interval &x) {
    return std::ranges::any_of(b.lifetime, [&](const Interval &y) { return x.first <= y.last && y.first <= x.last; });
  });
}

/// By item; of the items of `order` alone. Every address where a piece could begin is tried: 0 and the ends of others.
std::vector<uint64_t> placeSlowly(const std::vector<PackItem> &items, const std::vector<uint32_t> &order, PackFit fit) {
  std::vector<uint64_t> offsets(items.size());
  std::vector<uint32_t> placed;
  for (uint32_t item : order) {
    std::vector<uint64_t> begins{0};
    std::vector<std::pair<uint64_t, uint64_t>> taken;
    for (uint32_t other : placed)
      if (meet(items[item], items[other])) {
        taken.emplace_back(offsets[other], offsets[other] + items[other].bytes);
        begins.push_back(taken.back().second);
      }
    std::ranges::sort(begins);
    uint64_t best = begins.back(), bestGap = ~uint64_t(0); // above everything there is room, but no gap
    for (uint64_t begin : begins) {
      uint64_t next = ~uint64_t(0);
      bool isFree = true;
      for (const auto &[from, to] : taken) {
        isFree = isFree && !(from <= begin && begin < to);
        if (from > begin)
          next = std::min(next, from);
      }
      if (!isFree || next == ~uint64_t(0) || next - begin < items[item].bytes || next - begin >= bestGap)
        continue;
      best = begin;
      bestGap = next - begin;
      if (fit == PackFit::Lowest)
        break;
    }
    offsets[item] = best;
    placed.push_back(item);
  }
  return offsets;
}

struct Problem {
  std::vector<PackItem> items;
  std::vector<PackEntry> entries; ///< of the items
  std::vector<uint32_t> order;

  /// Sizes of few kinds, so that gaps fit exactly too; lifetimes short, long and with gaps.
  Problem(std::mt19937 &random, uint32_t count) {
    const uint32_t length = 2 + random() % 300;
    for (uint32_t i = 0; i < count; ++i) {
      PackItem item{256 * (1 + random() % (random() % 2 ? 4 : 60)), {}};
      uint32_t at = random() % length;
      for (uint32_t pieces = 1 + (random() % 4 == 0) * (random() % 4); pieces > 0 && at < length; --pieces) {
        const uint32_t last = std::min<uint32_t>(length - 1, at + random() % (random() % 3 ? 8 : length));
        item.lifetime.push_back({at, last});
        at = last + 2 + random() % 8;
      }
      items.push_back(std::move(item));
      order.push_back(i);
    }
    std::ranges::shuffle(order, random);
    for (const PackItem &item : items)
      entries.push_back({item.bytes, item.lifetime.front().first, item.lifetime.back().last,
                         item.lifetime.size() > 1 ? &item.lifetime : nullptr, 0});
  }
};

TEST(GreedyPacker, PlacesWhereAScanOverAllWould) {
  std::mt19937 random(11);
  for (uint32_t count : {1, 2, 15, 16, 17, 63, 64, 65, 66, 129, 300, 700})
    for (int round = 0; round < (count < 100 ? 40 : 6); ++round) {
      Problem problem(random, count);
      GreedyPacker packer(problem.entries);
      for (const PackFit fit : {PackFit::Lowest, PackFit::Tightest, PackFit::Lowest}) { // nothing stays of a pass
        const uint64_t top = packer.run(problem.order, fit, ~uint64_t(0));
        ASSERT_EQ(packer.offsets(), placeSlowly(problem.items, problem.order, fit)) << count << ", round " << round;
        uint64_t highest = 0;
        for (uint32_t item = 0; item < count; ++item)
          highest = std::max(highest, packer.offsets()[item] + problem.items[item].bytes);
        EXPECT_EQ(top, highest);
        EXPECT_GE(packer.run(problem.order, fit, top), top);
        EXPECT_EQ(packer.run(problem.order, fit, top + 1), top);
      }
    }
}

TEST(GreedyPacker, PlacesSomeOfTheEntries) {
  std::mt19937 random(12);
  for (int round = 0; round < 20; ++round) {
    Problem problem(random, 200);
    problem.order.resize(1 + random() % 199);
    GreedyPacker packer(problem.entries);
    packer.run(problem.order, PackFit::Tightest, ~uint64_t(0));
    const std::vector<uint64_t> slowly = placeSlowly(problem.items, problem.order, PackFit::Tightest);
    for (uint32_t item : problem.order)
      EXPECT_EQ(packer.offsets()[item], slowly[item]);
  }
}

} // namespace
