// The text of an answer is cut into finished blocks while it grows, and what is finished stays as it is.

import { describe, expect, test } from 'bun:test'
import { type Blocks, cut, noBlocks } from '../../src/console/chat/blocks.ts'

/** The blocks after the text has come in pieces of this many characters. */
function grown(text: string, piece: number): Blocks {
  let blocks = noBlocks
  for (let end = piece; end < text.length + piece; end += piece) {
    const before = blocks
    blocks = cut(blocks, text.slice(0, end))
    expect(blocks.done.slice(0, before.done.length)).toEqual([...before.done])
  }
  return blocks
}

const answer = `A paragraph
of two lines.

- one

  still one
- two

\`\`\`python
x = 1

y = 2
\`\`\`

~~~~
~~~
not closed yet

~~~~
The end.`

describe('cutting an answer into blocks', () => {
  test('happens at blank lines outside code, before a line that is not indented', () => {
    const { done, start } = grown(answer, answer.length)
    expect([...done, answer.slice(start)]).toEqual([
      'A paragraph\nof two lines.\n\n',
      '- one\n\n  still one\n- two\n\n',
      '```python\nx = 1\n\ny = 2\n```\n\n',
      '~~~~\n~~~\nnot closed yet\n\n~~~~\nThe end.',
    ])
  })

  test.each([1, 2, 3, 7, 50])('is the same when the text comes in pieces of %p', (piece) => {
    expect(grown(answer, piece)).toEqual(grown(answer, answer.length))
  })

  test('loses nothing', () => {
    const { done, start } = grown(answer, 5)
    expect(done.join('') + answer.slice(start)).toBe(answer)
  })

  test('leaves no more than the last block to be parsed again, also in a long list without blank lines', () => {
    const list = Array.from({ length: 5_000 }, (_, index) => `- item ${index} of many\n`).join('')
    const { start } = grown(list, 4_096)
    expect(list.length - start).toBeLessThan(8_000)
  })
})
