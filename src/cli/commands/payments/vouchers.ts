// `weir vouchers`: codes that can be redeemed once for credit.

import { formatUsd } from '../../../credits/money.ts'
import { mintVoucher, type Voucher } from '../../../payments/vouchers.ts'
import { recordAct } from '../../acts.ts'
import {
  CommandFailure,
  type Context,
  type Invocation,
  isoTime,
  print,
  table,
  usageFault,
} from '../../context.ts'
import { amountOfUsd, futureDate } from '../../values.ts'
import { withStore } from '../../with-store.ts'

const mostAtOnce = 10_000
const mostListed = 10_000

/** Makes vouchers and prints their codes, which cannot be shown again. */
export async function createVouchers(context: Context, invocation: Invocation): Promise<void> {
  const now = context.io.clock()
  const amount = amountOfUsd('--usd', invocation.option('usd') ?? '')
  const count = Number(invocation.option('count') ?? '1')
  if (!Number.isInteger(count) || count < 1 || count > mostAtOnce)
    throw usageFault(`--count takes a whole number from 1 to ${mostAtOnce}`)
  const expires = invocation.option('expires')
  const expiresAt = expires === undefined ? null : futureDate('--expires', expires, now)
  const note = invocation.option('note') ?? ''
  const made = Array.from({ length: count }, () => mintVoucher({ amount, note, expiresAt }, now))
  await withStore(context, async (store) => {
    await store.vouchers.addVouchers(made.map(({ voucher }) => voucher))
    const after = { count, amount: formatUsd(amount), expires_at: isoTime(expiresAt), note }
    await recordAct(context, store, 'voucher.create', made[0]!.voucher.id, null, after)
  })
  if (!context.json) context.io.err('The codes are shown once; only their hashes are kept.\n')
  print(context, {
    json: made.map(({ voucher, code }) => ({
      id: voucher.id,
      code,
      credit_usd: formatUsd(voucher.amount),
      expires_at: isoTime(voucher.expiresAt),
    })),
    text: made.map(({ code }) => code).join('\n'),
  })
}

export async function listVouchers(context: Context): Promise<void> {
  const now = context.io.clock()
  const vouchers = await withStore(context, (store) => store.vouchers.listVouchers(mostListed))
  const views = vouchers.map((voucher) => view(voucher, now))
  const rows = views.map((row) => [
    row.id,
    row.credit_usd,
    row.state,
    row.expires_at ?? 'never',
    row.account ?? '',
    row.note,
  ])
  const header = ['VOUCHER', 'USD', 'STATE', 'EXPIRES', 'ACCOUNT', 'NOTE']
  print(context, { json: views, text: rows.length === 0 ? 'no vouchers' : table(header, rows) })
}

export async function revokeVoucher(context: Context, { args }: Invocation): Promise<void> {
  const id = args[0] ?? ''
  const at = context.io.clock()
  await withStore(context, async (store) => {
    if (!(await store.vouchers.revokeVoucher(id, at)))
      throw new CommandFailure(
        `there is no voucher ${JSON.stringify(id)} that could be revoked (weir vouchers list)`,
      )
    await recordAct(context, store, 'voucher.revoke', id, null, null)
  })
  print(context, { json: { id, revoked_at: isoTime(at) }, text: `revoked ${id}` })
}

function view(voucher: Voucher, now: number) {
  return {
    id: voucher.id,
    credit_usd: formatUsd(voucher.amount),
    state: stateOf(voucher, now),
    note: voucher.note,
    created_at: isoTime(voucher.createdAt),
    expires_at: isoTime(voucher.expiresAt),
    account: voucher.account,
    redeemed_at: isoTime(voucher.redeemedAt),
    lot: voucher.lot,
  }
}

function stateOf({ account, revokedAt, expiresAt }: Voucher, now: number) {
  if (account !== null) return 'redeemed'
  if (revokedAt !== null) return 'revoked'
  return expiresAt !== null && expiresAt <= now ? 'expired' : 'valid'
}
