"""The compilers: where they are, what they can build, and what they say about a kernel.

nvcc for CUDA programs (:func:`build`), the machine's own C++ compiler for functions that run on
its processor (:func:`build_library`). A build is cached by its content: the source, every header
of the book it includes, the options, the target and the compiler's version. Whatever changes one
of these compiles again; nothing else does.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from phasebit import backtrace, build_cache, files, hardware, process
from phasebit.emulator import demangle
from phasebit.emulator.capabilities import OLDEST_WITH_OWN_TARGET, capability

DEFAULT_TARGET = "sm_90a"
"""The target where there is no GPU: that of the NVIDIA H200, which the records come from."""

HOST_OPTIONS = ("-std=c++17", "-O3", "-march=native", "-g")
"""What functions for the processor are compiled with: for this very processor."""

OLDEST_NVCC = 12
"""The first major version that knows ``sm_90a``."""

BUILD_SECONDS = 300.0
_QUERY_SECONDS = 60.0
_OPTIONS = (
    *("-std=c++17", "-Xptxas", "-v"),
    *("-g", "-lineinfo"),  # lines of the source, in host and in GPU code
    "-Wno-deprecated-gpu-targets",
)
_INSTALL = "install one with: pip install 'cuda-toolkit[nvcc,cccl]==13.4.3'"


class CudaError(RuntimeError):
    """Something about a CUDA program that its reader should know, said in a sentence."""

    def _render_traceback_(self) -> list[str]:
        """What Jupyter shows: the sentence, without the frames of this package."""
        return [f"{type(self).__name__}: {self}"]


class ToolMissing(CudaError):
    """A program that is needed to build is not installed."""


class CompileError(CudaError):
    """The compiler refused a source.

    ``file`` and ``line`` say where, as far as the compiler does; ``log`` is all it said.
    """

    def __init__(self, message: str, file: str | None, line: int | None, log: str) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.log = log


@dataclass(frozen=True)
class Nvcc:
    """A CUDA compiler."""

    path: Path
    version: str  # "13.0.88"
    targets: tuple[str, ...]  # what it can build: "sm_75", …, "sm_90", "sm_90a", …
    passed_over: tuple[str, ...] = ()  # those that come before it and cannot be used, and why

    @property
    def major(self) -> int:
        """Of the version: 12 or 13. Each has a runtime library of its own."""
        return int(self.version.partition(".")[0])

    def check(self, target: str) -> None:
        """Raise :class:`CudaError` for a target that it does not build."""
        if target not in self.targets:
            raise CudaError(
                f"nvcc {self.version} cannot build {target}: it builds {', '.join(self.targets)}"
            )

    def target_for(self, gpu: hardware.Gpu | None) -> str:
        """The target to build for a GPU, or :data:`DEFAULT_TARGET` when there is none.

        Raises :class:`CudaError` when this compiler has no target that the GPU runs.
        """
        wanted = gpu.target if gpu else DEFAULT_TARGET
        if wanted in self.targets:
            return wanted
        if gpu is None:
            raise CudaError(f"nvcc {self.version} is too old to build {wanted}: {_INSTALL}")
        # A plain target runs on newer chips of the same generation.
        usable = [target for target in self.targets if gpu.executes(target)]
        if not usable:
            raise CudaError(
                f"nvcc {self.version} builds nothing that {gpu.name} ({wanted}) runs: "
                "install a CUDA toolkit that knows this GPU"
            )
        return usable[-1]


@dataclass(frozen=True)
class Resources:
    """What ``ptxas -v`` says that one kernel uses."""

    kernel: str
    registers: int  # a thread
    shared: int  # bytes a block, static
    stack: int  # bytes a thread
    spill_stores: int  # bytes a thread
    spill_loads: int  # bytes a thread

    @property
    def spills(self) -> bool:
        """Whether registers were too few, so that values went to local memory."""
        return self.spill_stores + self.spill_loads > 0


@dataclass(frozen=True)
class Build:
    """A compiled program."""

    program: Path
    target: str
    nvcc: str  # version
    resources: tuple[Resources, ...]  # one for each kernel of the source
    warnings: str
    cached: bool


@functools.cache
def nvcc() -> Nvcc:
    """The CUDA compiler of this machine: on ``PATH``, in ``$CUDA_HOME``, or installed by pip.

    The first that can be used. Raises :class:`ToolMissing` when there is none.
    """
    given = os.environ.get("TMPDIR")
    if given and not (os.path.isdir(given) and os.access(given, os.W_OK)):  # nvcc is silent then
        raise ToolMissing(
            f"TMPDIR={given} is no folder that can be written: unset TMPDIR or name another"
        )
    passed_over: list[str] = []
    for path in map(Path.absolute, _places()):  # compilers work in folders of their own
        if not os.path.exists(path):  # nor where nobody may look
            continue
        try:
            version, targets = _examine(path)
        except ToolMissing as error:
            passed_over.append(str(error))
        else:
            return Nvcc(path, version, targets, tuple(passed_over))
    found = "; ".join(passed_over) or "no nvcc on PATH, in $CUDA_HOME or among the pip packages"
    raise ToolMissing(f"{found}: {_INSTALL}")


def _examine(path: Path) -> tuple[str, tuple[str, ...]]:
    """Version and targets of an nvcc. Raises :class:`ToolMissing` if it cannot be used."""
    found = re.search(r"\bV(\d+\.\d+\.\d+)", _answer(path, "--version"))
    if not found:
        raise ToolMissing(f"{path} does not say its version")
    if int(found[1].partition(".")[0]) < OLDEST_NVCC:
        raise ToolMissing(f"{path} is {found[1]}, older than {OLDEST_NVCC}.0")
    targets = _targets(_answer(path, "--list-gpu-code").split())
    if not targets:
        raise ToolMissing(f"{path} does not say its targets")
    return found[1], targets


def _answer(path: Path, question: str) -> str:
    """What a program prints, if it succeeds. Raises :class:`ToolMissing` if it does not start."""
    try:
        done = process.run([path, question], timeout=_QUERY_SECONDS)
    except OSError as error:
        # "No such file", of a script, is the interpreter that its first line names.
        raise ToolMissing(f"{path} cannot be started, {error.strerror}") from error
    return done.stdout if done.ok else ""


def tool(name: str) -> Path:
    """A program that comes with the CUDA compiler, such as ptxas: beside nvcc, or on ``PATH``.

    Raises :class:`ToolMissing` when there is none.
    """
    found = shutil.which(name, path=nvcc().path.resolve().parent) or shutil.which(name)
    if found is None:
        raise ToolMissing(f"no {name} beside nvcc or on PATH: it comes with the CUDA toolkit")
    return Path(found)


def _places() -> Iterator[Path]:
    on_path = shutil.which("nvcc")
    if on_path:
        yield Path(on_path)
    for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if home:
            yield Path(home, "bin", "nvcc")
    for folder in sys.path:
        yield from sorted(Path(folder or ".").glob("nvidia/cu*/bin/nvcc"), reverse=True)


def for_this_gpu(target: str) -> tuple[str, list[str]]:
    """What to build here in place of ``target``, and the options that it takes.

    Kernels ask by a macro of the compiler's whether they are compiled for their chip; where it is
    another one of the family, an option defines it.
    """
    gpu = hardware.gpu()
    own = gpu.in_place_of(target) if gpu else target
    if own == target:
        return target, []
    return own, [f"-D__CUDA_ARCH_FEAT_SM{capability(target)}_ALL"]


def _targets(listed: Sequence[str]) -> tuple[str, ...]:
    """Add the targets with suffix ``a``, which nvcc builds and does not list."""
    plain = sorted({code for code in listed if re.fullmatch(r"sm_\d+", code)}, key=capability)
    return tuple(
        target
        for code in plain
        for target in (code, f"{code}a")
        if target == code or capability(code) >= OLDEST_WITH_OWN_TARGET
    )


Output = Literal["program", "program with PTX", "program of PTX", "fatbin", "cubin", "ptx"]
_CODE: dict[Output, tuple[str, tuple[str, ...]]] = {
    "program": ("sm_{0}", ()),
    "program with PTX": ("[sm_{0},compute_{0}]", ()),
    "program of PTX": ("compute_{0}", ()),
    "fatbin": ("sm_{0}", ("-fatbin",)),
    "cubin": ("sm_{0}", ("-cubin",)),
    "ptx": ("compute_{0}", ("-ptx",)),
}
"""What nvcc makes -> the code in it, for a target, and the option that asks for it."""


def nvcc_command(
    output: Output, *targets: str, options: Sequence[str | Path] = (), include: bool = True
) -> list[str | Path]:
    """The command that makes one kind of output, without its files: they are to follow.

    ``include``: whether sources find the book's headers. Raises :class:`ToolMissing`.
    """
    code, asks = _CODE[output]
    words: list[str | Path] = [nvcc().path]
    for target in targets:
        number = target.removeprefix("sm_")
        words += ["-gencode", f"arch=compute_{number},code={code.format(number)}"]
    folders = [f"-I{folder}" for folder in include_folders()] if include else []
    return [*words, *asks, *options, *folders]


def line_mark(first_line: int, name: str) -> str:
    """``#line``: what follows begins at this line of the file with this name.

    ptxas does not read a double quote in the name of a file: it becomes a single one.
    """
    written = name.replace("\\", "\\\\").replace('"', "'").replace("\n", " ")
    return f'#line {first_line} "{written}"'


def build(
    source: str | Path,
    *,
    name: str | None = None,
    first_line: int = 1,
    target: str | None = None,
    options: Sequence[str] = (),
    runtime: Path | None = None,
    include: Sequence[Path] = (),
    library: bool = False,
    timeout: float = BUILD_SECONDS,
) -> Build:
    """Compile a CUDA program: the text of one, or the path of a ``.cu`` file.

    ``name`` and ``first_line`` are what messages call the source and its first line; ``target``
    defaults to this machine's GPU. Kernels of the book may include ``"harness.cuh"``.
    ``runtime`` is a folder with a CUDA runtime library, for a program that is to load that one
    and bring its PTX along (see :mod:`phasebit.runtime`). ``include`` are folders of headers beside
    those of the book. ``library``: the program is a shared library, to be loaded by another one.

    Raises :class:`CompileError` with file and line, :class:`ToolMissing`, or :class:`CudaError`
    for a target that the compiler cannot build.
    """
    if isinstance(source, Path):
        name = name or source.name
        source = source.read_text(encoding="utf-8-sig")
    name = name or "source.cu"
    compiler = nvcc()
    target, feature = for_this_gpu(target or compiler.target_for(hardware.gpu()))
    options = [*feature, *options]
    compiler.check(target)
    output: Output = "program with PTX" if runtime else "program"
    link = ["--no-compress", "-cudart", "shared"] if runtime else []
    folders = [f"-I{folder}" for folder in include]
    shape = ["-shared", "-Xcompiler", "-fPIC"] if library else []
    flags = [*_OPTIONS, *link, *shape, *folders, *options]
    text = f"{line_mark(first_line, name)}\n{source}\n"
    # It listens for a whole program's signals: a library's belong to who loads it.
    helpers = [] if library else [backtrace.SOURCE]
    helper = "".join(file.read_text(encoding="utf-8") for file in helpers)
    told = [output, target, *flags]  # without the runtime's folder: nothing of it is in a program
    included = headers(source, (*include_folders(), *include))
    facts = [text, helper, included, told, compiler.version, platform.machine()]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]

    cached = (build_cache.folder() / key / "program").exists()
    command = nvcc_command(output, target, options=flags)
    command += [f"-L{runtime}"] if runtime else []
    command += ["source.cu", *helpers, "-o", "program", "-ldl"]
    if not cached and shutil.which("g++") is None and "-ccbin" not in flags:
        raise ToolMissing("nvcc needs a host compiler and there is no g++ on PATH: install g++")
    folder = _kept(key, command, "source.cu", "program", text, name, timeout)
    log = (folder / "log").read_text(encoding="utf-8")
    return Build(
        folder / "program",
        target,
        compiler.version,
        parse_resources(log),
        warnings(log),
        cached,
    )


def _kept(
    key: str, command: Sequence[str | Path], file: str, makes: str, text: str, name: str,
    timeout: float,
) -> Path:  # fmt: skip
    """The folder with what a compiler made of ``text``, put into ``file``, and what it said.

    ``makes``: the file that it makes.
    """

    def compile_(work: Path) -> None:
        work.mkdir()
        (work / file).write_text(text, encoding="utf-8")
        done = started(command, timeout=timeout, cwd=work, env=temporary_in(work.parent))
        log = done.stdout + done.stderr
        tool = Path(command[0]).name
        if done.stopped:
            raise CompileError(
                f"{tool} was stopped after {timeout:g} s without finishing {name}", name, None, log
            )
        if not done.ok:
            raise explain(log, name, tool)
        if not (work / makes).exists():  # as with --help
            message = f"{tool} made no {makes} of {name}: see its options"
            raise CompileError(message, name, None, log)
        (work / "log").write_text(log, encoding="utf-8")

    return build_cache.keep(key, compile_, holds=(makes, "log"))


def started(command: Sequence[str | Path], **how: Any) -> process.Finished:
    """:func:`process.run` of a compiler.

    Raises :class:`ToolMissing` where it is gone since it was found.
    """
    try:
        return process.run(command, **how)
    except (FileNotFoundError, PermissionError) as error:
        raise ToolMissing(
            f"{command[0]} cannot be started any more, {error.strerror}: start Python anew"
        ) from error


def temporary_in(folder: Path) -> dict[str, str]:
    """This environment for a compiler whose own temporary files shall go with ``folder``."""
    return {**os.environ, "TMPDIR": os.fspath(folder)}


@dataclass(frozen=True)
class HostCompiler:
    """A C++ compiler for this machine's processor."""

    path: Path
    version: str  # "g++ 12.2.0"


