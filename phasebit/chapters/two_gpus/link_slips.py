"""Slips that people make between two GPUs: a change each, and what finds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from phasebit.chapters.two_gpus import on_peers
from phasebit.chapters.two_gpus.on_peers import (
    CARRIED,
    COPIED,
    GATHER,
    MULTIPLY,
    REDUCE,
    RING_GATHER,
    RING_SCATTER,
)
from phasebit.edits import replace_each


class Slip(NamedTuple):
    """What somebody wrote in place of what is right."""

    kernel: str
    edits: tuple[tuple[str, str], ...]
    says: str
    """The rule that the emulator names; ``wrong`` for a wrong result, ``right`` for none."""
    host: bool = False
    """Whether it is in the host's half of the program."""
    beside: bool = False
    """Whether the rows of the gathering ring leave by a copy beside the kernel, not by warps."""

    @property
    def source(self) -> str:
        """The kernel with the slip."""
        text = on_peers.source(self.kernel)
        if self.kernel == RING_GATHER and not self.beside:
            text = on_peers.warps_send(text)
        if self.host:
            text = on_peers.with_harness(text)
        return replace_each(text, self.edits, self.kernel)

    def run(self) -> on_peers.Done:
        """The program with the slip on two devices."""
        arguments: Sequence[str] = ()
        if self.kernel in on_peers.RINGS:
            arguments = on_peers.TWO_TILES if self.kernel in (CARRIED, COPIED) else on_peers.TINY
        host = on_peers.source(self.kernel)
        if self.kernel == RING_GATHER and not self.beside:
            host = on_peers.warps_send(host)
        return on_peers.run(
            self.source, *arguments, host=None if self.host else host
        )


_LAUNCHED = "leaving[d] + slot, made_of[d], 0});\n"
_OVERWRITES = "            CHECK(cudaMemsetAsync(a[d][t], 0xff, rows * K * sizeof(bf16), 0));\n"
RELEASE, ACQUIRE = "st.release.sys.global", "ld.acquire.sys.global"
_SENDS = """    for (int i = threadIdx.x; i < TILE * K; i += blockDim.x) {
        link.there[slot + first + i] = own[first + i];
        all[device * OWN + first + i] = own[first + i];
    }
    raise(&link.there_full[tile], turn);

"""
_WAITS = "    wait_for(&link.full[tile], turn);\n"
_RAISE = "        raise(&link.there_full[tile], turn);\n"
_STORES = "        for (int i = 0; i < 4; ++i) link.there"
_BARRIER = """    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("st.release"""
_TILES_LEAVE, _FLAG_LEAVES = (
    f"            CHECK(cudaMemcpyAsync({what},\n"
    "                                  cudaMemcpyDefault, stream));\n"
    for what in ("p.there + from, p.leaving + from, count * sizeof(bf16)",
                 "p.there_full + round, p.counts + round, sizeof(unsigned)")
)  # fmt: skip
_TELL = "            if (threadIdx.x % 32 == 0) tell(way, sent);  // before it waits for the peer\n"
_ADD = "                add(sums, way, strip);\n"

