#include "runtime/Ranks/Launcher.h"
#include "runtime/Core/Print.h"
#include "runtime/Core/SteadyClock.h"
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <random>
#include <set>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace ztc {

namespace {

constexpr double kGraceSeconds = 5;
constexpr double kLastWordSeconds = 0.5; ///< after a second SIGINT
constexpr int kTickMs = 100;
constexpr int kFailed = 1;
constexpr std::string_view kErrorPrefix = "ztc-run: error: ";

struct RankProcess {
  RankIdentity identity;
  pid_t pid = 0;    ///< 0 when it has ended
  int output = -1;  ///< its stderr, for ranks other than 0 its stdout too
  std::string line; ///< begun and not ended
  int status = 0;   ///< its exit status; kFailed where a signal ended it
};

/// True where the process is stopped by a signal or a debugger: it cannot end by itself.
bool isStopped(pid_t pid) {
  std::string path = fmt::format("/proc/{}/stat", pid);
  std::FILE *file = std::fopen(path.c_str(), "re");
  if (!file)
    return false;
  char text[512] = "";
  size_t size = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  const char *name = static_cast<const char *>(memrchr(text, ')', size)); // the name may hold anything
  return name && name + 2 < text + size && (name[2] == 'T' || name[2] == 't');
}

class Launcher {
public:
  Launcher(const LaunchOrder &order, const std::vector<std::string> &arguments)
      : order_(order), arguments_(arguments), ranks_(order.localWorld) {}
  ~Launcher();
  StatusOr<LaunchEnd> run();

private:
  Status start();
  Status startOne(RankProcess &rank, int listener);
  [[noreturn]] void becomeRank(const RankProcess &rank, int listener, int output);
  void watch();
  void onSignals();
  void reap();
  void read(RankProcess &rank);
  void print(const RankProcess &rank, const std::string &line);
  void sendAll(int signal);
  size_t alive() const {
    return size_t(std::count_if(ranks_.begin(), ranks_.end(), [](const RankProcess &r) { return r.pid != 0; }));
  }

