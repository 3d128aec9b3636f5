// The order of the tiles of C: `super` rows of them are walked column by column, so that tiles with
// neighbouring numbers lie in a compact patch of C and share tiles of A and B.
#pragma once

struct Tiles {
    int rows, cols;  // of tiles
    int steps;       // of BK along K, of one tile
    int super;       // rows of tiles that are walked together
    struct Place { int row, col; };  // in tiles

    __host__ __device__ int count() const { return rows * cols; }
    __host__ __device__ Place place(int number) const {
        const int first = number / (super * cols) * super, within = number % (super * cols);
        const int high = rows - first < super ? rows - first : super;
        return {first + within % high, within / high};
    }
};

// A piece of a tile, steps `first` to `last` - 1 of its K.
struct Piece { int tile, first, last; };
