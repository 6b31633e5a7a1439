// A bad configuration names everything that is wrong with it, once, with the place and what was meant.

import { describe, expect, test } from 'bun:test'
import { renderFaults } from '../../src/config/config.ts'
import { faultsOf, load } from './inputs.ts'

describe('faults', () => {
  test('of all sources are told at once, with their places', () => {
    const yaml = `serve: 1
server: { prot: 1, host: 5 }
providers:
  opnai: { api_key: changeme }
  lab:
    protocol: openai
    base_url: ftp://lab/v1
models:
  - id: nameless
search: { backend: tavily }
`
    const result = load({
      yaml,
      env: { WEIR_LOG_LEVEL: 'loud', WEIR_SERVER_WORKERS: '2' },
      flags: { 'server.port': 'many' },
    })
    if (result.kind === 'loaded') throw new Error('it was taken for good')
    expect(renderFaults(result.faults).split('\n')).toEqual([
      '  WEIR_SERVER_WORKERS: server.workers: unknown key: several processes are server.processes now, with store.url',
      '  --port: server.port: must be a number, not "many"',
      '  WEIR_LOG_LEVEL: log.level: must be one of debug, info, warn, error, not "loud"',
      '  weir.yaml:1: serve: unknown key; did you mean server?',
      '  weir.yaml:2: server.host: must be text, not 5',
      '  weir.yaml:2: server.prot: unknown key; did you mean server.port?',
      '  weir.yaml:4: providers.opnai.api_key: is a placeholder, not a secret: put the real one in, or leave it out',
      '  weir.yaml:4: providers.opnai: is not a known provider, so it needs protocol and base_url; did you mean openai?',
      expect.stringMatching(
        /^ {2}weir\.yaml:6: providers\.lab\.protocol: must be one of openai-chat, .*, not "openai"$/,
      ),
      '  weir.yaml:7: providers.lab.base_url: must begin with http:// or https://, not "ftp://lab/v1"',
      '  weir.yaml:9: models[0].id: a model id has the form provider/model_name, not "nameless"',
      '  weir.yaml:10: search.api_key: is missing: tavily needs one',
    ])
  })

  test.each([
    // written                                               fault
    ['port: 5', 'port: unknown key [server.port]'],
    ['servr: { port: 5 }', 'servr: unknown key [server]'],
    ['timeouts: { gap: 5 }', 'timeouts.gap: unknown key [timeouts.gap_ms]'],
    ['timeouts: { conect_ms: 5 }', 'timeouts.conect_ms: unknown key [timeouts.connect_ms]'],
    ['zebra: 5', 'zebra: unknown key'],
    ['providers: { openai: { key: a } }', 'providers.openai.key: unknown key'],
    [
      'providers: { openai: { apikey: a } }',
      'providers.openai.apikey: unknown key [providers.openai.api_key]',
    ],
    ['models: [{ id: a/b, premum: true }]', 'models[0].premum: unknown key [models[0].premium]'],
    ['server: { port: 70000 }', 'server.port: must be at most 65535, not 70000'],
    ['server: { port: 1.5 }', 'server.port: must be a whole number, not 1.5'],
    ['server: 5', 'server: must be a mapping, not 5'],
    ['server: { processes: 0 }', 'server.processes: must be at least 1, not 0'],
    [
      'server: { workers: 2 }',
      'server.workers: unknown key: several processes are server.processes now, with store.url',
    ],
    ['secrets: { master_key: 5 }', 'secrets.master_key: must be text, or a list of it'],
    ['providers: { openai: { api_key: 5 } }', 'providers.openai.api_key: must be text, or a list of it'],
    ['models: { a: 1 }', 'models: must be a list, not {"a":1}'],
    [
      'masks: [{ find: emails }]',
      'masks[0].find: must be one of email, card, phone, aadhaar, pan, iban, key, or have an expression, not "emails"',
    ],
    [
      "masks: [{ find: own, expression: 'a$' }]",
      'masks[0].expression: has a $: a text may come in pieces, and has no beginning or end, not "a$"',
    ],
    ['masks: [{ find: email, on: [] }]', 'masks[0].on: must be at least 1 items, not []'],
    [
      'hooks: [{ url: https://a.b/c, secret: short }]',
      'hooks[0].secret: must be whsec_ and base64 of at least 16 bytes, or 16 characters of text',
    ],
    ['hooks: [{ url: https://a.b/c }]', 'hooks[0].secret: is missing; must be text'],
    ['subscriptions: { secret: whsec_ }', 'subscriptions.secret: must have a key in base64 behind whsec_'],
    [
      'payments: { fx: { inr_per_usd: "89" }, stripe: { secret_key: pk_live_a } }',
      'payments.stripe.secret_key: is the publishable key: the secret one begins with sk_ or rk_',
    ],
    [
      'payments: { currencies: { eur: { per_usd: "1", min: "5", max: "9" } } }',
      'payments.currencies.eur: is no currency in ISO 4217, in capitals, that processors count in the same way, not {"per_usd":"1","min":"5","max":"9"}',
    ],
    [
      'payments: { currencies: { JPY: { per_usd: "150", min: "5.5", max: "9" } } }',
      'payments.currencies.JPY.min: has more than the 0 decimals that JPY is paid in, not "5.5"',
    ],
    [
      'payments: { currencies: { INR: { per_usd: "89", min: "5", max: "9" } } }',
      'payments.currencies.INR: is set by payments.fx, min_inr and max_inr, not {"per_usd":"89","min":"5","max":"9"}',
    ],
    [
      'payments: { plans: { pro: { title: Pro, credit_usd: "5", prices: { JPY: "9.5" } } } }',
      'payments.plans.pro.prices.JPY: has more than the 0 decimals that JPY is paid in, not "9.5"',
    ],
    [
      'bootstrap: { credit_usd: "1000001" }',
      'bootstrap.credit_usd: must be at most "1000000", which is the largest grant, not "1000001"',
    ],
    [
      'subscriptions: { products: { a: { credit_usd: "0", months: 1 } } }',
      'subscriptions.products.a.credit_usd: must be above "0", not "0"',
    ],
    ...['http://0.0.0.0', '0.0.0.0:8787', '127.0.0.1 '].map((host): [string, string] => [
      `server: { host: "${host}" }`,
      `server.host: must be an address or a name to listen on, without a scheme and a port, not "${host}"`,
    ]),
    [
      'secrets: { master_key: short }',
      'secrets.master_key: must be at least 32 random characters, as from `openssl rand -base64 32`',
    ],
    ['providers: { openai: { api_key: "" } }', 'providers.openai.api_key: must be at least 1 characters'],
    [
      'models: [{ id: a/b, price: Free }]',
      'models[0].price: give at least input and output as strings of USD per million tokens, or the word free, not "Free"',
    ],
    ['log: { level: trace }', 'log.level: must be one of debug, info, warn, error, not "trace"'],
    ['log: { prompts: maybe }', 'log.prompts: must be true or false, not "maybe"'],
    ['bootstrap: { credit_usd: 5 }', 'bootstrap.credit_usd: must be written as a string, "0.10", not 5'],
    [
      'providers: { openai: { base_url: nowhere } }',
      'providers.openai.base_url: must be a full address such as https://host/v1, not "nowhere"',
    ],
    [
      'providers: { openai: { base_url: "http://a/v1?x=1" } }',
      'providers.openai.base_url: must not have a query or a fragment, not "http://a/v1?x=****"',
    ],
    [
      'providers: { openai: { base_url: "https://me:hunter2@host/v1" } }',
      'providers.openai.base_url: must not hold credentials: use api_key or headers, not "https://****@host/v1"',
    ],
    [
      'providers: { openai: { base_url: "https://me:hunt/er@2@host/v1" } }',
      'providers.openai.base_url: must be a full address such as https://host/v1, not "https://****@host/v1"',
    ],
    [
      'providers: { openai: { base_url: "me:hunter2@host/v1" } }',
      'providers.openai.base_url: must begin with http:// or https://, not "****@host/v1"',
    ],
    [
      'providers: { openai: { base_url: "https://host/v1?key=hunter2&b=hunter3#hunter4" } }',
      'providers.openai.base_url: must not have a query or a fragment, not "https://host/v1?key=****&b=****#****"',
    ],
    ['providers: { openai: sk-proj-hunter2hunter2hunter2 }', 'providers.openai: must be a mapping'],
    [
      'providers: { azure: { api_key: abcdefgh } }',
      'providers.azure: has no address of its own, so it needs base_url',
    ],
    [
      'providers: { azure: { deployments: [{ base_url: "https://a.example/v1" }, { api_key: abcdefgh }] } }',
      'providers.azure: has no address of its own, so it needs base_url',
    ],
    [
      'providers: { openai: { deployments: [{ base_url: "http://localhost:8787/v1" }] } }',
      'providers.openai.deployments[0].base_url: is the address of this gateway: it would call itself',
    ],
    [
      'providers: { openai: { deployments: [{ api_key: changeme }] } }',
      'providers.openai.deployments[0].api_key: is a placeholder, not a secret: put the real one in, or leave it out',
    ],
    [
      'providers: { openai: { deployments: [{ weight: hunter2 }] } }',
      'providers.openai.deployments[0].weight: must be a number',
    ],
    [
      'providers: { ollama: { base_url: "http://localhost:8787/v1" } }',
      'providers.ollama.base_url: is the address of this gateway: it would call itself',
    ],
    [
      'store: { url: "http://weir:hunter2@db.example/weir" }',
      'store.url: must be an address such as postgres://weir@db.example.org:5432/weir',
    ],
    [
      'store: { url: "postgres://weir:hunter2@db.example" }',
      'store.url: must name the database: postgres://weir@db.example.org:5432/weir',
    ],
    [
      'store: { url: "postgres://db.example/weir" }',
      'store.url: must name the user: postgres://weir@db.example.org:5432/weir',
    ],
    [
      'store: { url: "postgres://weir@db.example/weir?password=hunter2" }',
      'store.url: has password, which is not known here: sslmode and application_name are, and store.password and store.ca are settings',
    ],
    [
      'store: { url: "postgres://weir@db.example/weir?sslmode=prefer" }',
      'store.url: has an sslmode that is not one of disable, require, verify-ca, verify-full',
    ],
    [
      'store: { url: "postgres://weir@db.example/weir?sslmode=require" }',
      'store.url: has sslmode=require, which believes any certificate: leave it out to have the certificate verified, and name its authority in store.ca',
    ],
    [
      'store: { url: "postgres://weir:hunter2@db.example/weir", password: hunter3 }',
      'store.password: is one too many: store.url has one',
    ],
    ['store: { ca: /etc/ca.pem }', 'store.ca: says nothing without store.url'],
    [
      'server: { processes: 2 }',
      'server.processes: must be 1 without store.url, as one process alone writes a database of SQLite: leave it at 1, or move to PostgreSQL (weir ledger move)',
    ],
    [
      'ledger: { lease_ms: 4000 }',
      'ledger.lease_ms: must be at least three times stream.checkpoint_ms (6000)',
    ],
    [
      'server: { host: 0.0.0.0 }\naccounts: { sign_up: open }',
      'accounts.sign_up: is open, and nothing proves an address: set mail.smtp_url or accounts.oidc, or say accounts.unverified: allow, which gives free credit to whoever asks',
    ],
    [
      'accounts: { oidc: { issuer: "https://id.example" } }',
      'accounts.oidc.client_id: is missing: the issuer knows this gateway by it',
    ],
    [
      'accounts: { oidc: { issuer: "http://id.example", client_id: weir } }',
      'accounts.oidc.issuer: must begin with https://, but for one on this machine',
    ],
    ['mail: { smtp_url: "smtp://mail.example" }', 'mail.from: is missing: mails need a sender'],
    [
      'server: { trusted_proxies: [everybody] }',
      'server.trusted_proxies[0]: must be a whole address or a range such as 10.0.0.0/8 or 2001:db8::/32, not "everybody"',
    ],
    ...['10/8', '10.0.0/8', '10', '010.0.0.1', '0x0a.0.0.1', '10.0.0.0/33', '::1/129', '10.0.0.0/-1'].map(
      (range): [string, string] => [
        `server: { trusted_proxies: ["::1", "${range}"] }`,
        `server.trusted_proxies[1]: must be a whole address or a range such as 10.0.0.0/8 or 2001:db8::/32, not "${range}"`,
      ],
    ),
    ['search: { backend: searxng }', 'search.base_url: is missing: searxng has no public address'],
    [
      'egress: { allow_hosts: ["http://a"] }',
      'egress.allow_hosts[0]: must be host, host:port or gs://bucket, not "http://a"',
    ],
    [
      'test: { failpoint: "hold-decidid:17" }',
      'test.failpoint: must be a known point and a count, such as hold-decided:17, not "hold-decidid:17"',
    ],
    [
      'test: { failpoint: "hold-decided" }',
      'test.failpoint: must be a known point and a count, such as hold-decided:17, not "hold-decided"',
    ],
    [
      'test: { failpoint: "hold-decided:0" }',
      'test.failpoint: must be a known point and a count, such as hold-decided:17, not "hold-decided:0"',
    ],
    [
      'test: { failpoint: "constructor:1" }',
      'test.failpoint: must be a known point and a count, such as hold-decided:17, not "constructor:1"',
    ],
    ['[1, 2]', 'weir.yaml: must be a mapping of settings'],
    ['server: { port: 1 }\nserver: { port: 2 }', 'weir.yaml: is not YAML: Map keys must be unique'],
    ['__proto__: { polluted: true }', '__proto__: unknown key'],
    ['server: { __proto__: { port: 1 } }', 'server.__proto__: unknown key'],
  ])('%s', (yaml, fault) => {
    expect(faultsOf({ yaml })).toEqual([fault])
  })

  test('a file that is not YAML says so with its line', () => {
    const result = load({ yaml: 'server:\n  port: [1\nlog: "' })
    expect(result).toMatchObject({ kind: 'faulty' })
    if (result.kind === 'faulty')
      expect(renderFaults(result.faults)).toMatch(/weir\.yaml:\d: weir\.yaml: is not YAML/)
  })

  test('nothing in a configuration reaches the prototype of all objects', () => {
    load({ yaml: '__proto__: { polluted: true }\nproviders: { __proto__: { polluted: true } }' })
    load({ env: { WEIR_PROVIDERS___PROTO___NAME: 'polluted' } })
    expect(Reflect.get({}, 'polluted')).toBeUndefined()
    expect(Reflect.get({}, 'name')).toBeUndefined()
  })
})

