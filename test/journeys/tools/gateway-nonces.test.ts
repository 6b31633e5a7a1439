// Many accounts search at once through one gateway: nobody is given what another's tools have found.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { getAs, postAs } from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

/** `WEIR_TEST_ACCOUNTS=200` is the whole of it. */
const accounts = Number(process.env['WEIR_TEST_ACCOUNTS'] ?? 4)
/** So many that they would hold all of the credit, if one held more than what is needed and its share. */
const callsEach = 100
/** Accounts that search at the same time. */
const atOnce = 20

let weir: ServedWeir

beforeAll(async () => {
  weir = await serveWeir({ config: 'search: { backend: sim }\nlog: { level: error }' })
})

afterAll(() => weir?.stop())

async function keyOf(account: number): Promise<string> {
  const email = `a${account}@example.com`
  await weir.command('accounts', 'create', '--email', email)
  await weir.command('credits', 'grant', '--account', email, '--pool', 'purchased', '--usd', '10')
  const { stdout } = await weir.command('keys', 'create', '--account', email, '--json')
  return (JSON.parse(stdout) as { key: string }).key
}

test(
  `${accounts} accounts of ${callsEach} searches each, all at once: no nonce in a foreign answer, each charged for its own`,
  async () => {
    const keys: string[] = []
    for (let account = 0; account < accounts; account++) keys.push(await keyOf(account))
    const ask = async (key: string, nonce: string, stream: boolean) => {
      const response = await postAs(`${weir.baseUrl}/chat/completions`, key, {
        model: 'sim/tools',
        stream,
        messages: [{ role: 'user', content: `river ${nonce}` }],
        tools: [{ type: 'web_search' }],
      })
      return { nonce, status: response.status, text: await response.text() }
    }
    const answers: Awaited<ReturnType<typeof ask>>[] = []
    for (let first = 0; first < accounts; first += atOnce) {
      const asked = keys
        .slice(first, first + atOnce)
        .flatMap((key, at) =>
          Array.from({ length: callsEach }, (_, call) => ask(key, `n${first + at}x${call}n`, call % 2 === 0)),
        )
      answers.push(...(await Promise.all(asked)))
    }
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    for (const { nonce, text } of answers) expect(new Set(text.match(/n\d+x\d+n/g))).toEqual(new Set([nonce]))
    for (const key of keys) {
      const response = await getAs(`${weir.baseUrl}/credits`, key)
      const { data } = (await response.json()) as { data: { held: string; total_used: string } }
      expect([data.held, Number(data.total_used) > 0]).toEqual(['0', true])
    }
  },
  60_000 + accounts * 5_000,
)
