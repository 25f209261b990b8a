// Parsed once for all unit tests of the runtime.
#pragma once
#include "runtime/Format/Precompiled.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
