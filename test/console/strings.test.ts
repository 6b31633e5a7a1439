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

type Table = readonly [file: string, start: string, texts: RegExp]

const valueOf = /: '([^']+)'/g
const nameOf = /\bname: '([^']*)'/g
const keyOf = /\b(\w+): '/g
const firstOf = /\['([^']+)'/g
const lastOf = /'([^']+)'\]/g

const words = (text: string): readonly string[] => text.split(', ')
const placeNames: readonly Table[] = [
  ['shell.tsx', 'const places:', nameOf],
  ['shell.tsx', 'const operatorPlaces:', nameOf],
]
const poolNames: readonly Table[] = [['pages/words.tsx', 'const poolNames:', valueOf]]
const problems: readonly Table[] = [['pages/words.tsx', 'const problems:', valueOf]]
const reasons: readonly Table[] = [['pages/models.tsx', 'const reasons:', valueOf]]
const themeNames: readonly Table[] = [['ui/remembered.ts', 'const themeNames:', valueOf]]
const groupNames: readonly Table[] = [['pages/usage.tsx', 'const groupNames:', valueOf]]

/** Every text that is looked up by something other than itself: by its expression, the tables or words it may be. */
const indirect: Readonly<Record<string, readonly (Table | string)[]>> = {
  'states[turns.at(-1)!.answer.state]': [['chat/chat.tsx', 'const states:', valueOf]],
  'reasons[reason]': reasons,
  'poolNames[type]': poolNames,
  'poolNames[pool]': poolNames,
  'poolNames[pool as Pool] ?? pool': poolNames,
  'poolNames[lot.pool]': poolNames,
  'poolNames[row.pool] ?? row.pool': poolNames,
  'poolNames[first.pool]': poolNames,
  'poolNames[movement.pool]': poolNames,
  'poolRules[type]': [['pages/words.tsx', 'const poolRules:', valueOf]],
  'toolNames[tool.kind] ?? tool.kind': [['chat/turn-view.tsx', 'const toolNames:', valueOf]],
  'effortNames[each]': [['chat/conversation-settings.tsx', 'const effortNames:', valueOf]],
  'headings[heading]': [['chat/model-picker.tsx', 'const headings:', valueOf]],
  'kinds[group.kind]': [['palette.tsx', 'const kinds:', valueOf]],
  'themeNames[each]': themeNames,
  'themeNames[theme]': themeNames,
  'tool.state': words('running, done, failed'),
  'account.role': words('user, operator'),
  'group.role': words('admin, member'),
  'member.role': words('admin, member'),
  'windowNames[window]': [['pages/groups.tsx', 'const windowNames:', valueOf]],
  'health.state': words('healthy, degraded, unavailable'),
  'stateNames[settings.state]': [['operator/providers.tsx', 'const stateNames:', valueOf]],
  'standingNames[state] ?? state': [['operator/providers.tsx', 'const standingNames:', valueOf]],
  'pickNames[pick] ?? pick': [['operator/models.tsx', 'const pickNames:', valueOf]],
  'whyFirst[data.reason] ?? data.reason': [['pages/models.tsx', 'const whyFirst:', valueOf]],
  'standings[standing][1]': words('healthy, cooling down, not asked but once a second'),
  'kinds[kind]': [['operator/requests.tsx', 'const kinds:', valueOf]],
  'key.state': [['operator/management-keys.tsx', 'const tones:', keyOf]],
  'verdicts[verdict]': [['operator/support.tsx', 'const verdicts:', valueOf]],
  'differences[each]': [['operator/support.tsx', 'const differences:', valueOf]],
  'whoNames[by]': [['operator/support.tsx', 'const whoNames:', valueOf]],
  'problems[topUp.problem] ?? topUp.problem': problems,
  "problems[topUp.problem] ?? 'Something about this payment is not as it should be.'": [
    ...problems,
    'Something about this payment is not as it should be.',
  ],
  "reversal.kind.replace('_', ' ')": words('refund, refund failed, dispute open, dispute won, dispute lost'),
  'event.outcome': [['operator/payments.tsx', 'const outcomes:', keyOf]],
  "period.state.replace('_', ' ')": [['operator/payments.tsx', 'const subscriptionTones:', keyOf]],
  'voucher.state': [['operator/vouchers.tsx', 'const voucherTones:', keyOf]],
  name: [
    ['operator/accounts.tsx', 'const accountStates =', lastOf],
    ['operator/installation.tsx', 'const actKinds', valueOf],
    ['operator/payments.tsx', 'const topUpStateNames', valueOf],
    ['operator/models.tsx', 'const pickNames:', valueOf],
    ['operator/payments.tsx', 'const parts =', lastOf],
    ['pages/keys.tsx', 'const overlaps =', lastOf],
    ['pages/words.tsx', 'const states:', firstOf],
    ['pages/webhooks.tsx', 'const states:', firstOf],
    ['pages/webhooks.tsx', 'const events:', valueOf],
  ],
  'accessNames[kind]': [['pages/settings.tsx', 'const accessNames:', valueOf]],
  'here.name': placeNames,
  'place.name': placeNames,
  'actNames[kind]': [['pages/keys.tsx', 'const actNames', valueOf]],
  'actsOnKey[kind]': [['pages/keys.tsx', 'const actsOnKey', valueOf]],
  'spentOf[window]': [['pages/key-row.tsx', 'const spentOf', valueOf]],
  about: [['pages/keys.tsx', 'const ways', lastOf]],
  'model.access': words('open, premium'),
  'kindNames[total.kind]': [['pages/payments.tsx', 'const kindNames:', valueOf]],
  'kindNames[movement.kind]': [['pages/payments.tsx', 'const kindNames:', valueOf]],
  'outcomeNames[outcome]': [['pages/requests.tsx', 'const outcomeNames', valueOf]],
  'page[1]': [['pages/requests.tsx', 'const actPages:', lastOf]],
  known: [
    ['pages/credits.tsx', 'const sourceNames', valueOf],
    ['pages/payments.tsx', 'const kindNames:', valueOf],
  ],
  'phaseNames[call.phase]': [['pages/requests.tsx', 'const phaseNames', valueOf]],
  "refusals[refused] ?? 'The single sign-on failed: {code}.'": [
    ['pages/settings.tsx', 'const refusals:', valueOf],
    'The single sign-on failed: {code}.',
  ],
  text: [
    ['pages/usage.tsx', 'const groups:', lastOf],
    ['pages/usage.tsx', 'const measures', lastOf],
  ],
  "unnamed[by] ?? 'none'": [['pages/usage.tsx', 'const unnamed', valueOf], 'none'],
  "groupNames[by] ?? 'Value of the tag'": [...groupNames, 'Value of the tag'],
  'measureNames[measure]': [['pages/usage.tsx', 'const measures', lastOf]],
  'conditionNames[name]': [['pages/usage.tsx', 'const conditionNames', valueOf]],
  done: words('Copied, Not copied'),
}

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

