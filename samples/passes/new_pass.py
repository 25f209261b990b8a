#!/usr/bin/env python3
"""Creates a pass plugin with a test that fails: the start of a pass of your own.

    new_pass.py scale-residuals [FOLDER]        FOLDER: by default ./scale-residuals
    export CC=clang-22 CXX=clang++-22
    cmake -S FOLDER -B FOLDER/build -G Ninja -DZtc_DIR=ZTC/lib/cmake/Ztc          # ZTC: where ztc is installed, or its build folder
    cmake --build FOLDER/build --target check-ScaleResiduals                      # builds it and runs its tests
"""
import argparse
import pathlib
import re
import sys

LISTS = """cmake_minimum_required(VERSION 3.25)
project({argument} CXX C) # C: LLVM's configuration checks need it
find_package(Ztc REQUIRED)
ztc_add_plugin({name} {name}.cpp TESTS ${{CMAKE_CURRENT_SOURCE_DIR}}/test)
"""

SOURCE = """// {argument}: what is true after it, in one sentence.
//   ztc-opt --load-pass-plugin={name}.so --pass-pipeline='builtin.module({argument})' step.mlir
//   ztc compile MODEL --load-pass-plugin={name}.so --remarks={argument} -o plan.bin
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Driver/Plugin.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

namespace {{

struct {name} : mlir::PassWrapper<{name}, mlir::OperationPass<mlir::ModuleOp>> {{
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID({name})
  llvm::StringRef getArgument() const override {{ return "{argument}"; }}
  llvm::StringRef getDescription() const override {{ return "what it does, in one sentence"; }}

  void runOnOperation() override {{
    // Here: every exp. What to change is yours; the ops are in include/ztc/compiler/Dialect/Graph/*.td.
    getOperation().walk([&](ztc::graph::ExpOp op) {{
      mlir::remark::analysis(op.getLoc(), mlir::remark::RemarkOpts::name("seen").category(getArgument()))
          << "an exp is left as it is";
    }});
  }}
}};

}} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {{
  return {{MLIR_PLUGIN_API_VERSION, "{argument}", "1.0", [] {{ mlir::PassRegistration<{name}>(); }}}};
}}

// Where `ztc compile` runs it: before the graph is differentiated, so that gradients follow. See compiler/Driver/Phases.def for the phases.
extern "C" void ztcRegisterPhaseHooks(ztc::PhaseHooks &hooks) {{
  hooks.before(ztc::Phase::Backward, [] {{ return std::make_unique<{name}>(); }});
}}
"""

CONFIG = """import os

import lit.formats

config.name = "{argument}"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".mlir"]
config.test_exec_root = os.path.join(os.path.dirname(__file__), "Output")
programs, plugin = os.environ["ZTC_PROGRAMS"], os.environ["ZTC_PLUGIN"]
config.environment["PATH"] = os.pathsep.join([programs, os.environ["ZTC_LLVM"], os.environ["PATH"]])
config.substitutions.append(("%plugin", plugin))
"""

TEST = """// RUN: ztc-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module({argument})' %s | FileCheck %s

// What should be there afterwards. It is not yet: this is the test to begin with.
// CHECK-LABEL: func.func @f
// CHECK: graph.tanh
func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {{
  %y = graph.exp %x : tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("argument", metavar="NAME", help="the pass's name, words joined by hyphens: verb-noun")
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    given = parser.parse_args()
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", given.argument):
        parser.error(f"'{given.argument}' is not a pass name: lower-case words joined by hyphens, like scale-residuals")
    folder = given.folder or pathlib.Path(given.argument)
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"new_pass.py: {folder} is there and not empty")
    words = {"argument": given.argument, "name": "".join(w.capitalize() for w in given.argument.split("-"))}
    (folder / "test").mkdir(parents=True, exist_ok=True)
    for file, text in (("CMakeLists.txt", LISTS), (f"{words['name']}.cpp", SOURCE), ("test/lit.cfg.py", CONFIG), (f"test/{given.argument}.mlir", TEST)):
        (folder / file).write_text(text.format(**words))
        print(folder / file)


main()
