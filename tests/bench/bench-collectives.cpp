// Rates of collectives on this machine: bytes that a rank sends per second, all ranks in one process.
//   bench-collectives [RANKS] [MIB PER SHARD]
#include "tests/conformance/CommunicatorFactories.h"
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace ztc;
using namespace ztc::test;

/// Seconds of one call: the fastest of some, as rank 0 sees it.
static double fastest(std::vector<std::unique_ptr<Communicator>> &ranks,
                      const std::function<Status(uint32_t, Communicator &)> &call) {
  double best = 1e9;
  onAllRanks(ranks, [&](uint32_t rank, Communicator &communicator) {
    for (int round = 0; round < 20; ++round) {
      if (!communicator.barrier({}).isOk())
        return;
      const auto start = std::chrono::steady_clock::now();
      if (Status status = call(rank, communicator); !status.isOk()) {
        std::fprintf(stderr, "%s\n", status.message().c_str());
        return;
      }
      if (rank == 0)
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  });
  return best;
}

int main(int argc, char **argv) {
  const uint32_t world = argc > 1 ? uint32_t(std::atoi(argv[1])) : 2;
  const uint64_t shard = (argc > 2 ? uint64_t(std::atoi(argv[2])) : 4) << 18; // elements
  if (world < 2 || shard == 0)
    return std::fprintf(stderr, "usage: bench-collectives [RANKS] [MIB PER SHARD]\n"), 2;
  std::vector<std::vector<float>> full(world, std::vector<float>(world * shard));
  std::vector<std::vector<float>> scratch(world, std::vector<float>(world << 18)); // 1 MiB for each rank
  for (const CommunicatorFactory &factory :
       {CommunicatorFactory{"threads", makeThreads}, CommunicatorFactory{"gloo", makeGloo}}) {
    auto made = factory.make(world);
    if (!made.isOk()) {
      std::printf("%-8s %s\n", factory.name, made.status().message().c_str());
      continue;
    }
    const double bytes = double(world - 1) * double(shard) * 4;
    const double gather = fastest(made->outer, [&](uint32_t r, Communicator &communicator) {
      return communicator.allGather(full[r].data() + r * shard, full[r].data(), shard, plan::F32, {"bench"});
    });
    const double reduce = fastest(made->outer, [&](uint32_t r, Communicator &communicator) {
      return communicator.reduceScatter(full[r].data(), shard, plan::F32, scratch[r].data(), scratch[r].size() * 4,
                                        {"bench"});
    });
    const double small = fastest(made->outer, [&](uint32_t r, Communicator &communicator) {
      return communicator.allReduce(full[r].data(), 1, scratch[r].data(), scratch[r].size() * 4, {"bench"});
    });
    std::printf("%-8s %u ranks, shards of %.1f MiB: all_gather %.2f GB/s, reduce_scatter %.2f GB/s, "
                "all_reduce of a number %.0f us\n",
                factory.name, world, double(shard) * 4 / (1 << 20), bytes / gather / 1e9, bytes / reduce / 1e9,
                small * 1e6);
  }
}
