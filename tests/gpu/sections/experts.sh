#!/usr/bin/env bash
# Mixtures of experts: routes and grouped products under the conformance suite, every gradient beside PyTorch's, tokens a second, predicted beside measured.
conformance 120 "$results/conformance.txt" 'ExpertsConformance.*'
verdict "conformance of routes and grouped products" $? "$(tail -n 1 "$results/conformance.txt")"
measureShapes experts 'routing|products'
