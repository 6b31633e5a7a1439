// Who may import whom, as the house is drawn. Every import of every source file is read; a wrong one fails with the
// rule's reason.

import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { protocolIds } from '../src/protocols/protocol.ts'

const root = resolve(import.meta.dir, '..')
const source = join(root, 'src')
const files = [...new Bun.Glob('**/*.{ts,tsx}').scanSync({ cwd: source })].toSorted()

interface Import {
  readonly from: string
  /** Path below src for our own files, a package's name otherwise. */
  readonly to: string
  readonly typeOnly: boolean
}

function importsOf(file: string): Import[] {
  const text = readFileSync(join(source, file), 'utf8')
  const found: Import[] = []
  const patterns = [
    /^(?:import|export)\s+(type\s)?[^'"\n]*?from\s+'([^']+)'/gm,
    /^(?:import|export)\s+(type\s)?\{[^}]*\}\s*from\s+'([^']+)'/gm,
    /^import\s+()'([^']+)'/gm,
    /\bimport\(\s*()'([^']+)'/g,
  ]
  for (const pattern of patterns) {
    for (const [, type, specifier] of text.matchAll(pattern)) {
      const own = specifier!.startsWith('.')
      const to = own ? relative(source, resolve(dirname(join(source, file)), specifier!)) : specifier!
      found.push({ from: file, to, typeOnly: type !== undefined && type !== '' })
    }
  }
  return found
}

const imports = files.flatMap(importsOf)

/** The room a file of ours is in: its first folder, or the file itself at the top. */
function roomOf(path: string): string {
  return path.includes('/') ? path.slice(0, path.indexOf('/')) : path
}

function isOwn(to: string): boolean {
  return files.includes(to) || to.startsWith('..')
}

/** Files that can be reached from each other, in groups; each group once. */
function circlesAmong(edges: readonly Import[]): string[][] {
  const next = Map.groupBy(edges, ({ from }) => from)
  const reached = new Map(files.map((file) => [file, reachableFrom(file, next)]))
  const circles = files
    .filter((file) => reached.get(file)!.has(file))
    .map((file) => [...reached.get(file)!].filter((other) => reached.get(other)?.has(file)).toSorted())
  return [...new Map(circles.map((circle) => [circle.join(), circle])).values()]
}

function reachableFrom(file: string, next: ReadonlyMap<string, readonly Import[]>): ReadonlySet<string> {
  const found = new Set<string>()
  const waiting = [file]
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    for (const { to } of next.get(at) ?? []) {
      if (found.has(to)) continue
      found.add(to)
      waiting.push(to)
    }
  }
  return found
}

