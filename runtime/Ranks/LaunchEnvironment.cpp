#include "runtime/Ranks/LaunchEnvironment.h"
#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <utility>
#include <vector>

namespace ztc {

namespace {

using Launch = std::variant<RankIdentity, LaunchOrder>;

constexpr uint64_t kMostRanks = 1 << 20;

/// The variables of one launcher; remembers the first that is wrong.
class Variables {
public:
  explicit Variables(const Environment &environment) : environment_(environment) {}

  bool has(const char *name) const { return environment_.contains(name); }
  std::string text(const char *name) const {
    auto found = environment_.find(name);
    return found == environment_.end() ? std::string() : found->second;
  }
  /// `fallback` where the variable is not set.
  uint32_t number(const char *name, uint32_t fallback) {
    auto found = environment_.find(name);
    if (found == environment_.end())
      return fallback;
    uint32_t value = 0;
    const char *end = found->second.data() + found->second.size();
    auto [stop, error] = std::from_chars(found->second.data(), end, value);
    if (error == std::errc() && stop == end)
      return value;
    if (wrong_.isOk())
      wrong_ = invalidArgument(fmt::format("{}={}: expected a number", name, found->second));
    return fallback;
  }
  Status wrong() const { return wrong_; }

private:
  const Environment &environment_;
  Status wrong_;
};

Status checkIdentity(const RankIdentity &identity) {
  if (identity.rank < identity.world && identity.localRank < identity.localWorld)
    return Status::ok();
  return invalidArgument(fmt::format("{}: rank {} of {}, local rank {} of {}: ranks count from 0", identity.source,
                                     identity.rank, identity.world, identity.localRank, identity.localWorld));
}

/// A port that two jobs on one machine hardly share: below the ports that the kernel hands out.
uint16_t portOf(const std::string &job) {
  uint32_t hash = 2166136261u; // FNV-1a
  for (unsigned char c : job)
    hash = (hash ^ c) * 16777619u;
  return uint16_t(10000 + hash % 20000);
}

StatusOr<RankIdentity> fromTorchrun(Variables &v) {
  RankIdentity identity;
  identity.source = "torchrun";
  identity.rank = v.number("RANK", 0);
  identity.world = v.number("WORLD_SIZE", 1);
  identity.localWorld = v.number("LOCAL_WORLD_SIZE", identity.world);
  identity.localRank = v.number("LOCAL_RANK", identity.rank % std::max(1u, identity.localWorld));
  // After a restart of its workers the ones before them may still be ending.
  if (v.has("TORCHELASTIC_RUN_ID"))
    identity.runId = fmt::format("torchrun {} {}", v.text("TORCHELASTIC_RUN_ID"), v.text("TORCHELASTIC_RESTART_COUNT"));
  std::string host = v.text("MASTER_ADDR");
  uint32_t port = v.number("MASTER_PORT", 0);
  if (!host.empty() && port > 0 && port < 65535)
    identity.rendezvous = {host, uint16_t(port + 1)}; // torchrun's own agent listens at MASTER_PORT
  return identity;
}

StatusOr<RankIdentity> fromOpenMpi(Variables &v) {
  RankIdentity identity;
  identity.source = "Open MPI";
  identity.rank = v.number("OMPI_COMM_WORLD_RANK", 0);
  identity.world = v.number("OMPI_COMM_WORLD_SIZE", 1);
  identity.localRank = v.number("OMPI_COMM_WORLD_LOCAL_RANK", identity.rank);
  identity.localWorld = v.number("OMPI_COMM_WORLD_LOCAL_SIZE", identity.world);
  for (const char *name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMIX_ID"})
    if (identity.runId.empty() && v.has(name))
      identity.runId = "mpirun " + v.text(name);
  // Its variables hold no address: that is enough only where all ranks share this host.
  if (identity.localWorld == identity.world)
    identity.rendezvous = {"127.0.0.1", portOf(identity.runId)};
  return identity;
}

/// Tasks of node `index` in a list such as "2(x3),1".
uint32_t tasksOfNode(const std::string &list, uint32_t index, uint32_t fallback) {
  const char *at = list.data(), *end = at + list.size();
  while (at < end) {
    uint32_t tasks = 0, times = 1;
    auto [stop, error] = std::from_chars(at, end, tasks);
    if (error != std::errc())
      return fallback;
    at = stop;
    if (end - at > 2 && at[0] == '(' && at[1] == 'x') {
      auto [after, bad] = std::from_chars(at + 2, end, times);
      if (bad != std::errc() || after == end || *after != ')')
        return fallback;
      at = after + 1;
    }
    if (index < times)
      return tasks;
    index -= times;
    if (at < end && *at != ',')
      return fallback;
    if (at < end)
      ++at;
  }
  return fallback;
}

StatusOr<RankIdentity> fromSlurm(Variables &v) {
  RankIdentity identity;
  identity.source = "Slurm";
  identity.rank = v.number("SLURM_PROCID", 0);
  identity.world = v.number("SLURM_STEP_NUM_TASKS", 1);
  identity.localRank = v.number("SLURM_LOCALID", 0);
  identity.localWorld = tasksOfNode(v.text("SLURM_STEP_TASKS_PER_NODE"), v.number("SLURM_NODEID", 0), identity.world);
  identity.runId = fmt::format("slurm {}.{}", v.text("SLURM_JOB_ID"), v.text("SLURM_STEP_ID"));
  std::string node = firstNode(v.text(v.has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST"));
  if (!node.empty())
    identity.rendezvous = {node, portOf(identity.runId)};
  return identity;
}

/// What kRankVariable says, where it is this process that its launcher meant.
std::optional<RankIdentity> fromOwnLauncher(const std::string &text, int64_t parent) {
  RankIdentity identity;
  identity.source = "ztc-run";
  std::vector<std::string> fields;
  size_t begin = 0;
  while (begin <= text.size()) {
    size_t end = std::min(text.find(' ', begin), text.size());
    fields.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (fields.size() != 9)
    return std::nullopt;
  int64_t numbers[6], restarts = 0;
  for (size_t i = 0; i < 6; ++i)
    if (std::from_chars(fields[i].data(), fields[i].data() + fields[i].size(), numbers[i]).ec != std::errc())
      return std::nullopt;
  identity.launcher = numbers[0];
  identity.rank = uint32_t(numbers[1]);
  identity.world = uint32_t(numbers[2]);
  identity.localRank = uint32_t(numbers[3]);
  identity.localWorld = uint32_t(numbers[4]);
  identity.listener = int(numbers[5]);
  if (std::from_chars(fields[8].data(), fields[8].data() + fields[8].size(), restarts).ec != std::errc())
    return std::nullopt;
  identity.restarts = uint32_t(restarts);
  auto place = parseHostPort(fields[6]);
  if (!place.isOk() || identity.launcher != parent)
    return std::nullopt;
  identity.rendezvous = *place;
  identity.runId = fields[7];
  return identity;
}

StatusOr<Launch> orderOf(const LaunchRequest &request) {
  uint64_t ranks = request.ranks.value_or(1);
  if (ranks * request.nodes > kMostRanks || request.nodes > kMostRanks)
    return invalidArgument(
        fmt::format("{} ranks on {} nodes: at most {} altogether", ranks, request.nodes, kMostRanks));
  LaunchOrder order;
  order.localWorld = uint32_t(ranks);
  order.world = uint32_t(ranks * request.nodes);
  if (request.nodes > 1) {
    if (!request.nodeRank)
      return invalidArgument("--nodes needs --node-rank: the index of this node, 0 on the first");
    if (request.rendezvous.empty())
      return invalidArgument(
          "--nodes needs --rendezvous HOST:PORT: an address of the first node that all others reach");
    order.firstRank = uint32_t(*request.nodeRank * ranks);
  }
  if (!request.rendezvous.empty() && order.world > 1) {
    auto place = parseHostPort(request.rendezvous);
    if (!place.isOk())
      return place.status().withContext("--rendezvous");
    order.rendezvous = *place;
  }
  if (order.world == 1)
    return Launch(RankIdentity{});
  return Launch(order);
}

} // namespace

std::string firstNode(const std::string &nodeList) {
  size_t bracket = nodeList.find_first_of("[,");
  if (bracket == std::string::npos || nodeList[bracket] == ',')
    return nodeList.substr(0, bracket);
  size_t stop = nodeList.find_first_of("-,]", bracket);
  size_t close = nodeList.find(']', bracket);
  if (stop == std::string::npos || close == std::string::npos)
    return {};
  // After the brackets the name may go on: "r[1-2]n5".
  std::string rest = nodeList.substr(close + 1);
  return nodeList.substr(0, bracket) + nodeList.substr(bracket + 1, stop - bracket - 1) + firstNode(rest);
}

std::string rankVariable(const RankIdentity &identity) {
  return fmt::format("{} {} {} {} {} {} {} {} {}", identity.launcher, identity.rank, identity.world, identity.localRank,
                     identity.localWorld, identity.listener, identity.rendezvous.text(), identity.runId,
                     identity.restarts);
}

StatusOr<Launch> describeLaunch(const LaunchRequest &request, const Environment &environment, int64_t parent) {
  Variables v(environment);
  if (auto own = fromOwnLauncher(v.text(kRankVariable), parent))
    return Launch(*own);
  std::optional<StatusOr<RankIdentity>> found;
  if (v.has("RANK") && v.has("WORLD_SIZE"))
    found = fromTorchrun(v);
  else if (v.has("OMPI_COMM_WORLD_RANK") && v.has("OMPI_COMM_WORLD_SIZE"))
    found = fromOpenMpi(v);
  else if (v.has("SLURM_STEP_NUM_TASKS") && v.has("SLURM_PROCID"))
    found = fromSlurm(v);
  if (!found)
    return orderOf(request);
  ZTC_RETURN_IF_ERROR(v.wrong());
  ZTC_ASSIGN_OR_RETURN(RankIdentity identity, std::move(*found));
  if (identity.world <= 1)
    return orderOf(request);
  if (request.ranks || request.nodes > 1)
    return invalidArgument(fmt::format(
        "{} has started {} processes already: leave {} out, or unset its variables to start ranks from here",
        identity.source, identity.world, request.ranks ? "--ranks and --gpus" : "--nodes"));
  ZTC_RETURN_IF_ERROR(checkIdentity(identity));
  if (!request.rendezvous.empty()) {
    auto place = parseHostPort(request.rendezvous);
    if (!place.isOk())
      return place.status().withContext("--rendezvous");
    identity.rendezvous = *place;
  }
  if (identity.rendezvous.port == 0)
    return invalidArgument(fmt::format(
        "{} does not say where rank 0 is{}: give --rendezvous HOST:PORT, an address of rank 0's host that all others "
        "reach",
        identity.source,
        identity.source == "torchrun" ? " (MASTER_ADDR and MASTER_PORT)"
        : identity.source == "Open MPI"
            ? fmt::format(" ({} of {} ranks are on this host)", identity.localWorld, identity.world)
            : " (SLURM_STEP_NODELIST)"));
  return Launch(identity);
}

} // namespace ztc
