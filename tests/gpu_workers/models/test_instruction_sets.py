"""The tests of everything that must not depend on the processor, on the instruction sets of other processors.

Three libraries choose kernels by the processor, each with a variable that lowers the choice: torch's own kernels
(`ATEN_CPU_CAPABILITY`), oneDNN (bfloat16 and int8 products, `ONEDNN_MAX_CPU_ISA`) and MKL (float32 products,
`MKL_ENABLE_INSTRUCTIONS`). MKL heeds its variable on processors of Intel alone, and has other kernels for all others: a
library that is loaded first tells it that this is one. numba compiles for the processor that `NUMBA_CPU_NAME`
names, if `NUMBA_CPU_FEATURES` is empty.

The table pairs the levels as processors do. Every level of each library and each number of threads is in it; their
product would be some 200 rows, and no processor has AVX512 for one library and SSE for another. No row can show AMX, or
anything else that the processor at hand lacks.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from table_kit import texts

ROOT = Path(__file__).parents[3]
FILES = texts("""
tests/gpu_workers/models/test_encoder.py || tests/gpu_workers/handlers/test_filler.py
tests/gpu_workers/handlers/test_entity_tagger.py || tests/gpu_workers/models/test_causal_infill.py
tests/gpu_workers/models/test_infill.py || tests/gpu_workers/models/test_integer_tagger.py
tests/gpu_workers/models/test_integer_encoder.py || tests/gpu_workers/models/test_shipped_adapters.py
tests/gpu_workers/models/test_tagger.py || tests/core/mechanisms/sentences/test_document_selection.py
tests/core/mechanisms/sentences/test_pack_files.py || tests/core/mechanisms/test_integer_vectors.py
tests/core/mechanisms/sentences/test_sentence_codes.py || tests/core/mechanisms/sentences/test_sentence_mechanisms.py
tests/core/mechanisms/vectors/test_vector_mechanisms.py || tests/core/mechanisms/vectors/test_vector_pack.py
tests/core/mechanisms/words/test_exponential.py || tests/core/mechanisms/words/test_laplace.py
""")
AS_INTEL = "int mkl_serv_intel_cpu_true(void) { return 1; }\nint mkl_serv_intel_cpu(void) { return 1; }\n"


@dataclass(frozen=True)
class Processor:
    """Levels of the three libraries; an empty one is the processor's own. `reproducible` False: MKL as by default."""

    threads: int
    aten: str = ""
    onednn: str = ""
    mkl: str = ""
    reproducible: bool = True
    numba: str = ""
    needs: str = "avx2"

    def environment(self) -> dict[str, str]:
        levels = {
            "ATEN_CPU_CAPABILITY": self.aten, "ONEDNN_MAX_CPU_ISA": self.onednn, "MKL_ENABLE_INSTRUCTIONS": self.mkl,
            "NUMBA_CPU_NAME": self.numba, "MKL_CBWR": "" if self.reproducible else "OFF",
        }  # fmt: skip
        # MKL would run no more threads than there are cores
        own = {name: value for name, value in os.environ.items() if name not in levels} | {"MKL_DYNAMIC": "FALSE"}
        chosen = {name: value for name, value in levels.items() if value}
        # without it, numba adds the features of this machine to those of the named processor
        return own | chosen | ({"NUMBA_CPU_FEATURES": ""} if self.numba else {})


PROCESSORS = {
    "own, 1 thread": Processor(1),
    "own, 3 threads": Processor(3),
    "SSE4": Processor(2, "default", "SSE41", "SSE4_2", numba="nehalem"),
    "AVX2": Processor(4, "avx2", "AVX2", "AVX2", numba="haswell"),
    "AVX2 with VNNI": Processor(3, "avx2", "AVX2_VNNI", "AVX2", needs="avx_vnni"),
    "AVX512": Processor(1, "avx512", "AVX512_CORE", "AVX512", needs="avx512_f"),
    "AVX512 with VNNI": Processor(4, "avx512", "AVX512_CORE_VNNI", "AVX512", needs="avx512_vnni"),
    "AVX512 with BF16": Processor(2, "avx512", "AVX512_CORE_BF16", "AVX512", needs="avx512_bf16"),
    "AVX512, MKL's default": Processor(
        2, "avx512", "AVX512_CORE_BF16", "AVX512", reproducible=False, needs="avx512_bf16"
    ),
}


@pytest.fixture(scope="module")
def as_intel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that has MKL take any processor for one of Intel."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("intel")
    (folder / "intel.c").write_text(AS_INTEL)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", "intel.so", "intel.c"], cwd=folder, check=True)
    return folder / "intel.so"


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", PROCESSORS)
def test_the_results_hold_on(name: str, request: pytest.FixtureRequest) -> None:
    processor = PROCESSORS[name]
    if not torch.cpu.get_capabilities().get(processor.needs):
        pytest.skip(f"this processor has no {processor.needs}")
    environment = processor.environment() | {"OMP_NUM_THREADS": str(processor.threads)}
    if processor.mkl:
        environment["LD_PRELOAD"] = str(request.getfixturevalue("as_intel"))
    command = [
        sys.executable, "-m", "pytest", "-q", "-m", "not slow and not long", "--durations=5",
        f"--threads={processor.threads}", "--timeout=1200",
    ]  # fmt: skip
    done = subprocess.run([*command, *FILES], cwd=ROOT, env=environment, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-10_000:]
