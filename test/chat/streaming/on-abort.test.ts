// Listeners of a signal that outlives the calls: all are called, but for those that have been taken away.

import { expect, test } from 'bun:test'
import { offAbort, onAbort } from '../../../src/chat/streaming/on-abort.ts'

test('each listener is called once when the signal aborts, unless it was taken away before', () => {
  const stopping = new AbortController()
  const called: string[] = []
  const one = () => called.push('one')
  const other = () => called.push('other')
  const gone = () => called.push('gone')
  for (const listener of [one, other, gone]) onAbort(stopping.signal, listener)
  offAbort(stopping.signal, gone)
  expect(called).toEqual([])
  stopping.abort()
  stopping.abort()
  expect(called).toEqual(['one', 'other'])
})

test('a listener may take others away while they are called', () => {
  const stopping = new AbortController()
  const called: string[] = []
  const second = () => called.push('second')
  onAbort(stopping.signal, () => {
    called.push('first')
    offAbort(stopping.signal, second)
  })
  onAbort(stopping.signal, second)
  stopping.abort()
  expect(called).toEqual(['first'])
})
