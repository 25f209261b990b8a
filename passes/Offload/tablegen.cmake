ztc_tablegen_file(passes/Offload/Passes.td Passes.h.inc -gen-pass-decls -name Offload)
