// The statements of an account as its holder gets them, against the receipts of its payments and the lines of the journal.

import { Database } from 'bun:sqlite'
import { parseMinor, parseRate, usd } from '../../src/credits/money.ts'
import { statementOf } from '../../src/http/payments/statements.ts'
import { viewOf } from '../../src/http/payments/top-ups.ts'
import type { StatementView } from '../../src/http/payments/answers.ts'
import { monthNamed } from '../../src/credits/ledger/monthly.ts'
import type { Store } from '../../src/store/open.ts'

interface Books {
  readonly store: Store
  readonly account: string
  /** Everything of the account is after this transaction. */
  readonly afterTx?: number
  readonly now: number
}

interface Line {
  readonly at: bigint
  readonly amount: bigint
  /** 1 for the credit of a payment. */
  readonly paid: bigint
}

const sum = (amounts: readonly string[]) => amounts.reduce((total, amount) => total + usd(amount), 0n)

/** What does not add up, of every month since the first entry of the account. */
export async function statementFaults(books: Books): Promise<string[]> {
  const faults: string[] = []
  const lines = linesOf(books)
  const statements = await statementsOf(books, lines)
  let before = { credit: '0', owed: '0', balance: '0' }
  for (const statement of statements) {
    const { month, opening, closing, totals, days } = statement
    const wrong = (what: string) => faults.push(`${month}: ${what}`)
    if (!Bun.deepEquals(opening, before))
      wrong('opens with another sum than the month before has closed with')
    before = closing
    for (const movements of [totals, days])
      for (const part of ['credit', 'owed', 'balance'] as const) {
        const total = usd(opening[part]) + sum(movements.map((movement) => movement[part]))
        if (total !== usd(closing[part])) wrong(`${part} adds up to ${total}, not ${closing[part]}`)
      }
    const own = lines.filter(({ at }) => new Date(Number(at)).toISOString().startsWith(month))
    const booked = own.reduce((total, { amount }) => total + amount, 0n)
    if (booked !== sum(totals.map(({ balance }) => balance))) wrong(`the journal has ${booked}`)
    const paid = sum(statement.receipts.map(({ credit_usd: credit }) => credit))
    const credited = own.filter(({ paid: is }) => is === 1n).reduce((total, { amount }) => total + amount, 0n)
    if (paid !== credited) wrong(`the receipts come to ${paid}, and ${credited} was credited for payments`)
  }
  return [...faults, ...(await receiptFaults(books, statements))]
}

async function statementsOf(
  { store, account, now }: Books,
  lines: readonly Line[],
): Promise<StatementView[]> {
  const parts = {
    statements: store.statements,
    ledger: store.ledger,
    paymentStore: store.payments,
    now: () => now,
  }
  const holder = { id: account, email: `${account}@example.org` }
  const statements: StatementView[] = []
  const first = new Date(Number(lines[0]?.at ?? now))
  for (let month = first.getUTCMonth(); ; month++) {
    const from = Date.UTC(first.getUTCFullYear(), month)
    if (from > now) return statements
    const name = new Date(from).toISOString().slice(0, 7)
    statements.push(await statementOf(parts, holder, monthNamed(name)!))
  }
}

/** Every receipt of the account is on one statement, with what its rupees come to; every one that is there is a receipt's. */
async function receiptFaults(
  { store, account }: Books,
  statements: readonly StatementView[],
): Promise<string[]> {
  const faults: string[] = []
  const listed = statements.flatMap(({ receipts }) => receipts)
  const topUps = await store.payments.listTopUps(account, 200, null)
  const receipts = topUps.filter(({ receipt }) => receipt !== null).map((topUp) => viewOf(topUp))
  const ids = (of: readonly { readonly receipt: string | null }[]) =>
    of.map(({ receipt }) => receipt).toSorted()
  if (!Bun.deepEquals(ids(listed), ids(receipts)))
    faults.push(`the statements have the receipts ${ids(listed).join()}, not ${ids(receipts).join()}`)
  for (const receipt of receipts) {
    const { credit_usd: credit, amount, rate, lot } = receipt
    const onStatement = listed.find((other) => other.receipt === receipt.receipt)
    if (onStatement?.credit_usd !== credit || onStatement.amount !== amount || onStatement.lot !== lot)
      faults.push(`${receipt.receipt} says ${amount} INR and ${credit}, not what its statement says`)
    const due = (parseMinor(amount, 'INR')! * 10n ** 18n) / (parseRate(rate)! * 100n)
    if (usd(credit) !== due) faults.push(`${receipt.receipt} says ${credit} for ${amount} INR`)
  }
  return faults
}

function linesOf({ store, account, afterTx = 0 }: Books): Line[] {
  using database = new Database(store.path, { readonly: true, safeIntegers: true })
  return database
    .query<Line, [number, string]>(
      `SELECT journal.at, journal.amount, journal.kind = 'grant' AND ifnull(lot.source, '') GLOB 'payment:*' AS paid
       FROM journal LEFT JOIN lot ON lot.id = journal.lot
       WHERE journal.tx > ? AND journal.account GLOB ? ORDER BY journal.tx, journal.leg`,
    )
    .all(afterTx, `wallet:${account}:*`)
}

/** Numbers of receipts that are left out or given twice, year by year. */
export function receiptGaps({ path }: Store): string[] {
  using database = new Database(path, { readonly: true })
  return database
    .query<{ gap: string }, []>(
      `SELECT receipt_year || ' has ' || count(*) || ' receipts up to ' || max(receipt_number) AS gap FROM top_up
       WHERE receipt_number IS NOT NULL GROUP BY receipt_year
       HAVING count(DISTINCT receipt_number) <> count(*) OR max(receipt_number) <> count(*)`,
    )
    .all()
    .map(({ gap }) => gap)
}