@functools.cache
def host_compiler(name: str = "") -> HostCompiler:
    """The C++ compiler of this machine: ``name`` if given, else ``$CXX``, g++ or clang++.

    Raises :class:`ToolMissing` when there is none, or when it does not answer.
    """
    given = os.environ.get("CXX", "")
    if given and not name and shutil.which(given) is None:
        raise ToolMissing(f"CXX={given} is no program on PATH: set it to another, or unset it")
    for each in filter(None, [name] if name else [given, "g++", "clang++"]):
        path = shutil.which(each)
        if path is None:
            continue
        path = os.path.abspath(path)  # it works in a folder of its own
        try:
            found = re.search(r"\b\d+\.\d+\.\d+", _answer(Path(path), "--version"))
        except ToolMissing as error:
            raise ToolMissing(f"{error}: install g++ or set CXX") from error
        if not found:
            raise ToolMissing(f"{path} does not say its version: install g++ or set CXX")
        return HostCompiler(Path(path), f"{Path(each).name} {found[0]}")
    what = f"no {name}" if name else "no C++ compiler (g++, clang++ or $CXX)"
    raise ToolMissing(f"{what} on PATH: install {name or 'g++'}")


@dataclass(frozen=True)
class HostBuild:
    """A shared library of functions for this machine's processor."""

    library: Path
    compiler: str  # "g++ 12.2.0"
    flags: tuple[str, ...]  # of the compiler, those that change the code
    warnings: str
    cached: bool


