// `weir version`

import { version as number } from '../../../version.ts'
import { type Invocation, type Io, print } from '../../context.ts'

/** Prints the version of Weir and of the runtime inside it. */
export function version(io: Io, invocation: Invocation): void {
  print(
    { io, json: invocation.flag('json') },
    { json: { version: number, bun: Bun.version }, text: `weir ${number}` },
  )
}
