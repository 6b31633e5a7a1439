// Listeners of a signal that outlives the calls: all are called, but for those that have been taken away.

import { expect, test } from 'bun:test'
import { offAbort, onAbort } from '../../../src/chat/streaming/relay.ts'

test('each listener is called once when the signal aborts, unless it was taken away before', () => {
  const stopping = new AbortController()
  const called: string[] = []
  const listener = (name: string) => ({ place: -1, onAbort: () => void called.push(name) })
  const [one, other, gone] = [listener('one'), listener('other'), listener('gone')]
  for (const each of [one, other, gone]) onAbort(stopping.signal, each)
  offAbort(stopping.signal, gone)
  expect(called).toEqual([])
  stopping.abort()
  stopping.abort()
  expect(called).toEqual(['one', 'other'])
})

test('a listener may take others away while they are called', () => {
  const stopping = new AbortController()
  const called: string[] = []
  const second = { place: -1, onAbort: () => void called.push('second') }
  const first = {
    place: -1,
    onAbort() {
      called.push('first')
      offAbort(stopping.signal, second)
    },
  }
  onAbort(stopping.signal, first)
  onAbort(stopping.signal, second)
  stopping.abort()
  expect(called).toEqual(['first'])
})