/** The calls of the runtime's fetch in a text, each with its arguments and the options that it names. */
function callsOfFetch(code: string): readonly string[] {
  const bare = code
    .replace(/^\s*(?:\/\/|\/?\*).*$/gm, '')
    .replaceAll('fetch: (request) => fetch(request)', '')
  return [...bare.matchAll(/(?<![\w.#])fetch\((?!\w+: Request\))/g)].map(({ index }) => {
    let depth = 0
    let end = index
    do {
      const letter = bare[end++]
      if (letter === '(') depth++
      if (letter === ')') depth--
    } while (end < bare.length && (depth > 0 || !bare.slice(index, end).includes('(')))
    const call = bare.slice(index, end)
    const options = /\boptions\b/.test(call) ? (/const options = \{[^}]*\}/.exec(bare)?.[0] ?? '') : ''
    return `${call} ${options}`
  })
}

/** Participles that do not end in -ed, and what ends so without being one. */
const irregular = new Set(
  `begun bound bought broken brought built came caught chosen comes done drawn driven fallen felt forgotten found frozen
   given gone gotten grown heard held hidden hung kept known laid led left lent lost made meant met paid said seen sent
   shown sold spent spoken stolen stood struck taken taught thought thrown told understood woken won wound written`.split(
    /\s+/,
  ),
)
const noParticiple =
  /^(?:bed|bleed|breed|embed|exceed|feed|heed|need|proceed|red|seed|shed|speed|succeed|weed)$/

/** Names of functions, methods and constants that are functions which are a participle and nothing else. */
function participlesIn(code: string): string[] {
  const isParticiple = (name: string) =>
    irregular.has(name) || (/^[a-z]{2,}ed$/.test(name) && !noParticiple.test(name))
  /** Whether what follows the arguments that begin at `at` matches. */
  const thereFollows = (at: number, pattern: RegExp) => {
    let end = at
    let depth = 0
    do {
      if (code[end] === '(') depth++
      if (code[end] === ')') depth--
      end++
    } while (depth > 0 && end < code.length)
    return pattern.test(code.slice(end, end + 300))
  }
  const functions = [...code.matchAll(/\bfunction\*?\s+(\w+)\s*[<(]/g)]
  const constants = [
    ...code.matchAll(
      /\bconst\s+(\w+)\s*(?::[^=\n]*(?:=>[^=\n]*)?)?=\s*(?:async\s+)?(?:<[^>\n]*>)?(?=\(|\w+ =>)/g,
    ),
  ].filter(({ 0: head, index }) => {
    const at = index + head.length
    return code[at] !== '(' || thereFollows(at, /^(?:\s*:[^=\n]+?)?\s*=>/)
  })
  const methods = [
    ...code.matchAll(/^\s+(?:(?:static|async|override) )*\*?#?(\w+)\??(?:<[^>\n]*>)?(?=\()/gm),
  ].filter(({ 0: head, index }) => thereFollows(index + head.length, /^\s*(?::|\{)/))
  return [...functions, ...constants, ...methods].map(([, name]) => name!).filter(isParticiple)
}

/** Which rooms each room may import from; a room may always import from itself. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  conversation: [],
  json: [],
  errors: [],
  async: [],
  text: [],
  scheduler: ['async', 'json'],
  transport: [],
  'version.ts': [],
  protocols: ['conversation', 'errors', 'json'],
  providers: ['async', 'transport', 'protocols', 'conversation', 'errors'],
  credits: ['async', 'conversation', 'errors'],
  catalog: ['credits', 'errors', 'conversation', 'text'],
  accounts: ['async', 'errors', 'scheduler'],
  connect: [],
  conformance: ['transport'],
  guide: ['connect'],
  egress: ['transport', 'errors', 'conversation'],
  tools: ['async', 'transport', 'credits', 'egress', 'conversation', 'errors', 'json', 'version.ts'],
  payments: ['accounts', 'async', 'credits', 'errors'],
  notify: ['accounts', 'async', 'credits', 'errors', 'payments'],
  responses: ['async', 'conversation', 'errors', 'json', 'scheduler'],
  observe: ['async'],
  guards: ['conversation', 'errors'],
  chat: [
    'accounts',
    'async',
    'transport',
    'catalog',
    'conversation',
    'text',
    'credits',
    'egress',
    'errors',
    'guards',
    'json',
    'observe',
    'protocols',
    'providers',
    'scheduler',
    'tools',
  ],
  store: [
    'accounts',
    'async',
    'credits',
    'conversation',
    'text',
    'errors',
    'notify',
    'observe',
    'payments',
    'responses',
    'version.ts',
  ],
  http: [
    'accounts',
    'async',
    'catalog',
    'chat',
    'connect',
    'conformance',
    'conversation',
    'text',
    'credits',
    'errors',
    'guide',
    'json',
    'notify',
    'observe',
    'payments',
    'protocols',
    'responses',
    'scheduler',
    'version.ts',
  ],
  // It runs in the browser: of the gateway it knows the types on the wire.
  console: ['credits', 'text', 'errors', 'http'],
  config: ['text', 'catalog', 'credits', 'guards', 'protocols', 'providers', 'accounts'],
}

/** Rooms at the rim, where the knot is tied. */
const anything = new Set(['cli', 'serve', 'release', 'main.ts', 'build.ts'])

describe('the house', () => {
  test('has source files to look at', () => {
    expect(files.length).toBeGreaterThan(50)
    expect(imports.length).toBeGreaterThan(200)
  })

  test('has no room that the rules do not know', () => {
    const unknown = [...new Set(files.map(roomOf))].filter(
      (room) => !(room in allowed) && !anything.has(room),
    )
    expect(unknown).toEqual([])
  })

  test('imports point inward', () => {
    const wrong = imports
      .filter(({ from, to }) => isOwn(to) && roomOf(from) !== roomOf(to) && !anything.has(roomOf(from)))
      .filter(({ to }) => !to.startsWith('..'))
      .filter(({ from, to }) => !allowed[roomOf(from)]?.includes(roomOf(to)))
      .map(
        ({ from, to }) =>
          `${from} imports ${to}: ${roomOf(from)} may import ${allowed[roomOf(from)]?.join(', ') || 'nothing'}`,
      )
    expect(wrong).toEqual([])
  })

  test('serve takes nothing from the command line', () => {
    const wrong = imports.filter(({ from, to }) => roomOf(from) === 'serve' && roomOf(to) === 'cli')
    expect(wrong).toEqual([])
  })

  test('no files need each other in a circle, be it for their types alone', () => {
    expect(circlesAmong(imports)).toEqual([])
  })

  test('the console takes nothing but types from the gateway, and how CSV is written', () => {
    const wrong = imports.filter(
      ({ from, to, typeOnly }) =>
        roomOf(from) === 'console' &&
        isOwn(to) &&
        roomOf(to) !== 'console' &&
        to !== 'text/text.ts' &&
        !typeOnly,
    )
    expect(wrong).toEqual([])
  })

  test('tools take only money from credits', () => {
    const wrong = imports.filter(
      ({ from, to }) => roomOf(from) === 'tools' && roomOf(to) === 'credits' && to !== 'credits/money.ts',
    )
    expect(wrong).toEqual([])
  })

  test('the console takes from http what it reads on the wire, and nothing else', () => {
    const taken = imports.filter(({ from, to }) => roomOf(from) === 'console' && roomOf(to) === 'http')
    const answers = ['admin', 'console', 'payments'].map((room) => `http/${room}/answers.ts`)
    expect([...new Set(taken.map(({ to }) => to))].toSorted()).toEqual(answers)
  })

  test('catalog takes only rates and money from credits', () => {
    const wrong = imports.filter(
      ({ from, to, typeOnly }) =>
        roomOf(from) === 'catalog' &&
        roomOf(to) === 'credits' &&
        !typeOnly &&
        to !== 'credits/money.ts' &&
        to !== 'credits/price.ts' &&
        to !== 'credits/pool.ts',
    )
    expect(wrong).toEqual([])
  })

  describe('a wire format is known to its protocol alone', () => {
    /** Whoever belongs to one protocol: its name is the folder's. */
    const members = new Set<string>([...protocolIds, 'openai-completions'])
    const memberOf = (path: string) => {
      const [room, folder = ''] = path.split('/')
      return room === 'protocols' && members.has(folder) ? folder : undefined
    }
    const ofMembers = imports.filter(({ to }) => memberOf(to) !== undefined)

    test('the routes know inbounds, the rows quirks, and nobody else any of it', () => {
      const known: Readonly<Record<string, RegExp>> = {
        http: /\/inbound\/|^protocols\/openai-completions\//,
        cli: /\/inbound\//,
        providers: /\/quirks\.ts$/,
      }
      const wrong = ofMembers
        .filter(({ from }) => roomOf(from) !== 'protocols')
        .filter(({ from, to }) => known[roomOf(from)]?.test(to) !== true)
      expect(wrong).toEqual([])
    })

    test('what several share imports none of them', () => {
      const wrong = ofMembers.filter(
        ({ from }) =>
          roomOf(from) === 'protocols' && memberOf(from) === undefined && from !== 'protocols/registry.ts',
      )
      expect(wrong).toEqual([])
    })

    test('protocols do not import each other, but for bodies that are read as those of chat completions', () => {
      const reads: Readonly<Record<string, RegExp>> = {
        'openai-completions': /^protocols\/openai-chat\/inbound\//,
        gemini: /^protocols\/openai-chat\/inbound\/inbound\.ts$/,
        // Its clients send fields of chat completions by mistake, which are told apart by their names.
        'openai-responses': /^protocols\/openai-chat\/inbound\/schema\.ts$/,
      }
      const wrong = ofMembers
        .filter(({ from, to }) => memberOf(from) !== undefined && memberOf(from) !== memberOf(to))
        .filter(({ from, to }) => reads[memberOf(from)!]?.test(to) !== true)
      expect(wrong).toEqual([])
    })
  })

  test.each([
    ['drizzle-orm', ['store'], 'only the store knows SQL'],
    ['bun:sqlite', ['store'], 'only the store knows SQL'],
    ['elysia', ['http', 'serve'], 'only the rim knows the HTTP framework'],
    ['marked', ['http', 'console'], 'Markdown is turned into HTML at the rim'],
    ['commander', ['cli', 'main.ts'], 'only the command line parses arguments'],
    ['@opentelemetry/api', ['observe'], 'traces are written through observe/traces.ts'],
    ['@logtape/logtape', ['observe'], 'logs are written through observe/log.ts'],
  ])('%s is imported only in %p: %s', (library, rooms) => {
    const wrong = imports
      .filter(({ to }) => to === library || to.startsWith(`${library}/`))
      .filter(({ from }) => !rooms.includes(roomOf(from)))
    expect(wrong.map(({ from }) => from)).toEqual([])
  })

  test('process.env is read only by the configuration', () => {
    const readers = files.filter(
      (file) =>
        roomOf(file) !== 'config' &&
        // It names a constant for the compiler.
        file !== 'console/build.ts' &&
        /\b(process|Bun)\.env\b/.test(readFileSync(join(source, file), 'utf8')),
    )
    expect(readers).toEqual([])
  })

  test('S7 nothing evaluates text as code, or starts a process but this program', () => {
    const suspicious = /\bBun\.spawn|\bchild_process\b|\beval\(|\bnew Function\(|\bvm\.run/
    // A release is built with git and xz; an upgrade asks the program that it has proven for its version.
    const starts = new Set([
      'build.ts',
      'serve/processes.ts',
      'release/release.ts',
      'cli/commands/upgrade.ts',
    ])
    const found = files.filter(
      (file) => !starts.has(file) && suspicious.test(readFileSync(join(source, file), 'utf8')),
    )
    expect(found).toEqual([])
  })

  test('S3 an address that a user can choose is reached only through src/egress', () => {
    // What these rooms call, the operator or the registry has named.
    // The console runs in the browser, whose policy lets it call its own gateway alone.
    const named = new Set(['cli', 'conformance', 'providers', 'serve', 'release', 'console'])
    const opens =
      /(?<![\w.#])fetch(?:Bounded)?\(|\bBun\.connect\b|\bnew WebSocket\(|\bnode:(?:https?|net|tls|http2)\b|\bXMLHttpRequest\b/
    const found = files.filter((file) => {
      const code = readFileSync(join(source, file), 'utf8')
        .replace(/^\s*(?:\/\/|\/?\*).*$/gm, '')
        // A server's own handler is called fetch as well.
        .replaceAll('fetch: (request) => fetch(request)', '')
      return !named.has(roomOf(file)) && opens.test(code)
    })
    expect(found).toEqual(['egress/egress.ts', 'transport/bounded-body.ts'])
  })

  test('the runtime unpacks no answer: it would do so ahead of the reader, however much comes of it', () => {
    const calls = files
      .filter((file) => roomOf(file) !== 'console')
      .flatMap((file) =>
        callsOfFetch(readFileSync(join(source, file), 'utf8')).map((call) => ({ file, call })),
      )
    expect(calls.filter(({ call }) => !/\bdecompress: (false|init\.decompress)/.test(call))).toEqual([])
    // Everything else asks by fetchBounded, which unpacks within a bound.
    expect([...new Set(calls.map(({ file }) => file))]).toEqual([
      'egress/egress.ts',
      'providers/upstream.ts',
      'transport/bounded-body.ts',
    ])
  })

  test('every request that leaves says how it goes: to this machine and to addresses of users never by a proxy', () => {
    const silent = files
      .filter((file) => roomOf(file) !== 'console')
      .flatMap((file) =>
        callsOfFetch(readFileSync(join(source, file), 'utf8')).map((call) => ({ file, call })),
      )
      .filter(({ call }) => !/\.\.\.((this\.#)?routeTo\(|direct\b)/.test(call))
    expect(silent).toEqual([])
  })

  test('no folder holds more than forty files', () => {
    const crowded = [...Map.groupBy(files, (file) => dirname(file))].filter(
      ([, within]) => within.length > 40,
    )
    expect(crowded.map(([folder]) => folder)).toEqual([])
  })

  test('files stay readable: none is longer than 800 lines', () => {
    const long = files
      .map((file) => [file, readFileSync(join(source, file), 'utf8').split('\n').length] as const)
      .filter(([, lines]) => lines > 800)
    expect(long).toEqual([])
  })

  test('no function is named by a participle alone: a name says what is done, or what comes back', () => {
    expect(files.flatMap((file) => participlesIn(readFileSync(join(source, file), 'utf8')))).toEqual([])
  })

  test.each([
    'function parsed(text: string) {',
    'function* joined<T>() {',
    'const told = (text: string): boolean => text.length > 0',
    'const kept = async <T,>(one: T) => one',
    'const checked: Check = ({ a }) => a',
    'const named = one => one',
    'class A {\n  async #opened(\n    id: string,\n  ): Promise<void> {',
    'interface A {\n  counted<T>(one: T): number\n}',
  ])('would notice %j', (code) => {
    expect(participlesIn(code)).toHaveLength(1)
  })

  test.each([
    'function feed(text: string) {',
    'const kept = list.map((one) => one)',
    'const kept = (before ?? after).length',
    'class A {\n  get finished(): boolean {',
    'function a() {\n  settled(one)\n  failed(() => {\n  })\n}',
  ])('lets %j be', (code) => {
    expect(participlesIn(code)).toEqual([])
  })

  test('each exported type has a name of its own', () => {
    const declared = files.flatMap((file) =>
      [
        ...readFileSync(join(source, file), 'utf8').matchAll(
          /^export (?:declare )?(?:abstract )?(?:interface|type|class|enum) (\w+)/gm,
        ),
      ].map(([, name]) => name!),
    )
    const twice = [...Map.groupBy(declared, (name) => name)].filter(([, all]) => all.length > 1)
    expect(twice.map(([name]) => name)).toEqual([])
  })

  test('the lock file holds no addresses', () => {
    expect(readFileSync(join(root, 'bun.lock'), 'utf8').includes('://')).toBe(false)
  })
})
