// A link over a socket pair that the worker inherits.

import { Link, type LinkParts } from './link.ts'

export interface ConnectParts extends Pick<LinkParts, 'handlers' | 'failed'> {
  readonly fd: number
  /** Called when the other side has closed or died; everything that it sent has been received. */
  readonly closed: () => void
}

/** A link over an open socket; the link owns the descriptor from now on. */
export async function connectLink<
  Requests extends { [K in keyof Requests]: (...given: never[]) => unknown },
  Notifications extends { [K in keyof Notifications]: (...given: never[]) => unknown },
>({ fd, handlers, failed, closed }: ConnectParts): Promise<Link<Requests, Notifications>> {
  const link = new Link<Requests, Notifications>({
    handlers,
    failed,
    wire: { write: (bytes) => socket?.write(bytes) ?? 0, end: () => void socket?.end() },
  })
  let socket: Bun.Socket | undefined
  const options = {
    fd,
    socket: {
      data(from: Bun.Socket, bytes: Uint8Array) {
        try {
          link.onBytes(bytes)
        } catch (error) {
          failed('a frame', error)
          from.terminate()
        }
      },
      drain: () => link.onDrain(),
      close() {
        link.onClose()
        closed()
      },
    },
  }
  // Bun accepts a descriptor, but its types do not.
  socket = await Bun.connect(options as unknown as Bun.UnixSocketOptions)
  link.onDrain()
  return link
}
