// Callers at their worst, in well-formed HTTP: bodies, model ids, credentials, and fields that would steer the gateway.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mintKey } from '../../../src/accounts/account.ts'
import {
  accountWith,
  type Answer,
  creditsOf,
  expectAudited,
  post,
  restingCredits,
  getAs,
  postAs,
} from '../../support/call-gateway.ts'
import { type RunningWeir, startWeir } from '../../support/run-weir.ts'
import {
  completion,
  plain,
  type ScriptedProvider,
  someUsage,
  startScriptedProvider,
} from '../../support/scripted-provider.ts'

let provider: ScriptedProvider
let attacker: ScriptedProvider
let weir: RunningWeir

beforeAll(async () => {
  attacker = await startScriptedProvider({})
  provider = await startScriptedProvider({
    model: async (wire) => {
      await wire.write(plain(200, 'application/json', completion('Here.', someUsage)))
      wire.end()
    },
  })
  weir = await startWeir({
    config: `
local_servers: { discover: false }
providers:
  lab: { protocol: openai-chat, base_url: "${provider.url}", api_key: lab-provider-secret }
models:
  - { id: lab/model, price: { input: "1", output: "2" }, max_output_tokens: 1000 }
`,
  })
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  await provider?.stop()
  await attacker?.stop()
})

