// The WebSockets of this process, whatever is spoken over them.

import { GatewayError } from '../../errors/errors.ts'

/** datatracker.ietf.org/doc/html/rfc6455, 7.4.1. */
export const closeCodes = { normal: 1000, goingAway: 1001, refused: 1008 }

/** The connection, as far as it is used. */
export interface SocketPeer {
  /** Gives -1 where the frame waits for the client to read, 0 where the connection is gone. */
  send(text: string): number
  close(code: number, reason: string): void
}

/** What the listener tells a socket of its connection. */
export interface SocketEvents {
  onOpen(peer: SocketPeer): void
  onMessage(data: string | Uint8Array): void
  onDrain(): void
  onClose(): void
}

export interface OpenSocket extends SocketEvents {
  /** Closes when nothing is under way; nothing else is begun. */
  closeSoon(code: number, reason: string): void
}

export interface SocketLimits {
  /** False where the operator has switched sockets off. */
  readonly enabled: boolean
  /** Of one account, in this process. */
  readonly perAccount: number
  /** How long a connection may last, milliseconds. */
  readonly lifetimeMs: number
}

/** The open sockets of this process. */
export class OpenSockets {
  readonly limits: SocketLimits
  readonly #open = new Map<OpenSocket, string>()
  readonly #upgrade: (request: Request, socket: SocketEvents) => boolean

  /** `upgrade` makes a request's connection a socket; false if it is none. */
  constructor(limits: SocketLimits, upgrade: (request: Request, socket: SocketEvents) => boolean) {
    this.limits = limits
    this.#upgrade = upgrade
  }

  get size(): number {
    return this.#open.size
  }

  /** Makes a request a socket. Throws `rate_limit_exceeded` for one too many of an account, `invalid_request` for none. */
  open(request: Request, socket: OpenSocket, account: string): void {
    let ofAccount = 0
    for (const other of this.#open.values()) if (other === account) ofAccount += 1
    if (ofAccount >= this.limits.perAccount)
      throw new GatewayError('rate_limit_exceeded', {
        message: `This account has ${ofAccount} open sockets, which is as many as it may have.`,
      })
    if (!this.#upgrade(request, socket))
      throw new GatewayError('invalid_request', { message: 'The headers of the WebSocket are not complete.' })
    this.#open.set(socket, account)
  }

  onClosed(socket: OpenSocket): void {
    this.#open.delete(socket)
  }

  /** The gateway stops: idle sockets are closed, the others after what they are at. */
  drain(): void {
    for (const socket of this.#open.keys()) socket.closeSoon(closeCodes.goingAway, 'the gateway stops')
  }
}
