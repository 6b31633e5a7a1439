// Vouchers: codes that become credit once. The code is shown when it is created; only its hash is stored.

import { randomBytes } from 'node:crypto'
import type { Awaitable } from '../async/async.ts'
import type { LedgerCommands } from '../credits/ledger/ledger.ts'
import type { Pico } from '../credits/money.ts'
import { GatewayError } from '../errors/errors.ts'

export interface Voucher {
  readonly id: string
  /** SHA-256 of the code, hex. */
  readonly hash: string
  readonly amount: Pico
  /** The operator's note. */
  readonly note: string
  readonly createdAt: number
  /** Until when it can be redeemed; null without end. */
  readonly expiresAt: number | null
  readonly revokedAt: number | null
  /** Who has redeemed it. */
  readonly account: string | null
  readonly redeemedAt: number | null
  /** Its lot; null until the ledger has it. */
  readonly lot: string | null
}

export interface VoucherStore {
  /** All or none: false if there is one with the id of one of them. */
  addVouchers(vouchers: readonly Voucher[]): Awaitable<boolean>
  findVoucher(hash: string): Awaitable<Voucher | undefined>
  /** Assigns the voucher if it is valid at `now` and unclaimed; of several concurrent claims one succeeds. */
  claimVoucher(hash: string, account: string, now: number): Awaitable<boolean>
  voucherGranted(id: string, lot: string): Awaitable<void>
  /** The newest first. */
  listVouchers(limit: number): Awaitable<readonly Voucher[]>
  /** False if it does not exist or was redeemed. */
  revokeVoucher(id: string, at: number): Awaitable<boolean>
  /** Redeemed but not yet in the ledger, because their process died. */
  ungrantedVouchers(limit: number): Awaitable<readonly Voucher[]>
}

/** Without letters that look like digits or each other. */
const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const randomCharacters = 15

const idLength = 18

/**
 * The id of a voucher, counted from 0, that an operator's request makes: the primary key of the table lets a batch be
 * made once.
 */
export function voucherIdOf(request: string, nth: number): string {
  return `voucher_${hashOf(JSON.stringify([request, nth])).slice(0, idLength)}`
}

function randomVoucherId(): string {
  return `voucher_${randomBytes(idLength / 2).toString('hex')}`
}

/** A new voucher and its code, `WEIR-XXXX-XXXX-XXXX-XXXX`: 75 random bits and a check character. */
export function mintVoucher(
  wanted: Pick<Voucher, 'amount' | 'note' | 'expiresAt'>,
  now: number,
  id: string = randomVoucherId(),
): { readonly voucher: Voucher; readonly code: string } {
  let body = ''
  for (const byte of randomBytes(randomCharacters)) body += alphabet[byte % alphabet.length]!
  body += checkCharacter(body)
  const voucher: Voucher = {
    ...wanted,
    id,
    hash: hashOf(body),
    createdAt: now,
    revokedAt: null,
    account: null,
    redeemedAt: null,
    lot: null,
  }
  return { voucher, code: `WEIR-${body.match(/.{4}/g)!.join('-')}` }
}

/** The normalised code, however it was typed; undefined if it is invalid or was mistyped. */
export function readCode(text: string): string | undefined {
  const plain = text
    .toUpperCase()
    .replace(/[\s-]/g, '')
    .replace(/^WEIR/, '')
    .replaceAll('O', '0')
    .replace(/[IL]/g, '1')
  if (plain.length !== randomCharacters + 1) return undefined
  if ([...plain].some((character) => !alphabet.includes(character))) return undefined
  return checkCharacter(plain.slice(0, -1)) === plain.at(-1) ? plain : undefined
}

/** The hash of a code, as vouchers are found by; undefined for a text that is none. */
export function hashOfCode(text: string): string | undefined {
  const body = readCode(text)
  return body === undefined ? undefined : hashOf(body)
}

/** Odd weights detect any single wrong character and nearly every swap of two. */
function checkCharacter(body: string): string {
  let sum = 0
  for (const [at, character] of [...body].entries()) sum += (2 * at + 1) * alphabet.indexOf(character)
  return alphabet[sum % alphabet.length]!
}

function hashOf(text: string): string {
  return Bun.SHA256.hash(text, 'hex')
}

export class Vouchers {
  readonly #store: VoucherStore
  readonly #ledger: Pick<LedgerCommands, 'grant'>
  readonly #now: () => number

  constructor(store: VoucherStore, ledger: Pick<LedgerCommands, 'grant'>, now: () => number) {
    this.#store = store
    this.#ledger = ledger
    this.#now = now
  }

  /**
   * Redeems a voucher as purchased credit of an account, once. Rejects with `voucher_invalid`, `voucher_used`,
   * `store_unavailable` and `overloaded`; after the last two the same account may redeem it again.
   */
  async redeem(account: string, code: string): Promise<{ readonly credit: Pico; readonly lot: string }> {
    const hash = hashOfCode(code)
    if (hash === undefined) throw new GatewayError('voucher_invalid')
    const claimed = await this.#store.claimVoucher(hash, account, this.#now())
    const voucher = await this.#store.findVoucher(hash)
    if (!voucher) throw new GatewayError('voucher_invalid')
    if (!claimed) {
      if (voucher.account === null) throw new GatewayError('voucher_invalid')
      if (voucher.account !== account) throw new GatewayError('voucher_used')
      // Only a crash between claim and credit leaves it in this state.
      if (voucher.lot !== null) throw new GatewayError('voucher_used', { metadata: { lot: voucher.lot } })
    }
    return { credit: voucher.amount, lot: await this.#grant(voucher) }
  }

  async #grant({ id, account, amount }: Voucher): Promise<string> {
    const granted = await this.#ledger.grant({
      source: `voucher:${id}`,
      account: account ?? '',
      pool: 'purchased',
      amount,
      expiresAt: null,
      from: 'voucher',
    })
    await this.#store.voucherGranted(id, granted.lot)
    return granted.lot
  }

  /** Grants what a killed process left. Returns the number. */
  async sweep(): Promise<number> {
    const left = await this.#store.ungrantedVouchers(100)
    for (const voucher of left) {
      try {
        await this.#grant(voucher)
      } catch (error) {
        // Its account has as much credit as it can have: the others are not held up, and it is tried again.
        if (!(error instanceof GatewayError) || error.code !== 'invalid_request') throw error
      }
    }
    return left.length
  }
}
