// What several processes have seen, put together; and what each has of limits that are for all.

import { describe, expect, test } from 'bun:test'
import { noAnswers, type ProviderHealth } from '../../../src/chat/routing/health.ts'
import { loadConfig } from '../../../src/config/config.ts'
import { mergedHealth } from '../../../src/serve/workers/pool.ts'
import { workerConfig } from '../../../src/serve/workers/worker.ts'
import { workerCount } from '../../../src/serve/relaunch.ts'

const well: ProviderHealth = {
  state: 'healthy',
  hour: noAnswers,
  day: noAnswers,
  countedSince: 0,
  coolUntil: null,
  troubles: [],
  lastError: null,
}
const error = { code: 'no_provider_available', status: 500, reason: 'broken', upstream: 'm' } as const
const trouble = { key: 1, upstream: 'm', standing: 'cooling', breaker: 'closed', failures: 2 } as const

describe('the health of a provider', () => {
  test('of nobody, and of those that have not called it, is good', () => {
    expect(mergedHealth([])).toEqual(well)
    expect(mergedHealth([well, well])).toEqual(well)
  })

  test('is the worst that anybody sees; answers and failures are added up, the last error is the latest', () => {
    const merged = mergedHealth([
      {
        ...well,
        hour: { answered: 30, refused: 0, failed: 0, times: [[20, 30, 3000]] },
        countedSince: 3,
        lastError: { ...error, at: 5 },
      },
      {
        ...well,
        state: 'degraded',
        hour: {
          answered: 5,
          refused: 3,
          failed: 2,
          times: [
            [20, 1, 110],
            [25, 4, 1200],
          ],
        },
        coolUntil: 9,
        troubles: [trouble],
        lastError: { ...error, at: 7, status: 429 },
      },
      {
        ...well,
        state: 'unavailable',
        coolUntil: 4,
        troubles: [
          { ...trouble, standing: 'open', breaker: 'open', failures: 1 },
          { ...trouble, upstream: null },
        ],
      },
    ])
    expect(merged).toEqual({
      state: 'unavailable',
      hour: {
        answered: 35,
        refused: 3,
        failed: 2,
        times: [
          [20, 31, 3110],
          [25, 4, 1200],
        ],
      },
      day: noAnswers,
      countedSince: 3,
      coolUntil: 9,
      troubles: [
        { ...trouble, standing: 'open', breaker: 'open', failures: 3 },
        { ...trouble, upstream: null },
      ],
      lastError: { ...error, at: 7, status: 429 },
    })
  })
})

function configOf(env: Record<string, string>) {
  const loaded = loadConfig({ flags: {}, env, cwd: '/', readFile: () => undefined })
  if (loaded.kind === 'faulty') throw new Error(JSON.stringify(loaded.faults))
  return loaded.config
}

describe('a worker’s share', () => {
  test('memory and connections are divided, what is counted in one place is not', () => {
    const config = configOf({})
    const share = workerConfig(config, 3)
    expect(share.limits).toEqual({
      ...config.limits,
      max_connections_upstream: Math.ceil(config.limits.max_connections_upstream / 3),
      arrived_bytes: Math.floor(config.limits.arrived_bytes / 3),
    })
    expect(share.stream.total_buffer_bytes).toBe(Math.floor(config.stream.total_buffer_bytes / 3))
    expect(share.rate_limits).toEqual(config.rate_limits)
  })

  test('is never too little to work with', () => {
    const share = workerConfig(
      configOf({ WEIR_LIMITS_ARRIVED_BYTES: '65536', WEIR_STREAM_TOTAL_BUFFER_BYTES: '1048576' }),
      8,
    )
    expect([share.limits.arrived_bytes, share.stream.total_buffer_bytes]).toEqual([65_536, 1_048_576])
  })
})

describe('how many processes serve', () => {
  test.each([
    // setting    cores  platform        workers
    [undefined, 8, 'linux', 1],
    ['2', 1, 'linux', 2],
    ['auto', 4, 'linux', 3],
    ['auto', 8, 'linux', 4],
    ['auto', 1, 'linux', 1],
    ['auto', 64, 'linux', 4],
    ['auto', 8, 'darwin', 1],
    ['1', 8, 'darwin', 1],
  ] as const)('server.workers %p on %p cores of %p: %p', (setting, cores, platform, workers) => {
    const config = configOf(setting === undefined ? {} : { WEIR_SERVER_WORKERS: setting })
    expect(workerCount(config, cores, platform)).toBe(workers)
  })

  test('several where a port cannot be shared fairly are refused', () => {
    expect(() => workerCount(configOf({ WEIR_SERVER_WORKERS: '2' }), 8, 'darwin')).toThrow('needs Linux')
  })

  test.each(['0', '65', 'many', '-1', '1.5'])('%p is no number of workers', (text) => {
    expect(() => configOf({ WEIR_SERVER_WORKERS: text })).toThrow('server.workers')
  })
})
