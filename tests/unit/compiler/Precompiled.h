// Parsed once for all unit tests of the compiler.
#pragma once
#include "compiler/Support/Precompiled.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
