/* Plain scalar loops of the learners over stochastic arms: what a careful C programmer writes for
   one trial. `play` plays `trials` games of `horizon` rounds with Bernoulli losses, one after another,
   and writes the pseudo-regret of each. */

#include <math.h>
#include <stdint.h>

enum { MAX_ARMS = 16, LEVELS = 32 };

static uint64_t state[4];

static inline uint64_t rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

/* xoshiro256+ of Blackman and Vigna. */
static inline uint64_t next(void) {
  const uint64_t result = state[0] + state[3], t = state[1] << 17;
  state[2] ^= state[0];
  state[3] ^= state[1];
  state[1] ^= state[2];
  state[0] ^= state[3];
  state[2] ^= t;
  state[3] = rotate(state[3], 45);
  return result;
}

static inline float uniform(void) { return ((float)(next() >> 40) + 0.5f) * 0x1p-24f; }

static inline float laplace(float scale) {
  float u = uniform() - 0.5f;
  return -copysignf(scale, u) * logf(1.0f - 2.0f * fabsf(u));
}

static float normal(void) {
  return sqrtf(-2.0f * logf(uniform())) * cosf(6.2831853f * uniform());
}

/* Marsaglia and Tsang, for a shape of at least 1. */
static float gamma_draw(float shape) {
  const float d = shape - 1.0f / 3.0f, c = 1.0f / sqrtf(9.0f * d);
  for (;;) {
    float x = normal(), v = 1.0f + c * x;
    if (v <= 0.0f) continue;
    v = v * v * v;
    if (logf(uniform()) < 0.5f * x * x + d - d * v + d * logf(v)) return d * v;
  }
}

static int smallest(const float *values, int arms) {
  int best = 0;
  for (int i = 1; i < arms; i++)
    if (values[i] < values[best]) best = i;
  return best;
}

static float kl(float x, float y) {
  float value = 0.0f;
  if (x > 0.0f) value += x * logf(x / y);
  if (x < 1.0f) value += (1.0f - x) * logf((1.0f - x) / (1.0f - y));
  return value;
}

static float kl_lower(float x, float radius) {
  float low = 1e-9f, high = x;
  for (int i = 0; i < 24; i++) {
    float middle = 0.5f * (low + high);
    if (kl(x, middle) > radius) low = middle;
    else high = middle;
  }
  return high;
}

typedef struct {
  int arms, n[MAX_ARMS];
  float sum[MAX_ARMS], index[MAX_ARMS];
  /* of the private ones */
  float mean[MAX_ARMS], buffer[MAX_ARMS], walk[MAX_ARMS][LEVELS], before[MAX_ARMS];
  int samples[MAX_ARMS], held[MAX_ARMS];
} Game;

typedef enum { UCB1, KL_UCB, THOMPSON, LAZY_UCB, LAZY_THOMPSON, DP_UCB, DP_UCB_BOUND, DP_UCB_INT,
               DP_SE } Learner;

static int choose(Game *g, Learner learner, int t, int horizon, float epsilon, int interval) {
  const int K = g->arms;
  const float log_t = logf((float)t), log2_t = log_t * 1.442695f;
  float *index = g->index;
  if (learner == DP_UCB_INT && (t - 1) / K < interval) return (t - 1) % K;
  if (learner != THOMPSON && t <= K) return t - 1;
  const float log_T = logf((float)horizon);
  const float bonus = log_T * log_T * logf(K * (float)horizon * log_T / 0.1f) / epsilon;
  for (int i = 0; i < K; i++) {
    const float n = g->n[i];
    switch (learner) {
      case UCB1: index[i] = g->sum[i] / n - sqrtf(2.0f * log_t / n); break;
      case KL_UCB: index[i] = kl_lower(g->sum[i] / n, log_t / n); break;
      case THOMPSON: {
        float a = gamma_draw(1.0f + g->sum[i]), b = gamma_draw(1.0f + n - g->sum[i]);
        index[i] = a / (a + b);
        break;
      }
      case LAZY_UCB: {
        const float m = g->samples[i];
        index[i] = g->mean[i] - sqrtf(3.0f * log2_t / m) - 3.0f * log2_t / (epsilon * m);
        break;
      }
      case LAZY_THOMPSON: {
        const float m = g->samples[i];
        float p = fminf(fmaxf(g->mean[i] - 3.0f * log2_t / (epsilon * m), 0.0f), 1.0f);
        float a = gamma_draw(1.0f + p * m), b = gamma_draw(1.0f + (1.0f - p) * m);
        index[i] = a / (a + b);
        break;
      }
      case DP_UCB: index[i] = (g->sum[i] - bonus) / n - sqrtf(2.0f * log_t / n); break;
      case DP_UCB_BOUND: {
        float nu = 2.828427f / epsilon * (1.386294f + 4.0f * log_t);
        if (g->n[i] & (g->n[i] - 1)) nu *= logf(n) + 1.0f;
        index[i] = (g->mean[i] - nu) / n - sqrtf(2.0f * log_t / n);
        break;
      }
      case DP_UCB_INT: index[i] = g->mean[i] - sqrtf(2.0f * log_t / g->samples[i]); break;
      default: break;
    }
  }
  return smallest(index, K);
}

