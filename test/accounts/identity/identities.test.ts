// Signing in as time passes: proofs go stale, links and sessions end, tries become scarce, passwords cost time.

import { afterAll, afterEach, beforeEach, describe, expect, spyOn, test } from 'bun:test'
import type { Account } from '../../../src/accounts/account.ts'
import { isAddress, personOf, SmtpMailer } from '../../../src/accounts/identity/mail.ts'
import {
  isNetwork,
  isWithin,
  networkOf,
  requireWithin,
  SignInLimits,
  WindowLimit,
} from '../../../src/accounts/identity/sign-in-limits.ts'
import { elevationMs, Identities, isElevated } from '../../../src/accounts/identity/identities.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import { passwordFault, Passwords } from '../../../src/accounts/identity/password.ts'
import { mintTicket, ticketIdOf, ticketLife } from '../../../src/accounts/identity/identity-store.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import { noon } from '../../credits/support.ts'
import { startSmtpSink } from '../../support/smtp-sink.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'

const password = 'a river runs through it'
const visitor = { network: '203.0.113.0/24', userAgent: null }
const minute = 60_000

// A hash takes long on purpose, and is not what these tests are about.
let hash = spyOn(Bun.password, 'hash')
let verify = spyOn(Bun.password, 'verify')
afterAll(() => {
  hash.mockRestore()
  verify.mockRestore()
})

let dir: TempDir
let store: Store
let now = noon
let identities: Identities

let unverified: 'allow' | 'deny'

beforeEach(async () => {
  unverified = 'allow'
  hash = spyOn(Bun.password, 'hash')
  verify = spyOn(Bun.password, 'verify')
  hash.mockImplementation((text) => Promise.resolve(`hash of ${String(text)}`))
  verify.mockImplementation((text, of) => Promise.resolve(String(of) === `hash of ${String(text)}`))
  dir = tempDir('weir-sign-in-')
  now = noon
  store = await openStore(dir.path, { clock: () => now })
  identities = new Identities({
    accounts: store.accounts,
    identities: store.identities,
    passwords: new Passwords(),
    attempts: new SignInLimits(
      {
        signInFailures: 5,
        signInFailuresPerNetwork: 50,
        signUpsPerNetwork: 5,
        signUps: 50,
        mailsPerAddress: 3,
      },
      () => now,
    ),
    ways: { passwords: true, passkeys: true },
    mailer: undefined,
    signUp: 'open',
    get unverified() {
      return unverified
    },
    sessionIdleMs: 60 * minute,
    now: () => now,
    consoleUrl: () => 'http://localhost/console',
    admitted: () => undefined,
    failed: (message, error) => {
      throw new Error(message, { cause: error })
    },
  })
})

afterEach(async () => {
  await store.close()
  dir.remove()
})

async function member(email = 'anna@example.org'): Promise<Account> {
  await identities.signUp(email, password, visitor)
  return (await store.accounts.findAccount(email))!
}

const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    (error: { code: string }) => error.code,
  )

test('a proof of identity is fresh for ten minutes, and can be given again', async () => {
  const account = await member()
  const { session } = await identities.signIn(account.email, password, visitor)
  expect(isElevated(session, now + elevationMs - 1)).toBe(true)
  now += elevationMs
  expect(isElevated(session, now)).toBe(false)
  expect(await codeOf(identities.elevate(account, session, 'not the password', visitor))).toBe(
    'wrong_credentials',
  )
  await identities.elevate(account, session, password, visitor)
  expect(isElevated((await store.accounts.findSession(session.id))!, now)).toBe(true)
})

test.each(['link', 'invitation'] as const)('a %s is of no use once its time is over', async (kind) => {
  const account = await member()
  const [early, late] = [await identities.linkFor(kind, account), undefined]
  expect(late).toBeUndefined()
  const token = new URL(early.url).hash.slice(1)
  expect(early.expiresAt).toBe(noon + ticketLife[kind])
  now += ticketLife[kind]
  expect(await codeOf(identities.follow(token, visitor))).toBe('invalid_ticket')
  const again = await identities.linkFor(kind, account)
  now += ticketLife[kind] - 1
  expect(await codeOf(identities.follow(new URL(again.url).hash.slice(1), visitor))).toBe('done')
})

