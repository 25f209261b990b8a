#!/usr/bin/env bash
# Kills and resumes of a 2-rank run. Needs build/bin only.
exec python3 "$(dirname "$0")/kill-resume.py" "$@"
