// How long a connection may be idle while its answer is made, and after it.

export interface ConnectionParts {
  /** Lifts the idle timeout of a request with a slow answer; the call's own deadlines apply instead. */
  readonly keepOpen: (request: Request) => void
  /**
   * Ends that. To be called before the end of the answer is sent: afterwards it has no effect, and the connection of a
   * client that has vanished would stay open for ever.
   */
  readonly closeWhenIdle: (request: Request) => void
}

/** Runs work that may take longer than a connection may be idle. */
export async function whileOpen<T>(
  parts: ConnectionParts,
  request: Request,
  work: () => T | Promise<T>,
): Promise<T> {
  parts.keepOpen(request)
  try {
    return await work()
  } finally {
    parts.closeWhenIdle(request)
  }
}

/** The answer, after which the connection is closed when idle. */
export function closedWhenIdle(
  parts: Pick<ConnectionParts, 'closeWhenIdle'>,
  request: Request,
  answer: Response,
): Response {
  const { status, statusText, headers, body } = answer
  if (!body || !headers.get('content-type')?.startsWith('text/event-stream')) {
    parts.closeWhenIdle(request)
    return answer
  }
  const flush = () => parts.closeWhenIdle(request)
  return new Response(body.pipeThrough(new TransformStream({ flush })), { status, statusText, headers })
}
