/* TestU01 (L'Ecuyer & Simard 2007) on the words that trajectories draw from threefry2x32 with a given
   number of rounds: of each key fold_in(key, t), t = 0, 1, ..., the word that one draw reads, and the
   two words of the block after it. With "words N" it prints the first N instead, to be compared.

   gcc -O3 -march=native battery.c -o battery -ltestu01 -lm
   battery ROUNDS small|crush|big|words [N] */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <TestU01.h>

enum { BESIDE = 256 };

static int rounds;
static uint32_t key[2] = {0x2545F491, 0x9E3779B9};
static uint32_t words[3 * BESIDE];
static int used = 3 * BESIDE;
static uint32_t next_t = 0;

static inline void block(uint32_t k0, uint32_t k1, uint32_t low, uint32_t *first, uint32_t *second) {
  static const int rotation[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  const uint32_t schedule[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDA};
  uint32_t x = k0, y = low + k1;
  for (int r = 0; r < rounds; r++) {
    const int by = rotation[r % 8];
    x += y;
    y = (y << by | y >> (32 - by)) ^ x;
    if (r % 4 == 3) {
      const int group = r / 4 + 1;
      x += schedule[group % 3];
      y += schedule[(group + 1) % 3] + group;
    }
  }
  *first = x, *second = y;
}

static unsigned int next(void) {
  if (used == 3 * BESIDE) {
    for (int i = 0; i < BESIDE; i++) {
      uint32_t k0, k1, x, y;
      block(key[0], key[1], next_t + i, &k0, &k1);
      block(k0, k1, 0, &x, &y);
      words[3 * i] = x ^ y;
      block(k0, k1, 1, &words[3 * i + 1], &words[3 * i + 2]);
    }
    /* After 2^32 keys another one. */
    if ((next_t += BESIDE) == 0) key[0]++;
    used = 0;
  }
  return words[used++];
}

int main(int argc, char **argv) {
  if (argc < 3) return fputs("battery ROUNDS small|crush|big|words [N]\n", stderr), 2;
  rounds = atoi(argv[1]);
  if (!strcmp(argv[2], "words")) {
    for (int i = 0; i < atoi(argv[3]); i++) printf("%u\n", next());
    return 0;
  }
  char name[64];
  snprintf(name, sizeof name, "threefry2x32 with %d rounds", rounds);
  unif01_Gen *generator = unif01_CreateExternGenBits(name, next);
  swrite_Basic = FALSE;
  if (!strcmp(argv[2], "small")) bbattery_SmallCrush(generator);
  if (!strcmp(argv[2], "crush")) bbattery_Crush(generator);
  if (!strcmp(argv[2], "big")) bbattery_BigCrush(generator);
  unif01_DeleteExternGenBits(generator);
  return 0;
}
