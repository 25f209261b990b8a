# lit configuration: `ztc-opt INPUT | FileCheck`. The build folder comes as --param ztc_build=DIR.
import os
import lit.formats

config.name = "ztc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
build = os.path.abspath(lit_config.params.get("ztc_build", os.path.join(config.test_source_root, "../../build")))
config.test_exec_root = os.path.join(build, "lit")
llvm = "/usr/lib/llvm-22/bin"
config.environment["PATH"] = os.pathsep.join([os.path.join(build, "bin"), llvm, os.environ.get("PATH", "")])
config.substitutions.append(("%inputs", os.path.join(config.test_source_root, "Inputs")))
config.substitutions.append(("%build", build))
if os.environ.get("ZTC_FIXTURES"):
    config.available_features.add("fixtures")
    config.substitutions.append(("%fixtures", os.environ["ZTC_FIXTURES"]))
