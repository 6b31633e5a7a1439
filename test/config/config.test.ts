// The configuration contract: which source wins, what the documented example means, how origins are told.

import { describe, expect, test } from 'bun:test'
import { renderSettings, secretsOf, settings, shownSettings, signUpPolicy } from '../../src/config/config.ts'
import { exampleYaml, faultsOf, load, loaded, settingsOf } from './inputs.ts'

describe('which source wins', () => {
  test.each([
    // file  variable             flag    value  origin
    ['', {}, undefined, 8787, 'default'],
    ['server: { port: 1001 }', {}, undefined, 1001, 'weir.yaml:1'],
    ['server: { port: 1001 }', { WEIR_SERVER_PORT: '1002' }, undefined, 1002, 'WEIR_SERVER_PORT'],
    ['server: { port: 1001 }', { WEIR_PORT: '1002' }, undefined, 1002, 'WEIR_PORT'],
    ['server: { port: 1001 }', { WEIR_PORT: '1002' }, '1003', 1003, '--port'],
    ['', { WEIR_PORT: '1002' }, undefined, 1002, 'WEIR_PORT'],
    ['', {}, '1003', 1003, '--port'],
    ['server: { port: 1001 }', {}, '1003', 1003, '--port'],
    ['server: { port: 1001 }', { WEIR_PORT: '' }, undefined, 1001, 'weir.yaml:1'],
    ['server: { host: 0.0.0.0 }', {}, undefined, 8787, 'default'],
  ] as const)('file %p, environment %p, flag %p: %p from %s', (yaml, env, flag, port, origin) => {
    const found = loaded({ yaml, env, flags: { 'server.port': flag } })
    expect(found.config.server.port).toBe(port)
    expect(settingsOf(found)['server.port']?.origin).toBe(origin)
  })

  test('one variable changes one setting and leaves the file its others', () => {
    const { config } = loaded({ yaml: 'server: { host: 0.0.0.0, port: 1 }', env: { WEIR_SERVER_PORT: '2' } })
    expect(config.server).toMatchObject({ host: '0.0.0.0', port: 2 })
  })

  test('the same value under both of its names is no conflict, two values are', () => {
    expect(loaded({ env: { WEIR_PORT: '5', WEIR_SERVER_PORT: '5' } }).config.server.port).toBe(5)
    expect(faultsOf({ env: { WEIR_PORT: '5', WEIR_SERVER_PORT: '6' } })).toEqual([
      'server.port: is set by WEIR_PORT and by WEIR_SERVER_PORT: keep one of them',
    ])
  })
})

describe('a file that ends in .yml', () => {
  const path = '/home/me/weir.yml'
  const machine = { files: { [path]: 'server: { port: 5 }' }, directories: [path] }

  test('is not read, which is said', () => {
    const found = loaded(machine)
    expect(found.config.server.port).toBe(8787)
    expect(found.warnings).toEqual([
      { name: 'weir.yml', problem: 'is not read: name it weir.yaml, or give it with --config' },
    ])
  })

  test('is read where it is named, and not missed beside weir.yaml', () => {
    expect(loaded({ ...machine, flags: { config: 'weir.yml' } }).config.server.port).toBe(5)
    expect(loaded({ ...machine, yaml: 'server: { port: 6 }' })).toMatchObject({
      config: { server: { port: 6 } },
      warnings: [],
    })
  })
})

