#!/usr/bin/env python3
"""Writes StepFields.inc: for each step of the plan dialect, how its attributes become the fields of equal name in plan.proto.

  llvm-tblgen --dump-json PlanOps.td -o plan.json && compiler/Target/step_fields.py plan.json plan.proto StepFields.inc

A field that the record lacks does not compile; one that no op sets is an error here. Fields of `Plan_Step` itself (label, slots, ...) belong to the record `Step`.
"""
import json
import re
import sys

COMMON = {"label", "slots", "layer", "stream", "reason", "flops", "only_last", "only_if_accumulating", "unless_accumulating"}
# Attributes that StepWriter.cpp turns into fields of another name.
OTHERS = {("launch", "whole")}
# Fields that it derives.
DERIVED = {("launch", "flat"), ("launch", "flat_range"), ("gemm", "alpha")}
# Attributes that become repeated fields, by their storage.
REPEATED = {"::mlir::ArrayAttr", "::mlir::DenseI64ArrayAttr"}
# A symbol's table, by the last word of the attribute's name.
TABLES = {"kernel": "Kernel", "kernels": "Kernel", "add": "Kernel", "bucket": "Bucket"}
SYMBOLS = {"::mlir::FlatSymbolRefAttr", "::mlir::ArrayAttr"}


def camel(name):
    return "".join(word.capitalize() for word in name.split("_"))


def fields_of(proto, message):
    """The names of a message's fields; of nested messages and enumerations none."""
    text = re.sub(r"//[^\n]*", "", proto)
    start = re.search(r"\bmessage %s \{" % message, text)
    if not start:
        sys.exit(f"step_fields.py: plan.proto has no message {message}")
    depth, end = 1, start.end()
    while depth:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    body = re.sub(r"\b(enum|message) \w+ \{[^{}]*\}", "", text[start.end():end])
    return re.findall(r"(\w+)\s*=\s*\d+\s*;", body)


def check_fields(proto, mnemonic, kind, arguments):
    for field in fields_of(proto, kind):
        if (field in arguments) == ((mnemonic, field) in DERIVED):
            sys.exit(f"step_fields.py: field {field} of plan.proto's {kind} is set by no attribute of plan.{mnemonic}, or in two ways")


def main():
    records = json.load(open(sys.argv[1]))
    proto = open(sys.argv[2]).read()
    sys.stdout = open(sys.argv[3], "w")
    print("// Written by compiler/Target/step_fields.py from PlanSteps.td.")
    kinds = []
    for name in sorted(records["!instanceof"]["Plan_Step"]):
        op = records[name]
        mnemonic, kind = op["opName"], camel(op["opName"])
        fields = [(argument, records[kind_of["def"]]["storageType"].strip()) for kind_of, argument in op["arguments"]["args"]
                  if argument not in COMMON and (mnemonic, argument) not in OTHERS]
        check_fields(proto, mnemonic, kind, {argument for argument, _ in fields})
        kinds.append((mnemonic, kind))
        print(f"\nLogicalResult writeFields([[maybe_unused]] StepFields &fields, [[maybe_unused]] plan_ir::{kind}Op op, [[maybe_unused]] plan::{kind} &record) {{")
        for argument, storage in fields:
            put = f"put{TABLES[argument.split('_')[-1]]}" if storage in SYMBOLS else "put"
            setter = f"{'add' if storage in REPEATED else 'set'}_{argument}"
            print(f"  if (failed(fields.{put}(op.get{camel(argument)}Attr(), [&](auto value) {{ record.{setter}(value); }})))\n    return failure();")
        print("  return success();\n}")
    print("\nLogicalResult writeKind(StepFields &fields, Operation *op, plan::Step &record) {")
    print("  return llvm::TypeSwitch<Operation *, LogicalResult>(op)")
    for mnemonic, kind in kinds:
        print(f"      .Case([&](plan_ir::{kind}Op step) {{ return failed(writeFields(fields, step, *record.mutable_{mnemonic}())) ? failure() : (finish(step, *record.mutable_{mnemonic}()), success()); }})")
    print('      .Default([](Operation *other) { return other->emitOpError("the plan file has no such step"); });\n}')


main()
