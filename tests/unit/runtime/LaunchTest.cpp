// Who is which rank: recorded environments of launchers, and what the command line says.
#include "runtime/Ranks/LaunchEnvironment.h"
#include "runtime/Ranks/Launcher.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace ztc;
using testing::HasSubstr;

namespace {

RankIdentity identityOf(const Environment &environment, const LaunchRequest &request = {}) {
  auto launch = describeLaunch(request, environment, 1);
  EXPECT_TRUE(launch.isOk()) << launch.status().message();
  const auto *identity = launch.isOk() ? std::get_if<RankIdentity>(&*launch) : nullptr;
  EXPECT_TRUE(identity);
  return identity ? *identity : RankIdentity();
}

std::string errorOf(const Environment &environment, const LaunchRequest &request) {
  auto launch = describeLaunch(request, environment, 1);
  EXPECT_EQ(launch.status().code(), StatusCode::InvalidArgument);
  return launch.status().message();
}

/// torchrun --nnodes 2 --nproc-per-node 2 --no-python, the second process of the second node.
const Environment kTorchrun{{"GROUP_RANK", "1"},
                            {"GROUP_WORLD_SIZE", "2"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "2"},
                            {"MASTER_ADDR", "10.1.0.7"},
                            {"MASTER_PORT", "29500"},
                            {"OMP_NUM_THREADS", "1"},
                            {"RANK", "3"},
                            {"ROLE_RANK", "3"},
                            {"ROLE_WORLD_SIZE", "4"},
                            {"TORCHELASTIC_MAX_RESTARTS", "0"},
                            {"TORCHELASTIC_RESTART_COUNT", "0"},
                            {"TORCHELASTIC_RUN_ID", "none"},
                            {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                            {"WORLD_SIZE", "4"}};

/// mpirun -np 2 on one host (Open MPI 4.1).
const Environment kOpenMpi{{"OMPI_APP_CTX_NUM_PROCS", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"OMPI_COMM_WORLD_NODE_RANK", "1"},
                           {"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_MCA_ess_base_jobid", "1846083585"},
                           {"OMPI_MCA_orte_hnp_uri", "1846083584.0;tcp://10.4.0.2:46801"},
                           {"PMIX_NAMESPACE", "1846083585"},
                           {"PMIX_RANK", "1"}};

/// srun --nodes 3 --ntasks 5, the task 3: the first of the second node.
const Environment kSlurm{{"SLURM_JOB_ID", "81234"},
                         {"SLURM_JOB_NODELIST", "gpu[03-05,11]"},
                         {"SLURM_LAUNCH_NODE_IPADDR", "10.9.0.1"},
                         {"SLURM_LOCALID", "0"},
                         {"SLURM_NNODES", "3"},
                         {"SLURM_NODEID", "2"},
                         {"SLURM_NTASKS", "5"},
                         {"SLURM_PROCID", "4"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_STEP_NODELIST", "gpu[03-05]"},
                         {"SLURM_STEP_NUM_NODES", "3"},
                         {"SLURM_STEP_NUM_TASKS", "5"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"}};

Environment without(Environment environment, const std::string &name) {
  environment.erase(name);
  return environment;
}
Environment with(Environment environment, const std::string &name, const std::string &value) {
  environment[name] = value;
  return environment;
}

TEST(Launch, AloneIsOneRank) {
  RankIdentity identity = identityOf({{"PATH", "/usr/bin"}});
  EXPECT_EQ(identity.world, 1u);
  EXPECT_EQ(identityOf({}, {.ranks = 1}).world, 1u);
  EXPECT_EQ(identityOf(with(with({}, "RANK", "0"), "WORLD_SIZE", "1")).world, 1u);
  // Half of what a launcher says is not a launcher.
  EXPECT_EQ(identityOf({{"RANK", "3"}}).world, 1u);
  EXPECT_EQ(identityOf({{"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "7"}}).world, 1u); // a batch script
}

TEST(Launch, Torchrun) {
  RankIdentity identity = identityOf(kTorchrun);
  EXPECT_EQ(identity.rank, 3u);
  EXPECT_EQ(identity.world, 4u);
  EXPECT_EQ(identity.localRank, 1u);
  EXPECT_EQ(identity.localWorld, 2u);
  EXPECT_EQ(identity.rendezvous.text(), "10.1.0.7:29501") << "torchrun's agent listens at MASTER_PORT itself";
  EXPECT_EQ(identity.source, "torchrun");
  EXPECT_NE(identity.runId, identityOf(with(kTorchrun, "TORCHELASTIC_RESTART_COUNT", "1")).runId);
  EXPECT_EQ(identityOf(kTorchrun, {.rendezvous = "node0:1234"}).rendezvous.text(), "node0:1234");
  EXPECT_THAT(errorOf(without(kTorchrun, "MASTER_ADDR"), {}), HasSubstr("--rendezvous"));
  EXPECT_THAT(errorOf(with(kTorchrun, "RANK", "4"), {}), HasSubstr("rank 4 of 4"));
  EXPECT_THAT(errorOf(with(kTorchrun, "RANK", "x"), {}), HasSubstr("RANK=x"));
}

TEST(Launch, OpenMpi) {
  RankIdentity identity = identityOf(kOpenMpi);
  EXPECT_EQ(identity.rank, 1u);
  EXPECT_EQ(identity.world, 2u);
  EXPECT_EQ(identity.rendezvous.host, "127.0.0.1");
  EXPECT_EQ(identity.rendezvous.port, identityOf(with(kOpenMpi, "OMPI_COMM_WORLD_RANK", "0")).rendezvous.port);
  EXPECT_NE(identity.rendezvous.port, identityOf(with(kOpenMpi, "PMIX_NAMESPACE", "1846083586")).rendezvous.port);
  // Over several hosts its variables hold no address.
  Environment spread = with(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "1");
  spread = with(spread, "OMPI_COMM_WORLD_LOCAL_RANK", "0");
  EXPECT_THAT(errorOf(spread, {}), HasSubstr("1 of 2 ranks are on this host"));
  EXPECT_THAT(errorOf(spread, {}), HasSubstr("--rendezvous HOST:PORT"));
  EXPECT_EQ(identityOf(spread, {.rendezvous = "10.0.0.1:4000"}).rendezvous.text(), "10.0.0.1:4000");
}

TEST(Launch, Slurm) {
  RankIdentity identity = identityOf(kSlurm);
  EXPECT_EQ(identity.rank, 4u);
  EXPECT_EQ(identity.world, 5u);
  EXPECT_EQ(identity.localRank, 0u);
  EXPECT_EQ(identity.localWorld, 1u);
  EXPECT_EQ(identity.rendezvous.host, "gpu03");
  EXPECT_GE(identity.rendezvous.port, 10000);
  EXPECT_NE(identity.rendezvous.port, identityOf(with(kSlurm, "SLURM_JOB_ID", "81235")).rendezvous.port);
  EXPECT_EQ(identityOf(with(with(kSlurm, "SLURM_NODEID", "1"), "SLURM_LOCALID", "1")).localWorld, 2u);
}

TEST(Launch, TheFirstNodeOfASlurmList) {
  EXPECT_EQ(firstNode("gpu[03-05,11],login1"), "gpu03");
  EXPECT_EQ(firstNode("n1,n2"), "n1");
  EXPECT_EQ(firstNode("single"), "single");
  EXPECT_EQ(firstNode("rack[2-3]node[07,09]"), "rack2node07");
  EXPECT_EQ(firstNode("rack[2]-eth,x"), "rack2-eth");
  EXPECT_EQ(firstNode("gpu[03"), "");
  EXPECT_EQ(firstNode(""), "");
}

TEST(Launch, TorchrunIsBelievedBeforeOpenMpiBeforeSlurm) {
  Environment all = kSlurm;
  all.insert(kOpenMpi.begin(), kOpenMpi.end());
  EXPECT_EQ(identityOf(all).source, "Open MPI");
  all.insert(kTorchrun.begin(), kTorchrun.end());
  EXPECT_EQ(identityOf(all).source, "torchrun");
}

TEST(Launch, RanksOfThisHost) {
  auto launch = describeLaunch({.ranks = 3}, {}, 1);
  ASSERT_TRUE(launch.isOk());
  const auto &order = std::get<LaunchOrder>(*launch);
  EXPECT_EQ(order.localWorld, 3u);
  EXPECT_EQ(order.world, 3u);
  EXPECT_FALSE(order.rendezvous);
  EXPECT_THAT(errorOf(kTorchrun, {.ranks = 2}), HasSubstr("torchrun has started 4 processes already"));
}

TEST(Launch, SeveralNodes) {
  LaunchRequest request{.ranks = 4, .nodes = 3, .nodeRank = 2, .rendezvous = "[fd00::1]:7000"};
  auto launch = describeLaunch(request, {}, 1);
  ASSERT_TRUE(launch.isOk());
  const auto &order = std::get<LaunchOrder>(*launch);
  EXPECT_EQ(order.firstRank, 8u);
  EXPECT_EQ(order.world, 12u);
  EXPECT_EQ(order.rendezvous->text(), "[fd00::1]:7000");
  // One rank on each of two nodes.
  launch = describeLaunch({.nodes = 2, .nodeRank = 1, .rendezvous = "a:1"}, {}, 1);
  EXPECT_EQ(std::get<LaunchOrder>(*launch).localWorld, 1u);
  EXPECT_THAT(errorOf({}, {.ranks = 1, .nodes = 2, .nodeRank = 0}), HasSubstr("--rendezvous"));
  EXPECT_THAT(errorOf({}, {.nodes = 2, .rendezvous = "a:1"}), HasSubstr("--node-rank"));
  EXPECT_THAT(errorOf({}, {.ranks = 2, .rendezvous = "a"}), HasSubstr("--rendezvous: expected HOST:PORT"));
  // One rank meets nobody: ztc-run notes it.
  EXPECT_TRUE(std::holds_alternative<RankIdentity>(*describeLaunch({.rendezvous = "a:1"}, {}, 1)));
}

TEST(Launch, WhatTheLauncherLeavesCountsForItsChildrenOnly) {
  RankIdentity identity{.rank = 1, .world = 3, .localRank = 1, .localWorld = 3, .rendezvous = {"::1", 4242}};
  identity.listener = 7;
  identity.runId = "0123";
  identity.launcher = 99;
  Environment environment{{kRankVariable, rankVariable(identity)}};
  auto launch = describeLaunch({.ranks = 3}, environment, 99);
  ASSERT_TRUE(launch.isOk());
  const auto &read = std::get<RankIdentity>(*launch);
  EXPECT_EQ(rankVariable(read), rankVariable(identity));
  EXPECT_TRUE(std::holds_alternative<LaunchOrder>(*describeLaunch({.ranks = 3}, environment, 98)));
  identity.runId = "";
  environment[kRankVariable] = rankVariable(identity);
  EXPECT_EQ(std::get<RankIdentity>(*describeLaunch({}, environment, 99)).world, 3u);
}

TEST(Launch, OneExitStatusForAll) {
  EXPECT_EQ(exitStatusOf({0, 0}), 0);
  EXPECT_EQ(exitStatusOf({3, 3}), 3);
  EXPECT_EQ(exitStatusOf({0, 3, 2}), 2);
  EXPECT_EQ(exitStatusOf({2, 1, 3}), 1);
  EXPECT_EQ(exitStatusOf({0, 127}), 1);
}

} // namespace
