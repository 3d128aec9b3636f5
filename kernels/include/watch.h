// A memory that counts: caches and TLBs with least-recently-used replacement, and arrays whose
// every access goes through them.
//
// A loop nest written as a template over its array type runs unchanged on plain pointers, at full
// speed, and on Watched arrays, where each element that it reads or writes is looked up:
//
//     template <class Array> void add(int64_t n, Array x, Array y) {
//         for (int64_t i = 0; i < n; i++) y[i] += x[i];
//     }
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

// One cache or TLB. A line (of a TLB: a page) belongs to set (line mod sets) and lives in any of
// its ways; the one not used for longest leaves. Each set keeps its lines in the order of use.
class Level {
  public:
    Level(int64_t line_bytes, int64_t sets, int64_t ways)
        : sets_(sets), ways_(ways), lines_(sets * ways, ~uint64_t(0)) {
        while ((int64_t(1) << shift_) < line_bytes) shift_++;
        mask_ = (sets & (sets - 1)) == 0 ? sets - 1 : -1;
    }

    // Whether the line of this address was there; it is now, as the most recently used.
    bool touch(uint64_t address) {
        const uint64_t line = address >> shift_;
        const uint64_t set = mask_ >= 0 ? line & uint64_t(mask_) : line % uint64_t(sets_);
        uint64_t* const used = &lines_[set * ways_];
        if (used[0] == line) return true;
        int64_t at = 1;
        while (at < ways_ && used[at] != line) at++;
        const bool hit = at < ways_;
        if (!hit) at = ways_ - 1;
        std::memmove(used + 1, used, at * sizeof(uint64_t));
        used[0] = line;
        return hit;
    }

  private:
    int shift_ = 0;
    int64_t sets_, ways_, mask_;
    std::vector<uint64_t> lines_;
};

// Caches and TLBs in one list, each {chain, line bytes, sets, ways}. Levels of one chain follow
// each other, the nearest first: a level is asked when the one before it in its chain missed.
class Memory {
  public:
    Memory(int64_t count, const int64_t* levels) {
        for (const int64_t* level = levels; level < levels + 4 * count; level += 4) {
            first_.push_back(level == levels || level[0] != level[-4]);
            levels_.emplace_back(level[1], level[2], level[3]);
        }
        misses.assign(count, 0);
    }

    // One access to the element at this address, which lies within one line.
    void touch(uint64_t address) {
        accesses++;
        bool asked = false;
        for (size_t i = 0; i < levels_.size(); i++) {
            asked = first_[i] || asked;
            if (!asked) continue;
            asked = !levels_[i].touch(address);
            misses[i] += asked;
        }
    }

    int64_t accesses = 0;
    std::vector<int64_t> misses;  // of each level

    // {accesses, misses of each level}
    void report(int64_t* counts) const {
        counts[0] = accesses;
        for (size_t i = 0; i < misses.size(); i++) counts[1 + i] = misses[i];
    }

  private:
    std::vector<char> first_;  // of its chain: asked at every access
    std::vector<Level> levels_;
};

// An array that lies at byte `address` of a watched memory. It computes as a plain one does.
template <class T>
class Watched {
  public:
    class Element {
      public:
        Element(Memory& memory, T& value, uint64_t address)
            : memory_(memory), value_(value), address_(address) {}
        operator T() const {
            memory_.touch(address_);
            return value_;
        }
        void operator=(T value) const {
            memory_.touch(address_);
            value_ = value;
        }
        void operator=(const Element& other) const { *this = T(other); }
        void operator+=(T value) const {  // a load and a store; the store finds what it loaded
            memory_.touch(address_);
            memory_.accesses++;
            value_ += value;
        }

      private:
        Memory& memory_;
        T& value_;
        const uint64_t address_;
    };

    Watched(Memory& memory, T* data, uint64_t address)
        : memory_(&memory), data_(data), address_(address) {}
    Element operator[](int64_t i) const {
        return Element(*memory_, data_[i], address_ + i * sizeof(T));
    }
    Watched operator+(int64_t i) const {
        return Watched(*memory_, data_ + i, address_ + i * sizeof(T));
    }

  private:
    Memory* memory_;
    T* data_;
    uint64_t address_;
};
