// What `weir serve` loads before its first answer. Each package and each schema more is time of every start and memory
// for as long as it runs; the rest is loaded when it is first used.

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { dirname, relative, resolve } from 'node:path'

const root = resolve(import.meta.dir, '../..')
const transpiler = new Bun.Transpiler({ loader: 'ts' })

/** Files of ours and packages that are imported from a file, and from those in turn, when it is loaded. */
function loadedWith(...entries: readonly string[]): {
  files: readonly string[]
  packages: readonly string[]
  builtin: ReadonlySet<string>
} {
  const files = new Set(entries.map((entry) => resolve(root, entry)))
  const packages = new Set<string>()
  const builtin = new Set<string>()
  for (const file of files) {
    if (!file.endsWith('.ts')) continue
    for (const { path, kind } of transpiler.scanImports(readFileSync(file, 'utf8'))) {
      if (kind === 'dynamic-import') continue
      if (/^(node|bun)(:|$)/.test(path)) builtin.add(path)
      else if (path.startsWith('.')) files.add(resolve(dirname(file), path))
      else packages.add(/^(@[^/]+\/)?[^/]+/.exec(path)![0])
    }
  }
  return {
    files: [...files].map((file) => relative(root, file)),
    packages: [...packages].toSorted(),
    builtin,
  }
}

const loaded = loadedWith(
  'src/main.ts',
  'src/cli/program.ts',
  'src/config/config.ts',
  'src/cli/commands/serve.ts',
  'src/serve/start.ts',
)

test('the gateway starts with these packages and no more', () => {
  expect(loaded.packages).toEqual([
    '@logtape/logtape',
    'aws4fetch',
    'commander',
    'elysia',
    'eventsource-parser',
    'ipaddr.js',
    'lru-cache',
    'yaml',
    'zod',
  ])
})

test('no module of the runtime is loaded for compression', () => {
  expect(loaded.builtin).not.toContain('node:zlib')
})

test.each([
  ['the console and its API', /^src\/(console|http\/admin)\/|^src\/http\/console\/(?!route\.ts$)/],
  ['its documentation', /^src\/http\/docs\/|documentation\.ts$/],
  ['schemas of its documentation', /(answer|models)-schema\.ts$|openai-completions\/schema\.ts$/],
  ['other commands', /^src\/cli\/commands\/(?!serve\.ts$)/],
  ['what starts several processes', /^src\/serve\/processes\.ts$/],
  ['the simulated provider', /^src\/providers\/simulator\/(?!abilities\.ts$)/],
  ["Apple's notifications", /^src\/payments\/apple\.ts$/],
])('the gateway starts without %s', (_, unwanted) => {
  expect(loaded.files.filter((file) => unwanted.test(file))).toEqual([])
})
