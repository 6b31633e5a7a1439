// Everything on PostgreSQL: from an empty database to an audited ledger, through the gateway, the commands and the console.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { readdirSync } from 'node:fs'
import {
  creditsOf,
  eventually,
  expectAudited,
  failure,
  postAs,
  keyFor,
  receiptOf,
  restingCredits,
  runJson,
} from '../../support/call-gateway.ts'
import { signedIn } from '../../support/console-client.ts'
import { authority, describeOnPostgres, emptyDatabase } from '../../support/postgres.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { tempDir } from '../../support/tmp.ts'

const owner = 'owner@localhost'

describeOnPostgres('a gateway on PostgreSQL', () => {
  const dir = tempDir('weir-on-postgres-')
  let url: string
  let weir: ServedWeir
  beforeAll(async () => {
    url = (await emptyDatabase('journey')).replace('127.0.0.1', 'localhost')
    weir = await serve()
  }, 60_000)
  afterAll(async () => {
    await weir?.stop()
    dir.remove()
  })

  // The same folder: a second gateway on it would be refused.
  const serve = () => serveWeir({ dataDir: dir.path, config: `store: { url: "${url}", ca: ${authority} }` })
  const clientWith = (apiKey: string) => new OpenAI({ apiKey, baseURL: weir.baseUrl, maxRetries: 0 })
  const say = (content: string) => [{ role: 'user' as const, content }]

  test('makes its tables and its owner, and charges a streamed call exactly', async () => {
    expect(weir.key).toStartWith('sk-')
    const before = await restingCredits(weir)
    const stream = await clientWith(weir.key)
      .chat.completions.create({
        model: 'sim/echo',
        messages: say('The river runs to the sea.'),
        stream: true,
        stream_options: { include_usage: true },
      })
      .withResponse()
    let text = ''
    let cost = 0
    for await (const chunk of stream.data) {
      text += chunk.choices[0]?.delta.content ?? ''
      cost = (chunk.usage as { cost?: number } | null | undefined)?.cost ?? cost
    }
    expect(text).toBe('The river runs to the sea.')
    const after = await restingCredits(weir)
    expect(cost).toBeGreaterThan(0)
    expect(Number(after.total_used) - Number(before.total_used)).toBeCloseTo(cost, 12)
    const receipt = await receiptOf(weir, stream.response.headers.get('x-request-id')!)
    expect(Number(receipt?.total)).toBeCloseTo(cost, 12)
    await expectAudited(weir)
  })

  test('commands work beside it: keys are made, refused again, and usage is counted', async () => {
    const { key, keyId } = await keyFor(weir, owner)
    await clientWith(key).chat.completions.create({ model: 'sim/echo', messages: say('Hello.') })
    await runJson(weir, 'keys', 'revoke', keyId)
    const refused = await failure(
      clientWith(key).chat.completions.create({ model: 'sim/echo', messages: say('No.') }),
    )
    expect(refused).toMatchObject({ status: 401 })
    const usage = await runJson<{ totals: { calls: number } }>(weir, 'usage')
    expect(usage.totals.calls).toBe(2)
    const { ok, findings } = await runJson<{ ok: boolean; findings: { check: string; state: string }[] }>(
      weir,
      'doctor',
    )
    expect(ok).toBe(true)
    const states = Object.fromEntries(findings.map(({ check, state }) => [check, state]))
    expect(states).toMatchObject({
      postgresql: 'ok',
      durability: 'warn',
      standby: 'warn',
      plans: 'ok',
      database: 'ok',
    })
    expect(await runJson(weir, 'status')).toMatchObject({ ok: true, ledger: { audit: { ok: true } } })
  })

  test('the console signs in, shows the calls and proves the ledger', async () => {
    const client = await signedIn(weir, owner)
    expect((await client.session()).account).toMatchObject({ email: owner })
    const logged = await eventually(
      async () => (await client.get('requests')).json['data'] as unknown[],
      ({ length }) => length > 2,
    )
    // With the one that was turned away.
    expect(logged).toHaveLength(3)
    const { key } = await keyFor(weir, owner, '--management')
    const audit = await postAs(`${weir.origin}/admin/v1/audit`, key, {})
    expect(await audit.json()).toMatchObject({ data: { ok: true } })
  })

  test('what it knew is there after a restart, and nothing of it lies in the folder', async () => {
    const { key } = weir
    const before = await creditsOf(weir)
    await weir.stop()
    weir = await serve()
    expect(weir.key).toBe('')
    expect(await creditsOf(weir, key)).toEqual(before)
    await expectAudited(weir)
    expect(readdirSync(dir.path)).not.toContain('weir.db')
  })
})
