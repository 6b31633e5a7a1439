// Merges the health reports of several processes about one provider.

import type { ProviderHealth } from '../../chat/routing/health.ts'

type Trouble = ProviderHealth['troubles'][number]

const worst: Readonly<Record<ProviderHealth['state'], number>> = { healthy: 0, degraded: 1, unavailable: 2 }
const standings: Readonly<Record<Trouble['standing'], number>> = { healthy: 0, cooling: 1, open: 2 }

/**
 * The worst state of all, each trouble as reported by the process with the worst of it, and rates weighted by answers.
 * The median is the weighted mean of medians, which is close if the processes have about the same load.
 */
export function mergedHealth(seen: readonly ProviderHealth[]): ProviderHealth {
  const answers = seen.reduce((sum, each) => sum + each.answers, 0)
  const states = seen.map(({ state }) => state).toSorted((a, b) => worst[b] - worst[a])
  const coolUntil = Math.max(0, ...seen.map((each) => each.coolUntil ?? 0))
  const errors = seen.flatMap(({ lastError }) => (lastError === null ? [] : [lastError]))
  const p50Ms = weightedMean(seen, ({ p50Ms: ms }) => ms)
  return {
    state: states[0] ?? 'healthy',
    successRate: weightedMean(seen, ({ successRate }) => successRate),
    p50Ms: p50Ms === null ? null : Math.round(p50Ms),
    answers,
    coolUntil: coolUntil === 0 ? null : coolUntil,
    troubles: mergedTroubles(seen.flatMap(({ troubles }) => troubles)),
    lastError: errors.toSorted((a, b) => b.at - a.at)[0] ?? null,
  }
}

/** The mean of a figure over the reports that have it, weighted by answers; null if none has. */
function weightedMean(
  seen: readonly ProviderHealth[],
  figure: (health: ProviderHealth) => number | null,
): number | null {
  let sum = 0
  let weight = 0
  for (const health of seen) {
    const value = figure(health)
    if (value === null) continue
    sum += value * health.answers
    weight += health.answers
  }
  return weight === 0 ? null : sum / weight
}

function mergedTroubles(troubles: readonly Trouble[]): Trouble[] {
  const named = Map.groupBy(troubles, ({ key, upstream }) => `${key}\n${upstream ?? ''}`)
  return [...named.values()].map((same) => {
    const [most] = same.toSorted(
      (a, b) => standings[b.standing] - standings[a.standing] || b.failures - a.failures,
    )
    return { ...most!, failures: same.reduce((sum, { failures }) => sum + failures, 0) }
  })
}
