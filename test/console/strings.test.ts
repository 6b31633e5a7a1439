// Every translated string is one that the pages have, with the same values in it.

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { hi } from '../../src/console/strings/hi.ts'

const folder = resolve(import.meta.dir, '../../src/console')
const sources = [...new Bun.Glob('**/*.{ts,tsx}').scanSync({ cwd: folder })]
  .filter((name) => name !== 'strings/hi.ts')
  .map((name) => readFileSync(join(folder, name), 'utf8'))
  .join('\n')

test('what is translated stands in the pages', () => {
  const unknown = Object.keys(hi).filter((english) => !sources.includes(`'${english}'`))
  expect(unknown).toEqual([])
})

test('a translation has the values of its string', () => {
  const valuesIn = (text: string) => (text.match(/\{\w+\}/g) ?? []).toSorted()
  const wrong = Object.entries(hi).filter(([english, text]) => `${valuesIn(english)}` !== `${valuesIn(text)}`)
  expect(wrong).toEqual([])
})
