// What the chat lists is its account's alone, in the order in which it was last used, and bounded.

import { afterEach, describe, expect, test } from 'bun:test'
import type { ConversationRecord } from '../../../src/responses/response-store.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import { tempDir } from '../../support/tmp.ts'

const opened: { close: () => Promise<void> }[] = []
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close()
})

async function fresh(): Promise<Store> {
  const dir = tempDir()
  const store = await openStore(dir.join('data'), { clock: Date.now })
  opened.push({
    close: async () => {
      await store.close()
      dir.remove()
    },
  })
  return store
}

const conversation = (id: string, at: number, account = 'anna'): ConversationRecord => ({
  id,
  account,
  title: `About ${id}`,
  model: null,
  lastResponse: null,
  createdAt: at,
  updatedAt: at,
})

const ids = (all: readonly ConversationRecord[]) => all.map(({ id }) => id)

describe('conversations', () => {
  test('are listed with the one used last in front', async () => {
    const { conversations } = await fresh()
    for (const [at, id] of ['a', 'b', 'c'].entries()) await conversations.add(conversation(id, at), 10)
    const changed = await conversations.change('anna', 'a', { lastResponse: 'resp_1', model: 'sim/echo' }, 9)
    expect(changed).toEqual({
      ...conversation('a', 0),
      lastResponse: 'resp_1',
      model: 'sim/echo',
      updatedAt: 9,
    })
    expect(ids(await conversations.list('anna', 10))).toEqual(['a', 'c', 'b'])
    expect(ids(await conversations.list('anna', 2))).toEqual(['a', 'c'])
  })

  test('of another account are not there', async () => {
    const { conversations } = await fresh()
    await conversations.add(conversation('a', 1), 10)
    expect(await conversations.list('eve', 10)).toEqual([])
    expect(await conversations.find('eve', 'a')).toBeUndefined()
    expect(await conversations.change('eve', 'a', { title: 'mine' }, 2)).toBeUndefined()
    expect(await conversations.remove('eve', 'a')).toBeUndefined()
    expect(await conversations.find('anna', 'a')).toEqual(conversation('a', 1))
  })

  test('beyond the bound are forgotten, those longest unused first, and of this account only', async () => {
    const { conversations } = await fresh()
    await conversations.add(conversation('other', 0, 'eve'), 2)
    for (const [at, id] of ['a', 'b', 'c'].entries()) await conversations.add(conversation(id, at), 2)
    expect(ids(await conversations.list('anna', 10))).toEqual(['c', 'b'])
    expect(ids(await conversations.list('eve', 10))).toEqual(['other'])
  })

  test('are gone once removed', async () => {
    const { conversations } = await fresh()
    await conversations.add(conversation('a', 1), 10)
    expect(await conversations.remove('anna', 'a')).toEqual(conversation('a', 1))
    expect(await conversations.find('anna', 'a')).toBeUndefined()
    expect(await conversations.remove('anna', 'a')).toBeUndefined()
  })
})
