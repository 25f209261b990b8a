// ztc-run: trains a plan. Reads the environment, once, and turns a Status into an exit status.
#include "runtime/Core/Print.h"
#include "runtime/Ranks/Launcher.h"
#include "runtime/Tools/CommandLine.h"
#include "runtime/Tools/DataReport.h"
#include "runtime/Tools/Links.h"
#include "runtime/Tools/RankSetup.h"
#include "runtime/Tools/Supervisor.h"
#include "runtime/Train/Run.h"
#include "runtime/Train/Signals.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <fmt/format.h>
#include <new>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>
#include <vector>

using namespace ztc;

namespace {

// Exit status.
constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kStopped = 3; ///< by a signal, resumable

int report(const Status &status, int exitStatus) {
  print(stderr, "ztc-run: error: {}\n", printable(status.message()));
  return exitStatus;
}

/// A file or socket that were opened as 0, 1 or 2 would get what is printed.
void openStandardStreams() {
  int descriptor = 0;
  do
    descriptor = open("/dev/null", O_RDWR);
  while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor > STDERR_FILENO)
    close(descriptor);
}

/// A rank has a connection with every other one, the launcher a pipe to each of its ranks.
void allowManyFiles() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

/// ResourceExhausted where ranks would wait for one another because they cannot open their connections.
Status checkFiles(uint64_t world) {
  rlimit limit{};
  const uint64_t needed = 32 + 4 * world; // the run's own files; of each rank a control channel and Gloo's sockets
  if (world < 2 || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
    return Status::ok();
  return resourceExhausted(
      fmt::format("the system lets a process have {} open files, {} ranks need {}: raise the limit "
                  "(ulimit -n {})",
                  limit.rlim_cur, world, needed, needed));
}

/// The launcher: what every rank would refuse is refused once, before any is started.
int launch(const RunOptions &options, const LaunchOrder &order, const std::vector<std::string> &arguments) {
  plan::Plan model; // of the plan no more than what is small
  {
    auto loaded = readPlanFile(options.plan);
    if (!loaded.isOk())
      return report(loaded.status(), kFailed);
    *model.mutable_model() = loaded->plan.model();
  }
  if (options.restarts) {
    auto ended = superviseRanks(options, model, order, arguments);
    return ended.isOk() ? *ended : report(ended.status(), kFailed);
  }
  auto ended = launchRanks(order, arguments);
  return ended.isOk() ? ended->exitStatus : report(ended.status(), kFailed);
}

/// While it lives the communicator is aborted when a rank is lost, and its traffic counts as progress.
class AbortOnFailure {
public:
  AbortOnFailure(ControlChannel &control, Communicator *communicator) : control_(control) {
    if (!communicator)
      return;
    control.progress().alsoCount([communicator] { return communicator->traffic().sentBytes(); });
    control.onFailure([communicator](const Status &status) { communicator->abort(status.message()); });
  }
  ~AbortOnFailure() {
    control_.onFailure(nullptr);
    control_.progress().forgetNames();
  }

private:
  ControlChannel &control_;
};

/// One rank, from plan to end. `communicator` outlives an error: the others hear of the error before they see the
/// connections close.
StatusOr<RunEnd> runRank(const RunOptions &given, const Environment &environment, const RankIdentity &identity,
                         ControlChannel &control, std::unique_ptr<Communicator> &communicator) {
  ZTC_ASSIGN_OR_RETURN(LoadedPlan loaded, readPlanFile(given.plan));
  const RunOptions options = withDefaults(given, loaded.plan);
  ZTC_RETURN_IF_ERROR(checkUpdateTime(options, loaded.plan));
  if (options.pack && !loaded.plan.bindings().has_document_starts())
    return invalidArgument(
        fmt::format("--pack: the rows of {} hold one document each: compile it again with --pack", options.plan));
  std::vector<std::string> unused = unusedOptions(options, loaded.plan);
  if (control.world() == 1 && !options.rendezvous.empty())
    unused.push_back("--rendezvous has no effect on one rank");
  if (!options.deterministic && !wantsGpus(options))
    unused.push_back("--deterministic=no has no effect on CPU ranks: they add up in one order");
  if (control.rank() == 0)
    for (const std::string &sentence : unused)
      print(stderr, "ztc-run: note: {}\n", sentence);
  ZTC_ASSIGN_OR_RETURN(uint32_t threads, threadsOfRank(options, control));
  if (const std::string notice = standInNotice(options, environment); !notice.empty() && control.rank() == 0)
    print(stderr, "{}\n", notice);
  ZTC_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, createDevice(options, environment, identity, threads));
  if (options.trains() && options.device.empty() && !wantsGpus(options) && !options.ranks && control.world() == 1)
    print(stdout, "no GPU was found: one CPU rank\n");
  ZTC_ASSIGN_OR_RETURN(communicator, createCommunicator(options, environment, *device, control));
  AbortOnFailure abortOnFailure(control, communicator.get());
  return runPlan(options, std::move(loaded), std::move(device), {.out = stdout, .live = isatty(STDOUT_FILENO) == 1},
                 {.control = control, .communicator = communicator.get()});
}

/// True where this rank tells the person: one rank of all does, and the first on each host that it is not on.
bool reportsHere(const RunFailure &failure, const RankIdentity &identity) {
  const uint32_t firstHere = identity.rank - std::min(identity.rank, identity.localRank);
  const bool isToldHere = failure.reporter >= firstHere && failure.reporter - firstHere < identity.localWorld;
  return failure.reportHere || (identity.localRank == 0 && !isToldHere);
}

/// What this rank exits with where it failed: the launcher is told whether others are the cause.
int failedStatus(const Status &status, const RankIdentity &identity) {
  return identity.launcher && status.code() == StatusCode::Unavailable ? kRankLostStatus : kFailed;
}

