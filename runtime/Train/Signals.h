// Stopping at a step boundary: signals only set a flag.
#pragma once

namespace ztc {

/// From now on SIGTERM, SIGINT, SIGUSR1 and (unless it is ignored: nohup) SIGHUP ask for a stop; a second SIGINT ends
/// the process at once. For the program's main; installing twice is harmless.
void installStopSignals();

/// The signal that asked for a stop, or 0.
int stopSignal();

/// Forgets the request: for tests.
void clearStopSignal();

/// SIGTERM, SIGINT, SIGUSR1, SIGHUP, or "signal".
const char *stopSignalName(int signal);

} // namespace ztc
