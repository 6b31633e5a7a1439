// Deadlines fire once, when they are due, on a clock that the test moves.

import { expect, test } from 'bun:test'
import { Watchdog } from '../../../src/chat/streaming/relay.ts'
import { stillClock } from '../support.ts'

function setUp() {
  const clock = stillClock(0)
  const watchdog = new Watchdog(clock)
  const fired: string[] = []
  const arm = (name: string, ms: number) => watchdog.arm(ms, () => fired.push(name))
  const pass = (ms: number) => {
    clock.pass(ms)
    watchdog.look()
    return fired
  }
  return { watchdog, fired, arm, pass }
}

test('a deadline fires when it is due, once', () => {
  const { arm, pass } = setUp()
  arm('a', 100)
  expect(pass(99)).toEqual([])
  expect(pass(1)).toEqual(['a'])
  expect(pass(1_000)).toEqual(['a'])
})

test('one that is extended counts from then', () => {
  const { arm, pass } = setUp()
  const deadline = arm('a', 100)
  pass(90)
  deadline.extend(100)
  expect(pass(90)).toEqual([])
  expect(pass(10)).toEqual(['a'])
})

test('one that is paused does not fire, and counts from when it is extended', () => {
  const { arm, pass } = setUp()
  const deadline = arm('a', 100)
  deadline.pause()
  expect(pass(1_000)).toEqual([])
  deadline.extend(100)
  expect(pass(99)).toEqual([])
  expect(pass(1)).toEqual(['a'])
})

test('one that is cleared never fires, unless it is extended again', () => {
  const { arm, pass } = setUp()
  const deadline = arm('a', 100)
  deadline.clear()
  expect(pass(1_000)).toEqual([])
  deadline.extend(50)
  expect(pass(50)).toEqual(['a'])
})

test('one may put itself off again when it fires, as the keep-alive does', () => {
  const { watchdog, pass, fired } = setUp()
  const silence = watchdog.arm(100, () => {
    fired.push('tick')
    silence.extend(100)
  })
  for (let at = 0; at < 5; at++) pass(100)
  expect(fired).toHaveLength(5)
  silence.clear()
})

test('many fire each in its time', () => {
  const { arm, pass } = setUp()
  arm('late', 300)
  arm('soon', 100)
  const cleared = arm('never', 150)
  cleared.clear()
  expect(pass(100)).toEqual(['soon'])
  expect(pass(200)).toEqual(['soon', 'late'])
})

test('one that is due long after the wheel has gone round fires in its time, and not before', () => {
  const { arm, pass, fired } = setUp()
  arm('far', 600_000)
  for (let at = 1; at < 600; at++) pass(1_000)
  expect(fired).toEqual([])
  expect(pass(1_000)).toEqual(['far'])
})

test('one that is put off and then drawn nearer fires when it is due', () => {
  const { arm, pass } = setUp()
  const deadline = arm('a', 1_000)
  deadline.extend(60_000)
  deadline.extend(200)
  expect(pass(199)).toEqual([])
  expect(pass(1)).toEqual(['a'])
})

test('one that was due already fires at the next look, also where the process stood still', () => {
  const { arm, pass } = setUp()
  pass(10_000)
  arm('past', -5_000)
  expect(pass(0)).toEqual(['past'])
  arm('slept over', 100)
  arm('not yet', 3_700_000)
  expect(pass(3_600_000)).toEqual(['past', 'slept over'])
})
