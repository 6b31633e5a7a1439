// A link over a socket that both processes were born with.

import { Link, type LinkParts } from './link.ts'

export interface ConnectParts extends Pick<LinkParts, 'handlers' | 'failed'> {
  readonly fd: number
  /** Called when the other side has closed, or is gone; all that it sent has been taken. */
  readonly closed: () => void
}

/** The link over an open socket, whose descriptor is its own from now on. */
export async function connectLink<
  Theirs extends { [K in keyof Theirs]: (...given: never[]) => unknown },
  Hears extends { [K in keyof Hears]: (...given: never[]) => unknown },
>({ fd, handlers, failed, closed }: ConnectParts): Promise<Link<Theirs, Hears>> {
  const link = new Link<Theirs, Hears>({
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
          link.received(bytes)
        } catch (error) {
          failed('a frame', error)
          from.terminate()
        }
      },
      drain: () => link.drained(),
      close() {
        link.closed()
        closed()
      },
    },
  }
  // Bun takes a descriptor; its types do not say so.
  socket = await Bun.connect(options as unknown as Bun.UnixSocketOptions)
  link.drained()
  return link
}
