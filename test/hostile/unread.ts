// What clients cost that ask for 200 kB each and read nothing of it: memory, and nobody's money.

import { z } from 'zod'
import { stall } from './attacks.ts'
import { residentMbOf, startBesieged } from './hostile.ts'

export interface UnreadReport {
  readonly clients: number
  /** Megabytes of the gateway's process before, and by how many it has grown at the most. */
  readonly idleMb: number
  readonly grownMb: number
  /** US dollars that all of them were charged, and what their answers cost. */
  readonly charged: string
  readonly due: string
  /** Whether a call that comes in between is answered. */
  readonly served: boolean
  readonly audit: boolean
}

/** What two thousand of them may take (item 24), megabytes. */
export const mostUnreadMb = 256

/** What the provider says that its answers have cost: 12 tokens at 1, and 16,000 or 4 at 2 dollars per million. */
const stalledMicros = 12 * 1 + 16_000 * 2
const smallMicros = 12 * 1 + 4 * 2
const patienceMs = 90_000

const credits = z.object({ data: z.object({ total_used: z.string(), held: z.string() }) })

/** Lets so many clients stall at a gateway of their own until every one of their answers is charged. */
export async function measureUnread(clients: number): Promise<UnreadReport> {
  const { weir, stop } = await startBesieged()
  const headers = { authorization: `Bearer ${weir.key}`, 'content-type': 'application/json' }
  const creditsNow = async () =>
    credits.parse(await (await fetch(`${weir.baseUrl}/credits`, { headers })).json()).data
  const ask = (model: string, stream: boolean) =>
    fetch(`${weir.baseUrl}/chat/completions`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ model: `lab/${model}`, stream, messages: [{ role: 'user', content: 'Hello' }] }),
    })
  try {
    // What the first call loads is no matter of the clients that follow.
    await (await ask('stalled', true)).text()
    const idleMb = residentMbOf(weir)
    let mostMb = idleMb
    const sample = setInterval(() => (mostMb = Math.max(mostMb, residentMbOf(weir))), 50)
    const sockets = await stall(weir, clients)
    const answered = ask('small', false)
    const due = usdOf((clients + 1) * stalledMicros + smallMicros)
    const end = performance.now() + patienceMs
    let { total_used: charged, held } = await creditsNow()
    while ((charged !== due || held !== '0') && performance.now() < end) {
      await Bun.sleep(200)
      ;({ total_used: charged, held } = await creditsNow())
    }
    const served = (await answered).ok
    clearInterval(sample)
    for (const socket of sockets) socket.destroy()
    const audit = (await weir.command('ledger', 'audit')).code === 0
    return { clients, idleMb, grownMb: mostMb - idleMb, charged, due, served, audit }
  } finally {
    await stop()
  }
}

function usdOf(millionths: number): string {
  return String(millionths / 1_000_000)
}

/** The promises that were broken, with so many megabytes allowed. */
export function unreadFindingsOf(report: UnreadReport, mostMb: number): string[] {
  const { clients, grownMb, charged, due, served, audit } = report
  return [
    ...(grownMb > mostMb ? [`${clients} clients that never read took ${grownMb.toFixed(0)} MB`] : []),
    ...(charged === due ? [] : [`they were charged ${charged} instead of ${due} US dollars`]),
    ...(served ? [] : ['a call among them was not answered']),
    ...(audit ? [] : ['the audit of the ledger finds something']),
  ]
}
