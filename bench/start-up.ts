// How long after it is started Weir answers, on a database that exists.

import { startWeir, type WeirOptions } from '../test/support/run-weir.ts'

/** Several starts, fastest first, each in milliseconds from the start of the process to the first answer. */
export async function measureFirstResponse(options: WeirOptions, times: number): Promise<number[]> {
  const taken: number[] = []
  for (let start = 0; start < times; start++) {
    const weir = await startWeir(options)
    taken.push(weir.startMs)
    await weir.stop()
  }
  return taken.toSorted((a, b) => a - b)
}
