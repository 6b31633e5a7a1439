// What large answers leave behind is collected while they are read, and after them; plain calls start no such collection.

import { expect, test } from 'bun:test'
import { resolve } from 'node:path'
import { Memory } from '../../src/observe/memory.ts'

const MB = 1024 ** 2

/** A process that has so much in use, of which a collection of all objects leaves `alive`. */
function setUp(taken: number, alive = taken) {
  const state = { heap: 60 * MB, taken: taken * MB, alive: alive * MB, ms: 0, all: 0, young: 0 }
  const memory = new Memory({
    taken: () => state.taken,
    heap: () => state.heap,
    collectYoung: () => void state.young++,
    collectAll: () => {
      state.all++
      state.taken = state.alive
    },
    now: () => state.ms,
  })
  /** Reads so many pieces of large answers that leave `left` megabytes behind each. */
  const read = (pieces: number, left: number) => {
    for (let piece = 0; piece < pieces; piece++) {
      state.ms += 20
      memory.makeRoom(MB)
      state.taken += left * MB
    }
  }
  return { state, memory, read }
}

test('two thousand answers of 200 kB that leave four times their size behind never take more than 40 MB', () => {
  const { state, memory } = setUp(60)
  let most = 0
  for (let answer = 0; answer < 2_000; answer++) {
    for (let piece = 0; piece < 13; piece++) {
      state.ms += 1
      memory.makeRoom(MB)
      state.taken += (4 * 200_000) / 13
      most = Math.max(most, state.taken)
    }
  }
  expect(most / MB).toBeLessThan(60 + 40)
  expect(state.all).toBeWithin(30, 60)
})

test('answers that are not large start no collection of all objects, whatever they leave behind', () => {
  const { state, memory } = setUp(60)
  for (let answer = 0; answer < 2_000; answer++) {
    state.ms += 20
    memory.makeRoom(32 * 1024)
    state.taken += MB
  }
  expect(state.all).toBe(0)
  memory.makeRoom(100 * 1024)
  expect(state.all).toBe(1)
})

test('of a large heap more may be left behind: to look at all of it takes longer', () => {
  const { state, read } = setUp(1_000)
  read(300, 1)
  expect(state.all).toBe(0)
  read(300, 1)
  expect(state.all).toBe(1)
})

test('a heap that takes long to look at is collected when much more has been left behind', () => {
  const { state, memory, read } = setUp(60)
  state.heap = 200 * MB
  read(640, 1)
  state.ms += 60_000
  memory.look()
  expect(state.all).toBe(0)
  read(10, 1)
  expect(state.all).toBe(1)
})

test('memory that stays alive is not collected again and again', () => {
  const { state, read } = setUp(60)
  state.alive = 200 * MB
  state.taken = 200 * MB
  read(50, 0)
  expect(state.all).toBe(1)
})

test('the memory is measured a hundred times a second at the most', () => {
  let measured = 0
  const memory = new Memory({
    taken: () => ++measured,
    heap: () => 0,
    collectYoung: () => undefined,
    collectAll: () => undefined,
    now: () => 5,
  })
  for (let piece = 0; piece < 1_000; piece++) memory.makeRoom(MB)
  expect(measured).toBe(2)
})

test('growth without large answers has the young objects collected, large answers have all of them collected', () => {
  const { state, memory, read } = setUp(60)
  state.taken += 100 * MB
  state.ms += 60_000
  memory.look()
  memory.look()
  expect(state).toMatchObject({ all: 0, young: 1 })
  read(1, 10)
  expect(state.all).toBe(1)
  read(1, 60)
  state.ms += 1_000
  memory.look()
  expect(state.all).toBe(1)
  state.ms += 2_000
  memory.look()
  expect(state).toMatchObject({ all: 2, taken: 60 * MB })
  state.ms += 60_000
  state.taken += 100 * MB
  memory.look()
  expect(state.all).toBe(2)
})

test('the garbage of a process that has outlived a young collection is freed', () => {
  // In a process of its own: beside other tests the heap is larger than what is collected at once.
  const { stdout, stderr } = Bun.spawnSync([process.execPath, '--eval', leavesGarbage], {
    cwd: resolve(import.meta.dir, '../..'),
  })
  expect(stderr.toString()).toBe('')
  expect(Number(stdout.toString())).toBeLessThan(40 * MB)
})

/** Prints how many bytes are taken after garbage of 160 MB was left, and room was made. */
const leavesGarbage = `
  import { Memory } from './src/observe/memory.ts'
  const memory = new Memory()
  const taken = () => process.memoryUsage().heapUsed + process.memoryUsage().external
  const before = taken()
  const leave = () => void Array.from({ length: 800 }, () => new Uint8Array(200_000).fill(1))
  leave()
  if (taken() - before < 100_000_000) throw new Error('it left too little')
  memory.makeRoom(1_000_000)
  console.log(taken() - before)
`
