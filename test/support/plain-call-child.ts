// One gateway and at most one call of it, run under coverage by files-of-a-call.test.ts: PLAIN_CALL says which, and
// PLAIN_IDLE_MS how long one without a call stays.

import { expect, test } from 'bun:test'
import { deliver, Payer, settingsFor } from '../journeys/payments/top-ups-lab.ts'
import { FakeRazorpay } from './fake-razorpay.ts'
import { serveWeir } from './serve-weir.ts'

const asked = process.env['PLAIN_CALL']

test(`a gateway that takes ${asked}`, async () => {
  const razorpay = new FakeRazorpay()
  await using weir = await serveWeir({ config: settingsFor(razorpay, 'webhooks: { every_ms: 60000 }') })
  const payer = await Payer.of(weir, 'payer')
  await payer.open()
  const message = razorpay.paid(razorpay.pay([...razorpay.links.keys()][0]!))
  if (asked === 'message') expect((await deliver(weir, message)).status).toBe(200)
  else if (asked === 'whole' || asked === 'stream') {
    const response = await fetch(`${weir.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${weir.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'sim/echo',
        stream: asked === 'stream',
        messages: [{ role: 'user', content: 'Hello' }],
      }),
    })
    expect(response.status).toBe(200)
    await response.text()
  } else {
    // What timers run counts as run without a call: here they come due more often than in the time of any call.
    await Bun.sleep(Number(process.env['PLAIN_IDLE_MS']))
  }
  await razorpay.stop()
}, 60_000)
