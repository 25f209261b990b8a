ztc_tablegen_file(passes/Adapters/Passes.td Passes.h.inc -gen-pass-decls -name Adapters)
