// S26: the form of keys.

import { expect, test } from 'bun:test'
import { matches, mintKey, readKey, mintSession, sessionIdOf } from '../../src/accounts/account.ts'

test.each(['live', 'test'] as const)(
  'a minted %s key has the announced form, reads back and matches its hash alone',
  (mode) => {
    const key = mintKey(mode)
    expect(key.text).toMatch(new RegExp(`^sk-weir-${mode}-[0-9A-Za-z]{12}-[0-9A-Za-z]{39}$`))
    expect(readKey(key.text)).toEqual({ kind: 'key', id: key.id, mode })
    expect(matches(key, key.text)).toBe(true)
    expect(matches(key, mintKey(mode).text)).toBe(false)
    expect(key.lastFour).toBe(key.text.slice(-4))
    expect(JSON.stringify({ ...key, text: '' })).not.toContain(key.text.slice(25, 55))
  },
)

test('every mistyped character is caught by the checksum, without a database', () => {
  const { text } = mintKey('live')
  const start = 'sk-weir-live-'.length
  for (let at = start; at < text.length; at++) {
    if (text[at] === '-') continue
    const typo = text.slice(0, at) + (text[at] === 'a' ? 'b' : 'a') + text.slice(at + 1)
    expect(readKey(typo)).toEqual({ kind: 'malformed', reason: 'checksum' })
  }
})

test.each([
  '',
  'sk-proj-abc',
  "' OR 1=1--",
  mintKey('live').text.slice(0, -1),
  mintKey('live').text + 'a',
  ` ${mintKey('live').text}`,
  `${mintKey('live').text}\n`,
  mintKey('live').text.replace('live', 'prod'),
  mintKey('live').text.toUpperCase(),
])('%p is not a key', (text) => {
  expect(readKey(text).kind).toBe('malformed')
})

test('S6: a key is all of its characters: one that shares the first forty with another is not the other', () => {
  const key = mintKey('live')
  const other = key.text.slice(0, 40) + mintKey('live').text.slice(40)
  expect(other).toHaveLength(key.text.length)
  expect(matches(key, other)).toBe(false)
  expect(matches(key, key.text.slice(0, 40))).toBe(false)
  expect(matches(key, key.text)).toBe(true)
})

// Session tokens: their form, and that nothing but their hash is needed to know them again.

test('a minted token has the announced form, reads back and matches its hash alone', () => {
  const session = mintSession()
  expect(session.text).toMatch(/^ws-weir-[0-9A-Za-z]{12}-[0-9A-Za-z]{39}$/)
  expect(sessionIdOf(session.text)).toBe(session.id)
  expect(matches(session, session.text)).toBe(true)
  expect(matches(session, mintSession().text)).toBe(false)
})

test.each([
  ['', 'nothing'],
  ['ws-weir-abc', 'a stump'],
  [mintKey('live').text, 'an API key'],
  [`${mintSession().text}x`, 'one character too many'],
  [mintSession().text.replace('ws-weir', 'ws-wier'), 'another prefix'],
  [mintSession().text.replace(/.$/, '!'), 'a foreign character'],
])('%p is no token: %s', (text) => {
  expect(sessionIdOf(text)).toBeUndefined()
})