describe('a program that a package of the system brought', () => {
  const there = {
    '/etc/weir/weir.yaml': 'server: { port: 5 }\nproviders: { mistral: { api_key: "file:mistral.key" } }',
    '/etc/weir/weir.env': 'OPENAI_API_KEY="sk-of-the-service"\nGROQ_API_KEY=gsk-of-the-service\n',
    '/etc/weir/mistral.key': 'of-mistral\n',
  }
  const service = { files: there, packaged: true }

  test('is about the service, with its variables and its data, where nothing else is named', () => {
    const { config, file } = loaded({ ...service, env: { GROQ_API_KEY: 'gsk-of-mine' } })
    expect(config.server.port).toBe(5)
    expect([file, config.data_dir]).toEqual(['/etc/weir/weir.yaml', '/var/lib/weir'])
    expect(config.providers['mistral']?.api_key).toEqual(['of-mistral'])
    expect(config.providers['openai']?.api_key).toEqual(['sk-of-the-service'])
    expect(config.providers['groq']?.api_key).toEqual(['gsk-of-mine'])
    const elsewhere = { ...there, '/etc/weir/weir.yaml': 'data_dir: /srv/weir' }
    expect(loaded({ ...service, files: elsewhere }).config.data_dir).toBe('/srv/weir')
  })

  test.each<[string, Parameters<typeof loaded>[0]]>([
    ['nobody installed', { files: there }],
    [
      'with a weir.yaml in the folder',
      { ...service, yaml: 'search: {}', directories: ['/home/me/weir.yaml'] },
    ],
    ['with a database in the folder', { ...service, directories: ['/home/me/weir-data'] }],
    ['for which a folder is named', { ...service, flags: { data_dir: 'elsewhere' } }],
    ['for which a variable names a folder', { ...service, env: { WEIR_DATA_DIR: 'elsewhere' } }],
    ['without a service', { packaged: true }],
  ])('%s is about what is here', (_, machine) => {
    const { config, warnings } = loaded(machine)
    expect([config.server.port, config.providers['openai']]).toEqual([8787, undefined])
    expect(config.data_dir.startsWith('/home/me/')).toBe(true)
    expect(warnings).toEqual([])
  })

  test('passes over what its user may not read, and says so', () => {
    const closed = (path: string) => {
      if (path.startsWith('/etc/weir/')) throw new Error('permission denied')
      return undefined
    }
    expect(loaded({ packaged: true, readFile: closed }).warnings).toEqual([
      { name: '/etc/weir/weir.yaml', problem: 'is not read: permission denied' },
    ])
  })
})

describe('a setting that had another name', () => {
  const retention = (inputs: Parameters<typeof loaded>[0]) => {
    const found = loaded(inputs)
    const { origin } = settingsOf(found)['responses.retention_ms'] ?? {}
    return { ms: found.config.responses.retention_ms, origin, warnings: found.warnings.length }
  }

  test('keeps its value and its origin under the old one, with a warning', () => {
    const old = { yaml: 'responses: { retention: 1500 }' }
    expect(retention(old)).toEqual({ ms: 1500, origin: 'weir.yaml:1', warnings: 1 })
    expect(loaded(old).warnings).toEqual([
      {
        name: 'responses.retention',
        problem: 'is called responses.retention_ms now; the old name still works',
      },
    ])
    expect(retention({ yaml: 'responses: { retention_ms: 1500 }' })).toMatchObject({ ms: 1500, warnings: 0 })
    expect(retention({ env: { WEIR_RESPONSES_RETENTION: '1500' } })).toMatchObject({ ms: 1500, warnings: 0 })
  })

  test('is checked as the new one is, and not taken under both', () => {
    expect(faultsOf({ yaml: 'responses: { retention: soon }' })).toEqual([
      expect.stringContaining('responses.retention_ms'),
    ])
    expect(faultsOf({ yaml: 'responses: { retention: 1500, retention_ms: 1500 }' })).toEqual([
      'responses.retention_ms: is given under its old name, responses.retention, too: keep one of them',
    ])
  })
})

test.each([
  // configuration                                                      sign-up, unverified addresses
  ['', 'open', 'allow'],
  ['server: { host: localhost }', 'open', 'allow'],
  ['server: { host: 0.0.0.0 }', 'invite', 'deny'],
  ['server: { public_url: "https://models.example" }', 'invite', 'deny'],
  ['accounts: { sign_up: closed, unverified: deny }', 'closed', 'deny'],
  ['server: { host: 0.0.0.0 }\naccounts: { sign_up: open, unverified: allow }', 'open', 'allow'],
] as const)(
  'with %p accounts are %s to open, and free credit is to %s unproven ones',
  (yaml, signUp, unverified) => {
    expect(signUpPolicy(loaded({ yaml }).config)).toEqual({ signUp, unverified })
  },
)