describe('S16: secrets that are none', () => {
  const keyOf = (text: string) => `providers: { openai: { api_key: "${text}" } }`
  test.each([
    'changeme',
    'CHANGE-ME',
    'sk-...',
    'sk-xxxxxxxx',
    '<your key>',
    'your-api-key',
    'insert-key-here',
    'xxx',
    'sk-your-key-here',
    '…',
  ])('the placeholder %s is refused, without being repeated', (text) => {
    const faults = faultsOf({ yaml: keyOf(text) })
    expect(faults).toHaveLength(1)
    expect(faults[0]).toMatch(/^providers\.openai\.api_key: (is a placeholder|holds a space)/)
    expect(faults[0]).not.toContain(text)
  })

  test.each(['secret', 'sk-proj-Ab3xxxYz', 'my-lab-key', 'EMPTY', 'token-abc123'])('%s is a key', (text) => {
    expect(faultsOf({ yaml: keyOf(text) })).toEqual([])
  })

  test('a bad value of a secret is not repeated', () => {
    const faults = faultsOf({
      yaml: 'search: { api_key: [tell-nobody-1] }\nproviders: { openai: { api_key: { a: tell-nobody-2 }, headers: { "x y": tell-nobody-3 } } }',
    })
    expect(faults).toHaveLength(3)
    expect(faults.join('\n')).not.toContain('tell-nobody')
  })
})