  const LaunchOrder &order_;
  const std::vector<std::string> &arguments_;
  std::vector<RankProcess> ranks_;
  sigset_t before_{};
  int signals_ = -1;
  double failedAt_ = -1; ///< a rank has failed then
  bool interrupted_ = false, isInterruptedAgain_ = false;
  bool hasSaidSo_ = false; ///< a rank, that it is interrupted again
  LaunchEnd end_;
  std::set<std::string> errors_; ///< printed already
};

Launcher::~Launcher() {
  sendAll(SIGKILL);
  for (RankProcess &rank : ranks_) {
    if (rank.pid)
      waitpid(rank.pid, nullptr, 0);
    if (rank.output >= 0)
      close(rank.output);
  }
  if (signals_ >= 0) {
    close(signals_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
}

void Launcher::sendAll(int signal) {
  for (const RankProcess &rank : ranks_)
    if (rank.pid)
      kill(rank.pid, signal);
}

void Launcher::becomeRank(const RankProcess &rank, int listener, int output) {
  // A process group of its own: Ctrl-C reaches the launcher alone, which passes it on. Printing is allowed from there.
  setpgid(0, 0);
  signal(SIGTTOU, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != pid_t(rank.identity.launcher))
    _exit(kFailed); // it ended before the line above
  if (int null = open("/dev/null", O_RDONLY); null >= 0)
    dup2(null, STDIN_FILENO);
  dup2(output, STDERR_FILENO);
  if (rank.identity.rank != 0)
    dup2(output, STDOUT_FILENO);
  if (listener >= 0)
    fcntl(listener, F_SETFD, 0);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  setenv(kRankVariable, rankVariable(rank.identity).c_str(), 1);
  std::vector<char *> arguments;
  for (const std::string &argument : arguments_)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  execv("/proc/self/exe", arguments.data());
  ztc::print(stderr, "{}cannot start rank {}: {}\n", kErrorPrefix, rank.identity.rank, std::strerror(errno));
  _exit(kFailed);
}

Status Launcher::startOne(RankProcess &rank, int listener) {
  int pipe[2];
  if (pipe2(pipe, O_CLOEXEC) != 0)
    return resourceExhausted(fmt::format("pipe: {}", std::strerror(errno)));
  pid_t pid = fork();
  if (pid == 0)
    becomeRank(rank, listener, pipe[1]);
  int number = errno;
  close(pipe[1]);
  rank.output = pipe[0];
  fcntl(rank.output, F_SETFL, O_NONBLOCK);
  if (pid < 0)
    return resourceExhausted(fmt::format("cannot start rank {}: {}", rank.identity.rank, std::strerror(number)));
  rank.pid = pid;
  return Status::ok();
}

Status Launcher::start() {
  RankIdentity common;
  common.world = order_.world;
  common.localWorld = order_.localWorld;
  common.launcher = getpid();
  common.restarts = order_.restarts;
  int listener = -1;
  if (order_.rendezvous) {
    common.rendezvous = *order_.rendezvous;
  } else {
    // Bound here and inherited by rank 0: nobody else can take the port in between.
    ZTC_ASSIGN_OR_RETURN(auto place, listenLocally());
    listener = place.first;
    common.rendezvous = place.second;
    std::random_device random;
    common.runId = fmt::format("{:08x}{:08x}", random(), random());
  }
  std::fflush(nullptr); // what is in a buffer now would be printed by every child
  Status status;
  for (uint32_t local = 0; local < order_.localWorld && status.isOk(); ++local) {
    RankProcess &rank = ranks_[local];
    rank.identity = common;
    rank.identity.rank = order_.firstRank + local;
    rank.identity.localRank = local;
    rank.identity.listener = rank.identity.rank == 0 ? listener : -1;
    status = startOne(rank, rank.identity.listener);
  }
  if (listener >= 0)
    close(listener);
  return status;
}

void Launcher::print(const RankProcess &rank, const std::string &line) {
  if (line.starts_with(kErrorPrefix) && !errors_.insert(line).second)
    return;
  hasSaidSo_ |= line.find(kInterruptedAgain) != std::string::npos;
  std::string text = rank.identity.rank == 0 ? line + "\n" : fmt::format("rank {}: {}\n", rank.identity.rank, line);
  printText(stderr, text);
}

void Launcher::read(RankProcess &rank) {
  char buffer[4096];
  ssize_t count;
  while ((count = ::read(rank.output, buffer, sizeof buffer)) > 0) {
    rank.line.append(buffer, size_t(count));
    size_t end;
    while ((end = rank.line.find('\n')) != std::string::npos) {
      print(rank, rank.line.substr(0, end));
      rank.line.erase(0, end + 1);
    }
  }
  if (count < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (!rank.line.empty())
    print(rank, std::exchange(rank.line, {}));
  close(rank.output);
  rank.output = -1;
}

void Launcher::reap() {
  for (RankProcess &rank : ranks_) {
    int status = 0;
    if (!rank.pid || waitpid(rank.pid, &status, WNOHANG) != rank.pid)
      continue;
    rank.pid = 0;
    rank.status = WIFEXITED(status) ? WEXITSTATUS(status) : kFailed;
    if (rank.output >= 0)
      read(rank);
    if (WIFSIGNALED(status) && failedAt_ < 0 && !interrupted_)
      ztc::print(stderr, "ztc-run: rank {} was ended by signal {} ({}){}\n", rank.identity.rank, WTERMSIG(status),
                 strsignal(WTERMSIG(status)),
                 WTERMSIG(status) == SIGKILL ? ": by hand, or by the kernel for lack of memory" : "");
    if (failedAt_ < 0 && rank.status != 0 && rank.status != 3) {
      failedAt_ = steadySeconds();
      end_.hasLostRank = WIFSIGNALED(status) || rank.status == kRankLostStatus;
      end_.lostRank = rank.identity.rank;
    }
  }
}

void Launcher::onSignals() {
  signalfd_siginfo info;
  while (::read(signals_, &info, sizeof info) == ssize_t(sizeof info)) {
    switch (int signal = int(info.ssi_signo)) {
    case SIGCHLD:
      break;
    case SIGTSTP: // Ctrl-Z: all or none
      sendAll(SIGSTOP);
      kill(getpid(), SIGSTOP);
      sendAll(SIGCONT);
      break;
    case SIGINT:
      end_.wasStopped = true;
      sendAll(SIGINT);
      if (interrupted_)
        failedAt_ = steadySeconds() - kGraceSeconds + kLastWordSeconds;
      isInterruptedAgain_ |= interrupted_;
      interrupted_ = true;
      break;
    default:
      end_.wasStopped = true;
      sendAll(signal);
    }
  }
}

void Launcher::watch() {
  std::vector<pollfd> wait;
  while (alive()) {
    wait.assign({{signals_, POLLIN, 0}});
    for (const RankProcess &rank : ranks_)
      wait.push_back({rank.output, POLLIN, 0});
    poll(wait.data(), nfds_t(wait.size()), kTickMs);
    onSignals();
    for (RankProcess &rank : ranks_)
      if (rank.output >= 0)
        read(rank);
    reap();
    if (failedAt_ < 0)
      continue;
    // The others notice by themselves and say what they waited in; a stopped one never will.
    bool onlyStopped = std::all_of(ranks_.begin(), ranks_.end(),
                                   [](const RankProcess &rank) { return !rank.pid || isStopped(rank.pid); });
    if (onlyStopped || steadySeconds() - failedAt_ > kGraceSeconds)
      sendAll(SIGKILL);
  }
}

StatusOr<LaunchEnd> Launcher::run() {
  sigset_t mask;
  sigemptyset(&mask);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGUSR1, SIGTSTP})
    sigaddset(&mask, signal);
  // Unless nohup said that a closed terminal should not matter.
  struct sigaction hangUp{};
  if (sigaction(SIGHUP, nullptr, &hangUp) == 0 && hangUp.sa_handler != SIG_IGN)
    sigaddset(&mask, SIGHUP);
  sigprocmask(SIG_BLOCK, &mask, &before_);
  signals_ = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  ZTC_RETURN_IF_ERROR(start());
  const OutputInBackground output; // a terminal that stands still does not keep the launcher from watching
  watch();
  if (isInterruptedAgain_ && !hasSaidSo_)
    ztc::print(stderr, "{}ended at once\n", kInterruptedAgain);
  std::vector<int> ends;
  for (const RankProcess &rank : ranks_)
    ends.push_back(rank.status);
  end_.exitStatus = exitStatusOf(ends);
  return end_;
}

} // namespace

int exitStatusOf(const std::vector<int> &rankStatus) {
  int result = 0;
  auto weight = [](int status) { return status == 0 ? 0 : status == 3 ? 1 : status == 2 ? 2 : 3; };
  for (int status : rankStatus)
    if (weight(status) > weight(result))
      result = status == 0 || status == 2 || status == 3 ? status : kFailed;
  return result;
}

StatusOr<LaunchEnd> launchRanks(const LaunchOrder &order, const std::vector<std::string> &arguments) {
  return Launcher(order, arguments).run();
}

} // namespace ztc
