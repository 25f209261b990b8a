// What the stand-in libraries share: the streams of the stand-in driver, and how misuse is told.
#pragma once
#include "runtime/Device/cuda/CudaApi.h"
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace ztc::standin {

/// Puts work at the end of a stream; it runs in the stream's thread. False: there is no such stream.
bool enqueue(cuda::Stream stream, std::function<void()> work);

/// Whether what the stream is given becomes part of a graph instead of being done.
bool isCaptured(cuda::Stream stream);

/// From the thread of a stream: its work takes so long by the clock of events, however long it really takes. Between
/// two events of a stream with such work nothing else counts.
void stateTime(double milliseconds);

/// True where [address, address + bytes) lies in one live allocation of device memory.
bool isDeviceMemory(const void *address, uint64_t bytes);

/// True where [address, address + bytes) lies in mapped virtual memory (cuMemCreate), false for cuMemAlloc's.
bool isVirtualMemory(const void *address, uint64_t bytes);

/// Counts what tests ask ztcStandInCalls() for: "waits", which are all calls that hold up the host, "cuGraphLaunch",
/// and what a real library would do worse without a word.
void countCall(const char *what);

/// Takes so much of the GPU for good, as libraries do for their own; false where there is too little.
bool takeMemory(uint64_t bytes);
/// Once per library, at its first call that computes: ZTC_STAND_IN_LIBRARIES bytes. False for the call that finds too
/// little.
bool takeLibraryMemory(std::once_flag &once);

/// Bytes of device memory that are in use, the context's own 64 MiB among them.
uint64_t usedBytes();

/// The caller did what a real library might not survive: tells it on stderr and, from the thread of a stream, fails the
/// context for good, as an error of a kernel does.
void misuse(const std::string &what);

} // namespace ztc::standin
