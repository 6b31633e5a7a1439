// A mail server as far as a client can tell: takes every mail and keeps its words.

export interface SmtpSink {
  readonly url: string
  /** Everything that was said after DATA, mail by mail, decoded. */
  readonly mails: readonly string[]
  stop(): void
}

/** Listens on loopback. `refuse` answers every recipient with a lasting error. */
export function startSmtpSink(refuse = false): SmtpSink {
  const mails: string[] = []
  const server = Bun.listen<{ text: string; mail: string | undefined }>({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      open(socket) {
        socket.data = { text: '', mail: undefined }
        socket.write('220 sink ESMTP\r\n')
      },
      data(socket, bytes) {
        socket.data.text += bytes.toString()
        for (let end = socket.data.text.indexOf('\r\n'); end >= 0; end = socket.data.text.indexOf('\r\n')) {
          const line = socket.data.text.slice(0, end)
          socket.data.text = socket.data.text.slice(end + 2)
          const answer = heard(socket.data, line)
          if (answer !== undefined) socket.write(`${answer}\r\n`)
        }
      },
    },
  })

  function heard(state: { mail: string | undefined }, line: string): string | undefined {
    if (state.mail !== undefined) {
      if (line !== '.') {
        state.mail += `${line}\n`
        return undefined
      }
      // Long lines come in quoted-printable, broken by a trailing equals sign.
      mails.push(state.mail.replaceAll('=\n', '').replaceAll('=3D', '='))
      state.mail = undefined
      return '250 taken'
    }
    const verb = line.slice(0, 4).toUpperCase()
    if (verb === 'DATA') state.mail = ''
    if (verb === 'DATA') return '354 go on'
    if (verb === 'RCPT' && refuse) return '550 nobody of that name'
    return verb === 'QUIT' ? '221 bye' : '250 fine'
  }

  return { url: `smtp://127.0.0.1:${server.port}`, mails, stop: () => server.stop(true) }
}