const ok = { model: 'sim/echo', messages: [{ role: 'user', content: 'hi' }] }
/** The text of a good body with these fields in it, written as they are; of its own it leaves out what they name. */
const withFields = (fields: string) => {
  const own = Object.entries(ok).filter(([name]) => !fields.startsWith(`"${name}":`))
  return `{${[...own.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`), fields].join(',')}}`
}

function expectError(answer: Answer, status: number, code: string, param?: string | null): void {
  expect({ status: answer.status, code: answer.error?.code }).toEqual({ status, code })
  if (param !== undefined) expect(answer.error?.param).toBe(param)
}

/** The shortest of a few times, in milliseconds: what the gateway takes when the machine lets it. */
async function fastest(ask: () => Promise<Answer>, times = 5): Promise<number> {
  let best = Infinity
  for (let i = 0; i < times; i++) {
    const asked = performance.now()
    await ask()
    best = Math.min(best, performance.now() - asked)
  }
  return best
}

describe('a body (S20)', () => {
  test.each([
    ['a million nested arrays', () => '['.repeat(1_000_000)],
    [
      'a million nested arrays, closed again',
      () => withFields(`"x":${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}`),
    ],
    ['a million nested objects', () => '{"a":'.repeat(1_000_000)],
    ['a million messages', () => `{"model":"sim/echo","messages":[${'[],'.repeat(999_999)}[]]}`],
    ['a million keys', () => `{${'"a":1,'.repeat(1_000_000)}"a":1}`],
  ])('of %s is refused without holding anybody up', async (_, make) => {
    const body = new TextEncoder().encode(make())
    expectError(await post(weir, body), 400, 'invalid_request')
    // Unguarded, parsing and checking these takes from half a second to three; the rest is the way of the bytes.
    expect(await fastest(() => post(weir, body))).toBeLessThan(250)
  })

  test.each([
    ['"max_tokens":-1', 'max_tokens'],
    ['"max_tokens":0', 'max_tokens'],
    ['"max_tokens":1.5', 'max_tokens'],
    ['"max_tokens":"100"', 'max_tokens'],
    ['"max_completion_tokens":-1', 'max_completion_tokens'],
    ['"max_tokens":9007199254740993', 'max_tokens'],
    ['"max_tokens":1e999', null],
    ['"unknown":[1e999]', null],
    ['"temperature":NaN', null],
    ['"temperature":Infinity', null],
    ['"temperature":-0.1', 'temperature'],
    ['"top_p":-1', 'top_p'],
    ['"n":-1', 'n'],
    ['"n":1000000000', 'n'],
    ['"top_logprobs":-1', 'top_logprobs'],
    ['"frequency_penalty":-1e300', 'frequency_penalty'],
    ['"max_cost":"-1"', 'max_cost'],
    ['"max_cost":"0"', 'max_cost'],
    ['"max_cost":"1e9"', 'max_cost'],
    ['"max_cost":"NaN"', 'max_cost'],
    ['"max_cost":0.1', 'max_cost'],
    ['"stop":[[]]', 'stop[0]'],
    ['"stream":"yes"', 'stream'],
    ['"models":[""]', 'models[0]'],
    ['"messages":[]', 'messages'],
    ['"model":{"length":{"toString":null}}', null],
    ['"user":{"length":{"valueOf":1,"toString":1}}', 'user'],
    ['"messages":{"length":1}', 'messages'],
    ['"messages":[null]', 'messages[0]'],
    ['"tools":[null]', 'tools[0]'],
    ['"metadata":{"a":{}}', 'metadata.a'],
  ])('with %s is refused and names the field', async (fields, param) => {
    expectError(await post(weir, withFields(fields)), 400, 'invalid_request', param)
  })

  test('may ask for 10^9 tokens: it is held for what its credit and the model allow', async () => {
    const answer = await post(weir, { ...ok, max_tokens: 1_000_000_000 })
    expect(answer.content).toBe('hi')
    expect((await restingCredits(weir)).held).toBe('0')
  })

  test.each([
    '"__proto__":{"isAdmin":true,"balance":"1000"}',
    '"constructor":{"prototype":{"isAdmin":true}}',
    '"provider":{"__proto__":{"only":["lab"]}}',
    '"metadata":{"\\u005f_proto__":"x"}',
  ])('with %s changes no object and no balance (S19)', async (fields) => {
    const before = await creditsOf(weir)
    expectError(await post(weir, withFields(fields)), 400, 'invalid_request')
    expect(await creditsOf(weir)).toEqual(before)
    expect((await post(weir, ok)).status).toBe(200)
  })

  test('with fields that only an operator sets changes nothing (S9)', async () => {
    const before = await restingCredits(weir)
    const fields = {
      role: 'admin',
      is_admin: true,
      balance: '1000',
      pool: 'purchased',
      account_id: 'x',
      cost: 0,
      usage: { cost: -5 },
    }
    const answer = await post(weir, { ...ok, ...fields })
    expect(answer.status).toBe(200)
    const after = await restingCredits(weir)
    expect(Number(after.total_used)).toBeGreaterThan(Number(before.total_used))
    expect(Number(after.available)).toBeLessThan(Number(before.available))
  })

  test.each([
    ['model', '{"model":"sim/echo","messages":[{"role":"user","content":"hi"}],"model":"lab/model"}'],
    ['messages[0].content', '{"model":"lab/model","messages":[{"role":"user","content":"a","content":"b"}]}'],
    [
      'tools[0].function.parameters.type',
      '{"model":"lab/model","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","\\u0074ype":"array"}}}]}',
    ],
  ])('with the key %s twice is refused: parsers differ about which holds', async (param, text) => {
    const seen = provider.arrivals.length
    expectError(await post(weir, text), 400, 'invalid_request', param)
    expect(provider.arrivals.length).toBe(seen)
  })
})

describe('a model id', () => {
  test.each([
    ['echo', 400, 'invalid_model_id', ['sim/echo']],
    ['/echo', 400, 'invalid_model_id', ['sim/echo']],
    ['sim/', 400, 'invalid_model_id', []],
    ['  ', 400, 'invalid_model_id', []],
    ['sim/echo\r\nX-Evil: 1', 400, 'invalid_model_id', ['sim/echo']],
    ['\u0000/\u0000', 400, 'invalid_model_id', []],
    ['__proto__/x', 400, 'invalid_model_id', []],
    ["sim/echo' OR 1=1--", 400, 'invalid_model_id', ['sim/echo']],
    ['sim/ecko', 404, 'model_not_found', ['sim/echo']],
    ['SIM/ECHO', 404, 'model_not_found', ['sim/echo']],
    ['sim/еcho', 404, 'model_not_found', ['sim/echo']],
    ['sim/../echo', 404, 'model_not_found', ['sim/echo']],
    ['sim/__proto__', 404, 'model_not_found', []],
    ['sim/constructor', 404, 'model_not_found', []],
    ['lab/../../v1/admin', 404, 'model_not_found', undefined],
    ['nobody/nothing-like-it-anywhere', 404, 'model_not_found', undefined],
  ] as const)('%j answers %d %s and names what is near', async (model, status, code, nearest) => {
    const answer = await post(weir, { ...ok, model })
    expectError(answer, status, code, 'model')
    if (nearest !== undefined) expect(answer.error?.metadata['nearest']).toEqual([...nearest])
    expect(answer.headers.get('x-evil')).toBeNull()
  })

  test.each(['null', '1', '[]', '{}', 'true', '""', '["sim/echo"]', JSON.stringify('x'.repeat(600))])(
    'cannot be %.20s',
    async (model) => {
      expectError(await post(weir, `{"model":${model},"messages":[]}`), 400, 'invalid_request', 'model')
    },
  )
})

describe('a credential (S1, S12, S26)', () => {
  const metacharacters = [
    ...`% _ * $(id) {{7*7}} ../../etc/passwd <script> admin"-- )`.split(' '),
    "' OR 1=1--",
    '" OR ""="',
    "'; DROP TABLE api_key;--",
    '\\',
    '${jndi:ldap://x}',
    "1' AND SLEEP(5)--",
    '${{x}}',
    '\u00e9',
    '\tx',
    "')) UNION SELECT 1,2--",
  ]

  test('of 5,000 forms that are none of ours is answered 401, fast, and never asked of the database', async () => {
    const real = weir.key
    const forged = Array.from({ length: 5_000 }, (_, i) => {
      const odd = metacharacters[i % metacharacters.length]!
      const forms = [
        odd.repeat((i % 7) + 1),
        `${real.slice(0, i % real.length)}${odd}`,
        `sk-weir-live-${odd}-${i}`,
        `${real}${odd}`,
      ]
      return `Bearer ${forms[i % forms.length]}`
    })
    const statuses = new Map<number, number>()
    const asked = performance.now()
    for (let at = 0; at < forged.length; at += 100) {
      const answers = await Promise.all(
        forged.slice(at, at + 100).map((authorization) =>
          fetch(`${weir.baseUrl}/key`, { headers: { authorization } }).then(async (response) => {
            expect(await response.text()).not.toContain(real)
            return response.status
          }),
        ),
      )
      for (const status of answers) statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
    expect([...statuses]).toEqual([[401, 5_000]])
    expect(performance.now() - asked).toBeLessThan(30_000)
    expect(weir.output()).not.toMatch(/SQLITE|failed inside/)
  }, 60_000)

  test('in an id or a search is text like any other (S14)', async () => {
    for (const odd of metacharacters) {
      const id = await getAs(`${weir.baseUrl}/generation?id=${encodeURIComponent(odd)}`, weir.key)
      expect(id.status).toBe(404)
      const search = await fetch(`${weir.baseUrl}/models?q=${encodeURIComponent(odd)}`)
      expect(search.status).toBe(200)
    }
    expect((await fetch(`${weir.baseUrl}/models?q=${'%25'.repeat(150)}`)).status).toBe(200)
    expect((await fetch(`${weir.baseUrl}/models?q=${'a'.repeat(10_000)}`)).status).toBe(400)
  })

  test('counts in one header alone: not in another, not in the address, not in a cookie', async () => {
    const key = weir.key
    const elsewhere: [string, Record<string, string>][] = [
      ['', { 'x-api-key': key }],
      ['', { 'api-key': key }],
      ['', { 'x-goog-api-key': key }],
      ['', { cookie: `key=${key}; authorization=Bearer ${key}` }],
      ['', { 'proxy-authorization': `Bearer ${key}` }],
      [`?key=${key}`, {}],
      [`?api_key=${key}&access_token=${key}`, {}],
      ['', { authorization: `Basic ${btoa(`${key}:`)}` }],
      ['', { authorization: key }],
      ['', { authorization: `Token ${key}` }],
      ['', { authorization: `Bearer ${key}, Bearer ${key}` }],
      ['', { authorization: `Bearer ${key} ${key}` }],
    ]
    for (const [query, headers] of elsewhere) {
      const response = await fetch(`${weir.baseUrl}/key${query}`, { headers })
      expect({
        headers: Object.keys(headers),
        query: query.slice(0, 5),
        status: response.status,
      }).toMatchObject({ status: 401 })
      expect(await response.text()).not.toContain(key)
    }
  })

  test('beside another one is refused, beside itself it is one', async () => {
    const twice = await getAs(`${weir.baseUrl}/key`, weir.key, {
      headers: { 'x-api-key': mintKey('live').text },
    })
    expect(twice.status).toBe(400)
    const same = await getAs(`${weir.baseUrl}/key`, weir.key, { headers: { 'x-api-key': weir.key } })
    expect(same.status).toBe(200)
  })

  test('of one account shows nothing of another’s calls: they are as unknown as any (S11)', async () => {
    const { requestId } = await post(weir, ok)
    const { key } = await accountWith(weir, 'stranger@example.org', { purchased: '1' })
    const ask = (id: string) => getAs(`${weir.baseUrl}/generation?id=${id}`, key)
    const [foreign, random] = [await ask(requestId), await ask(`req_${'0'.repeat(32)}`)]
    expect([foreign.status, random.status]).toEqual([404, 404])
    const withoutId = (text: string) => text.replace(/req_[0-9a-f]{32}/g, '')
    expect(withoutId(await foreign.text())).toBe(withoutId(await random.text()))
  })
})

