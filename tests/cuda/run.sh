#!/usr/bin/env bash
# Every subject on a machine with a GPU and no network: one JSON with what was compared.
#
#   tests/cuda/run.sh OUT.json [--ep cuda|cpu] [--wheels DIR] [--cases N]
#
# With --wheels, a new environment is made from the wheels in DIR (docs/how-to/cuda.md says how to
# gather them); without, the environment of $PYTHON is used. Exit code: that of `mmref diff`, the
# gravest of all subjects: 1 a new difference, 2 something could not be run, 3 nothing compared, 0.
set -euo pipefail

usage() { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }

out="" ep=cuda wheels="" cases=2500
while (($#)); do
  case $1 in
    --ep) ep=${2:-} ; shift 2 || usage ;;
    --wheels) wheels=${2:-} ; shift 2 || usage ;;
    --cases) cases=${2:-} ; shift 2 || usage ;;
    -*) usage ;;
    *) [ -z "$out" ] || usage; out=$1; shift ;;
  esac
done
[ -n "$out" ] || usage

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${PYTHON:-python3}
if [ -n "$wheels" ]; then
  "$python" -m venv "$work/venv"
  python=$work/venv/bin/python
  libraries=(onnx onnx-ir ml_dtypes onnxruntime-genai-cuda)
  [ "$ep" = cuda ] || libraries=(onnx onnx-ir ml_dtypes onnxruntime onnxruntime-genai)
  "$python" -m pip install --quiet --no-index --find-links "$wheels" "mmref[testing]" "${libraries[@]}"
fi

subjects=$("$python" -c 'from mmref.case import SUBJECTS; print(*SUBJECTS)')
nvidia-smi -L >"$work/devices" 2>/dev/null || true
for subject in $subjects; do
  code=0
  "$python" -m mmref diff --subject "$subject" --ep "$ep" --cases "$cases" --format json \
    >"$work/$subject.json" 2>"$work/$subject.txt" || code=$?
  echo "$code" >"$work/$subject.code"
  echo "$subject: exit code $code" >&2
done

"$python" - "$work" "$out" "$ep" "$subjects" <<'PYTHON'
import json, os, platform, sys
from pathlib import Path

work, out, provider, subjects = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4].split()
results, codes = {}, []
for subject in subjects:
    code = int((work / f"{subject}.code").read_text())
    said = (work / f"{subject}.json").read_text()
    report = json.loads(said) if said.strip() else None
    errors = (work / f"{subject}.txt").read_text().splitlines()[-20:]
    results[subject] = {"exit_code": code, "report": report, "stderr": errors}
    codes.append(code)
gravest = next((code for code in (1, *set(codes) - {0, 1, 3}) if code in codes), None)
if gravest is None:
    gravest = 0 if 0 in codes else 3
whole = {
    "provider": provider,
    "devices": (work / "devices").read_text().splitlines(),
    "platform": platform.platform(),
    "exit_code": gravest,
    "subjects": results,
}
part = out.with_name(out.name + ".part")
part.write_text(json.dumps(whole, indent=1))
os.replace(part, out)
sys.exit(min(gravest, 2) if gravest != 3 else 3)
PYTHON