static void observe(Game *g, Learner learner, int t, int height, int arm, float loss,
                    float epsilon, int interval) {
  const int n = ++g->n[arm], K = g->arms;
  if (learner == DP_UCB) {
    /* Trees on the clock of the game; sum holds the noisy totals. */
    const int parent = t & (t - 1), low = __builtin_ctz(t);
    for (int i = 0; i < K; i++) {
      float here = laplace(height / epsilon);
      if (parent) here += g->walk[i][__builtin_ctz(parent)];
      g->walk[i][low] = here;
      g->buffer[i] += i == arm ? loss : 0.0f;
      g->sum[i] = g->buffer[i] + here;
    }
    return;
  }
  g->sum[arm] += loss;
  if (learner == LAZY_UCB || learner == LAZY_THOMPSON) {
    g->buffer[arm] += loss;
    const int size = g->samples[arm] ? 2 * g->samples[arm] : 1;
    if (++g->held[arm] == size) {
      g->mean[arm] = (g->buffer[arm] + laplace(1.0f / epsilon)) / size;
      g->samples[arm] = size;
      g->held[arm] = 0;
      g->buffer[arm] = 0.0f;
    }
  } else if (learner == DP_UCB_BOUND) {
    const int epoch = 31 - __builtin_clz(n), local = n - (1 << epoch);
    if (!local) {
      g->before[arm] += laplace(2.0f / epsilon);
      g->mean[arm] = g->sum[arm] + g->before[arm];
    } else {
      const int parent = local & (local - 1);
      float base = parent ? g->walk[arm][__builtin_ctz(parent)] : g->before[arm];
      float here = base + laplace(2.0f * epoch / epsilon);
      g->walk[arm][__builtin_ctz(local)] = here;
      g->mean[arm] = g->sum[arm] + here;
    }
  } else if (learner == DP_UCB_INT && n % interval == 0) {
    g->mean[arm] = g->sum[arm] / n + laplace(powf(n, 0.5f * 1.1f - 1.0f));
    g->samples[arm] = n;
  }
}

static float eliminate(int horizon, int arms, const float *means, float epsilon, float best) {
  int active[MAX_ARMS], count = arms, t = 0;
  float regret = 0.0f, mean[MAX_ARMS];
  for (int i = 0; i < arms; i++) active[i] = i;
  for (int epoch = 1; t < horizon; epoch++) {
    if (count == 1) {
      for (; t < horizon; t++) regret += means[active[0]] - best;
      break;
    }
    const float gap = powf(2.0f, -epoch), scale = count * (float)epoch * epoch * horizon;
    const float real = fmaxf(32.0f * logf(8.0f * scale) / (gap * gap),
                             8.0f * logf(4.0f * scale) / (epsilon * gap)) + 1.0f;
    const int rounds = (int)ceilf(fminf(real, (float)horizon));
    float sum[MAX_ARMS] = {0};
    int r = 0;
    for (; r < rounds && t < horizon; r++)
      for (int j = 0; j < count && t < horizon; j++, t++) {
        const int arm = active[j];
        sum[arm] += uniform() < means[arm];
        regret += means[arm] - best;
      }
    if (t == horizon) break;
    float smallest_mean = 2e9f;
    for (int j = 0; j < count; j++) {
      const int arm = active[j];
      mean[arm] = (sum[arm] + laplace(1.0f / epsilon)) / rounds;
      smallest_mean = fminf(smallest_mean, mean[arm]);
    }
    const float width = 2.0f * (sqrtf(logf(8.0f * scale) / (2.0f * real)) +
                                logf(4.0f * scale) / (real * epsilon));
    int left = 0;
    for (int j = 0; j < count; j++)
      if (mean[active[j]] - smallest_mean <= width) active[left++] = active[j];
    count = left;
  }
  return regret;
}

void play(int horizon, int trials, int learner, int arms, float epsilon, int interval,
          const float *means, uint64_t seed, double *value) {
  for (int i = 0; i < 4; i++) state[i] = (seed + i + 1) * 0x9E3779B97F4A7C15ULL;
  for (int i = 0; i < 64; i++) next();
  float best = means[0];
  for (int i = 1; i < arms; i++) best = fminf(best, means[i]);
  int height = 0;
  while ((1 << height) < horizon) height++;
  for (int trial = 0; trial < trials; trial++) {
    if (learner == DP_SE) {
      value[trial] = eliminate(horizon, arms, means, epsilon, best);
      continue;
    }
    Game g = {.arms = arms};
    float regret = 0.0f;
    for (int t = 1; t <= horizon; t++) {
      const int arm = choose(&g, learner, t, horizon, epsilon, interval);
      const float loss = uniform() < means[arm];
      regret += means[arm] - best;
      observe(&g, learner, t, height, arm, loss, epsilon, interval);
    }
    value[trial] = regret;
  }
}
