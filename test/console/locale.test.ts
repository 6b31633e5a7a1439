// Numbers, amounts and dates are written as the browser writes them.

import { afterAll, expect, test } from 'bun:test'

const before = { navigator: globalThis.navigator, localStorage: globalThis.localStorage }

afterAll(() => {
  for (const [name, value] of Object.entries(before))
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true })
})

async function written(languages: readonly string[], chosen: string | null = null) {
  Object.defineProperty(globalThis, 'navigator', { value: { languages }, configurable: true, writable: true })
  Object.defineProperty(globalThis, 'localStorage', {
    value: { getItem: () => chosen },
    configurable: true,
    writable: true,
  })
  const text: typeof import('../../src/console/strings/text.ts') = await import(
    `../../src/console/strings/text.ts?${languages.join()}${chosen}`
  )
  return [text.count(353_379), text.usd('1234567.5'), text.day('2026-11-28')]
}

test.each([
  [['en-US', 'hi'], null, ['353,379', '$1,234,567.50', 'Nov 28, 2026']],
  [['en-IN'], null, ['3,53,379', '$12,34,567.50', '28 Nov 2026']],
  [['de-DE'], null, ['353,379', '$1,234,567.50', '28 Nov 2026']],
  [['hi'], null, ['3,53,379', '$12,34,567.50', '28 नव॰ 2026']],
  // Hindi chosen in a browser that does not know it.
  [['en-US'], 'hi', ['3,53,379', '$12,34,567.50', '28 नव॰ 2026']],
] as const)('with %j and %j chosen', async (languages, chosen, expected) => {
  expect(await written(languages, chosen)).toEqual([...expected])
})
