// The Hindi catalogue has exactly the strings of the pages, with the same values in them.

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { hi, parts } from '../../src/console/strings/hi.ts'

const folder = resolve(import.meta.dir, '../../src/console')
const sources = new Map(
  [...new Bun.Glob('**/*.{ts,tsx}').scanSync({ cwd: folder })]
    .filter((name) => !name.startsWith('strings/hi'))
    .map((name) => [name, readFileSync(join(folder, name), 'utf8')]),
)

/** What is translated as a whole: folders, and files by their full names. */
const translated = ['app.tsx', 'crash-guard.tsx', 'shell.tsx', 'api/', 'chat/', 'pages/', 'session/', 'ui/']

/** Tables whose texts are given to `t` by a name: the start of each, up to the first line that closes it. */
const tables: readonly (readonly [file: string, start: string])[] = [
  ['shell.tsx', 'const places:'],
  ['shell.tsx', 'const operatorPlaces:'],
  ['pages/credits/pools.ts', 'const poolNames:'],
  ['pages/reasons.ts', 'const reasons:'],
  ['pages/usage/usage.tsx', 'const groupNames:'],
  ['pages/credits/pools.ts', 'const poolRules:'],
  ['pages/payments/words.tsx', 'const processorNames:'],
  ['pages/payments/words.tsx', 'const problems:'],
  ['pages/payments/statement.tsx', 'const kindNames:'],
  ['pages/single-sign-on.tsx', 'const refusals:'],
  ['pages/webhooks.tsx', 'const events:'],
  ['chat/chat.tsx', 'const states:'],
  ['chat/turn.tsx', 'const toolNames:'],
]

const quoted = /'((?:[^'\\\n]|\\.)*)'/g
const literal = /^\s*'((?:[^'\\\n]|\\.)*)'/

/** The quoted texts that are given to `t` and `counted` in a source. */
function direct(source: string): string[] {
  const found: string[] = []
  for (const { index, 0: call } of source.matchAll(/\b(?:t|counted)\(/g)) {
    const rest = source.slice(index + call.length)
    if (call === 't(') found.push(...(literal.exec(rest)?.slice(1, 2) ?? []))
    else found.push(...(/^[^']*'([^']*)',\s*'([^']*)'/.exec(rest)?.slice(1, 3) ?? []))
  }
  return found
}

/** The texts of a table; of a table of objects, those of their `name`. */
function textsOf([file, start]: readonly [string, string]): string[] {
  const source = sources.get(file) ?? ''
  const from = source.indexOf(start)
  if (from === -1) throw new Error(`${file} has no ${start}`)
  const [table = ''] = /[^]*?\n[\]}]/.exec(source.slice(from)) ?? []
  const body = table.slice(table.indexOf('\n'))
  const names = [...body.matchAll(/\bname: '([^']*)'/g)].map(([, name]) => name!)
  return names.length > 0 ? names : [...body.matchAll(/: '([^']+)'/g)].map(([, text]) => text!)
}

test('the scan finds strings in calls and in tables', () => {
  expect(direct(`t('One {x}', { x }) counted(n, '{count} cat', '{count} cats') await(t(\n 'Two'))`)).toEqual([
    'One {x}',
    '{count} cat',
    '{count} cats',
    'Two',
  ])
  for (const table of tables) expect(textsOf(table).length, table.join(' ')).toBeGreaterThan(2)
})

test('every string of the translated pages has a Hindi text', () => {
  const wanted = [...sources]
    .filter(([name]) => translated.some((part) => name.startsWith(part)))
    .flatMap(([, source]) => direct(source))
  const missing = [...new Set([...wanted, ...tables.flatMap(textsOf)])].filter(
    (text) => !Object.hasOwn(hi, text),
  )
  expect(missing).toEqual([])
})

test('what is translated stands in the pages', () => {
  const all = new Set(
    [...sources.values()].flatMap((source) => [...source.matchAll(quoted)].map(([, text]) => text!)),
  )
  expect(Object.keys(hi).filter((english) => !all.has(english))).toEqual([])
})

test('no two parts of the catalogue have the same string', () => {
  const keys = parts.flatMap((part) => Object.keys(part))
  expect(keys.filter((key, at) => keys.indexOf(key) !== at)).toEqual([])
})

test('a translation has the values of its string', () => {
  const valuesIn = (text: string) => (text.match(/\{\w+\}/g) ?? []).toSorted()
  const wrong = Object.entries(hi).filter(([english, text]) => `${valuesIn(english)}` !== `${valuesIn(text)}`)
  expect(wrong).toEqual([])
})
