ztc_tablegen_file(compiler/Dialect/Kernel/KernelOps.td KernelDialect.h.inc -gen-dialect-decls -dialect=kernel)
ztc_tablegen_file(compiler/Dialect/Kernel/KernelOps.td KernelDialect.cpp.inc -gen-dialect-defs -dialect=kernel)
ztc_tablegen_file(compiler/Dialect/Kernel/KernelOps.td KernelAttributes.h.inc -gen-attrdef-decls -attrdefs-dialect=kernel)
ztc_tablegen_file(compiler/Dialect/Kernel/KernelOps.td KernelAttributes.cpp.inc -gen-attrdef-defs -attrdefs-dialect=kernel)
