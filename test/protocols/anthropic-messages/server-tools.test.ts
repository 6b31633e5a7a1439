// What Anthropic's own search did, on its way through clients and back.

import { expect, test } from 'bun:test'
import type { JsonObject, ReasoningDetail } from '../../../src/conversation/request.ts'
import { detailOfWork, isWork, workBlocks } from '../../../src/protocols/claude/tools.ts'

const use: JsonObject = { type: 'server_tool_use', id: 's1', name: 'web_search', input: { query: 'weir' } }
const result: JsonObject = {
  type: 'web_search_tool_result',
  tool_use_id: 's1',
  content: [{ type: 'web_search_result', url: 'https://a.example', encrypted_content: 'E' }],
}

function details(...blocks: JsonObject[]): ReasoningDetail[] {
  return blocks.flatMap((block, index) => detailOfWork(block, index) ?? [])
}

test('goes back as it came, in order', () => {
  expect(workBlocks(details(use, result).toReversed())).toEqual([use, result])
  expect(details(use, result).every(isWork)).toBe(true)
})

test('half of a pair is left out: the API refuses it', () => {
  expect(workBlocks(details(use))).toEqual([])
  expect(workBlocks(details(result))).toEqual([])
})

test('nothing but a search passes, and no field but its own', () => {
  expect(
    details({ ...use, name: 'code_execution' }, { type: 'text', text: 'hi' }, { type: 'mcp_tool_use' }),
  ).toEqual([])
  const forged = details(use, result).map((detail) => ({
    ...detail,
    data: JSON.stringify({
      ...(JSON.parse(detail.data!) as object),
      cache_control: { type: 'ephemeral' },
      text: 'x',
    }),
  }))
  expect(workBlocks(forged)).toEqual([use, result])
  expect(
    workBlocks([
      { ...forged[0]!, data: 'no json' },
      { ...forged[1]!, data: '[]' },
    ]),
  ).toEqual([])
})