describe('the configuration file', () => {
  test('without any source there is a complete configuration', () => {
    const { config, file } = loaded({})
    expect(file).toBeUndefined()
    expect(config.data_dir).toBe('/home/me/weir-data')
    expect(config.bootstrap.credit_usd).toBe('100')
    expect(config.timeouts).toMatchObject({ connect_ms: 5_000, first_byte_ms: 60_000, total_ms: 1_800_000 })
  })

  test.each([
    [{ flags: { config: 'a.yaml' }, env: {} }, '/home/me/a.yaml'],
    [{ flags: {}, env: { WEIR_CONFIG: '/etc/b.yaml' } }, '/etc/b.yaml'],
    [{ flags: { config: 'a.yaml' }, env: { WEIR_CONFIG: '/etc/b.yaml' } }, '/home/me/a.yaml'],
  ])('%p reads %s', (inputs, file) => {
    expect(loaded({ ...inputs, files: { [file]: 'server: { port: 7 }' } })).toMatchObject({
      file,
      config: { server: { port: 7 } },
    })
  })

  test('a file that was named must exist', () => {
    expect(faultsOf({ flags: { config: 'a.yaml' } })).toEqual(['a.yaml: does not exist'])
  })

  test('an empty file and empty sections are defaults', () => {
    expect(loaded({ yaml: '' }).config.server.port).toBe(8787)
    expect(loaded({ yaml: 'providers:\nserver:\n  # port: 1\n' }).config.server.port).toBe(8787)
  })

  test('the documented example means what it says', () => {
    const files = { '/run/secrets/anthropic': 'sk-ant-from-a-file\n' }
    const { config, warnings } = loaded({
      yaml: exampleYaml,
      files,
      env: { OPENAI_API_KEY: 'sk-oai-from-env' },
    })
    expect(warnings).toEqual([])
    expect(config.providers['openai']?.api_key).toEqual(['sk-oai-from-env'])
    expect(config.providers['anthropic']).toMatchObject({
      base_url: 'http://127.0.0.1:9000/v1',
      api_key: ['sk-ant-from-a-file'],
    })
    expect(config.providers['lab']).toMatchObject({ protocol: 'openai-chat', api_key: ['secret'] })
    expect(config.models).toMatchObject([
      {
        id: 'lab/qwen3',
        upstream: 'Qwen/Qwen3-32B',
        context_length: 131072,
        premium: false,
        price: { input: '0.10' },
      },
    ])
    expect(config.search).toMatchObject({ backend: 'searxng', price_per_call: '0.00' })
    expect(config.egress.allow_hosts).toEqual(['127.0.0.1:3001'])
  })
})

describe('${NAME} in the file', () => {
  const lab = (key: string) => `providers: { openai: { api_key: ${key} } }`
  test.each([
    [lab('${KEY}'), { KEY: 'abc' }, ['abc']],
    [lab('"${KEY}"'), { KEY: 'abc' }, ['abc']],
    [lab('["${A}", "${B}"]'), { A: 'one', B: 'two' }, ['one', 'two']],
    [lab('["${A}", "${B}"]'), { A: 'one' }, ['one']],
    [lab('pre-${KEY}'), { KEY: 'abc' }, ['pre-abc']],
    [lab('${KEY:-other}'), {}, ['other']],
    [lab('"$${KEY}"'), { KEY: 'abc' }, ['${KEY}']],
    // What a value holds is never read as YAML.
    [lab('${KEY}'), { KEY: '"},{x:#' }, ['"},{x:#']],
  ])('%s with %p is %p', (yaml, env, keys) => {
    expect(loaded({ yaml, env }).config.providers['openai']?.api_key).toEqual(keys)
  })

  test('a number and a switch may come from a variable', () => {
    const yaml = 'server: { port: ${P} }\nlog: { prompts: ${Q} }'
    const { config } = loaded({ yaml, env: { P: '9000', Q: 'yes' } })
    expect([config.server.port, config.log.prompts]).toEqual([9000, true])
  })

  test('a key whose variable is not set is no key, and a warning says so', () => {
    const found = loaded({ yaml: lab('${KEY}') })
    expect(found.config.providers['openai']?.api_key).toEqual([])
    expect(found.warnings).toEqual([
      { name: 'providers.openai.api_key', problem: expect.stringContaining('KEY, which is not set') },
    ])
  })

  test('half of an address is a fault', () => {
    expect(faultsOf({ yaml: 'providers: { openai: { base_url: "http://${LAB_HOST}/v1" } }' })).toEqual([
      'providers.openai.base_url: names the environment variable LAB_HOST, which is not set',
    ])
  })
})