int run(const RunOptions &given, const std::vector<std::string> &arguments) {
  const Environment environment = readEnvironment();
  auto complete = withEnvironment(withDefaultDevice(given, environment), environment);
  if (!complete.isOk())
    return report(complete.status(), kUsage);
  RunOptions options = *complete;
  auto described = describeLaunch(options, environment);
  if (!described.isOk())
    return report(described.status(), kUsage);
  const auto *rank = std::get_if<RankIdentity>(&*described);
  if (Status status = checkRestarts(options, rank); !status.isOk())
    return report(status, kUsage);
  if (rank && rank->source.empty() && options.restarts)
    *described = LaunchOrder{}; // somebody must be left who starts it again
  else if (rank)
    options.restartsDone = rank->restarts;
  const auto *order = std::get_if<LaunchOrder>(&*described);
  if (Status status = checkFiles(order ? order->world : std::get<RankIdentity>(*described).world); !status.isOk())
    return report(status, kFailed);
  if (Status status = checkDevices(options, environment); !status.isOk())
    return report(status, kFailed);
  if (order)
    return launch(options, *order, arguments);

  // Text that is asked for comes as fast as it is read; what a run tells of itself never makes a step wait.
  std::optional<OutputInBackground> output;
  if (options.trains())
    output.emplace();
  const RankIdentity identity = std::get<RankIdentity>(*described);
  if (identity.localRank == 0)
    sayWhenInterruptedAgain();
  JoinResult joined = joinRanks(options, environment, identity);
  if (auto *failure = std::get_if<RunFailure>(&joined))
    return reportsHere(*failure, identity) ? report(failure->status, failedStatus(failure->status, identity))
                                           : failedStatus(failure->status, identity);
  ControlChannel &control = *std::get<std::unique_ptr<ControlChannel>>(joined);
  std::unique_ptr<Communicator> communicator;
  StatusOr<RunEnd> end = runRank(options, environment, identity, control, communicator);
  Status status = end.isOk() ? control.finish() : end.status();
  if (!status.isOk()) {
    RunFailure failure = control.fail(status);
    const int exitStatus = failedStatus(failure.status, identity);
    if (reportsHere(failure, identity))
      report(failure.status, exitStatus);
    if (communicator && communicator->isLeftBehind()) {
      output.reset(); // what was said is out
      std::fflush(nullptr);
      _exit(exitStatus);
    }
    return exitStatus;
  }
  return *end == RunEnd::Stopped ? kStopped : kDone;
}

/// --measure-links.
int measureLinks(const std::string &folder) {
  const Environment variables = readEnvironment();
  const auto environment = withEnvironment(RunOptions(), variables);
  if (!environment.isOk())
    return report(environment.status(), kUsage);
  const std::string cache = userCacheFolder(variables);
  const StatusOr<std::string> text = linkReport({.folder = folder,
                                                 .engine = environment->diskEngine,
                                                 .libraries = cudaLibraries(variables),
                                                 .file = cache.empty() ? "" : cache + "/links.json"});
  if (!text.isOk())
    return report(text.status(), kFailed);
  print(stdout, "{}", *text);
  return kDone;
}

/// --describe-data.
int describeData(const DataQuestion &question) {
  const StatusOr<std::string> text = dataReport(question.options, question.seq, question.vocabulary);
  if (!text.isOk())
    return report(text.status(), kFailed);
  print(stdout, "{}\n", *text);
  return kDone;
}

} // namespace

/// `status`, unless what was printed did not arrive: an error of a program whose text is what it was asked for, and a
/// warning of a run that trains.
static int withOutput(int status, bool isText = true) {
  const int number = standardOutputError();
  if (number == 0)
    return status;
  if (!isText) {
    print(stderr, "ztc-run: warning: standard output has not taken all of what the run says: {}\n",
          std::strerror(number));
    return status;
  }
  const int failed =
      report(resourceExhausted(fmt::format("cannot write to standard output: {}", std::strerror(number))), kFailed);
  return status == kDone ? failed : status;
}

static int runProgram(int argc, char **argv) {
  openStandardStreams();
  allowManyFiles();
  auto parsed = parseCommandLine(argc, argv);
  if (!parsed.isOk())
    return report(parsed.status(), kUsage);
  if (auto *text = std::get_if<CommandLineText>(&*parsed)) {
    print(stdout, "{}", text->text);
    return withOutput(kDone);
  }
  if (std::holds_alternative<LibraryQuestion>(*parsed)) {
    print(stdout, "{}", libraryReport(readEnvironment()));
    return withOutput(kDone);
  }
  if (const auto *question = std::get_if<LinkQuestion>(&*parsed))
    return withOutput(measureLinks(question->disk));
  if (const auto *question = std::get_if<DataQuestion>(&*parsed))
    return withOutput(describeData(*question));
  installStopSignals();
  const RunOptions &options = std::get<RunOptions>(*parsed);
  return withOutput(run(options, {argv, argv + argc}), !options.trains());
}

int main(int argc, char **argv) { // NOLINT(bugprone-exception-escape): a message that cannot be made ends the process
  try {
    return runProgram(argc, argv);
  } catch (const std::bad_alloc &) {
    return report(resourceExhausted("the host's memory does not suffice"), kFailed);
  } catch (const std::system_error &exception) {
    return report(resourceExhausted(fmt::format("the system starts no more threads ({}): ask for fewer with --threads, "
                                                "or raise the limit (ulimit -u, ulimit -v, pids.max of the control "
                                                "group)",
                                                exception.code().message())),
                  kFailed);
  } catch (const std::exception &exception) {
    return report(internalError(exception.what()), kFailed);
  }
}
