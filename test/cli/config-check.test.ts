// `weir config check` names what would trip people up later, and `serve` warns of the same.

import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { eventually } from '../support/call-gateway.ts'
import { startWeir } from '../support/run-weir.ts'
import { tempDir } from '../support/tmp.ts'
import { run } from './run.ts'

const config = `
server: { public_url: "https://models.example/v1/" }
local_servers: { discover: false }
payments:
  fx: { inr_per_usd: "89.015", as_of: 2026-11-20 }
  razorpay: { key_id: rzp_live_abcdefgh, key_secret: abcdefghijkl }
  stripe: { secret_key: sk_test_abcdefgh }
providers:
  lab: { protocol: openai-chat, base_url: "http://127.0.0.1:9/v1/chat/completions", api_key: k }
  claude: { protocol: anthropic-messages, base_url: "http://127.0.0.1:9/v1/messages/", api_key: k }
  fine: { protocol: openai-chat, base_url: "http://127.0.0.1:9/chat/v1", api_key: k }
models:
  - { id: lab/unpriced }
  - { id: lab/priced, price: { input: "1", output: "2" } }
  - { id: nobody/m, price: free }
  - { id: lab/priced, context_length: 10 }
  - { id: ollama/mine }
`

const expected = [
  [/server\.public_url/, /ends in \/v1/],
  [/payments\.razorpay\.webhook_secret/, /refunds and disputes take no credit back/],
  [/providers\.lab\.base_url/, /ends in \/chat\/completions/],
  [/providers\.claude\.base_url/, /ends in \/messages/],
  [/models\[3\]\.id/, /lab\/priced is declared twice: it overrides models\[1\]/],
  [/models: lab\/unpriced/, /it has no price/],
  [/models: nobody\/m/, /no provider named nobody/],
] as const

test('config check names each, and nothing else', async () => {
  using dir = tempDir()
  writeFileSync(dir.join('weir.yaml'), config)
  const { code, err } = await run({ cwd: dir.path }, 'config', 'check')
  const lines = err.trim().split('\n')
  expect({ code, lines: lines.length }).toEqual({ code: 0, lines: expected.length })
  for (const [name, problem] of expected) {
    const line = lines.find((each) => name.test(each))
    expect(line).toMatch(problem)
  }
})

test('serve warns of the same', async () => {
  await using weir = await startWeir({ config })
  const texts = expected.flat()
  // The log is written a few milliseconds after what it tells of.
  await eventually(
    async () => texts.every((text) => text.test(weir.output())),
    (isPrinted) => isPrinted,
  )
  for (const text of texts) expect(weir.output()).toMatch(text)
}, 30_000)
