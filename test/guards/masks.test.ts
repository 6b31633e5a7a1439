// What masks find, and what looks like it and is not; and that it does not matter where a text is cut.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { readExpression } from '../../src/guards/expression.ts'
import {
  isAadhaar,
  isCard,
  type Mask,
  MaskedText,
  maskJsonSteps,
  maskSteps,
  type MaskShape,
  shapes,
} from '../../src/guards/masks.ts'

const all: readonly Mask[] = shapes.map((name) => ({ name, find: name, replacement: `[${name}]` }))
const none = () => undefined

function mask(text: string, masks: readonly Mask[] = all, cuts: readonly number[] = []): string {
  const masked = new MaskedText(masks, none)
  let out = ''
  let from = 0
  for (const to of [...cuts, text.length].toSorted((a, b) => a - b)) {
    out += masked.push(text.slice(from, to))
    from = to
  }
  return out + masked.end()
}

function runAll<Result>(steps: Generator<void, Result, void>): Result {
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
  }
}

/** Keys are put together here, so that no scanner of repositories takes them for real. */
const letters = 'abcdefghijklmnopqrstuvwxyz0123456789'.repeat(4)

const found: Readonly<Record<MaskShape, readonly string[]>> = {
  email: [
    'ada@example.com',
    'ada.lovelace+notes@mail.example.co.uk',
    'a@b.io',
    'müller@exämple.de',
    'user@xn--80ak6aa92e.xn--p1ai',
    'ADA_L@EXAMPLE.ORG',
  ],
  card: [
    '4111111111111111',
    '4111 1111 1111 1111',
    '4111-1111-1111-1111',
    '5555555555554444',
    '3782 822463 10005',
    '6011111111111117',
    '30569309025904',
    '6011 0009 9013 9424',
    '2223003122003222',
  ],
  phone: [
    '+91 98765 43210',
    '+1 (415) 555-2671',
    '+442071838750',
    '+49 30 901820',
    '9876543210',
    '098765 43210',
    '(415) 555-2671',
    '415-555-2671',
  ],
  aadhaar: ['2341 2341 2346', '234123412346', '2341-2341-2346'],
  pan: ['ABCPE1234F', 'abcpe1234f'],
  iban: [
    'DE89370400440532013000',
    'DE89 3704 0044 0532 0130 00',
    'GB82 WEST 1234 5698 7654 32',
    'NO9386011117947',
    'MT84MALT011000012345MTLCAST001S',
  ],
  key: [
    `sk-${letters.slice(0, 48)}`,
    `sk-ant-api03-${letters.slice(0, 90)}`,
    `sk-weir-live-abc-${letters.slice(0, 40)}`,
    `AKIA${'QWERTYUIOPASDFGH'}`,
    `AIza${letters.slice(0, 35)}`,
    `ghp_${letters.slice(0, 36)}`,
    `github_pat_${letters.slice(0, 60)}`,
    `xoxb-${letters.slice(0, 40)}`,
    `sk_live_${letters.slice(0, 24)}`,
    `hf_${letters.slice(0, 34)}`,
    `SG.${letters.slice(0, 22)}.${letters.slice(0, 43)}`,
  ],
}

const missed: Readonly<Record<MaskShape, readonly string[]>> = {
  email: ['ada at example.com', '@example.com', 'ada@example', 'ada@.com', 'a@b.c', '@decorator', '1@2.3'],
  card: [
    '4111111111111112',
    '4111 1111 1111 1112',
    '1234567890123456',
    '0.4111111111111111',
    '41111111111111110000',
    'x4111111111111111',
    '4111111111111111.5',
    '7111111111111117',
  ],
  phone: [
    '2026-11-28',
    '+12',
    '1764339205',
    '12:30:45',
    '192.168.100.200',
    '5876543210',
    '0.9876543210',
    '3.141592653589793',
    'v98765432101',
  ],
  aadhaar: ['2341 2341 2347', '1341 2341 2346', '2341 2341 234', '234123412346x'],
  pan: ['ABCDE1234F', 'ABCPE12345', 'XABCPE1234F', 'ABCPE1234FG'],
  iban: [
    'DE88370400440532013000',
    'DE8937040044053201300',
    'XX89370400440532013000',
    'DE893704004405320130001',
  ],
  key: [
    'sk-short',
    'task-force-one-two-three-four',
    'AKIA1234',
    'risk-abcdefghijklmnopqrstuvwxyz',
    'ghp_short',
  ],
}

describe.each(shapes.map((shape) => [shape] as const))('%s', (shape) => {
  const masks: readonly Mask[] = [{ name: shape, find: shape, replacement: '[it]' }]

  test.each(found[shape].map((text) => [text]))('%s is found, wherever it stands', (text) => {
    for (const [before, after] of [
      ['', ''],
      ['It is ', ', he said.'],
      ['("', '")'],
      ['Nr 7 of ', '\nnext'],
      ['a:', '; b'],
    ] as const)
      expect(mask(before + text + after, masks)).toBe(`${before}[it]${after}`)
  })

  test.each(missed[shape].map((text) => [text]))('%s is none', (text) => {
    expect(mask(text, masks)).toBe(text)
    expect(mask(`so ${text} is`, masks)).toBe(`so ${text} is`)
  })
})