test('S26 a mistyped token is known by its checksum alone, without a look into the database', async () => {
  const { text } = mintTicket('link', null, noon)
  const last = text.slice(-1) === 'a' ? 'b' : 'a'
  expect(ticketIdOf(text)).toHaveLength(12)
  expect(ticketIdOf(text.slice(0, -1) + last)).toBeUndefined()
  expect(text.split('-').at(-1)!.length).toBe(33 + 6)
})

describe('S24 tries', () => {
  test('of one address from one network are ten in fifteen minutes, and each waits longer than the last', async () => {
    await member()
    let wrong = 0
    for (; now < noon + 15 * minute; now += 1_000)
      if (
        (await codeOf(identities.signIn('anna@example.org', 'not the password', visitor))) ===
        'wrong_credentials'
      )
        wrong++
    expect(wrong).toBe(10)
    const elsewhere = { ...visitor, network: '198.51.100.0/24' }
    expect(await codeOf(identities.signIn('anna@example.org', password, elsewhere))).toBe('done')
    now += 15 * minute
    expect(await codeOf(identities.signIn('anna@example.org', password, visitor))).toBe('done')
  }, 30_000)

  test('are not shut out by a clock that is set back', async () => {
    await member()
    for (let n = 0; n < 6; n++)
      await codeOf(identities.signIn('anna@example.org', 'not the password', visitor))
    for (let n = 1; n < 5; n++) await member(`a${n}@example.org`)
    expect(await codeOf(identities.signIn('anna@example.org', password, visitor))).toBe('rate_limit_exceeded')
    expect(await codeOf(identities.signUp('b@example.org', password, visitor))).toBe('rate_limit_exceeded')
    now -= 24 * 60 * minute
    expect(await codeOf(identities.signIn('anna@example.org', password, visitor))).toBe('done')
    expect(await codeOf(identities.signUp('b@example.org', password, visitor))).toBe('done')
  }, 30_000)

  test('of many addresses from one network are limited, too', async () => {
    const codes = new Map<string, number>()
    for (let n = 0; n < 60; n++) {
      const code = await codeOf(identities.signIn(`nobody-${n}@example.org`, 'not the password', visitor))
      codes.set(code, (codes.get(code) ?? 0) + 1)
    }
    expect(Object.fromEntries(codes)).toEqual({ wrong_credentials: 50, rate_limit_exceeded: 10 })
  }, 30_000)

  test('to open accounts are five an hour from one network', async () => {
    for (let n = 0; n < 5; n++) await member(`a${n}@example.org`)
    expect(await codeOf(identities.signUp('b@example.org', password, visitor))).toBe('rate_limit_exceeded')
    now += 60 * minute
    expect(await codeOf(identities.signUp('b@example.org', password, visitor))).toBe('done')
  })
})

test('passwords are hashed two at a time, at most 66 wait or run, and half of them for one network', async () => {
  let [running, most] = [0, 0]
  verify.mockImplementation(async () => {
    most = Math.max(most, (running += 1))
    await new Promise(setImmediate)
    running -= 1
    return false
  })
  const passwords = new Passwords()
  const tried = (times: number, network: string) =>
    Array.from({ length: times }, () => codeOf(passwords.matches('x', null, network)))
  const ended: string[] = []
  const one = tried(80, 'one')
  const other = tried(1, 'other')
  void Promise.all(one).then(() => ended.push('one'))
  void Promise.all(other).then(() => ended.push('other'))
  const more = ['c', 'd', 'e', 'f', 'g', 'h', 'i'].flatMap((network) => tried(30, network))
  const answers = await Promise.all(one)
  expect(answers.filter((code) => code === 'rate_limit_exceeded')).toHaveLength(80 - 33)
  // It waits for one turn of the others, and not for all of them.
  expect([await Promise.all(other), ended[0]]).toEqual([['done'], 'other'])
  expect((await Promise.all(more)).filter((code) => code === 'done').length).toBeLessThanOrEqual(66 - 34)
  expect(most).toBe(2)
})

