// Who is this process: one of how many ranks, and where is rank 0? Read from what launchers leave in the environment.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Ranks/Sockets.h"
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

namespace ztc {

using Environment = std::map<std::string, std::string>;

/// The variable by which ztc-run tells the ranks it starts who they are.
inline constexpr const char *kRankVariable = "ZTC_RUN_RANK";

/// One rank of a run.
struct RankIdentity {
  uint32_t rank = 0;
  uint32_t world = 1;
  uint32_t localRank = 0;   ///< among the ranks of this host: chooses the GPU
  uint32_t localWorld = 1;  ///< ranks of this host: they share its cores
  HostPort rendezvous = {}; ///< where rank 0 listens
  int listener = -1;        ///< rank 0 under ztc-run: inherited, listens there already
  std::string runId = {};   ///< the launcher's name for the run
  std::string source = {};  ///< who says so: "ztc-run", "torchrun", "Open MPI", "Slurm"; empty at one rank
  int64_t launcher = 0;     ///< process id of ztc-run's launcher
  uint32_t restarts = 0;    ///< how often that has started the run again
};

/// This process starts the ranks of this host and is none itself.
struct LaunchOrder {
  uint32_t localWorld = 1;
  uint32_t firstRank = 0;
  uint32_t world = 1;
  std::optional<HostPort> rendezvous; ///< empty: all ranks are on this host
  uint32_t restarts = 0;              ///< of this run so far
};

/// What the command line says about ranks.
struct LaunchRequest {
  std::optional<uint64_t> ranks = {}; ///< --ranks or --gpus: of this host
  uint64_t nodes = 1;
  std::optional<uint64_t> nodeRank = {};
  std::string rendezvous = {}; ///< HOST:PORT or empty
};

/// Decides by the command line, then by torchrun's variables, Open MPI's, a Slurm step's, in this order.
/// `parent` is the process id of the parent: what a launcher left for its own children counts for them only.
/// InvalidArgument where options and variables contradict each other or something is missing.
StatusOr<std::variant<RankIdentity, LaunchOrder>> describeLaunch(const LaunchRequest &request,
                                                                 const Environment &environment, int64_t parent);

/// The value of kRankVariable for a rank.
std::string rankVariable(const RankIdentity &identity);

/// First host of a Slurm node list such as "gpu[03-05,09],login1": "gpu03". Empty for an empty list.
std::string firstNode(const std::string &nodeList);

} // namespace ztc