describe('check digits', () => {
  test('of Luhn and of Verhoeff: every other last digit is wrong', () => {
    for (const [number, isValid] of [
      ['4111111111111111', isCard],
      ['378282246310005', isCard],
      ['234123412346', isAadhaar],
      ['999941057058', isAadhaar],
    ] as const) {
      const right = Array.from({ length: 10 }, (_, digit) => number.slice(0, -1) + digit).filter(isValid)
      expect(right).toEqual([number])
    }
  })

  test('of Verhoeff: two neighbours that change places are noticed', () => {
    const number = '999941057058'
    for (let at = 0; at < 11; at++) {
      const swapped = number.slice(0, at) + number[at + 1] + number[at] + number.slice(at + 2)
      expect(swapped === number || !isAadhaar(swapped)).toBe(true)
    }
  })
})

test('a number among others is found, and the others stay', () => {
  expect(mask('order 12 4111 1111 1111 1111 of 2026')).toBe('order 12 [card] of 2026')
  expect(mask('1 2 3 4111111111111111 4 5 6')).toBe('1 2 3 [card] 4 5 6')
})

test('of things that overlap nothing is left standing', () => {
  expect(mask('write to 9876543210@example.com')).toBe('write to [email]')
})

const things = Object.values(found).flat()
const words = fc.constantFrom(
  ' ',
  '  ',
  '\n',
  ' the ',
  'Word',
  ', ',
  'x',
  '7',
  ' 42 ',
  '@',
  '.',
  '-',
  '"',
  'नमस्ते',
  '😀',
)
const texts = fc
  .array(fc.oneof(fc.constantFrom(...things), words), { minLength: 1, maxLength: 12 })
  .map((parts) => parts.join(''))
const own: readonly Mask[] = [
  ...all,
  { name: 'staff', find: readExpression('EMP-\\d{3,}|\\bBadge \\d+\\b'), replacement: '[staff]' },
  { name: 'hex', find: readExpression('(?i)0x[0-9a-f]+'), replacement: '[hex]' },
]

test('a text in pieces is masked as the whole is, wherever it is cut', () => {
  fc.assert(
    fc.property(
      fc.tuple(texts, texts).map(([a, b]) => `${a} EMP-12345 Badge 77 0xAb3 ${b}`),
      fc.array(fc.nat(200), { maxLength: 20 }),
      (text, cuts) => {
        const whole = mask(text, own)
        expect(
          mask(
            text,
            own,
            cuts.filter((at) => at < text.length),
          ),
        ).toBe(whole)
        expect(
          mask(
            text,
            own,
            Array.from({ length: text.length }, (_, at) => at),
          ),
        ).toBe(whole)
      },
    ),
    { numRuns: 60 },
  )
})

test('what stands far into a text without a break is found', () => {
  for (const filler of ['A', '7', 'x', 'A '])
    for (let length = 900; length < 1_300; length += 37) {
      const text = `${filler.repeat(length)} 4111 1111 1111 1111 ada@example.com`
      expect(mask(text, all, [500, 1_030])).toEndWith('[card] [email]')
    }
})

test('a text of words goes on but for the last', () => {
  const masked = new MaskedText(all, none)
  expect(masked.push('Hello there, how are y')).toBe('Hello there, how are ')
  expect(masked.push('ou? 41')).toBe('you? ')
  expect(masked.push('11 ')).toBe('')
  expect(masked.push('people came. ')).toBe('4111 people ')
  expect(masked.end()).toBe('came. ')
})

test('places in the text are places in what is left of it', () => {
  const masked = new MaskedText(all, none)
  const text = 'a ada@example.com b 4111111111111111 c'
  const out = masked.push(text) + masked.end()
  for (const word of ['a ', 'b ', ' c']) expect(masked.placeOf(text.indexOf(word))).toBe(out.indexOf(word))
})

describe('text in JSON', () => {
  test.each([
    ['{"to":"ada@example.com"}', '{"to":"[email]"}'],
    ['{"to":"ada\\u0040example.com"}', '{"to":"[email]"}'],
    ['{"a":"line\\nada@example.com\\n"}', '{"a":"line\\n[email]\\n"}'],
    [
      '{"card": 4111111111111111, "n": 12345678901234567890}',
      '{"card": "[card]", "n": 12345678901234567890}',
    ],
    ['{"ada@example.com":[1,-2.5e3,null]}', '{"[email]":[1,-2.5e3,null]}'],
    ['{"a":"\\"ada@example.com\\""}', '{"a":"\\"[email]\\""}'],
  ])('%s', (json, expected) => {
    const made = runAll(maskJsonSteps(json, all, none))
    expect(made).toBe(expected)
    JSON.parse(made)
  })
})

test('long texts take steps, none of them long', () => {
  const hard = [
    'a'.repeat(200_000),
    '4111 1111 1111 1112 '.repeat(10_000),
    `${'a'.repeat(60)}@${'a.'.repeat(100)}`.repeat(700),
    'sk-'.repeat(60_000),
    '+1'.repeat(90_000),
  ]
  const evil = ['(a+)+b', '(a|a)*c', '(a*)*(a*)*a{20}d', '(\\w+\\s?)+!'].map((expression) => ({
    name: 'evil',
    find: readExpression(expression),
    replacement: '[evil]',
  }))
  for (const [text, masks] of [...hard.map((each) => [each, all] as const), [hard[0]!, evil] as const]) {
    const steps = maskSteps(text, masks, none)
    let longest = 0
    for (let done = false; !done;) {
      const began = process.cpuUsage()
      done = steps.next().done === true
      const { user } = process.cpuUsage(began)
      longest = Math.max(longest, user / 1_000)
    }
    expect(longest).toBeLessThan(250)
  }
})
