// HTML and SVG that a model wrote are shown in a frame that has no origin, knows nothing of the console and reaches
// nobody.

import { expect, test } from 'bun:test'
import { pageOf } from '../../src/console/chat/blocks.ts'

test.each([
  ['html', '<p>Hello', true],
  ['HTML', '<p>Hello', true],
  ['', '<!DOCTYPE html><p>Hello', true],
  ['', '<html><p>Hello', true],
  ['svg', '<svg/>', true],
  ['xml', '<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>', true],
  ['xml', '<note/>', false],
  ['', '<p>Hello', false],
  ['js', 'const page = "<html>"', false],
  ['', '<htmlish>', false],
])('a block of %p with %p is a page: %p', (language, text, isPage) => {
  expect(pageOf(language, text) !== undefined).toBe(isPage)
})
