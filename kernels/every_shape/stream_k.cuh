// Stream-K: who makes which piece of which tile, and how sums of a piece get to whoever finishes
// the tile. Include it after pairs.cuh and after WAVES, the waves that are cut along K: the last,
// where it is not full, and those before it. 0: none.
#pragma once

// What a pair does: first its share of the `streamed` tiles, the tiles laid end to end along K and
// cut into equal shares, then whole tiles.
struct Walk {
    Tiles tiles;
    int streamed, pairs, at, end, whole;

    __device__ Walk(Tiles tiles, int streamed)
        : tiles(tiles), streamed(streamed), pairs(gridDim.x / PAIR), at(bound(blockIdx.x / PAIR)),
          end(bound(blockIdx.x / PAIR + 1)), whole(streamed + blockIdx.x / PAIR) {}
    __device__ int bound(int pair) const {
        return static_cast<long long>(streamed) * tiles.steps * pair / pairs;
    }
    __device__ bool next(Piece& piece) {
        if (at < end) {
            piece = {at / tiles.steps, at % tiles.steps, 0};
            piece.last = min(tiles.steps, piece.first + end - at);
            at += piece.last - piece.first;
        } else {
            piece = {whole, 0, tiles.steps};
            whole += pairs;
        }
        return piece.tile < tiles.count();
    }
};

// Sums of a part of K for whoever has begun the tile: each thread's where it finds them again.
// `place` counts the warp groups that can have any, in all blocks.
template <int COUNT>
__device__ void give(const float (&sums)[COUNT], float4* partial, unsigned* ready, int place,
                     int group) {
    const int t = threadIdx.x % 128;
    for (int i = 0; i < COUNT / 4; ++i)
        __stcg(partial + (place * COUNT / 4 + i) * 128 + t,
               make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]));
    ptx::bar_sync(1 + group, 128);  // all have written
    if (t == 0) ptx::store_release(ready + place, 1);
}

template <int COUNT>
__device__ void take(float (&sums)[COUNT], const float4* partial, unsigned* ready, int place,
                     int group) {
    const int t = threadIdx.x % 128;
    if (t == 0) {
        while (ptx::load_acquire(ready + place) == 0) {}
        ready[place] = 0;  // for the next launch
    }
    ptx::bar_sync(1 + group, 128);  // it is all there
    for (int i = 0; i < COUNT / 4; ++i) {
        const float4 other = __ldcg(partial + (place * COUNT / 4 + i) * 128 + t);
        sums[4 * i] += other.x, sums[4 * i + 1] += other.y;
        sums[4 * i + 2] += other.z, sums[4 * i + 3] += other.w;
    }
}

// Tiles that are cut, for so many pairs.
inline int streamed(const Tiles& tiles, int pairs) {
    const int rest = tiles.count() % pairs;  // of a wave that is not full
    return WAVES == 0 || rest == 0 ? 0 : std::min(tiles.count(), rest + (WAVES - 1) * pairs);
}
