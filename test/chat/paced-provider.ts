// A chat-completions provider that answers word by word, with a pause between, and sees its callers leave.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Provider {
  readonly url: string
  readonly calls: readonly { ending: 'open' | 'done' | 'left'; words: number }[]
  stop(): void
}

/**
 * Starts it on a free port. A word every `paceMs`, the first after `firstMs`; a whole answer comes after as long as its
 * words would take. No answer ends before `until`.
 */
export function startPacedProvider(
  words: readonly string[],
  paceMs = 15,
  firstMs = 0,
  until?: Promise<unknown>,
): Provider {
  let isOver = until === undefined
  const mayEnd = Promise.resolve(until).then(() => (isOver = true))
  const calls: { ending: 'open' | 'done' | 'left'; words: number }[] = []
  const server = createServer((request, response) => {
    let text = ''
    request.on('data', (bytes) => (text += String(bytes)))
    request.on('end', () => {
      const call = { ending: 'open' as 'open' | 'done' | 'left', words: 0 }
      calls.push(call)
      response.on('close', () => (call.ending = response.writableFinished ? 'done' : 'left'))
      const { stream } = JSON.parse(text) as { stream?: boolean }
      const usage = { prompt_tokens: 12, completion_tokens: words.length, total_tokens: 12 + words.length }
      const same = { id: 'chatcmpl-paced', created: 1_767_225_600, model: 'm' }
      if (stream !== true) {
        const message = { role: 'assistant', content: words.join('') }
        const whole = {
          ...same,
          object: 'chat.completion',
          choices: [{ index: 0, message, finish_reason: 'stop' }],
          usage,
        }
        const answer = () => {
          response.setHeader('content-type', 'application/json')
          response.end(JSON.stringify(whole))
        }
        setTimeout(() => void mayEnd.then(answer), paceMs * words.length)
        return
      }
      response.setHeader('content-type', 'text/event-stream')
      const send = (fields: object) =>
        response.write(`data: ${JSON.stringify({ ...same, object: 'chat.completion.chunk', ...fields })}\n\n`)
      const delta = (content: object, finish: string | null) => ({
        choices: [{ index: 0, delta: content, finish_reason: finish }],
      })
      const goOn = () => {
        const isLast = call.words === words.length - 1
        if (isLast && !isOver) void mayEnd.then(goOn)
        else sendWord()
      }
      const sendWord = () => {
        if (response.destroyed) return
        const word = words[call.words]
        if (word === undefined) {
          send(delta({}, 'stop'))
          send({ choices: [], usage })
          response.end('data: [DONE]\n\n')
          return
        }
        call.words += 1
        const taken = send(delta({ content: word }, null))
        if (taken || paceMs > 0) setTimeout(goOn, paceMs)
        else response.once('drain', goOn)
      }
      if (firstMs > 0) setTimeout(goOn, firstMs)
      else goOn()
    })
  })
  server.listen(0, '127.0.0.1')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/v1`,
    calls,
    stop: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}
