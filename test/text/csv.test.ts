import { expect, test } from 'bun:test'
import { csvLine, csvOf } from '../../src/text/text.ts'

test.each([
  // cell                written
  ['plain', 'plain'],
  [null, ''],
  [0.5, '0.5'],
  ['a, "b"', '"a, ""b"""'],
  ['two\r\nlines', '"two\r\nlines"'],
  // Amounts stay numbers, whatever their sign; other text that a spreadsheet would calculate becomes text.
  ['-0.25', '-0.25'],
  ['+1', '+1'],
  ['=1+1', "'=1+1"],
  ['-1+cmd', "'-1+cmd"],
  ['@sum', "'@sum"],
  ['+1-2', "'+1-2"],
  ['\t=1', "'\t=1"],
  ['=a,b', '"\'=a,b"'],
])('the cell %p is written %p', (cell, written) => {
  expect(csvLine([cell, 'end'])).toBe(`${written},end\r\n`)
})

test('rows are in the order of the headings', () => {
  expect(csvOf(['a', 'b'], [{ b: 2, a: 1 }])).toBe('a,b\r\n1,2\r\n')
})