describe('config show', () => {
  test('lists every setting that is not of a provider, and of providers what was told', () => {
    const shown = settingsOf(loaded({ yaml: 'providers: { openai: { disabled: true } }' }))
    const general = settings().filter(({ path }) => !path.includes('*'))
    expect(general.filter(({ path }) => shown[path.join('.')] === undefined)).toEqual([])
    expect(Object.keys(shown).filter((path) => path.startsWith('providers.'))).toEqual([
      'providers.openai.disabled',
    ])
  })

  test('masks every secret', () => {
    const secret = 'tremendously-secret-0123456789'
    const yaml = `
providers:
  openai: { api_key: [${secret}, other-${secret}], headers: { x-tenant: head-${secret} } }
  azure: { deployments: [{ base_url: https://a.example/v1, api_key: [one-${secret}] }, { base_url: https://b.example/v1, api_key: file:/run/azure }] }
search: { backend: exa, api_key: search-${secret} }`
    const files = { '/run/azure': `two-${secret}\n` }
    const found = loaded({ yaml, env: { GROQ_API_KEY: `groq-${secret}` }, files })
    expect(found.config.providers['azure']?.deployments[1]?.api_key).toEqual([`two-${secret}`])
    expect(secretsOf(found.config)).toEqual(expect.arrayContaining([`one-${secret}`, `two-${secret}`]))
    const shown = shownSettings(found)
    const text = JSON.stringify(shown) + renderSettings(shown)
    expect(text).not.toContain('secret-0123')
    expect(settingsOf(found)['providers.openai.api_key']?.value).toEqual(['****6789', '****6789'])
    expect(settingsOf(found)['providers.openai.headers']?.value).toEqual({ 'x-tenant': '****6789' })
  })

  test('a short secret shows nothing of itself', () => {
    const shown = settingsOf(loaded({ yaml: 'providers: { openai: { api_key: shortkey } }' }))
    expect(shown['providers.openai.api_key']?.value).toEqual(['****'])
  })
})

describe('secrets', () => {
  const yaml = `accounts: { oidc: { issuer: 'https://id.example.org', client_id: weir, client_secret: file:/run/oidc } }
mail: { smtp_url: file:/run/smtp, from: weir@example.org }
`
  const files = {
    '/run/oidc': 'secret of the client\n',
    '/run/smtp': 'smtps://weir:pass%2Fword-of-mail@mail.example.org:465\n',
  }

  test('may all be in files', () => {
    const { config } = loaded({ yaml, files })
    expect(config.accounts.oidc.client_secret).toBe('secret of the client')
    expect(config.mail.smtp_url).toBe('smtps://weir:pass%2Fword-of-mail@mail.example.org:465')
    expect(faultsOf({ yaml, files: {} })).toEqual([
      'accounts.oidc.client_secret: names the file /run/oidc, which does not exist',
      'mail.smtp_url: names the file /run/smtp, which does not exist',
      expect.stringContaining('mail.smtp_url: must be an address'),
    ])
  })

  test('are all known to the log', () => {
    const known = secretsOf(loaded({ yaml, files }).config)
    expect(known).toContain('secret of the client')
    expect(known).toContain('pass/word-of-mail')
  })
})

test('an IPv6 address to listen on may be written as in a URL', () => {
  expect(loaded({ yaml: "server: { host: '[::1]' }" }).config.server.host).toBe('::1')
  expect(loaded({ flags: { 'server.host': '[::]' } }).config.server.host).toBe('::')
})

