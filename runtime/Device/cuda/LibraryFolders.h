// Where NVIDIA's libraries lie that no loader path names: PyPI's packages in Python environments, and toolkits.
#pragma once
#include "runtime/Device/cuda/CudaLibraries.h"
#include <functional>
#include <string>
#include <vector>

namespace ztc {

/// What the environment says of libraries: ZTC_LIBCUDA and its like, ZTC_CUDNN, ZTC_CUDA_PDL, ZTC_STAND_INS, and the
/// folders below.
CudaLibraryPaths cudaLibraryPaths(const std::function<std::string(const char *)> &variable);

/// Which libraries are found, where, in which versions, and which GPUs: a line each, for a person.
std::string describeCudaLibraries(const CudaLibraryPaths &paths);

/// Folders that exist, the nearest first: those of the activated environment (VIRTUAL_ENV, CONDA_PREFIX), of the
/// python3 that PATH finds first and of the user (HOME), as PyPI's nvidia packages lay them out
/// (site-packages/nvidia/*/lib), then toolkits (CUDA_HOME, CUDA_PATH, /usr/local/cuda*, /opt/cuda), the latest first.
/// `variable` gives a variable of the environment, or nothing.
std::vector<std::string> cudaLibraryFolders(const std::function<std::string(const char *)> &variable);

} // namespace ztc
