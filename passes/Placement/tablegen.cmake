ztc_tablegen_file(passes/Placement/Passes.td Passes.h.inc -gen-pass-decls -name Placement)
