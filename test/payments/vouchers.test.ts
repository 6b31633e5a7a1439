// The codes of vouchers: what people type, and what they mistype.

import { expect, test } from 'bun:test'
import { largestLot, usd } from '../../src/credits/money.ts'
import { mintVoucher, readCode, Vouchers } from '../../src/payments/vouchers.ts'
import { openStore } from '../../src/store/open.ts'
import { noon } from '../credits/support.ts'
import { tempDir } from '../support/tmp.ts'

const mint = () => mintVoucher({ amount: usd(10), note: '', expiresAt: null }, 0).code

test('a code is read however it is typed', () => {
  for (let at = 0; at < 200; at++) {
    const code = mint()
    expect(code).toMatch(/^WEIR(-[0-9A-HJKMNP-TV-Z]{4}){4}$/)
    const plain = readCode(code)
    expect(plain).toBeString()
    const slack = [code.toLowerCase(), code.replaceAll('-', ' '), code.slice(5), ` ${code}\n`]
    const lookalike = code.slice(5).replaceAll('0', 'O').replaceAll('1', 'l')
    for (const typed of [...slack, lookalike]) expect(readCode(typed)).toBe(plain)
  }
})

test('one wrong character is noticed, wherever it is', () => {
  const code = mint().slice(5).replaceAll('-', '')
  for (let at = 0; at < code.length; at++) {
    for (const other of '0123456789ABCDEFGHJKMNPQRSTVWXYZ') {
      if (other === code[at]) continue
      expect(readCode(code.slice(0, at) + other + code.slice(at + 1))).toBeUndefined()
    }
  }
})

test.each(['', 'WEIR', 'WEIR-0000', '%', "' OR 1=1--", 'WEIR-UUUU-UUUU-UUUU-UUUU', 'x'.repeat(100)])(
  '%p is no code',
  (text) => expect(readCode(text)).toBeUndefined(),
)

test('a voucher of an account that can have no more credit does not hold up those of others', async () => {
  const home = tempDir('weir-vouchers-')
  const store = await openStore(home.path, { clock: () => noon, serveAs: 'test' })
  try {
    const vouchers = new Vouchers(store.vouchers, store.ledger, () => noon)
    const full = {
      account: 'rich',
      pool: 'purchased',
      amount: largestLot,
      expiresAt: null,
      from: 'grant',
    } as const
    for (const source of ['a', 'b', 'c', 'd']) await store.ledger.grant({ ...full, source })
    const made = [0, 1].map(() => mintVoucher({ amount: usd(10), note: '', expiresAt: null }, noon))
    await store.vouchers.addVouchers(made.map(({ voucher }) => voucher))
    await expect(vouchers.redeem('rich', made[0]!.code)).rejects.toMatchObject({ code: 'invalid_request' })
    // Its process dies between the two steps.
    await store.vouchers.claimVoucher(made[1]!.voucher.hash, 'anna', noon + 1)
    await vouchers.sweep()
    expect((await store.ledger.balance('anna')).lots.map(({ remaining }) => remaining)).toEqual([usd(10)])
  } finally {
    await store.close()
    home.remove()
  }
})