def build_library(
    source: str | Path,
    *,
    name: str | None = None,
    first_line: int = 1,
    options: Sequence[str] = (),
    compiler: str = "",
    timeout: float = BUILD_SECONDS,
) -> HostBuild:
    """Compile C++ functions for this processor: the text of a source, or the path of one.

    ``name`` and ``first_line`` are what messages call the source and its first line; ``options``
    follow :data:`HOST_OPTIONS`; ``compiler`` names another than :func:`host_compiler` finds.
    A source may include what lies in ``kernels/``, as a CUDA program may.

    Raises :class:`CompileError` with file and line, or :class:`ToolMissing`.
    """
    if isinstance(source, Path):
        name = name or source.name
        source = source.read_text(encoding="utf-8-sig")
    name = name or "source.cpp"
    chosen = host_compiler(compiler)
    flags = (*HOST_OPTIONS, *options)
    text = f"{line_mark(first_line, name)}\n{source}\n"
    # "native" means another thing on another processor.
    processor = [hardware.cpu().model, hardware.cpu().features, platform.machine()]
    facts = [text, headers(source), flags, chosen.version, processor]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]
    cached = (build_cache.folder() / key / "library.so").exists()
    include = [f"-I{each}" for each in include_folders()]
    shape = ["-fPIC", "-shared", *include, "source.cpp", "-o", "library.so"]
    command: list[str | Path] = [chosen.path, *flags, *shape]
    folder = _kept(key, command, "source.cpp", "library.so", text, name, timeout)
    log = (folder / "log").read_text(encoding="utf-8")
    return HostBuild(folder / "library.so", chosen.version, flags, log.strip(), cached)


