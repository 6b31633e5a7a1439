// The figures of a charge as its answer carries them.

import { formatUsd, smaller, type Pico } from '../../credits/money.ts'
import type { Cost } from '../../credits/price.ts'
import type { Bill } from '../../protocols/protocol.ts'

const groups: Readonly<Record<string, keyof Bill['lines']>> = {
  input: 'input',
  inputAudio: 'input',
  inputImage: 'input',
  cacheRead: 'cache_read',
  cacheReadAudio: 'cache_read',
  cacheWrite5m: 'cache_write',
  cacheWrite1h: 'cache_write',
  output: 'output',
  outputAudio: 'output',
  outputImage: 'output',
  // A provider that names one price for the whole call names it for its answer.
  reported: 'output',
  reasoning: 'reasoning',
}

/**
 * The figures an answer carries: decimal strings in US dollars whose parts add up to the total exactly. The caller is
 * charged at most `most` picodollars, and shown what it is charged: of what is beyond it, the last parts are left out.
 */
export function billOf(cost: Cost, most: Pico = cost.total): Bill {
  const sums = { input: 0n, cache_read: 0n, cache_write: 0n, output: 0n, reasoning: 0n, tools: 0n }
  let left = smaller(cost.total, most)
  const total = left
  for (const line of cost.lines) {
    const amount = smaller(line.amount, left)
    sums[groups[line.item] ?? 'tools'] += amount
    left -= amount
  }
  return {
    cost: formatUsd(total),
    lines: {
      input: formatUsd(sums.input),
      cache_read: formatUsd(sums.cache_read),
      cache_write: formatUsd(sums.cache_write),
      output: formatUsd(sums.output),
      reasoning: formatUsd(sums.reasoning),
      tools: formatUsd(sums.tools),
    },
  }
}
