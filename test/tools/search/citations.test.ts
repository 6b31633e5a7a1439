import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { citationsIn } from '../../../src/tools/search/search-tool.ts'
import { processorMs } from '../../support/processor-time.ts'

const paris = { url: 'https://atlas.example.org/paris', title: 'Paris' }
const ruby = { url: 'https://en.example.org/wiki/Ruby_(language)', title: 'Ruby' }
const root = { url: 'https://root.example.org/', title: 'Root' }
const marked = { url: 'https://shop.example.org/a?id=7&utm_source=feed', title: 'Shop' }
const sources = [paris, ruby, root, marked]

/** What the citations of a text stand on, and whom they name. */
function cited(text: string): [string, string][] {
  return citationsIn(text, sources).map(({ start, end, title }) => [text.slice(start, end), title])
}

describe('an address in the text', () => {
  test.each([
    ['[Paris](https://atlas.example.org/paris)', '[Paris](https://atlas.example.org/paris)', 'Paris'],
    [
      'as ([atlas](https://atlas.example.org/paris)) says',
      '[atlas](https://atlas.example.org/paris)',
      'Paris',
    ],
    ['so [[1]](https://atlas.example.org/paris).', '[[1]](https://atlas.example.org/paris)', 'Paris'],
    ['[a](<https://atlas.example.org/paris>)', '[a](<https://atlas.example.org/paris>)', 'Paris'],
    [
      '[a](https://atlas.example.org/paris "a title")',
      '[a](https://atlas.example.org/paris "a title")',
      'Paris',
    ],
    ['![tower](https://atlas.example.org/paris)', '[tower](https://atlas.example.org/paris)', 'Paris'],
    [
      '[Ruby](https://en.example.org/wiki/Ruby_(language)) is',
      '[Ruby](https://en.example.org/wiki/Ruby_(language))',
      'Ruby',
    ],
    [
      '(see https://en.example.org/wiki/Ruby_(language))',
      'https://en.example.org/wiki/Ruby_(language)',
      'Ruby',
    ],
    ['Source: https://atlas.example.org/paris.', 'https://atlas.example.org/paris', 'Paris'],
    ['**https://atlas.example.org/paris**, and', 'https://atlas.example.org/paris', 'Paris'],
    ['<https://atlas.example.org/paris>', 'https://atlas.example.org/paris', 'Paris'],
    ['见https://atlas.example.org/paris。', 'https://atlas.example.org/paris', 'Paris'],
    ['见https://atlas.example.org/paris是首都', 'https://atlas.example.org/paris', 'Paris'],
    ['http://www.atlas.example.org/paris/#history', 'http://www.atlas.example.org/paris/#history', 'Paris'],
    ['https://root.example.org', 'https://root.example.org', 'Root'],
    ['https://shop.example.org/a?id=7', 'https://shop.example.org/a?id=7', 'Shop'],
    [
      '[https://atlas.example.org/paris](https://atlas.example.org/paris)',
      '[https://atlas.example.org/paris](https://atlas.example.org/paris)',
      'Paris',
    ],
    ['[1]: https://atlas.example.org/paris\n', 'https://atlas.example.org/paris', 'Paris'],
    ['| https://atlas.example.org/paris|', 'https://atlas.example.org/paris', 'Paris'],
    ['broken](https://atlas.example.org/paris', 'https://atlas.example.org/paris', 'Paris'],
  ])('%s', (text, place, title) => {
    expect(cited(text)).toEqual([[place, title]])
  })

  test.each([
    '',
    'Paris is the capital of France.',
    'https://atlas.example.org/paris/metro',
    'https://atlas.example.org/paris-hilton',
    'https://root.example.org/page',
    'https://shop.example.org/a?id=77',
    'https://',
    'atlas.example.org',
  ])('%j cites nobody', (text) => {
    expect(cited(text)).toEqual([])
  })

  test('every place counts, in the order of the text', () => {
    const text =
      'A [x](https://root.example.org/), then https://atlas.example.org/paris and https://root.example.org.'
    expect(cited(text).map(([, title]) => title)).toEqual(['Root', 'Paris', 'Root'])
  })
})

test('offsets are told in UTF-16 units and in code points', () => {
  const text = '🗼😀 é [Paris](https://atlas.example.org/paris)'
  const [{ start, end, codePoints }] = citationsIn(text, sources) as [ReturnType<typeof citationsIn>[number]]
  expect(text.slice(start, end)).toBe('[Paris](https://atlas.example.org/paris)')
  expect([...text].slice(codePoints.start, codePoints.end).join('')).toBe(
    '[Paris](https://atlas.example.org/paris)',
  )
  expect([start, codePoints.start]).toEqual([7, 5])
})

test('whatever stands around it, the address of a result is found, and no offset leaves the text', () => {
  const around = fc.string({ unit: 'grapheme', maxLength: 40 })
  fc.assert(
    fc.property(around, around, (before, after) => {
      const text = `${before} ${paris.url} ${after} [a](${ruby.url})`
      const found = citationsIn(text, sources)
      expect(found.map(({ url }) => url)).toContain(paris.url)
      for (const { start, end, codePoints } of found) {
        expect(text.slice(start, end)).toBe([...text].slice(codePoints.start, codePoints.end).join(''))
        expect(end).toBeGreaterThan(start)
      }
    }),
  )
})

test('a hostile text of brackets and addresses is read in no time', () => {
  const text =
    '[(https://a.example/('.repeat(20_000) +
    '[a]('.repeat(20_000) +
    'https://a.example/' +
    ')'.repeat(50_000) +
    ' https://a.example/' +
    ')'.repeat(50_000)
  const before = processorMs()
  citationsIn(text, sources)
  expect(processorMs() - before).toBeLessThan(1_000)
})