def include_folders() -> tuple[Path, ...]:
    """Where a program finds the book's headers, and the book's kernels as a whole."""
    return files.kernels() / "include", files.kernels()


def headers(source: str, folders: Sequence[Path] = ()) -> dict[str, str]:
    """The book's own headers and kernels that a source includes, directly or not: name -> text.

    They are looked for in ``folders``, or else where CUDA programs find them.
    """
    found: dict[str, str] = {}
    waiting = [source]
    while waiting:
        for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', waiting.pop(), re.MULTILINE):
            paths = [folder / name for folder in folders or include_folders()]
            path = next((path for path in paths if path.is_file()), None)
            if name not in found and path:
                found[name] = path.read_text(encoding="utf-8")
                waiting.append(found[name])
    return found


# What the compiler says

_CUDAFE = re.compile(r"^(?P<file>.+?)\((?P<line>\d+)\): (?:catastrophic )?error.*?: (?P<what>.+)$")
_GCC = re.compile(r"^(?P<file>.+?):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<what>.+)$")
_PTXAS = re.compile(r"^ptxas .*?error\s*: (?P<what>.+)$")
_LINK = re.compile(r"(?P<what>undefined reference to .+)$")
_FATAL = re.compile(r"^nvcc (?:fatal|error)\s*: (?P<what>.+)$")