test('a password is known by its hash, however its letters are put together', async () => {
  hash.mockRestore()
  verify.mockRestore()
  const passwords = new Passwords()
  const known = await passwords.hash('river', 'one')
  expect(known).toStartWith('$argon2id$v=19$m=19456,t=2,p=1$')
  expect(await passwords.matches('river', known, 'one')).toBe(true)
  expect(await passwords.matches('rivers', known, 'one')).toBe(false)
  const accented = await passwords.hash('r\u00edver', 'one')
  expect(await passwords.matches('ri\u0301ver', accented, 'one')).toBe(true)
})

test('a window lets so many through, and as many again when it is over', () => {
  const limit = new WindowLimit(2, minute, () => now)
  expect([limit.take('a'), limit.take('a'), limit.take('a'), limit.take('b')]).toEqual([0, 0, minute, 0])
  now += minute
  expect(limit.take('a')).toBe(0)
})

test.each([
  ['anna@example.org', 'Anna@Example.org ', true],
  ['anna+weir@example.org', 'anna@example.org', true],
  ['an.na@gmail.com', 'anna+x@googlemail.com', true],
  ['an.na@example.org', 'anna@example.org', false],
  ['an.na@outlook.com', 'anna@outlook.com', false],
  ['an_n.a@proton.me', 'An-na+x@pm.me', true],
  ['anna.b@yandex.ru', 'anna-b@ya.ru', true],
  ['annab@yandex.ru', 'anna-b@ya.ru', false],
  ['anna+shop@me.com', 'anna@icloud.com', true],
  ['anna-shop@yahoo.com', 'anna-news@yahoo.com', true],
  ['anna@yahoo.com', 'berta@yahoo.com', false],
  ['+anna@example.org', '+berta@example.org', false],
  ['anna@gmail.com', 'anna@\u{1d406}mail.com', true],
  ['anna@münchen.example', 'anna@xn--mnchen-3ya.example', true],
])('%p and %p are one person: %p', (one, other, same) => {
  expect(personOf(one) === personOf(other)).toBe(same)
})

test.each([
  ['anna@example.org', true],
  ["Anna.O'Neil+weir@example.org", true],
  ['owner@localhost', true],
  ['आना@भारत.भारत', true],
  ['anna@xn--mnchen-3ya.example', true],
  // A mail program reads each of these as anna@example.org.
  ['x,anna@example.org', false],
  ['x;anna@example.org', false],
  ['x<anna@example.org>', false],
  ['(x)anna@example.org', false],
  ['x:anna@example.org', false],
  ['"anna"@example.org', false],
  ['anna@example.org,x', false],
  ['anna@example.org.', false],
  ['anna@example\u3002org', false],
  ['anna@ex\u00adample.org', false],
  ['anna@exam\ufe0fple.org', false],
  ['anna@ｅxample.org', false],
  ['anna', false],
  ['@example.org', false],
  ['anna@', false],
  ['anna@berta@example.org', false],
])('%p is an address: %p', (text, is) => {
  expect(isAddress(text)).toBe(is)
})

test('a mail goes to one address, whatever stands in it', async () => {
  const sink = startSmtpSink()
  try {
    const mailer = new SmtpMailer({ sender: null, url: sink.url, from: 'weir@example.org', timeoutMs: 5_000 })
    await mailer.send({ to: 'berta,anna@example.org', subject: 'A river', text: 'runs' })
    expect(sink.mails[0]).toContain('To: <"berta,anna"@example.org>')
  } finally {
    sink.stop()
  }
})

