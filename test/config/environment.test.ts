// The environment: every setting has a derived name, secrets have *_FILE, providers' own key names are known.

import { afterAll, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { tempDir } from '../support/tmp.ts'
import { printedOrigin, type Setting, settings } from '../../src/config/config.ts'
import { providers } from '../../src/providers/registry.ts'
import { faultsOf, load, loaded, settingsOf } from './inputs.ts'

const home = tempDir('weir-environment-')
const logo = home.join('logo.svg')
writeFileSync(logo, '<svg xmlns="http://www.w3.org/2000/svg"/>')
afterAll(() => home.remove())

const aDatabase = 'postgres://weir@db.example/weir'

/** A value that each setting takes and that is not its default, as text and as it must arrive. */
function sample({ path, kind, fallback }: Setting): [string, unknown] {
  const special: Record<string, [string, unknown]> = {
    'log.level': ['debug', 'debug'],
    'log.format': ['json', 'json'],
    'alarms.mail': ['a@example.org, b@example.org', ['a@example.org', 'b@example.org']],
    'alarms.shares': ['[0.5]', [0.5]],
    'alarms.webhook.url': ['http://a/x', 'http://a/x'],
    'alarms.installation_month_usd': ['7.5', '7.5'],
    'alarms.account_month_usd': ['7.5', '7.5'],
    'alarms.sudden_spend_least_usd': ['7.5', '7.5'],
    'log.export.s3.endpoint': ['http://a/x', 'http://a/x'],
    'log.export.webhook.url': ['http://a/x?t=1', 'http://a/x?t=1'],
    'search.backend': ['sim', 'sim'],
    'search.base_url': ['http://a/x', 'http://a/x'],
    'brand.logo': [logo, logo],
    'brand.colors.accent': ['#7a1fa2', '#7a1fa2'],
    'brand.colors.accent_dark': ['#e0a0ff', '#e0a0ff'],
    'brand.terms_url': ['https://a/terms', 'https://a/terms'],
    'brand.privacy_url': ['https://a/privacy', 'https://a/privacy'],
    'brand.support': ['help@a.example', 'help@a.example'],
    data_dir: ['/srv/weir', '/srv/weir'],
    'bootstrap.credit_usd': ['7.5', '7.5'],
    'search.price_per_call': ['0.01', '0.01'],
    'premium.output_usd_per_million': ['30', '30'],
    models: ['[{"id":"a/b"}]', [{ id: 'a/b' }]],
    'providers.*.protocol': ['cohere', 'cohere'],
    'providers.*.base_url': ['http://a/x', 'http://a/x'],
    'providers.*.api_key': ['k1,k2', ['k1', 'k2']],
    'providers.*.deployments': ['[{"api_key":"k","weight":2}]', [{ api_key: ['k'], weight: 2 }]],
    'providers.*.headers': ['{"x-a":"b"}', { 'x-a': 'b' }],
    'providers.*.quirks': ['{"n":1}', { n: 1 }],
    'providers.*.ignores': ['seed, top_k', ['seed', 'top_k']],
    'providers.*.price': ['free', 'free'],
    'test.failpoint': ['hold-decided:17', 'hold-decided:17'],
    'egress.allow_hosts': ['a:1, b:2', ['a:1', 'b:2']],
    'server.public_url': ['https://weir.example', 'https://weir.example'],
    'server.trusted_proxies': ['10.0.0.0/8, ::1', ['10.0.0.0/8', '::1']],
    hooks: [
      '[{"url":"https://a/x","secret":"0123456789abcdef","on":["request"]}]',
      [
        {
          url: 'https://a/x',
          secret: '0123456789abcdef',
          on: ['request'],
          timeout_ms: 5_000,
          fail: 'closed',
        },
      ],
    ],
    masks: ['[{"find":"email","on":["request"]}]', [{ find: 'email', on: ['request'] }]],
    aliases: ['{"gpt":"sim/echo"}', { gpt: 'sim/echo' }],
    'catalog.offer': ['openai/*, sim/*', ['openai/*', 'sim/*']],
    'catalog.hide': ['openai/*, sim/*', ['openai/*', 'sim/*']],
    'accounts.sign_up': ['closed', 'closed'],
    'accounts.unverified': ['allow', 'allow'],
    'accounts.oidc.issuer': ['https://id.example', 'https://id.example'],
    'accounts.oidc.scopes': ['email, groups', ['email', 'groups']],
    'accounts.oidc.allowed_domains': ['a.example, b.example', ['a.example', 'b.example']],
    'accounts.sign_in': ['oidc, password', ['oidc', 'password']],
    'accounts.oidc.groups.map': ['{"a":"grp_0123456789abcdef01"}', { a: 'grp_0123456789abcdef01' }],
    'accounts.oidc.operator_claim': ['groups=weir', 'groups=weir'],
    'accounts.monthly_credit_usd': ['7.5', '7.5'],
    'accounts.credit_line': ['7.5', '7.5'],
    'accounts.group': ['grp_0123456789abcdef01', 'grp_0123456789abcdef01'],
    'mail.smtp_url': ['smtp://mail.example', 'smtp://mail.example'],
    'store.url': [aDatabase, aDatabase],
    'store.ca': ['/etc/ca.pem', '/etc/ca.pem'],
    'credits.welcome_daily_cap_usd': ['7.5', '7.5'],
    'credits.allowance_daily_cap_usd': ['7.5', '7.5'],
    'credits.low_balance_usd': ['2.5', '2.5'],
    'payments.fx.inr_per_usd': ['90.5', '90.5'],
    'payments.fx.as_of': ['2026-11-20', '2026-11-20'],
    'payments.currencies': [
      '{"EUR":{"per_usd":"0.92","min":"5","max":"500"}}',
      { EUR: { per_usd: '0.92', min: '5', max: '500', source: 'set by the operator' } },
    ],
    'payments.plans': [
      '{"pro":{"title":"Pro","credit_usd":"10","prices":{"INR":"499"}}}',
      { pro: { title: 'Pro', credit_usd: '10', months: 1, prices: { INR: '499' } } },
    ],
    'payments.min_inr': ['150', '150'],
    'payments.max_inr': ['900.50', '900.50'],
    'payments.razorpay.key_id': ['rzp_live_a', 'rzp_live_a'],
    'payments.razorpay.base_url': ['http://a/v1', 'http://a/v1'],
    'payments.stripe.secret_key': ['sk_live_a', 'sk_live_a'],
    'payments.stripe.base_url': ['http://a/v1', 'http://a/v1'],
    'payments.seller.name': ['Example Pvt Ltd', 'Example Pvt Ltd'],
    'payments.seller.address': ['1 Main Road, Pune', '1 Main Road, Pune'],
    'payments.seller.gstin': ['27AAAAA0000A1Z5', '27AAAAA0000A1Z5'],
    'subscriptions.apple.environment': ['Sandbox', 'Sandbox'],
    'subscriptions.apple.root_sha256': ['AB'.repeat(32), 'ab'.repeat(32)],
    'subscriptions.products': [
      '{"premium":{"credit_usd":"5","months":1}}',
      { premium: { credit_usd: '5', months: 1 } },
    ],
    'providers.*.data_policy': ['no_training', 'no_training'],
    'secrets.master_key': ['0123456789abcdef0123456789abcdef', ['0123456789abcdef0123456789abcdef']],
    'bootstrap.show': ['file', 'file'],
    'server.cors_origins': ['https://a, https://b:1', ['https://a', 'https://b:1']],
  }
  const found = special[path.join('.')]
  if (found) return found
  if (kind === 'integer') return [String(Number(fallback ?? 999) + 1), Number(fallback ?? 999) + 1]
  if (kind === 'boolean') return fallback === true ? ['no', false] : ['yes', true]
  return ['sample', 'sample']
}

const every = settings().map((setting) => [setting.path.join('.'), setting] as const)

const rate = { WEIR_PAYMENTS_FX_INR_PER_USD: '89.015' }
const razorpay = { ...rate, WEIR_PAYMENTS_RAZORPAY_WEBHOOK_SECRET: 'secret' }
const razorpayKey = { ...rate, WEIR_PAYMENTS_RAZORPAY_KEY_ID: 'rzp_live_a' }

const store = { WEIR_STORE_URL: aDatabase }

const bucket = { WEIR_LOG_EXPORT_S3_BUCKET: 'logs' }
const accessKey = { WEIR_LOG_EXPORT_S3_ACCESS_KEY: 'a' }
const secretKey = { WEIR_LOG_EXPORT_S3_SECRET_KEY: 's' }
const bucketKeys = { ...accessKey, ...secretKey }

/** What a setting cannot be without. */
const companions: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  // A lease must be three checkpoints long.
  'stream.checkpoint_ms': { WEIR_LEDGER_LEASE_MS: '60000' },
  'accounts.oidc.issuer': { WEIR_ACCOUNTS_OIDC_CLIENT_ID: 'weir' },
  'log.export.s3.endpoint': { ...bucket, ...bucketKeys },
  'log.export.s3.bucket': { WEIR_LOG_EXPORT_S3_ENDPOINT: 'http://a', ...bucketKeys },
  'log.export.s3.access_key': { ...bucket, WEIR_LOG_EXPORT_S3_ENDPOINT: 'http://a', ...secretKey },
  'log.export.s3.secret_key': { ...bucket, WEIR_LOG_EXPORT_S3_ENDPOINT: 'http://a', ...accessKey },
  'alarms.mail': { WEIR_MAIL_SMTP_URL: 'smtp://mail.example', WEIR_MAIL_FROM: 'weir@example.org' },
  'store.password': store,
  'store.ca': store,
  'server.processes': store,
  'mail.smtp_url': { WEIR_MAIL_FROM: 'weir@example.org' },
  'payments.razorpay.key_id': { ...razorpay, WEIR_PAYMENTS_RAZORPAY_KEY_SECRET: 'secret' },
  'payments.razorpay.key_secret': { ...razorpay, ...razorpayKey },
  'payments.razorpay.webhook_secret': { ...razorpayKey, WEIR_PAYMENTS_RAZORPAY_KEY_SECRET: 'secret' },
  'payments.stripe.secret_key': { ...rate, WEIR_PAYMENTS_STRIPE_WEBHOOK_SECRET: 'whsec_a' },
  'subscriptions.apple.bundle_id': { WEIR_SUBSCRIPTIONS_APPLE_ROOT_SHA256: 'ab'.repeat(32) },
  'subscriptions.apple.root_sha256': { WEIR_SUBSCRIPTIONS_APPLE_BUNDLE_ID: 'org.example.app' },
  'payments.stripe.webhook_secret': { ...rate, WEIR_PAYMENTS_STRIPE_SECRET_KEY: 'sk_live_a' },
}