/** The expressions that are given to `t` in a source in place of a text. */
function expressions(source: string): string[] {
  return [...source.matchAll(/\bt\((?!\s*')/g)].map(({ index }) => {
    const rest = source.slice(index + 2)
    let depth = 0
    const end = [...rest].findIndex((character) => {
      const closes = depth === 0 && /[),]/.test(character)
      if (/[([{]/.test(character)) depth++
      if (/[)\]}]/.test(character)) depth--
      return closes
    })
    return rest.slice(0, end).trim()
  })
}

function textsOf(from: Table | string): string[] {
  if (typeof from === 'string') return [from]
  const [file, start, texts] = from
  const source = sources.get(file) ?? ''
  const at = source.indexOf(start)
  if (at === -1) throw new Error(`${file} has no ${start}`)
  const [whole] = /[^]*?(?:\n[\]}]|\} as const\n)/.exec(source.slice(at))!
  const body = whole.slice(whole.indexOf(' = ') + 3)
  return [...body.matchAll(texts)].map(([, text]) => (texts === keyOf ? text!.replaceAll('_', ' ') : text!))
}

test('the scan finds strings in calls, in place of them expressions, and tables', () => {
  expect(direct(`t('One {x}', { x }) counted(n, '{count} cat', '{count} cats') await(t(\n 'Two'))`)).toEqual([
    'One {x}',
    '{count} cat',
    '{count} cats',
    'Two',
  ])
  expect(expressions(`t('One') + t(names[of(a, b)], { x }) + t(it.replace('_', ' '))`)).toEqual([
    'names[of(a, b)]',
    "it.replace('_', ' ')",
  ])
  for (const table of Object.values(indirect).flat())
    expect(textsOf(table).length, table.toString()).toBeGreaterThan(typeof table === 'string' ? 0 : 2)
})

test('every string of the pages has a Hindi text', () => {
  const wanted = [...sources.values()].flatMap(direct)
  const tables = Object.values(indirect).flat().flatMap(textsOf)
  const missing = [...new Set([...wanted, ...tables])].filter((text) => !Object.hasOwn(hi, text))
  expect(missing).toEqual([])
})

test('it is known which texts are looked up by an expression', () => {
  const found = [...sources]
    .filter(([name]) => !name.startsWith('strings/'))
    .flatMap(([, source]) => expressions(source))
  expect([...new Set(found)].toSorted()).toEqual(Object.keys(indirect).toSorted())
})

test('what is translated stands in the pages', () => {
  const all = new Set(
    [...sources.values()].flatMap((source) => [...source.matchAll(quoted)].map(([, text]) => text!)),
  )
  for (const text of Object.values(indirect).flat().flatMap(textsOf)) all.add(text)
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
