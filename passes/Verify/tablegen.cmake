ztc_tablegen_file(passes/Verify/Passes.td Passes.h.inc -gen-pass-decls -name Verify)
