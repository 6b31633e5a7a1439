// The operator's expressions: what is taken, what is refused, and that all is found which any match covers.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { ExpressionFault, ExpressionScan, readExpression } from '../../src/guards/expression.ts'

/** The text with every character that is found as `#`. */
function marked(expression: string, text: string, cut = text.length): string {
  const scan = new ExpressionScan(readExpression(expression))
  const spans = [...scan.push(text.slice(0, cut)), ...scan.push(text.slice(cut)), ...scan.end()]
  const characters = [...text]
  for (const { from, to } of spans) characters.fill('#', from, to)
  return characters.join('')
}

test.each([
  ['EMP-\\d{6}', 'an EMP-123456 b', 'an ########## b'],
  ['EMP-\\d{6}', 'EMP-12345', 'EMP-12345'],
  ['colou?r', 'color colour', '##### ######'],
  ['(?:ab|cd)+', 'xababcdx', 'x######x'],
  ['[A-Fa-f0-9]{4}', 'face off', '#### off'],
  ['[^a-z ]+', 'ab CD ef', 'ab ## ef'],
  ['a.c', 'abc a\nc', '### a\nc'],
  ['\\bcat\\b', 'cat concat cat', '### concat ###'],
  ['\\Bcat', 'cat concat', 'cat con###'],
  ['(?i)secret', 'SeCrEt secret', '###### ######'],
  ['\\$\\d+\\.\\d\\d', 'pay $12.50', 'pay ######'],
  ['a{2,3}', 'a aa aaaa', 'a ## ####'],
  ['a{2}?b', 'aaab', 'a###'],
  ['[\\]\\-x]+', 'a]-xb', 'a###b'],
  ['\\t\\s', 'a\t b', 'a##b'],
])('%s in %j', (expression, text, expected) => {
  for (let cut = 0; cut <= text.length; cut++) expect(marked(expression, text, cut)).toBe(expected)
})

test.each([
  ['(a)\\1', 'not taken'],
  ['(?=a)b', 'looks around'],
  ['(?<name>a)', 'looks around'],
  ['a*', 'without characters'],
  ['\\b', 'without characters'],
  ['', 'without characters'],
  ['^a', 'pieces'],
  ['a$', 'pieces'],
  ['a**', 'quantifier'],
  ['*a', 'nothing in front'],
  ['[a', '['],
  ['(a', '('],
  ['a)', ')'],
  ['[b-a]', 'range'],
  ['a{3,2}', 'repeats'],
  ['(a{500}){500}', 'too large'],
  ['a\\', 'backslash'],
  ['\\p{L}', 'not taken'],
  ['a'.repeat(2_000), 'longer'],
])('%s is refused: %s', (expression, why) => {
  expect(() => readExpression(expression)).toThrow(ExpressionFault)
  expect(() => readExpression(expression)).toThrow(why)
})

const pattern = fc.letrec((tie) => ({
  atom: fc.oneof({ maxDepth: 3 }, fc.constantFrom('a', 'b', '[ab]', '[^a]', '\\w'), tie('group')),
  group: fc.tuple(tie('sequence'), tie('sequence')).map(([a, b]) => `(?:${String(a)}|${String(b)})`),
  sequence: fc
    .array(fc.tuple(tie('atom'), fc.constantFrom('', '', '*', '+', '?', '{2}', '{1,2}', '{2,}')), {
      minLength: 1,
      maxLength: 2,
    })
    .map((parts) => parts.map(([atom, quantifier]) => String(atom) + quantifier).join('')),
})).sequence as fc.Arbitrary<string>

test('whatever any match covers is found, and nothing else', () => {
  fc.assert(
    fc.property(
      pattern,
      fc.array(fc.constantFrom('a', 'b', '.'), { maxLength: 9 }).map((parts) => parts.join('')),
      fc.nat(9),
      (expression, text, cut) => {
        const whole = new RegExp(`^(?:${expression})$`)
        // Written out, a long one may be too large.
        fc.pre(expression.length <= 40 && !whole.test(''))
        const characters = [...text]
        for (let from = 0; from < text.length; from++)
          for (let to = from + 1; to <= text.length; to++)
            if (whole.test(text.slice(from, to))) characters.fill('#', from, to)
        expect(marked(expression, text, Math.min(cut, text.length))).toBe(characters.join(''))
      },
    ),
    { numRuns: 300 },
  )
})

describe('a match without an end', () => {
  test('is found by its last thousand characters', () => {
    const text = `${'a'.repeat(3_000)}b`
    expect(marked('a+b', text)).toBe('a'.repeat(2_001) + '#'.repeat(1_000))
  })
})
