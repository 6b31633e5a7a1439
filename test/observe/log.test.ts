// The log: what a line looks like, what is written at all, and S29: no secret in it, wherever it comes from.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { createLog, createRedactor, type Log, type LogSettings } from '../../src/observe/log.ts'
import { settings } from '../../src/config/config.ts'
import { rows } from '../../src/errors/error-table.ts'
import { protocolIds } from '../../src/protocols/protocol.ts'
import { providers } from '../../src/providers/registry.ts'
import { keysByForm, promptFields, secretFields } from './canaries.ts'

interface Written {
  readonly log: Log
  text(): string
  lines(): Record<string, unknown>[]
}

function logTo(
  settings: Partial<LogSettings> = {},
  secrets: readonly string[] = [],
  waiting = { bytes: 0 },
): Written {
  let written = ''
  const sink = {
    terminal: false,
    write: (line: () => string) => void (written += line()),
    waiting: () => waiting.bytes,
  }
  const log = createLog(
    { level: 'debug', format: 'json', prompts: false, ...settings },
    { sink, clock: () => Date.UTC(2026, 0, 2), secrets },
  )
  return {
    log,
    text: () => written,
    lines: () =>
      written
        .trimEnd()
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line)),
  }
}

describe('a line', () => {
  test('is made when it is written, with the time of its event', () => {
    const waiting: (() => string)[] = []
    const sink = { terminal: false, write: (line: () => string) => void waiting.push(line), waiting: () => 0 }
    let now = Date.UTC(2026, 0, 2)
    let read = 0
    const settings = { level: 'info', format: 'json', prompts: false } as const
    createLog(settings, { sink, clock: () => now, secrets: [] }).info('call', {
      get ms() {
        return ++read
      },
    })
    expect(read).toBe(0)
    now += 5_000
    expect(waiting.map((line) => JSON.parse(line()))).toMatchObject([
      { '@timestamp': '2026-01-02T00:00:00.000Z', fields: { ms: 1 } },
    ])
  })

  test('is one JSON object with time, level, message and fields', () => {
    const { log, lines } = logTo()
    log.warn('provider is slow', {
      provider: 'openai',
      ms: 1200,
      retried: false,
      usage: { input: 5, output: 7 },
    })
    expect(lines()).toEqual([
      {
        '@timestamp': '2026-01-02T00:00:00.000Z',
        level: 'WARN',
        message: 'provider is slow',
        logger: 'weir',
        fields: { provider: 'openai', ms: 1200, retried: false, usage: { input: 5, output: 7 } },
      },
    ])
  })

  test('stays one line and one object, whatever it is given', () => {
    const { log, lines } = logTo()
    const circle: Record<string, unknown> = {
      big: 10n ** 20n,
      nan: Number.NaN,
      when: new Date(0),
      none: undefined,
    }
    circle['self'] = circle
    circle['thrower'] = Object.defineProperty({}, 'x', { enumerable: true, get: () => null })
    log.info('line\nbreak {not_a_placeholder}', { circle, bytes: new Uint8Array(3), run: () => 1 })
    expect(lines()).toMatchObject([
      {
        message: 'line\nbreak {not_a_placeholder}',
        fields: {
          circle: {
            big: '100000000000000000000',
            nan: 'NaN',
            when: '1970-01-01T00:00:00.000Z',
            self: '[circular]',
          },
          bytes: '[3 bytes]',
          run: '[function]',
        },
      },
    ])
  })

  test('survives a field that cannot be read', () => {
    const { log, lines } = logTo()
    const broken = {
      get secret() {
        throw new Error('no')
      },
    }
    log.error('it broke', { broken })
    expect(lines()).toMatchObject([{ message: 'it broke', fields: { fields: '[unreadable]' } }])
  })

  test('has the bytes of the JSON of its fields without secrets', () => {
    const secret = 'sk-live-0123456789abcdef'
    const text = fc.oneof(
      fc.string(),
      fc.string({ unit: 'binary' }),
      fc.constantFrom(
        secret,
        `at ${secret}`,
        'req_0123456789abcdef01',
        'openai',
        'a\u009bb\u2028"',
        'x'.repeat(9_000),
      ),
    )
    const leaf = fc.oneof(
      text,
      fc.double(),
      fc.boolean(),
      fc.bigInt(),
      fc.constantFrom(null, undefined, Symbol.iterator),
    )
    const value = fc.oneof(leaf, fc.array(leaf, { maxLength: 3 }), fc.dictionary(text, leaf, { maxKeys: 3 }))
    const name = fc.oneof(
      fc.string(),
      fc.constantFrom(
        'model',
        'api_key',
        'prompt',
        '__proto__',
        secret,
        `${secret}!`,
        '7',
        'a\u0085',
        'toJSON',
      ),
    )
    const fields = fc.oneof(
      fc.dictionary(name, value),
      fc.dictionary(name, leaf, { minKeys: 70, maxKeys: 80 }),
    )
    const redactor = createRedactor({ secrets: [secret], prompts: false })
    const shown = (of: unknown) =>
      // oxlint-disable-next-line no-control-regex -- these are what a terminal must not get
      JSON.stringify(of).replace(/[\u007f-\u009f]/g, (at) => `\\u00${at.charCodeAt(0).toString(16)}`)
    fc.assert(
      fc.property(text, fields, (message, given) => {
        const { log, text: line } = logTo({}, [secret])
        for (let times = 0; times < 2; times++) log.info(message, given)
        const expected = `{"@timestamp":"2026-01-02T00:00:00.000Z","level":"INFO","message":${shown(redactor.text(message))},"logger":"weir","fields":${shown(redactor.value(given))}}\n`
        expect(line()).toBe(expected.repeat(2))
      }),
      { numRuns: 300 },
    )
  })

  test('is bounded in size and depth', () => {
    const { log, text } = logTo()
    const deep = Array.from({ length: 100 }).reduce<unknown>((inner) => ({ inner }), 'x')
    log.info('large', {
      long: 'a'.repeat(1_000_000),
      wide: Array.from({ length: 100_000 }, (_, at) => at),
      deep,
    })
    expect(text().length).toBeLessThan(16_000)
  })

  test('of an error tells its name, message, cause and stack', () => {
    const { log, lines } = logTo()
    const error = new TypeError('bad thing', { cause: new Error('root') })
    log.error('failed', { error })
    expect(lines()).toMatchObject([
      {
        fields: {
          error: {
            name: 'TypeError',
            message: 'bad thing',
            cause: { message: 'root' },
            stack: expect.stringContaining('log.test'),
          },
        },
      },
    ])
  })

  test.each(['json', 'pretty'] as const)('in %s form does not command a terminal', (format) => {
    const { log, text } = logTo({ format })
    const error = new Error('said \u001b]0;mine\u0007')
    log.warn('call', { model: 'x/\u001b[31m\u009b31m\u007f', error })
    expect(text()).toContain('x/\\u001b[31m\\u009b31m\\u007f')
    expect(text().includes('\u001b]') || text().includes('\u009b') || text().includes('\u007f')).toBe(false)
  })

  test('in pretty form is readable text', () => {
    const { log, text } = logTo({ format: 'pretty' })
    log.info('listening', { port: 8787 })
    expect(Bun.stripANSI(text())).toBe('00:00:00.000 INFO listening  port=8787\n')
  })
})

