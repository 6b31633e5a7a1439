// Reads and writes the credit line of an account as text.

import { formatUsd, largestBalance, largestLot, parseUsd, type Pico } from './money.ts'

/** Reads `500`, `unlimited` (the most the ledger can hold) or `none`; undefined for anything else. */
export function parseCreditLine(text: string): Pico | undefined {
  if (text === 'unlimited') return largestBalance
  if (text === 'none') return 0n
  const amount = parseUsd(text)
  return amount !== undefined && amount >= 0n && amount <= largestLot ? amount : undefined
}

/** `500`, `unlimited`, or null for an account without a credit line. */
export function formatCreditLine(most: Pico): string | null {
  if (most === 0n) return null
  return most === largestBalance ? 'unlimited' : formatUsd(most)
}