describe('a destination (S2)', () => {
  test('is the operator’s to choose: no field and no header changes it', async () => {
    const evil = `http://127.0.0.1:${attacker.port}/v1`
    const fields = {
      api_base: evil,
      base_url: evil,
      baseURL: evil,
      custom_host: evil,
      api_key: 'mine',
      url: evil,
      endpoint: evil,
      proxy: evil,
    }
    const headers = {
      'x-portkey-custom-host': evil,
      'x-forwarded-host': `127.0.0.1:${attacker.port}`,
      'x-base-url': evil,
      'openai-base-url': evil,
      'x-upstream': evil,
      'openai-organization': 'org-mine',
      forwarded: `host=127.0.0.1:${attacker.port}`,
    }
    const seen = provider.arrivals.length
    for (const stream of [false, true]) {
      const answer = await post(weir, { ...ok, ...fields, model: 'lab/model', stream }, { headers })
      expect(answer.content).toBe('Here.')
    }
    // What is said of the provider is kept or refused, so these are.
    for (const field of ['base_url', 'url']) {
      const refused = await post(weir, { ...ok, model: 'lab/model', provider: { [field]: evil } })
      expect(refused.status).toBe(400)
    }
    expect(attacker.connections).toBe(0)
    for (const arrival of provider.arrivals.slice(seen)) {
      expect(JSON.stringify(arrival.body)).not.toContain(String(attacker.port))
      expect(arrival.path).toBe('/v1/chat/completions')
      expect(arrival.headers.get('authorization')?.trim()).toBe('Bearer lab-provider-secret')
      // Only what the gateway means to say goes on: none of the caller's headers does (S27).
      for (const name of [...Object.keys(headers), 'x-api-key', 'cookie'])
        expect(arrival.headers.get(name)).toBeNull()
    }
  })
})