test.each([
  ['203.0.113.77', '203.0.113.0/24'],
  ['::ffff:203.0.113.77', '203.0.113.0/24'],
  ['2001:db8:1:2ff:3::4', '2001:db8:1:200::/56'],
  ['', 'unknown'],
  ['localhost', 'unknown'],
])('%p is of the network %p', (address, network) => {
  expect(networkOf(address)).toBe(network)
})

test.each([
  ['10.1.2.3', ['10.0.0.0/8'], true],
  ['::ffff:10.1.2.3', ['10.0.0.0/8'], true],
  ['11.1.2.3', ['10.0.0.0/8', '11.1.2.3'], true],
  ['11.1.2.4', ['10.0.0.0/8', '11.1.2.3'], false],
  ['2001:db8::1', ['2001:db8::/32'], true],
  ['', ['0.0.0.0/0'], false],
  // Short forms that older versions stored for keys: none allows what was not meant.
  ['10.1.2.3', ['10/8'], false],
  ['0.1.2.3', ['10/8'], false],
  ['192.0.77.1', ['192.168/16'], false],
  ['172.5.0.1', ['172.16/12'], false],
  ['10.0.0.1', ['10.1'], false],
  ['8.0.0.1', ['010.0.0.1'], false],
  ['11.1.2.3', ['10/8', '11.0.0.0/8'], true],
  ['10.1.2.3', ['::ffff:10.0.0.0/104'], true],
  ['::ffff:10.1.2.3', ['::ffff:10.0.0.0/104'], true],
  ['11.1.2.3', ['::ffff:10.0.0.0/104'], false],
  ['10.1.2.3', ['::ffff:10.1.2.3'], true],
])('%p is within %p: %p', (address, ranges, within) => {
  expect(isWithin(address, ranges)).toBe(within)
})

test('a key whose networks are stored in a short form is refused, and told why', () => {
  expect(() => requireWithin('10.1.2.3', ['10.0.0.0/8'], {})).not.toThrow()
  expect(() => requireWithin('11.1.2.3', ['10.0.0.0/8'], {})).toThrow(GatewayError)
  expect(() => requireWithin('10.1.2.3', ['10/8'], {})).toThrow('short form such as 10/8')
})

test.each([
  ['10.0.0.0/8', true],
  ['203.0.113.7', true],
  ['2001:db8::/32', true],
  ['::1', true],
  ['10/8', false],
  ['10.0.0/8', false],
  ['10', false],
  ['010.0.0.1', false],
  ['10.0.0.0/33', false],
  ['localhost', false],
])('%p is a network: %p', (text, is) => {
  expect(isNetwork(text)).toBe(is)
})

test('a new password voids the links that were sent to set one', async () => {
  const account = await member()
  const { session } = await identities.signIn(account.email, password, visitor)
  const { url } = await identities.linkFor('reset', account)
  const wanted = { password: 'a new river', current: password }
  await identities.changePassword(account, session, wanted, visitor)
  const token = new URL(url).hash.slice(1)
  expect(await codeOf(identities.confirmReset(token, 'an older river', visitor))).toBe('invalid_ticket')
  expect(await codeOf(identities.signIn(account.email, 'a new river', visitor))).toBe('done')
})

test.each([
  ['too short', 'ünwahr-1', 'at least 10'],
  ['too long', 'x1-'.repeat(50), 'at most 128'],
  ['one of the commonest', 'Basketball', 'guess'],
  ['the address', 'anna.maria@example.org', 'address'],
  ['a name of the address', 'ANNA.MARIA', 'address'],
  ['of three letters', 'abcabcabcabc', 'guess'],
])('a password that is %s is refused: %p', async (_what, text, reason) => {
  expect(await passwordFault(text, 'anna.maria@example.org')).toContain(reason)
})

test('a long phrase in any script is a password', async () => {
  for (const text of [
    'a river runs through',
    'नदी बहती रहती है यहाँ',
    '川が流れている長い夜に',
    '🌊🏞️🐟🚣🌧️🪨🌲🦆🛶🌅',
  ])
    expect(await passwordFault(text, 'anna@example.org')).toBeUndefined()
})
