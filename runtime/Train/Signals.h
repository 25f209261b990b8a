// Stopping at a step boundary: signals only set a flag.
#pragma once
#include <string_view>

namespace ztc {

/// From now on SIGTERM, SIGINT, SIGUSR1 and (unless it is ignored: nohup) SIGHUP ask for a stop; a second SIGINT ends
/// the process at once. For the program's main; installing twice is harmless.
void installStopSignals();

/// A second SIGINT says so on stderr, where that takes a line without waiting: for the one process of a host that
/// tells the person.
void sayWhenInterruptedAgain();

/// What follows in that line ("ended without a checkpoint; ..."); at first "ended at once". One thread at a time.
void setInterruptedText(std::string_view text);

/// The signal that asked for a stop, or 0.
int stopSignal();

/// Forgets the request: for tests.
void clearStopSignal();

/// SIGTERM, SIGINT, SIGUSR1, SIGHUP, or "signal".
const char *stopSignalName(int signal);

} // namespace ztc