describe('an address for the provider to fetch (S3)', () => {
  const ask = (path: string, body: object) =>
    postAs(`${weir.baseUrl}${path}`, weir.key, { model: 'lab/model', max_tokens: 5, ...body })
  const chat = (url: string) => ({
    messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
  })

  test('is refused in every place of every protocol, and in the system prompt', async () => {
    const inside = `http://127.0.0.1:${attacker.port}/x.png`
    const picture = { type: 'image', source: { type: 'url', url: inside } }
    const messages = [{ role: 'user', content: 'hi' }]
    const seen = provider.arrivals.length
    const refused: [string, object, string][] = [
      ['/messages', { system: [picture], messages }, 'system[0].source.url'],
      [
        '/messages',
        { messages: [{ role: 'user', content: [picture] }] },
        'messages[0].content[0].source.url',
      ],
      ['/chat/completions', chat(inside), 'messages[0].content[0].image_url.url'],
      ['/chat/completions', chat(`URL:${inside}`), 'messages[0].content[0].image_url.url'],
      [
        '/responses',
        { input: [{ role: 'user', content: [{ type: 'input_image', image_url: inside }] }] },
        'input[0].content[0].image_url',
      ],
    ]
    for (const [path, body, param] of refused) {
      const response = await ask(path, body)
      const text = await response.text()
      expect({ path, status: response.status, text }).toMatchObject({ path, status: 400 })
      expect(text).toContain('gateway')
      if (path !== '/messages') expect(text).toContain(param)
    }
    expect(provider.arrivals.length).toBe(seen)
    expect(attacker.connections).toBe(0)
  })

  test('is never sent on as it was written', async () => {
    const seen = provider.arrivals.length
    const response = await ask('/chat/completions', chat(`http://good.example\\@127.0.0.1:${attacker.port}/`))
    // This provider is in our own network: the gateway resolves the name, and it does not exist.
    expect(response.status).toBe(400)
    expect(provider.arrivals.length).toBe(seen)
    expect(attacker.connections).toBe(0)
  })
})

describe('afterwards', () => {
  test('nothing is held, nothing failed inside, and the books balance', async () => {
    expect(await restingCredits(weir)).toMatchObject({ held: '0', debt: '0' })
    expect(weir.output()).not.toContain('failed inside the gateway')
    await expectAudited(weir)
  })
})
