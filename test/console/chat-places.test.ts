// A conversation is asked with instructions and parameters of its own, lies in a folder or above the others, is found by
// what was said, or is not stored at all; saved prompts come with a slash.

import { expect, test } from 'bun:test'
import { placesOf } from '../../src/console/chat/conversation-list.tsx'
import { settingsIn } from '../../src/console/chat/conversation-settings.tsx'
import { findPrompts, promptNameIn } from '../../src/console/chat/composer.tsx'
import type { ConversationView, SavedPromptView } from '../../src/http/console/answers.ts'

test('pinned conversations come first, then folders by name, then the rest, each in its order', () => {
  const conversation = (id: string, folder: string | null, pinned = false) =>
    ({ id, folder, pinned }) as ConversationView
  const all = [
    conversation('1', null),
    conversation('2', 'Work'),
    conversation('3', 'Home', true),
    conversation('4', 'Home'),
    conversation('5', null),
    conversation('6', 'Work'),
  ]
  const places = placesOf(all).map(({ kind, name, conversations }) => [
    kind,
    name,
    ...conversations.map(({ id }) => id),
  ])
  expect(places).toEqual([
    ['pinned', 'Pinned', '3'],
    ['folder', 'Home', '4'],
    ['folder', 'Work', '2', '6'],
    ['rest', '', '1', '5'],
  ])
  expect(placesOf([])).toEqual([])
})

test.each([
  ['/', ''],
  ['/trans', 'trans'],
  ['/my prompt', 'my prompt'],
  ['/usr/bin', null],
  ['/one\ntwo', null],
  [' /trans', null],
  ['and/or', null],
  ['', null],
])('%p asks for prompts named %p', (text, name) => {
  expect(promptNameIn(text)).toBe(name)
})

test('prompts are found by a part of their name, those that begin with it first', () => {
  const prompts = ['To translate', 'Translate', 'Sum up'].map((name) => ({ name }) as SavedPromptView)
  expect(findPrompts(prompts, 'TRANS').map(({ name }) => name)).toEqual(['Translate', 'To translate'])
})

test('an empty field of the settings is left to the model', () => {
  const given = new FormData()
  for (const name of ['instructions', 'temperature', 'top_p', 'max_output_tokens', 'reasoning_effort'])
    given.set(name, '')
  expect(settingsIn(given)).toBeNull()
  given.set('temperature', '0')
  given.set('reasoning_effort', 'low')
  given.set('instructions', ' Be brief. ')
  expect(settingsIn(given)).toEqual({ instructions: 'Be brief.', temperature: 0, reasoning_effort: 'low' })
})