describe('derived names', () => {
  test.each(every)('%s can be set from the environment', (_, setting) => {
    const [text, value] = sample(setting)
    const path = setting.path.map((part) => (part === '*' ? 'openai' : part))
    const name = `WEIR_${path.join('_').toUpperCase()}`
    const env = { [name]: text, ...companions[setting.path.join('.')] }
    const found = loaded({ env })
    const at = path.reduce<unknown>(
      (tree, key) => (Object(tree) as Record<string, unknown>)[key],
      found.config,
    )
    expect(at).toEqual(value)
    expect(printedOrigin(found.origins(path))).toBe(name)
    expect(found.warnings).toEqual([])
  })

  test('no two settings share a name, and every setting says what it is for', () => {
    const names = settings().flatMap(({ env, aliases }) => [env, ...aliases])
    expect(new Set(names).size).toBe(names.length)
    expect(settings().filter(({ description }) => description.length < 8)).toEqual([])
  })

  test('the everyday names are there', () => {
    const env = { WEIR_PORT: '1', WEIR_HOST: '::1', WEIR_DATA_DIR: 'here' }
    expect(loaded({ env }).config).toMatchObject({
      server: { port: 1, host: '::1' },
      data_dir: '/home/me/here',
    })
  })

  test('a provider with a dash, and one that nothing else names', () => {
    const yaml = 'providers: { my-lab: { protocol: cohere, base_url: "http://a/v2" } }'
    const env = {
      WEIR_PROVIDERS_MY_LAB_API_KEY: 'one',
      WEIR_PROVIDERS_RACK_PROTOCOL: 'openai-chat',
      WEIR_PROVIDERS_RACK_BASE_URL: 'http://10.0.0.9/v1/',
      WEIR_PROVIDERS_RACK_TIMEOUTS_GAP_MS: '5',
    }
    expect(loaded({ yaml, env }).config.providers).toMatchObject({
      'my-lab': { api_key: ['one'] },
      rack: { protocol: 'openai-chat', base_url: 'http://10.0.0.9/v1', timeouts: { gap_ms: 5 } },
    })
  })

  test('a mistyped name is told, with the nearest one', () => {
    expect(loaded({ env: { WEIR_SERVER_PROT: '1' } }).warnings).toEqual([
      {
        name: 'WEIR_SERVER_PROT',
        problem: 'is not a setting and is ignored; did you mean WEIR_SERVER_PORT?',
      },
    ])
  })

  test('what a cluster sets for a service called weir is no setting', () => {
    const env = {
      WEIR_PORT: 'tcp://10.0.0.1:8787',
      WEIR_PORT_8787_TCP_ADDR: '10.0.0.1',
      WEIR_SERVICE_HOST: '10.0.0.1',
      WEIR_SERVICE_PORT: '8787',
    }
    expect(loaded({ env })).toMatchObject({ config: { server: { port: 8787 } }, warnings: [] })
  })

  test('a value that does not fit is a fault that names the variable', () => {
    const result = load({ env: { WEIR_PORT: 'https' } })
    expect(result).toMatchObject({
      kind: 'faulty',
      faults: [{ path: 'server.port', origin: { kind: 'environment', name: 'WEIR_PORT' } }],
    })
  })
})

