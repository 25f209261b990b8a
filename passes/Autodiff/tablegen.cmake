ztc_tablegen_file(passes/Autodiff/Passes.td Passes.h.inc -gen-pass-decls -name Autodiff)