test('a file that cannot be read is a fault, not a crash', () => {
  const result = load({
    readFile: () => {
      throw Object.assign(new Error('no'), { code: 'EACCES' })
    },
  })
  expect(result).toMatchObject({
    kind: 'faulty',
    faults: [{ path: 'weir.yaml', problem: 'cannot be read: EACCES' }],
  })
})

describe('a path that begins with ~', () => {
  const env = { HOME: '/home/anna' }
  const dataDir = (written: string) => loaded({ yaml: `data_dir: ${written}`, env }).config.data_dir

  test.each([
    // written        path
    ['~/weir', '/home/anna/weir'],
    ["'~'", '/home/anna'],
    ['./~/weir', '/home/me/~/weir'],
    ['weir~', '/home/me/weir~'],
    ['/srv/~/weir', '/srv/~/weir'],
  ])('as data_dir, %s is %s', (written, path) => {
    expect(dataDir(written)).toBe(path)
  })

  test('is expanded in flags, variables, and files of secrets, too', () => {
    const files = { '/home/anna/weir.yaml': 'server: { port: 1001 }', '/home/anna/key': 'sk-ant-1' }
    expect(loaded({ env, flags: { data_dir: '~/weir' } }).config.data_dir).toBe('/home/anna/weir')
    expect(loaded({ env: { ...env, WEIR_DATA_DIR: '~/weir' } }).config.data_dir).toBe('/home/anna/weir')
    expect(loaded({ env: { ...env, WEIR_CONFIG: '~/weir.yaml' }, files }).config.server.port).toBe(1001)
    const inYaml = loaded({ yaml: 'providers: { anthropic: { api_key: file:~/key } }', env, files })
    const inVariable = loaded({ env: { ...env, ANTHROPIC_API_KEY_FILE: '~/key' }, files })
    for (const { config } of [inYaml, inVariable]) expect(secretsOf(config)).toContain('sk-ant-1')
  })

  test("is refused for another user's home, and without one of its own", () => {
    const otherHome =
      '~bob is not expanded: write the whole path, or ./~bob for a file of that name in the working directory'
    expect(faultsOf({ yaml: 'data_dir: ~bob/weir', env })).toEqual([`data_dir: ${otherHome}`])
    expect(faultsOf({ env: { ...env, WEIR_CONFIG: '~bob/weir.yaml' } })).toEqual([
      `~bob/weir.yaml: cannot be read: ${otherHome}`,
    ])
    expect(faultsOf({ yaml: 'data_dir: ~/weir' })).toEqual([
      'data_dir: the path begins with ~ and HOME is not set: write the whole path',
    ])
  })

  test('does not leave behind what an earlier version kept in a folder named ~', () => {
    const machine = { yaml: 'data_dir: ~/weir', env, directories: ['/home/me/~/weir'] }
    expect(faultsOf(machine)).toEqual([
      'data_dir: ~/weir is /home/anna/weir now, and /home/me/~/weir has the data: move it there, or write ./~/weir',
    ])
    expect(faultsOf({ ...machine, directories: ['/home/me/~/weir', '/home/anna/weir'] })).toEqual([])
  })
})

describe('a brand', () => {
  test.each([
    ['accent: "#0a6482"', []],
    ['accent_dark: "#67c5e2"', []],
    ['accent: "#ffcc00"', [expect.stringContaining('take a darker one')]],
    ['accent_dark: "#0a6482"', [expect.stringContaining('take a lighter one')]],
    ['accent: red', [expect.stringContaining('must be a colour')]],
  ])('has colours that can be read: %s', (colors, faults) => {
    expect(faultsOf({ yaml: `brand: { colors: { ${colors} } }` })).toEqual(faults)
  })

  test('has a logo that is there and an image', () => {
    expect(faultsOf({ yaml: 'brand: { logo: /nowhere/logo.svg }' })).toEqual([
      expect.stringContaining('brand.logo: cannot be read'),
    ])
    expect(faultsOf({ yaml: 'brand: { logo: /etc/hostname }' })).toEqual([
      expect.stringContaining('brand.logo: must be a file that ends with .svg, .png or .webp'),
    ])
  })
})