describe('keys of providers', () => {
  const named = providers.flatMap(({ id, auth }) =>
    auth.kind === 'none' ? [] : auth.env.map((name) => [name, id] as const),
  )

  test.each(named)('%s is the key of %s', (name, id) => {
    const found = loaded({ env: { [name]: ' some-key\n' } })
    expect(found.config.providers[id]?.api_key).toEqual(['some-key'])
    expect(settingsOf(found)[`providers.${id}.api_key`]?.origin).toBe(name)
  })

  test.each(named)('%s_FILE is read', (name, id) => {
    const found = loaded({ env: { [`${name}_FILE`]: '/run/k' }, files: { '/run/k': 'from-file\n' } })
    expect(found.config.providers[id]?.api_key).toEqual(['from-file'])
  })

  test('what the configuration says stands above them', () => {
    const env = { OPENAI_API_KEY: 'shell', WEIR_PROVIDERS_GROQ_API_KEY: 'weir', GROQ_API_KEY: 'shell' }
    const { config } = loaded({ yaml: 'providers: { openai: { api_key: file } }', env })
    expect([config.providers['openai']?.api_key, config.providers['groq']?.api_key]).toEqual([
      ['file'],
      ['weir'],
    ])
  })

  test('a placeholder in them is told and not used: other programs may have set it', () => {
    const found = loaded({ env: { OPENAI_API_KEY: 'sk-...' } })
    expect(found.config.providers['openai']).toBeUndefined()
    expect(found.warnings).toMatchObject([{ name: 'OPENAI_API_KEY' }])
  })

  test('base URLs never come from the names of other programs', () => {
    const env = {
      OPENAI_API_KEY: 'k',
      OPENAI_BASE_URL: 'http://127.0.0.1:8787/v1',
      OPENAI_API_BASE: 'http://a',
      ANTHROPIC_BASE_URL: 'http://a',
    }
    const { config } = loaded({ env })
    expect(Object.keys(config.providers)).toEqual(['openai'])
    expect(config.providers).not.toMatchObject({ openai: { base_url: expect.anything() } })
  })
})

