#!/usr/bin/env bash
# Linear attention and state spaces: states from chunk to chunk and scans under the conformance suite, every gradient beside PyTorch's, tokens a second, predicted beside measured.
conformance 120 "$results/conformance.txt" 'RecurrenceConformance.*:SelectiveScanConformance.*'
verdict "conformance of states and scans" $? "$(tail -n 1 "$results/conformance.txt")"
measureShapes hybrid 'linear attention|selective scan|generated|products'