SLIPS: Mapping[str, Slip] = {
    "the release has .gpu scope": Slip(
        REDUCE, ((RELEASE, RELEASE.replace("sys", "gpu")),), "device-scope"),
    "the acquire has .gpu scope": Slip(
        REDUCE, ((ACQUIRE, ACQUIRE.replace("sys", "gpu")),), "device-scope"),
    "the flag is stored without a release": Slip(
        REDUCE, ((RELEASE, "st.relaxed.sys.global"),), "race"),
    "the flag is read without an acquire": Slip(
        REDUCE, ((ACQUIRE, "ld.relaxed.sys.global"),), "race"),
    "one thread raises the flag before the others have stored": Slip(
        REDUCE, ((_BARRIER, _BARRIER.replace("    __syncthreads();\n", "")),), "race"),
    "the flag before the data": Slip(
        REDUCE, ((_RAISE, ""), (_STORES, _RAISE + _STORES)), "race"),
    "the flag is not new in the second launch": Slip(
        REDUCE, (("raise(&link.there_full[tile], turn)", "raise(&link.there_full[tile], 1)"),
                 ("wait_for(&link.full[tile], turn)", "wait_for(&link.full[tile], 1)")), "race"),
    "the consumer waits for another tile": Slip(
        MULTIPLY, (("wait_for(&link.full[tile], turn)", "wait_for(&link.full[0], turn)"),),
        "race"),
    "the flag is raised on the wrong GPU": Slip(
        REDUCE, (("raise(&link.there_full[tile], turn)",
                  "raise((unsigned*)&link.full[tile], turn)"),), "race"),
    "one slot": Slip(
        MULTIPLY, (("constexpr int SLOTS = 2;", "constexpr int SLOTS = 1;"),), "race"),
    "both wait before they send": Slip(
        GATHER, ((_SENDS + _WAITS, _WAITS + _SENDS),), "livelock"),
    "no peer access": Slip(
        REDUCE, (("        CHECK(cudaDeviceEnablePeerAccess(1 - d, 0));\n", ""),),
        "no-peer-access", host=True),
    "a part is added twice": Slip(
        REDUCE, (("part[i] + link.here[slot + at[i]]",
                  "part[i] + 2 * link.here[slot + at[i]]"),), "wrong"),
    # -- at full width ----------------------------------------------------------
    "a sender's release has .gpu scope": Slip(
        RING_GATHER, (("red.release.sys", "red.release.gpu"),), "device-scope"),
    "a lane tells of the others' stores too early": Slip(
        RING_GATHER, (("        __syncwarp();  // all lanes have stored: the release tells of "
                       "their stores too\n", ""),), "race"),
    "one row of a strip is enough": Slip(
        RING_GATHER, (("turn * min(BM, rows - strip * BM)", "turn"),), "race"),
    "nobody waits for the peer's rows": Slip(
        RING_GATHER, (("if (n >= half) wait_for(way, row);", ""),), "race"),
    "the copies do not see what the flag tells": Slip(
        RING_GATHER, (("    ptx::fence_proxy_async_global();\n}\n\n__global__",
                       "}\n\n__global__"),), "right"),
    "A is overwritten while a copy may read it": Slip(
        RING_GATHER, ((_LAUNCHED, _LAUNCHED + _OVERWRITES),), "right", host=True, beside=True),
    "the flag follows copies that have only been read": Slip(
        RING_SCATTER, (("ptx::cp_async_bulk_wait_group<0>();  // not .read",
                        "ptx::cp_async_bulk_wait_group_read<0>();  //"),), "wrong"),
    "a warp waits before it tells": Slip(
        RING_SCATTER, ((_TELL, ""), (_ADD, _ADD + _TELL.replace(
            "            if", "                if"))), "livelock"),
    "the carrier tells of a tile that has only been read": Slip(
        CARRIED, (("    ptx::cp_async_bulk_wait_group<0>();  // not .read: it is in the peer's "
                   "memory\n", ""),), "wrong"),
    "the consumers lay a tile where one has not left": Slip(
        CARRIED, (("                ptx::mbarrier_wait(&ring.away, away);\n", ""),), "race"),
    "C is laid where a lane still reads": Slip(
        CARRIED, (("                __syncwarp();  // all lanes have read their part: C may lie "
                   "there\n", ""),), "race"),
    "a part comes where C has not left": Slip(
        CARRIED, (("    ptx::cp_async_bulk_wait_group_read<0>();  // the next part comes to the "
                   "same place\n", ""),), "bulk-source-overwritten"),
    "a copy leaves one tile too early": Slip(
        COPIED, (("p.turn * tiles,\n", "p.turn * tiles - 1,\n"),), "wrong", host=True),
    "a flag leaves before its tiles": Slip(
        COPIED, ((_TILES_LEAVE + _FLAG_LEAVES, _FLAG_LEAVES + _TILES_LEAVE),), "right", host=True),
    "a tile is counted before it is stored": Slip(
        COPIED, (("                __syncwarp();  // all lanes have stored: the arrival tells of "
                  "their stores too\n", ""),), "right"),
    "a warp of the next tile is counted with this one": Slip(
        COPIED, (("                    ptx::mbarrier_wait(&ring.seen, seen);\n", ""),),
        "mbarrier-phase-unseen"),
    "nobody waits for the round": Slip(
        COPIED, (("        while (ptx::load_acquire_sys(full) < turn) {}\n", "        ;\n"),),
        "wrong"),
    "a copy waits for a round that is never full": Slip(
        COPIED, (("p.turn * tiles,\n", "p.turn * (tiles + 1),\n"),), "livelock", host=True),
}  # fmt: skip


def verdicts(names: Sequence[str]) -> dict[str, str]:
    """What is said of each slip."""
    return {name: SLIPS[name].run().verdict for name in names}
