import os

import lit.formats

config.name = "samples"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".mlir"]
config.test_exec_root = os.path.join(os.environ.get("TMPDIR", "/tmp"), "ztc-sample-passes")
programs, plugin = os.environ["ZTC_PROGRAMS"], os.environ["ZTC_PLUGIN"]
config.environment["PATH"] = os.pathsep.join([programs, os.environ["ZTC_LLVM"], os.environ["PATH"]])
config.substitutions.append(("%plugin", plugin))
