// A receipt, added up again in the browser: nothing the gateway has summed is believed.

import type { Receipt } from '../../api/wire.ts'
import { decimal, equal, exact, sumOf, times } from '../../strings/exact.ts'

export interface Step {
  readonly says: string
  readonly holds: boolean
}

/** What a receipt claims, each claim computed from the figures it is made of. */
export function addUp(receipt: Receipt): readonly Step[] {
  const lines = receipt.lines.map(({ item, quantity, rate, amount }) => {
    const product = times(exact(String(quantity)), exact(rate))
    return {
      says: `${item}: ${quantity} × ${rate} = ${decimal(product)}`,
      holds: equal(product, exact(amount)),
    }
  })
  const total = sumOf(receipt.lines.map(({ amount }) => amount))
  const charged = sumOf([receipt.charged, receipt.absorbed])
  const drawn = sumOf([...receipt.drawn.map(({ amount }) => amount), receipt.on_credit])
  return [
    ...lines,
    { says: `lines = ${decimal(total)}`, holds: equal(total, exact(receipt.total)) },
    { says: `charged + absorbed = ${decimal(charged)}`, holds: equal(charged, exact(receipt.total)) },
    { says: `lots + credit line = ${decimal(drawn)}`, holds: equal(drawn, exact(receipt.charged)) },
  ]
}
