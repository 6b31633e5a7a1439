// What a search over conversations finds: words that were said, in any order and any case, and nothing of the form in
// which they are stored.

import { describe, expect, test } from 'bun:test'
import { snippetIn } from '../../../src/http/console/conversations.ts'

const stored = (question: string, answer: string) => ({
  // As it is stored: in pieces that end anywhere.
  input: [
    JSON.stringify([{ type: 'message', role: 'user', content: [{ type: 'input_text', text: question }] }]),
  ],
  answer: (JSON.stringify({
    id: 'resp_1',
    output: [
      { type: 'message', id: 'msg_rhine', content: [{ type: 'output_text', text: answer, annotations: [] }] },
    ],
  }).match(/[^]{1,7}/g) ?? []) as readonly string[],
})

describe('a search', () => {
  const long = `${'before '.repeat(30)}the Elbe rises in the Giant Mountains ${'after '.repeat(60)}`
  test.each([
    ['a word of the answer', ['danube'], 'It is the Danube.'],
    ['all words in any order and case', ['the', 'danube', 'is'], 'It is the Danube.'],
    ['a word of the question', ['longest'], 'Which is the LONGEST river?'],
    ['no words of both together', ['longest', 'danube'], undefined],
    ['no ids', ['msg_rhine'], undefined],
    ['no names of fields', ['annotations'], undefined],
    ['no roles', ['user'], undefined],
  ])('finds %s', (_, words, snippet) => {
    expect(snippetIn(stored('Which is the LONGEST river?', 'It is the Danube.'), words)).toBe(snippet)
  })

  test('finds what JSON writes otherwise, and other scripts', () => {
    expect(snippetIn(stored('?', 'He said "so\\now"\n and left.'), ['"so\\now"'])).toBe(
      'He said "so\\now" and left.',
    )
    expect(snippetIn(stored('गंगा कहाँ है?', '-'), ['गंगा'])).toBe('गंगा कहाँ है?')
  })

  test('shows where the words stand', () => {
    const snippet = snippetIn(stored('?', long), ['giant'])
    expect(snippet).toMatch(/^….*the Elbe rises in the Giant Mountains.*…$/)
    expect(snippet!.length).toBeLessThan(125)
  })
})
