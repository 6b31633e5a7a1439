// Explains why the address cannot be listened on, and what to do about it.

import { reasonOf } from '../config.ts'
import { listenAddress } from './banner.ts'

/** Lower ports need privileges, unless the system is configured otherwise. */
const firstFreePort = 1024

/** The error of a start that cannot listen on its address; `cause` is the runtime's error. */
export function listenFault(
  { host, port }: { readonly host: string; readonly port: number },
  cause: unknown,
): Error {
  const isDenied = cause instanceof Error && Reflect.get(cause, 'code') === 'EACCES'
  // Bun says that the port is in use even if the address does not exist.
  const why = !isDenied
    ? 'another program uses the port, or this machine has no such address'
    : port < firstFreePort
      ? `not permitted: ports below ${firstFreePort} need the capability CAP_NET_BIND_SERVICE; take another with --port, and a reverse proxy in front of it`
      : 'not permitted'
  return new Error(`cannot listen on ${listenAddress(host, port)} (${reasonOf(cause)}): ${why}`, { cause })
}
