// StorageAlias: an op whose result is a part of its operand's storage.
#ifndef ZTC_INTERFACES_STORAGEALIAS
#define ZTC_INTERFACES_STORAGEALIAS
include "mlir/IR/OpBase.td"

def StorageAliasOpInterface : OpInterface<"StorageAliasOpInterface"> {
  let cppNamespace = "::ztc";
  let description = [{ An op with one result that no step computes, because its elements lie in the operand's storage already. }];
  let methods = [
    InterfaceMethod<"Where the result lies; nothing where this instance is computed (a slice whose elements do not follow one another).",
      "::std::optional<::ztc::Alias>", "getAlias", (ins)>,
    InterfaceMethod<"Whether the result is all of the source, so that its place can be the source's.", "bool", "isWholeAlias", (ins),
      [{}], [{ return false; }]>,
  ];
}
#endif
