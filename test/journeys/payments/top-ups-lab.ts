// A gateway that takes payments from fakes of its processors, and who pays there.

import { expect } from 'bun:test'
import { openReader } from '../../../src/store/sqlite/database/sqlite.ts'
import { runJson } from '../../support/call-gateway.ts'
import type { Delivery, FakeRazorpay } from '../../support/fake-razorpay.ts'
import type { ServedWeir } from '../../support/run-weir.ts'

export type Json = Readonly<Record<string, unknown>>

export const fx = 'fx: { inr_per_usd: "89.015", as_of: 2026-11-20, source: "RBI reference rate" }'

/** The settings of a gateway with this Razorpay. */
export function settingsFor(razorpay: FakeRazorpay, more = ''): string {
  return `local_servers: { discover: false }
payments:
  ${fx}
  razorpay: ${razorpay.settings}
${more}`
}

export interface Answer {
  readonly status: number
  readonly json: Json
  /** Of an error. */
  readonly code: string | undefined
}

/** An account with a session, as its app calls. */
export class Payer {
  readonly weir: Pick<ServedWeir, 'origin' | 'command'>
  readonly token: string
  readonly account: string

  private constructor(weir: Payer['weir'], account: string, token: string) {
    this.weir = weir
    this.account = account
    this.token = token
  }

  static async of(weir: Payer['weir'], name: string): Promise<Payer> {
    const email = `${name}@example.org`
    const { id } = await runJson(weir, 'accounts', 'create', '--email', email)
    const { token } = await runJson(weir, 'accounts', 'session', '--account', email)
    return new Payer(weir, String(id), String(token))
  }

  async send(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const response = await fetch(`${this.weir.origin}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    return answerOf(response)
  }

  /** Opens a top-up, which must succeed. */
  async open(amount = '500', headers: Record<string, string> = {}): Promise<Json> {
    const body = { amount, currency: 'INR', processor: 'razorpay' }
    const { status, json } = await this.send('POST', '/app/v1/top-ups', body, headers)
    expect({ status, error: json['error'] }).toEqual({ status: 201, error: undefined })
    return json
  }

  async topUp(id: unknown): Promise<Json> {
    return (await this.send('GET', `/app/v1/top-ups/${String(id)}`)).json
  }

  /** The purchased credit there is, as a decimal string. */
  async purchased(): Promise<string> {
    const { json } = await this.send('GET', '/app/v1/credits')
    const { pools } = json['data'] as { pools: { type: string; remaining: string }[] }
    return pools.find(({ type }) => type === 'purchased')?.remaining ?? '0'
  }
}

export async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text()
  const json = (text.startsWith('{') ? JSON.parse(text) : {}) as Json
  const error = json['error'] as { code?: string } | undefined
  return { status: response.status, json, code: error?.code }
}

export async function deliver(
  weir: Pick<ServedWeir, 'origin'>,
  { body, headers }: Delivery,
  hook = 'razorpay',
): Promise<Answer> {
  return answerOf(await fetch(`${weir.origin}/hooks/${hook}`, { method: 'POST', headers, body }))
}

/** Every invariant holds, of the whole ledger. */
export async function sound(weir: Pick<ServedWeir, 'command'>): Promise<void> {
  const report = await runJson(weir, 'ledger', 'audit')
  expect((report['checks'] as { ok: boolean }[]).filter(({ ok }) => !ok)).toEqual([])
}

/** What the journal has booked on an account of its own, such as `cash:razorpay`. */
export function booked(weir: Pick<ServedWeir, 'dataDir'>, account: string): bigint {
  const database = openReader(`${weir.dataDir}/weir.db`)
  try {
    const rows = database
      .prepare<{ amount: bigint }, [string]>('SELECT amount FROM journal WHERE account = ?')
      .all(account)
    return rows.reduce((sum, { amount }) => sum + amount, 0n)
  } finally {
    database.close()
  }
}
