// Session tokens: their form, and that nothing but their hash is needed to know them again.

import { expect, test } from 'bun:test'
import { matches, mintKey, mintSession, sessionIdOf } from '../../src/accounts/account.ts'

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