describe('*_FILE', () => {
  test.each(
    settings()
      .filter(({ secret, kind }) => secret && kind !== 'structure')
      .map(({ path }) => [path.join('.'), path] as const),
  )('the secret %s is read from the file its variable names', (_, path) => {
    const real = path.map((part) => (part === '*' ? 'openai' : part))
    const env = { [`WEIR_${real.join('_').toUpperCase()}_FILE`]: 'secrets/k' }
    const special: Record<string, string> = {
      'mail.smtp_url': 'smtp://mail.example',
      'store.url': aDatabase,
      'secrets.master_key': '0123456789abcdef0123456789abcdef',
    }
    const text = special[path.join('.')] ?? 'from-file'
    const files = { '/home/me/secrets/k': `${text}\n` }
    const found = loaded({ env: { ...env, ...companions[path.join('.')] }, files })
    const value = real.reduce<unknown>(
      (tree, key) => (Object(tree) as Record<string, unknown>)[key],
      found.config,
    )
    expect([value].flat()).toEqual([text])
  })

  test.each([
    [{}, 'names the file /run/k, which does not exist'],
    [{ '/run/k': ' \n' }, 'names the file /run/k, which is empty'],
  ])('with the files %p it is a fault', (files, problem) => {
    expect(faultsOf({ env: { WEIR_PROVIDERS_OPENAI_API_KEY_FILE: '/run/k' }, files })).toEqual([
      `providers.openai.api_key: ${problem}`,
    ])
    expect(faultsOf({ yaml: 'providers: { openai: { api_key: file:/run/k } }', files })).toEqual([
      `providers.openai.api_key: ${problem}`,
    ])
  })

  test('a setting that is no secret has none', () => {
    expect(loaded({ env: { WEIR_SERVER_PORT_FILE: '/x' } }).warnings).toMatchObject([
      { name: 'WEIR_SERVER_PORT_FILE' },
    ])
  })
})