test.each([
  ['debug', ['debug', 'info', 'warn', 'error']],
  ['info', ['info', 'warn', 'error']],
  ['warn', ['warn', 'error']],
  ['error', ['error']],
] as const)('at level %s the lines %p are written', (level, expected) => {
  const { log, lines } = logTo({ level })
  for (const at of ['debug', 'info', 'warn', 'error'] as const) log[at](at)
  expect(lines().map(({ message }) => message)).toEqual([...expected])
})

test('a reader that has stopped reading costs lines, and is told how many', () => {
  const waiting = { bytes: 0 }
  const { log, lines } = logTo({}, [], waiting)
  waiting.bytes = 64 * 1024 * 1024
  for (let n = 0; n < 3; n++) log.info('lost')
  expect(lines()).toEqual([])
  waiting.bytes = 0
  log.info('back')
  expect(lines()).toMatchObject([{ level: 'WARN', fields: { lines: 3 } }, { message: 'back' }])
})

describe('S29: secrets do not reach the log', () => {
  test('there are at least fifty canaries', () => {
    expect(keysByForm.length + Object.keys(secretFields).length).toBeGreaterThanOrEqual(50)
  })

  /** Every way something can get into a line. */
  function everywhere(log: Log, secret: string): void {
    const error = new Error(`refused: ${secret}`, { cause: new Error(`because of ${secret}`) })
    Object.assign(error, { response: { detail: `got ${secret}` } })
    log.debug(`calling with ${secret}`)
    log.info('called', {
      url: `https://host/v1?key=${secret}&x=1`,
      note: `"${secret}"`,
      nested: [{ deep: [secret] }],
    })
    log.warn('failed', {
      error,
      list: new Set([secret]),
      map: new Map([['a', secret]]),
      headers: new Headers({ 'x-other': secret.replaceAll('\n', '') }),
    })
    log.error(String(error.stack), {
      [secret]: 'as a name',
      text: `a\t${secret}\n`,
      json: JSON.stringify({ a: secret }),
    })
    log.error('long', { padded: `${'x '.repeat(4_080)}${secret}` })
  }

  test.each(['json', 'pretty'] as const)('by their form, in %s', (format) => {
    const leaked = keysByForm.filter((secret) => {
      const { log, text } = logTo({ format, prompts: true })
      everywhere(log, secret)
      // A private key is many lines: none of them may be there.
      return secret
        .split(/[\n ]/)
        .filter((part) => part.length > 15)
        .some((part) => text().includes(part))
    })
    expect(leaked).toEqual([])
  })

  test('because they are known, whatever they look like', () => {
    const secrets = ['tulip mania 1637', 'pässwörd+(x)[y]', 'abc"def\\ghi']
    const { log, text } = logTo({ prompts: true }, secrets)
    for (const secret of secrets) log.error(`with ${secret}`, { detail: [secret], error: new Error(secret) })
    for (const secret of secrets) expect(text()).not.toContain(JSON.stringify(secret).slice(1, -1))
    expect(text()).toContain('[redacted]')
  })

  test.each(Object.entries(secretFields))('in the field %s', (name, value) => {
    const { log, text } = logTo({ prompts: true })
    log.info('flat', { [name]: value })
    log.info('nested', { request: { headers: { [name.toUpperCase()]: value } } })
    log.info('map', { headers: new Headers({ [name]: value }), map: new Map([[name, value]]) })
    log.error('thrown', { error: Object.assign(new Error('x'), { [name]: value }) })
    log.info('list', { [name]: [value] })
    log.warn(`said ${name}: ${value.replaceAll(' ', '')}`)
    log.warn(`sent {"${name}":"${value.replaceAll(' ', '')}"}`)
    expect(text()).not.toContain('canary')
  })

  test('however many texts without one were logged before', () => {
    const secret = 'a-secret-of-this-process-0123456789'
    const { log, text } = logTo({}, [secret])
    for (let n = 0; n < 2_500; n++) log.info('call', { model: `lab/model-${n}`, note: `${secret} ${n % 7}` })
    expect(text()).not.toContain(secret)
    expect(text().match(/\[redacted\]/g)).toHaveLength(2_500)
  })

  test('credentials in an address', () => {
    const { log, text } = logTo()
    log.info('to https://user:plain-canary@host/path', { url: new URL('http://plain-canary:pw@host/') })
    expect(text()).not.toContain('plain-canary')
    expect(text()).toContain('host/path')
  })

  test('the words of requests and answers, unless that was asked for', () => {
    const silent = logTo()
    for (const [name, value] of Object.entries(promptFields))
      silent.log.debug('request', { request: { [name]: value } })
    expect(silent.text()).not.toContain('spoken-canary')
    const open = logTo({ prompts: true })
    open.log.debug('request', promptFields)
    expect(open.text()).toContain('spoken-canary-1')
  })

  test('the settings that are secret, by their names, and no others', () => {
    // These hold more than a secret: what is secret in them is known by its value, or by its form.
    const others = ['mail.smtp_url', 'store.url', 'providers.*.headers', 'providers.*.deployments', 'hooks']
    const wrong = settings().filter(({ path, secret }) => {
      const { log, lines } = logTo({ prompts: true })
      const name = path.at(-1)!
      log.info('set', { [name]: 'plain words' })
      const isHidden = Object(lines()[0]?.['fields'])[name] === '[redacted]'
      return isHidden !== secret && !others.includes(path.join('.'))
    })
    expect(wrong.map(({ path }) => path.join('.'))).toEqual([])
  })

  test('the names of settings, errors, providers and models stay', () => {
    const names = [
      ...settings().flatMap(({ path, env }) => [path.join('.'), env]),
      ...Object.keys(rows),
      ...protocolIds,
      ...providers.map(({ id }) => id),
      'voyage/voyage-multimodal-3',
      'voyage/voyage-3-large-instruct',
      'jina/jina-embeddings-v3',
      'hf/hf-internal-testing-tiny',
      'The key_limit_exceeded.',
    ]
    const { log, lines } = logTo()
    for (const name of names) log.info(name, { name, [`about ${name}`]: 1 })
    const shown = lines().map(({ message, fields }) => [
      message,
      ...Object.keys(Object(fields)),
      Object(fields).name,
    ])
    expect(shown).toEqual(names.map((name) => [name, 'name', `about ${name}`, name]))
  })

  test('what is no secret stays: counts, ids, reasons', () => {
    const { log, lines } = logTo()
    const fields = {
      request_id: 'req_0123456789abcdef',
      model: 'openai/gpt-5-mini',
      max_tokens: 100,
      tokens: { input: 1, output: 2 },
      key: 'aB3dE5gH7jK9',
      idempotency_key: 'order-17',
      path: '/v1/chat/completions?stream=true',
      reason: 'the key has expired',
    }
    log.info('request finished', fields)
    expect(lines()[0]?.['fields']).toEqual(fields)
  })
})

test('S34: redaction is linear in what it reads', () => {
  const attacks = [
    'key=',
    'a:',
    '-',
    '"x":',
    'Bearer ',
    'sk-',
    'eyJ.',
    'cookie=a; b=',
    '-----BEGIN PRIVATE KEY-----',
    'http://a:',
  ]
  const { log } = logTo()
  const slowest = attacks.map((attack) => {
    const text = attack.repeat(Math.ceil(100_000 / attack.length))
    const start = performance.now()
    log.info(text, { text, many: Array.from({ length: 4 }, () => text) })
    return performance.now() - start
  })
  // Five texts of a line, each cut to its bound: well below the 10 ms that one may take.
  expect(Math.max(...slowest)).toBeLessThan(50)
})
