ztc_tablegen_file(compiler/Dialect/Dist/DistOps.td DistDialect.h.inc -gen-dialect-decls -dialect=dist)
ztc_tablegen_file(compiler/Dialect/Dist/DistOps.td DistDialect.cpp.inc -gen-dialect-defs -dialect=dist)
ztc_tablegen_file(compiler/Dialect/Dist/DistOps.td DistOps.h.inc -gen-op-decls)
ztc_tablegen_file(compiler/Dialect/Dist/DistOps.td DistOps.cpp.inc -gen-op-defs)
