// The amounts of a charge as the answer shows them.

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
  // Some providers report one price for the whole call: it is shown as output.
  reported: 'output',
  reasoning: 'reasoning',
}

/**
 * The amounts of an answer: decimal strings in US dollars that add up to the total exactly. The caller is charged at
 * most `most` picodollars; anything above that is left out of the last parts, so that the answer shows what is
 * charged.
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
