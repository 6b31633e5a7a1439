// Wallets and commands for tests of the ledger, in the shortest words.

import { noUsage } from '../../src/conversation/usage.ts'
import type {
  ExtendCommand,
  GrantCommand,
  HoldCommand,
  KeySpend,
  Served,
  SettleCommand,
} from '../../src/credits/ledger/ledger.ts'
import { usd } from '../../src/credits/money.ts'

/** A Saturday noon, UTC. */
export const noon = Date.UTC(2026, 10, 21, 12)
export const minute = 60_000
export const day = 86_400_000

/** Holds all that is wanted, whatever share of the credit that is. */
export function holdOf(call: string, wanted: Partial<HoldCommand> = {}): HoldCommand {
  return {
    call,
    account: 'anna',
    key: 'key1',
    funding: ['purchased'],
    want: usd(1),
    least: usd(1),
    most: wanted.want ?? usd(1),
    keyLimit: null,
    inGroup: null,
    model: 'sim/echo',
    priceVersion: 'sim/echo@1',
    owner: 'here',
    leaseUntil: noon + minute,
    ...wanted,
  }
}

/** Adds all of `more` or nothing. */
export function extensionOf(call: string, more: bigint, wanted: Partial<ExtendCommand> = {}): ExtendCommand {
  return { call, owner: 'here', least: more, want: more, most: more, ...wanted }
}

export const noKeySpend: KeySpend = { spent: 0n, held: 0n }

export const servedBySim: Served = {
  provider: 'sim',
  upstreamModel: 'echo',
  upstreamId: null,
  priceVersion: 'sim/echo@1',
  stream: true,
  attempts: [
    { provider: 'sim', outcome: 'served', code: null, upstreamId: null, ms: 7, status: null, reason: null },
  ],
  firstByteMs: 3,
  totalMs: 9,
  finishReason: 'stop',
}

export function settleOf(call: string, cost: bigint, wanted: Partial<SettleCommand> = {}): SettleCommand {
  return {
    call,
    owner: 'here',
    cost,
    most: null,
    usage: { ...noUsage, input: 10, output: 5 },
    lines: [{ item: 'output', quantity: 1, rate: cost, amount: cost }],
    estimated: false,
    ending: 'finished',
    served: servedBySim,
    ...wanted,
  }
}

export function grantOf(source: string, amount: bigint, wanted: Partial<GrantCommand> = {}): GrantCommand {
  return { source, account: 'anna', pool: 'purchased', amount, expiresAt: null, from: 'grant', ...wanted }
}
