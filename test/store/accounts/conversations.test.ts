// What the chat lists is its account's alone, in the order in which it was last used, and bounded.

import { describe, expect, test } from 'bun:test'
import type { ConversationRecord, OpenConversation } from '../../../src/responses/response-store.ts'
import { describeOnBoth } from '../../support/both-databases.ts'

const conversation = (id: string, at: number, account = 'anna'): OpenConversation => ({
  id,
  account,
  title: `About ${id}`,
  model: null,
  lastResponse: null,
  folder: null,
  pinned: false,
  settings: null,
  share: null,
  createdAt: at,
  updatedAt: at,
})

const ids = (all: readonly ConversationRecord[]) => all.map(({ id }) => id)

describeOnBoth('chat', (open) => {
  describe('conversations', () => {
    test('are listed with the one used last in front', async () => {
      const { conversations } = await open(Date.now)
      for (const [at, id] of ['a', 'b', 'c'].entries()) await conversations.add(conversation(id, at), 10)
      const changed = await conversations.change(
        'anna',
        'a',
        { lastResponse: 'resp_1', model: 'sim/echo' },
        9,
      )
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
      const { conversations } = await open(Date.now)
      await conversations.add(conversation('a', 1), 10)
      expect(await conversations.list('eve', 10)).toEqual([])
      expect(await conversations.find('eve', 'a')).toBeUndefined()
      expect(await conversations.change('eve', 'a', { title: 'mine' }, 2)).toBeUndefined()
      expect(await conversations.remove('eve', 'a')).toBeUndefined()
      expect(await conversations.find('anna', 'a')).toEqual(conversation('a', 1))
    })

    test('beyond the bound are forgotten, those longest unused first, and of this account only', async () => {
      const { conversations } = await open(Date.now)
      await conversations.add(conversation('other', 0, 'eve'), 2)
      for (const [at, id] of ['a', 'b', 'c'].entries()) await conversations.add(conversation(id, at), 2)
      expect(ids(await conversations.list('anna', 10))).toEqual(['c', 'b'])
      expect(ids(await conversations.list('eve', 10))).toEqual(['other'])
    })

    test('that are pinned are forgotten last, and a place or settings make none the latest', async () => {
      const { conversations } = await open(Date.now)
      await conversations.add({ ...conversation('old', 0), pinned: true }, 2)
      await conversations.add(conversation('a', 1), 2)
      await conversations.add(conversation('b', 2), 2)
      expect(ids(await conversations.list('anna', 10))).toEqual(['b', 'old'])
      const settings = { instructions: 'Be brief.', temperature: 0.5 }
      const changed = await conversations.change('anna', 'old', { folder: 'Rivers', settings }, 9)
      expect(changed).toEqual({ ...conversation('old', 0), pinned: true, folder: 'Rivers', settings })
      expect(await conversations.find('anna', 'old')).toEqual(changed)
      const { settings: _, share: __, ...listed } = changed!
      expect((await conversations.list('anna', 10))[1]).toEqual(listed)
    })

    test('that are shared are found by the token of their link, until that is revoked', async () => {
      const { conversations } = await open(Date.now)
      await conversations.add(conversation('a', 1), 10)
      expect(await conversations.findShared('')).toBeUndefined()
      const share = { token: 'secret', response: 'resp_1', at: 5 }
      expect(await conversations.change('anna', 'a', { share }, 9)).toEqual({
        ...conversation('a', 1),
        share,
      })
      expect(await conversations.findShared('secret')).toEqual({ ...conversation('a', 1), share })
      await conversations.change('anna', 'a', { share: null }, 9)
      expect(await conversations.findShared('secret')).toBeUndefined()
    })

    test('that were imported begin with their turns, which go with them', async () => {
      const { conversations } = await open(Date.now)
      const turns = [{ question: 'Which?', answer: 'This.', model: 'gpt-4' }]
      for (const id of ['a', 'b', 'c'])
        await conversations.addImported(conversation(id, id.charCodeAt(0)), turns, 2)
      expect(await conversations.importedTurns('anna', 'c')).toEqual(turns)
      expect(await conversations.importedTurns('eve', 'c')).toEqual([])
      expect(await conversations.importedTurns('anna', 'a')).toEqual([])
      await conversations.remove('anna', 'c')
      expect(await conversations.importedTurns('anna', 'c')).toEqual([])
    })

    test('are gone once removed', async () => {
      const { conversations } = await open(Date.now)
      await conversations.add(conversation('a', 1), 10)
      expect(await conversations.remove('anna', 'a')).toEqual(conversation('a', 1))
      expect(await conversations.find('anna', 'a')).toBeUndefined()
      expect(await conversations.remove('anna', 'a')).toBeUndefined()
    })
  })

  describe('saved prompts', () => {
    const prompt = (id: string, account = 'anna') => ({
      id,
      account,
      name: id,
      text: `Say ${id}.`,
      changedAt: 1,
    })

    test('are their account’s alone, by name, and bounded', async () => {
      const { prompts } = await open(Date.now)
      expect([await prompts.add(prompt('b'), 2), await prompts.add(prompt('a'), 2)]).toEqual([true, true])
      expect(await prompts.add(prompt('c'), 2)).toBe(false)
      expect(await prompts.add(prompt('other', 'eve'), 2)).toBe(true)
      expect(await prompts.change({ ...prompt('a'), account: 'eve' })).toBe(false)
      expect(await prompts.remove('eve', 'a')).toBe(false)
      expect(await prompts.change({ ...prompt('a'), name: 'z' })).toBe(true)
      expect((await prompts.list('anna')).map(({ name }) => name)).toEqual(['b', 'z'])
      expect(await prompts.remove('anna', 'a')).toBe(true)
      expect(await prompts.list('anna')).toEqual([prompt('b')])
    })

    test('are no more than may be, however many are added at once', async () => {
      const { prompts } = await open(Date.now)
      for (const account of Array.from({ length: 12 }, (_, n) => `account${n}`)) {
        const ids = Array.from({ length: 8 }, (_, n) => `${account}-${n}`)
        const added = await Promise.all(ids.map((id) => prompts.add(prompt(id, account), 3)))
        expect(added.filter(Boolean)).toHaveLength(3)
      }
    })
  })
})
