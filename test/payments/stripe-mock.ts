// Sends the requests of the Stripe adapter to Stripe's own mock server, which refuses parameters that its API does not
// have. By hand, with the server in PATH: go install github.com/stripe/stripe-mock@latest

import { StripeCheckout } from '../../src/payments/processors/stripe.ts'
import type { TopUp } from '../../src/payments/top-up.ts'
import { openTopUp as topUp } from './top-up.ts'

const asked: string[] = []
const refused: string[] = []

async function main(): Promise<void> {
  const port = freePort()
  const server = Bun.spawn(['stripe-mock', '-http-port', String(port)], {
    stdout: 'ignore',
    stderr: 'inherit',
  })
  try {
    await listening(port)
    await tryAll(`http://127.0.0.1:${port}/v1`)
  } finally {
    server.kill()
    await server.exited
  }
  console.log(asked.join('\n'))
  console.log(`${asked.length - refused.length} requests taken, ${refused.length} refused`)
  for (const each of refused) console.log(`refused: ${each}`)
  process.exitCode = refused.length > 0 || asked.length < 4 ? 1 : 0
}

async function tryAll(baseUrl: string): Promise<void> {
  const stripe = new StripeCheckout(
    { secretKey: 'sk_test_123', webhookSecrets: [], baseUrl },
    async (url, init) => {
      const response = await fetch(url, init)
      const what = `${init.method} ${new URL(url).pathname}`
      asked.push(`${response.status} ${what}`)
      if (!response.ok) refused.push(`${what}: ${await response.clone().text()}`)
      return response
    },
    Date.now,
  )
  const opened: TopUp = { ...topUp, reference: 'cs_test_1', paymentId: 'pi_1' }
  const page = 'http://localhost:8787/console/credits/top-ups/x'
  // The mock answers with samples of its own, which need not make sense to the adapter: only what it refuses counts.
  await stripe.open(topUp, { origin: 'http://localhost:8787', page }).catch(() => undefined)
  await stripe.look(opened).catch(() => undefined)
  await stripe.refund(opened, 10_000n, 'refund_1').catch(() => undefined)
}

function freePort(): number {
  const probe = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response() })
  const port = probe.port!
  void probe.stop(true)
  return port
}

/** Tries to connect until the server listens, for ten seconds. */
async function listening(port: number): Promise<void> {
  for (const end = Date.now() + 10_000; ; await Bun.sleep(50)) {
    const socket = await Bun.connect({ hostname: '127.0.0.1', port, socket: { data: () => {} } }).catch(
      () => undefined,
    )
    socket?.end()
    if (socket) return
    if (Date.now() > end) throw new Error('stripe-mock does not listen')
  }
}

await main()
