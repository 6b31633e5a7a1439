// The frame of the console: the command palette, the theme, and what is folded. All is remembered by the browser.

import { expect, test } from 'bun:test'
import { findByName } from '../../src/console/palette.tsx'

test.each([
  ['ke', ['Keys', 'Management keys', 'Tokens kept']],
  ['  KEYS ', ['Keys', 'Management keys']],
  ['key man', ['Management keys']],
  ['', ['Keys', 'Management keys', 'Tokens kept']],
  ['nothing', []],
])('%p finds %p', (typed, names) => {
  const all = ['Management keys', 'Tokens kept', 'Keys'].map((name) => ({
    id: name,
    name,
    run: () => undefined,
  }))
  const found = findByName(all, typed).map(({ name }) => name)
  expect(typed.trim() === '' ? found.toSorted() : found).toEqual(names)
})