def explain(log: str, name: str, tool: str = "nvcc") -> CompileError:
    """The error that a compiler's output describes; ``name`` is what it calls the source."""
    lines = log.splitlines()
    for number, text in enumerate(lines):
        for pattern in (_CUDAFE, _GCC, _PTXAS, _LINK, _FATAL):
            match = pattern.search(text)
            if not match:
                continue
            groups = match.groupdict()
            file = groups.get("file")
            line = int(groups["line"]) if file else None
            file = Path(file).name if file else None
            where = f"line {line} of {file}" if file else f"in {name}"
            message = f"{where}: {match['what']}"
            # The compiler repeats the source line, with a caret below.
            shown = [extra for extra in lines[number + 1 : number + 3] if extra.startswith(" ")]
            return CompileError("\n".join([message, *shown]), file, line, log)
    tail = "\n".join(lines[-10:])
    return CompileError(f"{tool} failed on {name}:\n{tail}", None, None, log)


def warnings(log: str) -> str:
    """What nvcc said, without the report of ``ptxas -v``."""
    report = re.compile(r"ptxas info|\s+\d+ bytes stack frame")
    return "\n".join(line for line in log.splitlines() if not report.match(line)).strip()


def parse_resources(log: str) -> tuple[Resources, ...]:
    """Read the output of ``ptxas -v``: one entry for each kernel but the harness's, in order."""
    found = []
    for block in re.split(r"^(?=ptxas info\s*: Compiling entry)", log, flags=re.MULTILINE)[1:]:
        symbol = re.search(r"entry function '([^']+)'", block)
        frame = re.search(r"(\d+) bytes stack frame, (\d+) .*? stores, (\d+) .*? loads", block)
        used = re.search(r"Used (\d+) registers", block)
        shared = re.search(r"(\d+) bytes smem", block)
        if symbol and used and not demangle(symbol[1]).startswith("harness::"):
            stack, stores, loads = map(int, frame.groups()) if frame else (0, 0, 0)
            smem = int(shared[1]) if shared else 0
            found.append(Resources(demangle(symbol[1]), int(used[1]), smem, stack, stores, loads))
    return tuple(found)
